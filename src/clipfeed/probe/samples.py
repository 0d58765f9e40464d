"""The samples of MPEG-4 part 2, gathered from a file by its table or from packets, and counted by `mpeg4`.

Samples are looked at in groups of a few MiB, so that memory does not grow with the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.probe.mpeg4 import SampleVops, count_shown_frames, is_packed, join_samples, read_time_bits, split_samples

__all__ = ["SampleCounter", "count_samples_of_file"]

_GROUP_BYTES = 8 << 20


class SampleCounter:
    """Counts the frames that samples show, given one by one.

    Args:
        extradata: The stream's extra data, which may hold its headers.
    """

    def __init__(self, extradata: bytes | None) -> None:
        self._header = extradata or b""
        self._waiting: list[bytes] = []
        self._num_waiting_bytes = 0
        self._groups: list[SampleVops | None] = []

    def add(self, sample: bytes) -> None:
        """Take the next sample."""
        if not self._groups and not self._waiting:
            self._header += sample
        self._waiting.append(sample)
        self._num_waiting_bytes += len(sample)
        if self._num_waiting_bytes >= _GROUP_BYTES:
            self._close_group()

    def count(self) -> int | None:
        """Give the number of frames that all samples show, or None where only decoding can tell."""
        self._close_group()
        return _count(self._groups, self._header)

    def _close_group(self) -> None:
        if self._waiting:
            ends = np.cumsum([len(sample) for sample in self._waiting], dtype=np.int64)
            starts = np.concatenate(([0], ends[:-1]))
            self._groups.append(_split(np.frombuffer(b"".join(self._waiting), np.uint8), starts, ends, self._header))
            self._waiting, self._num_waiting_bytes = [], 0


def count_samples_of_file(file: BinaryIO, starts: IndexArray, num_bytes: IndexArray, header: bytes) -> int | None:
    """Count the frames that samples show, given their places in a file: one pass, no demuxing.

    Args:
        file: The file.
        starts: (n,) int64, position of each sample's first byte.
        num_bytes: (n,) int64, sizes.
        header: The stream's extra data and first sample.

    Returns:
        The number, or None where only decoding can tell, or where samples overlap or are out of order.
    """
    ends = starts + num_bytes
    if (starts[1:] < ends[:-1]).any():
        return None
    groups: list[SampleVops | None] = []
    for first, last in _groups_of(starts, ends):
        file.seek(int(starts[first]))
        data = np.frombuffer(file.read(int(ends[last - 1] - starts[first])), np.uint8)
        if len(data) < ends[last - 1] - starts[first]:
            return None
        offset = starts[first]
        groups.append(_split(data, starts[first:last] - offset, ends[first:last] - offset, header))
    return _count(groups, header)


def _groups_of(starts: IndexArray, ends: IndexArray) -> Iterator[tuple[int, int]]:
    """Cut samples into runs [first, last) of at most `_GROUP_BYTES`, or one sample."""
    first = 0
    while first < len(starts):
        last = max(first + 1, int(np.searchsorted(ends, starts[first] + _GROUP_BYTES, side="right")))
        yield first, last
        first = last


def _split(data: np.ndarray, starts: IndexArray, ends: IndexArray, header: bytes) -> SampleVops | None:
    time_bits = read_time_bits(header)
    return None if time_bits is None else split_samples(data, starts, ends, time_bits)


def _count(groups: list[SampleVops | None], header: bytes) -> int | None:
    known = [group for group in groups if group is not None]
    if not known or len(known) < len(groups):
        return None
    return count_shown_frames(join_samples(known), packed=is_packed(header))
