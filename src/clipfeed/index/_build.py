"""From a folder to a VideoIndex, and back to the store when training meets a file that cannot be delivered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from clipfeed import storage, tables
from clipfeed._types import IndexArray, Stage, StrPath
from clipfeed.errors import ProbeError
from clipfeed.find import FoundVideos, find_videos
from clipfeed.index._columns import columns_of, reopen_columns
from clipfeed.index._keep import keep, store_path
from clipfeed.index._labels import check_labels, check_num_labels, choose_classes, names_of_labels
from clipfeed.index._scan import Listing, match_keys, scan, states_at
from clipfeed.prefetch import thread_count
from clipfeed.records import Failure, StoreRef, VideoIndex, checked_flag, checked_path, join_key
from clipfeed.tables import USABLE, StoredTable

_log = logging.getLogger("clipfeed")
_NUM_LISTED = 10


def build_index(
    directory: StrPath | FoundVideos,
    *,
    index: StrPath | None = None,
    follow_links: bool = False,
    labels: Literal["inferred"] | Sequence[int] | None = "inferred",
    class_names: Sequence[str] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VideoIndex:
    """Give a table of the usable videos in a folder; the second call opens only files that changed.

        HMDB51/
        ├── brush_hair/
        │   ├── April_09_brush_hair_u_nm_np1_ba_goo_0.avi      label 0
        │   └── ...
        └── cartwheel/                                         label 1

    Every file is opened once and its frames are counted exactly. The result is kept in the user's cache folder, never
    beside the data; a folder that was moved is recognised by what it holds. Interrupting keeps what was done.

    Args:
        directory: The folder, or what `cf.find_videos` found in it with the same `labels` and `follow_links`.
        index: Folder in which the index is kept; None is the user's cache folder.
        follow_links: Whether to visit linked folders; loops are harmless.
        labels: "inferred" from the folders; None for videos without labels, which may lie anywhere; or a list of class
            numbers in the order of `cf.find_videos`, one for each file found.
        class_names: Order of the classes, and may be a subset of the folders; only with `labels="inferred"`. A class
            keeps its label although none of its files can be used.
        workers: Threads that open files; None for the cores this process may use.
        progress: Called with (files done, files to open) as the scan goes; not called when nothing changed.

    Returns:
        The usable videos in the order of their keys; `failures` lists the others, with the reason.

    Raises:
        ValueError: For an argument that no call accepts, or arguments that contradict each other or the folder: a list
            of labels of another length than the files found, a class without a folder.
        LayoutError: If there is no such folder, or no video where videos are expected; draws the expected folder.
        ProbeError: If no video found can be used; lists the reasons of the first ten.

    Example:
        >>> index = cf.build_index("HMDB51")
        >>> print(index.summary())
        6766 videos belonging to 51 classes
    """
    numbers = check_labels(labels, class_names)
    threads = thread_count(workers)
    is_following = checked_flag("follow_links", follow_links)
    folder = None if index is None else checked_path("index", index)
    inferred = isinstance(labels, str)
    found = (
        directory
        if isinstance(directory, FoundVideos)
        else find_videos(directory, follow_links=is_following, labels="inferred" if inferred else None)
    )
    if numbers is not None:
        check_num_labels(numbers, len(found.videos), found.root)
    classes, wanted = _classes(found, class_names) if inferred else (None, np.ones(len(found.videos), np.bool_))
    if numbers is not None:
        classes = names_of_labels(numbers)
    listing = Listing(root=found.root, videos=found.videos, wanted=wanted)
    path = store_path(found.root, folder, follow_links=is_following, classes="folders" if inferred else "none")
    table, is_kept = keep(path, listing, lambda store: scan(store, listing, workers=threads, progress=progress))
    return _assemble(table, listing, found, classes=classes, numbers=numbers, path=path if is_kept else None)


def _classes(found: FoundVideos, class_names: Sequence[str] | None) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """Give the classes in label order, and which of the files belong to one of them."""
    filled = {video.class_name for video in found.videos if video.class_name is not None}
    empty = {folder.rsplit("/", 1)[-1] for folder in found.empty_classes}
    classes = choose_classes(class_names, filled, empty, found.root)
    chosen = set(classes)
    wanted = np.fromiter((video.class_name in chosen for video in found.videos), np.bool_, len(found.videos))
    return classes, wanted


def _assemble(
    table: StoredTable,
    listing: Listing,
    found: FoundVideos,
    *,
    classes: tuple[str, ...] | None,
    numbers: NDArray[np.int32] | None,
    path: Path | None,
) -> VideoIndex:
    places = match_keys(table, listing.videos)
    usable = listing.wanted & (states_at(table, places) == USABLE)
    failures = (*found.ignored, *_failures(table, listing, np.flatnonzero(listing.wanted & ~usable), places))
    if not usable.any():
        raise _nothing_usable(found.root, failures)
    return VideoIndex(
        root=found.root,
        columns=columns_of(table),
        rows=places[usable],
        class_names=classes,
        given_labels=None if numbers is None else numbers[usable],
        failures=failures,
        store=None
        if path is None
        else StoreRef(path=str(path), root=found.root, snapshot=table.snapshot, reopen=reopen_columns),
    )


def _failures(table: StoredTable, listing: Listing, numbers: IndexArray, places: IndexArray) -> list[Failure]:
    failures = []
    for number in numbers.tolist():
        place = int(places[number])
        row_id = int(table.numbers["row_id"][place]) if place >= 0 else 0
        stage, reason = table.failures.get(row_id, ("index", "it changed while it was being indexed"))
        path = join_key(listing.root, listing.videos[number].key)
        failures.append(Failure(path=path, stage=cast("Stage", stage), reason=reason))  # stages are all we store
    return failures


def _nothing_usable(root: str, failures: Sequence[Failure]) -> ProbeError:
    return ProbeError(
        f"none of the {len(failures)} files found can be used",
        path=root,
        stage="index",
        expected="\n".join(_lines(failures)),
        remedy="look at the first file with a player; run `clipfeed check` on the folder after mending it",
    )


def _lines(failures: Sequence[Failure]) -> list[str]:
    lines = [f"{failure.path}: {failure.reason}" for failure in failures[:_NUM_LISTED]]
    more = len(failures) - len(lines)
    return [*lines, f"... and {more} more"] if more else lines


def remember_failure(index: VideoIndex, key: str, failure: Failure) -> None:
    """Note in the store that a video could not be delivered: later indexes leave it out until the file changes.

    Datasets in use are not disturbed, and may call this from any thread. Nothing is noted where the file itself is not
    to blame, as far as can be told (it cannot be opened now, or is not the file that was indexed), nor by an index that
    lives in memory only. A store that cannot be written is logged, and training goes on.

    Args:
        index: The index that the video was taken from.
        key: The video's key.
        failure: What went wrong.

    Raises:
        KeyError: If the index has no such video.
    """
    place = index.columns.keys.find(key)
    if place < 0:
        raise KeyError(key)
    if index.store is None:
        return
    size_bytes, mtime_ns = int(index.columns.size_bytes[place]), int(index.columns.mtime_ns[place])
    if not _is_same_file(index.root, key, size_bytes, mtime_ns):
        return
    try:
        tables.mark_failed(
            Path(index.store.path),
            key=key,
            size_bytes=size_bytes,
            mtime_ns=mtime_ns,
            stage=failure.stage,
            reason=failure.reason,
        )
    except (tables.StoreDamagedError, tables.StoreUnusableError) as error:
        _log.warning("%s: the failure could not be noted in the index: %s", failure.path, error)


def _is_same_file(root: str, key: str, size_bytes: int, mtime_ns: int) -> bool:
    try:
        now = storage.stat_file(root, key)
        with storage.open_file(root, key) as file:
            file.read(1)
    except OSError:
        return False
    return (now.size_bytes, now.mtime_ns) == (size_bytes, mtime_ns)
