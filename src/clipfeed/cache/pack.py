"""A pack: kept clips, or all frames of videos, by entry number.

Reading gives what was written, bit for bit, or nothing: an entry counts once its record says so, and its checksum is
verified at its first use in a process. Writing never fails the work: a full disk is a warning, once, and the rest goes
on uncached. Nothing here decodes, chooses frames or knows a file of the data set.
"""

from __future__ import annotations

import bisect
import threading
import warnings
import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, IndexArray, MaskArray
from clipfeed.cache.entries import Entries
from clipfeed.cache.key import PackKey
from clipfeed.cache.part import Part, PartDamagedError, Writing
from clipfeed.errors import CacheWarning
from clipfeed.records import ClipPlan

__all__ = ["Filling", "Lookup", "Pack", "RawPack", "Recalled"]

Recalled: TypeAlias = tuple[NDArray[np.int32], MaskArray]
"""(T,) frame indices and (T,) mask of a clip that was read."""


class Filling(Protocol):
    """An entry being filled, frame after frame.

    Attributes:
        is_kept: False where frames only go through the codec, and nothing is written.
    """

    is_kept: bool

    def add(self, frames: FrameArray, is_damaged: MaskArray) -> FrameArray:
        """Take the next (n, H, W, C) frames; gives them as they will be read."""

    def finish(self, plan: ClipPlan) -> None:
        """Say that all frames are there: those of the plan, or all of its row."""

    def abandon(self) -> None:
        """Say that not all frames can be had: the entry is not begun again by this process."""


class Pack(Protocol):
    """What `load` and `dataset` know of a cache."""

    key: PackKey

    def find(self, entries: Entries) -> IndexArray:
        """Give (n,) numbers of entries in this pack, -1 for those that stay uncached."""

    def at_hand(self, entries: IndexArray) -> MaskArray:
        """Tell which clips `recall` will give: verified in this process, and kept as they are. -1 is none."""

    def recall(self, entry: int, out: FrameArray) -> Recalled | None:
        """Read a clip at hand into `out`, (T, H, W, C); None where it cannot be had after all."""

    def read(self, entry: int, plan: ClipPlan, out: FrameArray) -> MaskArray | None:
        """Read the frames of a plan into `out`, and give (T,) damaged; None where they are not kept or damaged."""

    def fill(self, entry: int) -> Filling | None:
        """Begin to fill an entry; None where nothing more is written."""

    def num_filled(self, entries: IndexArray) -> int:
        """Count the entries that are kept."""


class Lookup:
    """Finds numbers by 16-byte digests."""

    def __init__(self, identities: Sequence[NDArray[np.bytes_]]) -> None:
        every = np.concatenate([*identities, np.empty(0, "S16")])
        self._numbers = np.argsort(every, kind="stable")
        self._sorted = every[self._numbers]

    def find(self, identities: NDArray[np.bytes_]) -> IndexArray:
        """Give (n,) int64, -1 for what is not there and for digests of nothing (all zero)."""
        if not len(self._sorted):
            return np.full(len(identities), -1, np.int64)
        places = np.minimum(np.searchsorted(self._sorted, identities), len(self._sorted) - 1)
        found = (self._sorted[places] == identities) & (identities != b"")
        return np.where(found, self._numbers[places], -1)


class RawPack:
    """Frames as they are, in the fixed places of parts on a disk.

    Args:
        key: What the pack is of.
        parts: In the order of their making.
    """

    def __init__(self, key: PackKey, parts: Sequence[Part]) -> None:
        self.key = key
        self._parts = tuple(parts)
        self._first_entries = list(accumulate((len(part) for part in parts), initial=0))
        self._lookup = Lookup([part.identities for part in parts])
        self._is_verified = np.zeros(self._first_entries[-1], np.bool_)
        self._is_left_out = np.zeros_like(self._is_verified)
        # Plans of verified entries, 5 bytes a frame: reading the records again would take as long as reading frames.
        self._frame_indices = np.zeros((len(self._is_verified), key.clip_length or 0), np.int32)
        self._masks = np.zeros(self._frame_indices.shape, np.bool_)
        self._writes = True
        self._lock = threading.Lock()

    def find(self, entries: Entries) -> IndexArray:
        """Give (n,) numbers of entries in this pack, -1 for those that stay uncached."""
        return self._lookup.find(entries.identities)

    def at_hand(self, entries: IndexArray) -> MaskArray:
        """Tell which clips `recall` will give."""
        if self.key.clip_length is None or not len(self._is_verified):
            return np.zeros(len(entries), np.bool_)
        return self._is_verified[entries] & (entries >= 0)

    def recall(self, entry: int, out: FrameArray) -> Recalled | None:
        """Read a clip at hand into `out`, (T, H, W, C)."""
        part, row = self._place(entry)
        return (self._frame_indices[entry], self._masks[entry]) if part.read_frames(row, out) else None

    def read(self, entry: int, plan: ClipPlan, out: FrameArray) -> MaskArray | None:
        """Read the frames of a plan into `out`, and give (T,) damaged; None where they are not kept or damaged."""
        part, row = self._place(entry)
        kept = part.kept(row)
        if kept is None:
            return None
        if self.key.clip_length is None:
            if not self._is_verified[entry] and part.checksum(row) != kept.checksum:
                return None
            damage = part.read_some(row, plan.frame_indices - plan.record.start, out)
        else:
            if not (np.array_equal(kept.frame_indices, plan.frame_indices) and np.array_equal(kept.mask, plan.mask)):
                self._is_left_out[entry] = True  # made by a policy of the same name that chose other frames
                return None
            damage = part.read(row, out)
            if damage is not None and not self._is_verified[entry] and _checksum(out, damage) != kept.checksum:
                return None
        if damage is not None:
            self.note_verified(entry, plan)
        return damage

    def fill(self, entry: int) -> Filling | None:
        """Begin to fill an entry; None where nothing more is written."""
        part, row = self._place(entry)
        if not (self._writes and part.is_writable) or self._is_left_out[entry]:
            return None
        try:
            return _RawFilling(self, part.write(row), entry)
        except (OSError, PartDamagedError) as error:
            self.give_up(error)
            return None

    def num_filled(self, entries: IndexArray) -> int:
        """Count the entries that are kept."""
        filled = np.concatenate([part.find_filled() for part in self._parts] or [np.empty(0, np.bool_)])
        return int(np.count_nonzero(filled[entries[entries >= 0]]))

    def give_up(self, error: OSError | PartDamagedError) -> None:
        """Write nothing more, and say so once."""
        with self._lock:
            is_news, self._writes = self._writes, False
        if is_news:
            reason = getattr(error, "strerror", None) or error
            warnings.warn(
                f"{self._parts[0].folder.parent}: nothing more is cached, {reason}; what is there is used, the rest is "
                "decoded each time",
                CacheWarning,
                stacklevel=2,
            )

    def give_up_entry(self, entry: int) -> None:
        """Fill an entry no more: not all of its frames can be had."""
        self._is_left_out[entry] = True

    def note_verified(self, entry: int, plan: ClipPlan) -> None:
        """Note that an entry is what was written, or has just been written."""
        if self.key.clip_length is not None:
            self._frame_indices[entry], self._masks[entry] = plan.frame_indices, plan.mask
        self._is_verified[entry] = True

    def _place(self, entry: int) -> tuple[Part, int]:
        part = bisect.bisect_right(self._first_entries, entry) - 1
        return self._parts[part], entry - self._first_entries[part]


class _RawFilling:
    is_kept = True

    def __init__(self, pack: RawPack, writing: Writing, entry: int) -> None:
        self._pack = pack
        self._writing: Writing | None = writing
        self._entry = entry

    def add(self, frames: FrameArray, is_damaged: MaskArray) -> FrameArray:
        if self._writing is not None:
            try:
                self._writing.add(frames, is_damaged)
            except OSError as error:
                self._give_up(error)
        return frames

    def finish(self, plan: ClipPlan) -> None:
        if self._writing is None:
            return
        is_clip = self._pack.key.clip_length is not None
        try:
            self._writing.finish(*((plan.frame_indices, plan.mask) if is_clip else ()))
        except OSError as error:
            self._give_up(error)
        else:
            self._pack.note_verified(self._entry, plan)

    def abandon(self) -> None:
        self._pack.give_up_entry(self._entry)

    def _give_up(self, error: OSError) -> None:
        self._writing = None
        self._pack.give_up(error)


def _checksum(frames: FrameArray, is_damaged: MaskArray) -> int:
    return zlib.crc32(is_damaged.data, zlib.crc32(frames.data))
