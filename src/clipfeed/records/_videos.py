"""A video on its way from a file name to a row of the index."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np

from clipfeed._types import IndexArray, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A video, or one clip of it, that could not be used.

    Attributes:
        path: The file as the user would name it.
        stage: The step that failed.
        reason: Why, in one or a few lines.
    """

    path: str
    stage: Stage
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundVideo:
    """A file that looks like a video, not opened yet.

    Attributes:
        key: Relative POSIX path below the root; the video's identity.
        class_name: First folder below the root (or part); None where labels are not inferred from folders.
        part: "train", "val" or "test" where such folders stand above the classes, else None.
        size_bytes: Size of the file.
        mtime_ns: Time of last change, nanoseconds since the epoch.
    """

    key: str
    class_name: str | None
    part: Literal["train", "val", "test"] | None = None
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoInfo:
    """What is known of one video without keeping it open.

    The number of showable frames carries its provenance: a counting decode is believed before a packet scan, a packet
    scan before the container's sample table, and the header never.

    Attributes:
        container: FFmpeg's short name of the container, such as "avi", "mov", "matroska".
        codec: FFmpeg's name of the codec, such as "mpeg4", "h264".
        stream_index: The one chosen (best) video stream.
        width: Columns of a decoded frame, pixels, before rotation.
        height: Rows of a decoded frame, pixels, before rotation.
        rotation: Counter-clockwise turn in degrees that makes a decoded frame upright: 0, 90, 180 or 270.
        sample_aspect_ratio: Width of a pixel over its height; 1 where the file says nothing.
        average_fps: Average frames a second; None where unknown. Not to be trusted for variable rate.
        time_base: Seconds of one unit of pts.
        is_variable_rate: True where frames are not evenly spaced in time.
        num_frames_from_header: What the header claims; None where it claims nothing.
        num_frames_from_table: Showable frames by the container's sample table, or None if that tier did not answer.
        num_frames_from_packets: Showable frames by a packet scan, or None.
        num_frames_from_decode: Frames that a counting decode gave, or None.
        key_frames: (k,) int64, positions of key packets among the stream's packets, in decoding order.
        frame_pts: (num_frames,) int64, pts of each frame in presentation order, only for variable rate; else None.
    """

    container: str
    codec: str
    stream_index: int
    width: int
    height: int
    rotation: Literal[0, 90, 180, 270] = 0
    sample_aspect_ratio: Fraction = Fraction(1)
    average_fps: Fraction | None = None
    time_base: Fraction = Fraction(1)
    is_variable_rate: bool = False
    num_frames_from_header: int | None = None
    num_frames_from_table: int | None = None
    num_frames_from_packets: int | None = None
    num_frames_from_decode: int | None = None
    key_frames: IndexArray = field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    frame_pts: IndexArray | None = field(default=None, compare=False)

    @property
    def num_frames(self) -> int:
        """Exact number of showable frames: from decode, else from packets, else from the table."""
        for count in (self.num_frames_from_decode, self.num_frames_from_packets, self.num_frames_from_table):
            if count is not None:
                return count
        return 0

    @property
    def display_size(self) -> tuple[int, int]:
        """(height, width) in square pixels of the upright picture: aspect ratio and rotation applied."""
        width = max(1, round(self.width * self.sample_aspect_ratio))
        return (width, self.height) if self.rotation in (90, 270) else (self.height, width)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoRecord:
    """One row of the index: a source of examples.

    Attributes:
        row: Row id in the store, stable while the video stays in the index.
        root: The data set's folder, as the user gave it.
        key: Relative POSIX path below `root`.
        video_id: 64-bit hash of `key`; the video's identity in all randomness.
        class_name: Text of the label, or None.
        label: Integer label, a vector of floats for several labels, or None without labels.
        group: What must stay on one side of a split.
        weight: Weight of each example made of this row.
        start: First frame of the interval [start, end) that examples come from.
        end: End of that interval; None for the end of the video.
        size_bytes: Size of the file when it was indexed.
        mtime_ns: Time of last change when it was indexed.
        info: What probing found.
    """

    row: int
    root: str
    key: str
    video_id: int
    class_name: str | None = None
    label: int | tuple[float, ...] | None = None
    group: str = ""
    weight: float = 1.0
    start: int = 0
    end: int | None = None
    size_bytes: int
    mtime_ns: int
    info: VideoInfo

    @property
    def path(self) -> str:
        """The root as the user gave it, joined with the key."""
        return join_key(self.root, self.key)

    @property
    def num_frames(self) -> int:
        """Frames in the interval [start, end)."""
        end = self.info.num_frames if self.end is None else min(self.end, self.info.num_frames)
        return max(0, end - self.start)


def join_key(root: str, key: str) -> str:
    """Join a root as the user gave it with a relative POSIX key."""
    return f"{root.rstrip('/') or '/'}/{key}" if root not in ("/", "") else f"{root}{key}"
