"""Entries by number: read bit for bit or not at all, checked once, rebuilt where damaged, given up where full."""

from __future__ import annotations

import errno
import os
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed.cache import PackKey
from clipfeed.cache.pack import Lookup, RawPack
from clipfeed.cache.part import Part, create_part
from clipfeed.errors import CacheWarning
from clipfeed.records import ClipPlan
from clipfeed.testing import make_entries, make_entry_plan, make_frames, make_pack_key

VIDEOS, CLIPS = make_pack_key(None), make_pack_key(3)


def make_pack(folder: Path, key: PackKey, *counts: list[int]) -> RawPack:
    """A pack of a part for each list; videos are numbered through."""
    first = np.cumsum([0, *map(len, counts)])
    parts = [create_part(folder, key, make_entries(own, first=int(at))) for own, at in zip(counts, first, strict=False)]
    return RawPack(key, [Part(part, key) for part in parts])


def reopened(pack: RawPack) -> RawPack:
    """As another process sees it."""
    return RawPack(pack.key, [Part(part.folder, pack.key) for part in pack._parts])


def fill(pack: RawPack, entry: int, frames: np.ndarray, plan: ClipPlan | None = None) -> None:
    filling = pack.fill(entry)
    filling.add(frames, np.zeros(len(frames), np.bool_))
    filling.finish(make_entry_plan(len(frames)) if plan is None else plan)


def read(pack: RawPack, entry: int, plan: ClipPlan) -> np.ndarray | None:
    out = np.empty((len(plan.frame_indices), *pack.key.frame_shape), np.uint8)
    return None if pack.read(entry, plan, out) is None else out


def damage(pack: RawPack, entry: int, name: str = "frames.npy") -> None:
    """Change a byte of an entry: of its first frame, or of its record."""
    part, row = pack._place(entry)
    at = part._frame_at(int(part.rows["first_frame"][row])) if name == "frames.npy" else row * part._record.itemsize + 5
    with (part.folder / name).open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


# Finding


@given(st.lists(st.lists(st.binary(min_size=16, max_size=16), max_size=6), max_size=3), st.data())
def test_numbers_count_through_all_parts_and_what_is_not_there_is_minus_one(
    parts: list[list[bytes]], data: st.DataObject
) -> None:
    every = [identity for part in parts for identity in part]
    lookup = Lookup([np.array(part, "S16") for part in parts])
    asked = data.draw(st.lists(st.sampled_from(every) | st.binary(min_size=16, max_size=16), max_size=6)
                      if every else st.just([bytes(16), b"x" * 16]))  # fmt: skip
    found = lookup.find(np.array(asked, "S16"))
    assert found.dtype == np.int64
    for identity, number in zip(asked, found.tolist(), strict=True):
        assert number == (every.index(identity) if identity in every and any(identity) else -1)


# Reading


def test_a_clip_is_read_as_it_was_written_and_then_at_hand(tmp_path: Path) -> None:
    pack, plan = make_pack(tmp_path, CLIPS, [3, 3], [3]), make_entry_plan(9, [1, 4, 7], mask=[True, True, False])
    assert read(pack, 2, plan) is None
    fill(pack, 2, make_frames(3), plan)
    later = reopened(pack)
    assert later.at_hand(np.array([0, 1, 2, -1])).tolist() == [False] * 4
    np.testing.assert_array_equal(read(later, 2, plan), make_frames(3))
    for opened in (pack, later):
        assert opened.at_hand(np.array([0, 1, 2, -1])).tolist() == [False, False, True, False]
        out = np.empty((3, 2, 3, 3), np.uint8)
        frame_indices, mask = opened.recall(2, out)
        np.testing.assert_array_equal(out, make_frames(3))
        assert frame_indices.tolist() == [1, 4, 7]
        assert mask.tolist() == [True, True, False]


def test_any_frames_of_a_kept_video_are_read_counted_from_the_start_of_its_interval(tmp_path: Path) -> None:
    pack = make_pack(tmp_path, VIDEOS, [4], [6, 2])
    fill(pack, 1, make_frames(6))
    for opened in (pack, reopened(pack)):
        plan = make_entry_plan(6, [15, 10, 12, 12], start=10)
        np.testing.assert_array_equal(read(opened, 1, plan), make_frames(6)[[5, 0, 2, 2]])
        assert not opened.at_hand(np.array([0, 1, 2])).any()  # which frames are wanted is not known before a plan is
        assert read(opened, 2, make_entry_plan(2)) is None


def test_damage_of_frames_is_kept_with_them(tmp_path: Path) -> None:
    pack = make_pack(tmp_path, VIDEOS, [4])
    filling = pack.fill(0)
    filling.add(make_frames(3), np.array([False, True, False]))
    filling.add(make_frames(1), np.array([True]))
    filling.finish(make_entry_plan(4))
    plan = make_entry_plan(4, [3, 2, 1, 1])
    assert reopened(pack).read(0, plan, np.empty((4, 2, 3, 3), np.uint8)).tolist() == [True, False, True, True]


def test_entries_that_are_kept_are_counted(tmp_path: Path) -> None:
    pack = make_pack(tmp_path, VIDEOS, [4, 1], [2])
    fill(pack, 2, make_frames(2))
    fill(pack, 0, make_frames(4))
    assert pack.num_filled(np.array([0, 1, 2, -1])) == 2
    assert reopened(pack).num_filled(np.array([1, 2])) == 1
    assert RawPack(VIDEOS, []).num_filled(np.array([-1, -1])) == 0


def test_a_pack_without_parts_keeps_nothing(tmp_path: Path) -> None:
    pack = RawPack(CLIPS, [])
    assert pack.find(make_entries([3, 3])).tolist() == [-1, -1]
    assert pack.at_hand(np.array([-1, -1])).tolist() == [False, False]


def test_a_clip_of_other_frames_under_the_same_name_is_neither_read_nor_written_over(tmp_path: Path) -> None:
    pack, plan = make_pack(tmp_path, CLIPS, [3]), make_entry_plan(9, [0, 1, 2])
    fill(pack, 0, make_frames(3), plan)
    for other in (make_entry_plan(9, [0, 1, 3]), make_entry_plan(9, [0, 1, 2], mask=[True, True, False])):
        opened = reopened(pack)
        assert read(opened, 0, other) is None
        assert opened.fill(0) is None
        assert not opened.at_hand(np.array([0])).any()
    np.testing.assert_array_equal(read(reopened(pack), 0, plan), make_frames(3))


# Damage


@pytest.mark.parametrize("name", ["frames.npy", "state.bin"])
@pytest.mark.parametrize("key", [VIDEOS, CLIPS])
def test_a_damaged_entry_is_found_at_its_first_use_and_can_be_filled_again(
    tmp_path: Path, key: PackKey, name: str
) -> None:
    pack, plan = make_pack(tmp_path, key, [3, 3, 3]), make_entry_plan(3)
    for entry in range(3):
        fill(pack, entry, make_frames(3, seed=entry), plan)
    damage(pack, 1, name)
    later = reopened(pack)
    assert [read(later, entry, plan) is None for entry in range(3)] == [False, True, False]
    assert not later.at_hand(np.array([1])).any()
    fill(later, 1, make_frames(3, seed=1), plan)
    for opened in (later, reopened(later)):
        for entry in range(3):
            np.testing.assert_array_equal(read(opened, entry, plan), make_frames(3, seed=entry))


def test_a_checksum_is_computed_once_a_process_and_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    checksum = Part.checksum
    monkeypatch.setattr(Part, "checksum", lambda part, row: computed.append(row) or checksum(part, row))
    pack = make_pack(tmp_path, VIDEOS, [3, 3])
    fill(pack, 0, make_frames(3))
    fill(pack, 1, make_frames(3))
    for _ in range(3):
        read(pack, 0, make_entry_plan(3))  # written by itself
    assert computed == []
    later = reopened(pack)
    for entry in (1, 0, 1, 0, 1):
        read(later, entry, make_entry_plan(3, [2, 0]))
    assert computed == [1, 0]


def test_a_file_that_is_cut_in_use_loses_entries_gets_nothing_more_and_says_so_once(tmp_path: Path) -> None:
    pack, plan = make_pack(tmp_path, CLIPS, [3, 3, 3, 3]), make_entry_plan(3)
    for entry in range(3):
        fill(pack, entry, make_frames(3, seed=entry), plan)
    part, _ = pack._place(0)
    os.truncate(part.folder / "frames.npy", part._frame_at(3) + 5)
    with pytest.warns(CacheWarning, match=r"nothing more is cached.*frames\.npy has 187 bytes, not 344"):
        assert pack.fill(3) is None  # would make the file as long as before, with zeros for entries 1 and 2
    assert pack.fill(1) is None
    out = np.empty((3, 2, 3, 3), np.uint8)
    assert pack.recall(1, out) is pack.recall(2, out) is None
    assert read(pack, 1, plan) is None
    pack.recall(0, out)
    np.testing.assert_array_equal(out, make_frames(3))


# Writing


def test_an_entry_counts_only_once_it_is_finished(tmp_path: Path) -> None:
    pack, plan = make_pack(tmp_path, VIDEOS, [3]), make_entry_plan(3)
    filling = pack.fill(0)
    filling.add(make_frames(3), np.zeros(3, np.bool_))
    assert read(pack, 0, plan) is None
    assert pack.num_filled(np.array([0])) == 0
    del filling
    assert read(reopened(pack), 0, plan) is None


def test_frames_come_out_of_a_filling_as_they_went_in(tmp_path: Path) -> None:
    assert make_pack(tmp_path, VIDEOS, [3]).fill(0).add(frames := make_frames(2), np.zeros(2, np.bool_)) is frames


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("fails_at", ["frames", "record"])
def test_a_write_that_fails_is_said_once_and_ends_all_writing_but_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, fails_at: str
) -> None:
    pack, plan = make_pack(tmp_path, VIDEOS, [2, 2, 2]), make_entry_plan(2)
    fill(pack, 0, make_frames(2), plan)
    begun, pwrite = pack.fill(2), os.pwrite
    part, _ = pack._place(0)
    refused = part._frames if fails_at == "frames" else part._state

    def write(descriptor: int, data: bytes, offset: int) -> int:
        if descriptor == refused:
            raise OSError(number, os.strerror(number))
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", write)
    with pytest.warns(CacheWarning, match=f"{tmp_path}: nothing more is cached, {os.strerror(number)}"):
        fill(pack, 1, make_frames(2), plan)
    begun.add(make_frames(2), np.zeros(2, np.bool_))  # a second warning would be an error here
    begun.finish(plan)
    assert pack.fill(1) is None
    assert read(pack, 1, plan) is read(pack, 2, plan) is None
    np.testing.assert_array_equal(read(pack, 0, plan), make_frames(2))


def test_files_that_may_only_be_read_are_read_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack, plan = make_pack(tmp_path, VIDEOS, [2, 2]), make_entry_plan(2)
    fill(pack, 0, make_frames(2), plan)
    open_as_it_is = os.open

    def open_to_read(path: Path, flags: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_as_it_is(path, flags)

    monkeypatch.setattr(os, "open", open_to_read)
    later = reopened(pack)
    np.testing.assert_array_equal(read(later, 0, plan), make_frames(2))
    assert later.fill(1) is None


def test_threads_may_fill_and_read_the_same_entries_at_once(tmp_path: Path) -> None:
    pack, plan = make_pack(tmp_path, VIDEOS, [40, 40], [40]), make_entry_plan(40)

    def work(number: int) -> bool:
        entry = number % 3
        found = read(pack, entry, plan)
        if found is None:
            filling = pack.fill(entry)
            for at in range(0, 40, 8):
                filling.add(make_frames(40, seed=entry)[at : at + 8], np.zeros(8, np.bool_))
            filling.finish(plan)
        return found is None or np.array_equal(found, make_frames(40, seed=entry))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(120)))
    for entry in range(3):
        np.testing.assert_array_equal(read(reopened(pack), entry, plan), make_frames(40, seed=entry))


# All of it


@settings(max_examples=60)
@given(st.data())
def test_whatever_is_filled_damaged_and_reopened_what_is_read_is_what_was_written_or_nothing(data) -> None:
    key = data.draw(st.sampled_from([VIDEOS, CLIPS]))
    counts = st.just(3) if key is CLIPS else st.integers(1, 4)
    parts = data.draw(st.lists(st.lists(counts, min_size=1, max_size=3), min_size=1, max_size=3))
    sizes = [count for part in parts for count in part]
    plans, contents = [make_entry_plan(size) for size in sizes], [make_frames(s, seed=n) for n, s in enumerate(sizes)]
    entries = st.integers(0, len(sizes) - 1)
    steps = st.lists(st.tuples(st.sampled_from(["fill", "begin", "damage", "record", "reopen", "read"]), entries))
    filled: set[int] = set()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        pack = make_pack(Path(folder), key, *parts)
        for step, entry in data.draw(steps):
            if step == "fill":
                fill(pack, entry, contents[entry], plans[entry])
                filled.add(entry)
            elif step == "begin":
                pack.fill(entry).add(contents[entry], np.zeros(sizes[entry], np.bool_))
            elif step in ("damage", "record"):
                damage(pack, entry, "frames.npy" if step == "damage" else "state.bin")
                filled.discard(entry)
                pack = reopened(pack)
            elif step == "reopen":
                pack = reopened(pack)
            found = read(pack, entry, plans[entry])
            assert found is None or np.array_equal(found, contents[entry])
            assert (found is not None) >= (entry in filled)
