"""All arithmetic between pts, seconds and frame numbers.

Exact: seconds are `Fraction`, pts and frame numbers are integers, floats never take part. Nothing here opens a file or
knows how a policy chooses; `sample` asks which frame is shown when, and nobody else divides by a frame rate.

    pts         100   103   106   112   118      end_pts 124, time_base 1/30
    seconds       0    .1    .2    .4    .6      end .8
    shown at .5 s             └─ frame 3 (the latest frame that has begun)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

import numpy as np

from clipfeed._types import IndexArray

__all__ = [
    "ConstantTimes",
    "Extension",
    "Rate",
    "TimedVideo",
    "VariableTimes",
    "fold_frames",
    "parse_rate",
    "pts_at",
    "seconds_of",
    "times_of",
]

Extension: TypeAlias = Literal["repeat_last", "wrap"]
"""How a list of frames goes on after its end: its last frame again and again, or the list from its start."""

Rate: TypeAlias = int | float | Fraction | str
"""Frames a second as a user writes them: 8, 29.97, Fraction(30000, 1001) or "30000/1001"."""


# From a frame in eleven days to the fastest cameras. A rate beyond has its decimal point in the wrong place, and would
# only show much later: as no video that is long enough, or as clips that show one frame again and again.
_SLOWEST, _FASTEST = Fraction(1, 1_000_000), Fraction(1_000_000)


class TimedVideo(Protocol):
    """The facts about time that a probe leaves, as `records.VideoInfo` has them."""

    @property
    def num_frames(self) -> int:
        """Showable frames."""

    @property
    def average_fps(self) -> Fraction | None:
        """Average frames a second; None where unknown."""

    @property
    def time_base(self) -> Fraction:
        """Seconds of one unit of pts."""

    @property
    def frame_pts(self) -> IndexArray | None:
        """(num_frames,) int64 pts of each frame for variable rate, else None."""


def parse_rate(fps: Rate) -> Fraction:
    """Give a rate as an exact fraction; a float means the decimal number it is written as (29.97 is 2997/100).

    Args:
        fps: Frames a second, from a millionth to a million.

    Raises:
        ValueError: For what is no such number.
    """
    try:
        rate = fps if isinstance(fps, Fraction) else Fraction(str(fps))
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if isinstance(fps, bool) or not _SLOWEST <= rate <= _FASTEST:
        raise ValueError(
            f"fps={fps!r}: expected frames a second above 0, from {_SLOWEST} to {_FASTEST}, such as 8, 29.97 or "
            '"30000/1001"'
        )
    return rate


def seconds_of(pts: int, time_base: Fraction, start_pts: int = 0) -> Fraction:
    """Give the seconds from `start_pts` to `pts`, exact.

    Args:
        pts: Time in units of `time_base`.
        time_base: Seconds of one unit, above 0.
        start_pts: The pts that counts as 0 s.
    """
    return (int(pts) - int(start_pts)) * time_base


def pts_at(seconds: Fraction, time_base: Fraction, start_pts: int = 0) -> int:
    """Give the latest pts that is not after `seconds`; `seconds_of` turned round.

    Args:
        seconds: Time from `start_pts` on.
        time_base: Seconds of one unit, above 0.
        start_pts: The pts that counts as 0 s.
    """
    units = (seconds.numerator * time_base.denominator) // (seconds.denominator * time_base.numerator)
    return int(start_pts) + units


def fold_frames(frames: IndexArray, num_frames: int, extension: Extension) -> IndexArray:
    """Say which real frame stands at each place of an extended list.

    num_frames=3:   repeat_last  0 1 2 2 2 2     wrap  0 1 2 0 1 2

    Args:
        frames: (n,) int64, places in the extended list, at least 0.
        num_frames: Real frames, at least 1.
        extension: How the list goes on after its last real frame.

    Returns:
        (n,) int64 in [0, num_frames).
    """
    return frames % num_frames if extension == "wrap" else np.minimum(frames, num_frames - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantTimes:
    """Frames that are evenly spaced: frame k is shown from k / fps to (k + 1) / fps seconds.

    Attributes:
        num_frames: Number of frames, at least 0.
        fps: Frames a second, above 0; None where unknown.
    """

    num_frames: int
    fps: Fraction | None = None

    def __post_init__(self) -> None:
        if self.num_frames < 0 or (self.fps is not None and self.fps <= 0):
            raise ValueError(f"{self.num_frames} frames at {self.fps} frames a second: neither may be negative")

    @property
    def duration_seconds(self) -> Fraction | None:
        """From the first frame's time to the end of the last frame; None where the rate is unknown."""
        return None if self.fps is None else self.num_frames / self.fps

    def frames_at(self, seconds: Sequence[Fraction]) -> IndexArray:
        """Give the frame shown at each time; after the end the last one stays.

        Args:
            seconds: Times from the first frame's time on, at least 0.

        Returns:
            (len(seconds),) int64 in [0, num_frames).

        Raises:
            ValueError: If the rate is unknown, there are no frames, or a time is negative.
        """
        _check_times(seconds, self.num_frames)
        frame_seconds = 1 / self._known_fps()
        last = self.num_frames - 1
        return np.array([min(last, pts_at(time, frame_seconds)) for time in seconds], np.int64)

    def seconds_at(self, frames: Sequence[int] | IndexArray) -> list[Fraction]:
        """Give the time at which each frame begins to be shown.

        Raises:
            ValueError: If the rate is unknown.
        """
        return [int(frame) / self._known_fps() for frame in frames]

    def _known_fps(self) -> Fraction:
        if self.fps is None:
            raise ValueError("the frame rate is unknown: no frame has a time")
        return self.fps

    def sliced(self, start: int, end: int | None = None) -> ConstantTimes:
        """Give the frames [start, end), their first one at 0 s."""
        first, stop = _clipped(start, end, self.num_frames)
        return ConstantTimes(num_frames=stop - first, fps=self.fps)

    def extended(self, num_frames: int, extension: Extension) -> ConstantTimes:
        """Give a list of `num_frames` frames that goes on at the same rate."""
        return ConstantTimes(num_frames=max(self.num_frames, num_frames), fps=self.fps)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableTimes:
    """Frames that are shown from times of their own.

    Attributes:
        pts: (n,) int64, when each frame begins to be shown, not falling.
        end_pts: When the last frame ends, at least its own pts.
        time_base: Seconds of one unit of pts, above 0.
    """

    pts: IndexArray = field(repr=False)
    end_pts: int
    time_base: Fraction

    def __post_init__(self) -> None:
        if self.time_base <= 0:
            raise ValueError(f"time_base={self.time_base}: expected seconds above 0")
        if len(self.pts) and (int(self.pts[-1]) > self.end_pts or bool(np.any(self.pts[1:] < self.pts[:-1]))):
            raise ValueError("pts of frames in presentation order may not fall, and the end may not precede the last")

    @property
    def num_frames(self) -> int:
        """Number of frames."""
        return len(self.pts)

    @property
    def duration_seconds(self) -> Fraction:
        """From the first frame's time to the end of the last frame."""
        return seconds_of(self.end_pts, self.time_base, self._start_pts)

    @property
    def _start_pts(self) -> int:
        return int(self.pts[0]) if len(self.pts) else self.end_pts

    def frames_at(self, seconds: Sequence[Fraction]) -> IndexArray:
        """Give the frame shown at each time: the latest that has begun; after the end the last one stays.

        Args:
            seconds: Times from the first frame's time on, at least 0.

        Returns:
            (len(seconds),) int64 in [0, num_frames).

        Raises:
            ValueError: If there are no frames, or a time is negative.
        """
        _check_times(seconds, self.num_frames)
        ends = [min(self.end_pts, pts_at(time, self.time_base, self._start_pts)) for time in seconds]
        return np.searchsorted(self.pts, np.array(ends, np.int64), side="right").astype(np.int64) - 1

    def seconds_at(self, frames: Sequence[int] | IndexArray) -> list[Fraction]:
        """Give the time at which each frame begins to be shown."""
        return [seconds_of(int(self.pts[int(frame)]), self.time_base, self._start_pts) for frame in frames]

    def sliced(self, start: int, end: int | None = None) -> VariableTimes:
        """Give the frames [start, end), their first one at 0 s; the last ends where the next one begins."""
        first, stop = _clipped(start, end, self.num_frames)
        end_pts = self.end_pts if stop == self.num_frames else int(self.pts[stop])
        return VariableTimes(pts=self.pts[first:stop], end_pts=end_pts, time_base=self.time_base)

    def extended(self, num_frames: int, extension: Extension) -> VariableTimes:
        """Give a list of `num_frames` frames.

        "wrap": the times start over behind the end. "repeat_last": the last frame is shown on, in steps of the mean
        time of a frame (rounded up to a whole unit of pts), since a repeated frame has no time of its own.
        """
        added = np.arange(self.num_frames, num_frames, dtype=np.int64)
        if not len(added) or not self.num_frames:
            return self
        period = self.end_pts - self._start_pts
        if extension == "wrap":
            new = self.pts[added % self.num_frames] + added // self.num_frames * period
            following = int(self.pts[num_frames % self.num_frames]) + num_frames // self.num_frames * period
        else:
            step = max(1, -(-period // self.num_frames))
            new = self.end_pts + step * np.arange(len(added), dtype=np.int64)
            following = self.end_pts + step * len(added)
        return VariableTimes(pts=np.append(self.pts, new), end_pts=following, time_base=self.time_base)


def times_of(video: TimedVideo, start: int = 0, end: int | None = None) -> ConstantTimes | VariableTimes:
    """Say when the frames [start, end) of a video are shown, counted from the first of them.

    Args:
        video: What probing found. Frames with pts of their own are timed by these, others by the average rate.
        start: First frame of the interval.
        end: End of the interval; None, or one beyond the video's end, for the video's end.

    Raises:
        ValueError: If there are fewer pts than frames.
    """
    if video.frame_pts is None:
        return ConstantTimes(num_frames=video.num_frames, fps=video.average_fps).sliced(start, end)
    if len(video.frame_pts) < video.num_frames:
        raise ValueError(f"{len(video.frame_pts)} pts for {video.num_frames} frames")
    # Decoder output order is the truth, and some files' pts fall back: such a frame is shown where the last one was.
    pts = np.maximum.accumulate(video.frame_pts[: video.num_frames])
    end_pts = int(pts[-1]) + _last_duration(pts, video) if len(pts) else 0
    return VariableTimes(pts=pts, end_pts=end_pts, time_base=video.time_base).sliced(start, end)


def _last_duration(pts: IndexArray, video: TimedVideo) -> int:
    """Units of pts for which the last frame is shown: as long as the one before it, since no later pts ends it."""
    gap = int(pts[-1] - pts[-2]) if len(pts) > 1 else 0
    if gap == 0 and video.average_fps is not None:
        gap = pts_at(1 / video.average_fps, video.time_base)
    return max(1, gap)


def _clipped(start: int, end: int | None, num_frames: int) -> tuple[int, int]:
    if start < 0:
        raise ValueError(f"start={start}: expected a frame number of at least 0")
    stop = num_frames if end is None else min(end, num_frames)
    return min(start, max(stop, 0)), max(stop, 0)


def _check_times(seconds: Sequence[Fraction], num_frames: int) -> None:
    if num_frames < 1:
        raise ValueError("no frames, so none is shown at any time")
    if seconds and min(seconds) < 0:
        raise ValueError(f"{min(seconds)} s: nothing is shown before the first frame's time")
