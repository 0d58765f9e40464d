"""The sample table of an AVI, read from the file's own index with NumPy.

FFmpeg makes its table from the same index, but PyAV gives it out entry by entry, 0.4 us each with the GIL held. Nothing
here is taken for true before it agrees with FFmpeg's table and with the file.

Source: AVI RIFF File Reference (Microsoft), "idx1"; how FFmpeg reads it, as observed: entries without bytes are left
out, and one offset is added to all positions.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from av.video.stream import VideoStream

from clipfeed._ffmpeg import OpenVideo
from clipfeed.probe.counted import Counted
from clipfeed.probe.h26x import turns_picture
from clipfeed.probe.table import SampleTable, count_by_table, has_table

__all__ = ["count_by_avi_index", "is_avi"]

_CHUNK_HEADER_BYTES = 8  # the table's positions are those of chunks: stream number and kind, size, then the sample
_ENTRY_BYTES = 16  # of the index: stream number and kind, flags, position, size
_NUMBER = np.dtype("<u4")
_IS_KEY = 0x10  # AVIIF_KEYFRAME


def is_avi(file: BinaryIO) -> bool:
    """Tell whether a file begins as an AVI does, by FFmpeg's own test for it."""
    head = file.read(12)
    return head[:4] == b"RIFF" and head[8:] == b"AVI "


def count_by_avi_index(video: OpenVideo, file: BinaryIO, size_bytes: int) -> Counted | None:
    """Count by the index of an AVI, or give None where it is not to be believed, or frames may be turned."""
    table = _read_index(video.stream, file, size_bytes) if has_table(video) else None
    first = None if table is None else _read_first_sample(video.stream, file, table)
    if table is None or first is None:
        return None
    if video.codec_name in ("h264", "hevc") and turns_picture(
        first, video.codec_name, video.stream.codec_context.extradata
    ):
        return None
    return count_by_table(video, table, first, file, size_bytes)


def _read_index(stream: VideoStream, file: BinaryIO, size_bytes: int) -> SampleTable | None:
    """Read the stream's entries of the index, which stands at the end of the file.

    Returns:
        The table, or None where it is not the same as FFmpeg's: not as many entries, or another first, middle or last.
    """
    entries = stream.index_entries
    num_entries = len(entries)
    tail_bytes = min(size_bytes, 3 * _ENTRY_BYTES * num_entries + 4096)  # room for the entries of sound
    file.seek(size_bytes - tail_bytes)
    tail = file.read(tail_bytes)
    at = tail.rfind(b"idx1")
    if at < 0:
        return None
    index_bytes = min(int.from_bytes(tail[at + 4 : at + 8], "little"), len(tail) - at - 8)
    index = np.frombuffer(tail, _NUMBER, index_bytes // _ENTRY_BYTES * 4, at + 8).reshape(-1, 4)
    if len(index) != num_entries:  # else FFmpeg has left out none: all are of this stream and have bytes
        index = index[((index[:, 0] & 0xFFFF) == _stream_code(stream)) & (index[:, 3] > 0)]
        if len(index) != num_entries:
            return None
    is_key, sizes = (index[:, 1] & _IS_KEY).astype(np.bool_), index[:, 3].astype(np.int64)
    starts = index[:, 2].astype(np.int64)
    starts += entries[0].pos + _CHUNK_HEADER_BYTES - starts[0]
    for number in (0, num_entries // 2, num_entries - 1):
        entry = entries[number]
        expected = (starts[number] - _CHUNK_HEADER_BYTES, sizes[number], is_key[number])
        if (entry.pos, entry.size, entry.is_keyframe) != expected:
            return None
    return SampleTable(starts=starts, ends=starts + sizes, min_bytes=int(np.minimum.reduce(sizes)), is_key=is_key)


def _read_first_sample(stream: VideoStream, file: BinaryIO, table: SampleTable) -> bytes | None:
    """Read the first sample, or give None where the file has no chunk of that stream and size in its place."""
    start, num_bytes = int(table.starts[0]), int(table.ends[0] - table.starts[0])
    file.seek(start - _CHUNK_HEADER_BYTES)
    chunk = file.read(_CHUNK_HEADER_BYTES + num_bytes)
    is_whole = (
        len(chunk) == _CHUNK_HEADER_BYTES + num_bytes == _CHUNK_HEADER_BYTES + int.from_bytes(chunk[4:8], "little")
    )
    is_ours = int.from_bytes(chunk[:2], "little") == _stream_code(stream)
    return chunk[_CHUNK_HEADER_BYTES:] if is_whole and is_ours else None


def _stream_code(stream: VideoStream) -> int:
    """Give a stream's two digits as a number of two bytes."""
    return int.from_bytes(b"%02d" % stream.index, "little")
