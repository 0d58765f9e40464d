"""What FFmpeg knows of an MP4 or MOV and PyAV does not pass on: fragments, and which tracks are shown turned.

Reads box headers and two fixed fields, 20 to 60 us; never the samples. Positions and sizes come from FFmpeg.

Source: ISO/IEC 14496-12, 4.2 (boxes), 8.2.2 (mvhd), 8.3.2 (tkhd), 8.8.1 (mvex).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

__all__ = ["Box", "MovieBoxes", "read_boxes", "read_movie_boxes"]

_UPRIGHT = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
_MAX_BOXES = 10_000  # of one level; a fragmented file is known as such at its first fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class MovieBoxes:
    """Attributes of a movie that decide how it can be counted and shown.

    Attributes:
        is_fragmented: True where samples, or some of them, are listed outside the movie box.
        upright_tracks: Ids of the tracks whose transformation matrices say: neither turned, mirrored nor stretched.
    """

    is_fragmented: bool
    upright_tracks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the file: its four letters, and where its content starts and ends."""

    kind: bytes
    start: int
    end: int


def read_movie_boxes(file: BinaryIO, size_bytes: int) -> MovieBoxes | None:
    """Look at a file's boxes.

    Returns:
        What they say, or None where there is no movie box that can be read.
    """
    for box in read_boxes(file, 0, size_bytes):
        if box.kind == b"moof":
            return MovieBoxes(is_fragmented=True, upright_tracks=frozenset())
        if box.kind == b"moov":
            return _read_movie(file, box)
    return None


def _read_movie(file: BinaryIO, movie: Box) -> MovieBoxes:
    is_fragmented, is_upright = False, False
    tracks: set[int] = set()
    for box in read_boxes(file, movie.start, movie.end):
        if box.kind == b"mvex":
            is_fragmented = True
        elif box.kind == b"mvhd":
            is_upright = _matrix(_read(file, box), 36) == _UPRIGHT
        elif box.kind == b"trak":
            header = next((child for child in read_boxes(file, box.start, box.end) if child.kind == b"tkhd"), None)
            content = _read(file, header) if header else b""
            if _matrix(content, 40) == _UPRIGHT:
                tracks.add(_track_id(content))
    return MovieBoxes(is_fragmented=is_fragmented, upright_tracks=frozenset(tracks if is_upright else ()))


def _matrix(content: bytes, offset: int) -> bytes:
    """Cut the matrix out of a header box; version 1 has times of 64 bits in front of it, 12 bytes more."""
    offset += 12 * content[:1].count(1)
    return content[offset : offset + 36]


def _track_id(content: bytes) -> int:
    offset = 20 if content[0] == 1 else 12
    return int.from_bytes(content[offset : offset + 4], "big")


def _read(file: BinaryIO, box: Box) -> bytes:
    file.seek(box.start)
    return file.read(min(box.end - box.start, 128))


def read_boxes(file: BinaryIO, start: int, end: int) -> Iterator[Box]:
    """Give the boxes of one level that lie between two positions; a box that is cut off ends where the level does."""
    for _ in range(_MAX_BOXES):
        file.seek(start)
        header = file.read(16)
        if start + 8 > end or len(header) < 8:
            return
        num_bytes, content_start = int.from_bytes(header[:4], "big"), start + 8
        if num_bytes == 1:
            num_bytes, content_start = int.from_bytes(header[8:16], "big"), start + 16
        box_end = start + num_bytes if num_bytes else end
        if box_end < content_start:
            return
        yield Box(header[4:8], content_start, min(box_end, end))
        start = box_end
