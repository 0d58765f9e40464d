"""What a bench found out, as plain records that become JSON as they are. Nothing here measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from clipfeed.clock import Stage
from clipfeed.deliver import Format
from clipfeed.records import Failure

__all__ = ["Advice", "BenchReport", "FitWait", "MeasuredStage", "Rate", "StageTime"]

MeasuredStage: TypeAlias = Stage | Literal["deliver"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """One stage of a clip's journey, in one thread.

    Attributes:
        stage: "open" (and close), "demux", "decode", "convert" (colour and size), "assemble" (crop, border, batch),
            "deliver" (to the framework), or "rest": plans, checks, choosing packets, and calls in between.
        seconds_per_clip: Wall time.
        share: Of the whole, 0 to 1; the shares of all stages are 1 together.
    """

    stage: MeasuredStage
    seconds_per_clip: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast clips come out of the dataset itself, in batches of uint8.

    Attributes:
        name: "one thread", "all threads", "cores" (as many threads as there are usable cores, where others were asked
            for) or "cache" (a later epoch).
        workers: Threads.
        clips_per_second: Median of the passes.
        bytes_per_second: Of finished clips.
        file_bytes_per_second: Of video files worked through; 0 from a cache, which opens none.
    """

    name: str
    workers: int
    clips_per_second: float
    bytes_per_second: float
    file_bytes_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FitWait:
    """How long a real `fit` waited for its data, in its second epoch.

    Attributes:
        name: "decoding" or "cache": where the batches came from.
        format: "tf" or "keras".
        backend: Keras's backend.
        model: Name of the model.
        num_steps: Steps of the epoch.
        seconds: Time of the epoch.
        first_wait_seconds: Wait for the first batch, when nothing can lie ready yet.
        later_wait_seconds: Waits for all other batches together.
    """

    name: str
    format: Format
    backend: str
    model: str
    num_steps: int
    seconds: float
    first_wait_seconds: float
    later_wait_seconds: float

    @property
    def share(self) -> float:
        """Share of the epoch, from the first batch on, that was spent waiting: 0 to 1."""
        return self.later_wait_seconds / max(self.seconds - self.first_wait_seconds, 1e-9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Something that would help, or would not.

    Attributes:
        what: "cache", "workers" or "transcode".
        helps: Whether it is worth it here.
        gain: Clips a second with it, as a multiple of those without; None where it was not measured.
        reason: The figures behind it, in one sentence.
    """

    what: Literal["cache", "workers", "transcode"]
    helps: bool
    gain: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """What a bench of one folder found out.

    Attributes:
        root: The folder.
        num_videos: Usable videos in it that are long enough.
        num_measured: Those that were measured, spread over the folder.
        num_clips: Clips of one pass over them.
        clip_shape: (T, H, W, C).
        batch_size: Clips in a batch.
        codecs: Videos measured, by codec.
        format: What clips were delivered to: "tf", "keras" or "numpy".
        workers: Threads of the dataset.
        cores: Usable cores.
        num_passes: Timed passes; figures are their medians.
        stages: Where one thread's time goes; the seconds add up to the whole.
        rates: How fast clips come.
        fits: How long `fit` waited, from decoding and from a cache.
        fit_missing: Why there are no such figures; None where there are.
        advice: What would help.
        failures: Clips that could not be delivered; they are not in the figures.
    """

    root: str
    num_videos: int
    num_measured: int
    num_clips: int
    clip_shape: tuple[int, int, int, int]
    batch_size: int
    codecs: dict[str, int]
    format: Format
    workers: int
    cores: int
    num_passes: int
    stages: tuple[StageTime, ...]
    rates: tuple[Rate, ...]
    fits: tuple[FitWait, ...]
    fit_missing: str | None
    advice: tuple[Advice, ...]
    failures: tuple[Failure, ...]

    @property
    def seconds_per_clip(self) -> float:
        """One thread's time for a clip, all stages together."""
        return sum(stage.seconds_per_clip for stage in self.stages)
