"""`clipfeed split DIR`: shows or writes a split, and its leak rate beside the naive one's."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from clipfeed.cli._say import (
    FINE,
    AsJson,
    Directory,
    FollowLinks,
    Groups,
    IndexFolder,
    Seed,
    ValidationSplit,
    given_options,
    groups_of,
    path_of,
    print_json,
    print_line,
    print_table,
    reported,
)
from clipfeed.index import build_index
from clipfeed.progress import track
from clipfeed.records import VideoIndex
from clipfeed.split import describe_split, kfold_index, split_index

NAME = "split"

Folds = Annotated[int | None, typer.Option("--k", min=2, help="Cut k folds instead of one split.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        parser=path_of,
        help="Write the split as CSV: fold, part, class, group, key.",
        show_default="not written",
    ),
]


@reported
def run(  # noqa: PLR0913  # one a command-line option
    context: typer.Context,
    directory: Directory,
    validation_split: ValidationSplit = 0.2,
    seed: Seed = 0,
    groups: Groups = "auto",
    k: Folds = None,
    output: Output = None,
    index: IndexFolder = None,
    follow_links: FollowLinks = False,
    json: AsJson = False,
) -> int:
    """Show how a folder is cut into training and validation, and how much that leaks."""
    if k is not None and "validation_split" in given_options(context):
        raise ValueError(f"--validation-split with --k {k}: each fold validates on 1 / {k} of the data; leave one out")
    with track("indexing") as progress:
        whole = build_index(directory, index=index, follow_links=follow_links, progress=progress)
    grouping = groups_of(groups)
    if k is None:
        share = validation_split
        folds = [split_index(whole, fractions={"train": 1 - share, "val": share}, seed=seed, groups=grouping)]
    else:
        folds = kfold_index(whole, k=k, seed=seed, groups=grouping)
    reports = [describe_split(whole, fold, seed=seed, groups=grouping) for fold in folds]
    if output is not None:
        write_split(output, folds)
    if json:
        print_json([report.as_dict() for report in reports])
        return FINE
    for fold, report in zip(folds, reports, strict=True):
        print_line(str(report))
        print_table("", ("class", *fold), _rows(whole, fold))
    if output is not None:
        print_line(f"written: {output}")
    return FINE


def _rows(whole: VideoIndex, parts: Mapping[str, VideoIndex]) -> list[list[object]]:
    counts = {name: [0] * len(whole.class_names or ()) for name in parts}
    for name, part in parts.items():
        for label in [] if part.labels is None else part.labels.tolist():
            counts[name][label] += 1
    names = whole.class_names or ()
    return [[class_name, *(counts[name][label] for name in parts)] for label, class_name in enumerate(names)]


def write_split(path: Path, folds: list[dict[str, VideoIndex]]) -> None:
    """Write one row a video and fold; the file says everything that is needed to make the parts again."""
    with path.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["fold", "part", "class", "group", "key"])
        for number, parts in enumerate(folds, 1):
            for name, part in parts.items():
                for record in part.records:
                    writer.writerow([number, name, record.class_name or "", record.group, record.key])
