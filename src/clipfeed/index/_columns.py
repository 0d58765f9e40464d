"""Between the store's numbers and the records that the rest of the package speaks of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clipfeed.errors import StaleIndexError
from clipfeed.index._intact import check_facts
from clipfeed.records import RepeatedTexts, StoreRef, TextColumn, VideoColumns, VideoInfo, pack_times
from clipfeed.storage import FINGERPRINT_BYTES
from clipfeed.tables import (
    USABLE,
    BlobColumn,
    StoreDamagedError,
    StoredFacts,
    StoredTable,
    StoreUnusableError,
    read_store,
)


def columns_of(table: StoredTable) -> VideoColumns:
    """Give a store's table as columns of videos."""
    keys, numbers = TextColumn(table.keys.data, table.keys.offsets), table.numbers

    def pairs(name: str) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        return np.stack([numbers[f"{name}_numerator"], numbers[f"{name}_denominator"]], axis=1, dtype=np.int64)

    return VideoColumns(
        keys=keys,
        groups=RepeatedTexts(_int32(table, "group_code"), table.vocabulary, keys),
        row_ids=numbers["row_id"].astype(np.int64, copy=False),
        size_bytes=numbers["size_bytes"].astype(np.int64, copy=False),
        mtime_ns=numbers["mtime_ns"].astype(np.int64, copy=False),
        class_codes=_int32(table, "class_code"),
        part_codes=_int32(table, "part_code"),
        container_codes=_int32(table, "container_code"),
        codec_codes=_int32(table, "codec_code"),
        stream_indices=_int32(table, "stream_index"),
        widths=_int32(table, "width"),
        heights=_int32(table, "height"),
        rotations=_int32(table, "rotation"),
        sample_aspect_ratios=pairs("sample_aspect"),
        average_fps=pairs("average_fps"),
        time_bases=pairs("time_base"),
        is_variable_rate=numbers["is_variable_rate"] > 0,
        num_frames_from_header=_int32(table, "num_frames_from_header"),
        num_frames_from_table=_int32(table, "num_frames_from_table"),
        num_frames_from_packets=_int32(table, "num_frames_from_packets"),
        num_frames_from_decode=_int32(table, "num_frames_from_decode"),
        key_frames=np.frombuffer(table.key_frames.data, "<i4").astype(np.int32, copy=False),
        key_frame_offsets=table.key_frames.offsets // 4,
        frame_pts=table.frame_pts.data,
        frame_pts_offsets=table.frame_pts.offsets,
        vocabulary=table.vocabulary,
        fingerprints=_fingerprints(table.fingerprints),
    )


def checked_columns_of(table: StoredTable) -> VideoColumns:
    """Give a store's table as columns, once it is fit to be believed.

    Raises:
        StoreDamagedError: If a usable video has facts that probing cannot have found.
    """
    columns = columns_of(table)
    check_facts(columns, np.flatnonzero(table.numbers["state"] == USABLE))
    return columns


def _int32(table: StoredTable, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return table.numbers[name].astype(np.int32, copy=False)


def _fingerprints(column: BlobColumn) -> NDArray[np.uint8]:
    """(n, 16) digests; zeros for rows without one."""
    sizes = np.diff(column.offsets)
    digests = np.zeros((len(sizes), FINGERPRINT_BYTES), np.uint8)
    has_one = sizes == FINGERPRINT_BYTES
    whole = np.frombuffer(column.data, np.uint8)
    digests[has_one] = whole[column.offsets[:-1][has_one, None] + np.arange(FINGERPRINT_BYTES)]
    return digests


def facts_of(info: VideoInfo) -> StoredFacts:
    """Give what probing found as the numbers that a row keeps."""
    fps = info.average_fps or None  # 0, less than a frame in weeks, is no rate
    return StoredFacts(
        container=info.container,
        codec=info.codec,
        stream_index=info.stream_index,
        width=info.width,
        height=info.height,
        rotation=info.rotation,
        sample_aspect_numerator=info.sample_aspect_ratio.numerator,
        sample_aspect_denominator=info.sample_aspect_ratio.denominator,
        average_fps_numerator=0 if fps is None else fps.numerator,
        average_fps_denominator=0 if fps is None else fps.denominator,
        time_base_numerator=info.time_base.numerator,
        time_base_denominator=info.time_base.denominator,
        is_variable_rate=info.is_variable_rate,
        num_frames_from_header=_count(info.num_frames_from_header),
        num_frames_from_table=_count(info.num_frames_from_table),
        num_frames_from_packets=_count(info.num_frames_from_packets),
        num_frames_from_decode=_count(info.num_frames_from_decode),
        key_frames=info.key_frames,
        frame_pts=b"" if info.frame_pts is None else pack_times(info.frame_pts),
    )


def _count(number: int | None) -> int:
    return -1 if number is None else number


def reopen_columns(store: StoreRef) -> VideoColumns:
    """Read the columns of a pickled index where it is opened.

    Raises:
        StaleIndexError: If the store is gone or has moved on since the index was built.
    """
    try:
        table = read_store(Path(store.path))
        columns = checked_columns_of(table)
    except (StoreDamagedError, StoreUnusableError) as error:
        raise _stale(store, f"its index cannot be read again ({error})") from error
    if table.snapshot != store.snapshot:
        raise _stale(store, "its index has changed since this dataset was made")
    return columns


def _stale(store: StoreRef, problem: str) -> StaleIndexError:
    return StaleIndexError(
        problem,
        path=store.root,
        stage="index",
        expected=f"snapshot {store.snapshot} of {store.path}",
        remedy="build the index and the dataset anew, and let no other process change the folder's index meanwhile",
    )
