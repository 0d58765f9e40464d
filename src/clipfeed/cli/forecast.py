"""`clipfeed forecast DIR`: memory, disk, time and batch size before anything is trained, and the lines to paste."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from clipfeed.cli._run import Steps
from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    Directory,
    FollowLinks,
    Groups,
    IndexFolder,
    MemoryBudget,
    Seed,
    ValidationSplit,
    Workers,
    failure_rows,
    groups_of,
    print_failures,
    print_json,
    print_line,
    print_table,
    reported,
)
from clipfeed.forecast import Forecast, forecast_directory
from clipfeed.forecast.text import answers_of, head_of

NAME = "forecast"

Model = Annotated[Literal["lrcn", "convlstm", "conv3d"], typer.Option(help="Model to train.")]
GpuMemory = Annotated[
    str, typer.Option(help='Memory of the GPU that trains it, such as 8GB; "none" leaves the batch size out.')
]
NumFrames = Annotated[int, typer.Option(help="Frames in a clip.")]
ImageSize = Annotated[tuple[int, int], typer.Option(help="Height and width of a clip's frames, pixels.")]
Sampling = Annotated[Literal["uniform", "stride"], typer.Option(help="Which frames make a clip.")]
ShortVideos = Annotated[
    Literal["drop", "repeat_last", "wrap", "error"], typer.Option(help="What happens to videos with too few frames.")
]


@reported
def run(  # noqa: PLR0913  # one a command-line option
    directory: Directory,
    model: Model = "lrcn",
    gpu_memory: GpuMemory = "8GB",
    batch_size: Annotated[int, typer.Option(help="Clips in a batch.")] = 8,
    num_frames: NumFrames = 20,
    image_size: ImageSize = (64, 64),
    sampling: Sampling = "uniform",
    short_videos: ShortVideos = "drop",
    validation_split: ValidationSplit = 0.2,
    seed: Seed = 1,
    groups: Groups = "auto",
    memory_budget: MemoryBudget = "512MB",
    workers: Workers = None,
    index: IndexFolder = None,
    follow_links: FollowLinks = False,
    json: AsJson = False,
) -> int:
    """Say what training on a folder will ask of this machine, before anything is trained."""
    steps = Steps(quiet=json)
    with steps:
        told = forecast_directory(
            directory,
            batch_size=batch_size,
            image_size=image_size,
            seed=seed,
            validation_split=validation_split,
            follow_links=follow_links,
            num_frames=num_frames,
            sampling=sampling,
            short_videos=short_videos,
            groups=groups_of(groups),
            memory_budget=memory_budget,
            workers=workers,
            index=index,
            model=model,
            gpu_memory=None if gpu_memory.lower() == "none" else gpu_memory,
            progress=steps.update,
        )
    if json:
        print_json({**told.as_dict(), "left_out": failure_rows(told.left_out)})
    else:
        show(told)
    return PROBLEMS if told.left_out else FINE


def show(told: Forecast) -> None:
    """Print the report."""
    print_table(head_of(told), ("", ""), answers_of(told))
    print_line()
    print_line(told.code)
    print_failures("left out", told.left_out)
