"""Tier 3: decode everything and count. This is the truth that the other tiers are held against.

Packet by packet, on after an error, flushed at the end, in the decoder's output order; nothing is converted to RGB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from clipfeed._ffmpeg import OpenVideo
from clipfeed.errors import DecodeError
from clipfeed.probe.counted import Counted, Deadline, FirstFrame

__all__ = ["Decoded", "decode_all"]


@dataclass(slots=True, kw_only=True)
class Decoded:
    """All that a counting decode saw.

    Attributes:
        num_packets: Packets with bytes that the container gave.
        num_frames: Frames that came out.
        num_corrupt: Frames that the decoder flagged as damaged.
        num_errors: Packets that the decoder refused.
        is_cut_off: True where the container could not be read to its end.
        is_encrypted: True where packets are.
        sizes: (height, width) of the frames, one entry for every change.
        key_frames: Positions of key packets among the packets.
        pts: Time of each frame in units of the stream's time base, as the decoder gives them.
        first_frame: The first frame.
    """

    num_packets: int = 0
    num_frames: int = 0
    num_corrupt: int = 0
    num_errors: int = 0
    is_cut_off: bool = False
    is_encrypted: bool = False
    sizes: list[tuple[int, int]] = field(default_factory=list)
    key_frames: list[int] = field(default_factory=list)
    pts: list[int | None] = field(default_factory=list)
    first_frame: FirstFrame | None = None

    def counted(self) -> Counted:
        """Give it as a tier's answer."""
        known = [time for time in self.pts if time is not None]
        # A frame cannot be shown before the one it follows: where times fall, the frame is as late as that one.
        pts = np.maximum.accumulate(np.array(known, np.int64)) if len(known) == self.num_frames > 0 else None
        return Counted(
            num_frames=self.num_frames,
            key_frames=np.array(self.key_frames, np.int64),
            pts=pts,
            first_frame=self.first_frame,
        )


def decode_all(video: OpenVideo, deadline: Deadline) -> Decoded:
    """Decode a video from its first packet to its last.

    Args:
        video: A video of which no packet has been read.
        deadline: When to give up.

    Raises:
        ProbeError: The deadline has passed.
    """
    seen = Decoded()
    for packet in _packets_then_flush(video, seen):
        deadline.check()
        try:
            frames = video.decode(packet)
        except DecodeError:
            seen.num_errors += 1
            continue
        for frame in frames:
            _take_frame(seen, frame)
    return seen


def _packets_then_flush(video: OpenVideo, seen: Decoded) -> Iterator[Packet[VideoStream] | None]:
    """Give every packet, then None, also where the container breaks off."""
    try:
        for packet in video.packets():
            if packet.is_keyframe:
                seen.key_frames.append(seen.num_packets)
            if seen.num_packets == 0:
                seen.is_encrypted = packet.has_sidedata("encryption_info")
            seen.num_packets += 1
            yield packet
    except DecodeError:
        seen.is_cut_off = True
    yield None


def _take_frame(seen: Decoded, frame: VideoFrame) -> None:
    if seen.first_frame is None:
        seen.first_frame = FirstFrame.of(frame)
    size = (frame.height, frame.width)
    if not seen.sizes or seen.sizes[-1] != size:
        seen.sizes.append(size)
    seen.num_frames += 1
    seen.num_corrupt += frame.is_corrupt
    seen.pts.append(frame.pts)
