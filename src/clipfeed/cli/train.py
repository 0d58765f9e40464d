"""`clipfeed train DIR`: a model by name, trained on a folder, left in a run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clipfeed.cli._clips import (
    CacheBytes,
    CacheCodec,
    CachePlace,
    ImageSize,
    NumFrames,
    Sampling,
    ShortVideos,
    cache_from,
)
from clipfeed.cli._run import EpochPrinter, print_metrics, run_facts
from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    FollowLinks,
    Groups,
    IndexFolder,
    MemoryBudget,
    Seed,
    ValidationSplit,
    Workers,
    failure_rows,
    given_options,
    groups_of,
    path_of,
    print_failures,
    print_json,
    print_line,
    reported,
)
from clipfeed.dataset import Limits
from clipfeed.learn import Listener, TrainOptions, open_run, resume, train
from clipfeed.progress import track
from clipfeed.records import ClipSpec

NAME = "train"

Directory = Annotated[
    Path | None, typer.Argument(parser=path_of, help="Folder of videos, one sub-folder per class.", show_default=False)
]
RunFolder = Annotated[
    Path,
    typer.Option("--run", parser=path_of, help="Folder of the run, to make or, with --resume, to go on with."),
]
Model = Annotated[Literal["lrcn", "convlstm", "conv3d"], typer.Option(help="Model to train.")]


@reported
def run(  # noqa: PLR0913  # one a command-line option
    context: typer.Context,
    directory: Directory = None,
    model: Model = "lrcn",
    run: RunFolder = Path("clipfeed-run"),
    resume_run: Annotated[bool, typer.Option("--resume", help="Go on with the run after its last epoch.")] = False,
    epochs: Annotated[int, typer.Option(help="Passes over the training part.")] = 30,
    batch_size: Annotated[int, typer.Option(help="Clips in a batch.")] = 8,
    learning_rate: Annotated[float, typer.Option(help="Of the Adam optimizer.")] = 0.001,
    num_frames: NumFrames = 20,
    image_size: ImageSize = (64, 64),
    sampling: Sampling = "uniform",
    short_videos: ShortVideos = "drop",
    validation_split: ValidationSplit = 0.2,
    seed: Seed = 0,
    groups: Groups = "auto",
    cache: CachePlace = None,
    cache_codec: CacheCodec = "raw",
    cache_max_bytes: CacheBytes = None,
    memory_budget: MemoryBudget = "512MB",
    workers: Workers = None,
    index: IndexFolder = None,
    follow_links: FollowLinks = False,
    json: AsJson = False,
) -> int:
    """Train a model on a folder of videos, with a validation part that shares no source with the training part."""
    clips: dict[str, Any] = {
        "num_frames": num_frames,
        "image_size": image_size,
        "sampling": sampling,
        "short_videos": short_videos,
    }
    options: dict[str, Any] = {
        "model": model,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "validation_split": validation_split,
        "groups": groups_of(groups),
        "seed": seed,
        "follow_links": follow_links,
    }
    limits = Limits(memory_budget=memory_budget, workers=workers)
    frames = cache_from(cache, cache_codec, cache_max_bytes)
    printer = EpochPrinter(quiet=json)
    with track("indexing") as on_index, printer:
        listener = Listener(
            on_index=on_index,
            on_split=None if json else lambda report: print_line(str(report)),
            on_cache=None if json else print_line,
            on_step=printer.on_step,
            on_epoch=printer.on_epoch,
        )
        if resume_run:
            given = given_options(context)
            if "index" in given:
                raise ValueError("--index with --resume: the run keeps the index that it began with; leave it out")
            config = open_run(run).read_config()
            done = resume(
                run,
                data=directory,
                clips=replace(config.clips, **_only(clips, given)),
                options=replace(config.options, **_only(options, given)),
                limits=limits,
                cache=frames,
                listener=listener,
            )
        else:
            if directory is None:
                raise ValueError("DIRECTORY is missing: pass the folder of videos, or --resume to go on with a run")
            done = train(
                directory,
                run,
                clips=ClipSpec(**clips),
                options=TrainOptions(**options),
                limits=limits,
                cache=frames,
                index=index,
                listener=listener,
            )
    if json:
        print_json({**run_facts(done), "left_out": failure_rows(done.left_out)})
    else:
        print_metrics("validation, last model", done.evaluation.metrics)
        print_failures("left out", done.left_out)
        print_line(f"run folder: {done.path}")
    return PROBLEMS if done.left_out else FINE


def _only(values: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}
