"""The pack for a data set is found or made: what is missing is added, what is wrong is made again, nothing twice."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clipfeed as cf
from clipfeed.cache import Entries, OpenedPack, PackKey, needed_bytes, open_pack, opening
from clipfeed.cache.pack import RawPack
from clipfeed.cache.part import create_part, part_bytes
from clipfeed.cache.room import find_packs, hold_pack, used_bytes
from clipfeed.errors import CacheWarning
from clipfeed.testing import make_entries, make_entry_plan, make_frames, make_pack_key

VIDEOS, CLIPS = make_pack_key(None, (8, 8, 3)), make_pack_key(3, (8, 8, 3))
ON_DISK = pytest.mark.parametrize("codec", ["raw", "jpeg"])


def read(opened: OpenedPack, entries: Entries, row: int) -> np.ndarray | None:
    """What a pack has of a row; None where the row is not there."""
    entry = int(opened.pack.find(entries)[row])
    count = int(entries.num_frames[row])
    out = np.empty((count, *opened.pack.key.frame_shape), np.uint8)
    return None if entry < 0 or opened.pack.read(entry, make_entry_plan(count), out) is None else out


def fill(opened: OpenedPack, entries: Entries, row: int) -> bool:
    """Fill a row with frames that tell it from all others; False where it stays uncached."""
    entry, count = int(opened.pack.find(entries)[row]), int(entries.num_frames[row])
    filling = None if entry < 0 else opened.pack.fill(entry)
    if filling is not None:
        filling.add(content(entries, row), np.zeros(count, np.bool_))
        filling.finish(make_entry_plan(count))
    return filling is not None


def content(entries: Entries, row: int) -> np.ndarray:
    seed = int.from_bytes(bytes(entries.identities[row])[:4], "little")
    return make_frames(int(entries.num_frames[row]), (8, 8, 3), seed=seed)


def fill_all(opened: OpenedPack, entries: Entries) -> list[bool]:
    return [fill(opened, entries, row) for row in range(len(entries))]


def rows_there(opened: OpenedPack, entries: Entries) -> list[int]:
    """Rows that are kept; fails on one that is not what was written."""
    found = [read(opened, entries, row) for row in range(len(entries))]
    for row, frames in enumerate(found):
        if frames is not None and isinstance(opened.pack, RawPack):
            np.testing.assert_array_equal(frames, content(entries, row))
    return [row for row, frames in enumerate(found) if frames is not None]


def parts_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*/part-*"))


def said(work: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    assert all(warning.category is CacheWarning for warning in caught)
    return [str(warning.message) for warning in caught]


# One pack for all


@ON_DISK
@pytest.mark.parametrize("key", [VIDEOS, CLIPS])
def test_a_pack_is_made_once_and_found_again(tmp_path: Path, codec: str, key: PackKey) -> None:
    cache, entries = cf.Cache(tmp_path, codec=codec), make_entries([3, 3, 3])
    first = open_pack(cache, key, entries)
    assert fill_all(first, entries) == [True] * 3
    again = open_pack(cf.Cache(str(tmp_path), codec=codec), key, entries)
    assert rows_there(again, entries) == [0, 1, 2]
    assert [pack.name for pack in find_packs(tmp_path)] == [key.digest]
    assert again.place == str(tmp_path / key.digest)
    assert (tmp_path / key.digest / "pack.json").read_text() == key.text
    assert again.notes == ()


def test_other_keys_are_other_packs(tmp_path: Path) -> None:
    entries = make_entries([3])
    fill_all(open_pack(cf.Cache(tmp_path), CLIPS, entries), entries)
    assert rows_there(open_pack(cf.Cache(tmp_path), VIDEOS, entries), entries) == []
    assert len(find_packs(tmp_path)) == 2


def test_videos_that_are_added_get_a_part_of_their_own_each_time(tmp_path: Path) -> None:
    cache = cf.Cache(tmp_path)
    for total in (3, 4, 5, 7, 9):
        entries = make_entries([3] * total)
        opened = open_pack(cache, CLIPS, entries)
        missing = [row for row in range(total) if row not in rows_there(opened, entries)]
        assert missing == {3: [0, 1, 2], 4: [3], 5: [4], 7: [5, 6], 9: [7, 8]}[total]
        assert all(fill(opened, entries, row) for row in missing)
    assert len(parts_of(tmp_path)) == 5
    again = open_pack(cache, CLIPS, make_entries([3] * 9))
    assert rows_there(again, make_entries([3] * 9)) == list(range(9))
    assert rows_there(again, make_entries([3] * 2, first=6)) == [0, 1]
    assert len(parts_of(tmp_path)) == 5


def test_an_entry_that_stands_in_two_parts_is_found_and_right(tmp_path: Path) -> None:
    cache, few, many = cf.Cache(tmp_path), make_entries([3, 3]), make_entries([3, 3, 3])
    (tmp_path / CLIPS.digest).mkdir()
    one = open_pack(cache, CLIPS, few)
    create_part(tmp_path / CLIPS.digest, CLIPS, many)  # by a process that did not see the first part
    fill_all(one, few)
    both = open_pack(cache, CLIPS, many)
    fill_all(both, many)
    assert rows_there(open_pack(cache, CLIPS, many), many) == [0, 1, 2]
    assert len(parts_of(tmp_path)) == 2


def test_a_row_that_comes_twice_has_one_place_and_one_without_known_content_has_none(tmp_path: Path) -> None:
    entries = make_entries([3, 3, 3])
    twice = entries.take(np.array([1, 0, 1, 1, 2]))
    twice.identities[4] = b""
    opened = open_pack(cf.Cache(tmp_path), CLIPS, twice)
    assert opened.num_bytes == part_bytes(CLIPS, 2, 6)
    assert opened.pack.find(twice)[4] == -1
    assert fill(opened, twice, 0)
    assert rows_there(opened, twice) == [0, 2, 3]


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_videos_beyond_the_longest_stay_uncached_and_are_counted(tmp_path: Path, where: str) -> None:
    cache = cf.Cache(tmp_path if where == "disk" else None, where=where, max_frames=5)
    entries = make_entries([5, 6, 1, 0, 700])
    opened = open_pack(cache, VIDEOS, entries)
    assert (opened.pack.find(entries) >= 0).tolist() == [True, False, True, False, False]
    assert opened.notes == ("2 videos have more than max_frames=5 frames and stay uncached",)
    assert open_pack(cache, CLIPS, make_entries([3])).notes == ()


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_nothing_to_keep_is_no_error(tmp_path: Path, where: str) -> None:
    cache, none = cf.Cache(tmp_path if where == "disk" else None, where=where), make_entries([])
    for key in (VIDEOS, CLIPS):
        opened = open_pack(cache, key, none)
        assert opened.pack.find(none).tolist() == []
        assert opened.pack.find(make_entries([3])).tolist() == [-1]
    assert parts_of(tmp_path) == []


def test_bytes_are_known_beforehand() -> None:
    entries = make_entries([3, 4])
    assert needed_bytes(VIDEOS, entries, cf.Cache()) == part_bytes(VIDEOS, 2, 7)
    assert needed_bytes(VIDEOS, entries, cf.Cache(where="memory")) == 7 * (8 * 8 * 3 + 1)
    assert needed_bytes(VIDEOS, entries, cf.Cache(codec="jpeg")) == 7 * 8 * 8 * 3 // 4


# Damage


def flip(path: Path, place: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


@ON_DISK
@settings(max_examples=80, suppress_health_check=[HealthCheck.differing_executors])
@given(data=st.data())
def test_one_flipped_bit_anywhere_costs_one_entry_at_most_and_is_mended(codec: str, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from([VIDEOS, CLIPS]))
    key = PackKey(clip_length=key.clip_length, frame_shape=key.frame_shape, fields=(("codec", codec),))
    counts = [3, 3, 3] if key.clip_length else data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    entries = make_entries(counts)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)  # a part of one row may be lost with it
        cache = cf.Cache(folder, codec=codec)
        first = open_pack(cache, key, entries)
        fill_all(first, entries)
        expected = [read(first, entries, row) for row in range(len(counts))]
        del first
        files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path.stat().st_size]
        path = data.draw(st.sampled_from(files))
        flip(path, data.draw(st.integers(0, path.stat().st_size - 1)), data.draw(st.integers(0, 7)))
        lost: list[int] = []
        damaged = open_pack(cache, key, entries)
        for row, before in enumerate(expected):
            found = read(damaged, entries, row)
            assert found is None or np.array_equal(found, before)
            lost += [] if found is not None else [row]
        assert len(lost) <= 1
        assert all(fill(damaged, entries, row) for row in lost)
        del damaged
        mended = open_pack(cache, key, entries)
        assert all(np.array_equal(read(mended, entries, row), before) for row, before in enumerate(expected))


@pytest.mark.parametrize("name", ["frames.npy", "state.bin", "rows.npy"])
@pytest.mark.parametrize("harm", ["cut", "emptied", "removed", "grown"])
def test_a_part_with_a_file_that_is_not_whole_is_said_and_made_again(tmp_path: Path, name: str, harm: str) -> None:
    cache, entries, added = cf.Cache(tmp_path), make_entries([3, 3]), make_entries([3, 3, 3])
    fill_all(open_pack(cache, CLIPS, entries), entries)
    fill_all(open_pack(cache, CLIPS, added), added)
    (path,) = (tmp_path / CLIPS.digest).glob(f"part-*-2/{name}")
    size = path.stat().st_size
    if harm == "removed":
        path.unlink()
    else:
        os.truncate(path, {"cut": size // 2, "emptied": 0, "grown": size + 1}[harm])
    (message,) = said(lambda: rows_there(open_pack(cache, CLIPS, added), added))
    assert name in message
    assert "made again" in message
    again = open_pack(cache, CLIPS, added)
    assert rows_there(again, added) == [2]
    assert fill_all(again, added) == [True] * 3
    assert rows_there(open_pack(cache, CLIPS, added), added) == [0, 1, 2]
    assert len(parts_of(tmp_path)) == 2


def test_what_other_programs_left_in_a_pack_harms_nothing(tmp_path: Path) -> None:
    cache, entries = cf.Cache(tmp_path), make_entries([3, 3])
    pack = tmp_path / CLIPS.digest
    fill_all(open_pack(cache, CLIPS, entries), entries)
    (pack / "part-of something").mkdir()
    (pack / ".DS_Store").write_bytes(b"x")
    (pack / "pack.json").write_text("{")
    (tmp_path / "note.txt").write_text("mine")
    assert "made again" in said(lambda: open_pack(cache, CLIPS, entries))[0]
    assert rows_there(open_pack(cache, CLIPS, entries), entries) == [0, 1]
    assert (pack / "pack.json").read_text() == CLIPS.text
    assert (tmp_path / "note.txt").read_text() == "mine"


def test_a_file_in_the_place_of_a_part_is_no_part(tmp_path: Path) -> None:
    cache, entries = cf.Cache(tmp_path), make_entries([3, 3])
    (tmp_path / CLIPS.digest).mkdir()
    (tmp_path / CLIPS.digest / "part-0").write_text("x")
    assert all(fill_all(open_pack(cache, CLIPS, entries), entries))
    assert (tmp_path / CLIPS.digest / "part-0").read_text() == "x"


def test_a_part_that_cannot_be_opened_now_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, entries = cf.Cache(tmp_path), make_entries([3, 3])
    fill_all(open_pack(cache, CLIPS, entries), entries)
    open_file = os.open

    def refuse(path: object, *arguments: object) -> int:
        if str(path).endswith("state.bin"):
            raise OSError(24, "Too many open files")
        return open_file(path, *arguments)

    monkeypatch.setattr(os, "open", refuse)
    messages = said(lambda: open_pack(cache, CLIPS, entries))
    assert "Too many open files" in messages[0]
    monkeypatch.undo()
    assert rows_there(open_pack(cache, CLIPS, entries), entries) == [0, 1]


def test_what_a_killed_process_left_is_removed_after_an_hour_and_not_before(tmp_path: Path) -> None:
    cache, entries, pack = cf.Cache(tmp_path), make_entries([3]), tmp_path / CLIPS.digest
    pack.mkdir()
    for name, age in (("old", 3700), ("new", 60)):
        (pack / f".part-{name}.partial").mkdir()
        (pack / f".part-{name}.partial" / "frames.npy").write_bytes(b"x" * 1000)
        (pack / f".pack-{name}.partial").write_text("x")
        for path in (pack / f".part-{name}.partial", pack / f".pack-{name}.partial"):
            os.utime(path, (time.time() - age,) * 2)
    open_pack(cache, CLIPS, entries)
    assert sorted(path.name for path in pack.glob(".*")) == [".pack-new.partial", ".part-new.partial"]


def test_what_another_process_finishes_while_it_is_looked_at_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, pack = make_entries([3]), tmp_path / CLIPS.digest
    pack.mkdir()
    glob = Path.glob

    def find_and_lose(folder: Path, pattern: str):
        return [*glob(folder, pattern), *([folder / ".part-gone.partial"] if pattern == ".*.partial" else [])]

    monkeypatch.setattr(Path, "glob", find_and_lose)
    assert fill_all(open_pack(cf.Cache(tmp_path), CLIPS, entries), entries) == [True]


# Room


@pytest.mark.parametrize("key", [VIDEOS, CLIPS])
def test_over_the_limit_a_fixed_part_is_kept_the_same_in_each_run(tmp_path: Path, key: PackKey) -> None:
    entries = make_entries([3] * 40)
    limit = part_bytes(key, 40, 120) // 2 + 16_384
    kept = None
    for run in range(4):
        opened = open_pack(cf.Cache(tmp_path, max_bytes=limit), key, entries)
        there = rows_there(opened, entries)
        assert there == (kept if run else [])
        kept = [row for row in range(40) if fill(opened, entries, row)]
        assert 0 < len(kept) < 40
        assert f"{40 - len(kept)} videos stay uncached: max_bytes leaves" in opened.notes[0]
    assert len(parts_of(tmp_path)) == 1
    blocks = 6 * 4096  # of the last, half empty block of each file, and the tables for people
    assert sum(map(used_bytes, find_packs(tmp_path))) <= limit + blocks
    other = open_pack(cf.Cache(tmp_path / "other", max_bytes=limit), key, entries)
    assert [row for row in range(40) if fill(other, entries, row)] == kept


def test_older_packs_make_room_but_not_those_in_use(tmp_path: Path) -> None:
    entries = make_entries([3] * 20)
    keys = [make_pack_key(3, (32, 32, 3), number=str(number)) for number in range(3)]
    limit = 2 * part_bytes(keys[0], 20, 60) + 40_000
    oldest = open_pack(cf.Cache(tmp_path, max_bytes=limit), keys[0], entries)
    open_pack(cf.Cache(tmp_path, max_bytes=limit), keys[1], entries)
    gc.collect()
    newest = open_pack(cf.Cache(tmp_path, max_bytes=limit), keys[2], entries)
    assert newest.notes == (f"removed an older pack, {tmp_path / keys[1].digest}",)
    assert fill(newest, entries, 0)
    assert {pack.name for pack in find_packs(tmp_path)} == {keys[0].digest, keys[2].digest}
    assert oldest.pack is not None


def test_a_limit_that_was_lowered_removes_older_packs_though_nothing_is_missing(tmp_path: Path) -> None:
    entries = make_entries([3] * 10)
    keys = [make_pack_key(3, (32, 32, 3), number=str(number)) for number in range(3)]
    for key in keys:
        fill_all(open_pack(cf.Cache(tmp_path), key, entries), make_entries([]))
    gc.collect()
    size = used_bytes(tmp_path / keys[0].digest)
    for share, left in ((4, keys), (2.5, keys[1:]), (0.5, keys[2:]), (0.5, keys[2:])):
        opened = open_pack(cf.Cache(tmp_path, max_bytes=int(share * size)), keys[2], entries)
        assert (opened.pack.find(entries) >= 0).all()  # what is there is never shortened
        assert {pack.name for pack in find_packs(tmp_path)} == {key.digest for key in left}


def test_a_disk_that_is_full_is_said_once_and_for_all_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = make_entries([3] * 4)
    usage = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    messages = said(lambda: open_pack(cf.Cache(tmp_path), CLIPS, entries))
    assert messages == said(lambda: open_pack(cf.Cache(tmp_path), CLIPS, entries))  # which Python shows once
    assert len(messages) == 1
    assert "no room for all videos" in messages[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = open_pack(cf.Cache(tmp_path), CLIPS, entries)
    assert opened.notes == ("4 videos stay uncached: the free space leaves 0 bytes",)
    assert fill_all(opened, entries) == [False] * 4


def test_space_that_is_refused_after_all_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    entries = make_entries([3] * 4)
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    (message,) = said(lambda: open_pack(cf.Cache(tmp_path), CLIPS, entries))
    assert "nothing more is cached" in message
    assert "No space left" in message
    assert [path.name for path in (tmp_path / CLIPS.digest).iterdir() if "part" in path.name] == []


def test_jpeg_stays_within_its_limit_and_removes_nothing_where_it_may_not_write(tmp_path: Path) -> None:
    entries = make_entries([3] * 12)
    other = make_pack_key(3, (8, 8, 3), other="pack")
    open_pack(cf.Cache(tmp_path), other, entries)
    gc.collect()
    opened = open_pack(cf.Cache(tmp_path, codec="jpeg", max_bytes=40_000), CLIPS, entries)
    assert len(find_packs(tmp_path)) == 2
    messages = said(lambda: fill_all(opened, entries))
    assert len(messages) <= 1
    assert rows_there(opened, entries)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.jpegs")) <= 40_000


# Memory


def test_memory_is_refused_above_its_limit_with_the_arithmetic() -> None:
    entries = make_entries([3] * 10)
    with pytest.raises(cf.BudgetError) as caught:
        open_pack(cf.Cache(where="memory", max_bytes="5KB"), CLIPS, entries)
    assert "10 videos, 30 frames of 8 x 8 x 3 bytes: 5.8 KB" in str(caught.value)
    assert "limit: 5.0 KB (max_bytes)" in str(caught.value)
    assert 'cache="disk"' in str(caught.value)
    assert open_pack(cf.Cache(where="memory", max_bytes="6KB"), CLIPS, entries).num_bytes == 5790


def test_memory_is_refused_above_half_of_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "available_memory", lambda: 11_000)
    with pytest.raises(cf.BudgetError, match=r"limit: 5\.5 KB \(half of the available memory\)"):
        open_pack(cf.Cache(where="memory"), CLIPS, make_entries([3] * 10))
    monkeypatch.setattr(opening, "available_memory", lambda: None)
    assert open_pack(cf.Cache(where="memory"), CLIPS, make_entries([3] * 10)).pack is not None


def test_datasets_share_what_an_object_holds_in_memory_and_all_of_it_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache, entries = cf.Cache(where="memory", max_bytes=6000), make_entries([3] * 10)
    fill_all(open_pack(cache, CLIPS, entries), entries)
    assert rows_there(open_pack(cache, CLIPS, entries), entries) == list(range(10))
    more = make_entries([3] * 12)
    with pytest.raises(cf.BudgetError, match=r"2 videos, 6 frames.*: 1\.2 KB\n.*other frames in this cache: 5\.8 KB"):
        open_pack(cache, CLIPS, more)
    with pytest.raises(cf.BudgetError, match="other frames in this cache"):
        open_pack(cache, VIDEOS, entries)
    assert rows_there(open_pack(cache, CLIPS, entries), entries) == list(range(10))
    assert rows_there(open_pack(cf.Cache(where="memory"), CLIPS, entries), entries) == []


def test_memory_that_is_filled_already_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, entries, left = cf.Cache(where="memory"), make_entries([3] * 10), [11_600]
    monkeypatch.setattr(opening, "available_memory", lambda: left[0])
    fill_all(open_pack(cache, CLIPS, entries), entries)
    left[0] -= 5760
    assert open_pack(cache, CLIPS, entries).pack is not None


# Folders


@pytest.mark.parametrize("name", ["a b", "übung 日本", "line\nbreak", "%d [x] #;'\"", "-x", "deep/er/and/deeper"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    entries = make_entries([3, 3])
    for codec in ("raw", "jpeg"):
        cache = cf.Cache(tmp_path / name / codec, codec=codec)
        fill_all(open_pack(cache, CLIPS, entries), entries)
        assert rows_there(open_pack(cache, CLIPS, entries), entries) == [0, 1]


@ON_DISK
def test_a_file_in_the_place_of_the_folder_is_an_error_that_names_it(tmp_path: Path, codec: str) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(cf.CacheError, match=f"^{folder}: is no folder") as caught:
            open_pack(cf.Cache(folder, codec=codec), CLIPS, make_entries([3]))
        assert isinstance(caught.value, OSError)
    assert (tmp_path / "file").read_text() == "x"


WITHOUT_ROOT = """
import os, sys, warnings
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_cache_opening import *
folder = Path(sys.argv[1])
entries = make_entries([3, 3, 3])
for codec in ("raw", "jpeg"):  # loads what may be out of reach afterwards
    warm = open_pack(cf.Cache(folder / f"warm {codec}", codec=codec), CLIPS, entries)
    fill_all(warm, entries), rows_there(warm, entries)
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""


def without_root(folder: Path, code: str) -> list[str]:
    """Run code in a process for which permissions mean something."""
    command = [sys.executable, "-c", WITHOUT_ROOT + textwrap.dedent(code), str(folder), str(Path(__file__).parent)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@ON_DISK
def test_a_pack_that_may_only_be_read_is_read_and_the_rest_is_done_without(open_folder: Path, codec: str) -> None:
    entries = make_entries([3, 3, 3])
    opened = open_pack(cf.Cache(open_folder / "cache", codec=codec), CLIPS, entries)
    for row in (0, 2):
        fill(opened, entries, row)
    other = make_pack_key(3, (8, 8, 3), other="pack")
    open_pack(cf.Cache(open_folder / "cache"), other, entries)
    code = f"""
        cache = cf.Cache(folder / "cache", codec={codec!r}, max_bytes=1)
        print(said(lambda: print(rows_there(open_pack(cache, CLIPS, entries), entries))))
        opened = open_pack(cache, CLIPS, entries)
        filling = opened.pack.fill(1)
        print(filling is None or not filling.is_kept, open_pack(cache, CLIPS, make_entries([3] * 9)).pack is None)
    """
    (open_folder / "cache").chmod(0o755)
    assert without_root(open_folder, code) == ["[0, 2]", "[]", "True False"]
    assert len(find_packs(open_folder / "cache")) == 2


@ON_DISK
def test_a_folder_that_may_not_be_written_is_said_once_and_done_without(open_folder: Path, codec: str) -> None:
    (open_folder / "closed").mkdir(mode=0o700)
    (open_folder / "read only").mkdir(mode=0o755)
    code = f"""
        for name in ("read only", "read only/below", "closed", "closed/below"):
            cache = cf.Cache(folder / name, codec={codec!r})
            print(said(lambda: print(open_pack(cache, CLIPS, entries).pack)))
    """
    lines = without_root(open_folder, code)
    assert lines[::2] == ["None"] * 4
    assert all("nothing is cached, Permission denied" in line and line.count("cached") == 1 for line in lines[1::2])


def test_packs_of_others_that_may_not_be_seen_or_removed_do_not_count(open_folder: Path) -> None:
    entries, cache = make_entries([3, 3, 3]), open_folder / "cache"
    for name in ("closed", "read only"):
        open_pack(cf.Cache(cache), make_pack_key(3, (64, 64, 3), name=name), entries)
    closed = make_pack_key(3, (64, 64, 3), name="closed").digest
    (cache / closed).chmod(0o700)
    cache.chmod(0o777)
    code = """
        opened = open_pack(cf.Cache(folder / "cache", max_bytes=150_000), CLIPS, entries)
        print(fill_all(opened, entries), opened.notes)
    """
    assert without_root(open_folder, code) == ["[True, True, True] ()"]
    assert (cache / closed).is_dir()


# Several at once


def test_threads_that_open_a_pack_at_once_make_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries, opened, start, made = make_entries([3] * 20), [], threading.Barrier(6), []

    def make_slowly(*arguments: object) -> Path:
        made.append(arguments)
        time.sleep(0.05)
        return create_part(*arguments)

    monkeypatch.setattr(opening, "create_part", make_slowly)

    def work() -> None:
        start.wait()
        opened.append(open_pack(cf.Cache(tmp_path), CLIPS, entries))
        fill_all(opened[-1], entries)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 6
    assert len(made) == len(parts_of(tmp_path)) == 1  # space was never reserved twice
    assert not list((tmp_path / CLIPS.digest).glob(".*"))
    assert all(rows_there(each, entries) == list(range(20)) for each in opened)


OPEN_AND_FILL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_cache_opening import *
entries = make_entries([3] * 30)
sys.stdin.readline()
opened = open_pack(cf.Cache(Path(sys.argv[1])), CLIPS, entries)
print(all(fill_all(opened, entries)), rows_there(opened, entries) == list(range(30)))
"""


def test_processes_that_open_a_pack_at_once_make_one_part(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_AND_FILL, str(tmp_path), str(Path(__file__).parent)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=120)[0] for process in started] == ["True True\n"] * 3
    assert len(parts_of(tmp_path)) == 1


def test_a_pack_that_is_being_removed_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries, lost = make_entries([3]), []

    def lose_once(pack: Path) -> int:
        if not lost:
            lost.append(pack)
            shutil.rmtree(pack)
        return hold_pack(pack)

    monkeypatch.setattr(opening, "hold_pack", lose_once)
    opened = open_pack(cf.Cache(tmp_path), CLIPS, entries)
    assert fill_all(opened, entries) == [True]
    assert [pack.name for pack in find_packs(tmp_path)] == [CLIPS.digest]


# Descriptors


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_descriptors_are_closed_when_a_pack_is_gone(tmp_path: Path) -> None:
    entries = make_entries([3, 3])
    before = open_descriptors()
    opened = open_pack(cf.Cache(tmp_path), CLIPS, entries)
    fill_all(opened, entries)
    assert open_descriptors() == before + 3
    del opened
    gc.collect()
    assert open_descriptors() == before


def test_datasets_of_one_process_share_the_descriptors_of_parts(tmp_path: Path) -> None:
    for total in range(1, 9):
        open_pack(cf.Cache(tmp_path), CLIPS, make_entries([3] * total))
    entries, before = make_entries([3] * 8), open_descriptors()
    opened = [open_pack(cf.Cache(tmp_path), CLIPS, entries) for _ in range(10)]
    assert open_descriptors() - before == 2 * 8 + 10
    fill(opened[0], entries, 5)
    assert rows_there(opened[9], entries) == [5]


def test_a_process_with_no_descriptor_left_goes_on_without_and_harms_nothing(tmp_path: Path) -> None:
    entries = make_entries([3, 3])
    fill_all(open_pack(cf.Cache(tmp_path), CLIPS, entries), entries)
    gc.collect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(7):
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() - 1 + spare, hard))
        try:
            said(lambda: open_pack(cf.Cache(tmp_path), CLIPS, entries))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.collect()
        assert rows_there(open_pack(cf.Cache(tmp_path), CLIPS, entries), entries) == [0, 1]
    assert len(parts_of(tmp_path)) == 1
