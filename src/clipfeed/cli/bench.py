"""`clipfeed bench DIR`: where the time goes on this machine, how long `fit` waits, and what would help."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer

from clipfeed.bench import BenchOptions, BenchReport, FitWait, bench_directory
from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    Directory,
    FollowLinks,
    IndexFolder,
    MemoryBudget,
    Workers,
    print_failures,
    print_json,
    print_line,
    print_table,
    reported,
)
from clipfeed.dataset import Limits
from clipfeed.index import build_index
from clipfeed.progress import track
from clipfeed.records import ClipSpec

NAME = "bench"

_BAR_COLUMNS = 40

NumFrames = Annotated[int, typer.Option(help="Frames in a clip.")]
ImageSize = Annotated[tuple[int, int], typer.Option(help="Height and width of a clip's frames, pixels.")]
Sampling = Annotated[Literal["uniform", "stride"], typer.Option(help="Which frames make a clip.")]
ShortVideos = Annotated[
    Literal["drop", "repeat_last", "wrap", "error"], typer.Option(help="What happens to videos with too few frames.")
]
Format = Annotated[
    Literal["tf", "keras", "numpy"] | None,
    typer.Option(help="What clips are delivered to.", show_default="what Keras runs on"),
]


@reported
def run(  # noqa: PLR0913  # one a command-line option
    directory: Directory,
    num_frames: NumFrames = 20,
    image_size: ImageSize = (64, 64),
    sampling: Sampling = "uniform",
    short_videos: ShortVideos = "drop",
    batch_size: Annotated[int, typer.Option(help="Clips in a batch.")] = 8,
    format: Format = None,
    num_videos: Annotated[int, typer.Option(help="Videos to measure at most, spread over the folder.")] = 64,
    num_passes: Annotated[int, typer.Option(help="Timed passes over them; medians are shown.")] = 3,
    fit: Annotated[bool, typer.Option(help="Fit a model and see how long it waits.")] = True,
    model: Annotated[Literal["lrcn", "convlstm", "conv3d"], typer.Option(help="Which model.")] = "lrcn",
    memory_budget: MemoryBudget = "512MB",
    workers: Workers = None,
    index: IndexFolder = None,
    follow_links: FollowLinks = False,
    json: AsJson = False,
) -> int:
    """Measure decoding and delivery on some of a folder's videos, and say what would help."""
    options = BenchOptions(num_videos=num_videos, num_passes=num_passes, format=format, fit=fit, model=model)
    limits = Limits(memory_budget=memory_budget, workers=workers)
    clips = ClipSpec(num_frames=num_frames, image_size=image_size, sampling=sampling, short_videos=short_videos)
    with track("indexing") as progress:
        videos = build_index(directory, index=index, follow_links=follow_links, workers=workers, progress=progress)
    with track("measuring") as progress:
        report = bench_directory(
            videos, clips=clips, batch_size=batch_size, limits=limits, options=options, progress=progress
        )
    if json:
        print_json(describe(report))
    else:
        show(report)
    return PROBLEMS if report.failures else FINE


def describe(report: BenchReport) -> dict[str, Any]:
    """The report in figures, ready for JSON."""
    facts = asdict(report)
    facts["seconds_per_clip"] = report.seconds_per_clip
    for fit, row in zip(report.fits, facts["fits"], strict=True):
        row["share"] = fit.share
    return facts


def show(report: BenchReport) -> None:
    """Print the figures, with bars."""
    shape = " x ".join(str(side) for side in report.clip_shape)
    codecs = ", ".join(f"{count} {codec}" for codec, count in report.codecs.items())
    print_line(
        f"{report.root}: {report.num_measured} of {report.num_videos:,} videos ({codecs}), clips of {shape}, "
        f"batches of {report.batch_size}; medians of {report.num_passes} passes"
    )
    print_table(
        f"one thread, {report.seconds_per_clip * 1e3:.2f} ms a clip",
        ("stage", "ms", "share", ""),
        [
            (stage.stage, f"{stage.seconds_per_clip * 1e3:8.3f}", f"{stage.share:6.1%}", bar(stage.share))
            for stage in report.stages
        ],
    )
    print_table(
        "clips of a whole epoch",
        ("", "threads", "clips/s", "MB/s of clips", "MB/s of files"),
        [
            (
                rate.name,
                rate.workers,
                f"{rate.clips_per_second:,.1f}",
                f"{rate.bytes_per_second / 1e6:,.1f}",
                f"{rate.file_bytes_per_second / 1e6:,.1f}",
            )
            for rate in report.rates
        ],
    )
    for wait in report.fits:
        print_line(fit_line(wait))
    if report.fit_missing is not None:
        print_line(f"fit: not measured, {report.fit_missing}")
    for advice in report.advice:
        gain = "" if advice.gain is None else f", {advice.gain:.2f} times as many clips"
        print_line(f"{advice.what}: {'would help' if advice.helps else 'would not help'}{gain} ({advice.reason})")
    print_failures("could not be delivered", report.failures)


def fit_line(wait: FitWait) -> str:
    """Say how long `fit` waited."""
    return (
        f"fit ({wait.model}, {wait.backend}, {'decoding' if wait.name == 'decoding' else 'from a cache'}): "
        f"waited for data {wait.share:5.1%} of the time {bar(wait.share)} "
        f"({wait.later_wait_seconds:.2f} of {wait.seconds - wait.first_wait_seconds:.2f} s over {wait.num_steps} "
        f"steps; and {wait.first_wait_seconds:.2f} s for the first batch)"
    )


def bar(share: float) -> str:
    """Draw a share of 0 to 1."""
    return "█" * max(round(share * _BAR_COLUMNS), 1 if share > 0 else 0)
