"""`clipfeed predict RUN FILES...`: says what new videos show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clipfeed.cli._run import Checkpoint
from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    Workers,
    failure_rows,
    path_of,
    print_failures,
    print_json,
    print_table,
    reported,
)
from clipfeed.learn import predict
from clipfeed.progress import track

NAME = "predict"

Run = Annotated[Path, typer.Argument(parser=path_of, help="Run folder that `clipfeed train` left.", show_default=False)]
Videos = Annotated[
    list[Path], typer.Argument(parser=path_of, help="Video files, or folders of them.", show_default=False)
]


@reported
def run(
    run: Run, videos: Videos, checkpoint: Checkpoint = "last", workers: Workers = None, json: AsJson = False
) -> int:
    """Say what videos show; files that cannot be used are listed, and the rest goes on."""
    with track("predicting") as progress:
        found = predict(videos, run, checkpoint=checkpoint, workers=workers, progress=progress)
    if json:
        predictions = [
            {
                "path": each.path,
                "class": each.class_name,
                "probability": each.probability,
                "probabilities": dict(zip(found.class_names, row.tolist(), strict=True)),
            }
            for each, row in zip(found, found.probabilities, strict=True)
        ]
        print_json({"predictions": predictions, "failures": failure_rows(found.failures)})
    else:
        rows = [(each.path, each.class_name, f"{each.probability:.3f}") for each in found]
        print_table("", ("file", "class", "probability"), rows)
        print_failures("not predicted", found.failures)
    return PROBLEMS if found.failures else FINE
