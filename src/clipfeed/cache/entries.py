"""Which videos a pack holds, one entry each, known by their content and not by where they lie.

    entry = digest of (key below the data set's folder, fingerprint of the file's content, interval, number of frames)

The key is in it so that every file is decoded by itself, also where two have one content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.records import VideoIndex

__all__ = ["IDENTITY", "Entries", "entries_of"]

IDENTITY = np.dtype("S16")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entries:
    """Videos, or intervals of them, as a pack sees them.

    Attributes:
        identities: (n,) 16-byte digests; all zero for a video whose content is not known, which stays uncached.
        num_frames: (n,) int64 frames of each entry in the pack.
        keys: Relative POSIX key of each, for people to read.
        class_names: Text of each one's label, "" without.
    """

    identities: NDArray[np.bytes_]
    num_frames: IndexArray
    keys: Sequence[str]
    class_names: Sequence[str]

    def __len__(self) -> int:
        return len(self.identities)

    def take(self, positions: IndexArray) -> Entries:
        """Give the entries at these positions."""
        return Entries(
            identities=self.identities[positions],
            num_frames=self.num_frames[positions],
            keys=[self.keys[position] for position in positions.tolist()],
            class_names=[self.class_names[position] for position in positions.tolist()],
        )


def entries_of(index: VideoIndex, clip_length: int | None) -> Entries:
    """Give one entry for each row of an index.

    Args:
        index: The rows.
        clip_length: T where an entry is one clip; None where it is all frames of the row's interval.
    """
    columns, identities, frames = index.columns, [], []
    starts = np.zeros(len(index), np.int64) if index.starts is None else index.starts
    ends = np.full(len(index), -1, np.int64) if index.ends is None else index.ends
    for row, position in enumerate(index.rows.tolist()):
        count = int(columns.num_frames[position])
        start, end = int(starts[row]), count if ends[row] < 0 else min(int(ends[row]), count)
        fingerprint = b"" if columns.fingerprints is None else columns.fingerprints[position].tobytes()
        key = columns.keys[position].encode("utf-8", "surrogateescape")
        identities.append(_identity(key, fingerprint, (start, end, count)))
        frames.append(max(0, end - start) if clip_length is None else clip_length)
    names = [columns.word(code) or "" for code in columns.class_codes[index.rows].tolist()]
    return Entries(
        identities=np.array(identities, IDENTITY),
        num_frames=np.array(frames, np.int64),
        keys=index.keys,
        class_names=names,
    )


def _identity(key: bytes, fingerprint: bytes, interval: tuple[int, int, int]) -> bytes:
    if not any(fingerprint):
        return bytes(IDENTITY.itemsize)
    numbers = b"%d-%d/%d" % interval
    return hashlib.blake2b(b"\0".join((fingerprint, numbers, key)), digest_size=IDENTITY.itemsize).digest()
