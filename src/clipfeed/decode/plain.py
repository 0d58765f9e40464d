"""The decoder that is right by construction: read from the first packet, decode everything, keep what is wanted.

One FFmpeg thread; packet by packet in file order; on after an error; flushed at the end; stopped behind the last wanted
frame. Frames are counted as the decoder gives them out and never sorted: MPEG-4 in AVI has no usable times. Only wanted
frames are converted, each straight into its place, so beside the decoder's own there is never more than one at native
size. Nothing here seeks or guesses.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from clipfeed._ffmpeg import open_container
from clipfeed._types import FrameArray
from clipfeed.decode.contract import DecodedFrames
from clipfeed.decode.pixels import write_picture
from clipfeed.decode.trouble import check_unchanged, frame_missing, took_too_long
from clipfeed.records import ClipPlan, Geometry
from clipfeed.storage import local_path

__all__ = ["PlainDecoder"]


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
        wanted, first, which = np.unique(plan.frame_indices, return_index=True, return_inverse=True)
        is_damaged = np.zeros(len(out), np.bool_)
        self._fill(plan, geometry, dict(zip(wanted.tolist(), first.tolist(), strict=True)), out, is_damaged)
        sources = first[which]
        for place in np.flatnonzero(sources != np.arange(len(out))).tolist():
            out[place] = out[sources[place]]
        return DecodedFrames(frames=out, num_corrupt=int(np.count_nonzero(is_damaged[sources])))

    def _fill(
        self,
        plan: ClipPlan,
        geometry: Geometry,
        place_of: dict[int, int],
        out: FrameArray,
        is_damaged: NDArray[np.bool_],
    ) -> None:
        """Write each wanted frame into its place, and mark the damaged ones."""
        last = max(place_of)
        num_shown = 0
        deadline = time.monotonic() + self.timeout_seconds
        reformatter = self._reformatter()
        with open_container(local_path(plan.record.root, plan.record.key), path=plan.record.path) as video:
            try:
                for frame, frame_is_damaged in _shown_frames(video, deadline):
                    place = place_of.get(num_shown)
                    if place is not None:
                        write_picture(frame, geometry, reformatter, out[place])
                        is_damaged[place] = frame_is_damaged
                        if num_shown == last:
                            return
                    num_shown += 1
            except TimeoutError as error:
                raise took_too_long(plan, self.timeout_seconds, num_shown=num_shown) from error
        raise frame_missing(plan, num_shown=num_shown)

    def _reformatter(self) -> VideoReformatter:
        if not hasattr(self._of_thread, "reformatter"):
            self._of_thread.reformatter = VideoReformatter()
        return self._of_thread.reformatter


def _shown_frames(video: OpenVideo, deadline: float) -> Iterator[tuple[av.VideoFrame, bool]]:
    """Give every frame the decoder shows, in its order, with whether it is damaged.

    FFmpeg flags a damaged frame but not those that are built on it, so the mark stays until the next key frame.

    Raises:
        TimeoutError: If `deadline` (of `time.monotonic`) has passed.
    """
    is_damaged = False
    for packet in _packets(video):
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            frames = video.stream.codec_context.decode(packet)
        except av.FFmpegError:
            is_damaged = True
            continue
        for frame in frames:
            if frame.is_corrupt:
                is_damaged = True
            elif is_damaged and frame.key_frame:
                is_damaged = False
            yield frame, is_damaged


def _packets(video: OpenVideo) -> Iterator[av.Packet | None]:
    """Give the stream's packets, and None at the end, be it the end of the file or an error of the demuxer."""
    try:
        for packet in video.container.demux(video.stream):
            if packet.size:
                yield packet
    except av.FFmpegError:
        pass
    yield None
