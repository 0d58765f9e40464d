"""Packs whose entries have no fixed place: JPEG on the disk, and anything in memory.

A shelf keeps entries by digest; an entry can give its frames. The pack around them is as any other.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, IndexArray, MaskArray
from clipfeed.cache.choice import Codec
from clipfeed.cache.entries import IDENTITY, Entries
from clipfeed.cache.jpeg import Jpegs, compress
from clipfeed.cache.key import PackKey
from clipfeed.cache.pack import Filling, Lookup, Recalled
from clipfeed.errors import CacheWarning
from clipfeed.records import ClipPlan

__all__ = ["HeldPack", "MemoryShelf", "Shelf"]

Held = Any
"""`Jpegs` or `_Frames`: what gives its frames by `read(places, out)`, and tells its `num_bytes`."""


class Shelf(Protocol):
    """Keeps entries by digest."""

    def get(self, identity: bytes) -> Held | None:
        """Give an entry; None where there is none, or none that is whole."""

    def put(self, identity: bytes, held: Held) -> None:
        """Keep an entry; raises OSError where it cannot be."""

    def has(self, identity: bytes) -> bool:
        """Tell whether an entry is there."""


class MemoryShelf:
    """Keeps entries for as long as the process, or the `Cache` they belong to, lives."""

    def __init__(self) -> None:
        self._held: dict[bytes, Held] = {}
        self.promised = np.empty(0, IDENTITY)
        self.promised_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of what is kept by now."""
        return sum(held.num_bytes for held in list(self._held.values()))

    def promise(self, identities: NDArray[np.bytes_], num_bytes: int) -> None:
        """Note for which entries there is memory, and how much."""
        self.promised = np.concatenate([self.promised, identities])
        self.promised_bytes += num_bytes

    def get(self, identity: bytes) -> Held | None:
        """Give an entry, or None."""
        return self._held.get(identity)

    def put(self, identity: bytes, held: Held) -> None:
        """Keep an entry."""
        self._held[identity] = held

    def has(self, identity: bytes) -> bool:
        """Tell whether an entry is there."""
        return identity in self._held


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Frames:
    """An entry's frames as they are; attributes as of `Jpegs`."""

    frames: FrameArray
    is_damaged: MaskArray
    frame_indices: NDArray[np.int32]
    mask: MaskArray

    @property
    def num_bytes(self) -> int:
        """Bytes of memory, about."""
        return self.frames.nbytes

    def read(self, places: IndexArray | None, out: FrameArray) -> MaskArray:
        """Copy the frames at some places, or all of them, into `out`; gives their damage."""
        if places is None:
            np.copyto(out, self.frames)
            return self.is_damaged
        np.take(self.frames, places, axis=0, out=out)
        return self.is_damaged[places]


class HeldPack:
    """Entries on a shelf.

    Args:
        key: What the pack is of.
        entries: The videos that may be kept.
        shelf: Where they are kept.
        codec: "raw" or "jpeg".
        writes: Whether anything may be added.
    """

    def __init__(self, key: PackKey, entries: Entries, shelf: Shelf, *, codec: Codec, writes: bool = True) -> None:
        self.key = key
        self._shelf = shelf
        self._codec = codec
        self._identities = entries.identities
        self._lookup = Lookup([entries.identities])
        self._is_left_out = np.zeros(len(entries), np.bool_)
        self._is_known = np.zeros(len(entries), np.bool_)
        self._writes = writes
        self._lock = threading.Lock()

    def find(self, entries: Entries) -> IndexArray:
        """Give (n,) numbers of entries in this pack, -1 for those that stay uncached."""
        return self._lookup.find(entries.identities)

    def at_hand(self, entries: IndexArray) -> MaskArray:
        """Tell which clips `recall` will give: only what needs no work is at hand, and was compared with its plan."""
        if self._codec != "raw" or self.key.clip_length is None or not len(self._is_known):
            return np.zeros(len(entries), np.bool_)
        return self._is_known[entries] & (entries >= 0)

    def recall(self, entry: int, out: FrameArray) -> Recalled | None:
        """Read a clip at hand into `out`, (T, H, W, C)."""
        held = self._shelf.get(self._identity(entry))
        if held is None:
            return None
        held.read(None, out)
        return held.frame_indices, held.mask

    def read(self, entry: int, plan: ClipPlan, out: FrameArray) -> MaskArray | None:
        """Read the frames of a plan into `out`, and give (T,) damaged; None where they are not kept."""
        held = self._shelf.get(self._identity(entry))
        if held is None:
            return None
        places = None
        if self.key.clip_length is None:
            places = plan.frame_indices - plan.record.start
        elif not (np.array_equal(held.frame_indices, plan.frame_indices) and np.array_equal(held.mask, plan.mask)):
            self._is_left_out[entry] = True
            return None
        try:
            damage = np.asarray(held.read(places, out))
        except ValueError:
            return None  # bytes that are whole, and yet no pictures: to be made again
        self._is_known[entry] = True
        return damage

    def fill(self, entry: int) -> Filling | None:
        """Begin to fill an entry. Frames go through the codec also where nothing more is written."""
        if self._is_left_out[entry] or (self._codec == "raw" and not self._writes):
            return None
        return _HeldFilling(self, entry, self._codec, is_kept=self._writes)

    def num_filled(self, entries: IndexArray) -> int:
        """Count the entries that are kept."""
        return sum(self._shelf.has(self._identity(entry)) for entry in entries[entries >= 0].tolist())

    def give_up_entry(self, entry: int) -> None:
        """Fill an entry no more: not all of its frames can be had."""
        self._is_left_out[entry] = True

    def keep(self, entry: int, held: Held) -> None:
        """Put an entry on the shelf, or say once that no more can be."""
        with self._lock:
            if not self._writes:
                return
        try:
            self._shelf.put(self._identity(entry), held)
        except OSError as error:
            with self._lock:
                is_news, self._writes = self._writes, False
            if is_news:
                warnings.warn(
                    f"nothing more is cached, {error.strerror or error}; what is there is used, the rest is decoded "
                    "each time",
                    CacheWarning,
                    stacklevel=2,
                )

    def _identity(self, entry: int) -> bytes:
        return bytes(self._identities[entry])


class _HeldFilling:
    def __init__(self, pack: HeldPack, entry: int, codec: Codec, *, is_kept: bool) -> None:
        self.is_kept = is_kept
        self._pack = pack
        self._entry = entry
        self._codec = codec
        self._pieces: list[FrameArray | list[bytes]] = []
        self._damage: list[MaskArray] = []

    def add(self, frames: FrameArray, is_damaged: MaskArray) -> FrameArray:
        self._damage.append(is_damaged)
        if self._codec == "raw":
            self._pieces.append(frames.copy())
            return frames
        pictures, seen = compress(frames)
        self._pieces.append(pictures)
        return seen

    def finish(self, plan: ClipPlan) -> None:
        is_clip = self._pack.key.clip_length is not None
        facts = {
            "is_damaged": np.concatenate(self._damage),
            "frame_indices": (plan.frame_indices if is_clip else np.empty(0)).astype(np.int32),
            "mask": plan.mask if is_clip else np.empty(0, np.bool_),
        }
        self._pack.keep(self._entry, _joined(self._pieces, facts))

    def abandon(self) -> None:
        self._pack.give_up_entry(self._entry)


def _joined(pieces: Sequence[FrameArray | list[bytes]], facts: dict[str, Any]) -> Held:
    if isinstance(pieces[0], list):
        return Jpegs(pictures=tuple(picture for piece in pieces for picture in piece), **facts)
    return _Frames(frames=np.concatenate([np.asarray(piece) for piece in pieces]), **facts)
