"""`clipfeed evaluate RUN`: judges a trained model on its validation part, or on other videos."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clipfeed.cli._run import Checkpoint, print_metrics
from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    Workers,
    failure_rows,
    path_of,
    print_failures,
    print_json,
    print_line,
    reported,
)
from clipfeed.dataset import Limits
from clipfeed.learn import evaluate, write_evaluation
from clipfeed.ledger import ErrorPolicy
from clipfeed.progress import track

NAME = "evaluate"

Run = Annotated[Path, typer.Argument(parser=path_of, help="Run folder that `clipfeed train` left.", show_default=False)]
Data = Annotated[
    Path | None,
    typer.Option("--data", parser=path_of, help="Other videos, in class folders.", show_default="the run's own"),
]
Part = Annotated[
    str | None, typer.Option("--part", help="Part of the run's own videos: val, train, ...", show_default="val")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", parser=path_of, help="Folder for metrics.json and predictions.csv.", show_default="none"),
]


@reported
def run(  # noqa: PLR0913  # one a command-line option
    run: Run,
    data: Data = None,
    part: Part = None,
    checkpoint: Checkpoint = "last",
    skip_errors: Annotated[bool, typer.Option("--skip-errors", help="List videos that cannot be delivered.")] = False,
    output: Output = None,
    workers: Workers = None,
    json: AsJson = False,
) -> int:
    """Judge a trained model: top-1, top-5, mean class accuracy, each class, and what it was taken for."""
    with track("evaluating") as progress:
        judged = evaluate(
            run,
            data=data,
            part=part,
            checkpoint=checkpoint,
            errors=ErrorPolicy(on_error="skip", max_failures=1.0) if skip_errors else "auto",
            limits=Limits(workers=workers),
            progress=progress,
        )
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_evaluation(judged, output)
    if json:
        print_json({**judged.metrics.to_json(), "missing": failure_rows(judged.failures)})
    else:
        print_metrics(f"{checkpoint} model", judged.metrics)
        print_failures("missing", judged.failures)
        if output is not None:
            print_line(f"written: {output}")
    return PROBLEMS if judged.failures else FINE
