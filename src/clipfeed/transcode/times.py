"""When each frame of a result is shown: when it was shown in the source, so that sampling by time finds the same.

Frames at a constant rate are counted in units of one frame, others keep their pts. Nothing here opens a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.errors import DecodeError
from clipfeed.records import VideoInfo
from clipfeed.timing import ConstantTimes, VariableTimes, times_of

__all__ = ["ResultTimes", "differing_times", "result_times"]

_MAX_INT32 = 2**31 - 1  # FFmpeg's AVRational, and the time scale of an MP4
_RATE_OF_THE_UNTIMED = Fraction(25)  # what FFmpeg takes for raw streams, which say nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTimes:
    """When the frames of a result are shown.

    Attributes:
        pts: (n,) int64, rising, the first one 0.
        durations: (n,) int64, for how long.
        time_base: Seconds of one unit.
        fps: Frames a second, on average.
        remark: What is not as in the source, or "".
    """

    pts: IndexArray = field(repr=False)
    durations: IndexArray = field(repr=False)
    time_base: Fraction
    fps: Fraction
    remark: str = ""


def result_times(info: VideoInfo, path: str) -> ResultTimes:
    """Give the times of a result.

    Frames that share one time are set apart by less than a unit of the source's time base, the last of them staying:
    no container of ours shows two frames at once, and at that time the last one is shown.

    Args:
        info: What is known of the source, at least one frame.
        path: The source, for the message.

    Raises:
        DecodeError: An MP4 cannot hold these times.
    """
    times = times_of(info)
    if isinstance(times, ConstantTimes):
        fps, remark = times.fps or _RATE_OF_THE_UNTIMED, ""
        if times.fps is None:
            remark = f"no frame rate; the result has {_RATE_OF_THE_UNTIMED} frames a second"
        pts, end, time_base = np.arange(info.num_frames, dtype=np.int64), info.num_frames, 1 / fps
    else:
        pts, end, time_base, remark = _set_apart(times)
        fps = info.average_fps or info.num_frames / (end * time_base)
    durations = np.diff(np.append(pts, end))
    largest = max(time_base.numerator, time_base.denominator, int(durations.max()))
    if largest > _MAX_INT32:
        raise DecodeError(f"an MP4 cannot hold its times, in units of {time_base} s", path=path, stage="transcode")
    return ResultTimes(
        pts=pts, durations=durations, time_base=time_base, fps=fps.limit_denominator(1_000_000), remark=remark
    )


def _set_apart(times: VariableTimes) -> tuple[IndexArray, int, Fraction, str]:
    """Give rising pts from 0 on, their end, their time base, and a remark."""
    pts = times.pts - times.pts[0]
    end = int(times.end_pts - times.pts[0])
    is_last = np.append(pts[1:] > pts[:-1], True)  # of those that share its time
    behind = np.flatnonzero(is_last)[np.cumsum(is_last) - is_last] - np.arange(len(pts))  # frames to the last of them
    finer = 1 << int(behind.max()).bit_length()
    pts, end = pts * finer - behind, end * finer
    remark = "its last frames share one time; the result ends sooner, by one frame at most" if behind[-2:].any() else ""
    return pts - pts[0], end - int(pts[0]), times.time_base / finer, remark


def differing_times(source: VideoInfo, result: VideoInfo) -> str:
    """Say in what the times of a result differ from its source's, as sampling sees both; "" for nothing.

    Args:
        source: What is known of the source.
        result: What probing found of the result, as many frames.
    """
    mine, theirs = times_of(source), times_of(result)
    if isinstance(mine, ConstantTimes) and isinstance(theirs, ConstantTimes):
        is_same = mine.fps is None or mine.fps == theirs.fps
        return "" if is_same else f"{theirs.fps} frames a second where the source has {mine.fps}"
    if isinstance(mine, ConstantTimes) or isinstance(theirs, ConstantTimes):
        kinds = ["an even" if isinstance(times, ConstantTimes) else "an uneven" for times in (theirs, mine)]
        return f"{kinds[0]} frame rate where the source has {kinds[1]}"
    numbers = range(mine.num_frames)
    off = [abs(a - b) for a, b in zip(mine.seconds_at(numbers), theirs.seconds_at(numbers), strict=True)]
    has_ties = bool(np.any(mine.pts[1:] == mine.pts[:-1]))
    furthest = max(range(len(off)), key=off.__getitem__)
    allowed = mine.time_base if has_ties else Fraction(0)
    return "" if off[furthest] <= allowed else f"frame {furthest} is shown {float(off[furthest]):g} s off"
