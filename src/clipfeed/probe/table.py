"""Tier 1: the container's own table of samples. Of the samples only the first is read.

A table is believed only where nothing speaks against it; the conditions stand in `table_objection`. Files of this tier
are counted without a packet loop, so several threads count at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream
from numpy.typing import NDArray

from clipfeed._ffmpeg import OpenVideo
from clipfeed._types import IndexArray
from clipfeed.probe.h26x import starts_decodable
from clipfeed.probe.packets import INTRA_ONLY_CODECS

__all__ = ["SampleTable", "is_table_sound", "read_table"]

_TABLE_CODECS = frozenset({"h264", "hevc", "mpeg4"}) | INTRA_ONLY_CODECS

_CHUNK_HEADER_BYTES = 8  # an AVI table's positions are those of the chunk; its tag and size come first
_IS_KEY, _IS_DISCARDED = 1, 2  # AVINDEX_KEYFRAME and AVINDEX_DISCARD_FRAME of FFmpeg's avformat.h
_AVI_IS_KEY = 0x10  # AVIIF_KEYFRAME of the AVI 1.0 index
_AVI_ENTRY_BYTES = 16  # stream number in two digits and kind in two letters; flags; position; size: four "<u4"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTable:
    """What the container says of each sample. Every array is (n,), in decoding order.

    Attributes:
        starts: int64, position of the sample's first byte in the file.
        num_bytes: int64, its size.
        is_key: bool.
        is_discarded: bool, True where an edit list hides the sample.
        timestamps: int64 dts in units of the stream's time base; None where nobody needs it (AVI: one a slot).
    """

    starts: IndexArray
    num_bytes: IndexArray
    is_key: NDArray[np.bool_]
    is_discarded: NDArray[np.bool_]
    timestamps: IndexArray | None

    def __len__(self) -> int:
        return len(self.starts)


def read_table(video: OpenVideo, file: BinaryIO, size_bytes: int) -> SampleTable:
    """Read the chosen stream's table of an AVI or MP4; it may be empty.

    An entry costs 0.4 us with the GIL held, so an AVI's is read from the file's index chunk with NumPy, where that
    chunk says the same as FFmpeg's table.
    """
    if video.container_name == "avi":
        table = _read_avi_table(video.stream, file, size_bytes)
        if table is not None:
            return table
    entries = [(entry.pos, entry.size, entry.flags, entry.timestamp) for entry in video.stream.index_entries]
    columns = np.array(entries, np.int64).reshape(-1, 4)
    return SampleTable(
        starts=columns[:, 0] + (_CHUNK_HEADER_BYTES if video.container_name == "avi" else 0),
        num_bytes=columns[:, 1],
        is_key=(columns[:, 2] & _IS_KEY) != 0,
        is_discarded=(columns[:, 2] & _IS_DISCARDED) != 0,
        timestamps=columns[:, 3],
    )


def _read_avi_table(stream: VideoStream, file: BinaryIO, size_bytes: int) -> SampleTable | None:
    """Read the "idx1" chunk, which FFmpeg's table of an AVI is made from, or give None where the two differ.

    FFmpeg leaves out entries without bytes and adds one offset to all positions. So the two are the same if they have
    as many entries and agree on the first, the middle and the last one.
    """
    entries = stream.index_entries
    num_entries = len(entries)
    tail_bytes = min(size_bytes, 3 * _AVI_ENTRY_BYTES * num_entries + 4096)  # an index stands at the end; sound too
    file.seek(size_bytes - tail_bytes)
    tail = file.read(tail_bytes)
    at = tail.rfind(b"idx1")
    if num_entries == 0 or at < 0:
        return None
    chunk_bytes = min(int.from_bytes(tail[at + 4 : at + 8], "little"), len(tail) - at - 8)
    index = np.frombuffer(tail, "<u4", chunk_bytes // _AVI_ENTRY_BYTES * 4, at + 8).reshape(-1, 4)
    index = index[((index[:, 0] & 0xFFFF) == int.from_bytes(b"%02d" % stream.index, "little")) & (index[:, 3] > 0)]
    if len(index) != num_entries:
        return None
    is_key = (index[:, 1] & _AVI_IS_KEY) != 0
    positions, num_bytes = index[:, 2].astype(np.int64), index[:, 3].astype(np.int64)
    positions += entries[0].pos - positions[0]
    for number in (0, num_entries // 2, num_entries - 1):
        entry = entries[number]
        if (entry.pos, entry.size, entry.is_keyframe) != (positions[number], num_bytes[number], is_key[number]):
            return None
    return SampleTable(
        starts=positions + _CHUNK_HEADER_BYTES,
        num_bytes=num_bytes,
        is_key=is_key,
        is_discarded=np.zeros(num_entries, np.bool_),
        timestamps=None,
    )


def has_table(video: OpenVideo, *, is_fragmented: bool) -> bool:
    """Tell whether a container and codec are of a kind whose table can be the whole truth."""
    stream, num_entries = video.stream, len(video.stream.index_entries)
    if video.codec_name not in _TABLE_CODECS or num_entries == 0:
        return False
    if video.container_name == "avi":
        return stream.frames == num_entries
    return video.container_name == "mov" and stream.frames > 0 and not is_fragmented


def is_table_sound(table: SampleTable, first: Packet[VideoStream], video: OpenVideo, size_bytes: int) -> bool:
    """Tell whether nothing speaks against a table.

    Every sample lies inside the file and has bytes, the first one is a key, and the first packet that is really read
    is one too, whole and readable (tables lie: one file's first entry is a key, its first packet is none).

    Args:
        table: All samples, at least one.
        first: The first packet read from the file.
        video: Where both come from.
        size_bytes: Size of the file.
    """
    return (
        bool((table.starts + table.num_bytes).max() <= size_bytes)
        and bool(table.num_bytes.min() > 0)
        and bool(table.is_key[0])
        and first.is_keyframe
        and not first.is_corrupt
        and not first.has_sidedata("encryption_info")
        and starts_decodable(bytes(first), video.codec_name, video.stream.codec_context.extradata)
    )
