"""The samples of MPEG-4 part 2, gathered from a file by its table or from packets, and counted by `mpeg4`.

Samples are looked at in groups of about a MiB, so that memory does not grow with the file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from io import BufferedReader
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.probe.mpeg4 import ShownCounter

__all__ = ["SampleCounter", "count_samples_of_file"]

_GROUP_BYTES = 1 << 20


class SampleCounter:
    """Counts the frames that samples show, given one by one.

    Args:
        extradata: The stream's extra data, which may hold its headers.
    """

    def __init__(self, extradata: bytes | None) -> None:
        self._extradata = extradata or b""
        self._waiting: list[bytes] = []
        self._num_waiting_bytes = 0
        self._counter: ShownCounter | None = None

    def add(self, sample: bytes) -> None:
        """Take the next sample."""
        if self._counter is None:
            self._counter = ShownCounter(self._extradata + sample)
        self._waiting.append(sample)
        self._num_waiting_bytes += len(sample)
        if self._num_waiting_bytes >= _GROUP_BYTES:
            self._close_group(self._counter)

    def count(self) -> int | None:
        """Give the number of frames that all samples show, or None where only decoding can tell."""
        if self._counter is None:
            return None
        self._close_group(self._counter)
        return self._counter.num_shown

    def _close_group(self, counter: ShownCounter) -> None:
        if self._waiting:
            ends = np.cumsum([len(sample) for sample in self._waiting], dtype=np.int64)
            starts = np.concatenate(([0], ends[:-1]))
            counter.add(np.frombuffer(b"".join(self._waiting), np.uint8), starts, ends)
            self._waiting, self._num_waiting_bytes = [], 0


class _Scratch(threading.local):
    """Memory that a thread works in for one group of samples, whatever the file.

    Fresh memory for every file would cost a page fault for each 4 KiB, more than looking at the bytes does.
    """

    def __init__(self) -> None:
        self.data = np.empty(_GROUP_BYTES, np.uint8)
        self.masks = np.empty((2, _GROUP_BYTES // 16 + 1), np.uint64)


_SCRATCH = _Scratch()


def count_samples_of_file(file: BinaryIO, starts: IndexArray, ends: IndexArray, header: bytes) -> int | None:
    """Count the frames that samples show, given their places in a file: one pass, no demuxing.

    Args:
        file: The file.
        starts: (n,) int64, position of each sample's first byte.
        ends: (n,) int64, position behind its last byte.
        header: The stream's extra data and first sample.

    Returns:
        The number, or None where only decoding can tell, or where samples overlap or are out of order.
    """
    if 1 in (starts[1:] < ends[:-1]).tobytes():
        return None
    counter = ShownCounter(header)
    for first, last in _groups_of(starts, ends):
        offset, num_bytes = int(starts[first]), int(ends[last - 1] - starts[first])
        data, masks = _read(file, offset, num_bytes)
        if len(data) < num_bytes:
            return None
        counter.add(data, starts[first:last] - offset, ends[first:last] - offset, masks)
    return counter.num_shown


def _groups_of(starts: IndexArray, ends: IndexArray) -> Iterator[tuple[int, int]]:
    """Cut samples into runs [first, last) of at most `_GROUP_BYTES`, or one sample."""
    first = 0
    while first < len(starts):
        last = max(first + 1, int(ends.searchsorted(starts[first] + _GROUP_BYTES, side="right")))
        yield first, last
        first = last


def _read(file: BinaryIO, start: int, num_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint64] | None]:
    """Give bytes of a file, fewer if it ends before, and memory to search them with."""
    file.seek(start)
    if num_bytes > _GROUP_BYTES:
        return np.frombuffer(file.read(num_bytes), np.uint8), None
    data = _SCRATCH.data[:num_bytes]
    num_read = cast("BufferedReader", file).readinto(data.data)
    return data[:num_read], _SCRATCH.masks
