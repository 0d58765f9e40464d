"""`clipfeed index DIR`: builds or updates the index; classes, lengths, what was left out and why."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from clipfeed.cli._say import (
    FINE,
    PROBLEMS,
    AsJson,
    Directory,
    FollowLinks,
    IndexFolder,
    Workers,
    failure_rows,
    print_failures,
    print_json,
    print_line,
    print_table,
    reported,
)
from clipfeed.index import build_index
from clipfeed.progress import track
from clipfeed.records import VideoIndex

NAME = "index"


@reported
def run(
    directory: Directory,
    index: IndexFolder = None,
    follow_links: FollowLinks = False,
    workers: Workers = None,
    json: AsJson = False,
) -> int:
    """Build or update the index of a folder, and say what is in it."""
    with track("indexing") as progress:
        built = build_index(directory, index=index, follow_links=follow_links, workers=workers, progress=progress)
    facts = describe(built)
    if json:
        print_json(facts)
    else:
        show(built, facts)
    return PROBLEMS if built.failures else FINE


def describe(index: VideoIndex) -> dict[str, object]:
    """The index in figures, ready for JSON."""
    columns, rows = index.columns, index.rows
    return {
        "root": index.root,
        "num_videos": len(index),
        "classes": [{"class": name, "num_videos": len(own), **_lengths(own)} for name, own in _by_class(index)],
        "num_frames": _lengths(index.num_frames),
        "codecs": dict(Counter(columns.word(int(code)) for code in columns.codec_codes[rows])),
        "num_groups": len(set(index.groups)),
        "num_variable_rate": int(columns.is_variable_rate[rows].sum()),
        "num_rotated": int((columns.rotations[rows] != 0).sum()),
        "left_out": failure_rows(index.failures),
    }


def show(index: VideoIndex, facts: dict[str, object]) -> None:
    """Print the figures."""
    rows = [(name, len(own), *_lengths(own).values()) for name, own in _by_class(index)]
    print_table(f"{index.root}: {len(index):,} videos", ("class", "videos", "shortest", "median", "longest"), rows)
    for name in ("codecs", "num_groups", "num_variable_rate", "num_rotated"):
        print_line(f"{name}: {facts[name]}")
    print_failures("left out", index.failures)


def _by_class(index: VideoIndex) -> list[tuple[str, NDArray[np.int32]]]:
    """Frame counts of each class's videos; one nameless class where there are no labels."""
    labels, counts = index.labels, index.num_frames
    if labels is None or index.class_names is None:
        return [("", counts)]
    return [(name, counts[labels == label]) for label, name in enumerate(index.class_names)]


def _lengths(counts: NDArray[np.int32]) -> dict[str, int]:
    if not len(counts):
        return {"shortest": 0, "median": 0, "longest": 0}
    return {"shortest": int(counts.min()), "median": int(np.median(counts)), "longest": int(counts.max())}
