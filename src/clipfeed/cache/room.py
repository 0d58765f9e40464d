"""How much a folder of packs may take, and what goes when it is too much.

Needed bytes are known before anything is written. Older packs make room, those in use excepted; where that is not
enough, a fixed part of the videos is kept: what is thrown out for something else in every epoch is never there when it
is wanted.
"""

from __future__ import annotations

import bisect
import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.cache.entries import Entries

try:
    import fcntl
except ImportError:  # not a POSIX system: packs in use are not known there
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "Room",
    "choose_entries",
    "find_packs",
    "free_bytes",
    "hold_pack",
    "is_held",
    "last_used",
    "left_bytes",
    "make_room",
    "making",
    "mark_used",
    "remove_pack",
    "used_bytes",
]

_USED = "used"  # a file whose time says when a pack was last opened, and whose lock says that it is
_ABOUT = "pack.json"
_MAKING = "making"  # a file whose lock says that a process is adding to the pack
_MAKING_SECONDS, _LOOK_SECONDS = 60.0, 0.02
_NAME = re.compile("[0-9a-f]{32}")  # of a pack's folder: the digest of its key
_RESERVE_BYTES = 1 << 30  # of free space that are left to others, or a twentieth of a small disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a new part may take.

    Attributes:
        num_bytes: Bytes it may take, 0 or more.
        reason: What sets that limit, for people.
        is_disk_full: Whether that is the disk, and not what the user has set.
        removed: Packs that were removed for it.
    """

    num_bytes: int
    reason: str
    is_disk_full: bool
    removed: tuple[Path, ...] = ()


def find_packs(folder: Path) -> list[Path]:
    """Give the folders of all packs, the one used longest ago first; other folders there are none of ours."""
    if not folder.is_dir():
        return []
    packs = [entry for entry in folder.iterdir() if _NAME.fullmatch(entry.name) and _is_pack(entry)]
    return sorted(packs, key=lambda pack: (last_used(pack), pack.name))


def _is_pack(folder: Path) -> bool:
    try:
        return not folder.is_symlink() and all((folder / name).is_file() for name in (_ABOUT, _USED))
    except OSError:  # another user's, say
        return False


def last_used(pack: Path) -> float:
    """Say when a pack was last opened, in seconds since the epoch; 0 if it is gone meanwhile."""
    try:
        return (pack / _USED).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def used_bytes(folder: Path) -> int:
    """Give the bytes that the files below a folder take on the disk."""
    return sum(_disk_bytes(Path(parent) / name) for parent, _, names in os.walk(folder) for name in names)


def free_bytes(folder: Path) -> int:
    """Give the free space for users of the file system that holds, or will hold, a folder."""
    return _disk_usage(folder)[0]


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
        if other != pack and _is_removed(other):
            removed.append(other)
            room = _room(folder, limit)
    return replace(room, num_bytes=max(0, room.num_bytes), removed=tuple(removed))


def left_bytes(folder: Path, limit: int | None) -> int:
    """Give the bytes that packs of a folder may take beside what all of them take now."""
    return max(0, _room(folder, limit).num_bytes)


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
    counts = range(1, len(ranked) + 1)
    num_fitting = bisect.bisect_right(counts, num_bytes, key=lambda count: bytes_of(count, int(frames[count - 1])))
    return np.sort(ranked[:num_fitting])


def mark_used(pack: Path) -> None:
    """Note that a pack is used now."""
    (pack / _USED).touch()


@contextmanager
def making(pack: Path) -> Iterator[None]:
    """Keep other processes from adding to a pack meanwhile, which would reserve the same space once more.

    Goes on without after a minute, and where the file system knows no locks: what is made twice is wasted, not wrong.
    """
    descriptor = -1
    with suppress(OSError):
        descriptor = os.open(pack / _MAKING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        _wait_for_lock(descriptor)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _wait_for_lock(descriptor: int) -> None:
    deadline = time.monotonic() + _MAKING_SECONDS
    while fcntl is not None and time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_SECONDS)
        else:
            return


def hold_pack(pack: Path) -> int:
    """Keep a pack from being removed until the descriptor that this gives is closed, or the process ends.

    Without effect where the system, or the file system, knows no locks.

    Raises:
        FileNotFoundError: If the pack was removed meanwhile.
    """
    descriptor = os.open(pack / _USED, os.O_RDONLY | os.O_CLOEXEC)
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits while somebody else looks or removes
    if not os.fstat(descriptor).st_nlink:
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "was removed meanwhile", str(pack))
    return descriptor


def is_held(pack: Path) -> bool:
    """Tell whether a process, this one included, has a pack open."""
    try:
        with _alone(pack) as is_alone:
            return not is_alone
    except OSError:
        return False


def remove_pack(pack: Path) -> bool:
    """Remove a pack; False if a process has it open.

    What says that the folder is a pack goes last: where this is interrupted the rest is still known as one.

    Raises:
        OSError: If something of it cannot be removed.
    """
    with _alone(pack) as is_alone:
        if not is_alone:
            return False
        for entry in sorted(pack.iterdir(), key=lambda entry: (entry.name in (_ABOUT, _USED), entry.name)):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink(missing_ok=True)
        pack.rmdir()
    return True


def _is_removed(pack: Path) -> bool:
    """Remove a pack if that can be done: whoever makes room goes on without."""
    try:
        return remove_pack(pack)
    except OSError:
        return False


@contextmanager
def _alone(pack: Path) -> Iterator[bool]:
    """Tell whether no process has a pack open; then none opens it before this ends."""
    writable = os.O_RDWR if os.access(pack / _USED, os.W_OK) else os.O_RDONLY  # NFS asks for a writable file
    descriptor = os.open(pack / _USED, writable | os.O_CLOEXEC)
    try:
        yield fcntl is None or _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _room(folder: Path, limit: int | None) -> Room:
    """Say what is left; below 0 where packs take more than the limit, which somebody has lowered."""
    free, total = _disk_usage(folder)
    left_on_disk = max(0, free - min(_RESERVE_BYTES, total // 20))
    if limit is not None:
        left = limit - sum(used_bytes(pack) for pack in find_packs(folder))
        if left < left_on_disk:
            return Room(num_bytes=left, reason="max_bytes", is_disk_full=False)
    return Room(num_bytes=left_on_disk, reason="the free space", is_disk_full=True)


def _disk_usage(folder: Path) -> tuple[int, int]:
    """Give the free bytes, and all bytes, of the file system that holds, or will hold, a folder."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    usage = shutil.disk_usage(existing)
    return usage.free, usage.total


def _disk_bytes(path: Path) -> int:
    """Bytes that a file takes, or will take once it is filled."""
    try:
        found = path.lstat()
    except OSError:
        return 0  # gone meanwhile
    return max(getattr(found, "st_blocks", 0) * 512, found.st_size)
