"""Where an index is kept, and what happens when it cannot be: recognise a moved root, rebuild, or do without."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import platformdirs

from clipfeed import storage, tables
from clipfeed._types import StrPath
from clipfeed.index._scan import Listing
from clipfeed.tables import Store, StoreDamagedError, StoredTable, StoreUnusableError

_NUM_COMPARED = 64  # files looked up in another store; half of them must be there unchanged
_NUM_READ = 4  # of those, files whose content is compared


def store_path(root: str, folder: StrPath | None, *, follow_links: bool, classes: Literal["folders", "none"]) -> Path:
    """Give the store's file: one for each root (however it is spelled) and way of finding.

    Args:
        root: The data set's folder, as the user gave it.
        folder: Where indexes are kept; None for the user's cache folder.
        follow_links: Whether linked folders are visited.
        classes: Whether folders are classes.
    """
    resolved = Path(root).resolve()
    home = Path(folder) if folder is not None else platformdirs.user_cache_path("clipfeed") / "index"
    identity = os.fsencode(f"{resolved}\0links={follow_links}\0classes={classes}")
    title = re.sub(r"[^A-Za-z0-9_-]+", "_", resolved.name)[:40] or "root"
    return home.absolute() / f"{title}-{hashlib.blake2b(identity, digest_size=8).hexdigest()}.sqlite"


def keep(path: Path, listing: Listing, work: Callable[[Store], StoredTable]) -> tuple[StoredTable, bool]:
    """Do some work on the store, wherever it can be kept.

    Args:
        path: The store's file.
        listing: What stands in the folder; another store that lists the same is taken over.
        work: What to do; it is begun again if the store turns out to be damaged or cannot be written.

    Returns:
        What `work` gave, and whether it is kept in `path`.
    """
    trouble = ""
    similar: Path | None = None
    for _ in range(2):
        number = tables.file_number(path)
        try:
            if tables.inspect_store(path) != "usable":
                similar = None if similar else _similar_store(path, listing)  # once: the damage may come from there
                tables.create_store(path, root=str(Path(listing.root).resolve()), copy_of=similar)
                number = tables.file_number(path)
            with tables.open_store(path) as store:
                table = work(store)
            if trouble:
                _warn(f"the index of {listing.root} was damaged ({trouble}); it has been built anew")
            return table, True
        except StoreDamagedError as error:
            trouble = str(error)
            try:
                if number:
                    tables.move_aside(path, number)
            except StoreUnusableError:
                break
        except StoreUnusableError as error:
            trouble = str(error)
            break
    _warn(
        f"the index of {listing.root} cannot be kept in {path.parent} ({trouble}): it is made in memory, "
        "and again next time; pass index= a folder that can be written"
    )
    if _is_readable(path):
        with (
            contextlib.suppress(StoreDamagedError),
            tables.open_memory_store(root=listing.root, copy_of=path) as store,
        ):
            return work(store), False
    with tables.open_memory_store(root=listing.root) as store:
        return work(store), False


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)  # where build_index was called


def _is_readable(path: Path) -> bool:
    try:
        tables.read_listing(path, ())
    except (StoreDamagedError, StoreUnusableError):
        return False
    return True


def _similar_store(path: Path, listing: Listing) -> Path | None:
    """Give the store of another root that lists most of these files unchanged: the folder was moved or copied."""
    candidates = sorted(path.parent.glob("*.sqlite"))
    shares = {other: _share_of(other, listing) for other in candidates if other != path}
    best = max(shares, key=lambda other: shares[other], default=None)
    return best if best is not None and shares[best] >= 0.5 else None


def _share_of(store: Path, listing: Listing) -> float:
    """Say which share of some of the files a store lists with the same size, time of change and content."""
    step = max(1, len(listing.videos) // _NUM_COMPARED)
    videos = listing.videos[::step]
    try:
        rows = tables.read_listing(store, [video.key for video in videos])
    except (StoreDamagedError, StoreUnusableError):
        return 0.0
    same = [
        (video, row[2])
        for video, row in zip(videos, rows, strict=True)
        if row is not None and row[:2] == (video.size_bytes, video.mtime_ns)
    ]
    read = [(video, digest) for video, digest in same if digest][:_NUM_READ]
    if any(_fingerprint(listing.root, video.key) != digest for video, digest in read):
        return 0.0
    return len(same) / len(videos) if read else 0.0


def _fingerprint(root: str, key: str) -> bytes:
    try:
        return bytes.fromhex(storage.fingerprint_file(root, key))
    except OSError:
        return b""
