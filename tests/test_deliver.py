"""The door of `deliver`: the right adapter, lazily, or an error that says what to install."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clipfeed.deliver
from clipfeed.deliver import Delivery, deliver, require_format, to_keras, to_numpy, to_tensorflow
from clipfeed.errors import MissingDependencyError

NumberedDataset = runpy.run_path(str(Path(__file__).with_name("fit") / "numbered.py"))["NumberedDataset"]


def test_importing_deliver_imports_no_framework():
    code = "import sys, clipfeed.deliver; print({'keras', 'tensorflow', 'jax', 'torch'} & set(sys.modules))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "set()"


def test_without_tensorflow_the_tf_format_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    for call in (lambda: require_format("tf"), lambda: to_tensorflow(NumberedDataset())):
        with pytest.raises(MissingDependencyError, match=r'pip install "clipfeed\[tensorflow\]"') as caught:
            call()
        assert isinstance(caught.value, ImportError)


def test_without_keras_the_keras_format_and_the_callback_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)
    calls = (
        lambda: require_format("keras"),
        lambda: to_keras(NumberedDataset()),
        lambda: clipfeed.deliver.EpochSync,
    )
    for call in calls:
        with pytest.raises(MissingDependencyError, match=r'pip install "clipfeed\[tensorflow\]"; or "clipfeed\[jax\]"'):
            call()


def test_the_numpy_format_needs_nothing(monkeypatch):
    for name in ("keras", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)
    require_format("numpy")
    assert len(list(to_numpy(NumberedDataset()))) == 5


def test_a_delivery_reaches_the_adapter_whole():
    delivery = Delivery(
        format="numpy", label_mode=None, dtype="float16", value_range=(-1, 1), data_format="channels_first"
    )
    first = next(iter(deliver(NumberedDataset(), delivery)))
    assert (first.dtype, first.shape) == (np.float16, (3, 3, 2, 4, 4))


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="to_grain"):
        clipfeed.deliver.to_grain  # noqa: B018  # asking is the test
