"""Every file access: what is listed, in which order, and what is never opened."""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clipfeed.storage import Entry, fingerprint_file, list_files, local_path, open_file, stat_file

NOBODY = 65534


def write(root: Path, *keys: str, data: bytes = b"x") -> None:
    for key in keys:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def keys_of(entries: list[Entry], kind: str = "file") -> list[str]:
    return [entry.key for entry in entries if entry.kind == kind]


@contextlib.contextmanager
def without_root() -> Iterator[None]:
    """Give up root's rights for a while: root may read everything, and the test would pass for nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


# Listing


def test_entries_come_by_key_parts_code_point_by_code_point(tmp_path: Path) -> None:
    write(tmp_path, "a/x", "a.mp4", "a b/x", "B", "a/b/c", "é", "日", "-", "a/B")
    entries = list_files(tmp_path)
    parts = [tuple(entry.key.split("/")) for entry in entries]
    assert parts == sorted(parts)
    assert keys_of(entries) == ["-", "B", "a/B", "a/b/c", "a/x", "a b/x", "a.mp4", "é", "日"]
    assert keys_of(entries, "dir") == ["a", "a/b", "a b"]


def test_a_file_carries_its_size_and_time(tmp_path: Path) -> None:
    write(tmp_path, "a", data=b"12345")
    os.utime(tmp_path / "a", ns=(1, 1_600_000_000_123_456_789))
    (entry,) = list_files(tmp_path)
    assert entry == Entry(key="a", kind="file", size_bytes=5, mtime_ns=1_600_000_000_123_456_789)


@pytest.mark.parametrize(
    "name",
    ["a b.mp4", "'\".mp4", "[x](y).mp4", "#&;%d!.mp4", "-x.mp4", "line\nbreak.mp4", "é ü.mp4", "日本.mp4", "\\.mp4"],
)
def test_odd_names_are_listed_and_open_again(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"日本 #1/{name}", data=b"seen")
    (key,) = keys_of(list_files(tmp_path))
    assert key == f"日本 #1/{name}"
    with open_file(tmp_path, key) as file:
        assert file.read() == b"seen"


def test_names_that_are_no_text_keep_their_bytes(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xfe.mp4"
    with open(path, "wb") as file:  # noqa: PTH123  # a Path cannot hold bytes
        file.write(b"seen")
    (key,) = keys_of(list_files(tmp_path))
    assert os.fsencode(key) == b"\xff\xfe.mp4"
    assert stat_file(tmp_path, key).size_bytes == 4


def test_times_beyond_64_bits_of_nanoseconds_are_held_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.mp4")
    path, seconds = tmp_path / "a.mp4", 2**40
    os.utime(path, (seconds, seconds))
    assert path.stat().st_mtime > 2**33, "this file system keeps no such times"
    assert stat_file(tmp_path, "a.mp4").mtime_ns <= 2**63 - 1
    assert list_files(tmp_path)[0].mtime_ns == stat_file(tmp_path, "a.mp4").mtime_ns


def test_every_spelling_of_a_root_gives_the_same_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "my data/run/a", "my data/b")
    (tmp_path / "link").symlink_to("my data")
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "my data"
    spellings = [root, str(root), f"{root}/", f"{root}//", "my data", "my data/", "./my data", "link", "link/"]
    listings = [list_files(spelling) for spelling in spellings]
    assert all(listing == listings[0] for listing in listings)
    assert keys_of(listings[0]) == ["b", "run/a"]


def test_ignored_names_are_neither_listed_nor_entered(tmp_path: Path) -> None:
    write(tmp_path, "a/x", "skip/x", "b/skip", "b/y")
    assert keys_of(list_files(tmp_path, ignore=lambda name: name == "skip")) == ["a/x", "b/y"]


def test_what_is_no_regular_file_is_named_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "nowhere.mp4").symlink_to("missing")
    (tmp_path / "round.mp4").symlink_to("round.mp4")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.mp4"))
        entries = list_files(tmp_path)
    assert {entry.kind for entry in entries} == {"other"}
    notes = {entry.key: entry.note for entry in entries}
    assert notes["pipe.mp4"] == "a FIFO"
    assert notes["socket.mp4"] == "a socket"
    assert notes["nowhere.mp4"] == "a link to nothing"
    assert "symbolic links" in notes["round.mp4"]


def test_a_device_is_named(tmp_path: Path) -> None:
    (tmp_path / "null.mp4").symlink_to("/dev/null")
    (entry,) = list_files(tmp_path)
    assert (entry.kind, entry.note) == ("other", "a character device")


def test_an_unreadable_folder_is_an_entry_and_no_error(open_folder: Path) -> None:
    write(open_folder, "locked/x", "open/x")
    (open_folder / "locked").chmod(0)
    with without_root():
        entries = list_files(open_folder)
    assert keys_of(entries) == ["open/x"]
    (locked,) = (entry for entry in entries if entry.kind == "unreadable")
    assert (locked.key, locked.note) == ("locked", "Permission denied")


def test_files_that_may_not_be_looked_at_are_entries_and_no_error(open_folder: Path) -> None:
    write(open_folder, "list only/x", "open/x")
    (open_folder / "list only").chmod(0o744)
    with without_root():
        entries = list_files(open_folder, follow_links=True)
    assert keys_of(entries) == ["open/x"]
    assert [(entry.key, entry.note) for entry in entries if entry.kind == "other"] == [
        ("list only/x", "Permission denied")
    ]


@pytest.mark.parametrize(("root", "error"), [("missing", FileNotFoundError), ("file", NotADirectoryError)])
def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path, root: str, error: type[OSError]) -> None:
    write(tmp_path, "file")
    with pytest.raises(error):
        list_files(tmp_path / root)


def test_folders_may_be_nested_deeper_than_the_recursion_limit(tmp_path: Path) -> None:
    (tmp_path / "/".join(["d"] * 300)).mkdir(parents=True)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        entries = list_files(tmp_path)
    finally:
        sys.setrecursionlimit(usual)
    assert len(entries) == 300


# Links


def test_a_link_to_a_file_counts_as_that_file(tmp_path: Path) -> None:
    write(tmp_path, "store/blob", data=b"12345")
    write(tmp_path, "data/run/b")
    (tmp_path / "data/run/a.mp4").symlink_to("../../store/blob")
    entries = list_files(tmp_path / "data")
    assert keys_of(entries) == ["run/a.mp4", "run/b"]
    assert entries[1].size_bytes == 5


def test_links_to_folders_are_followed_on_request_only(tmp_path: Path) -> None:
    write(tmp_path, "store/x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/run").symlink_to("../store")
    (tmp_path / "data/walk").symlink_to("../store")
    closed = list_files(tmp_path / "data")
    assert keys_of(closed, "link") == ["run", "walk"]
    assert keys_of(closed) == []
    assert "follow_links=True" in closed[0].note
    assert keys_of(list_files(tmp_path / "data", follow_links=True)) == ["run/x", "walk/x"]


def test_a_link_back_up_ends_there(tmp_path: Path) -> None:
    write(tmp_path, "a/b/x")
    (tmp_path / "a/b/up").symlink_to("../..")
    (tmp_path / "a/b/self").symlink_to(".")
    entries = list_files(tmp_path, follow_links=True)
    assert keys_of(entries) == ["a/b/x"]
    assert {entry.note for entry in entries if entry.kind == "link"} == {"a link back to a folder that it lies in"}


def test_folders_that_all_link_to_each_other_end_soon_and_lose_no_file(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(12)]  # 12! ways from one to all others
    write(tmp_path, *(f"{name}/x" for name in names))
    for name in names:
        for other in names:
            (tmp_path / name / f"to {other}").symlink_to(f"../{other}")
    files = keys_of(list_files(tmp_path, follow_links=True))
    assert {f"{name}/x" for name in names} <= set(files)
    assert len(files) <= len(names) + len(names) ** 2


# One file


def test_paths_are_absolute_so_that_no_name_reads_as_an_option_or_a_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("data", "-x.mp4") == f"{tmp_path}/data/-x.mp4"
    assert local_path(".", "file:x.mp4") == f"{tmp_path}/./file:x.mp4"
    assert local_path("", "x.mp4") == f"{tmp_path}/./x.mp4"
    assert local_path(Path("/data"), "a/b.mp4") == "/data/a/b.mp4"


def test_two_dots_behind_a_link_lead_where_the_file_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "far/data/x", data=b"far")
    (tmp_path / "far/inner").mkdir()
    (tmp_path / "near").symlink_to("far/inner")
    monkeypatch.chdir(tmp_path)
    with open_file("near/../data", "x") as file:
        assert file.read() == b"far"


def test_opening_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file but a FIFO"):
        open_file(tmp_path, "pipe")
    assert not stat_file(tmp_path, "pipe").is_regular


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    for look in (open_file, stat_file, fingerprint_file):
        with pytest.raises(FileNotFoundError):
            look(tmp_path, "missing")


def test_entries_survive_pickling(tmp_path: Path) -> None:
    write(tmp_path, "a")
    assert pickle.loads(pickle.dumps(list_files(tmp_path))) == list_files(tmp_path)


# Fingerprints


def test_a_fingerprint_does_not_depend_on_name_or_time(tmp_path: Path) -> None:
    write(tmp_path, "a", "b/c", data=bytes(range(256)) * 400)
    os.utime(tmp_path / "a", (1, 1))
    assert fingerprint_file(tmp_path, "a") == fingerprint_file(tmp_path, "b/c")


@pytest.mark.parametrize("size", [1, 1024, 4096, 4097, 100_000])
@pytest.mark.parametrize("place", [0.0, 1.0])
def test_a_fingerprint_sees_a_change_at_either_end(tmp_path: Path, size: int, place: float) -> None:
    data = bytearray(size)
    write(tmp_path, "a", data=bytes(data))
    data[round(place * (size - 1))] = 1
    write(tmp_path, "b", data=bytes(data))
    assert fingerprint_file(tmp_path, "a") != fingerprint_file(tmp_path, "b")


def test_a_fingerprint_sees_every_byte_of_a_small_file(tmp_path: Path) -> None:
    prints = set()
    for place in range(0, 4096, 256):
        data = bytearray(4096)
        data[place] = 1
        write(tmp_path, "a", data=bytes(data))
        prints.add(fingerprint_file(tmp_path, "a"))
    assert len(prints) == 16


def test_a_fingerprint_sees_the_size(tmp_path: Path) -> None:
    prints = set()
    for size in (0, 1, 4096, 4097, 50_000, 50_001):
        write(tmp_path, "a", data=bytes(size))
        prints.add(fingerprint_file(tmp_path, "a"))
    assert len(prints) == 6


def test_fingerprints_stay_what_they_are_because_indexes_keep_them(tmp_path: Path) -> None:
    write(tmp_path, "small", data=b"abc")
    write(tmp_path, "large", data=bytes(range(256)) * 1000)
    assert fingerprint_file(tmp_path, "small") == "8418bcae9e091ec82983898394027942"
    assert fingerprint_file(tmp_path, "large") == "f5ac7bd90a591c3fe56da656c85fe81d"
