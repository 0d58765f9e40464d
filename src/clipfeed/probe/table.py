"""Tier 1: the container's own table of samples. Of the samples only the first is read.

A table is believed only where nothing speaks against it: see `has_table` and `count_by_table`. Files of this tier
are counted without a loop over packets, so several threads count at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from clipfeed._ffmpeg import OpenVideo
from clipfeed._types import IndexArray
from clipfeed.probe.counted import Counted
from clipfeed.probe.h26x import starts_decodable
from clipfeed.probe.mpeg4 import SMALL_SAMPLE_BYTES
from clipfeed.probe.packets import INTRA_ONLY_CODECS
from clipfeed.probe.samples import count_samples_of_file
from clipfeed.probe.times import is_evenly_spaced

__all__ = ["SampleTable", "count_by_table", "has_table", "read_table"]

_TABLE_CODECS = frozenset({"h264", "hevc", "mpeg4"}) | INTRA_ONLY_CODECS
_IS_KEY, _IS_DISCARDED = 1, 2  # AVINDEX_KEYFRAME and AVINDEX_DISCARD_FRAME of FFmpeg's avformat.h


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTable:
    """What the container says of each sample. Every array is (n,), in decoding order.

    Attributes:
        starts: int64, position of the sample's first byte in the file.
        ends: int64, position behind its last byte.
        min_bytes: Size of the smallest sample.
        is_key: bool.
        is_discarded: bool, True where an edit list hides the sample; None where there is none of that (AVI).
        timestamps: int64 dts in units of the stream's time base; None where each sample has a slot of its own (AVI).
    """

    starts: IndexArray
    ends: IndexArray
    min_bytes: int
    is_key: NDArray[np.bool_]
    is_discarded: NDArray[np.bool_] | None = None
    timestamps: IndexArray | None = None

    def __len__(self) -> int:
        return len(self.starts)


def has_table(video: OpenVideo) -> bool:
    """Tell whether codec and header are of a kind whose table can be the whole truth, fragments aside."""
    num_entries, num_stated = len(video.stream.index_entries), video.stream.frames
    if video.codec_name not in _TABLE_CODECS or num_entries == 0:
        return False
    return num_stated == num_entries if video.container_name == "avi" else num_stated > 0


def read_table(video: OpenVideo) -> SampleTable:
    """Read FFmpeg's table of the chosen stream, at least one sample; 0.4 us an entry, with the GIL held."""
    entries = [(entry.pos, entry.size, entry.flags, entry.timestamp) for entry in video.stream.index_entries]
    columns = np.array(entries, np.int64)
    return SampleTable(
        starts=columns[:, 0],
        ends=columns[:, 0] + columns[:, 1],
        min_bytes=int(columns[:, 1].min()),
        is_key=(columns[:, 2] & _IS_KEY) != 0,
        is_discarded=(columns[:, 2] & _IS_DISCARDED) != 0,
        timestamps=columns[:, 3],
    )


def count_by_table(
    video: OpenVideo, table: SampleTable, first: bytes, file: BinaryIO, size_bytes: int
) -> Counted | None:
    """Count by a table, or give None where it is not to be believed or frames are unevenly spaced.

    Args:
        video: Where the table comes from.
        table: All samples.
        first: The first sample, as really read (tables lie: one file's first entry is a key, its first packet is none).
        file: The file.
        size_bytes: Its size.
    """
    extradata = video.stream.codec_context.extradata
    if not _is_sound(table, size_bytes) or not starts_decodable(first, video.codec_name, extradata):
        return None
    # Uneven decoding times mean uneven frames, whose times only the packets tell.
    if table.timestamps is not None and not is_evenly_spaced(table.timestamps, video.stream.time_base or Fraction(1)):
        return None
    num_hidden = 0 if table.is_discarded is None else int(np.count_nonzero(table.is_discarded))
    num_frames: int | None = len(table) - num_hidden
    if video.codec_name == "mpeg4" and table.min_bytes <= SMALL_SAMPLE_BYTES:
        header = (extradata or b"") + first
        num_frames = None if num_hidden else count_samples_of_file(file, table.starts, table.ends, header)
    return None if num_frames is None else Counted(num_frames=num_frames, key_frames=table.is_key.nonzero()[0])


def _is_sound(table: SampleTable, size_bytes: int) -> bool:
    """Tell whether every sample lies inside the file and has bytes, and the first one is a key."""
    return table.min_bytes > 0 and bool(table.is_key[0]) and bool(np.maximum.reduce(table.ends) <= size_bytes)
