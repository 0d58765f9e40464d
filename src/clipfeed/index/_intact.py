"""Whether the facts that a store gives back can be what probing found.

SQLite has no checksums of its own: one bit that changes on a disk comes back as another number. What could not have
been written is damage, and damage means that the store is built anew; a plausible number passes.
"""

from __future__ import annotations

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.records import VideoColumns, count_times
from clipfeed.tables import StoreDamagedError


def check_facts(columns: VideoColumns, usable: IndexArray) -> None:
    """Refuse facts of usable videos that no probe gives.

    Args:
        columns: The store's columns.
        usable: (n,) positions of the usable videos; what stands in other rows is never looked at.

    Raises:
        StoreDamagedError: Says what is wrong, and with which video.
    """
    sane = _key_frames_rise(columns)
    for codes in (columns.container_codes, columns.codec_codes, columns.stream_indices, columns.rotations):
        sane &= codes >= 0
    for counts in (columns.num_frames, columns.widths, columns.heights):
        sane &= counts >= 1
    for pairs in (columns.sample_aspect_ratios, columns.time_bases):
        sane &= (pairs >= 1).all(axis=1)
    sane &= (columns.average_fps >= 1).all(axis=1) | (columns.average_fps == 0).all(axis=1)  # 0/0: not known
    wrong = usable[~sane[usable]]
    if len(wrong):
        raise StoreDamagedError(f"{columns.keys[int(wrong[0])]}: facts that no video has")
    _check_times(columns, usable)


def _key_frames_rise(columns: VideoColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(n,) False where the positions of a row's key frames fall, stand still or are negative."""
    offsets = columns.key_frame_offsets
    row_of = np.repeat(np.arange(len(columns)), np.diff(offsets))
    wrong = columns.key_frames < 0
    wrong[1:] |= (np.diff(columns.key_frames) <= 0) & (np.diff(row_of) == 0)
    rises = np.ones(len(columns), np.bool_)
    rises[row_of[wrong]] = False
    return rises


def _check_times(columns: VideoColumns, usable: IndexArray) -> None:
    """Refuse packed times that cannot be unpacked, or are not as many as the frames."""
    offsets, packed = columns.frame_pts_offsets, columns.frame_pts
    counts = columns.num_frames
    for position in usable[np.diff(offsets)[usable] > 0].tolist():
        times = packed[offsets[position] : offsets[position + 1]]
        try:
            num_times = count_times(times) if isinstance(times, bytes) else len(times)
        except ValueError as error:
            raise StoreDamagedError(f"{columns.keys[position]}: {error}") from error
        if num_times != counts[position]:
            raise StoreDamagedError(f"{columns.keys[position]}: {num_times} times for {counts[position]} frames")
