"""The tf.data adapter: a real Dataset, each iterator the next epoch, bytes ahead bounded, nothing kept alive."""

from __future__ import annotations

import gc
import runpy
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from clipfeed.deliver import to_numpy, to_tensorflow
from clipfeed.deliver._tensorflow import Ahead, plan_ahead
from clipfeed.errors import BudgetError, DecodeError
from clipfeed.records import ClipSpec

tf = pytest.importorskip("tensorflow", reason="the extra [tensorflow] is not installed")

NumberedDataset = runpy.run_path(str(Path(__file__).with_name("fit") / "numbered.py"))["NumberedDataset"]


def codes(ds):
    """(epoch, number) of each batch, from its pixels."""
    return [tuple(round(float(value) * 255) for value in clips[0, 0, 0, 0, 1::-1]) for clips, _ in ds]


def epoch_of(number, num_batches=5):
    return [(number, batch) for batch in range(num_batches)]


# What it is


def test_spec_is_static_and_cardinality_known():
    ds = to_tensorflow(NumberedDataset())
    assert isinstance(ds, tf.data.Dataset)
    assert ds.element_spec == (tf.TensorSpec((None, 2, 4, 4, 3), tf.float32), tf.TensorSpec((None,), tf.int32))
    assert len(ds) == 5
    assert int(ds.cardinality()) == 5


@pytest.mark.parametrize(
    ("made", "asked", "spec"),
    [
        ({"pad_last": True}, {}, [((3, 2, 4, 4, 3), "float32"), ((3,), "int32"), ((3,), "float32")]),
        ({"batch_size": None}, {"dtype": "uint8"}, [((2, 4, 4, 3), "uint8"), ((), "int32")]),
        ({"batch_size": None}, {"data_format": "channels_first"}, [((3, 2, 4, 4), "float32"), ((), "int32")]),
        (
            {},
            {"dtype": "float16", "data_format": "channels_first"},
            [((None, 3, 2, 4, 4), "float16"), ((None,), "int32")],
        ),
        (
            {"num_batches": 1, "labels": np.array([0, 1], np.int32), "class_names": ("a", "b", "c")},
            {"label_mode": "categorical"},
            [((None, 2, 4, 4, 3), "float32"), ((None, 3), "float32")],
        ),
        (
            {"num_batches": 1, "labels": np.array([0, 1], np.int32), "class_names": ("a", "b")},
            {"label_mode": "binary"},
            [((None, 2, 4, 4, 3), "float32"), ((None, 1), "float32")],
        ),
    ],
)
def test_elements_have_the_shapes_and_kinds_of_their_spec(made, asked, spec):
    ds = to_tensorflow(NumberedDataset(**made), **asked)
    assert [(tuple(part.shape), part.dtype.name) for part in ds.element_spec] == spec
    for element in ds:
        for part, (shape, dtype) in zip(element, spec, strict=True):
            assert tf.TensorShape(shape).is_compatible_with(part.shape)
            assert part.dtype == dtype


def test_without_labels_elements_are_clips():
    for ds in (to_tensorflow(NumberedDataset(), label_mode=None), to_tensorflow(NumberedDataset(is_labelled=False))):
        assert ds.element_spec == tf.TensorSpec((None, 2, 4, 4, 3), tf.float32)
        assert [clips.shape[0] for clips in ds] == [3, 3, 3, 3, 2]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("value_range", [None, (-1, 1), (-0.3, 2.7), (1.5, -3.3), (0, 255)])
def test_numbers_are_bit_equal_to_those_of_numpy(dtype, value_range):
    if dtype == "uint8" and value_range is not None:
        value_range = None
    spec = ClipSpec(num_frames=1, image_size=(16, 16), color_mode="grayscale")
    ds = NumberedDataset(num_batches=256, spec=spec)  # the pixels of batch i are i
    options = {"dtype": dtype, "value_range": value_range, "label_mode": None}
    expected = np.stack([clips[0] for clips in to_numpy(ds, **options)])
    plain = to_tensorflow(ds, **options)
    np.testing.assert_array_equal(np.stack([clips[0] for clips in plain.as_numpy_iterator()]), expected)

    @tf.function
    def gather():
        made = tf.TensorArray(plain.element_spec.dtype, 256, element_shape=spec.shape)
        for number, clips in plain.enumerate():
            made = made.write(tf.cast(number, tf.int32), clips[0])
        return made.stack()

    np.testing.assert_array_equal(gather().numpy(), expected)


def test_the_result_carries_what_the_dataset_knows():
    core = NumberedDataset(num_batches=1, labels=np.array([1, 0], np.int32), class_names=("run", "walk"))
    ds = to_tensorflow(core)
    assert ds.class_names == ["run", "walk"]
    assert ds.file_paths == ["data/0.avi", "data/1.avi"]
    assert list(ds.labels) == [1, 0]
    assert ds.clipfeed is core


# Epochs


def test_each_iterator_is_the_next_epoch_and_one_that_is_never_pulled_is_none():
    ds = to_tensorflow(NumberedDataset())
    for epoch in range(3):
        unused = iter(ds)
        assert codes(ds) == epoch_of(epoch)
        del unused


def test_two_iterators_alive_are_two_epochs():
    ds = to_tensorflow(NumberedDataset())
    pairs = list(zip(ds, ds, strict=True))
    assert codes(first for first, _ in pairs) == epoch_of(0)
    assert codes(second for _, second in pairs) == epoch_of(1)


def test_what_is_derived_behaves():
    ds = to_tensorflow(NumberedDataset())
    assert codes(ds.take(2)) == epoch_of(0)[:2]
    assert codes(ds.skip(3)) == epoch_of(1)[3:]
    assert codes(ds.repeat(2)) == epoch_of(2) + epoch_of(3)
    assert codes(ds.shard(2, 1)) == epoch_of(4)[1::2]
    assert codes(ds.prefetch(2)) == epoch_of(5)
    assert codes(ds.map(lambda clips, labels: (clips, labels + 1))) == epoch_of(6)
    cached = ds.cache()
    assert codes(cached) == codes(cached) == epoch_of(7)
    assert codes(first for first, _ in tf.data.Dataset.zip((ds, tf.data.Dataset.range(5)))) == epoch_of(8)
    for derived, size in [(ds.take(2), 2), (ds.skip(3), 2), (ds.repeat(2), 10), (ds.shard(2, 1), 2), (cached, 5)]:
        assert int(derived.cardinality()) == size


def test_batching_single_clips_keeps_the_cardinality():
    ds = to_tensorflow(NumberedDataset(num_batches=7, batch_size=None)).batch(3)
    assert int(ds.cardinality()) == 3
    assert [clips.shape[0] for clips, _ in ds] == [3, 3, 1]


def test_the_epoch_may_be_set():
    ds = to_tensorflow(NumberedDataset())
    ds.epochs.set_next(6)
    assert codes(ds) == epoch_of(6)
    assert codes(ds) == epoch_of(7)


# What it holds


@pytest.mark.parametrize(
    ("workers", "num_batches_in_budget", "expected"),
    [
        (2, 100, Ahead(num_parallel=2, num_prefetched=2, num_threads=0)),
        (8, 100, Ahead(num_parallel=8, num_prefetched=2, num_threads=0)),
        (8, 6, Ahead(num_parallel=4, num_prefetched=1, num_threads=2)),
        (8, 3, Ahead(num_parallel=1, num_prefetched=1, num_threads=8)),
        (8, 2, Ahead(num_parallel=1, num_prefetched=0, num_threads=8)),
        (1, 2, Ahead(num_parallel=1, num_prefetched=0, num_threads=0)),
    ],
)
def test_batches_ahead_and_threads_follow_from_the_budget(workers, num_batches_in_budget, expected):
    ds = NumberedDataset(workers=workers, decoding_bytes=1000)
    ds.memory_budget = num_batches_in_budget * ds.batch_bytes + 1000
    ahead = plan_ahead(ds)
    assert ahead == expected
    assert (ahead.num_batches + 1) * ds.batch_bytes + 1000 <= ds.memory_budget
    assert ahead.num_parallel * max(1, ahead.num_threads) <= workers


@pytest.mark.parametrize(
    ("bytes_per_value", "workers", "num_batches_in_budget", "num_converted"),
    [(4, 2, 13, 2), (4, 2, 12, 0), (2, 2, 9, 2), (2, 2, 8, 0), (1, 2, 100, 0), (4, 1, 100, 0)],
)
def test_floats_are_made_ahead_where_there_is_room(bytes_per_value, workers, num_batches_in_budget, num_converted):
    ds = NumberedDataset(workers=workers)
    ds.memory_budget = num_batches_in_budget * ds.batch_bytes
    ahead = plan_ahead(ds, bytes_per_value=bytes_per_value)
    assert ahead.num_converted == num_converted
    others = 1 + ahead.num_parallel + ahead.num_prefetched
    assert (others + num_converted * bytes_per_value) * ds.batch_bytes <= ds.memory_budget


def test_a_budget_below_two_batches_is_refused_with_the_arithmetic():
    ds = NumberedDataset(decoding_bytes=50)
    ds.memory_budget = 2 * ds.batch_bytes + 49
    with pytest.raises(BudgetError, match=f"together: {2 * ds.batch_bytes + 50} bytes"):
        to_tensorflow(ds)


def test_exactly_the_planned_batches_are_ahead():
    core = NumberedDataset(num_batches=40)
    ahead = plan_ahead(core, bytes_per_value=4)
    batches = iter(to_tensorflow(core))
    assert core.calls == []
    for handed_out in range(1, 40 - ahead.num_batches):
        next(batches)
        core.wait_for_calls(handed_out + ahead.num_batches)
        core.num_handed_out = handed_out
    assert core.most_ahead == ahead.num_batches + 1  # the one just pulled counts until it is noted
    del batches


def test_threads_of_one_batch_follow_from_the_plan():
    core = NumberedDataset(workers=8)
    core.memory_budget = 6 * core.batch_bytes
    list(to_tensorflow(core))
    assert {workers for _, _, workers in core.calls} == {2}


def test_what_is_derived_holds_the_dataset_and_nothing_else_does():
    def make():
        core = NumberedDataset()
        return to_tensorflow(core).map(lambda clips, labels: (clips, labels)).take(2), weakref.ref(core)

    ds, core = make()
    gc.collect()
    assert codes(ds) == epoch_of(0)[:2]
    batches = iter(ds)
    del ds
    gc.collect()
    assert codes([next(batches)]) == [(1, 0)]
    assert core() is not None
    del batches
    gc.collect()
    assert core() is None


def test_a_dataset_inside_a_function_of_another_is_held_too():
    def make():
        ds = to_tensorflow(NumberedDataset(num_batches=2))
        return tf.data.Dataset.range(2).flat_map(lambda _: ds)

    assert codes(make()) == epoch_of(0, 2) + epoch_of(1, 2)


def test_leaving_the_loop_early_leaves_no_thread_of_ours():
    for _ in to_tensorflow(NumberedDataset(num_batches=30)):
        break
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("clipfeed")] == []


# Errors


def test_an_error_names_the_file_and_the_original_is_kept():
    error = DecodeError("no frame at 12.480 s", path="run/v042.mp4", stage="decode", remedy="run `clipfeed check`")
    core = NumberedDataset(broken=(0, 2), error=error)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"DecodeError: run/v042.mp4: no frame at 12.480 s"):
        list(to_tensorflow(core))
    assert core.ledger.last_error is error
