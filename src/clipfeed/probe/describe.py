"""A tier's answer and an open video's facts -> VideoInfo."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias, cast

from clipfeed._ffmpeg import OpenVideo
from clipfeed.probe.counted import Counted
from clipfeed.probe.times import average_rate, is_evenly_spaced
from clipfeed.records import VideoInfo

__all__ = ["Tier", "describe_video"]

Tier: TypeAlias = Literal["table", "packets", "decode"]


def describe_video(video: OpenVideo, tier: Tier, counted: Counted) -> VideoInfo:
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
    stated = (stream.average_rate,) if pts is None else (stream.average_rate, stream.base_rate)
    aspect = stream.sample_aspect_ratio
    return VideoInfo(
        container=video.container_name,
        codec=video.codec_name,
        stream_index=stream.index,
        width=first.width if first else stream.codec_context.width,
        height=first.height if first else stream.codec_context.height,
        rotation=_quarter_turn(first.degrees) if first else 0,
        sample_aspect_ratio=aspect if aspect and aspect.numerator > 0 else Fraction(1),
        average_fps=average_rate(stated, pts, time_base),
        time_base=time_base,
        is_variable_rate=is_variable,
        num_frames_from_header=stream.frames or None,
        num_frames_from_table=counted.num_frames if tier == "table" else None,
        num_frames_from_packets=counted.num_frames if tier == "packets" else None,
        num_frames_from_decode=counted.num_frames if tier == "decode" else None,
        key_frames=counted.key_frames,
        frame_pts=pts if is_variable else None,
    )


def _quarter_turn(degrees: int) -> Literal[0, 90, 180, 270]:
    """Give the nearest multiple of 90 degrees, counter-clockwise; FFmpeg gives -180 to 180, rounded down."""
    return cast("Literal[0, 90, 180, 270]", round(degrees / 90) * 90 % 360)
