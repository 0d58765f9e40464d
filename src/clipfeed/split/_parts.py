"""From an index to named parts, or to folds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.errors import LayoutError
from clipfeed.records import TextColumn, VideoIndex, checked_seed
from clipfeed.split._assign import EPSILON, Shares, assign_groups
from clipfeed.split._leaks import is_whole, verify_split
from clipfeed.split._table import ClassRows, GroupTable

Groups: TypeAlias = Literal["auto"] | Callable[[str], object] | Mapping[str, object] | None
"""What stays together: "auto" (the index's groups), a function of the key, a {key: group} mapping, or None (files)."""

TRAIN_NAMES = ("train", "training")


def split_index(
    index: VideoIndex, *, fractions: Mapping[str, float], seed: int, groups: Groups = "auto"
) -> dict[str, VideoIndex]:
    """Cut an index into named parts, whole groups at a time, each class near its fraction in each part.

        ranking of groups by hash(seed, group)   0 .......... 0.2 ........................... 1
        fractions={"train": 0.8, "val": 0.2}     |--- val ----|------------ train ------------|

    Held-out parts take from the front in the order of their names, "train" from what is left. A class with two groups
    or more has one in every part, as far as its groups go round; a class with one group has it in the largest part.
    The result depends on the keys, groups and class names alone: not on the order of files, on label numbers, on frames
    or on `shuffle`.

    Where no group spans classes, each class is within half a group of its fractions at each cut, a file added later
    moves at most the one group of its class that stands at a cut, and a smaller training fraction leaves the validation
    videos as they are. HMDB51's sources do span classes: a class that is further off than its largest group is then
    brought nearer as long as moving one group helps, and a file that carries a source into one more class can move more
    than one group.

    Args:
        index: What to split.
        fractions: Share of each part, each in (0, 1], at most 1 together. What is left over is in no part.
        seed: Any whole number; another one gives another split.
        groups: "auto" takes the groups of the index. Or a function of the key, or a {key: group} mapping; the parts
            then carry these groups. None is the random split by file: parts keep the index's groups, so that
            `leak_rate` shows what it costs.

    Returns:
        The parts, in the order of `fractions`, rows in the order of the index.

    Raises:
        ValueError: Impossible fractions, or a key without group.
        LayoutError: A part would be empty.
        LeakError: Rows of one file have groups on two sides.

    Example:
        >>> parts = split_index(index, fractions={"train": 0.8, "val": 0.2}, seed=1)
        >>> len(parts["train"]), len(parts["val"])
        (5434, 1332)
    """
    _check_fractions(fractions)
    order = sorted(fractions, key=lambda name: (name.lower() in TRAIN_NAMES, name))
    shares = Shares.of([float(fractions[name]) for name in order])
    cut = _cut(index, shares, seed, groups)
    return cut.parts({name: cut.sides == order.index(name) for name in fractions})


def kfold_index(index: VideoIndex, *, k: int, seed: int, groups: Groups = "auto") -> list[dict[str, VideoIndex]]:
    """Cut an index into k folds: each group is validated on once and trained on k - 1 times.

    The ranking is that of `split_index`: fold i holds out [i / k, (i + 1) / k) of it.

    Args:
        index: What to split.
        k: Number of folds, at least 2 and at most the number of groups.
        seed: As for `split_index`.
        groups: As for `split_index`.

    Returns:
        k times {"train": VideoIndex, "val": VideoIndex}.

    Raises:
        ValueError: k is no whole number of at least 2, or there are too few groups for so many folds.
        LayoutError: A part would be empty.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 2:
        raise ValueError(f"k={k!r}: expected a whole number of at least 2")
    if k > len(index):
        raise ValueError(f"k={k}: {len(index)} videos do not fill so many folds; give a smaller k")
    cut = _cut(index, Shares.of([1.0 / k] * int(k)), seed, groups)
    num_filled = len(np.unique(cut.sides))
    if num_filled < k:
        raise ValueError(
            f"k={k}: {cut.num_groups} groups do not fill so many folds (class by class they fill {num_filled}); give a "
            "smaller k"
        )
    return [cut.parts({"train": cut.sides != fold, "val": cut.sides == fold}) for fold in range(int(k))]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cut:
    """An index that knows its groups, and where each row goes.

    Attributes:
        index: The index, with the groups that were given in it.
        group_of_row: (n,) int64 number of each row's group.
        sides: (n,) int64 part of each row.
        num_groups: Number of groups.
    """

    index: VideoIndex
    group_of_row: IndexArray
    sides: IndexArray
    num_groups: int

    def parts(self, masks: Mapping[str, NDArray[np.bool_]]) -> dict[str, VideoIndex]:
        """Give named parts, none of them empty, and none that shares a group or a file with another."""
        parts = {name: self.index.select(np.flatnonzero(mask), name) for name, mask in masks.items()}
        if not (is_whole(self.group_of_row, self.sides) and is_whole(self.index.rows, self.sides)):
            verify_split(parts)
        for name, part in parts.items():
            if not len(part):
                raise self._empty(name)
        return parts

    def _empty(self, name: str) -> LayoutError:
        return LayoutError(
            f"no video is left for the part {name!r}",
            path=self.index.root,
            stage="split",
            expected=f"at least one class with a group for each part; {len(self.index)} videos in {self.num_groups} "
            "groups were found",
            remedy="add videos of other sources, or say with groups= what belongs together",
        )


def _cut(index: VideoIndex, shares: Shares, seed: int, groups: Groups) -> _Cut:
    number = checked_seed(seed)
    if not len(index):
        raise ValueError("an index without videos cannot be split")
    texts = group_texts(index, groups)
    if groups is not None and groups != "auto":
        index = replace(index, given_groups=TextColumn.from_texts(texts))
    table = GroupTable.of(texts, ClassRows.of(index), number)
    sides = assign_groups(table, shares)[table.group_of_row]
    return _Cut(index=index, group_of_row=table.group_of_row, sides=sides, num_groups=table.num_groups)


def check_groups(groups: object) -> None:
    """Refuse what cannot say which videos belong together.

    Raises:
        ValueError: Names the value and what is allowed.
    """
    is_auto = isinstance(groups, str) and groups == "auto"
    if not (groups is None or is_auto or isinstance(groups, Mapping) or callable(groups)):
        raise ValueError(f'groups={groups!r}: expected "auto", None, a function of the key or a mapping from keys')


def group_texts(index: VideoIndex, groups: Groups) -> Sequence[str]:
    """Give the group of each row.

    Raises:
        ValueError: An unknown choice, or a key without group.
    """
    check_groups(groups)
    if groups is None:
        return index.keys
    if isinstance(groups, str):
        return index.groups
    keys = index.keys
    if isinstance(groups, Mapping):
        missing = [key for key in keys if key not in groups]
        if missing:
            raise ValueError(f"groups has no entry for {missing[0]!r}; {len(missing)} of {len(keys)} keys are missing")
        found = [groups[key] for key in keys]
    else:
        found = [groups(key) for key in keys]
    for key, group in zip(keys, found, strict=True):
        if group is None:
            raise ValueError(f"groups gives None for {key!r}; expected a text or a number")
    return [str(group) for group in found]


def _check_fractions(fractions: Mapping[str, float]) -> None:
    if not isinstance(fractions, Mapping) or not fractions:
        raise ValueError(f'fractions={fractions!r}: expected a mapping such as {{"train": 0.8, "val": 0.2}}')
    for name, fraction in fractions.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"fractions has a part called {name!r}; expected a text")
        is_number = isinstance(fraction, int | float | np.number) and not isinstance(fraction, bool)
        if not is_number or not 0.0 < fraction <= 1.0:
            raise ValueError(f"fraction of {name!r} is {fraction!r}; expected a number above 0 and at most 1")
    total = math.fsum(float(fraction) for fraction in fractions.values())
    if total > 1.0 + EPSILON:
        raise ValueError(f"fractions add up to {total:g}; expected at most 1")
