"""The files of a raw pack: what is read is what was written, or nothing."""

from __future__ import annotations

import csv
import errno
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed.cache import PackKey
from clipfeed.cache.part import Part, PartDamagedError, create_part, part_bytes
from clipfeed.testing import make_entries, make_frames, make_pack_key

VIDEOS, CLIPS = make_pack_key(None), make_pack_key(3)


def make_part(folder: Path, key: PackKey, counts: list[int]) -> Part:
    return Part(create_part(folder, key, make_entries(counts)), key)


def fill(part: Part, row: int, frames: np.ndarray, damage: list[bool] | None = None) -> None:
    writing = part.write(row)
    writing.add(frames, np.array(damage or [False] * len(frames)))
    writing.finish(*((np.arange(3), [True, True, False]) if part.key.clip_length else ()))


def read(part: Part, row: int) -> np.ndarray | None:
    """All frames of a row, checked; None where there is nothing that could be believed."""
    kept = part.kept(row)
    if kept is None or kept.checksum != part.checksum(row):
        return None
    out = np.empty((int(part.rows["num_frames"][row]), *part.key.frame_shape), np.uint8)
    return None if part.read(row, out) is None else out


def is_there(part: Part, row: int) -> bool:
    return read(part, row) is not None


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# What is written


@pytest.mark.parametrize(("key", "counts"), [(VIDEOS, [4, 1, 7]), (CLIPS, [3, 3, 3])])
def test_what_was_written_is_read_in_this_process_and_in_the_next(
    tmp_path: Path, key: PackKey, counts: list[int]
) -> None:
    part = make_part(tmp_path, key, counts)
    written = [make_frames(count, seed=row) for row, count in enumerate(counts)]
    assert not part.find_filled().any()
    assert not any(is_there(part, row) for row in range(3))
    for row in (2, 0):
        fill(part, row, written[row])
    for opened in (part, Part(part.folder, key)):
        assert opened.find_filled().tolist() == [True, False, True]
        np.testing.assert_array_equal(read(opened, 0), written[0])
        assert read(opened, 1) is None
        np.testing.assert_array_equal(read(opened, 2), written[2])


def test_a_record_says_which_frames_a_clip_has_and_which_repeat(tmp_path: Path) -> None:
    part = make_part(tmp_path, CLIPS, [3, 3])
    writing = part.write(1)
    writing.add(make_frames(3), np.array([False, True, False]))
    writing.finish(np.array([4, 2**31 - 1, 0]), [True, True, False])
    kept = part.kept(1)
    assert kept.frame_indices.tolist() == [4, 2**31 - 1, 0]
    assert kept.mask.tolist() == [True, True, False]
    out = np.empty((3, 2, 3, 3), np.uint8)
    assert part.read(1, out).tolist() == [False, True, False]


def test_some_frames_of_a_video_are_read_in_any_order_and_again(tmp_path: Path) -> None:
    part = make_part(tmp_path, VIDEOS, [2, 6])
    frames = make_frames(6)
    fill(part, 1, frames, damage=[False, False, True, False, False, True])
    out = np.empty((4, 2, 3, 3), np.uint8)
    assert part.read_some(1, np.array([5, 0, 0, 2]), out).tolist() == [True, False, False, True]
    np.testing.assert_array_equal(out, frames[[5, 0, 0, 2]])


def test_a_video_may_be_written_in_pieces_that_are_not_contiguous(tmp_path: Path) -> None:
    part = make_part(tmp_path, VIDEOS, [5])
    frames = make_frames(10)[::2]
    writing = part.write(0)
    writing.add(frames[:2], np.array([True, False]))
    assert part.kept(0) is None
    writing.add(frames[2:], np.array([False, True, False]))
    assert part.kept(0) is None
    writing.finish()
    np.testing.assert_array_equal(read(part, 0), frames)
    assert part.read_some(0, np.arange(5), np.empty_like(frames)).tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_row_is_not_filled_with_too_few_frames_or_too_many(tmp_path: Path, count: int) -> None:
    part = make_part(tmp_path, VIDEOS, [3, 3])
    fill(part, 1, make_frames(3, seed=1))
    with pytest.raises(ValueError, match=f"{count} frames for a row of 3"):
        fill(part, 0, make_frames(count))
    assert part.kept(0) is None
    np.testing.assert_array_equal(read(part, 1), make_frames(3, seed=1))


def test_what_it_takes_is_known_and_reserved_beforehand(tmp_path: Path) -> None:
    for key, counts in ((VIDEOS, [4, 1, 7]), (CLIPS, [3, 3, 3, 3]), (make_pack_key(3, (64, 64, 1)), [3])):
        folder = make_part(tmp_path, key, counts).folder
        files = [path for path in folder.iterdir() if path.name != "rows.csv"]
        assert part_bytes(key, len(counts), sum(counts)) == sum(path.stat().st_size for path in files)
        reserved = (folder / "frames.npy").stat()
        assert reserved.st_blocks * 512 >= reserved.st_size


def test_files_keep_their_sizes_while_they_are_filled(tmp_path: Path) -> None:
    part = make_part(tmp_path, VIDEOS, [4, 1])
    before = {path.name: path.stat().st_size for path in part.folder.iterdir()}
    fill(part, 0, make_frames(4))
    fill(part, 1, make_frames(1))
    assert {path.name: path.stat().st_size for path in part.folder.iterdir()} == before


# What others read


def test_frames_are_an_ordinary_npy_file(tmp_path: Path) -> None:
    videos, clips = make_part(tmp_path, VIDEOS, [4, 2]), make_part(tmp_path, CLIPS, [3, 3])
    fill(videos, 1, make_frames(2))
    fill(clips, 0, make_frames(3))
    of_videos = np.load(videos.folder / "frames.npy", mmap_mode="r")
    of_clips = np.load(clips.folder / "frames.npy", mmap_mode="r")
    assert of_videos.shape == (6, 2, 3, 3)
    assert of_clips.shape == (2, 3, 2, 3, 3)
    np.testing.assert_array_equal(of_videos[4:], make_frames(2))
    np.testing.assert_array_equal(of_clips[0], make_frames(3))


def test_a_table_beside_them_says_which_video_is_where(tmp_path: Path) -> None:
    entries = make_entries([4, 1, 2])
    odd = ['run/a,"b"\n.avi', "run/\udcff.avi", "run/日本 é.avi"]
    named = type(entries)(
        identities=entries.identities, num_frames=entries.num_frames, keys=odd, class_names=["run", "", "x,y"]
    )
    folder = create_part(tmp_path, VIDEOS, named)
    with (folder / "rows.csv").open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        assert list(csv.DictReader(file)) == [
            {"row": str(row), "first_frame": first, "num_frames": count, "path": key, "label": label}
            for row, (first, count, key, label) in enumerate(zip("045", "412", odd, ["run", "", "x,y"], strict=True))
        ]
    rows = np.load(folder / "rows.npy")
    assert rows["first_frame"].tolist() == [0, 4, 5]
    assert rows["num_frames"].tolist() == [4, 1, 2]


def test_a_header_that_was_damaged_is_written_again(tmp_path: Path) -> None:
    part = make_part(tmp_path, CLIPS, [3, 3])
    fill(part, 1, make_frames(3))
    whole = (part.folder / "frames.npy").read_bytes()
    with (part.folder / "frames.npy").open("r+b") as file:
        file.write(b"damaged")
    opened = Part(part.folder, CLIPS)
    np.testing.assert_array_equal(read(opened, 1), make_frames(3))
    opened.repair_header()
    assert (part.folder / "frames.npy").read_bytes() == whole


# Damage


counts_of_rows = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@settings(max_examples=150)
@given(st.data())
def test_one_flipped_bit_costs_one_row_or_the_part_and_never_gives_a_wrong_pixel(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from([VIDEOS, CLIPS]))
    counts = [3] * data.draw(st.integers(1, 4)) if key is CLIPS else data.draw(counts_of_rows)
    is_filled = data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    with tempfile.TemporaryDirectory() as folder:
        part = make_part(Path(folder), key, counts)
        for row in np.flatnonzero(is_filled).tolist():
            fill(part, row, make_frames(counts[row], seed=row))
        name = data.draw(st.sampled_from(["frames.npy", "state.bin", "rows.npy", "rows.csv"]))
        flip(part.folder / name, data)
        try:
            opened = Part(part.folder, key)
        except PartDamagedError:
            return
        assert opened.identities.tolist().count(b"") <= 1
        found = [read(opened, row) for row in range(len(counts))]
    for row, frames in enumerate(found):
        assert frames is None or (is_filled[row] and np.array_equal(frames, make_frames(counts[row], seed=row)))
    assert sum(is_filled) - sum(frames is not None for frames in found) <= 1


def flip(path: Path, data: st.DataObject) -> None:
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)


@pytest.mark.parametrize("key", [VIDEOS, CLIPS])
def test_a_damaged_byte_costs_one_row_wherever_it_is(tmp_path: Path, key: PackKey) -> None:
    part = make_part(tmp_path, key, [3, 3, 3])
    for row in range(3):
        fill(part, row, make_frames(3, seed=row))
    for name in ("frames.npy", "state.bin", "rows.npy"):
        whole = (part.folder / name).read_bytes()
        for place in range(len(whole)):
            (part.folder / name).write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
            opened = Part(part.folder, key)
            found = [read(opened, row) for row in range(3)]
            assert sum(frames is None or not opened.is_sound[row] for row, frames in enumerate(found)) <= 1
            assert all(frames is None or (frames == make_frames(3, seed=row)).all() for row, frames in enumerate(found))
        (part.folder / name).write_bytes(whole)


@pytest.mark.parametrize("name", ["frames.npy", "state.bin", "rows.npy"])
def test_a_file_that_is_cut_grown_or_missing_makes_the_part_none_and_the_message_names_it(
    tmp_path: Path, name: str
) -> None:
    part = make_part(tmp_path, VIDEOS, [4, 1])
    whole = (part.folder / name).read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1, len(whole) + 1):
        (part.folder / name).write_bytes((whole + b"\0")[:size])
        with pytest.raises(PartDamagedError, match=name):
            Part(part.folder, VIDEOS)
    (part.folder / name).unlink()
    with pytest.raises(PartDamagedError, match=rf"{name} is missing"):
        Part(part.folder, VIDEOS)


def test_a_table_of_nothing_but_zeros_is_no_table(tmp_path: Path) -> None:
    part = make_part(tmp_path, VIDEOS, [4, 1])
    (part.folder / "rows.npy").write_bytes(bytes((part.folder / "rows.npy").stat().st_size))
    with pytest.raises(PartDamagedError, match=r"rows\.npy"):
        Part(part.folder, VIDEOS)


def test_files_of_another_part_of_the_same_size_are_not_believed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    mine = make_part(tmp_path, CLIPS, [3, 3])
    theirs = Part(create_part(tmp_path / "other", CLIPS, make_entries([3, 3], first=10)), CLIPS)
    for row in range(2):
        fill(mine, row, make_frames(3, seed=row))
        fill(theirs, row, make_frames(3, seed=10 + row))
    for name in ("rows.npy", "state.bin", "frames.npy"):
        mixed = Path(shutil.copytree(mine.folder, tmp_path / f"mixed {name}"))
        shutil.copy(theirs.folder / name, mixed / name)
        opened = Part(mixed, CLIPS)
        assert not any(is_there(opened, row) for row in range(2))


def test_a_record_in_the_place_of_another_is_not_believed(tmp_path: Path) -> None:
    part = make_part(tmp_path, VIDEOS, [2, 2])
    for row in range(2):
        fill(part, row, make_frames(2))
    state = (part.folder / "state.bin").read_bytes()
    size = (len(state) - 4) // 2
    (part.folder / "state.bin").write_bytes(state[size : 2 * size] + state[:size] + state[2 * size :])
    assert not any(is_there(Part(part.folder, VIDEOS), row) for row in range(2))


def test_a_file_that_is_cut_while_it_is_open_gives_nothing_where_bytes_are_missing(tmp_path: Path) -> None:
    part = make_part(tmp_path, VIDEOS, [2, 2])
    for row in range(2):
        fill(part, row, make_frames(2, seed=row))
    os.truncate(part.folder / "frames.npy", (part.folder / "frames.npy").stat().st_size - 1)
    out = np.empty((2, 2, 3, 3), np.uint8)
    assert part.checksum(1) is None
    assert part.read(1, out) is None
    assert part.read_some(1, np.array([1, 1]), out) is None
    assert part.read(0, out) is not None
    os.truncate(part.folder / "state.bin", 5)
    assert part.kept(0) is None
    assert part.read(0, out) is None
    assert not part.find_filled().any()


def test_nothing_is_written_into_a_file_that_was_cut_which_would_fill_the_hole_with_zeros(tmp_path: Path) -> None:
    part = make_part(tmp_path, VIDEOS, [2, 2, 2])
    fill(part, 1, make_frames(2))
    os.truncate(part.folder / "frames.npy", 130)
    with pytest.raises(PartDamagedError, match=r"frames\.npy has 130 bytes"):
        fill(part, 2, make_frames(2))
    assert (part.folder / "frames.npy").stat().st_size == 130


def test_bytes_that_the_disk_cannot_read_are_missing_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = make_part(tmp_path, VIDEOS, [2])
    fill(part, 0, make_frames(2))

    def fail(*arguments: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    out = np.empty((2, 2, 3, 3), np.uint8)
    assert part.read(0, out) is part.read_some(0, np.array([0, 1]), out) is part.checksum(0) is None
    monkeypatch.setattr(os, "pread", fail)
    assert part.kept(0) is None
    assert not part.find_filled().any()


# Systems


def test_calls_that_read_and_write_less_than_they_were_asked_to_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite, preadv = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, offset: pwrite(descriptor, data[:7], offset))
    monkeypatch.setattr(os, "preadv", lambda descriptor, out, offset: preadv(descriptor, [out[0][:5]], offset))
    part = make_part(tmp_path, VIDEOS, [3, 2])
    fill(part, 1, make_frames(2))
    fill(part, 0, make_frames(3, seed=1))
    np.testing.assert_array_equal(read(part, 1), make_frames(2))
    np.testing.assert_array_equal(read(part, 0), make_frames(3, seed=1))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_without_room_is_an_error_that_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(descriptor: int, offset: int, size: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        create_part(tmp_path, VIDEOS, make_entries([3]))
    assert not list(tmp_path.iterdir())


def test_a_file_system_that_reserves_nothing_is_written_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    part = make_part(tmp_path, VIDEOS, [3])
    fill(part, 0, make_frames(3))
    np.testing.assert_array_equal(read(part, 0), make_frames(3))


def test_offsets_beyond_4_gib_are_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", lambda descriptor, offset, size: os.truncate(descriptor, size))  # sparse
    key = make_pack_key(None, (1024, 1024, 3))
    part = make_part(tmp_path, key, [1400, 1, 1])
    frames = make_frames(1, (1024, 1024, 3))
    fill(part, 1, frames)
    opened = Part(part.folder, key)
    assert opened._frame_at(1400) > 2**32
    np.testing.assert_array_equal(read(opened, 1), frames)
    assert opened.kept(0) is opened.kept(2) is None
    assert (part.folder / "frames.npy").stat().st_blocks * 512 < 2**25


def test_a_part_that_another_process_has_made_meanwhile_is_as_good(tmp_path: Path) -> None:
    first, second = (create_part(tmp_path, VIDEOS, make_entries([3, 2])) for _ in range(2))
    assert first == second
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    one, other = Part(first, VIDEOS), Part(first, VIDEOS)
    fill(one, 0, make_frames(3))
    fill(other, 0, make_frames(3))
    fill(other, 1, make_frames(2))
    np.testing.assert_array_equal(read(one, 0), make_frames(3))
    np.testing.assert_array_equal(read(one, 1), make_frames(2))


def test_other_rows_make_another_part(tmp_path: Path) -> None:
    folders = {
        create_part(tmp_path, VIDEOS, entries)
        for entries in (make_entries([3, 2]), make_entries([3, 2], first=1), make_entries([2, 3]), make_entries([3]))
    }
    assert len(folders) == 4


def test_descriptors_are_closed_with_the_part_and_where_opening_fails(tmp_path: Path) -> None:
    before = open_descriptors()
    part = make_part(tmp_path, VIDEOS, [3])
    assert open_descriptors() == before + 2
    folder = part.folder
    del part
    assert open_descriptors() == before
    (folder / "state.bin").write_bytes(b"")
    with pytest.raises(PartDamagedError):
        Part(folder, VIDEOS)
    assert open_descriptors() == before
