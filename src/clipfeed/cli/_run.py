"""What commands print alike: steps and epochs as they pass, and the figures of a model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from types import TracebackType
from typing import Annotated, Any, Literal, Self

import typer

from clipfeed.cli._say import print_line, print_table
from clipfeed.learn import EpochRow, Metrics, TrainedRun
from clipfeed.progress import track

Checkpoint = Annotated[
    Literal["last", "best"], typer.Option(help="The last model, or the best one by its validation accuracy.")
]


class Steps:
    """One progress bar a step: a new one begins when the step's name changes."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._what = ""
        self._bar: AbstractContextManager[object] = nullcontext()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__(None, None, None)

    def update(self, what: str, done: int, total: int) -> None:
        """Say how far a step is."""
        if what != self._what:
            self._bar.__exit__(None, None, None)
            tracking = track(what, enabled=not self._quiet)
            self._what, self._bar, self._show = what, tracking, tracking.__enter__()
        self._show(done, total)


class EpochPrinter:
    """Prints one line an epoch, with a bar over its steps while it runs."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._tracking = track("training", enabled=not quiet)

    def __enter__(self) -> Self:
        self._show = self._tracking.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tracking.__exit__(kind, error, trace)

    def on_step(self, done: int, total: int) -> None:
        """Move the bar."""
        self._show(done, total)

    def on_epoch(self, row: EpochRow) -> None:
        """Print an epoch's figures."""
        if not self._quiet:
            print_epoch(row)


def print_epoch(row: EpochRow, title: str = "epoch") -> None:
    """Print one line of figures."""
    print_line(
        f"{title} {row.epoch + 1:3d}  loss {row.loss:.3f}  accuracy {row.accuracy:.3f}"
        f"  val_loss {row.val_loss:.3f}  val_accuracy {row.val_accuracy:.3f}"
    )


def run_facts(done: TrainedRun) -> dict[str, Any]:
    """A run in figures, ready for JSON."""
    return {
        "run": done.path,
        "num_videos": done.num_videos,
        "history": [asdict(row) for row in done.history],
        "best_epoch": done.best_epoch,
        "validation": done.evaluation.metrics.to_json(),
    }


def print_metrics(title: str, metrics: Metrics) -> None:
    """Print the figures of one evaluation, and what each class was taken for."""
    print_line(
        f"{title}: top-1 {metrics.top1:.3f}, top-5 {metrics.top5:.3f}, mean class accuracy "
        f"{metrics.mean_class_accuracy:.3f}, {metrics.num_videos} videos (one clip each)"
        + (f", {metrics.num_missing} missing" if metrics.num_missing else "")
    )
    rows = []
    for label, (name, share) in enumerate(zip(metrics.class_names, metrics.per_class, strict=True)):
        counts = metrics.confusion[label]
        rest = [(int(counts[other]), metrics.class_names[other]) for other in counts.argsort()[::-1] if other != label]
        mistaken = ", ".join(f"{wrong} x {count}" for count, wrong in rest[:3] if count)
        rows.append((name, int(counts.sum()), "" if share is None else f"{share:.3f}", mistaken))
    print_table("", ("class", "videos", "right", "taken for"), rows)
