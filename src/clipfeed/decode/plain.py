"""The decoder that is right by construction: read from the first packet, decode everything, keep what is wanted.

One FFmpeg thread; packet by packet in file order; on after an error; flushed at the end; stopped behind the last wanted
frame. Frames are counted as the decoder gives them out and never sorted: MPEG-4 in AVI has no usable times. Only wanted
frames are converted, each straight into its place, so beside the decoder's own there is never more than one at native
size. Nothing here seeks or guesses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from av.packet import Packet
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from clipfeed._ffmpeg import OpenVideo, open_container
from clipfeed._types import FrameArray
from clipfeed.decode.contract import DecodedFrames
from clipfeed.decode.pixels import write_picture
from clipfeed.decode.trouble import cannot_convert, check_unchanged, frame_missing, took_too_long
from clipfeed.errors import DecodeError, ProbeError
from clipfeed.records import ClipPlan, Geometry, VideoRecord
from clipfeed.storage import local_path

__all__ = ["Clipwork", "PlainDecoder", "opened"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipwork:
    """A clip in the making.

    Attributes:
        plan: Which frames of which video.
        geometry: Size, turn, channels and filter.
        place_of: Where in the clip each wanted frame goes; the first place of one that is wanted several times.
        frames: (T, *geometry.turned_size, C) uint8 to write into.
        is_damaged: (T,) bool, to be set for each damaged frame.
        deadline: By when it must be done, of `time.monotonic`.
    """

    plan: ClipPlan
    geometry: Geometry
    place_of: Mapping[int, int]
    frames: FrameArray
    is_damaged: NDArray[np.bool_]
    deadline: float


class PlainDecoder:
    """Decodes sequentially from the start of the file.

    May be called from many threads at once; each keeps one reformatter, which is all that outlives a clip. Pickles.

    Args:
        timeout_seconds: Longest time for one clip, looked at between packets (the longest packet seen, of a 3840 x 2160
            video, took 0.05 s).

    Raises:
        ValueError: If `timeout_seconds` is not above 0.
    """

    def __init__(self, *, timeout_seconds: float = 60.0) -> None:
        if not timeout_seconds > 0:
            raise ValueError(f"timeout_seconds={timeout_seconds!r}: expected a number of seconds above 0")
        self.timeout_seconds = timeout_seconds
        self._of_thread = threading.local()

    def __repr__(self) -> str:
        return f"PlainDecoder(timeout_seconds={self.timeout_seconds!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"timeout_seconds": self.timeout_seconds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.timeout_seconds = state["timeout_seconds"]
        self._of_thread = threading.local()

    def decode(self, plan: ClipPlan, geometry: Geometry, *, out: FrameArray | None = None) -> DecodedFrames:
        """Give exactly the frames of the plan (see `Decoder.decode`)."""
        if out is None:
            out = np.empty((len(plan.frame_indices), *geometry.turned_size, geometry.num_channels), np.uint8)
        check_unchanged(plan.record)
        # Each frame is decoded once, into the first place that asks for it; the others copy from there.
        indices = plan.frame_indices.tolist()
        place_of: dict[int, int] = {}
        for place, index in enumerate(indices):
            place_of.setdefault(index, place)
        is_damaged = np.zeros(len(indices), np.bool_)
        deadline = time.monotonic() + self.timeout_seconds
        self._fill(
            Clipwork(
                plan=plan, geometry=geometry, place_of=place_of, frames=out, is_damaged=is_damaged, deadline=deadline
            )
        )
        for place, index in enumerate(indices):
            if place_of[index] != place:
                out[place], is_damaged[place] = out[place_of[index]], is_damaged[place_of[index]]
        return DecodedFrames(frames=out, num_corrupt=int(np.count_nonzero(is_damaged)))

    def _fill(self, work: Clipwork) -> None:
        """Write each wanted frame into its place, and mark the damaged ones."""
        plan, place_of, reformatter = work.plan, work.place_of, self._reformatter()
        last, num_shown = max(place_of), 0
        with opened(plan.record) as video:
            try:
                for frame, frame_is_damaged in _shown_frames(video, work.deadline):
                    place = place_of.get(num_shown)
                    if place is not None:
                        write_picture(frame, work.geometry, reformatter, work.frames[place])
                        work.is_damaged[place] = frame_is_damaged
                        if num_shown == last:
                            return
                    num_shown += 1
            except av.FFmpegError as error:
                raise cannot_convert(plan, frame.format.name, error, num_shown=num_shown) from error
            except TimeoutError as error:
                raise took_too_long(plan, self.timeout_seconds, num_shown=num_shown) from error
        raise frame_missing(plan, num_shown=num_shown)

    def _reformatter(self) -> VideoReformatter:
        mine: VideoReformatter | None = getattr(self._of_thread, "reformatter", None)
        if mine is None:
            mine = self._of_thread.reformatter = VideoReformatter()
        return mine


@contextmanager
def opened(record: VideoRecord) -> Iterator[OpenVideo]:
    """Open a video that was readable when it was indexed."""
    try:
        with open_container(local_path(record.root, record.key), path=record.path) as video:
            yield video
    except ProbeError as error:
        raise DecodeError(error.problem, path=record.path, stage="decode", remedy=error.remedy) from error


def _shown_frames(video: OpenVideo, deadline: float) -> Iterator[tuple[av.VideoFrame, bool]]:
    """Give every frame the decoder shows, in its order, and whether it is damaged.

    FFmpeg flags a damaged frame but not those that are built on it, so the mark stays until the next key frame.

    Raises:
        TimeoutError: If `deadline` (of `time.monotonic`) has passed.
    """
    is_damaged = False
    for packet in _packets_and_end(video):
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            frames = video.decode(packet)
        except DecodeError:
            is_damaged = True
            continue
        for frame in frames:
            if frame.is_corrupt:
                is_damaged = True
            elif is_damaged and frame.key_frame:
                is_damaged = False
            yield frame, is_damaged


def _packets_and_end(video: OpenVideo) -> Iterator[Packet[av.VideoStream] | None]:
    """Give the packets, then None: the decoder still holds frames, also where the rest of the file cannot be read."""
    with suppress(DecodeError):
        yield from video.packets()
    yield None
