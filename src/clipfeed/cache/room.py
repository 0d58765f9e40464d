"""How much a folder of packs may take, and what goes when it is too much.

Needed bytes are known before anything is written. Older packs make room, those in use excepted; where that is not
enough, a fixed part of the videos is kept: what is thrown out for something else in every epoch is never there when it
is wanted.
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.cache.entries import Entries

try:
    import fcntl
except ImportError:  # not a POSIX system: packs in use are not known there
    fcntl = None  # type: ignore[assignment]

__all__ = ["Room", "choose_entries", "find_packs", "free_bytes", "hold_pack", "make_room", "mark_used", "used_bytes"]

_USED = "used"  # a file whose time says when a pack was last opened, and whose lock says that it is
_RESERVE_BYTES = 1 << 30  # of free space that are left to others


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a new part may take.

    Attributes:
        num_bytes: Bytes it may take, 0 or more.
        reason: What sets that limit, for people.
        removed: Packs that were removed for it.
    """

    num_bytes: int
    reason: str
    removed: tuple[Path, ...] = ()


def find_packs(folder: Path) -> list[Path]:
    """Give the folders of all packs, the one used longest ago first."""
    if not folder.is_dir():
        return []
    packs = [entry for entry in folder.iterdir() if (entry / _USED).is_file()]
    return sorted(packs, key=lambda pack: ((pack / _USED).stat().st_mtime_ns, pack.name))


def used_bytes(folder: Path) -> int:
    """Give the bytes that the files below a folder take on the disk."""
    return sum(_disk_bytes(Path(parent) / name) for parent, _, names in os.walk(folder) for name in names)


def free_bytes(folder: Path) -> int:
    """Give the free space for users of the file system that holds, or will hold, a folder."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    return shutil.disk_usage(existing).free


def make_room(pack: Path, num_bytes: int, limit: int | None) -> Room:
    """Remove older packs until one may take so many bytes more, or no more can go.

    Args:
        pack: The pack that grows; it stays.
        num_bytes: Bytes it needs.
        limit: Most that all packs may take; None for no limit but the disk's.
    """
    folder, removed = pack.parent, []
    room = _room(folder, limit)
    for other in find_packs(folder):
        if room.num_bytes >= num_bytes:
            break
        if other != pack and _remove_unused(other):
            removed.append(other)
            room = _room(folder, limit)
    return Room(num_bytes=room.num_bytes, reason=room.reason, removed=tuple(removed))


def choose_entries(entries: Entries, num_bytes: int, bytes_of: Callable[[int, int], int]) -> IndexArray:
    """Choose the rows that fit, always the same ones for the same room: by their digests, which are as good as random.

    Args:
        entries: All rows.
        num_bytes: Bytes there are.
        bytes_of: Gives the bytes that (rows, frames) take.

    Returns:
        (m,) int64 positions in `entries`, ascending.
    """
    ranked = np.argsort(entries.identities, kind="stable")
    frames = np.cumsum(entries.num_frames[ranked])
    fits = [bytes_of(count, int(total)) <= num_bytes for count, total in enumerate(frames, 1)]
    return np.sort(ranked[: sum(fits)])  # sizes rise, so those that fit stand first


def mark_used(pack: Path) -> None:
    """Note that a pack is used now."""
    (pack / _USED).touch()


def hold_pack(pack: Path, owner: object) -> None:
    """Keep a pack from being removed for room as long as `owner` lives; without effect where that cannot be said."""
    if fcntl is None:
        return
    descriptor = os.open(pack / _USED, os.O_RDONLY | os.O_CLOEXEC)
    weakref.finalize(owner, os.close, descriptor)
    _try_lock(descriptor, fcntl.LOCK_SH)


def _remove_unused(pack: Path) -> bool:
    """Remove a pack unless a process has it open."""
    descriptor = os.open(pack / _USED, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if fcntl is not None and not _try_lock(descriptor, fcntl.LOCK_EX):
            return False
        shutil.rmtree(pack)
    finally:
        os.close(descriptor)
    return True


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _room(folder: Path, limit: int | None) -> Room:
    left_on_disk = max(0, free_bytes(folder) - _RESERVE_BYTES)
    if limit is not None and limit - used_bytes(folder) < left_on_disk:
        return Room(num_bytes=max(0, limit - used_bytes(folder)), reason="max_bytes")
    return Room(num_bytes=left_on_disk, reason="the free space")


def _disk_bytes(path: Path) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0  # gone meanwhile
    return getattr(found, "st_blocks", 0) * 512 or found.st_size
