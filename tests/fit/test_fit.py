"""Real `fit`, `evaluate` and `predict` on TensorFlow, JAX and PyTorch: every batch once an epoch, nothing left behind.

Each backend runs all scenarios in one process of its own (`scenarios.py`); the tests read what a model was given there.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERAS = [("tensorflow", "keras"), ("jax", "keras"), ("torch", "keras")]
CASES = [*KERAS, ("tensorflow", "tf")]
# Batches are mapped and unmapped, so that memory measured is memory held: of what lay on its heaps glibc gives back
# the ends only, and hoards tens of MB of float batches.
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "MALLOC_MMAP_THRESHOLD_": "65536"}
VALIDATION = {"0.25": 3, "0.26": 3, "0.27": 2}

on_every_backend = pytest.mark.parametrize(("backend", "format"), CASES, ids=lambda name: name)


def run_child(script, backend, *args):
    """Run a script on a backend; skip where the backend is not installed, or fail if that is asked for."""
    needed = {backend, "keras", *(["tensorflow"] if args[0] == "tf" else [])}
    missing = sorted(name for name in needed if importlib.util.find_spec(name) is None)
    if missing and os.environ.get("CLIPFEED_FAIL_WITHOUT_EXTRAS") != "1":
        pytest.skip(f"not installed: {', '.join(missing)}")
    assert not missing
    with tempfile.TemporaryDirectory() as home:
        env = os.environ | ENVIRONMENT | {"KERAS_BACKEND": backend, "KERAS_HOME": home}
        command = [sys.executable, str(HERE / script), *args]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)


@functools.cache
def run_scenarios(backend, format, *args):
    if backend != "tensorflow" and format == "keras":
        args += ("--without", "tensorflow")
    child = run_child("scenarios.py", backend, format, *args)
    assert child.returncode == 0, child.stderr[-4000:]
    return json.loads(child.stdout.splitlines()[-1])


def facts_of(scenario, backend, format, *args):
    facts = run_scenarios(backend, format, *args)[scenario]
    assert "error" not in facts, facts["error"]
    return facts


def epoch(number, num_batches=5, size=3):
    """Rows of each batch of one epoch, the last of which has one row less."""
    rows = [size] * (num_batches - 1) + [size - 1]
    return {f"{number}.{batch}": count for batch, count in enumerate(rows)}


def check(facts, epochs):
    assert facts["epochs"] == epochs
    assert facts["wrong"] == 0
    assert facts["threads"] == []


def together(*epochs):
    """What came in several epochs of Keras, added up."""
    keys = [key for given in epochs for key in given]
    return {key: sum(given.get(key, 0) for given in epochs) for key in keys}


@on_every_backend
def test_fit_gives_every_batch_once_an_epoch_and_the_validation_set_after_it(backend, format):
    facts = facts_of("plain_fit_with_validation", backend, format)
    check(facts, [epoch(number) | VALIDATION for number in range(3)])


@on_every_backend
def test_fit_without_permuted_numbers_is_the_same(backend, format):
    check(facts_of("plain_fit_without_permuted_numbers", backend, format), [epoch(0), epoch(1)])


@on_every_backend
def test_epoch_sync_makes_a_later_start_exact(backend, format):
    facts = facts_of("fit_from_a_later_epoch", backend, format)
    check(facts, [epoch(4) | VALIDATION, epoch(5) | VALIDATION])


@on_every_backend
def test_epoch_sync_of_one_dataset_leaves_others_alone(backend, format):
    facts = facts_of("fit_with_sync_of_one_dataset", backend, format)
    check(facts, [epoch(0), epoch(1)])
    assert facts["upcoming"] == 0


@on_every_backend
@pytest.mark.parametrize(("sync", "passes"), [("", (0, 2)), ("_without_sync", (0, 1))], ids=["sync", "counted"])
def test_a_pass_spread_over_epochs_of_keras_loses_and_doubles_nothing(backend, format, sync, passes):
    facts = facts_of(f"epochs_shorter_than_the_data{sync}", backend, format)
    given = facts["epochs"]
    assert [len(part) for part in given] == [3, 2, 3, 2]
    assert together(*given[:2]) == epoch(passes[0])
    assert together(*given[2:]) == epoch(passes[1])
    assert facts["threads"] == []


@on_every_backend
def test_steps_per_epoch_and_validation_steps_as_long_as_the_data_change_nothing(backend, format):
    facts = facts_of("epochs_as_long_as_the_data", backend, format)
    check(facts, [epoch(number) | {"0.25": 3, "0.26": 3} for number in range(3)])


@on_every_backend
def test_class_weights_weigh(backend, format):
    facts = facts_of("class_weight", backend, format)
    assert facts["epochs"] == [epoch(0), epoch(1)]
    assert facts["silenced_loss"] == [0]


@on_every_backend
def test_rows_of_padding_weigh_nothing(backend, format):
    check(facts_of("padded", backend, format), [epoch(0) | VALIDATION, epoch(1) | VALIDATION])


@on_every_backend
def test_a_second_fit_goes_on_with_the_next_epoch(backend, format):
    check(facts_of("two_fits_of_one_dataset", backend, format), [epoch(number) for number in range(4)])


@on_every_backend
def test_evaluating_the_training_data_between_batches_disturbs_no_epoch(backend, format):
    facts = facts_of("evaluation_of_the_training_data_between_batches", backend, format)
    for number, part in enumerate(facts["epochs"] + facts["evaluated"]):
        first = int(next(iter(part)).split(".")[0])
        assert part == epoch(first), number
    assert facts["threads"] == []


@on_every_backend
def test_evaluate_and_predict_keep_the_order_of_the_labels(backend, format):
    facts = facts_of("evaluate_and_predict", backend, format)
    assert facts["first"] == VALIDATION
    assert facts["both"] == together(VALIDATION, VALIDATION)
    assert facts["numbers"] == facts["labels"] == [25, 25, 25, 26, 26, 26, 27, 27]
    assert facts["rows"] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert facts["wrong"] == 0
    assert facts["threads"] == []


@on_every_backend
def test_fit_on_evaluation_data_gives_every_batch_once(backend, format):
    check(facts_of("fit_on_evaluation_data", backend, format), [VALIDATION, VALIDATION])


@on_every_backend
def test_a_broken_video_ends_fit_names_the_file_and_is_kept(backend, format):
    facts = facts_of("a_broken_video", backend, format)
    assert "DecodeError: run/v042.mp4: no frame at 12.480 s" in facts["message"] or facts["is_original"]
    assert facts["is_original"] == (backend != "tensorflow")
    assert facts["kept"]
    assert facts["threads"] == []


@on_every_backend
def test_a_stop_between_batches_spoils_no_later_fit(backend, format):
    facts = facts_of("a_stop_between_batches", backend, format)
    check(facts, [epoch(0, num_batches=40)])
    if (backend, format) != ("tensorflow", "keras"):  # there Keras itself keeps every dataset it was given
        assert facts["threads_after"] == []


@on_every_backend
def test_channels_stand_where_keras_is_configured_to_have_them(backend, format):
    facts = facts_of("channels_follow_the_configuration", backend, format)
    assert facts == {"first": [3, 3, 2, 4, 4], "last": [3, 2, 4, 4, 3]}


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_without_tensorflow_everything_works_and_nothing_imports_it(backend):
    facts = run_scenarios(backend, "keras")
    assert facts["backend"] == backend
    assert "tensorflow" not in facts["modules"]


@pytest.mark.parametrize("format", ["keras", "tf"])
def test_a_mirrored_strategy_gets_every_batch_once_and_epoch_sync_the_exact_epochs(format):
    facts = facts_of("under_a_strategy", "tensorflow", format)
    validation = {"0.25": 4, "0.26": 4, "0.27": 3}
    # Without EpochSync the look that Keras takes at the first batches under a strategy counts as an epoch.
    check(facts["plain"], [epoch(number, num_batches=6, size=4) | validation for number in (1, 2, 3)])
    check(facts["sync"], [epoch(number, num_batches=6, size=4) for number in (1, 2)])
    given = facts["steps"]["epochs"]
    assert together(*given[:2]) == epoch(0, num_batches=6, size=4)
    assert together(*given[2:]) == epoch(2, num_batches=6, size=4)


def test_tf_data_on_another_backend_counts_the_look_at_the_first_batch_unless_synced_and_takes_no_gpu():
    names = ("plain_fit_with_validation", "fit_from_a_later_epoch", "gpus_of_another_framework")
    plain, synced, gpus = (facts_of(name, "jax", "tf", "--only", *names) for name in names)
    check(plain, [epoch(number) | VALIDATION for number in (1, 2, 3)])
    check(synced, [epoch(4) | VALIDATION, epoch(5) | VALIDATION])
    assert gpus["hidden"] == [[[], "GPU"]]


def test_on_its_own_backend_tensorflow_keeps_its_gpus():
    assert facts_of("gpus_of_another_framework", "tensorflow", "tf")["hidden"] == []


@on_every_backend
def test_thirty_epochs_hold_no_more_memory_and_leaving_in_mid_epoch_does_not_hang(backend, format):
    child = run_child("memory.py", backend, format)
    assert child.returncode == 3, child.stderr[-4000:]
    megabytes = json.loads(child.stdout.splitlines()[0])
    assert len(megabytes) == 30
    # By epoch 5 the frameworks have compiled what they compile. One float batch kept an epoch would be 6.3 MB.
    assert (megabytes[-1] - megabytes[5]) / (len(megabytes) - 6) < 0.3
