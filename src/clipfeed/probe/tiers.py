"""Probing: one tier after the other until one answers."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import BinaryIO

from av.packet import Packet
from av.video.stream import VideoStream

from clipfeed import storage
from clipfeed._ffmpeg import OpenVideo, open_avi_header
from clipfeed.errors import DecodeError, ProbeError
from clipfeed.probe.avi import count_by_avi_index, is_avi
from clipfeed.probe.counted import Counted, Deadline
from clipfeed.probe.counting import decode_all
from clipfeed.probe.describe import describe_video
from clipfeed.probe.h26x import turns_picture
from clipfeed.probe.mp4 import MovieBoxes, read_movie_boxes
from clipfeed.probe.opening import open_bytes, open_explained
from clipfeed.probe.packets import PACKET_CODECS, count_by_packets, find_first_frame
from clipfeed.probe.refusal import explain_without_frames
from clipfeed.probe.table import count_by_table, has_table, read_table
from clipfeed.records import FoundVideo, VideoInfo, join_key

__all__ = ["probe_video"]


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
    path, source = join_key(root, found.key), storage.local_path(root, found.key)
    with open_bytes(root, found) as file:
        info = _probe_avi(source, path, file, found.size_bytes) if is_avi(file) else None
        if info is not None:
            return info
        deadline = Deadline(max_seconds, path=path)
        with open_explained(source, path, file, found.size_bytes) as video:
            info = _probe_by_table_or_packets(video, file, found.size_bytes, deadline)
        if info is not None:
            return info
        # Once more, for a demuxer and a decoder that have seen nothing yet.
        with open_explained(source, path, file, found.size_bytes) as video:
            return _probe_by_decoding(video, found.size_bytes, deadline)


def _probe_avi(source: str, path: str, file: BinaryIO, size_bytes: int) -> VideoInfo | None:
    """Ask an AVI's index; None where it is not to be believed."""
    try:
        with open_avi_header(source, path=path) as video:
            counted = count_by_avi_index(video, file, size_bytes)
            return None if counted is None else describe_video(video, "table", counted)
    except ProbeError:
        return None  # opened as any other file, it will say why


def _probe_by_table_or_packets(
    video: OpenVideo, file: BinaryIO, size_bytes: int, deadline: Deadline
) -> VideoInfo | None:
    """Ask a movie's table of samples, then any container's packets; None where both must leave it to decoding."""
    if video.codec_name not in PACKET_CODECS:
        return None
    packets = video.packets()
    try:
        first = next(packets, None)
    except DecodeError:
        return None
    if first is None:
        return None
    packets = chain([first], packets)
    movie = read_movie_boxes(file, size_bytes) if video.container_name == "mov" else None
    counted = _count_by_movie_table(video, movie, first, file, size_bytes)
    if movie is None or counted is None:
        counted = count_by_packets(video, packets, deadline)
        return None if counted is None else describe_video(video, "packets", counted)
    if not _is_upright(video, movie, first):
        counted = replace(counted, first_frame=find_first_frame(video, packets))
        if counted.first_frame is None:
            return None
    return describe_video(video, "table", counted)


def _probe_by_decoding(video: OpenVideo, size_bytes: int, deadline: Deadline) -> VideoInfo:
    seen = decode_all(video, deadline)
    if seen.num_frames == 0:
        raise explain_without_frames(video.path, video.codec_name, seen, size_bytes)
    return describe_video(video, "decode", seen.counted())


def _count_by_movie_table(
    video: OpenVideo, movie: MovieBoxes | None, first: Packet[VideoStream], file: BinaryIO, size_bytes: int
) -> Counted | None:
    """Count by the table of an MP4 or MOV whose first packet, as really read, is a whole key."""
    if movie is None or movie.is_fragmented or not has_table(video):
        return None
    if not first.is_keyframe or first.is_corrupt or first.has_sidedata("encryption_info"):
        return None
    return count_by_table(video, read_table(video), bytes(first), file, size_bytes)


def _is_upright(video: OpenVideo, movie: MovieBoxes, first: Packet[VideoStream]) -> bool:
    """Tell for certain that frames are shown as they are stored; only then nothing needs to be decoded."""
    codec = video.codec_name
    if video.stream.id not in movie.upright_tracks:
        return False
    return codec not in ("h264", "hevc") or not turns_picture(bytes(first), codec, video.stream.codec_context.extradata)
