"""Records and plans for a file, without the package's own probe or policies.

For tests of what comes after: a decoder gets a plan of any frames of any file. The facts come from PyAV directly, and
the number of frames from whoever made the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np

from clipfeed._types import Interpolation, StrPath
from clipfeed.records import ClipPlan, Geometry, VideoInfo, VideoRecord
from clipfeed.seeds import hash_key

__all__ = ["make_geometry", "make_plan", "make_record"]


def make_record(path: StrPath, *, num_frames: int) -> VideoRecord:
    """Give the index row of a file that shows `num_frames` frames; its root is the folder it lies in."""
    path = Path(path)
    with av.open(str(path), metadata_errors="replace") as video:
        stream = video.streams.best("video")
        if not isinstance(stream, av.VideoStream):
            raise ValueError(f"{path}: no video stream")
        first = next(iter(video.decode(stream)))
        info = VideoInfo(
            container=video.format.name.split(",")[0],
            codec=stream.codec_context.codec.canonical_name,
            stream_index=stream.index,
            width=first.width,
            height=first.height,
            rotation=_quarter_turn(first.rotation),
            sample_aspect_ratio=stream.sample_aspect_ratio or Fraction(1),
            average_fps=stream.average_rate,
            time_base=stream.time_base or Fraction(1),
            num_frames_from_header=stream.frames or None,
            num_frames_from_decode=num_frames,
        )
    stat = path.stat()
    return VideoRecord(
        row=0,
        root=str(path.parent),
        key=path.name,
        video_id=hash_key(path.name),
        size_bytes=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        info=info,
    )


def make_plan(record: VideoRecord, frame_indices: Sequence[int]) -> ClipPlan:
    """Give the plan of any frames, in any order; none of them counts as padding."""
    indices = np.array(frame_indices, np.int64)
    return ClipPlan(record=record, frame_indices=indices, mask=np.ones(len(indices), np.bool_))


def make_geometry(
    record: VideoRecord,
    size: tuple[int, int] | None = None,
    *,
    num_channels: Literal[1, 3] = 3,
    interpolation: Interpolation = "bilinear",
) -> Geometry:
    """Give the geometry that stretches a video to (height, width), upright; None keeps its size."""
    info = record.info
    is_on_side = info.rotation in (90, 270)
    height, width = size or ((info.width, info.height) if is_on_side else (info.height, info.width))
    return Geometry(
        scaled_height=width if is_on_side else height,
        scaled_width=height if is_on_side else width,
        rotation=info.rotation,
        height=height,
        width=width,
        num_channels=num_channels,
        interpolation=interpolation,
    )


def _quarter_turn(degrees: int) -> Literal[0, 90, 180, 270]:
    turns: tuple[Literal[0, 90, 180, 270], ...] = (0, 90, 180, 270)
    return turns[degrees // 90 % 4]
