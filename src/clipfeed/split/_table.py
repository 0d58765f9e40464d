"""Groups and classes of an index as numbers: what the cutting works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.records import VideoIndex
from clipfeed.seeds import hash_key, hash_words


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassRows:
    """Which classes each row of an index counts for.

    Attributes:
        rows: (m,) int64 row numbers; a row with several labels comes several times.
        codes: (m,) int64 class of each, a position in `names`.
        names: Names of the classes, code point by code point: label numbers change nothing.
    """

    rows: IndexArray
    codes: IndexArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, index: VideoIndex) -> ClassRows:
        """Read the labels of an index; without labels all rows are of one class, called ""."""
        labels, rows = index.labels, np.arange(len(index), dtype=np.int64)
        if labels is None:
            return cls(rows=rows, codes=np.zeros(len(index), np.int64), names=("",))
        if labels.ndim == 1:
            values = labels.astype(np.int64)
        else:
            rows, values = (axis.astype(np.int64) for axis in np.nonzero(labels > 0))
            without = np.setdiff1d(np.arange(len(index), dtype=np.int64), rows)
            rows, values = np.append(rows, without), np.append(values, np.full(len(without), -1, np.int64))
        numbers, inverse = np.unique(values, return_inverse=True)
        names = [_class_name(index, int(number)) for number in numbers]
        by_name = sorted(range(len(names)), key=names.__getitem__)
        return cls(rows=rows, codes=np.argsort(by_name)[inverse], names=tuple(names[place] for place in by_name))


def _class_name(index: VideoIndex, label: int) -> str:
    if label < 0:
        return "(no class)"
    names = index.class_names or ()
    return names[label] if label < len(names) else str(label)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupTable:
    """Groups in the order of their rank, and how many rows of each class each group holds.

        rank      0        1        2           cells (group, class, rows)
        group    "b"      "c"      "a"          (0, run, 4) (1, run, 2) (1, walk, 3) (2, walk, 5)
                                                 one class   spans two classes        one class

    Attributes:
        group_of_row: (n,) int64 rank of each row's group.
        cell_groups: (m,) int64 group of each cell, ascending.
        cell_classes: (m,) int64 class of each cell, ascending within a group.
        cell_counts: (m,) int64 rows, at least 1.
        num_groups: Number of groups, G.
        num_classes: Number of classes, C.
    """

    group_of_row: IndexArray
    cell_groups: IndexArray
    cell_classes: IndexArray
    cell_counts: IndexArray
    num_groups: int
    num_classes: int

    @classmethod
    def of(cls, groups: Sequence[str], classes: ClassRows, seed: int) -> GroupTable:
        """Rank the groups and count their rows."""
        numbers: dict[str, int] = {}
        number_of_row = np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.int64)
        rank_of_number = np.argsort(np.argsort(rank_hashes(list(numbers), seed), kind="stable"), kind="stable")
        group_of_row = rank_of_number[number_of_row]
        num_classes = len(classes.names)
        cells, counts = np.unique(group_of_row[classes.rows] * num_classes + classes.codes, return_counts=True)
        return cls(
            group_of_row=group_of_row,
            cell_groups=cells // num_classes,
            cell_classes=cells % num_classes,
            cell_counts=counts.astype(np.int64),
            num_groups=len(numbers),
            num_classes=num_classes,
        )

    @property
    def is_spanning(self) -> NDArray[np.bool_]:
        """(G,) True for groups that hold rows of several classes."""
        return np.bincount(self.cell_groups, minlength=self.num_groups) > 1

    @property
    def class_sizes(self) -> IndexArray:
        """(C,) rows of each class."""
        return self.count(np.zeros(self.num_groups, np.int64), 1)[:, 0]

    def count(self, sides: IndexArray, num_parts: int, *, by_group: bool = False) -> IndexArray:
        """Count what stands where.

        Args:
            sides: (G,) part of each group; -1 for groups that do not count.
            num_parts: Number of parts, P.
            by_group: Count groups in place of rows.

        Returns:
            (C, P) int64.
        """
        part = sides[self.cell_groups]
        placed = part >= 0
        weights = None if by_group else self.cell_counts[placed]
        cells = self.cell_classes[placed] * num_parts + part[placed]
        sums = np.bincount(cells, weights, minlength=self.num_classes * num_parts)
        return sums.astype(np.int64).reshape(self.num_classes, num_parts)


def rank_hashes(groups: Sequence[str], seed: int) -> NDArray[np.uint64]:
    """Give (n,) uint64: one number a group, a function of the seed and the group's name.

    The 64-bit hash of each name is mixed with that of the seed by the finaliser of SplitMix64 (Steele, Lea and Flood,
    OOPSLA 2014), which is a bijection: a quarter of the time that hashing both together takes.
    """
    mixed = np.array([hash_key(group) for group in groups], np.uint64) ^ np.uint64(hash_words(seed, "split"))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
