"""How much of a part was seen in training: leak rates, and the check that there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.errors import LeakError
from clipfeed.records import VideoIndex, join_key


def leak_rate(train: VideoIndex, val: VideoIndex) -> float:
    """Give the share of `val`'s videos whose group has a video in `train`, in 0..1; 0 if `val` is empty."""
    seen = set(train.groups)
    group_of_video = dict(zip(val.rows.tolist(), val.groups, strict=True))
    return sum(group in seen for group in group_of_video.values()) / max(1, len(group_of_video))


def naive_leak_rate(index: VideoIndex, fraction: float) -> float:
    """Give the leak rate that a random split by file has on average.

    Args:
        index: The whole data set.
        fraction: Share of the files that is held out, in 0..1; all others are trained on.

    Returns:
        The exact mean over all such splits, in 0..1: no draw is made, so no seed is needed.
    """
    group_of_video = dict(zip(index.rows.tolist(), index.groups, strict=True))
    sizes = list(Counter(group_of_video.values()).values())
    return mean_leak_rate(sizes, num_train=len(group_of_video) - round(fraction * len(group_of_video)))


def mean_leak_rate(group_sizes: Iterable[int], *, num_train: int) -> float:
    """Give the mean leak rate over all ways to pick `num_train` of N files to train on.

    A held-out file of a group of n files is clean if its n - 1 companions are all among the other files that are not
    trained on: probability C(N - 1 - num_train, n - 1) / C(N - 1, n - 1), as the hypergeometric distribution has it.
    """
    how_many = Counter(group_sizes)
    total = sum(size * number for size, number in how_many.items())
    steps = np.arange(max(how_many, default=1) - 1)
    factors = np.maximum(0.0, total - 1 - num_train - steps) / np.maximum(1.0, total - 1 - steps)
    clean = np.concatenate([[1.0], np.cumprod(factors)])
    leaking = sum(size * number * (1.0 - clean[size - 1]) for size, number in how_many.items())
    return float(leaking) / max(1, total)


def verify_split(parts: Mapping[str, VideoIndex]) -> None:
    """Check that no group and no file stands in two parts.

    Args:
        parts: Named parts of one index, or of several that share group names.

    Raises:
        LeakError: Names the first such group, a file of it in each part, and how many groups there are.
    """
    homes: dict[str, tuple[str, int]] = {}
    leaks: dict[str, tuple[tuple[str, int], tuple[str, int]]] = {}
    for name, part in parts.items():
        for row, identity in enumerate(zip(part.groups, part.keys, strict=True)):
            for text, kind in zip(identity, ("group", "file"), strict=True):
                home = homes.setdefault(f"{kind} {text!r}", (name, row))
                if home[0] != name:
                    leaks.setdefault(f"{kind} {text!r}", (home, (name, row)))
    if leaks:
        raise _leak_error(parts, leaks)


def _leak_error(
    parts: Mapping[str, VideoIndex], leaks: Mapping[str, tuple[tuple[str, int], tuple[str, int]]]
) -> LeakError:
    what, sides = max(leaks.items())  # groups before files
    num_groups = sum(name.startswith("group") for name in leaks)
    files = [f"{name}: {join_key(parts[name].root, parts[name].keys[row])}" for name, row in sides]
    return LeakError(
        f"{what} stands in two parts ({num_groups} groups and {len(leaks) - num_groups} files do)",
        stage="split",
        expected="\n".join(["each group and each file in one part only", *files]),
        remedy="make the parts with cf.split_index; groups= says what belongs together",
    )


def is_whole(identities: IndexArray, sides: IndexArray) -> bool:
    """Say whether all rows of one identity are on one side.

    Args:
        identities: (n,) a number each row shares with those it must stay with.
        sides: (n,) part of each row.
    """
    order = np.argsort(identities, kind="stable")
    same = np.diff(identities[order]) == 0
    return not bool(np.any(same & (np.diff(sides[order]) != 0)))
