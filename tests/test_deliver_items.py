"""What a batch becomes: labels in every form, clips in every kind, checked before a file is read."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from clipfeed.deliver import Delivery
from clipfeed.deliver.items import make_item, recipe_for
from clipfeed.records import ClipSpec
from clipfeed.transform import to_value_range

NumberedDataset = runpy.run_path(str(Path(__file__).with_name("fit") / "numbered.py"))["NumberedDataset"]


def item_of(ds, number=0, **options):
    return make_item(ds.batch(0, number), recipe_for(ds, Delivery(format="numpy", **options)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "grain"}, "format='grain': expected one of 'tf', 'keras', 'numpy'"),
        ({"label_mode": "sparse"}, "label_mode='sparse': expected one of"),
        ({"dtype": "float64"}, "dtype='float64': expected one of"),
        ({"data_format": "NCDHW"}, "data_format='NCDHW': expected one of"),
        ({"dtype": "uint8", "value_range": (0, 1)}, "uint8"),
        ({"value_range": (1, 1)}, "value_range"),
    ],
)
def test_a_value_that_no_delivery_can_have_is_refused_when_it_is_given(options, message):
    with pytest.raises(ValueError, match=message):
        Delivery(**options)


def test_int_labels_are_int32():
    clips, labels = item_of(NumberedDataset(), number=2)
    assert (clips.dtype, clips.shape) == (np.float32, (3, 2, 4, 4, 3))
    assert labels.dtype == np.int32
    assert labels.tolist() == [2, 2, 2]


def test_categorical_labels_are_one_hot_over_all_classes():
    ds = NumberedDataset(num_batches=1, labels=np.array([2, 0], np.int32), class_names=("a", "b", "c", "d"))
    _, labels = item_of(ds, label_mode="categorical")
    assert labels.dtype == np.float32
    assert labels.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]


def test_categorical_labels_without_class_names_have_as_many_columns_as_the_largest_label_needs():
    ds = NumberedDataset(num_batches=2, labels=np.array([2, 0, 5, 1, 1], np.int32))
    _, labels = item_of(ds, label_mode="categorical")
    assert labels.shape == (3, 6)


def test_binary_labels_are_a_column_and_need_two_classes():
    labels = np.array([1, 0], np.int32)
    _, column = item_of(NumberedDataset(num_batches=1, labels=labels, class_names=("a", "b")), label_mode="binary")
    assert column.dtype == np.float32
    assert column.tolist() == [[1], [0]]
    with pytest.raises(ValueError, match="exactly 2 classes, got 3: a, b, c"):
        item_of(NumberedDataset(num_batches=1, labels=labels, class_names=("a", "b", "c")), label_mode="binary")


def test_vector_labels_pass_as_they_are():
    vectors = np.array([[0.5, 1, 0], [0, 0, 1]], np.float32)
    ds = NumberedDataset(num_batches=1, labels=vectors)
    for mode in ("int", "categorical"):
        _, labels = item_of(ds, label_mode=mode)
        assert labels.dtype == np.float32
        assert labels.tolist() == vectors.tolist()
    with pytest.raises(ValueError, match="3 labels a clip"):
        item_of(ds, label_mode="binary")


def test_without_labels_or_label_mode_only_clips_come():
    assert isinstance(item_of(NumberedDataset(), label_mode=None), np.ndarray)
    assert isinstance(item_of(NumberedDataset(is_labelled=False)), np.ndarray)
    assert isinstance(item_of(NumberedDataset(is_labelled=False, pad_last=True)), np.ndarray)


def test_padding_and_weights_make_items_of_three():
    *_, weights = item_of(NumberedDataset(num_batches=2, pad_last=True), number=1)
    assert weights.dtype == np.float32
    assert weights.tolist() == [1, 1, 0]
    given = np.array([1, 2, 3, 4, 5], np.float32)
    *_, weights = item_of(NumberedDataset(num_batches=2, weights=given), number=1)
    assert weights.tolist() == [4, 5]


def test_single_clips_have_no_first_axis():
    ds = NumberedDataset(batch_size=None)
    clip, label = item_of(ds, number=3)
    assert clip.shape == (2, 4, 4, 3)
    assert label.shape == ()
    assert int(label) == 3


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_channels_first_moves_the_channels_and_changes_no_number(dtype):
    ds = NumberedDataset(spec=ClipSpec(num_frames=3, image_size=(4, 5)))
    last, _ = item_of(ds, dtype=dtype, data_format="channels_last")
    first, _ = item_of(ds, dtype=dtype, data_format="channels_first")
    assert first.shape == (3, 3, 3, 4, 5)
    assert first.flags.c_contiguous
    assert first.dtype == last.dtype == dtype
    np.testing.assert_array_equal(np.moveaxis(first, 1, -1), last)


@pytest.mark.parametrize("value_range", [None, (-1, 1), (0.25, 7.5)])
def test_numbers_are_those_of_the_stated_formula(value_range):
    ds = NumberedDataset(num_batches=200)
    low, high = np.float32(value_range or (0, 1))
    clips, _ = item_of(ds, number=199, value_range=value_range)
    assert clips[0, 0, 0, 0, 0] == low + (np.float32(199) / np.float32(255)) * (high - low)
    pixels = ds.batch(0, 199).clips
    np.testing.assert_array_equal(clips, to_value_range(pixels, "float32", value_range))
    halves, _ = item_of(ds, number=199, value_range=value_range, dtype="float16")
    np.testing.assert_array_equal(halves, clips.astype(np.float16))


def test_uint8_clips_are_untouched():
    ds = NumberedDataset()
    clips, _ = item_of(ds, number=4, dtype="uint8")
    np.testing.assert_array_equal(clips, ds.batch(0, 4).clips)


def test_the_line_for_the_user_says_kind_shape_and_range():
    ds = NumberedDataset(batch_size=8, spec=ClipSpec())
    described = Delivery().describe(ds)
    assert described == "clips: float32 (8, 20, 64, 64, 3) in 0..1, no Rescaling layer needed"
    first = Delivery(value_range=(-1, 1), data_format="channels_first", dtype="float16").describe(ds)
    assert first == "clips: float16 (8, 3, 20, 64, 64) in -1..1, no Rescaling layer needed"
    single = NumberedDataset(batch_size=None, spec=ClipSpec(num_frames=2, image_size=(4, 4)))
    assert Delivery(dtype="uint8").describe(single) == "clips: uint8 (2, 4, 4, 3) in 0..255, untouched"
