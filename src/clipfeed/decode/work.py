"""What every way of decoding shares: the clip in the making, its time limit, the open file.

Nothing here decodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from av.packet import Packet
from av.video.stream import VideoStream
from numpy.typing import NDArray

from clipfeed._ffmpeg import OpenVideo, open_container
from clipfeed._types import FrameArray
from clipfeed.errors import DecodeError, ProbeError
from clipfeed.records import ClipPlan, Geometry, VideoRecord
from clipfeed.storage import local_path

__all__ = ["Clipwork", "Deadline", "Packets", "opened"]

Packets: TypeAlias = "Iterator[Packet[VideoStream]]"
"""The packets of one stream, in file order; a `DecodeError` where the container cannot be read any further."""


class Deadline:
    """Raises once decoding has taken too long; looked at between packets.

    Args:
        seconds: Time allowed from now on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Allow the same time again, from now on."""
        self._end = time.monotonic() + self._seconds

    def check(self) -> None:
        """Do nothing while there is time left.

        Raises:
            TimeoutError: The time is over.
        """
        if time.monotonic() > self._end:
            raise TimeoutError


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipwork:
    """A clip in the making.

    Attributes:
        plan: Which frames of which video.
        geometry: Size, turn, channels and filter.
        place_of: Where in the clip each wanted frame goes; the first place of one that is wanted several times.
        frames: (T, *geometry.turned_size, C) uint8 to write into.
        is_damaged: (T,) bool, to be set for each damaged frame.
        deadline: By when it must be done.
    """

    plan: ClipPlan
    geometry: Geometry
    place_of: Mapping[int, int]
    frames: FrameArray
    is_damaged: NDArray[np.bool_]
    deadline: Deadline


@contextmanager
def opened(record: VideoRecord, open_video: Callable[..., OpenVideo] = open_container) -> Iterator[OpenVideo]:
    """Open a video that was readable when it was indexed, in the usual way or in another one."""
    try:
        with open_video(local_path(record.root, record.key), path=record.path) as video:
            yield video
    except ProbeError as error:
        raise DecodeError(error.problem, path=record.path, stage="decode", remedy=error.remedy) from error
