"""Probing: one tier after the other until one answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import BinaryIO, Literal, cast

import av
import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream

from clipfeed import storage
from clipfeed._ffmpeg import OpenVideo, open_container
from clipfeed.errors import DecodeError, ProbeError
from clipfeed.probe.counted import Counted, Deadline
from clipfeed.probe.counting import decode_all
from clipfeed.probe.h26x import turns_picture
from clipfeed.probe.mp4 import MovieBoxes, read_movie_boxes
from clipfeed.probe.mpeg4 import SMALL_SAMPLE_BYTES
from clipfeed.probe.packets import PACKET_CODECS, count_by_packets, find_first_frame
from clipfeed.probe.refusal import explain_empty, explain_unopened, explain_without_frames
from clipfeed.probe.samples import count_samples_of_file
from clipfeed.probe.table import SampleTable, has_table, is_table_sound, read_table
from clipfeed.probe.times import average_rate, is_evenly_spaced
from clipfeed.records import FoundVideo, VideoInfo, join_key

__all__ = ["describe_video", "open_found", "probe_video"]

_Tier = Literal["table", "packets", "decode"]


def probe_video(root: str, found: FoundVideo, *, max_seconds: float = 600.0) -> VideoInfo:
    """Find out what there is to know of one video, above all how many frames it shows.

    Safe to call from several threads. Where the sample table answers, nothing is decoded.

    Args:
        root: The data set's folder, as the user gave it.
        found: The file.
        max_seconds: Longest time for a file, looked at between packets; only a file without end, or many hours of a
            rare codec, comes near it.

    Raises:
        ProbeError: The file cannot be used; says why and what to do.
    """
    path = join_key(root, found.key)
    deadline = Deadline(max_seconds, path=path)
    with open_found(root, found) as (video, file):
        answer = _count_without_decoding(video, file, found.size_bytes, deadline)
        if answer is not None:
            return describe_video(video, *answer)
    with open_found(root, found) as (video, _):  # once more, for a decoder and a demuxer that have seen nothing yet
        seen = decode_all(video, deadline)
        if seen.num_frames == 0:
            raise explain_without_frames(path, video.codec_name, seen, found.size_bytes)
        return describe_video(video, "decode", seen.counted())


@contextmanager
def open_found(root: str, found: FoundVideo) -> Iterator[tuple[OpenVideo, BinaryIO]]:
    """Open a file as a video and as plain bytes, and close both.

    Raises:
        ProbeError: It cannot be opened as a video; says why.
    """
    path = join_key(root, found.key)
    if found.size_bytes == 0:
        raise explain_empty(path)
    with ExitStack() as stack:
        try:
            video = stack.enter_context(open_container(storage.local_path(root, found.key), path=path))
            file = stack.enter_context(storage.open_file(root, found.key))
        except ProbeError as error:
            if isinstance(error.__cause__, OSError) or not isinstance(error.__cause__, av.FFmpegError):
                raise
            with storage.open_file(root, found.key) as file:
                raise explain_unopened(error, file, found.size_bytes) from error.__cause__
        yield video, file


def describe_video(video: OpenVideo, tier: _Tier, counted: Counted) -> VideoInfo:
    """Put together what is known of an open video and what a tier counted.

    Args:
        video: The video.
        tier: Which tier it was.
        counted: Its answer.
    """
    stream, first = video.stream, counted.first_frame
    time_base = stream.time_base or Fraction(1)
    pts = None if video.container_name == "avi" else counted.pts  # AVI has no times, only slots, one a frame
    is_variable = pts is not None and not is_evenly_spaced(pts, time_base)
    aspect = stream.sample_aspect_ratio
    return VideoInfo(
        container=video.container_name,
        codec=video.codec_name,
        stream_index=stream.index,
        width=first.width if first else stream.codec_context.width,
        height=first.height if first else stream.codec_context.height,
        rotation=_quarter_turn(first.degrees) if first else 0,
        sample_aspect_ratio=aspect if aspect and aspect > 0 else Fraction(1),
        average_fps=average_rate(stream.average_rate, pts, time_base),
        time_base=time_base,
        is_variable_rate=is_variable,
        num_frames_from_header=stream.frames or None,
        num_frames_from_table=counted.num_frames if tier == "table" else None,
        num_frames_from_packets=counted.num_frames if tier == "packets" else None,
        num_frames_from_decode=counted.num_frames if tier == "decode" else None,
        key_frames=counted.key_frames,
        frame_pts=pts if is_variable else None,
    )


def _count_without_decoding(
    video: OpenVideo, file: BinaryIO, size_bytes: int, deadline: Deadline
) -> tuple[_Tier, Counted] | None:
    """Ask the sample table, then the packets; None where both must leave it to decoding."""
    if video.codec_name not in PACKET_CODECS:
        return None
    packets = video.packets()
    try:
        first = next(packets, None)
    except DecodeError:
        return None
    if first is None:
        return None
    movie = read_movie_boxes(file, size_bytes) if video.container_name == "mov" else None
    counted = _count_by_table(video, first, movie, file, size_bytes)
    packets = chain([first], packets)
    if counted is None:
        counted = count_by_packets(video, packets, deadline)
        return None if counted is None else ("packets", counted)
    if not _is_upright(video, first, movie):
        counted = replace(counted, first_frame=find_first_frame(video, packets))
        return None if counted.first_frame is None else ("table", counted)
    return "table", counted


def _count_by_table(
    video: OpenVideo, first: Packet[VideoStream], movie: MovieBoxes | None, file: BinaryIO, size_bytes: int
) -> Counted | None:
    """Count by the sample table, or give None where it is not to be believed or frames are unevenly spaced."""
    if not has_table(video, is_fragmented=movie is None or movie.is_fragmented):
        return None
    table = read_table(video, file, size_bytes)
    if not is_table_sound(table, first, video, size_bytes) or not _is_evenly_timed(table, video):
        return None
    num_frames: int | None = int(np.count_nonzero(~table.is_discarded))
    if video.codec_name == "mpeg4" and int(table.num_bytes.min()) <= SMALL_SAMPLE_BYTES:
        if table.is_discarded.any():
            return None
        header = (video.stream.codec_context.extradata or b"") + bytes(first)
        num_frames = count_samples_of_file(file, table.starts, table.num_bytes, header)
    if num_frames is None:
        return None
    return Counted(num_frames=num_frames, key_frames=np.flatnonzero(table.is_key))


def _is_evenly_timed(table: SampleTable, video: OpenVideo) -> bool:
    """Uneven decoding times mean uneven frames, whose times only the packets tell. Slots of an AVI are even."""
    if table.timestamps is None or video.container_name == "avi":
        return True
    return is_evenly_spaced(table.timestamps[~table.is_discarded], video.stream.time_base or Fraction(1))


def _is_upright(video: OpenVideo, first: Packet[VideoStream], movie: MovieBoxes | None) -> bool:
    """Tell for certain that frames are shown as they are stored; only then nothing needs to be decoded."""
    if movie is not None and video.stream.id not in movie.upright_tracks:
        return False
    codec = video.codec_name
    return codec not in ("h264", "hevc") or not turns_picture(bytes(first), codec, video.stream.codec_context.extradata)


def _quarter_turn(degrees: int) -> Literal[0, 90, 180, 270]:
    """Give the nearest multiple of 90 degrees, counter-clockwise; FFmpeg gives -180 to 180, rounded down."""
    return cast("Literal[0, 90, 180, 270]", round(degrees / 90) * 90 % 360)
