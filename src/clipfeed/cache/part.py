"""One part of a pack on disk: two files of fixed size, and a table for people.

    frames.npy   (rows, T, H, W, C) or, for whole videos, (frames, H, W, C) uint8; numpy.load reads it
    rows.npy     which video each row is, and where its frames begin; one checksum a row; never changes
    state.bin    which rows are filled: a record of fixed size each; behind them a byte a frame, 1 if it is damaged
    rows.csv     the same table to read

Space is reserved before anything is written, and everything is written in place with `pwrite`: frames first, then the
record that says so, with a checksum over the frames and one over itself. So a writer that is killed leaves a row that
is not filled, two writers write the same bytes, and nothing is ever shortened. Bytes are read with `pread`: a file that
somebody cuts gives an error where a memory map would end the process.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import os
import shutil
import uuid
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, IndexArray, MaskArray
from clipfeed.cache.entries import IDENTITY, Entries
from clipfeed.cache.key import PackKey

__all__ = ["Kept", "Part", "PartDamagedError", "Writing", "create_part", "part_bytes"]

_ROW = np.dtype([("identity", IDENTITY), ("first_frame", "<i8"), ("num_frames", "<i8"), ("check", "<u4")])
_IS_FILLED = 1
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ALREADY_THERE = (errno.EEXIST, errno.ENOTEMPTY)
_WRITTEN_AT_ONCE = 1 << 30  # Linux writes at most 2 GiB in one call


class PartDamagedError(Exception):
    """The files of a part are not what this package has made."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """What the record of a filled row says.

    Attributes:
        checksum: CRC-32 of the frames and the damage behind them.
        frame_indices: (T,) int32, which frames of the video these are; empty where they are all.
        mask: (T,) bool, False where a frame repeats another; empty where all frames are kept.
    """

    checksum: int
    frame_indices: NDArray[np.int32]
    mask: MaskArray


def _record_type(key: PackKey) -> np.dtype[Any]:
    length = key.clip_length or 0
    return np.dtype(
        [
            ("is_filled", "<u4"),
            ("checksum", "<u4"),
            ("frame_indices", "<i4", (length,)),
            ("mask", "u1", (length,)),
            ("check", "<u4"),
        ]
    )


def _npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    header = io.BytesIO()
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, fields)
    return header.getvalue()


def _frames_header(key: PackKey, num_rows: int, num_frames: int) -> bytes:
    rows = (num_frames,) if key.clip_length is None else (num_rows, key.clip_length)
    return _npy_header(np.dtype(np.uint8), (*rows, *key.frame_shape))


# NumPy pads headers so that the first axis may grow: all of this dtype have one length.
_ROWS_HEADER_BYTES = len(_npy_header(_ROW, (0,)))


def part_bytes(key: PackKey, num_rows: int, num_frames: int) -> int:
    """Give the bytes that a part takes, the table for people left out."""
    return (
        len(_frames_header(key, num_rows, num_frames))
        + num_frames * (key.frame_bytes + 1)
        + num_rows * (_ROW.itemsize + _record_type(key).itemsize)
        + _ROWS_HEADER_BYTES
    )


def create_part(folder: Path, key: PackKey, entries: Entries) -> Path:
    """Reserve the space of a part and give its folder; one that another process has made meanwhile is as good.

    Args:
        folder: The pack's folder.
        key: What the pack is of.
        entries: The rows, in order; at least one.

    Raises:
        OSError: If the space is not there, or may not be written.
    """
    rows = _rows_of(entries)
    # Not by a CRC of the rows: each ends with its own, and that of all would always be the same.
    finished = folder / f"part-{hashlib.blake2b(rows.tobytes(), digest_size=8).hexdigest()}-{len(rows)}"
    partial = folder / f".{finished.name}-{uuid.uuid4().hex[:8]}.partial"
    partial.mkdir()
    try:
        header = _frames_header(key, len(rows), int(entries.num_frames.sum()))
        num_frames = int(entries.num_frames.sum())
        _reserve(partial / "frames.npy", len(header) + num_frames * key.frame_bytes, header)
        _reserve(partial / "state.bin", len(rows) * _record_type(key).itemsize + num_frames)
        (partial / "rows.npy").write_bytes(_npy_header(_ROW, rows.shape) + rows.tobytes())
        _write_table(partial / "rows.csv", entries, rows)
        with contextlib.suppress(FileExistsError):
            _rename_new(partial, finished)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return finished


def _rows_of(entries: Entries) -> NDArray[Any]:
    rows = np.zeros(len(entries), _ROW)
    rows["identity"] = entries.identities
    rows["num_frames"] = entries.num_frames
    rows["first_frame"] = np.cumsum(entries.num_frames) - entries.num_frames
    rows["check"] = _checks(rows)
    return rows


def _checks(rows: NDArray[Any]) -> list[int]:
    """CRC-32 of each row, its last field left out."""
    size = rows.dtype.itemsize
    data = rows.tobytes()
    return [zlib.crc32(data[start : start + size - 4]) for start in range(0, len(data), size)]


def _reserve(path: Path, num_bytes: int, header: bytes = b"") -> None:
    """Make a file of zeros whose blocks are there, so that no later write finds the disk full."""
    with path.open("xb") as file:
        if num_bytes:
            try:
                os.posix_fallocate(file.fileno(), 0, num_bytes)
            except (AttributeError, OSError) as error:
                if getattr(error, "errno", None) in _NO_SPACE:
                    raise
                file.truncate(num_bytes)  # a file system, or a system, that reserves nothing
        os.pwrite(file.fileno(), header, 0)


def _write_table(path: Path, entries: Entries, rows: NDArray[Any]) -> None:
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        table = csv.writer(file)
        table.writerow(("row", "first_frame", "num_frames", "path", "label"))
        places = zip(rows["first_frame"].tolist(), rows["num_frames"].tolist(), strict=True)
        for row, (place, key, label) in enumerate(zip(places, entries.keys, entries.class_names, strict=True)):
            table.writerow((row, *place, key, label))


def _rename_new(partial: Path, finished: Path) -> None:
    """Give a folder its name, unless a folder with files has it already."""
    try:
        partial.rename(finished)
    except OSError as error:
        if error.errno in _ALREADY_THERE:
            raise FileExistsError(error.errno, error.strerror, str(finished)) from error
        raise


class Part:
    """The rows of one part, read and written in place; from any thread.

    Args:
        folder: What `create_part` gave.
        key: What the pack is of.

    Raises:
        PartDamagedError: If files are missing or have another size.
        OSError: If they cannot be opened.
    """

    def __init__(self, folder: Path, key: PackKey) -> None:
        self.folder = folder
        self.key = key
        self.rows = _read_rows(folder / "rows.npy")
        self.is_sound = np.array(_checks(self.rows), np.uint32) == self.rows["check"]
        self._record = _record_type(key)
        self._damage_at = len(self.rows) * self._record.itemsize
        self.is_writable = True
        self._frames, frames_bytes = self._open("frames.npy")
        self._state, state_bytes = self._open("state.bin")
        num_frames = self._count_frames(state_bytes)
        self._header = _frames_header(key, len(self.rows), num_frames)
        self._check_size("frames.npy", frames_bytes, len(self._header) + num_frames * key.frame_bytes)
        self._check_size("state.bin", state_bytes, self._damage_at + num_frames)
        self._sizes = (("frames.npy", self._frames, frames_bytes), ("state.bin", self._state, state_bytes))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def identities(self) -> NDArray[np.bytes_]:
        """(n,) digest of each row's video; of nothing where the row is damaged."""
        return np.where(self.is_sound, self.rows["identity"], np.zeros((), IDENTITY))

    def find_filled(self) -> MaskArray:
        """(n,) bool: rows that a record says are filled, checked or not."""
        size = self._record.itemsize
        data = _read(self._state, len(self.rows) * size, 0)
        records = np.frombuffer(data[: len(data) // size * size], self._record)
        filled: MaskArray = np.zeros(len(self.rows), np.bool_)
        filled[: len(records)] = records["is_filled"] == _IS_FILLED
        filled &= self.is_sound
        return filled

    def is_blank(self, row: int) -> bool:
        """Tell whether nobody has said anything of a row yet; one that is neither this nor kept is damaged."""
        record = _read(self._state, self._record.itemsize, row * self._record.itemsize)
        return bool(self.is_sound[row]) and not any(record)

    def kept(self, row: int) -> Kept | None:
        """Give what a row's record says; None for a row that is not filled, or whose record is damaged."""
        size, length = self._record.itemsize, self.key.clip_length or 0
        data = _read(self._state, size, row * size)
        is_whole = len(data) == size and self._check(row, data[:-4]) == int.from_bytes(data[-4:], "little")
        if not is_whole or data[0] != _IS_FILLED or not self.is_sound[row]:
            return None
        # Field by field: taking the record apart by its dtype takes three times as long.
        return Kept(
            checksum=int.from_bytes(data[4:8], "little"),
            frame_indices=np.frombuffer(data, "<i4", length, 8),
            mask=np.frombuffer(data, np.bool_, length, 8 + 4 * length),
        )

    def read_frames(self, row: int, out: FrameArray) -> bool:
        """Read all frames of a row into `out`, (n, H, W, C); False where bytes are missing."""
        return _read_into(self._frames, out, self._frame_at(int(self.rows["first_frame"][row])))

    def read(self, row: int, out: FrameArray) -> MaskArray | None:
        """Read all frames of a row into `out`, and give (n,) damaged; None where bytes are missing."""
        return self._read_damage(*self._place(row)) if self.read_frames(row, out) else None

    def read_some(self, row: int, places: IndexArray, out: FrameArray) -> MaskArray | None:
        """Read some frames of a row: `out` is (len(places), H, W, C), places count from the row's first frame."""
        first, count = self._place(row)
        for frame, place in zip(out, places.tolist(), strict=True):
            if not _read_into(self._frames, frame, self._frame_at(first + place)):
                return None
        damage = self._read_damage(first, count)
        return None if damage is None else damage[places]

    def checksum(self, row: int) -> int | None:
        """Compute the checksum of what lies there now; None where bytes are missing."""
        first, count = self._place(row)
        frame, checksum = np.empty(self.key.frame_shape, np.uint8), 0
        for place in range(count):
            if not _read_into(self._frames, frame, self._frame_at(first + place)):
                return None
            checksum = zlib.crc32(frame.data, checksum)
        damage = self._read_damage(first, count)
        return None if damage is None else zlib.crc32(damage.data, checksum)

    def write(self, row: int) -> Writing:
        """Begin to fill a row.

        Raises:
            PartDamagedError: If the files have lost their sizes meanwhile: writing would make them whole, with a hole.
        """
        self.check_sizes()
        return Writing(self, row)

    def check_sizes(self) -> None:
        """Compare the sizes of the files with what they were when they were opened.

        Raises:
            PartDamagedError: If they differ.
        """
        for name, descriptor, num_bytes in self._sizes:
            self._check_size(name, os.fstat(descriptor).st_size, num_bytes)

    def repair_header(self) -> None:
        """Write the header of frames.npy again where it is not what it should be: only other programs read it."""
        if self.is_writable and _read(self._frames, len(self._header), 0) != self._header:
            _write(self._frames, self._header, 0)

    def _open(self, name: str) -> tuple[int, int]:
        path = self.folder / name
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise PartDamagedError(f"{path} is missing") from error
        except OSError:
            descriptor, self.is_writable = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
        weakref.finalize(self, os.close, descriptor)
        return descriptor, os.fstat(descriptor).st_size

    def _check_size(self, name: str, found: int, expected: int) -> None:
        if found != expected:
            raise PartDamagedError(f"{self.folder / name} has {found} bytes, not {expected}")

    def _count_frames(self, state_bytes: int) -> int:
        """Frames of all rows, as the last one says; where that one is damaged, as the size of state.bin does."""
        if not self.is_sound.any():
            raise PartDamagedError(f"{self.folder / 'rows.npy'}: no row is what it was")
        if not self.is_sound[-1]:
            return max(0, state_bytes - self._damage_at)
        return int(self.rows["first_frame"][-1] + self.rows["num_frames"][-1])

    def _check(self, row: int, record: bytes) -> int:
        """CRC-32 of a row's record, begun with that of the row: a record is of nothing in the place of another."""
        return zlib.crc32(record, int(self.rows["check"][row]))

    def _place(self, row: int) -> tuple[int, int]:
        return int(self.rows["first_frame"][row]), int(self.rows["num_frames"][row])

    def _frame_at(self, frame: int) -> int:
        return len(self._header) + frame * self.key.frame_bytes

    def _read_damage(self, first: int, count: int) -> MaskArray | None:
        data = _read(self._state, count, self._damage_at + first)
        return np.frombuffer(data, np.uint8).astype(np.bool_) if len(data) == count else None


class Writing:
    """A row being filled, frame after frame; nothing counts until `finish`."""

    def __init__(self, part: Part, row: int) -> None:
        self._part = part
        self._row = row
        self._first, self._count = part._place(row)
        self._checksum = 0
        self._damage: list[MaskArray] = []
        self._num_written = 0

    def add(self, frames: FrameArray, is_damaged: MaskArray) -> None:
        """Write the next frames.

        Args:
            frames: (n, H, W, C) uint8.
            is_damaged: (n,) bool.

        Raises:
            ValueError: If they are more than the row has.
            OSError: If they cannot be written.
        """
        if self._num_written + len(frames) > self._count:
            raise ValueError(f"{self._num_written + len(frames)} frames for a row of {self._count}")
        data = np.ascontiguousarray(frames)
        _write(self._part._frames, data.data, self._part._frame_at(self._first + self._num_written))
        self._checksum = zlib.crc32(data.data, self._checksum)
        self._damage.append(is_damaged)
        self._num_written += len(frames)

    def finish(self, frame_indices: Sequence[int] | IndexArray = (), mask: Sequence[bool] | MaskArray = ()) -> None:
        """Say that all frames are there.

        Args:
            frame_indices: (T,) which frames of the video they are; empty where they are all.
            mask: (T,) bool of a clip.

        Raises:
            ValueError: If frames are missing.
            OSError: If it cannot be written.
        """
        if self._num_written != self._count:
            raise ValueError(f"{self._num_written} frames for a row of {self._count}")
        damage = np.concatenate(self._damage) if self._damage else np.empty(0, np.bool_)
        _write(self._part._state, damage.tobytes(), self._part._damage_at + self._first)
        record = np.zeros(1, self._part._record)
        record["is_filled"] = _IS_FILLED
        record["checksum"] = zlib.crc32(damage.data, self._checksum)
        record["frame_indices"], record["mask"] = np.asarray(frame_indices), np.asarray(mask)
        record["check"] = self._part._check(self._row, record.tobytes()[:-4])
        _write(self._part._state, record.tobytes(), self._row * record.itemsize)


def _read_rows(path: Path) -> NDArray[Any]:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise PartDamagedError(f"{path} is missing") from error
    if len(data) <= _ROWS_HEADER_BYTES or (len(data) - _ROWS_HEADER_BYTES) % _ROW.itemsize:
        raise PartDamagedError(f"{path} has {len(data)} bytes")
    return np.frombuffer(data, _ROW, offset=_ROWS_HEADER_BYTES)


def _read(descriptor: int, num_bytes: int, offset: int) -> bytes:
    """Give bytes; fewer where the file ends before, none where the disk cannot read them."""
    try:
        return os.pread(descriptor, num_bytes, offset)
    except OSError:
        return b""


def _read_into(descriptor: int, out: FrameArray, offset: int) -> bool:
    """Fill an array; False where the file ends before, or the disk cannot read it."""
    rest = out.data.cast("B")
    while len(rest):
        try:
            count = os.preadv(descriptor, [rest], offset)
        except OSError:
            count = 0
        if not count:
            return False
        rest, offset = rest[count:], offset + count
    return True


def _write(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    rest = memoryview(data).cast("B")
    while len(rest):
        count = os.pwrite(descriptor, rest[:_WRITTEN_AT_ONCE], offset)
        rest, offset = rest[count:], offset + count
