"""What is handed on between the steps: checked when made, small when pickled, one record at a time when read."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from clipfeed.records import (
    Batch,
    ClipSpec,
    Failure,
    Geometry,
    RepeatedTexts,
    StoreRef,
    TextColumn,
    VideoColumns,
    VideoIndex,
    VideoInfo,
    check_choice,
    checked_flag,
    checked_path,
    checked_seed,
    join_key,
    pack_times,
    unpack_times,
)
from clipfeed.records._index import _pack_array, _unpack_array
from clipfeed.seeds import hash_key


def make_columns(keys: list[str]) -> VideoColumns:
    """Columns of videos whose class is the first folder, with 10, 11, 12, ... frames; every third is variable."""
    count = len(keys)
    names = tuple(dict.fromkeys([*(key.split("/")[0] for key in keys), "avi", "mpeg4", "train", "val"]))
    code_of = {name: code for code, name in enumerate(names)}
    counts = np.arange(10, 10 + count, dtype=np.int32)
    unknown = np.full(count, -1, np.int32)
    pts_sizes = np.where(np.arange(count) % 3 == 2, counts, 0)
    texts = TextColumn.from_texts(keys)

    def repeat(value: int) -> np.ndarray:
        return np.full(count, value, np.int32)

    return VideoColumns(
        keys=texts,
        groups=RepeatedTexts(repeat(-1), names, texts),
        row_ids=np.arange(1, count + 1),
        size_bytes=np.arange(count) + 1000,
        mtime_ns=np.arange(count) + 10**18,
        class_codes=np.array([code_of[key.split("/")[0]] for key in keys], np.int32),
        part_codes=np.array(
            [code_of["val"] if place % 4 == 3 else code_of["train"] for place in range(count)], np.int32
        ),
        container_codes=repeat(code_of["avi"]),
        codec_codes=repeat(code_of["mpeg4"]),
        stream_indices=repeat(0),
        widths=repeat(320),
        heights=repeat(240),
        rotations=repeat(90),
        sample_aspect_ratios=np.tile([4, 3], (count, 1)),
        average_fps=np.tile([30000, 1001], (count, 1)),
        time_bases=np.tile([1, 600], (count, 1)),
        is_variable_rate=pts_sizes > 0,
        num_frames_from_header=counts + 1,
        num_frames_from_table=counts,
        num_frames_from_packets=unknown,
        num_frames_from_decode=unknown,
        key_frames=np.tile(np.array([0, 5], np.int32), count),
        key_frame_offsets=np.arange(count + 1) * 2,
        frame_pts=np.concatenate([np.arange(size) * 7 for size in pts_sizes]).astype(np.int64),
        frame_pts_offsets=np.concatenate([[0], np.cumsum(pts_sizes)]).astype(np.int64),
        vocabulary=names,
    )


KEYS = ["jump/a.avi", "jump/b.avi", "run/c d.avi", "run/é.avi", "walk/日本.avi"]


def make_index(keys: list[str] = KEYS, **more: object) -> VideoIndex:
    columns = make_columns(keys)
    facts = {"class_names": ("jump", "run", "walk"), "rows": np.arange(len(keys)), **more}
    return VideoIndex(root="data/", columns=columns, **facts)


# -------------------------------------------------------------------------------------------------------------- texts


def test_texts_are_found_by_position_slice_and_value() -> None:
    texts = TextColumn.from_texts(["a", "", "bb", "é\udcff", "a/b"])
    assert list(texts) == ["a", "", "bb", "é\udcff", "a/b"]
    assert texts[-1] == "a/b"
    assert list(texts[1:4:2]) == ["", "é\udcff"]
    assert list(texts.take(np.array([4, 0, -2]))) == ["a/b", "a", "é\udcff"]
    with pytest.raises(IndexError):
        texts[5]


def test_a_text_is_found_whole_and_never_across_or_within_others() -> None:
    texts = TextColumn.from_texts(["ab", "b", "abb", "bb", "é"])
    assert [texts.find(text) for text in ("ab", "b", "abb", "bb", "é")] == [0, 1, 2, 3, 4]
    assert [texts.find(text) for text in ("a", "bab", "", "bbb")] == [-1, -1, -1, -1]


def test_repeated_texts_keep_no_text_for_rows_that_repeat_another_column() -> None:
    groups = RepeatedTexts(np.array([1, -1, 0], np.int32), ("x", "y"), ["k0", "k1", "k2"])
    assert list(groups) == ["y", "k1", "x"]
    assert list(groups[1:]) == ["k1", "x"]
    assert len(groups) == 3


@pytest.mark.parametrize(
    "values",
    [
        np.arange(1000),
        np.array([], np.int64),
        np.array([5, -3, 2**62, -(2**62)]),
        np.array([2**31 - 1, -(2**31), 0], np.int32),
        np.array([[0.5, 1.5], [np.nan, -0.0]], np.float32),
        np.array([0.25, 1e30], np.float32),
        np.zeros((0, 3), np.float32),
    ],
)
def test_packed_arrays_come_back_bit_for_bit(values: np.ndarray) -> None:
    again = _unpack_array(*_pack_array(values))
    assert (again.dtype, again.shape) == (values.dtype, values.shape)
    assert again.tobytes() == values.tobytes()


# -------------------------------------------------------------------------------------------------------------- index


def test_a_record_says_what_the_columns_say() -> None:
    record = make_index().records[2]
    assert (record.key, record.path, record.class_name, record.label) == ("run/c d.avi", "data/run/c d.avi", "run", 1)
    assert (record.row, record.size_bytes, record.mtime_ns) == (3, 1002, 10**18 + 2)
    assert (record.group, record.video_id) == ("run/c d.avi", hash_key("run/c d.avi"))
    assert (record.info.container, record.info.codec, record.info.rotation) == ("avi", "mpeg4", 90)
    assert record.info.average_fps == Fraction(30000, 1001)
    assert record.info.sample_aspect_ratio == Fraction(4, 3)
    assert (record.num_frames, record.info.num_frames_from_header) == (12, 13)
    assert record.info.num_frames_from_packets is None
    assert record.info.key_frames.tolist() == [0, 5]
    assert record.info.frame_pts is not None
    assert record.info.frame_pts.tolist() == [7 * number for number in range(12)]


@pytest.mark.parametrize("pts", [[-5, 0, 2**40], [7], list(range(0, 9000, 30))])
def test_packed_times_come_back_exactly(pts: list[int]) -> None:
    packed = [b"", pack_times(np.array(pts)), b""]
    columns = dataclasses.replace(
        make_columns(KEYS[:3]),
        frame_pts=b"".join(packed),
        frame_pts_offsets=np.cumsum([0, *(len(data) for data in packed)]),
    )
    assert [columns.info(place).frame_pts is None for place in range(3)] == [True, False, True]
    assert columns.info(1).frame_pts.tolist() == pts
    assert len(packed[1]) < 60


def test_a_flipped_bit_of_packed_times_never_gives_other_times() -> None:
    pts = np.cumsum(np.arange(200) % 7, dtype=np.int64)
    packed = pack_times(pts)
    num_refused = 0
    for bit in range(8 * len(packed)):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            np.testing.assert_array_equal(unpack_times(bytes(damaged)), pts)  # some bits are padding
        except ValueError as error:
            num_refused += "are no packed times" in str(error)
    assert num_refused > 0.9 * 8 * len(packed)


def test_records_are_a_sequence() -> None:
    records = make_index().records
    assert len(records) == 5
    assert [record.key for record in records] == KEYS
    assert records[-1].key == KEYS[-1]
    assert [record.key for record in records[1:3]] == KEYS[1:3]
    with pytest.raises(IndexError):
        records[5]


def test_labels_follow_the_order_of_the_class_names() -> None:
    assert make_index().labels.tolist() == [0, 0, 1, 1, 2]
    assert make_index(class_names=("walk", "run", "jump")).labels.tolist() == [2, 2, 1, 1, 0]
    assert make_index(class_names=None).labels is None


def test_a_selection_keeps_rows_and_what_goes_with_them_together() -> None:
    index = make_index(
        given_labels=np.array([9, 8, 7, 6, 5], np.int32),
        given_groups=TextColumn.from_texts(list("abcde")),
        starts=np.arange(5),
        ends=np.array([5, 6, 7, 8, -1]),
        weights=np.arange(5, dtype=np.float32),
    ).select([4, 1], "val")
    assert (index.keys, index.name) == ([KEYS[4], KEYS[1]], "val")
    assert index.labels.tolist() == [5, 8]
    assert index.groups == ["e", "b"]
    assert [(record.start, record.end, record.weight) for record in index.records] == [(4, None, 4.0), (1, 6, 1.0)]
    assert [record.num_frames for record in index.records] == [10, 5]


def test_values_of_another_number_than_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="4 values for 5 rows"):
        make_index(weights=np.ones(4, np.float32))


def test_a_given_label_takes_its_own_name_and_never_the_folders() -> None:
    index = make_index(given_labels=np.array([2, 1, 0, 1, 7], np.int32), class_names=("0", "1", "2"))
    assert [record.class_name for record in index.records] == ["2", "1", "0", "1", None]
    assert [record.class_name for record in make_index(class_names=None).records] == [None] * 5


def test_several_labels_a_row_come_out_as_a_vector() -> None:
    labels = np.eye(5, 3, dtype=np.float32)
    index = make_index(given_labels=labels)
    assert index.records[1].label == (0.0, 1.0, 0.0)
    assert index.classes_without_videos == ()


def test_folders_above_the_classes_come_out_as_parts_in_a_fixed_order() -> None:
    parts = make_index().folder_parts()
    assert {name: (part.keys, part.name) for name, part in parts.items()} == {
        "train": ([KEYS[0], KEYS[1], KEYS[2], KEYS[4]], "train"),
        "val": ([KEYS[3]], "val"),
    }
    columns = dataclasses.replace(make_columns(KEYS), part_codes=np.full(5, -1, np.int32))
    assert dataclasses.replace(make_index(), columns=columns).folder_parts() == {}


def test_the_summary_names_what_was_left_out_and_classes_without_videos() -> None:
    failures = tuple(Failure(path=f"data/{n}.avi", stage="probe", reason="empty file") for n in range(12))
    text = make_index(class_names=("hop", "jump", "run", "walk"), failures=failures).summary()
    assert text.splitlines()[:4] == [
        "5 videos belonging to 4 classes",
        "frames per video: 10 to 14, median 12",
        "classes without a usable video: hop",
        "left out: 12 files",
    ]
    assert "data/9.avi: probe: empty file" in text
    assert "data/10.avi" not in text
    assert text.endswith("... and 2 more")


# ------------------------------------------------------------------------------------------------------------ pickling


def reopen(store: StoreRef) -> VideoColumns:
    return make_columns([f"jump/{number}.avi" for number in range(store.snapshot)])


def big_index(count: int, rows: np.ndarray) -> VideoIndex:
    ref = StoreRef(path="/cache/a.sqlite", root="data", snapshot=count, reopen=reopen)
    return VideoIndex(root="data", columns=reopen(ref), rows=rows, class_names=("jump",), store=ref)


def test_an_index_without_a_store_carries_its_columns() -> None:
    again = pickle.loads(pickle.dumps(make_index(given_labels=np.arange(5, dtype=np.int32))))
    assert again.keys == KEYS
    assert again.labels.tolist() == [0, 1, 2, 3, 4]
    assert [record.info for record in again.records] == [record.info for record in make_index().records]


def test_an_index_with_a_store_carries_its_rows_and_reads_the_rest_again() -> None:
    index = dataclasses.replace(
        big_index(6766, np.arange(0, 6766, 3)),
        failures=(Failure(path="data/é\udcff", stage="find", reason="a FIFO"),),
        weights=np.linspace(0, 1, 2256, dtype=np.float32),
        name="val",
    )
    for again in (pickle.loads(pickle.dumps(index)), copy.copy(index)):
        assert again.rows.tolist() == index.rows.tolist()
        assert (again.failures, again.name, again.class_names) == (index.failures, "val", ("jump",))
        assert again.weights.tobytes() == index.weights.tobytes()
        assert again.records[7] == index.records[7]


def test_pickles_stay_small_for_any_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    assert len(pickle.dumps(big_index(6766, np.arange(6766)))) < 2_000
    assert len(pickle.dumps(big_index(6766, np.flatnonzero(rng.random(6766) < 0.8)))) < 10_000
    assert len(pickle.dumps(big_index(6766, rng.permutation(6766)))) < 30_000


def test_pickles_stay_small_with_many_failures_and_rows() -> None:
    failures = tuple(
        Failure(path=f"data/class_{n % 400:03d}/abcdefghijk_{n:06d}.mp4", stage="probe", reason="moov atom not found")
        for n in range(12_000)
    )
    rows = np.flatnonzero(np.random.default_rng(0).random(240_000) < 0.8)
    ref = StoreRef(path="/cache/a.sqlite", root="data", snapshot=1, reopen=reopen)
    index = VideoIndex(root="data", columns=make_columns(KEYS), rows=rows, failures=failures, store=ref)
    assert len(pickle.dumps(index)) < 300_000


# --------------------------------------------------------------------------------------------- specs, videos and clips


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_frames": 0}, "num_frames=0"),
        ({"num_frames": True}, "num_frames=True"),
        ({"num_frames": 2.0}, "num_frames=2.0"),
        ({"clips_per_video": 0}, "clips_per_video=0"),
        ({"image_size": (64, -1)}, r"image_size=\(64, -1\)"),
        ({"image_size": 0}, "image_size=0"),
        ({"image_size": (64, 64, 3)}, r"image_size=\(64, 64, 3\)"),
        ({"image_size": "64"}, "image_size='64'"),
        ({"image_size": np.array([[64, 64]])}, "image_size=array"),
        ({"image_size": np.array([64.0, 64.0])}, "image_size=array"),
        ({"num_frames": 2**31}, "num_frames=2147483648: .* at most 2147483647"),
        ({"interpolation": ["bilinear"]}, "interpolation=.'bilinear'.: expected one of"),
        ({"color_mode": np.array(["rgb", "rgb"])}, "color_mode=array"),
        ({"sampling": "random"}, "sampling='random'"),
        ({"interpolation": "cubic"}, "interpolation='cubic'.*'bicubic'"),
        ({"aspect": "squeeze"}, "aspect='squeeze'.*'stretch'"),
        ({"short_videos": "pad"}, "short_videos='pad'.*'repeat_last'"),
        ({"color_mode": "rgba"}, "color_mode='rgba'.*'grayscale'"),
    ],
)
def test_a_spec_that_no_clip_can_have_is_refused_by_name(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipSpec(**wrong)


def test_counts_from_numpy_become_plain_ints() -> None:
    spec = ClipSpec(num_frames=np.int8(100), clips_per_video=np.int8(2), image_size=64)
    assert spec.num_bytes == 100 * 64 * 64 * 3
    assert (type(spec.num_frames), type(spec.clips_per_video)) == (int, int)


def test_an_image_size_may_come_from_numpy() -> None:
    assert ClipSpec(image_size=np.int64(48)).size == (48, 48)
    assert ClipSpec(image_size=np.array([48, 64])).size == (48, 64)
    assert all(type(side) is int for side in ClipSpec(image_size=np.array([48, 64])).size)


def test_a_spec_knows_its_shape_and_size() -> None:
    spec = ClipSpec(num_frames=16, image_size=112, color_mode="grayscale")
    assert (spec.shape, spec.num_bytes) == ((16, 112, 112, 1), 16 * 112 * 112)
    assert ClipSpec(image_size=(48, 64)).shape == (20, 48, 64, 3)


@pytest.mark.parametrize("value", ["no", "", 0, 1, None, [], np.int64(1), np.array([True, False])])
def test_a_flag_is_true_or_false_and_nothing_else(value: object) -> None:
    with pytest.raises(ValueError, match=r"shuffle=.*: expected True or False"):
        checked_flag("shuffle", value)


@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_flag_of_numpy_becomes_a_plain_one(value: object) -> None:
    assert checked_flag("shuffle", value) is bool(value)


@pytest.mark.parametrize("seed", [0, -5, 2**70, np.int64(-3), np.uint64(2**63)])
def test_any_whole_number_is_a_seed_and_becomes_a_plain_one(seed: object) -> None:
    assert type(checked_seed(seed)) is int
    assert checked_seed(seed) == seed


@pytest.mark.parametrize("seed", [None, True, np.True_, 1.0, "1", [1], float("nan")])
def test_what_is_no_seed_is_refused_with_its_value(seed: object) -> None:
    with pytest.raises(ValueError, match=r"seed=.*: expected a whole number"):
        checked_seed(seed)


def test_a_path_is_any_text_but_the_empty_one() -> None:
    assert [checked_path("index", path) for path in ("a b", ".", Path("x/y"), " ")] == ["a b", ".", "x/y", " "]
    with pytest.raises(ValueError, match="index='': an empty path names nothing"):
        checked_path("index", "")
    for wrong in (None, 3, b"data"):
        with pytest.raises(TypeError, match=f"index={wrong!r}: expected a str or a Path"):
            checked_path("index", wrong)


def test_a_choice_outside_a_closed_set_names_the_set() -> None:
    with pytest.raises(ValueError, match="label_mode='float': expected one of 'int', 'binary'"):
        check_choice("label_mode", "float", ("int", "binary"))


def test_decoding_is_believed_before_packets_before_the_table_and_never_the_header() -> None:
    counts = {"num_frames_from_header": 9, "num_frames_from_table": 8, "num_frames_from_packets": 7}
    info = VideoInfo(container="avi", codec="mpeg4", stream_index=0, width=1, height=1, **counts)
    assert info.num_frames == 7
    assert dataclasses.replace(info, num_frames_from_decode=0).num_frames == 0
    assert dataclasses.replace(info, num_frames_from_packets=None).num_frames == 8
    assert dataclasses.replace(info, num_frames_from_packets=None, num_frames_from_table=None).num_frames == 0


def test_columns_count_like_the_info_does() -> None:
    columns = dataclasses.replace(
        make_columns(KEYS),
        num_frames_from_decode=np.array([-1, 0, 3, -1, -1], np.int32),
        num_frames_from_packets=np.array([-1, 5, 5, 5, -1], np.int32),
        num_frames_from_table=np.array([-1, 8, 8, 8, 8], np.int32),
    )
    assert columns.num_frames.tolist() == [0, 0, 3, 5, 8]
    assert columns.num_frames.tolist() == [columns.info(place).num_frames for place in range(5)]


def test_the_display_size_heeds_aspect_and_rotation() -> None:
    info = VideoInfo(container="", codec="", stream_index=0, width=160, height=96, sample_aspect_ratio=Fraction(2))
    assert info.display_size == (96, 320)
    assert dataclasses.replace(info, rotation=90).display_size == (320, 96)


def test_a_quarter_turn_swaps_the_sides_of_a_decoded_frame() -> None:
    geometry = Geometry(scaled_height=48, scaled_width=64, rotation=270, height=64, width=48)
    assert geometry.turned_size == (64, 48)
    assert dataclasses.replace(geometry, rotation=180).turned_size == (48, 64)


@pytest.mark.parametrize(
    ("root", "joined"),
    [("data", "data/a.avi"), ("data/", "data/a.avi"), ("/", "/a.avi"), ("", "a.avi"), (".", "./a.avi")],
)
def test_a_root_is_joined_with_a_key_as_the_user_gave_it(root: str, joined: str) -> None:
    assert join_key(root, "a.avi") == joined


def test_a_batch_of_uneven_columns_is_refused() -> None:
    parts = {
        "clips": np.zeros((2, 1, 1, 1, 3), np.uint8),
        "labels": np.zeros(2, np.int32),
        "weights": np.ones(2, np.float32),
        "paths": ("a", "b"),
        "frame_indices": np.zeros((2, 1), np.int64),
        "mask": np.ones((2, 1), np.bool_),
    }
    assert len(Batch(epoch=0, number=0, **parts)) == 2
    with pytest.raises(ValueError, match=r"sizes \[1, 2\]"):
        Batch(epoch=0, number=0, **{**parts, "paths": ("a",)})
