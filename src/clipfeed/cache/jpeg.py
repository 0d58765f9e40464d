"""Clips as JPEG: one file for each entry.

A frame loses what JPEG loses, once: what a miss hands out has been through the same compression, so all epochs see the
same pixels. A file appears whole or not at all, and its checksum is verified whenever it is read.

    magic, frames, clip length, length of each picture, damage, frame indices, mask, pictures, CRC-32
"""

from __future__ import annotations

import struct
import threading
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clipfeed._jpeg import decode_jpegs, encode_jpegs
from clipfeed._types import FrameArray, IndexArray, MaskArray
from clipfeed.cache.entries import IDENTITY

__all__ = ["SUFFIX", "JpegFiles", "Jpegs", "compress", "entry_name", "read_jpegs"]

SUFFIX = ".jpegs"

_HEADER = struct.Struct("<4sII")
_MAGIC = b"CFJ1"
_MEASURED_AGAIN = 64 << 20  # bytes written, at least


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Jpegs:
    """An entry's frames, compressed.

    Attributes:
        pictures: One JPEG file a frame.
        is_damaged: (n,) bool.
        frame_indices: (T,) which frames of the video they are; empty where they are all.
        mask: (T,) bool, False where a frame repeats another; empty where all frames are kept.
    """

    pictures: tuple[bytes, ...]
    is_damaged: MaskArray
    frame_indices: NDArray[np.int32]
    mask: MaskArray

    @property
    def num_bytes(self) -> int:
        """Bytes of memory, about."""
        return sum(map(len, self.pictures))

    def read(self, places: IndexArray | None, out: FrameArray) -> MaskArray:
        """Decompress the frames at some places, or all of them, into `out`; gives their damage."""
        chosen = range(len(self.pictures)) if places is None else places.tolist()
        decode_jpegs([self.pictures[place] for place in chosen], out)
        return self.is_damaged[list(chosen)]


def compress(frames: FrameArray) -> tuple[list[bytes], FrameArray]:
    """Give frames as JPEG, and as they will be read."""
    pictures, seen = encode_jpegs(frames), np.empty_like(frames)
    decode_jpegs(pictures, seen)
    return pictures, seen


class JpegFiles:
    """Entries by digest, each in a file of its own.

    Args:
        folder: The pack's folder.
        limit: Bytes that may be written.
        measure: Gives that limit anew, now and then, since other processes write too; None if none does.
    """

    def __init__(self, folder: Path, limit: int, measure: Callable[[], int] | None = None) -> None:
        self._folder = folder
        self._left = limit
        self._measure = measure
        self._num_unmeasured = 0
        self._lock = threading.Lock()

    def get(self, identity: bytes) -> Jpegs | None:
        """Give an entry; None where there is none, or none that is whole."""
        return read_jpegs(self._path(identity))

    def put(self, identity: bytes, held: Jpegs) -> None:
        """Keep an entry.

        Raises:
            OSError: If it cannot be written, or the limit is reached.
        """
        data, path = _pack(held), self._path(identity)
        self._take(len(data))
        path.parent.mkdir(exist_ok=True)
        partial = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}.partial")
        try:
            partial.write_bytes(data)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def has(self, identity: bytes) -> bool:
        """Tell whether an entry is there, whole or not."""
        return self._path(identity).is_file()

    def _take(self, num_bytes: int) -> None:
        with self._lock:
            self._num_unmeasured += num_bytes
            if self._measure is not None and self._num_unmeasured > max(_MEASURED_AGAIN, self._left // 8):
                self._left, self._num_unmeasured = self._measure(), 0
            if num_bytes > self._left:
                raise OSError(f"the room of {self._folder} is used up")
            self._left -= num_bytes

    def _path(self, identity: bytes) -> Path:
        name = entry_name(identity)
        return self._folder / name[:2] / f"{name}{SUFFIX}"


def entry_name(identity: bytes) -> str:
    """Give the name of an entry's file, without its suffix: 32 hexadecimal digits."""
    return identity.ljust(IDENTITY.itemsize, b"\0").hex()


def read_jpegs(path: Path) -> Jpegs | None:
    """Give what the file of an entry holds; None where there is none, or none that is whole."""
    try:
        return _unpack(path.read_bytes())
    except OSError:
        return None


def _pack(jpegs: Jpegs) -> bytes:
    pieces = (
        _HEADER.pack(_MAGIC, len(jpegs.pictures), len(jpegs.frame_indices)),
        np.array([len(picture) for picture in jpegs.pictures], "<u4").tobytes(),
        jpegs.is_damaged.tobytes(),
        jpegs.frame_indices.astype("<i4").tobytes(),
        jpegs.mask.tobytes(),
        *jpegs.pictures,
    )
    data = b"".join(pieces)
    return data + zlib.crc32(data).to_bytes(4, "little")


def _unpack(data: bytes) -> Jpegs | None:
    """Give what `_pack` was given; None for anything that is not whole."""
    if len(data) < _HEADER.size + 4 or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        return None
    magic, num_frames, clip_length = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        return None
    at, fields = _HEADER.size, []
    for dtype, count in (("<u4", num_frames), ("?", num_frames), ("<i4", clip_length), ("?", clip_length)):
        fields.append(np.frombuffer(data, dtype, count, at))
        at += fields[-1].nbytes
    ends = np.cumsum(fields[0], dtype=np.int64) + at
    pictures = tuple(data[end - size : end] for size, end in zip(fields[0].tolist(), ends.tolist(), strict=True))
    return Jpegs(pictures=pictures, is_damaged=fields[1], frame_indices=fields[2].astype(np.int32), mask=fields[3])
