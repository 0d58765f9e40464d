"""A bench of one folder: some of its videos, run through as training would, with a look at each part of the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from clipfeed._types import StrPath
from clipfeed.bench.advice import advise_cache, advise_transcode, advise_workers
from clipfeed.bench.fitting import measure_fit
from clipfeed.bench.report import BenchReport, FitWait, MeasuredStage
from clipfeed.bench.speed import pass_seconds, rate_of
from clipfeed.bench.stages import DeliveryTimer, pass_stages, stage_times
from clipfeed.bench.trials import try_cache, try_transcode
from clipfeed.dataset import Limits, VideoDataset
from clipfeed.deliver import Delivery, Format, require_format
from clipfeed.deliver.frameworks import keras_backend
from clipfeed.errors import MissingDependencyError
from clipfeed.index import build_index
from clipfeed.learn.models import ModelName
from clipfeed.load import pack_bytes
from clipfeed.prefetch import usable_cores
from clipfeed.records import ClipSpec, VideoIndex, check_choice

__all__ = ["BenchOptions", "bench_directory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How much is measured.

    Args:
        num_videos: Videos that are measured at most, spread evenly over the folder.
        num_passes: Timed passes over them; figures are medians. One more warms up.
        format: What clips are delivered to; None: "tf" or "keras", as Keras's backend is, "numpy" without Keras.
        fit: Whether to fit a model and see how long it waits.
        model: Which model.

    Raises:
        ValueError: For a count below 1, or another format.
    """

    num_videos: int = 64
    num_passes: int = 3
    format: Format | None = None
    fit: bool = True
    model: ModelName = "lrcn"

    def __post_init__(self) -> None:
        for name in ("num_videos", "num_passes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected at least 1")
        if self.format is not None:
            check_choice("format", self.format, ("tf", "keras", "numpy"))


def bench_directory(
    directory: StrPath | VideoIndex,
    *,
    clips: ClipSpec | None = None,
    batch_size: int = 8,
    limits: Limits | None = None,
    index: StrPath | None = None,
    options: BenchOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BenchReport:
    """Measure what this machine makes of a folder of videos.

    The first pass brings the files into the page cache and is not counted. The others take turns: a pass in one thread,
    stage by stage; a pass with one decoding thread; a pass with all. All figures are those of this machine as busy as
    it is now.

    Args:
        directory: The folder, or an index of it.
        clips: What a clip looks like; None: 20 frames of 64 x 64.
        batch_size: Clips in a batch.
        limits: Memory, threads and time of the dataset; None for the defaults.
        index: Folder in which the index is kept; None is the user's cache folder.
        options: How much is measured; None for the defaults.
        progress: Called with (steps done, steps in all).

    Returns:
        Where the time goes, how fast clips come, how long `fit` waits, and what would help.

    Raises:
        LayoutError: If the folder holds no usable video.
        ValueError: If no video is long enough for a clip.
        MissingDependencyError: If the package that `options.format` needs is not installed.

    Example:
        >>> report = cf.bench_directory("HMDB51", clips=cf.ClipSpec(num_frames=20, image_size=(64, 64)))
        >>> {stage.stage: round(stage.share, 2) for stage in report.stages}
    """
    options = options or BenchOptions()
    if options.format is not None:
        require_format(options.format)
    whole = directory if isinstance(directory, VideoIndex) else build_index(directory, index=index)
    usable = VideoDataset(whole, clips, batch_size=batch_size, seed=0, limits=limits)
    ds = _dataset(usable, _spread(usable.index, options.num_videos))
    steps = _Steps(options, progress)
    timings = _take_turns(ds, options, steps)
    rates = {name: rate_of(name, each, timings.seconds[name]) for name, each in timings.datasets.items()}
    fits, fit_missing = _fits(ds, options)
    steps.done()
    kept = try_cache(ds, options.num_passes, options.model if fits else None)
    if kept is not None:
        rates["cache"] = kept.rate
        fits += () if kept.fit is None else (kept.fit,)
    steps.done()
    transcoded = try_transcode(ds, options.num_passes)
    steps.done()
    num_clips = timings.num_clips
    return BenchReport(
        root=whole.root,
        num_videos=len(usable.index),
        num_measured=len(ds.index),
        num_clips=num_clips,
        clip_shape=ds.spec.shape,
        batch_size=batch_size,
        codecs=_codecs(ds.index),
        format=_format(options),
        workers=ds.workers,
        cores=usable_cores(),
        num_passes=options.num_passes,
        stages=stage_times(timings.middle_stages(), num_clips),
        rates=tuple(rates.values()),
        fits=fits,
        fit_missing=fit_missing,
        advice=(
            advise_cache(rates, fits, pack_bytes(whole, ds.spec)),
            advise_workers(rates, usable_cores()),
            advise_transcode(transcoded),
        ),
        failures=ds.ledger.failures,
    )


def _spread(index: VideoIndex, num_videos: int) -> VideoIndex:
    """Choose videos evenly spread over an index, so that classes and sources are mixed."""
    count = min(num_videos, len(index))
    return index.select(np.unique(np.linspace(0, len(index) - 1, count).round().astype(np.int64)))


def _dataset(like: VideoDataset, index: VideoIndex, workers: int | None = None) -> VideoDataset:
    limits = like.limits if workers is None else replace(like.limits, workers=workers)
    return VideoDataset(index, like.spec, batch_size=like.batch_size, seed=0, limits=limits)


@dataclass(slots=True, kw_only=True)
class _Timings:
    """What was timed, pass by pass."""

    datasets: dict[str, VideoDataset]
    seconds: dict[str, list[float]]
    stages: list[dict[MeasuredStage, float]]
    num_clips: int = 0

    def middle_stages(self) -> dict[MeasuredStage, float]:
        """Give the stages of the pass whose whole is the median: those of one pass add up."""
        return sorted(self.stages, key=lambda stages: sum(stages.values()))[len(self.stages) // 2]


def _take_turns(ds: VideoDataset, options: BenchOptions, steps: _Steps) -> _Timings:
    """Warm up, then time each way of running an epoch in turn, again and again."""
    threads = {"one thread": 1, "all threads": ds.workers}
    if ds.workers != usable_cores():
        threads["cores"] = usable_cores()
    timings = _Timings(
        datasets={name: _dataset(ds, ds.index, number) for name, number in threads.items()},
        seconds={name: [] for name in threads},
        stages=[],
    )
    timer = DeliveryTimer(ds, Delivery(format=_format(options), label_mode="int"))
    for number in range(-1, options.num_passes):
        epoch = max(0, number)
        stages, batches = pass_stages(ds, epoch)
        stages["deliver"] = timer.seconds(batches)
        timings.num_clips = sum(len(batch) for batch in batches)
        del batches
        if number >= 0:
            timings.stages.append(stages)
            for name, each in timings.datasets.items():
                timings.seconds[name].append(pass_seconds(each, epoch))
        steps.done()
    return timings


def _format(options: BenchOptions) -> Format:
    if options.format is not None:
        return options.format
    backend = keras_backend()
    return "numpy" if backend is None else "tf" if backend == "tensorflow" else "keras"


def _fits(ds: VideoDataset, options: BenchOptions) -> tuple[tuple[FitWait, ...], str | None]:
    """Fit a model on what is decoded, unless that cannot be; then say why."""
    if not options.fit:
        return (), "not asked for"
    labels = ds.labels
    if labels is None or labels.ndim != 1:
        return (), "the videos have no class each"
    try:
        return (measure_fit("decoding", ds, options.model, int(labels.max()) + 1),), None
    except MissingDependencyError as error:
        return (), error.problem


def _codecs(index: VideoIndex) -> dict[str, int]:
    codes = index.columns.codec_codes[index.rows].tolist()
    return dict(Counter(index.columns.word(code) or "" for code in codes).most_common())


class _Steps:
    """Counts what is done."""

    def __init__(self, options: BenchOptions, progress: Callable[[int, int], None] | None) -> None:
        self._num_done = 0
        self._num_steps = options.num_passes + 4  # the pass that warms up, `fit`, and the two trials
        self._progress = progress

    def done(self) -> None:
        """One more step is done."""
        self._num_done += 1
        if self._progress is not None:
            self._progress(self._num_done, self._num_steps)
