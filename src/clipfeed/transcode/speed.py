"""How fast clips are decoded from sources and from results, with the decoder that datasets use.

Measured on some of the videos, in one thread, sources and results in turn, all of them read before: what the disk takes
is left out. Figures are of this machine and of one kind of clip.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from clipfeed.decode import Decoder, make_decoder
from clipfeed.errors import ClipfeedError
from clipfeed.load import load_clip
from clipfeed.records import ClipSpec, VideoRecord
from clipfeed.sample import plan_clip

__all__ = ["DecodingSpeed", "measure_speed"]

_SPEC = ClipSpec(short_videos="repeat_last")
_NUM_ROUNDS = 3
_SECONDS = 5.0  # no further video is measured after that


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSpeed:
    """Clips a second in one thread, before and after.

    Attributes:
        num_videos: Videos that were measured.
        clips: What a clip looked like.
        clips_per_second_before: From the sources.
        clips_per_second_after: From the results.
    """

    num_videos: int
    clips: ClipSpec
    clips_per_second_before: float
    clips_per_second_after: float

    @property
    def gain(self) -> float:
        """How many times as fast results are."""
        return self.clips_per_second_after / self.clips_per_second_before

    def __str__(self) -> str:
        height, width = self.clips.size
        return (
            f"{self.clips_per_second_before:.1f} -> {self.clips_per_second_after:.1f} clips/s ({self.gain:.2f} x), "
            f"measured on {self.num_videos} of the videos: {self.clips.num_frames} frames over the whole video, "
            f"{height} x {width}, by the decoder of datasets, in one thread"
        )


def measure_speed(pairs: Sequence[tuple[VideoRecord, VideoRecord]]) -> DecodingSpeed | None:
    """Compare videos with what was made of them.

    Args:
        pairs: Sources and their results.

    Returns:
        The figures, or None where no clip could be had.
    """
    decoder, began = make_decoder(), time.monotonic()
    seconds: list[tuple[float, float]] = []
    for pair in pairs:
        if seconds and time.monotonic() - began > _SECONDS:
            break
        try:
            rounds = [[_seconds_of_clip(record, decoder) for record in pair] for _ in range(_NUM_ROUNDS + 1)][1:]
        except ClipfeedError:
            continue  # a damaged source, which its remark tells
        before, after = (statistics.median(times) for times in zip(*rounds, strict=True))
        seconds.append((before, after))
    if not seconds:
        return None
    before, after = (sum(times) for times in zip(*seconds, strict=True))
    return DecodingSpeed(
        num_videos=len(seconds),
        clips=_SPEC,
        clips_per_second_before=len(seconds) / before,
        clips_per_second_after=len(seconds) / after,
    )


def _seconds_of_clip(record: VideoRecord, decoder: Decoder) -> float:
    began = time.perf_counter()
    load_clip(plan_clip(record, _SPEC), _SPEC, decoder)
    return time.perf_counter() - began
