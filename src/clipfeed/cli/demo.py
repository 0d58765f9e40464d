"""`clipfeed demo`: makes a small motion data set, and does the whole job on it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from clipfeed.cli._run import Steps, print_epoch, print_metrics, run_facts
from clipfeed.cli._say import FINE, PROBLEMS, AsJson, Seed, path_of, print_json, print_line, reported
from clipfeed.demo import CLASSES, DemoOptions, DemoReport, run_demo
from clipfeed.learn import EpochRow

NAME = "demo"

# What the demo is there to show, for any seed: motion is learnt, and one frame says nothing.
_ACCURACY_AT_LEAST = 0.85
_FRAME_ACCURACY_ABOVE_CHANCE_AT_MOST = 0.10

Folder = Annotated[
    Path | None,
    typer.Argument(
        parser=path_of, help="Folder to make the videos and runs in.", show_default="a new temporary folder"
    ),
]


@reported
def run(folder: Folder = None, seed: Seed = 0, json: AsJson = False) -> int:
    """Make a small motion data set, index, split, train, evaluate: the whole job in a few minutes."""
    directory = Path(tempfile.mkdtemp(prefix="clipfeed-demo-")) if folder is None else folder
    steps = Steps(quiet=json)
    with steps:
        report = run_demo(
            directory, options=DemoOptions(seed=seed), progress=steps.update, on_epoch=None if json else _print_epoch
        )
    if json:
        print_json(_facts(report))
    else:
        _print(report)
    return FINE if _is_as_expected(report) else PROBLEMS


def _print_epoch(name: str, row: EpochRow) -> None:
    print_epoch(row, title="video model" if name == "video" else "one frame  ")


def _is_as_expected(report: DemoReport) -> bool:
    above_chance = report.frame_accuracy - report.chance
    return report.accuracy >= _ACCURACY_AT_LEAST and abs(above_chance) <= _FRAME_ACCURACY_ABOVE_CHANCE_AT_MOST


def _print(report: DemoReport) -> None:
    print_line(f"videos: {report.videos}")
    print_line(f"{len(report.index)} videos, {len(CLASSES)} classes that differ in motion only: {', '.join(CLASSES)}")
    print_line(str(report.split))
    print_metrics("video model on the validation part", report.video_run.evaluation.metrics)
    print_line(
        f"accuracy: {report.accuracy:.3f} with {report.video_run.config.clips.num_frames} frames a clip, "
        f"{report.frame_accuracy:.3f} with one frame, {report.chance:.3f} by chance"
    )
    if not _is_as_expected(report):
        print_line(f"that is not what was expected: at least {_ACCURACY_AT_LEAST} with frames, chance with one")
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in report.seconds.items())
    print_line(f"time: {sum(report.seconds.values()):.0f} s ({times})")


def _facts(report: DemoReport) -> dict[str, object]:
    return {
        "videos": report.videos,
        "num_videos": len(report.index),
        "classes": list(CLASSES),
        "split": report.split.as_dict(),
        "accuracy": report.accuracy,
        "frame_accuracy": report.frame_accuracy,
        "chance": report.chance,
        "video_run": run_facts(report.video_run),
        "frame_run": run_facts(report.frame_run),
        "seconds": report.seconds,
    }
