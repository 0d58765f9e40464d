"""How much may be taken: older packs go first, those in use never, and the same part is always kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clipfeed.cache import room
from clipfeed.cache.room import choose_entries, find_packs, free_bytes, hold_pack, make_room, making, used_bytes
from clipfeed.testing import make_entries


def put_pack(folder: Path, digit: str, *, used_at: int, num_bytes: int = 40_000) -> Path:
    """A pack of some bytes that was opened last at some second."""
    pack = folder / (digit * 32)
    pack.mkdir(parents=True)
    (pack / "pack.json").write_text("{}")
    (pack / "frames.npy").write_bytes(b"x" * num_bytes)
    (pack / "used").touch()
    os.utime(pack / "used", (used_at, used_at))
    return pack


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A disk that has as much room as a test says, and none that is left to others."""
    usage = SimpleNamespace(total=1000, used=0, free=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    return usage


# Finding


def test_packs_are_found_in_the_order_of_their_last_use_and_nothing_else_is_one(tmp_path: Path) -> None:
    second, first = put_pack(tmp_path, "a", used_at=200), put_pack(tmp_path, "b", used_at=100)
    (put_pack(tmp_path, "c", used_at=50) / "pack.json").unlink()
    for name in ("project", "A" * 32, "a" * 31, "f" * 32):
        (tmp_path / name).mkdir()
        (tmp_path / name / "used").touch()
    (tmp_path / ("d" * 32)).write_text("a file")
    (tmp_path / ("e" * 32)).symlink_to(first)
    assert find_packs(tmp_path) == [first, second]
    assert find_packs(tmp_path / "absent") == []


def test_what_files_take_is_counted_also_before_they_are_filled(tmp_path: Path) -> None:
    assert used_bytes(tmp_path) == 0
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"x" * 10_000)
    with (tmp_path / "sparse").open("xb") as file:
        file.truncate(1_000_000)
    assert 1_010_000 <= used_bytes(tmp_path) <= 1_020_000
    assert used_bytes(tmp_path / "absent") == 0


def test_free_space_is_that_of_the_file_system_which_will_hold_a_folder(tmp_path: Path) -> None:
    assert abs(free_bytes(tmp_path / "not" / "yet" / "there") - shutil.disk_usage(tmp_path).free) < 10**9


# Making room


def test_nothing_is_removed_while_there_is_room(tmp_path: Path, disk: SimpleNamespace) -> None:
    pack, older = put_pack(tmp_path, "a", used_at=200), put_pack(tmp_path, "b", used_at=100)
    found = make_room(pack, 10_000, 1_000_000)
    assert found.removed == ()
    assert older.is_dir()
    assert found.num_bytes == 1_000_000 - used_bytes(pack) - used_bytes(older)
    assert found.reason == "max_bytes"
    assert not found.is_disk_full
    assert make_room(pack, 10_000, None).reason == "the free space"


def test_the_pack_used_longest_ago_goes_first_and_only_as_many_as_must(tmp_path: Path, disk: SimpleNamespace) -> None:
    pack = put_pack(tmp_path, "a", used_at=1)
    middle, oldest, newest = (
        put_pack(tmp_path, digit, used_at=at) for digit, at in (("b", 200), ("c", 100), ("d", 300))
    )
    found = make_room(pack, 20_000, sum(map(used_bytes, (pack, oldest, middle, newest))))
    assert found.removed == (oldest,)
    assert [oldest.exists(), middle.exists(), newest.exists(), pack.exists()] == [False, True, True, True]
    assert found.num_bytes >= 20_000


def test_packs_in_use_stay_and_those_of_others_that_cannot_be_removed_too(
    tmp_path: Path, disk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = put_pack(tmp_path, "a", used_at=1)
    held, stuck, free = (put_pack(tmp_path, digit, used_at=at) for digit, at in (("b", 100), ("c", 200), ("d", 300)))
    descriptor, rmdir = hold_pack(held), Path.rmdir

    def refuse(path: Path) -> None:
        if path == stuck:
            raise PermissionError(13, "Permission denied")
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", refuse)
    assert make_room(pack, 10**9, 100_000).removed == (free,)
    assert held.is_dir()
    assert (held / "frames.npy").is_file()
    os.close(descriptor)
    assert make_room(pack, 10**9, 100_000).removed == (held,)


def test_a_pack_that_another_process_holds_stays_until_that_process_is_gone(
    tmp_path: Path, disk: SimpleNamespace
) -> None:
    pack, held = put_pack(tmp_path, "a", used_at=1), put_pack(tmp_path, "b", used_at=2)
    code = "import sys; from pathlib import Path; from clipfeed.cache.room import hold_pack\n"
    code += "hold_pack(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(held)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert make_room(pack, 10**9, 100_000).removed == ()
        process.kill()
        process.wait()
        assert make_room(pack, 10**9, 100_000).removed == (held,)


def test_room_is_never_negative(tmp_path: Path, disk: SimpleNamespace) -> None:
    pack = put_pack(tmp_path, "a", used_at=1)
    assert make_room(pack, 1, 10).num_bytes == 0
    disk.free = 0
    assert make_room(pack, 1, None).num_bytes == 0


def test_some_free_space_is_left_to_others_a_twentieth_of_a_small_disk(tmp_path: Path, disk: SimpleNamespace) -> None:
    pack = put_pack(tmp_path, "a", used_at=1)
    disk.total, disk.free = 100_000_000, 40_000_000
    found = make_room(pack, 1, None)
    assert (found.num_bytes, found.is_disk_full) == (35_000_000, True)
    disk.total, disk.free = 10**13, 10**12
    assert make_room(pack, 1, None).num_bytes == 10**12 - 2**30
    assert make_room(pack, 1, 10**14).is_disk_full


def test_a_pack_that_goes_away_while_room_is_made_is_no_error(
    tmp_path: Path, disk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack, other = put_pack(tmp_path, "a", used_at=1), put_pack(tmp_path, "b", used_at=2)
    find = room.find_packs

    def find_and_lose(folder: Path) -> list[Path]:
        found = find(folder)
        shutil.rmtree(other, ignore_errors=True)
        return found

    monkeypatch.setattr(room, "find_packs", find_and_lose)
    assert make_room(pack, 10**9, 100_000).removed == ()


# Making, one at a time


def test_one_process_at_a_time_adds_to_a_pack(tmp_path: Path) -> None:
    inside, most = [], []

    def work() -> None:
        with making(tmp_path):
            inside.append(1)
            most.append(len(inside))
            threading.Event().wait(0.01)
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


def test_nobody_waits_for_a_process_that_holds_on_nor_where_there_are_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_MAKING_SECONDS", 0.05)
    with making(tmp_path), making(tmp_path):
        pass
    with making(tmp_path / "absent"):
        pass
    monkeypatch.setattr(room, "fcntl", None)
    with making(tmp_path):
        pass


# Choosing


def bytes_of(rows: int, frames: int) -> int:
    return 100 + 7 * rows + 10 * frames


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 600))
def test_as_many_as_fit_are_chosen(counts: list[int], num_bytes: int) -> None:
    entries = make_entries(counts)
    chosen = choose_entries(entries, num_bytes, bytes_of)
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert not len(chosen) or bytes_of(len(chosen), int(entries.num_frames[chosen].sum())) <= num_bytes
    left = sorted(set(range(len(counts))) - set(chosen.tolist()), key=lambda row: entries.identities[row])
    if left:
        one_more = [*chosen.tolist(), left[0]]
        assert bytes_of(len(one_more), int(entries.num_frames[one_more].sum())) > num_bytes


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(100, 600), st.randoms())
def test_the_same_are_chosen_in_whatever_order_they_stand(counts: list[int], num_bytes: int, random) -> None:
    entries, order = make_entries(counts), list(range(len(counts)))
    random.shuffle(order)
    shuffled = entries.take(np.array(order))
    chosen = entries.identities[choose_entries(entries, num_bytes, bytes_of)]
    again = shuffled.identities[choose_entries(shuffled, num_bytes, bytes_of)]
    assert sorted(chosen.tolist()) == sorted(again.tolist())


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 600), st.integers(0, 100))
def test_more_room_only_adds_to_what_is_chosen(counts: list[int], num_bytes: int, more: int) -> None:
    entries = make_entries(counts)
    assert set(choose_entries(entries, num_bytes, bytes_of)) <= set(choose_entries(entries, num_bytes + more, bytes_of))


def test_choosing_among_many_asks_few_sizes() -> None:
    asked = []
    entries = make_entries([3] * 2000)
    chosen = choose_entries(entries, 20_000, lambda rows, frames: asked.append(rows) or bytes_of(rows, frames))
    assert len(chosen) == (20_000 - 100) // 37
    assert len(asked) < 20
