"""Bring a store up to date with a listing: open what is new or changed, note what became of it, and nothing else."""

from __future__ import annotations

import errno
import functools
import importlib.metadata
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from clipfeed import storage
from clipfeed._types import IndexArray, MaskArray
from clipfeed.errors import ClipfeedError, ProbeError
from clipfeed.index._columns import checked_columns_of, facts_of
from clipfeed.names import group_of
from clipfeed.prefetch import run_ahead
from clipfeed.probe import probe_video
from clipfeed.records import FoundVideo, join_key
from clipfeed.tables import FAILED, PASSING, USABLE, WAITING, Listed, Outcome, Store, StoredTable

Progress: TypeAlias = Callable[[int, int], None]

_PROBE_RULES = 1  # raised when probing learns to read more, so that old failures are tried again
_CHUNK_FILES = 8  # files of one job at most: a job costs about as much to hand over as a file takes to be probed
_COMMIT_FILES = 256
_COMMIT_SECONDS = 1.0  # what a killed process may lose

# Reasons outside the file: they pass without the file changing, so the next scan tries again.
_PASSING_ERRNOS = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What `find` found, and which of it is wanted.

    Attributes:
        root: The folder, as the user gave it.
        videos: The files, in order.
        wanted: (n,) bool: files that are probed; the others are only listed.
    """

    root: str
    videos: Sequence[FoundVideo]
    wanted: MaskArray = field(compare=False)


def scan(store: Store, listing: Listing, *, workers: int, progress: Progress | None) -> StoredTable:
    """Make the store say of every file what it is now.

    Args:
        store: The store.
        listing: What stands in the folder.
        workers: Threads that probe.
        progress: Called with (files done, files to open) in the calling thread; None for nobody.

    Returns:
        The store's table, as of one moment after the scan.

    Raises:
        StoreDamagedError: If the store says of a usable video what no probe finds.
    """
    table = _read(store)
    places = match_keys(table, listing.videos)
    listed = _news(table, listing.videos, places)
    gone = np.setdiff1d(np.arange(len(table)), places)
    if listed or len(gone):
        store.list_videos(listed, table.numbers["row_id"][gone].tolist())
        table = store.read()
        places = match_keys(table, listing.videos)
    todo = np.flatnonzero(listing.wanted & np.isin(states_at(table, places), (WAITING, PASSING)))
    if not len(todo):
        return table
    row_ids = table.numbers["row_id"][places[todo]].astype(np.int64)
    _probe_all(store, listing, todo, row_ids, workers=workers, progress=progress)
    return store.read()


def _read(store: Store) -> StoredTable:
    """Read the store, and believe it only if it is intact; failures that another decoder met are to be tried again."""
    reader = f"rules {_PROBE_RULES}, av {_decoder_version()}"
    table = store.read()
    if table.reader != reader:
        store.forget_failures(reader)
        table = store.read()
    checked_columns_of(table)
    return table


@functools.cache
def _decoder_version() -> str:
    """Read once: the file that says it may be out of reach for a process that has given up rights since."""
    return importlib.metadata.version("av")


def match_keys(table: StoredTable, videos: Sequence[FoundVideo]) -> IndexArray:
    """Give each file's position in the table, -1 where it is not there."""
    keys = [video.key.encode("utf-8", "surrogateescape") for video in videos]
    data, offsets = table.keys.data, table.keys.offsets
    sizes = np.fromiter(map(len, keys), np.int64, len(keys))
    if np.array_equal(np.diff(offsets), sizes) and b"".join(keys) == data:
        return np.arange(len(keys), dtype=np.int64)
    bounds = offsets.tolist()
    place_of = {data[start:end]: place for place, (start, end) in enumerate(itertools.pairwise(bounds))}
    return np.fromiter((place_of.get(key, -1) for key in keys), np.int64, len(keys))


def states_at(table: StoredTable, places: IndexArray) -> IndexArray:
    """Give the state of the row at each position; -1 for position -1."""
    return np.append(table.numbers["state"].astype(np.int64), -1)[places]


def _news(table: StoredTable, videos: Sequence[FoundVideo], places: IndexArray) -> list[Listed]:
    """Give the files of which the table says nothing, or something else."""
    code_of: dict[str | None, int] = {word: code for code, word in enumerate(table.vocabulary)}
    code_of[None] = -1
    count, known = len(videos), places >= 0
    seen = {
        "size_bytes": np.fromiter((video.size_bytes for video in videos), np.int64, count),
        "mtime_ns": np.fromiter((video.mtime_ns for video in videos), np.int64, count),
        "class_code": np.fromiter((code_of.get(video.class_name, -2) for video in videos), np.int64, count),
        "part_code": np.fromiter((code_of.get(video.part, -2) for video in videos), np.int64, count),
    }
    same = known.copy()
    for name, values in seen.items():
        same[known] &= table.numbers[name][places[known]] == values[known]
    return [_listed(videos[number]) for number in np.flatnonzero(~same).tolist()]


def _listed(video: FoundVideo) -> Listed:
    group = group_of(video.key, video.class_name)
    return Listed(
        key=video.key,
        size_bytes=video.size_bytes,
        mtime_ns=video.mtime_ns,
        class_name=video.class_name,
        part=video.part,
        group=None if group == video.key else group,
    )


def _probe_all(
    store: Store, listing: Listing, todo: IndexArray, row_ids: IndexArray, *, workers: int, progress: Progress | None
) -> None:
    """Probe files in threads and commit as they come; what is made is kept, also when this is interrupted."""
    chunk = min(_CHUNK_FILES, max(1, len(todo) // (4 * workers)))  # a few long videos shall still busy all threads
    stopped = threading.Event()

    def probe_chunk(start: int) -> list[Outcome]:
        numbers = zip(todo[start : start + chunk].tolist(), row_ids[start : start + chunk].tolist(), strict=True)
        return [
            examine(listing.root, listing.videos[number], row_id) for number, row_id in numbers if not stopped.is_set()
        ]

    commit = _Commit(store)
    done = 0
    with commit, run_ahead(probe_chunk, range(0, len(todo), chunk), workers=workers, max_ahead=4 * workers) as chunks:
        try:
            for outcomes in chunks:
                commit.add(outcomes)
                done += len(outcomes)
                if progress is not None:
                    progress(done, len(todo))
        finally:
            stopped.set()  # what is being probed is finished, what is not begun is left


class _Commit:
    """Outcomes on their way into the store: written in batches, and the rest at the end, however it comes about."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: list[Outcome] = []
        self._time = time.monotonic()

    def __enter__(self) -> None:
        """Begin with nothing."""

    def __exit__(self, *_: object) -> None:
        self._write()

    def add(self, outcomes: list[Outcome]) -> None:
        self._made += outcomes
        if len(self._made) >= _COMMIT_FILES or time.monotonic() - self._time > _COMMIT_SECONDS:
            self._write()

    def _write(self) -> None:
        ready, self._made = self._made, []
        self._time = time.monotonic()
        if ready:
            self._store.finish_videos(ready)


def examine(root: str, video: FoundVideo, row_id: int) -> Outcome:
    """Probe one file; whatever is wrong with it becomes its outcome, and no other file's business."""

    def failed(state: int, reason: str) -> Outcome:
        return Outcome(
            row_id=row_id,
            size_bytes=video.size_bytes,
            mtime_ns=video.mtime_ns,
            state=state,
            stage="probe",
            reason=reason,
        )

    try:
        info = probe_video(root, video)
        digest = bytes.fromhex(storage.fingerprint_file(root, video.key))
    except ProbeError as error:
        return failed(PASSING if _passes(error) else FAILED, error.problem)
    except OSError as error:
        return failed(PASSING, error.strerror or str(error))
    except BaseException as error:
        error.add_note(f"while probing {join_key(root, video.key)}")  # a defect of ours: at least say where
        raise
    if info.num_frames < 1:
        return failed(FAILED, "no frame can be shown")
    if info.width < 1 or info.height < 1:
        return failed(FAILED, f"its frames are said to be {info.width} x {info.height} pixels")
    return Outcome(
        row_id=row_id,
        size_bytes=video.size_bytes,
        mtime_ns=video.mtime_ns,
        state=USABLE,
        fingerprint=digest,
        facts=facts_of(info),
    )


def _passes(error: ClipfeedError) -> bool:
    """Say whether an error may pass without the file changing: no permission, no free descriptor, a lost connection."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _PASSING_ERRNOS:
            return True
        cause = cause.__cause__
    return False
