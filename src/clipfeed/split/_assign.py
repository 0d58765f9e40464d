"""Which group goes to which part.

        1  groups that span several classes      cut in the order of their rank, by number of groups
        2  groups of one class                   cut in the order of their rank, so that the class as a whole, with
                                                 what step 1 gave it, is as near to its fractions as whole groups allow
        3  a class that is off by more than its largest group, or absent from a part: spanning groups change sides,
           those nearest to the cut first, where that brings their classes nearer as a whole; then 2 again

What a file added to the data set can move, and why: in step 2 a group stands before a cut exactly if the middle of its
rows does, and one file shifts all middles and the cut by less than one row, while middles are at least one row apart:
**at most the one group at each cut of that class moves**. Step 1 counts groups, so files do not shift it. Only step 3,
and a file that makes a group span one class more, can move more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.split._table import GroupTable

# Rows and fractions are compared with this tolerance: 0.2 * 15 is 3.0000000000000004.
EPSILON = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """How much each part gets, in the order in which parts take from the ranking.

    Attributes:
        fractions: (P,) float64, sums to 1; the last one may be what no part asked for.
        has_rest: Whether the last one is such a rest.
    """

    fractions: NDArray[np.float64]
    has_rest: bool

    @classmethod
    def of(cls, fractions: Sequence[float]) -> Shares:
        """Add the rest, if any."""
        rest = 1.0 - sum(fractions)
        has_rest = rest > EPSILON
        return cls(fractions=np.array([*fractions, rest] if has_rest else fractions), has_rest=has_rest)

    def __len__(self) -> int:
        return len(self.fractions)

    @property
    def edges(self) -> NDArray[np.float64]:
        """(P,) where each part ends on the ranking, in 0..1."""
        return np.cumsum(self.fractions)

    @property
    def importance(self) -> IndexArray:
        """(P,) 0 for the part that gets a class's only group: the largest, the later of equals; a rest comes last."""
        asked = self.fractions.copy()
        if self.has_rest:
            asked[-1] = -1
        order = np.lexsort((-np.arange(len(asked)), -asked))
        return np.argsort(order)


def assign_groups(table: GroupTable, shares: Shares) -> IndexArray:
    """Give (G,) int64: the part of each group."""
    is_spanning = table.is_spanning
    spanning = np.flatnonzero(is_spanning)
    sides = np.full(table.num_groups, -1, np.int64)
    places = (np.arange(len(spanning)) + 0.5) / max(1, len(spanning))
    sides[spanning] = np.searchsorted(shares.edges[:-1] + EPSILON, places)
    sides = _fill(table, sides, shares)
    moved = _even_out(table, sides, shares, _nearest_first(spanning, places, shares))
    if np.array_equal(moved, sides):
        return sides
    return _fill(table, np.where(is_spanning, moved, -1), shares)


def _required(table: GroupTable, shares: Shares) -> NDArray[np.bool_]:
    """Give (C, P): True where a class has groups enough that this part must get one."""
    num_groups = np.bincount(table.cell_classes, minlength=table.num_classes)
    num_asked = len(shares) - shares.has_rest
    return shares.importance[None, :] < np.minimum(num_groups, num_asked)[:, None]


def _fill(table: GroupTable, sides: IndexArray, shares: Shares) -> IndexArray:
    """Place the groups of one class, around the groups that have a side already (-1: none yet)."""
    is_open = sides[table.cell_groups] < 0
    order = np.argsort(table.cell_classes[is_open], kind="stable")  # by class, then by rank
    groups, classes, counts = (
        cells[is_open][order] for cells in (table.cell_groups, table.cell_classes, table.cell_counts)
    )
    num_open = np.bincount(classes, minlength=table.num_classes)
    first = np.cumsum(num_open) - num_open
    before = np.cumsum(counts) - counts
    middles = before - before[first[classes]] + counts / 2
    fixed = np.cumsum(table.count(sides, len(shares)), axis=1)
    cuts = np.maximum.accumulate(shares.edges * table.class_sizes[:, None] - fixed, axis=1) + EPSILON
    is_before = middles[:, None] <= cuts[classes]
    num_before = [np.bincount(classes[part], minlength=table.num_classes) for part in is_before.T]
    needs = _required(table, shares) & (table.count(sides, len(shares), by_group=True) == 0)
    bounds = _leave_one(np.stack(num_before, axis=1), num_open, needs, shares.importance)
    position = np.arange(len(groups)) - first[classes]
    filled = sides.copy()
    filled[groups] = (position[:, None] >= bounds[classes]).sum(axis=1)
    return filled


def _leave_one(
    bounds: IndexArray, num_open: IndexArray, needs: NDArray[np.bool_], importance: IndexArray
) -> IndexArray:
    """Shift cuts so that each part that needs a group of a class gets one.

    Args:
        bounds: (C, P) how many of the class's open groups stand before the end of each part.
        num_open: (C,) how many open groups the class has.
        needs: (C, P) whether the part must get one of them.
        importance: (P,) who comes first where they do not suffice.
    """
    by_importance = np.argsort(importance)
    enough = np.cumsum(needs[:, by_importance], axis=1) <= num_open[:, None]
    needs = needs & enough[:, importance]
    bounds = bounds.copy()
    previous = np.zeros(len(bounds), np.int64)
    for part in range(bounds.shape[1]):
        bounds[:, part] = np.maximum(bounds[:, part], previous + needs[:, part])
        previous = bounds[:, part]
    bounds[:, -1] = num_open
    for part in range(bounds.shape[1] - 2, -1, -1):
        bounds[:, part] = np.minimum(bounds[:, part], bounds[:, part + 1] - needs[:, part + 1])
    return bounds


def _nearest_first(spanning: IndexArray, places: NDArray[np.float64], shares: Shares) -> IndexArray:
    """Order spanning groups by how near their place on the ranking is to a cut."""
    if len(shares) == 1:
        return spanning
    distances = np.abs(places[:, None] - shares.edges[:-1]).min(axis=1)
    return spanning[np.argsort(np.round(distances, 9), kind="stable")]


def _even_out(table: GroupTable, sides: IndexArray, shares: Shares, candidates: IndexArray) -> IndexArray:
    """Let spanning groups change sides until no class is far off, or no change helps.

    Every change lowers (absences, sum over classes of squared deviation / size), in this order, so this ends.
    """
    balance = _Balance.of(table, sides, shares)
    changed = bool(balance.off_classes.any())
    cells = _cells_of(table, candidates) if changed else {}
    sides = sides.copy()
    while changed:
        changed = False
        concerned = table.cell_groups[balance.off_classes[table.cell_classes]]
        for group in candidates[np.isin(candidates, concerned)].tolist():
            new = balance.better_part(cells[group], int(sides[group]))
            if new is not None:
                balance.move(cells[group], int(sides[group]), new)
                sides[group] = new
                changed = True
    return sides


def _cells_of(table: GroupTable, groups: IndexArray) -> dict[int, list[tuple[int, int]]]:
    """Give (class, rows) pairs of each group."""
    starts = np.searchsorted(table.cell_groups, groups)
    ends = np.searchsorted(table.cell_groups, groups, side="right")
    pairs = list(zip(table.cell_classes.tolist(), table.cell_counts.tolist(), strict=True))
    return {
        group: pairs[start:end]
        for group, start, end in zip(groups.tolist(), starts.tolist(), ends.tolist(), strict=True)
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Balance:
    """How full each part is of each class; changes while groups move.

    Attributes:
        excess: (C, P) rows above the target (negative: below).
        num_groups: (C, P) groups of the class in the part.
        required: (C, P) whether the part must have a group of the class.
        slack: (C,) rows of the class's largest group: how far off a class may be.
        sizes: (C,) rows of the class.
    """

    excess: NDArray[np.float64]
    num_groups: IndexArray
    required: NDArray[np.bool_]
    slack: NDArray[np.float64]
    sizes: IndexArray

    @classmethod
    def of(cls, table: GroupTable, sides: IndexArray, shares: Shares) -> _Balance:
        largest = np.zeros(table.num_classes)
        np.maximum.at(largest, table.cell_classes, table.cell_counts)
        sizes = table.class_sizes
        return cls(
            excess=table.count(sides, len(shares)) - shares.fractions * sizes[:, None],
            num_groups=table.count(sides, len(shares), by_group=True),
            required=_required(table, shares),
            slack=largest + EPSILON,
            sizes=sizes,
        )

    @property
    def off_classes(self) -> NDArray[np.bool_]:
        """(C,) True for classes that are absent somewhere, or further off than their largest group."""
        is_absent = np.any(self.required & (self.num_groups == 0), axis=1)
        is_far = np.any(np.abs(self.excess) > self.slack[:, None], axis=1)
        return np.asarray(is_absent | is_far)

    def better_part(self, cells: Sequence[tuple[int, int]], part: int) -> int | None:
        """Give the part where a group would do more good, None if it stands well."""
        options = [
            (self._cost(cells, part, other), other)
            for other in range(self.excess.shape[1])
            if other != part and any(self._would_help(number, part, other) for number, _ in cells)
        ]
        best = min(options, default=None)
        return best[1] if best is not None and best[0] < (0, 0.0) else None

    def move(self, cells: Sequence[tuple[int, int]], part: int, other: int) -> None:
        """Move a group from one part to another."""
        for number, rows in cells:
            self.excess[number, part] -= rows
            self.excess[number, other] += rows
            self.num_groups[number, part] -= 1
            self.num_groups[number, other] += 1

    def _is_absent(self, number: int, part: int) -> bool:
        return bool(self.required[number, part] and self.num_groups[number, part] == 0)

    def _would_help(self, number: int, part: int, other: int) -> bool:
        slack = self.slack[number]
        is_off = self.excess[number, part] > slack or self.excess[number, other] < -slack
        return bool(is_off or self._is_absent(number, other))

    def _cost(self, cells: Sequence[tuple[int, int]], part: int, other: int) -> tuple[int, float]:
        """Give the change in absences, and in the sum of squared deviations over class size.

        The sum is rounded, so that every machine decides alike.
        """
        absences, deviation = 0, 0.0
        for number, rows in cells:
            absences += int(self.required[number, part] and self.num_groups[number, part] == 1)
            absences -= int(self._is_absent(number, other))
            difference = float(self.excess[number, other] - self.excess[number, part])
            deviation += 2.0 * rows * (rows + difference) / int(self.sizes[number])
        return absences, round(deviation, 6)
