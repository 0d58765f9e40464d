"""With a cache batches are what they are without one; what changes is how often a video is decoded."""

from __future__ import annotations

import dataclasses
import gc
import multiprocessing
import operator
import os
import pickle
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.decode import DecodedFrames, Decoder
from clipfeed.errors import CacheWarning
from clipfeed.load import pack_bytes
from clipfeed.records import ClipPlan, FrameTimes, Geometry
from clipfeed.split import kfold_index, split_index
from clipfeed.testing import make_tree, write_numbered_video, write_rotated, write_variable_rate

SIZE = (24, 32)
POLICIES = ["uniform", "stride", cf.Segments(), cf.Dense(frame_stride=2), cf.AtRate(fps=20)]
FIXED = cf.ClipSpec(num_frames=4, image_size=SIZE)
DRAWN = cf.ClipSpec(num_frames=4, image_size=SIZE, sampling=cf.Segments())
BOTH = pytest.mark.parametrize("spec", [FIXED, DRAWN], ids=["clips", "videos"])
NUM_VIDEOS = 12


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve videos: eight alike, and one that is longer, turned, of variable rate, and too short."""
    root = tmp_path_factory.mktemp("cached") / "data"
    make_tree(root, classes=("run", "walk"), sources_per_class=2, clips_per_source=2, num_frames=12)
    write_numbered_video(root / "run" / "long.mp4", num_frames=40, size=(48, 64), video_number=100)
    write_variable_rate(root / "run" / "variable.mp4", video_number=101)
    write_rotated(root / "walk" / "turned.mov", 90, num_frames=14, size=(64, 48))
    write_numbered_video(root / "walk" / "short.avi", num_frames=3, size=(48, 64), video_number=102)
    return root


@pytest.fixture(scope="module")
def index(root: Path, tmp_path_factory: pytest.TempPathFactory) -> cf.VideoIndex:
    return cf.build_index(root, index=tmp_path_factory.mktemp("index"))


def make(index: cf.VideoIndex, spec: cf.ClipSpec, cache: cf.Cache | Path | None, **arguments: Any) -> cf.VideoDataset:
    cache = cf.Cache(cache) if isinstance(cache, Path) else cache
    arguments = {"batch_size": 5, "seed": 3, "limits": cf.Limits(workers=2), **arguments}
    return cf.VideoDataset(index, spec, cache=cache, **arguments)


class Counting:
    """A decoder that notes which videos are decoded."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.keys: list[str] = []
        self.whole: list[str] = []

    def decode(self, plan: ClipPlan, geometry: Geometry, out: np.ndarray | None = None) -> DecodedFrames:
        self.keys.append(plan.record.key)
        return self._decoder.decode(plan, geometry, out=out)

    def decode_chunks(self, plan: ClipPlan, geometry: Geometry) -> Iterator[DecodedFrames]:
        self.keys.append(plan.record.key)
        self.whole.append(plan.record.key)
        return self._decoder.decode_chunks(plan, geometry)


def decoded(ds: cf.VideoDataset, *, epochs: range = range(1)) -> list[str]:
    """Keys of the videos that some epochs decode, sorted."""
    ds._decoder = Counting(ds._decoder)
    for epoch in epochs:
        for _ in ds.iter_epoch(epoch):
            pass
    return sorted(ds._decoder.keys)


def assert_same(left: cf.Batch, right: cf.Batch) -> None:
    assert (left.epoch, left.number, left.paths) == (right.epoch, right.number, right.paths)
    assert [failure.path for failure in left.failures] == [failure.path for failure in right.failures]
    for name in ("clips", "frame_indices", "mask", "weights", "labels"):
        ours, theirs = getattr(left, name), getattr(right, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.dtype == theirs.dtype, name
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def assert_same_epochs(ds: cf.VideoDataset, expected: cf.VideoDataset, *, epochs: range = range(2)) -> None:
    for epoch in epochs:
        for left, right in zip(ds.iter_epoch(epoch), expected.iter_epoch(epoch), strict=True):
            assert_same(left, right)


# A hit is a miss


@pytest.mark.parametrize("where", ["disk", "memory"])
@pytest.mark.parametrize("sampling", POLICIES, ids=repr)
def test_batches_are_those_without_a_cache_for_every_policy(
    index: cf.VideoIndex, tmp_path: Path, sampling: Any, where: str
) -> None:
    cache = cf.Cache(tmp_path) if where == "disk" else cf.Cache(where="memory")
    spec = dataclasses.replace(FIXED, sampling=sampling, short_videos="wrap")
    plain = make(index, spec, None)
    assert len(plain.index) == NUM_VIDEOS
    ds = make(index, spec, cache)
    assert_same_epochs(ds, plain, epochs=range(3))  # filling, then checking, then copying
    again = make(index, spec, cache)
    assert_same_epochs(again, plain)
    assert decoded(again, epochs=range(3)) == []
    evaluation = make(index, spec, cache, training=False)
    assert_same_epochs(evaluation, make(index, spec, None, training=False))
    assert decoded(evaluation) == []


@BOTH
@pytest.mark.parametrize(
    "look",
    [
        {"image_size": (17, 33)},
        {"image_size": (48, 64)},  # as the videos are
        {"image_size": 40, "color_mode": "grayscale"},
        {"aspect": "crop"},
        {"aspect": "pad", "interpolation": "lanczos3"},
        {"num_frames": 9, "short_videos": "repeat_last"},
        {"num_frames": 1, "interpolation": "nearest", "image_size": 1},
    ],
    ids=repr,
)
def test_batches_are_those_without_a_cache_for_every_look(
    index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec, look: dict[str, Any]
) -> None:
    spec = dataclasses.replace(spec, **look)
    plain = make(index, spec, None)
    for _ in range(2):
        ds = make(index, spec, tmp_path)
        assert_same_epochs(ds, plain)
    assert decoded(ds) == []
    assert len(list(tmp_path.iterdir())) == 1


def test_looks_and_policies_that_differ_share_nothing(index: cf.VideoIndex, tmp_path: Path) -> None:
    specs = [FIXED, *(dataclasses.replace(FIXED, **other) for other in (
        {"sampling": "stride"}, {"image_size": (32, 24)}, {"color_mode": "grayscale"}, {"aspect": "crop"},
        {"interpolation": "area"}, {"num_frames": 5}, {"short_videos": "wrap"}, {"sampling": cf.Segments()},
    ))]  # fmt: skip
    for spec in specs:
        assert len(decoded(make(index, spec, tmp_path))) >= NUM_VIDEOS - 1
    assert len(list(tmp_path.iterdir())) == len(specs)
    for spec in specs:
        assert_same_epochs(make(index, spec, tmp_path), make(index, spec, None))


def test_all_random_policies_and_clip_lengths_share_the_frames_of_a_video(index: cf.VideoIndex, tmp_path: Path) -> None:
    decoded(make(index, dataclasses.replace(DRAWN, num_frames=2), tmp_path))
    for sampling in (cf.Segments(), cf.Dense(frame_stride=3), cf.AtRate(fps=20)):
        spec = dataclasses.replace(DRAWN, sampling=sampling)
        ds = make(index, spec, tmp_path)
        assert decoded(ds) == []
        assert_same_epochs(ds, make(index, spec, None))


@BOTH
def test_batches_are_those_without_a_cache_for_every_number_of_workers(
    index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec
) -> None:
    plain = make(index, spec, None)
    for workers in (1, 2, 8):
        ds = make(index, spec, tmp_path / str(workers), limits=cf.Limits(workers=workers))
        for _ in range(2):
            assert_same_epochs(ds, plain)
    ds = make(index, spec, tmp_path / "0")
    for epoch in (0, 0, 1):
        for number in range(len(ds)):
            assert_same(ds.batch(epoch, number, workers=0), plain.batch(epoch, number))


@BOTH
def test_a_dataset_whose_cache_is_filled_in_part_gives_the_same_however_it_is_asked(
    index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec
) -> None:
    plain, ds = make(index, spec, None, batch_size=2), make(index, spec, tmp_path, batch_size=2)
    for number in (3, 0):
        assert_same(ds.batch(0, number), plain.batch(0, number))
    batches = ds.iter_epoch(1, start=1)
    for number in range(1, len(ds)):
        assert_same(next(batches), plain.batch(1, number))
        assert_same(ds.batch(0, number), plain.batch(0, number))  # fills entries that the iteration has not come to
        assert_same(ds.batch(2, -1), plain.batch(2, -1))
    assert next(batches, None) is None
    assert_same_epochs(make(index, spec, tmp_path, batch_size=2), plain, epochs=range(3))


@BOTH
def test_leaving_an_epoch_early_keeps_what_was_decoded(index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec) -> None:
    ds = make(index, spec, tmp_path, batch_size=2, limits=cf.Limits(workers=1))
    for number, _ in enumerate(ds.iter_epoch(0)):
        if number == 2:
            break
    left = decoded(make(index, spec, tmp_path, batch_size=2))
    assert 0 < len(left) <= len(ds.index) - 6
    assert decoded(make(index, spec, tmp_path)) == []


@BOTH
def test_many_threads_fill_and_read_one_dataset(index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec) -> None:
    spec = dataclasses.replace(spec, clips_per_video=2)
    plain, ds = make(index, spec, None), make(index, spec, tmp_path)
    calls = [(epoch, number) for epoch in range(3) for number in range(len(ds))]
    with ThreadPoolExecutor(6) as pool:
        for call, batch in zip(calls, pool.map(lambda call: ds.batch(*call), calls), strict=True):
            assert_same(batch, plain.batch(*call))
    assert decoded(make(index, spec, tmp_path)) == []


def test_random_clips_stay_random(index: cf.VideoIndex, tmp_path: Path) -> None:
    ds = make(index, dataclasses.replace(DRAWN, sampling=cf.Dense(frame_stride=1)), tmp_path, batch_size=12)
    starts = [dict(zip(batch.paths, batch.frame_indices[:, 0].tolist(), strict=True))
              for epoch in range(6) for batch in ds.iter_epoch(epoch)]  # fmt: skip
    assert all(len({epoch[path] for epoch in starts}) > 1 for path in starts[0])


@BOTH
def test_decoders_fill_for_each_other(index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec) -> None:
    plain = make(index, spec, None, decoder="plain")
    for decoders in (("auto", "plain"), ("plain", "auto")):
        first, second = (make(index, spec, tmp_path / decoders[0], decoder=name) for name in decoders)
        assert_same_epochs(first, plain)
        assert_same_epochs(second, plain)
        assert decoded(second) == []


# Rows of an index


@pytest.mark.parametrize("sampling", POLICIES, ids=repr)
def test_intervals_of_a_video_are_entries_of_their_own(index: cf.VideoIndex, tmp_path: Path, sampling: Any) -> None:
    rows = np.flatnonzero([key in ("run/long.mp4", "run/variable.mp4") for key in index.keys])[[0, 0, 1, 0, 1, 0]]
    cut = dataclasses.replace(
        index.select(rows), starts=np.array([0, 5, 5, 20, 60, 5]), ends=np.array([-1, 30, 30, 999, 90, 30])
    )
    spec = dataclasses.replace(FIXED, sampling=sampling, short_videos="wrap")
    ds = make(cut, spec, tmp_path)
    assert_same_epochs(ds, make(cut, spec, None))
    assert_same_epochs(make(cut, spec, tmp_path), make(cut, spec, None))
    assert decoded(make(cut, spec, tmp_path)) == []
    assert len(set(ds.kept.entries.tolist())) == 5  # the last row is the second once more


@pytest.mark.parametrize("sampling", ["uniform", cf.Segments()], ids=repr)
def test_several_clips_of_a_video_come_from_one_entry(index: cf.VideoIndex, tmp_path: Path, sampling: Any) -> None:
    spec = dataclasses.replace(FIXED, sampling=sampling, clips_per_video=3)
    ds, plain = make(index, spec, tmp_path), make(index, spec, None)
    assert_same_epochs(ds, plain)
    assert decoded(ds) == []
    assert ds.kept.pack.num_filled(np.unique(ds.kept.entries)) == len(ds.index)


@BOTH
@pytest.mark.parametrize("arguments", [{"pad_last": True}, {"batch_size": None}, {"batch_size": 100}], ids=repr)
def test_padding_single_clips_weights_and_vector_labels_are_those_without(
    index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec, arguments: dict[str, Any]
) -> None:
    labels = np.random.default_rng(0).random((len(index), 3), np.float32)
    weights = np.arange(len(index), dtype=np.float32)
    labelled = dataclasses.replace(index, given_labels=labels, weights=weights)
    for _ in range(2):
        assert_same_epochs(
            make(labelled, spec, tmp_path, **arguments), make(labelled, spec, None, **arguments), epochs=range(3)
        )


def test_videos_beyond_max_frames_are_decoded_each_time(index: cf.VideoIndex, tmp_path: Path) -> None:
    cache = cf.Cache(tmp_path, max_frames=20)
    for _ in range(2):
        ds = make(index, DRAWN, cache)
        assert_same_epochs(ds, make(index, DRAWN, None))
    assert decoded(ds) == ["run/long.mp4", "run/variable.mp4"]
    assert "2 videos have more than max_frames=20 frames and stay uncached" in ds.explain_cache()
    assert decoded(make(index, FIXED, cache)) != []
    assert decoded(make(index, FIXED, cache)) == []


def test_a_part_without_videos_is_refused_as_without_a_cache(index: cf.VideoIndex, tmp_path: Path) -> None:
    for cache in (None, tmp_path):
        with pytest.raises(ValueError, match="none of the 0 videos"):
            make(index.select([]), FIXED, cache)


# How often a video is decoded


@BOTH
def test_training_validation_and_folds_share_one_pack(index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec) -> None:
    parts = split_index(index, fractions={"train": 0.75, "val": 0.25}, seed=1)
    for name, part in parts.items():
        ds = make(part, spec, tmp_path, training=name == "train")
        assert decoded(ds) == sorted(ds.index.keys)
    for fold in kfold_index(index, k=3, seed=1):
        for name, part in fold.items():
            ds = make(part, spec, tmp_path, training=name == "train")
            assert decoded(ds) == []
            assert_same_epochs(ds, make(part, spec, None, training=name == "train"), epochs=range(1))
    assert len(list(tmp_path.glob("*/part-*"))) == 1
    assert pack_bytes(index, spec) == ds.kept.opened.num_bytes


@pytest.fixture
def copied(root: Path, tmp_path: Path) -> Path:
    """A copy of the data that a test may change."""
    return Path(shutil.copytree(root, tmp_path / "copied"))


@BOTH
def test_one_added_file_is_one_decode_each_time(copied: Path, tmp_path: Path, spec: cf.ClipSpec) -> None:
    frames, store = tmp_path / "frames", tmp_path / "store"
    total = len(decoded(make(cf.build_index(copied, index=store), spec, frames)))
    for number in range(3):
        write_numbered_video(copied / "run" / f"added {number}.avi", num_frames=9, size=(48, 64), video_number=number)
        ds = make(cf.build_index(copied, index=store), spec, frames)
        assert decoded(ds) == [f"run/added {number}.avi"]
        assert len(ds.index) == total + number + 1
        assert_same_epochs(ds, make(ds.index, spec, None))


@BOTH
def test_a_changed_file_is_one_decode_and_shows_its_new_content(
    copied: Path, tmp_path: Path, spec: cf.ClipSpec
) -> None:
    frames, store = tmp_path / "frames", tmp_path / "store"
    decoded(make(cf.build_index(copied, index=store), spec, frames))
    write_numbered_video(copied / "run" / "long.mp4", num_frames=41, size=(48, 64), video_number=777)
    (copied / "walk" / "turned.mov").unlink()
    ds = make(cf.build_index(copied, index=store), spec, frames)
    assert decoded(ds) == ["run/long.mp4"]
    assert_same_epochs(ds, make(ds.index, spec, None))


@BOTH
def test_files_that_are_only_touched_moved_or_copied_elsewhere_are_not_decoded(
    copied: Path, tmp_path: Path, spec: cf.ClipSpec
) -> None:
    frames = tmp_path / "frames"
    decoded(make(cf.build_index(copied, index=tmp_path / "store"), spec, frames))
    for path in copied.rglob("*.*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    moved = copied.rename(tmp_path / "moved ü 日")
    for place in (moved, Path(shutil.copytree(moved, tmp_path / "twin"))):
        found = cf.build_index(place, index=tmp_path / "another store")
        ds = make(found, spec, frames)
        assert decoded(ds) == []
        assert_same_epochs(ds, make(found, spec, None))


@BOTH
def test_one_content_under_two_names_is_decoded_twice(copied: Path, tmp_path: Path, spec: cf.ClipSpec) -> None:
    shutil.copy(copied / "run" / "long.mp4", copied / "run" / "twin.mp4")
    (copied / "walk" / "link.mp4").symlink_to(copied / "run" / "long.mp4")
    names = ["run/long.mp4", "run/twin.mp4", "walk/link.mp4"]
    whole = cf.build_index(copied, index=tmp_path / "store")
    assert [key for key in decoded(make(whole, spec, tmp_path / "frames")) if key in names] == names
    assert decoded(make(whole, spec, tmp_path / "frames")) == []


def test_the_data_may_be_gone_once_all_is_kept(copied: Path, tmp_path: Path, index: cf.VideoIndex) -> None:
    found = cf.build_index(copied, index=tmp_path / "store")
    decoded(make(found, FIXED, tmp_path / "frames"))
    expected = make(index, FIXED, None)
    shutil.rmtree(copied)
    for left, right in zip(make(found, FIXED, tmp_path / "frames").iter_epoch(0), expected.iter_epoch(0), strict=True):
        np.testing.assert_array_equal(left.clips, right.clips)


@BOTH
def test_a_cache_can_be_filled_without_an_epoch(index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec) -> None:
    ds, told = make(index, spec, tmp_path, batch_size=2), []
    ds.batch(0, 0)
    assert ds.fill_cache(advance=told.append) == ()
    assert sum(told) == len(ds.index) - (0 if spec is DRAWN else 2)
    assert "; 11 of these 11 videos are there" in ds.explain_cache()[0]
    assert decoded(make(index, spec, tmp_path), epochs=range(2)) == []
    assert ds.fill_cache() == ()
    with pytest.raises(ValueError, match="no cache"):
        make(index, spec, None).fill_cache()


# Videos that fail


@BOTH
@pytest.mark.parametrize("training", [True, False])
def test_videos_that_fail_fail_as_without_a_cache(
    copied: Path, tmp_path: Path, spec: cf.ClipSpec, training: bool
) -> None:
    found = cf.build_index(copied, index=tmp_path / "store")
    (copied / "run" / "long.mp4").write_bytes(b"not a video any more")
    policy = cf.ErrorPolicy(on_error="skip", max_failures=0.2)
    for _ in range(2):
        ds = make(found, spec, tmp_path / "frames", errors=policy, training=training)
        assert_same_epochs(ds, make(found, spec, None, errors=policy, training=training))
        assert [Path(failure.path).name for failure in ds.ledger.failures] == ["long.mp4"]
        assert "10 of these 11 videos are there" in ds.explain_cache()[0]
    raising = make(found, spec, tmp_path / "frames", training=False)
    with pytest.raises(cf.ClipfeedError, match=r"long\.mp4"):
        list(raising.iter_epoch(0))
    (failure,) = make(found, spec, tmp_path / "frames", errors=policy).fill_cache()
    assert failure.path.endswith("long.mp4")


class Failing(Counting):
    """A decoder that cannot give all frames of one video, though it gives some."""

    def decode_chunks(self, plan: ClipPlan, geometry: Geometry) -> Iterator[DecodedFrames]:
        for chunk in super().decode_chunks(plan, geometry):
            yield chunk
            if plan.record.key == "run/long.mp4":
                raise cf.DecodeError("a frame is missing", path=plan.record.path, stage="decode")


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
def test_a_video_of_which_only_some_frames_can_be_had_is_decoded_each_time_and_tried_once(
    index: cf.VideoIndex, tmp_path: Path, codec: str
) -> None:
    plain, ds = make(index, DRAWN, None), make(index, DRAWN, cf.Cache(tmp_path, codec=codec))
    ds._decoder = Failing(ds._decoder)
    for epoch in range(3):
        for left, right in zip(ds.iter_epoch(epoch), plain.iter_epoch(epoch), strict=True):
            assert left.paths == right.paths
            row = next((row for row, path in enumerate(left.paths) if path.endswith("long.mp4")), None)
            if row is not None:
                np.testing.assert_array_equal(left.clips[row], right.clips[row])
    assert Counter(ds._decoder.keys)["run/long.mp4"] == 1 + 3
    assert "10 of these 11 videos are there" in ds.explain_cache()[0]


# Kinds of caches


@BOTH
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_with_jpeg_all_epochs_show_the_same_pixels_near_to_the_originals(
    index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec, where: str
) -> None:
    cache = cf.Cache(tmp_path if where == "disk" else None, where=where, codec="jpeg")
    first, plain = make(index, spec, cache, training=False), make(index, spec, None, training=False)
    filling = [batch.clips for batch in first.iter_epoch(0)]
    for ds in (first, make(index, spec, cache, training=False)):
        for epoch in range(2):
            for left, right in zip(ds.iter_epoch(epoch), filling, strict=True):
                np.testing.assert_array_equal(left.clips, right)
    assert decoded(ds) == []
    difference = np.concatenate([np.abs(left.clips.astype(int) - right).ravel()
                                 for left, right in zip(plain.iter_epoch(0), filling, strict=True)])  # fmt: skip
    assert 0 < difference.mean() < 6  # bars and edges of a pixel's width: far from pictures
    assert ds.explain_cache()[0].startswith("cache: about ")


@BOTH
def test_with_jpeg_pixels_are_the_same_also_where_nothing_more_can_be_kept(
    index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec
) -> None:
    whole = make(index, spec, cf.Cache(tmp_path / "whole", codec="jpeg"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds = make(index, spec, cf.Cache(tmp_path / "part", codec="jpeg", max_bytes=30_000))
        assert_same_epochs(ds, whole, epochs=range(3))
    assert [warning.category for warning in caught] == [CacheWarning]
    assert len(decoded(ds)) > 0
    assert ds._decoder.whole == []  # of a video that is not kept no more is decoded than the clip has


class EveryOther:
    """A policy without a name of its own."""

    is_random = False

    def __init__(self, first: int) -> None:
        self._first = first

    def min_frames(self, frames: FrameTimes, num_frames: int) -> int:
        return 2 * num_frames

    def choose(self, frames: FrameTimes, num_frames: int, rng: np.random.Generator | None) -> np.ndarray:
        return self._first + 2 * np.arange(num_frames)


def test_policies_of_ones_own_are_told_apart_by_what_they_choose(index: cf.VideoIndex, tmp_path: Path) -> None:
    even, odd = (dataclasses.replace(FIXED, sampling=EveryOther(first)) for first in (0, 1))
    assert decoded(make(index, even, tmp_path)) != []
    again = dataclasses.replace(FIXED, sampling=EveryOther(0))
    assert decoded(make(index, again, tmp_path)) == []
    for _ in range(2):
        assert_same_epochs(make(index, odd, tmp_path), make(index, odd, None))
    assert decoded(make(index, odd, tmp_path)) != []  # the place is taken
    assert len(list(tmp_path.iterdir())) == 1


def test_one_object_is_shared_by_datasets_of_several_roots_and_looks(
    copied: Path, index: cf.VideoIndex, tmp_path: Path
) -> None:
    write_numbered_video(copied / "run" / "added.avi", num_frames=9, size=(48, 64), video_number=500)
    other = cf.build_index(copied, index=tmp_path / "store")
    for cache in (cf.Cache(tmp_path / "frames"), cf.Cache(where="memory")):
        decoded(make(index, FIXED, cache))
        assert decoded(make(other, FIXED, cache)) == ["run/added.avi"]
        for spec in (DRAWN, FIXED):
            for found in (other, index):
                assert_same_epochs(make(found, spec, cache), make(found, spec, None))


def test_a_cache_in_memory_is_refused_above_its_limit_with_the_arithmetic(index: cf.VideoIndex) -> None:
    with pytest.raises(
        cf.BudgetError, match=r"11 videos, 44 frames of 24 x 32 x 3 bytes: 101\.4 KB\n.*limit: 50\.0 KB"
    ):
        make(index, FIXED, cf.Cache(where="memory", max_bytes="50KB"))


def test_frames_in_memory_are_gone_with_the_dataset(index: cf.VideoIndex) -> None:
    ds = make(index, FIXED, cf.Cache(where="memory"))
    decoded(ds)
    held = [entry for entry in gc.get_objects() if type(entry).__name__ == "_Frames"]
    assert len(held) == len(ds.index)
    del ds, held
    gc.collect()
    assert not [entry for entry in gc.get_objects() if type(entry).__name__ == "_Frames"]


def test_descriptors_are_closed_when_datasets_are_gone(index: cf.VideoIndex, tmp_path: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()
    before = count()
    datasets = [make(index, spec, tmp_path) for spec in (FIXED, DRAWN) for _ in range(3)]
    for ds in datasets:
        list(ds.iter_epoch(0))
        ds.batch(1, 0)
    assert count() > before
    del datasets, ds
    gc.collect()
    assert count() == before


# Other processes


@BOTH
def test_a_pickled_dataset_finds_its_frames_in_another_process(
    index: cf.VideoIndex, tmp_path: Path, spec: cf.ClipSpec
) -> None:
    ds, plain = make(index, spec, tmp_path), make(index, spec, None)
    here = pickle.loads(pickle.dumps(ds))
    assert_same_epochs(here, plain)
    assert decoded(pickle.loads(pickle.dumps(ds))) == []
    assert len(pickle.dumps(ds)) < 20_000
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        batches = [pool.submit(operator.methodcaller("batch", 1, number), ds) for number in range(len(ds))]
        for number, batch in enumerate(batches):
            assert_same(batch.result(timeout=120), plain.batch(1, number))


def test_a_pickled_dataset_takes_its_wish_along_and_not_what_lies_in_memory(index: cf.VideoIndex) -> None:
    ds = make(index, FIXED, cf.Cache(where="memory"))
    decoded(ds)
    assert len(pickle.dumps(ds)) < 20_000
    again = pickle.loads(pickle.dumps(ds))
    assert again.cache == ds.cache
    assert "; 0 of these 11 videos are there" in again.explain_cache()[0]
    assert_same_epochs(again, ds)


# The facade


def facade(root: Path, store: Path, **arguments: Any) -> Any:
    return cf.video_dataset_from_directory(
        root, num_frames=4, image_size=SIZE, batch_size=5, validation_split=0.25, subset="both", seed=1,
        index=store, verbose=False, **arguments,
    )  # fmt: skip


def items_of(results: Any) -> list[np.ndarray]:
    return [np.asarray(value) for result in results for item in result for value in item]


@pytest.mark.parametrize("format", ["numpy", "keras", "tf"])
@pytest.mark.parametrize("sampling", ["uniform", cf.Segments()], ids=repr)
def test_the_facade_gives_the_same_with_every_kind_of_cache(
    root: Path, tmp_path: Path, format: str, sampling: Any
) -> None:
    arguments = {"format": format, "sampling": sampling, "data_format": "channels_last"}
    plain = facade(root, tmp_path / "store", **arguments)
    expected = [items_of(plain) for _ in range(2)]
    for cache in ("disk", "memory", tmp_path / "ü b", cf.Cache(tmp_path / "object", max_bytes="1GB")):
        results = facade(root, tmp_path / "store", cache=cache, **arguments)
        assert results[0].clipfeed.cache is results[1].clipfeed.cache
        for epoch in range(2):
            for left, right in zip(items_of(results), expected[epoch], strict=True):
                np.testing.assert_array_equal(left, right)
    assert (Path(os.environ["XDG_CACHE_HOME"]) / "clipfeed" / "frames").is_dir()


def test_the_facade_says_what_a_cache_takes_and_refuses_what_is_none(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cf.video_dataset_from_directory(
        root, num_frames=4, image_size=SIZE, format="numpy", index=tmp_path / "store", cache=tmp_path / "frames"
    )
    said = capsys.readouterr().out
    assert re.search(
        rf"^cache: 10\d\.\d KB for all videos, in {tmp_path}/frames/[0-9a-f]{{32}}; 0 of these 11", said, re.M
    )
    for bad in ("", 3, True):
        with pytest.raises(ValueError, match="cache="):
            facade(root, tmp_path / "store", format="numpy", cache=bad)
    (tmp_path / "file").touch()
    with pytest.raises(cf.CacheError, match="file: is no folder"):
        facade(root, tmp_path / "store", format="numpy", cache=tmp_path / "file")


@pytest.mark.shared
@BOTH
@pytest.mark.parametrize("folder", ["hmdb51", "ucf101"])
def test_genuine_clips_are_the_same_with_a_cache(shared: Path, tmp_path: Path, folder: str, spec: cf.ClipSpec) -> None:
    found = cf.build_index(shared / "clips" / folder, index=tmp_path / "store", labels=None)
    plain = make(found, spec, None)
    for _ in range(2):
        assert_same_epochs(make(found, spec, tmp_path / "frames"), plain, epochs=range(1))
