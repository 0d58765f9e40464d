"""The NumPy adapter: sized, re-iterable, each pass the next epoch, nothing left behind."""

from __future__ import annotations

import runpy
import threading
from pathlib import Path

import numpy as np
import pytest

from clipfeed.deliver import to_numpy
from clipfeed.errors import DecodeError

NumberedDataset = runpy.run_path(str(Path(__file__).with_name("fit") / "numbered.py"))["NumberedDataset"]


def our_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("clipfeed")]


def codes(items):
    return [tuple(round(float(value) * 255) for value in clips[0, 0, 0, 0, 1::-1]) for clips, _ in items]


def test_each_pass_is_the_next_epoch_and_has_len_items():
    ds = to_numpy(NumberedDataset(num_batches=4))
    assert len(ds) == 4
    for epoch in range(3):
        assert codes(ds) == [(epoch, number) for number in range(4)]
    ds.epochs.set_next(9)
    assert codes(ds) == [(9, number) for number in range(4)]


def test_two_iterators_alive_are_two_epochs_and_do_not_disturb_each_other():
    ds = to_numpy(NumberedDataset(num_batches=4))
    pairs = list(zip(ds, ds, strict=True))
    assert codes(first for first, _ in pairs) == [(0, number) for number in range(4)]
    assert codes(second for _, second in pairs) == [(1, number) for number in range(4)]


def test_leaving_the_loop_early_stops_the_work_ahead():
    ds = to_numpy(NumberedDataset(num_batches=50))
    for clips, labels in ds:
        assert our_threads() != []
        assert (clips.shape, labels.shape) == ((3, 2, 4, 4, 3), (3,))
        break
    assert our_threads() == []


def test_an_error_comes_out_as_it_is():
    error = DecodeError("no frame 3", path="data/2.avi")
    ds = to_numpy(NumberedDataset(broken=(0, 2), error=error))
    with pytest.raises(DecodeError) as caught:
        list(ds)
    assert caught.value is error
    assert our_threads() == []


def test_the_result_carries_what_the_dataset_knows():
    core = NumberedDataset(num_batches=1, labels=np.array([1, 0], np.int32), class_names=("run", "walk"))
    ds = to_numpy(core)
    assert ds.class_names == ["run", "walk"]
    assert ds.file_paths == ["data/0.avi", "data/1.avi"]
    assert list(ds.labels) == [1, 0]
    assert ds.clipfeed is core
