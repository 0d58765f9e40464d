"""Find the pack that a dataset needs, or make it, with room for every video of the index.

The bytes are known before anything is written. A part is added for the videos that no part has yet; what cannot be
made, for want of space or permission, is said once and decoded each time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
import uuid
import warnings
import weakref
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from clipfeed.cache.choice import Cache
from clipfeed.cache.entries import Entries
from clipfeed.cache.held import HeldPack, MemoryShelf
from clipfeed.cache.jpeg import JpegFiles
from clipfeed.cache.key import PackKey
from clipfeed.cache.listing import write_listing
from clipfeed.cache.pack import Lookup, Pack, RawPack
from clipfeed.cache.part import Part, PartDamagedError, create_part, part_bytes
from clipfeed.cache.room import choose_entries, hold_pack, left_bytes, make_room, making, mark_used, used_bytes
from clipfeed.errors import BudgetError, CacheError, CacheWarning
from clipfeed.machine import available_memory
from clipfeed.sizes import show_bytes

__all__ = ["OpenedPack", "needed_bytes", "open_pack"]

_JPEG_SHARE = Fraction(1, 4)  # of the raw bytes, at 64 x 64; less for larger pictures
_MEMORY_SHARE = Fraction(1, 2)  # of what is available, where nobody says
_STALE_SECONDS = 3600  # reserving space takes less
_TRIES = 3
_MAY_NOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS)  # as somebody wanted it: no news

# What datasets of this process have open, by (folder, device, inode): descriptors are few, and parts may be many.
_SHARED_PARTS: weakref.WeakValueDictionary[tuple[Path, int, int], Part] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPack:
    """A pack, and what a user should know of it.

    Attributes:
        pack: Where frames are kept; None where nothing can be.
        place: The pack's folder, or "memory".
        num_bytes: Bytes that all videos take, as far as known beforehand.
        notes: What was left out or removed, one line each.
    """

    pack: Pack | None
    place: str
    num_bytes: int
    notes: tuple[str, ...] = ()


def needed_bytes(key: PackKey, entries: Entries, cache: Cache) -> int:
    """Give the bytes that all entries take; an estimate for JPEG."""
    num_frames = int(entries.num_frames.sum())
    if cache.codec == "jpeg":
        return int(num_frames * key.frame_bytes * _JPEG_SHARE)
    return part_bytes(key, len(entries), num_frames) if cache.where == "disk" else num_frames * (key.frame_bytes + 1)


def open_pack(cache: Cache, key: PackKey, entries: Entries) -> OpenedPack:
    """Find or make the pack for some videos.

    Args:
        cache: What the user chose.
        key: What the pack is of.
        entries: Every video of the index, whichever part it is in.

    Raises:
        BudgetError: If memory does not hold all of them.
        CacheError: If the cache's folder is no folder.
    """
    entries, notes = _cacheable(cache, key, entries)
    if cache.where == "memory":
        return _open_memory(cache, key, entries, notes)
    folder, hold = cache.folder / key.digest, contextlib.ExitStack()
    try:
        _claim(folder, key, hold)
        is_writable = True
    except (FileExistsError, NotADirectoryError) as error:
        raise CacheError(
            "is no folder", path=str(cache.folder), stage="cache", remedy="pass another folder as cache"
        ) from error
    except OSError as error:
        is_writable = False
        if not _is_folder(folder):
            return _nothing(cache, folder, error, notes)
        if error.errno not in _MAY_NOT_WRITE:
            _warn(f"{folder}: nothing more is cached, {error.strerror or error}")
    with hold:
        opened = _open_jpeg if cache.codec == "jpeg" else _open_raw
        try:
            pack, more = opened(folder, key, entries, cache.limit if is_writable else 0)
        except OSError as error:
            return _nothing(cache, folder, error, notes)
        weakref.finalize(pack, hold.pop_all().close)
    return OpenedPack(pack=pack, place=str(folder), num_bytes=needed_bytes(key, entries, cache), notes=(*notes, *more))


def _nothing(cache: Cache, folder: Path, error: OSError, notes: tuple[str, ...]) -> OpenedPack:
    _warn(f"{cache.folder}: nothing is cached, {error.strerror or error}")
    return OpenedPack(pack=None, place=str(folder), num_bytes=0, notes=notes)


def _warn(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=3)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # below a folder that may not be entered
        return False


def _cacheable(cache: Cache, key: PackKey, entries: Entries) -> tuple[Entries, tuple[str, ...]]:
    """Leave out what cannot be kept: rows again, videos whose content is not known, and those that are too long."""
    firsts = np.sort(np.unique(entries.identities, return_index=True)[1])
    kept = entries.take(firsts[(entries.identities[firsts] != b"") & (entries.num_frames[firsts] > 0)])
    if key.clip_length is not None or not len(kept):
        return kept, ()
    is_long = kept.num_frames > cache.max_frames
    if not is_long.any():
        return kept, ()
    note = f"{int(is_long.sum())} videos have more than max_frames={cache.max_frames} frames and stay uncached"
    return kept.take(np.flatnonzero(~is_long)), (note,)


def _open_memory(cache: Cache, key: PackKey, entries: Entries, notes: tuple[str, ...]) -> OpenedPack:
    shelf: MemoryShelf = cache.held.get(key.digest) or MemoryShelf()
    new = entries.take(np.flatnonzero(~np.isin(entries.identities, shelf.promised)))
    needed = needed_bytes(key, new, cache)
    _check_memory(cache, key, new, needed)
    shelf.promise(new.identities, needed)
    cache.held[key.digest] = shelf
    pack = HeldPack(key, entries, shelf, codec=cache.codec)
    return OpenedPack(pack=pack, place="memory", num_bytes=needed_bytes(key, entries, cache), notes=notes)


def _check_memory(cache: Cache, key: PackKey, entries: Entries, needed: int) -> None:
    """Raise BudgetError if so many bytes more, for these entries, are more than a cache in memory may hold."""
    shelves = list(cache.held.values())
    promised, taken = sum(shelf.promised_bytes for shelf in shelves), sum(shelf.num_bytes for shelf in shelves)
    available = available_memory()
    limit = cache.limit or (None if available is None else int((available + taken) * _MEMORY_SHARE))
    if limit is None or not needed or promised + needed <= limit:
        return
    raise BudgetError(
        'cache="memory" does not hold the frames of all videos',
        stage="cache",
        expected=(
            f"{len(entries)} videos, {int(entries.num_frames.sum())} frames of "
            f"{' x '.join(map(str, key.frame_shape))} bytes: {show_bytes(needed)}\n"
            + (f"other frames in this cache: {show_bytes(promised)}\n" if promised else "")
            + f"limit: {show_bytes(limit)}"
            + (" (half of the available memory)" if cache.limit is None else " (max_bytes)")
        ),
        remedy='pass cache="disk", or cf.Cache(where="memory", max_bytes=...) if the memory is there',
    )


def _claim(folder: Path, key: PackKey, hold: contextlib.ExitStack) -> None:
    """Make a pack's folder, and keep it from being removed until `hold` is closed."""
    for tries_left in reversed(range(_TRIES)):
        try:
            _prepare(folder, key)
            hold.callback(os.close, hold_pack(folder))
        except FileNotFoundError:  # somebody else has made room meanwhile
            if not tries_left:
                raise
        else:
            return


def _prepare(folder: Path, key: PackKey) -> None:
    """Make a pack's folder, and say in it what it is of."""
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / "pack.json"
    if not about.is_file() or about.read_text(encoding="utf-8", errors="replace") != key.text:
        partial = folder / f".pack-{uuid.uuid4().hex[:8]}.partial"
        partial.write_text(key.text, encoding="utf-8")
        partial.replace(about)
    mark_used(folder)
    for left in folder.glob(".*.partial"):  # of a process that was killed
        with contextlib.suppress(OSError):  # or of one that has just finished
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def _open_jpeg(folder: Path, key: PackKey, entries: Entries, limit: int | None) -> tuple[Pack, tuple[str, ...]]:
    if limit == 0:
        return HeldPack(key, entries, JpegFiles(folder, 0), codec="jpeg", writes=False), ()
    estimate = int(int(entries.num_frames.sum()) * key.frame_bytes * _JPEG_SHARE)
    room = make_room(folder, max(0, estimate - used_bytes(folder)), limit)
    with contextlib.suppress(OSError):  # for people only; where there is no space, the first entry will say so
        write_listing(folder, entries)
    files = JpegFiles(folder, room.num_bytes, lambda: left_bytes(folder.parent, limit))
    pack = HeldPack(key, entries, files, codec="jpeg")
    return pack, tuple(f"removed an older pack, {old}" for old in room.removed)


def _open_raw(folder: Path, key: PackKey, entries: Entries, limit: int | None) -> tuple[Pack, tuple[str, ...]]:
    if limit == 0:
        return RawPack(key, _open_parts(folder, key, may_remove=False)), ()
    with making(folder):
        parts = _open_parts(folder, key, may_remove=True)
        there = Lookup([part.identities for part in parts])
        missing = entries.take(np.flatnonzero(there.find(entries.identities) < 0))
        more, notes = _add_part(folder, key, missing, limit) if len(missing) or limit is not None else ([], [])
    return RawPack(key, [*parts, *more]), tuple(notes)


def _add_part(folder: Path, key: PackKey, missing: Entries, limit: int | None) -> tuple[list[Part], list[str]]:
    """Make room, and a part for the videos that no part has yet, or for as many of them as there is room for."""
    room = make_room(folder, part_bytes(key, len(missing), int(missing.num_frames.sum())), limit)
    notes = [f"removed an older pack, {old}" for old in room.removed]
    fitting = choose_entries(missing, room.num_bytes, lambda rows, frames: part_bytes(key, rows, frames))
    if len(fitting) < len(missing):
        left = show_bytes(room.num_bytes)
        notes.append(f"{len(missing) - len(fitting)} videos stay uncached: {room.reason} leaves {left}")
        if room.is_disk_full:
            _warn(f"{folder}: the disk has no room for all videos, the rest is decoded each time")
    if not len(fitting):
        return [], notes
    try:
        return [_open_part(create_part(folder, key, missing.take(fitting)), key)], notes
    except (OSError, PartDamagedError) as error:
        _warn(f"{folder}: nothing more is cached, {error}")
        return [], notes


def _open_parts(folder: Path, key: PackKey, *, may_remove: bool) -> list[Part]:
    """Open the parts that are what they should be; others are removed, to be made again."""
    parts = []
    for place in sorted(place for place in folder.glob("part-*") if place.is_dir()):
        try:
            parts.append(_open_part(place, key))
            with contextlib.suppress(OSError):  # frames are read without it
                parts[-1].repair_header()
        except PartDamagedError as error:
            _warn(f"{place}: is not what was written, {error}; it is made again")
            if may_remove:
                shutil.rmtree(place, ignore_errors=True)
        except OSError as error:
            _warn(f"{place}: cannot be opened, {error}; it is not used")
    return parts


def _open_part(place: Path, key: PackKey) -> Part:
    try:
        found = (place / "frames.npy").stat()
    except FileNotFoundError as error:
        raise PartDamagedError(f"{place / 'frames.npy'} is missing") from error
    name = (place, found.st_dev, found.st_ino)
    part = _SHARED_PARTS.get(name)
    if part is None:
        part = _SHARED_PARTS[name] = Part(place, key)
    part.check_sizes()
    return part
