"""One thread's time, stage by stage, measured while a dataset makes its batches as it always does.

Up to the finished batch the stages report to the clock of `clipfeed.clock`. Delivery runs in a framework's threads: it
is timed by itself, with the adapter of the format on batches that lie ready.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from clipfeed.bench.report import MeasuredStage, StageTime
from clipfeed.clock import STAGES, measured_stages
from clipfeed.dataset import Limits, VideoDataset
from clipfeed.deliver import Delivery, deliver
from clipfeed.records import Batch

__all__ = ["DeliveryTimer", "pass_stages", "stage_times"]


def pass_stages(ds: VideoDataset, epoch: int) -> tuple[dict[MeasuredStage, float], list[Batch]]:
    """Make the batches of an epoch in the calling thread.

    Returns:
        Seconds of each stage but "deliver", and the batches.
    """
    with measured_stages() as clock:
        batches = [ds.batch(epoch, number, workers=0) for number in range(len(ds))]
    seconds: dict[MeasuredStage, float] = {stage: clock.seconds[stage] for stage in STAGES}
    return seconds, batches


def stage_times(seconds: dict[MeasuredStage, float], num_clips: int) -> tuple[StageTime, ...]:
    """Turn the seconds of one pass into shares and seconds a clip, "rest" last."""
    whole = sum(seconds.values())
    ordered = sorted(seconds, key=lambda stage: stage == "rest")
    return tuple(
        StageTime(stage=stage, seconds_per_clip=seconds[stage] / num_clips, share=seconds[stage] / whole)
        for stage in ordered
    )


class DeliveryTimer:
    """Times an adapter on batches that lie ready.

    The adapter is built once: TensorFlow traces its functions at the first pass, which is not counted.

    Args:
        ds: The dataset whose batches will be delivered.
        delivery: Format and form.
    """

    def __init__(self, ds: VideoDataset, delivery: Delivery) -> None:
        self._ready = _ReadyDataset(ds)
        self._adapter: Any = deliver(self._ready, delivery)
        self._format = delivery.format

    def seconds(self, batches: list[Batch]) -> float:
        """Give the time to hand all batches to a framework that does nothing with them."""
        self._ready.batches = batches
        for _ in self._items():
            pass
        begun = time.perf_counter()
        for _ in self._items():
            pass
        elapsed = time.perf_counter() - begun
        self._ready.batches = []
        return elapsed

    def _items(self) -> Iterable[object]:
        if self._format == "keras":  # as `fit` asks for them
            return (self._adapter[number] for number in range(len(self._ready)))
        return self._adapter  # type: ignore[no-any-return]  # a framework's, without types


class _ReadyDataset(VideoDataset):
    """A dataset that gives batches made before, and so costs nothing."""

    def __init__(self, ds: VideoDataset) -> None:
        super().__init__(
            ds.index,
            ds.spec,
            batch_size=ds.batch_size,
            training=ds.training,
            seed=ds.seed,
            limits=Limits(memory_budget=ds.limits.memory_budget, workers=1),
        )
        self.batches: list[Batch] = []

    def batch(self, epoch: int, number: int, *, workers: int | None = None) -> Batch:
        """Give the batch of that number, whatever the epoch."""
        return self.batches[number]

    def iter_epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Give the batches in order."""
        yield from self.batches[start:]
