"""Tier 2: read all packets, decode only up to the first frame.

Which packets show a frame is told by a few bits of each; one packet, one frame for most codecs. Where decoding could
come to another number, the answer is None. The loop runs in Python, 4 to 17 us a packet, so it does not get faster
with threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from clipfeed._ffmpeg import OpenVideo
from clipfeed.errors import DecodeError
from clipfeed.probe.counted import Counted, Deadline, FirstFrame
from clipfeed.probe.samples import SampleCounter
from clipfeed.probe.vpx import count_shown_in_vp8, count_shown_in_vp9

__all__ = ["INTRA_ONLY_CODECS", "PACKET_CODECS", "count_by_packets", "find_first_frame"]

INTRA_ONLY_CODECS = frozenset(
    {"dnxhd", "dvvideo", "ffvhuff", "huffyuv", "jpeg2000", "magicyuv", "mjpeg", "prores", "rawvideo", "utvideo", "v210"}
)
"""Codecs whose every packet is one whole picture. Not by FFmpeg's own flag: some that carry it skip pictures."""

PACKET_CODECS = frozenset({"av1", "h264", "hevc", "mpeg4", "vp8", "vp9"}) | INTRA_ONLY_CODECS
"""What a packet scan can count. Not MPEG-2 (two packets can be the fields of one frame), WMV, RealVideo, Theora ..."""

_REORDERING_CODECS = frozenset({"h264", "hevc"})
_SHOWN_IN_PACKET: Mapping[str, Callable[[memoryview], int]] = {"vp8": count_shown_in_vp8, "vp9": count_shown_in_vp9}


@dataclass(slots=True)
class _Scan:
    """What the loop over packets gathers."""

    num_packets: int = 0
    num_shown: int = 0
    key_frames: list[int] = field(default_factory=list)
    pts: list[int | None] = field(default_factory=list)
    first_frame: FirstFrame | None = None
    is_doubtful: bool = False


def count_by_packets(video: OpenVideo, packets: Iterable[Packet[VideoStream]], deadline: Deadline) -> Counted | None:
    """Count by the packets of a stream, from its first one on.

    Returns:
        The answer, or None where decoding must count: the first packet is no key, one is corrupt, the container breaks
        off with an error, decoding does not get to a first frame without one, pictures before the first key are shown
        or dropped, or the codec leaves a doubt.

    Raises:
        ProbeError: The deadline has passed.
    """
    samples = SampleCounter(video.stream.codec_context.extradata) if video.codec_name == "mpeg4" else None
    scan = _Scan()
    try:
        for packet in packets:
            deadline.check()
            _take(scan, packet, video, samples)
            if scan.is_doubtful:
                return None
        if scan.first_frame is None:
            scan.first_frame = _first_of(video.decode(None))
    except DecodeError:
        return None
    num_frames = samples.count() if samples else scan.num_shown
    if num_frames is None or scan.first_frame is None or _drops_leading_pictures(scan, video):
        return None
    pts = [time for time in scan.pts if time is not None]
    return Counted(
        num_frames=num_frames,
        key_frames=np.array(scan.key_frames, np.int64),
        pts=np.sort(np.array(pts, np.int64)) if len(pts) == num_frames else None,
        first_frame=scan.first_frame,
    )


def find_first_frame(video: OpenVideo, packets: Iterable[Packet[VideoStream]]) -> FirstFrame | None:
    """Decode up to the first frame; None if a packet before it cannot be decoded.

    Args:
        video: A video whose decoder is fresh.
        packets: Its packets, from the first one on; no more are read than are needed.
    """
    try:
        for packet in packets:
            frames = video.decode(packet)
            if frames:
                return _first_of(frames)
        return _first_of(video.decode(None))
    except DecodeError:
        return None


def _take(scan: _Scan, packet: Packet[VideoStream], video: OpenVideo, samples: SampleCounter | None) -> None:
    """Add one packet to what is known."""
    codec = video.codec_name
    if packet.is_corrupt or (scan.num_packets == 0 and not packet.is_keyframe):
        scan.is_doubtful = True
        return
    if packet.is_keyframe:
        scan.key_frames.append(scan.num_packets)
    scan.num_packets += 1
    if scan.first_frame is None:
        scan.first_frame = _first_of(video.decode(packet))
    if packet.is_discard:
        scan.is_doubtful = samples is not None
    elif samples is not None:
        samples.add(bytes(packet))
        scan.pts.append(packet.pts)
    else:
        count_shown = _SHOWN_IN_PACKET.get(codec)
        num_shown = count_shown(memoryview(packet)) if count_shown else 1
        scan.num_shown += num_shown
        scan.pts.extend([packet.pts] * num_shown)


def _drops_leading_pictures(scan: _Scan, video: OpenVideo) -> bool:
    """Tell whether pictures are shown before the first one that came out: then some of them never come.

    A stream that begins with an open group of pictures refers to a group that is not there. AVI has no times to tell.
    """
    if video.codec_name not in _REORDERING_CODECS or video.container_name == "avi" or scan.first_frame is None:
        return False
    times = [time for time in scan.pts if time is not None]
    return bool(times) and scan.first_frame.pts != min(times)


def _first_of(frames: list[VideoFrame]) -> FirstFrame | None:
    return FirstFrame.of(frames[0]) if frames else None
