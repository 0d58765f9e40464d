"""Packs without fixed places, in memory and as JPEG: the same promises as those of raw packs on a disk."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed.cache import PackKey
from clipfeed.cache.held import HeldPack, MemoryShelf, Shelf
from clipfeed.cache.jpeg import JpegFiles, compress
from clipfeed.errors import CacheWarning
from clipfeed.records import ClipPlan
from clipfeed.testing import make_entries, make_entry_plan, make_frames, make_pack_key

SHAPE = (8, 8, 3)
VIDEOS, CLIPS = make_pack_key(None, SHAPE), make_pack_key(3, SHAPE)
CODECS = pytest.mark.parametrize("codec", ["raw", "jpeg"])


def make_pack(key: PackKey, codec: str, shelf: Shelf | None = None, counts: tuple[int, ...] = (3, 3, 3)) -> HeldPack:
    return HeldPack(key, make_entries(counts), MemoryShelf() if shelf is None else shelf, codec=codec)


def fill(pack: HeldPack, entry: int, frames: np.ndarray, plan: ClipPlan) -> np.ndarray:
    filling = pack.fill(entry)
    seen = [filling.add(frames[at : at + 2], np.zeros(len(frames[at : at + 2]), np.bool_)).copy()
            for at in range(0, len(frames), 2)]  # fmt: skip
    filling.finish(plan)
    return np.concatenate(seen)


def read(pack: HeldPack, entry: int, plan: ClipPlan) -> np.ndarray | None:
    out = np.empty((len(plan.frame_indices), *pack.key.frame_shape), np.uint8)
    return None if pack.read(entry, plan, out) is None else out


@CODECS
def test_a_clip_is_read_as_filling_it_showed_it(codec: str) -> None:
    pack, plan = make_pack(CLIPS, codec), make_entry_plan(9, [1, 4, 4], mask=[True, True, False])
    assert read(pack, 1, plan) is None
    seen = fill(pack, 1, make_frames(3, SHAPE), plan)
    np.testing.assert_array_equal(read(pack, 1, plan), seen)
    assert np.array_equal(seen, make_frames(3, SHAPE)) == (codec == "raw")
    assert read(pack, 0, plan) is None
    assert pack.num_filled(np.array([0, 1, 2, -1])) == 1


@CODECS
def test_any_frames_of_a_video_are_read_counted_from_the_start_of_its_interval(codec: str) -> None:
    pack = make_pack(VIDEOS, codec, counts=(5,))
    seen = fill(pack, 0, make_frames(5, SHAPE), make_entry_plan(5, start=10))
    plan = make_entry_plan(5, [14, 10, 12, 12], start=10)
    np.testing.assert_array_equal(read(pack, 0, plan), seen[[4, 0, 2, 2]])


def test_raw_clips_in_memory_are_at_hand_once_they_were_compared_with_their_plan() -> None:
    shelf, plan = MemoryShelf(), make_entry_plan(9, [1, 4, 7], mask=[True, True, False])
    pack = make_pack(CLIPS, "raw", shelf)
    fill(pack, 1, make_frames(3, SHAPE), plan)
    later = make_pack(CLIPS, "raw", shelf)
    assert not later.at_hand(np.array([0, 1, -1])).any()
    read(later, 1, plan)
    assert later.at_hand(np.array([0, 1, 2, -1])).tolist() == [False, True, False, False]
    out = np.empty((3, *SHAPE), np.uint8)
    frame_indices, mask = later.recall(1, out)
    np.testing.assert_array_equal(out, make_frames(3, SHAPE))
    assert frame_indices.tolist() == [1, 4, 7]
    assert mask.tolist() == [True, True, False]


@pytest.mark.parametrize(("key", "codec"), [(VIDEOS, "raw"), (VIDEOS, "jpeg"), (CLIPS, "jpeg")])
def test_what_takes_work_is_never_at_hand(key: PackKey, codec: str) -> None:
    pack, plan = make_pack(key, codec), make_entry_plan(3)
    fill(pack, 1, make_frames(3, SHAPE), plan)
    read(pack, 1, plan)
    assert not pack.at_hand(np.array([0, 1, 2, -1])).any()


@CODECS
def test_a_clip_of_other_frames_under_the_same_name_is_neither_read_nor_written_over(codec: str) -> None:
    shelf, plan = MemoryShelf(), make_entry_plan(9, [0, 1, 2])
    seen = fill(make_pack(CLIPS, codec, shelf), 0, make_frames(3, SHAPE), plan)
    pack = make_pack(CLIPS, codec, shelf)
    assert read(pack, 0, make_entry_plan(9, [0, 1, 3])) is None
    assert pack.fill(0) is None
    np.testing.assert_array_equal(read(pack, 0, plan), seen)


def test_frames_in_memory_are_copies_that_nobody_else_can_change() -> None:
    pack, plan, frames = make_pack(CLIPS, "raw"), make_entry_plan(3), make_frames(3, SHAPE)
    fill(pack, 0, frames, plan)
    frames[:] = 0
    read(pack, 0, plan)[:] = 0
    np.testing.assert_array_equal(read(pack, 0, plan), make_frames(3, SHAPE))


@CODECS
def test_an_entry_counts_only_once_it_is_finished_and_is_not_begun_again_once_it_was_abandoned(codec: str) -> None:
    pack, plan = make_pack(VIDEOS, codec), make_entry_plan(3)
    filling = pack.fill(0)
    filling.add(make_frames(3, SHAPE), np.zeros(3, np.bool_))
    assert read(pack, 0, plan) is None
    filling.abandon()
    assert pack.fill(0) is None
    assert pack.fill(1) is not None


def test_damage_of_frames_is_kept_with_them() -> None:
    pack = make_pack(VIDEOS, "raw")
    filling = pack.fill(0)
    filling.add(make_frames(2, SHAPE), np.array([False, True]))
    filling.add(make_frames(1, SHAPE), np.array([True]))
    filling.finish(make_entry_plan(3))
    assert pack.read(0, make_entry_plan(3, [2, 0, 1]), np.empty((3, *SHAPE), np.uint8)).tolist() == [True, False, True]


def test_videos_whose_content_is_not_known_have_no_number() -> None:
    entries = make_entries([3, 3])
    entries.identities[0] = b""
    pack = HeldPack(CLIPS, entries, MemoryShelf(), codec="raw")
    assert pack.find(entries).tolist() == [-1, 1]
    assert pack.find(make_entries([3], first=7)).tolist() == [-1]


def test_memory_is_counted_as_it_is_taken() -> None:
    shelf = MemoryShelf()
    pack = make_pack(CLIPS, "raw", shelf)
    assert shelf.num_bytes == 0
    for _ in range(2):
        fill(pack, 0, make_frames(3, SHAPE), make_entry_plan(3))
        assert shelf.num_bytes == 3 * 8 * 8 * 3


# JPEG on a disk


def test_frames_go_through_the_codec_also_where_nothing_is_written(tmp_path: Path) -> None:
    entries, frames = make_entries([3, 3]), make_frames(3, SHAPE)
    pack = HeldPack(CLIPS, entries, JpegFiles(tmp_path, 0), codec="jpeg", writes=False)
    filling = pack.fill(0)
    assert not filling.is_kept
    np.testing.assert_array_equal(filling.add(frames, np.zeros(3, np.bool_)), compress(frames)[1])
    assert not list(tmp_path.iterdir())
    assert HeldPack(CLIPS, entries, MemoryShelf(), codec="raw", writes=False).fill(0) is None


def test_a_shelf_that_is_full_is_said_once_and_what_is_there_is_still_read(tmp_path: Path) -> None:
    plan, frames = make_entry_plan(3), make_frames(3, SHAPE)
    size = sum(map(len, compress(frames)[0]))
    pack = make_pack(CLIPS, "jpeg", JpegFiles(tmp_path, size + 200))
    seen = fill(pack, 0, frames, plan)
    with pytest.warns(CacheWarning, match=r"nothing more is cached, the room of .* is used up"):
        fill(pack, 1, make_frames(3, SHAPE, seed=1), plan)
    fill(pack, 2, make_frames(3, SHAPE, seed=2), plan)  # a second warning would be an error here
    assert not pack.fill(2).is_kept
    np.testing.assert_array_equal(read(pack, 0, plan), seen)
    assert read(pack, 1, plan) is read(pack, 2, plan) is None


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    plan, frames = make_entry_plan(3), make_frames(3, SHAPE)
    pack = make_pack(VIDEOS, "jpeg", JpegFiles(tmp_path, 10**9))
    seen = fill(pack, 0, frames, plan)
    (path,) = tmp_path.rglob("*.jpegs")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + b"x" + whole[-8:])
    assert read(pack, 0, plan) is None
    np.testing.assert_array_equal(fill(pack, 0, frames, plan), seen)
    assert path.read_bytes() == whole
    np.testing.assert_array_equal(read(make_pack(VIDEOS, "jpeg", JpegFiles(tmp_path, 0)), 0, plan), seen)


def test_an_error_of_the_system_is_said_in_its_words(tmp_path: Path) -> None:
    class Full(MemoryShelf):
        def put(self, identity: bytes, held: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.warns(CacheWarning, match="nothing more is cached, No space left on device; what is there is used"):
        fill(make_pack(CLIPS, "jpeg", Full()), 0, make_frames(3, SHAPE), make_entry_plan(3))


def test_threads_may_fill_and_read_the_same_entries_at_once() -> None:
    pack, plan = make_pack(VIDEOS, "jpeg"), make_entry_plan(3)
    expected = [compress(make_frames(3, SHAPE, seed=entry))[1] for entry in range(3)]

    def work(number: int) -> bool:
        entry = number % 3
        found = read(pack, entry, plan)
        if found is None:
            found = fill(pack, entry, make_frames(3, SHAPE, seed=entry), plan)
        return np.array_equal(found, expected[entry])

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(90)))


@settings(max_examples=30)
@given(st.data())
def test_whatever_is_filled_what_is_read_is_what_was_filled_or_nothing(data: st.DataObject) -> None:
    codec, key = data.draw(st.sampled_from(["raw", "jpeg"])), data.draw(st.sampled_from([VIDEOS, CLIPS]))
    counts = [3, 3, 3] if key is CLIPS else data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    pack = make_pack(key, codec, counts=tuple(counts))
    seen: dict[int, np.ndarray] = {}
    for entry in data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=6)):
        frames = make_frames(counts[entry], SHAPE, seed=entry)
        seen[entry] = fill(pack, entry, frames, make_entry_plan(counts[entry]))
        for other, count in enumerate(counts):
            found = read(pack, other, make_entry_plan(count))
            assert (found is not None) == (other in seen)
            assert found is None or np.array_equal(found, seen[other])
