"""The decoder that is right by construction: read from the first packet, decode everything, keep what is wanted.

One FFmpeg thread; packet by packet in file order; on after an error; flushed at the end; stopped behind the last wanted
frame. Frames are counted as the decoder gives them out and never sorted: MPEG-4 in AVI has no usable times. Only wanted
frames are converted, each straight into its place, so beside the decoder's own there is never more than one at native
size. Nothing here seeks or guesses.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import av
import numpy as np
from av.packet import Packet
from av.video.reformatter import VideoReformatter

from clipfeed._ffmpeg import OpenVideo
from clipfeed._types import FrameArray
from clipfeed.decode.contract import DecodedFrames
from clipfeed.decode.pixels import write_picture
from clipfeed.decode.trouble import cannot_convert, check_unchanged, frame_missing, took_too_long
from clipfeed.decode.work import Clipwork, Deadline, Packets, opened
from clipfeed.errors import DecodeError
from clipfeed.records import ClipPlan, Geometry

__all__ = ["PlainDecoder"]


class PlainDecoder:
    """Decodes sequentially from the start of the file.

    May be called from many threads at once; each keeps one reformatter, which is all that outlives a clip. Pickles.

    Args:
        timeout_seconds: Longest time for one clip, or one chunk of a long one, looked at between packets (the longest
            packet seen, of a 3840 x 2160 video, took 0.05 s).

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
        self._fill(
            Clipwork(
                plan=plan,
                geometry=geometry,
                place_of=place_of,
                frames=out,
                is_damaged=is_damaged,
                deadline=Deadline(self.timeout_seconds),
            )
        )
        for place, index in enumerate(indices):
            if place_of[index] != place:
                out[place], is_damaged[place] = out[place_of[index]], is_damaged[place_of[index]]
        return DecodedFrames(frames=out, is_damaged=is_damaged)

    def decode_chunks(self, plan: ClipPlan, geometry: Geometry, *, frames_at_once: int = 32) -> Iterator[DecodedFrames]:
        """Give the frames of the plan in chunks, from one pass (see `Decoder.decode_chunks`).

        Memory is bounded by one chunk. The time limit counts anew for each; time between two chunks is not counted.
        """
        if frames_at_once < 1:
            raise ValueError(f"frames_at_once={frames_at_once!r}: expected at least 1")
        return self._chunks(plan, geometry, frames_at_once)

    def _chunks(self, plan: ClipPlan, geometry: Geometry, frames_at_once: int) -> Iterator[DecodedFrames]:
        check_unchanged(plan.record)
        indices = set(plan.frame_indices.tolist())
        size, num_left, num_had = min(frames_at_once, len(indices)), len(indices), 0
        frames = np.empty((size, *geometry.turned_size, geometry.num_channels), np.uint8)
        is_damaged = np.zeros(size, np.bool_)
        # Not the thread's reformatter: a chunk may be asked for by another thread than the one before.
        reformatter, deadline = VideoReformatter(), Deadline(self.timeout_seconds)
        with opened(plan.record) as video:
            wanted_frames = self._wanted_frames(plan, indices, video, video.packets(), deadline)
            for index, frame, frame_is_damaged in wanted_frames:
                _write(frame, plan, geometry, reformatter, frames[num_had], index=index)
                is_damaged[num_had] = frame_is_damaged
                num_had, num_left = num_had + 1, num_left - 1
                if num_had == size or not num_left:
                    yield DecodedFrames(frames=frames[:num_had], is_damaged=is_damaged[:num_had].copy())
                    num_had = 0
                    deadline.restart()

    def _fill(self, work: Clipwork) -> None:
        """Write each wanted frame into its place, and mark the damaged ones."""
        with opened(work.plan.record) as video:
            self._fill_from(work, video, video.packets())

    def _fill_from(self, work: Clipwork, video: OpenVideo, packets: Packets) -> None:
        """The same from the packets of a video whose decoder is fresh."""
        plan, reformatter = work.plan, self._reformatter()
        for index, frame, is_damaged in self._wanted_frames(plan, work.place_of, video, packets, work.deadline):
            place = work.place_of[index]
            _write(frame, plan, work.geometry, reformatter, work.frames[place], index=index)
            work.is_damaged[place] = is_damaged

    def _wanted_frames(
        self, plan: ClipPlan, wanted: Collection[int], video: OpenVideo, packets: Packets, deadline: Deadline
    ) -> Iterator[tuple[int, av.VideoFrame, bool]]:
        """Give the wanted frames, each with its index and whether it is damaged; read no further than the last."""
        last, num_shown = max(wanted), 0
        try:
            for frame, is_damaged in _shown_frames(video, packets, deadline):
                if num_shown in wanted:
                    yield num_shown, frame, is_damaged
                    if num_shown == last:
                        return
                num_shown += 1
        except TimeoutError as error:
            raise took_too_long(plan, self.timeout_seconds, num_shown=num_shown) from error
        raise frame_missing(plan, num_shown=num_shown)

    def _reformatter(self) -> VideoReformatter:
        mine: VideoReformatter | None = getattr(self._of_thread, "reformatter", None)
        if mine is None:
            mine = self._of_thread.reformatter = VideoReformatter()
        return mine


def _write(
    frame: av.VideoFrame,
    plan: ClipPlan,
    geometry: Geometry,
    reformatter: VideoReformatter,
    out: FrameArray,
    *,
    index: int,
) -> None:
    """Write a frame into its place; say which one it is where FFmpeg cannot convert it."""
    try:
        write_picture(frame, geometry, reformatter, out)
    except av.FFmpegError as error:
        raise cannot_convert(plan, frame.format.name, error, num_shown=index) from error


def _shown_frames(video: OpenVideo, packets: Packets, deadline: Deadline) -> Iterator[tuple[av.VideoFrame, bool]]:
    """Give every frame the decoder shows, in its order, and whether it is damaged.

    FFmpeg flags a damaged frame but not those that are built on it, so the mark stays until the next key frame.

    Raises:
        TimeoutError: If the deadline has passed.
    """
    is_damaged = False
    for packet in _packets_and_end(packets):
        deadline.check()
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


def _packets_and_end(packets: Packets) -> Iterator[Packet[av.VideoStream] | None]:
    """Give the packets, then None: the decoder still holds frames, also where the rest of the file cannot be read."""
    with suppress(DecodeError):
        yield from packets
    yield None
