"""What each of the three tiers hands to `probe_video`, and the clock that ends a file without end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

from av.video.frame import VideoFrame

from clipfeed._types import IndexArray
from clipfeed.errors import ProbeError

__all__ = ["Counted", "Deadline", "FirstFrame"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFrame:
    """What a decoded frame says of all of them.

    Attributes:
        width: Columns, pixels.
        height: Rows, pixels.
        degrees: Counter-clockwise turn that makes it upright, as the container or the codec says.
        pts: Its time in units of the stream's time base, or None.
    """

    width: int
    height: int
    degrees: int
    pts: int | None

    @classmethod
    def of(cls, frame: VideoFrame) -> Self:
        """Describe a decoded frame."""
        return cls(width=frame.width, height=frame.height, degrees=frame.rotation, pts=frame.pts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A tier's answer.

    Attributes:
        num_frames: Frames shown.
        key_frames: (k,) int64, positions of key packets among the stream's packets, in decoding order.
        pts: (num_frames,) int64, when each frame is shown, never falling, in units of the stream's time base; None
            where not all are known, or evenly spaced for certain.
        first_frame: The first frame, where one was decoded.
    """

    num_frames: int
    key_frames: IndexArray
    pts: IndexArray | None = None
    first_frame: FirstFrame | None = None


class Deadline:
    """Raises once a file has taken too long; looked at between packets.

    Args:
        seconds: Time allowed from now on.
        path: The file, for the message.
    """

    def __init__(self, seconds: float, *, path: str) -> None:
        self._seconds = seconds
        self._path = path
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """Do nothing while there is time left.

        Raises:
            ProbeError: The time is over.
        """
        if time.monotonic() > self._end:
            raise ProbeError(
                f"not counted to its end within {self._seconds:g} s",
                path=self._path,
                stage="probe",
                remedy="cut it into shorter videos, or see whether another program is still writing it",
            )
