"""Splits partition, near their fractions, and stay put when files are added."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed.errors import LayoutError
from clipfeed.records import TextColumn, VideoColumns, VideoIndex
from clipfeed.split import kfold_index, split_index, verify_split

Row = tuple[str, str, str]
"""(class, key, group)."""


def make_index(rows: list[Row]) -> VideoIndex:
    classes, keys, groups = zip(*rows, strict=True)
    names = tuple(sorted(set(classes)))
    unread = {field.name: np.zeros(len(keys), np.int64) for field in dataclasses.fields(VideoColumns)}
    columns = VideoColumns(
        **{
            **unread,
            "keys": TextColumn.from_texts(keys),
            "groups": TextColumn.from_texts(groups),
            "class_codes": np.array([names.index(name) for name in classes], np.int32),
            "vocabulary": names,
        }
    )
    return VideoIndex(root="data", columns=columns, rows=np.arange(len(keys)), class_names=names)


@st.composite
def class_rows(draw: st.DrawFn) -> list[Row]:
    """Classes of groups of any size; no group spans classes."""
    sizes = draw(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=1, max_size=4))
    return [
        (f"c{c}", f"c{c}/g{g}_{v}", f"c{c}/g{g}")
        for c, groups in enumerate(sizes)
        for g, size in enumerate(groups)
        for v in range(size)
    ]


@st.composite
def spanning_rows(draw: st.DrawFn) -> list[Row]:
    """Groups that hold videos of any classes."""
    cells = draw(
        st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 9)), st.integers(1, 6), min_size=1, max_size=30)
    )
    return [(f"c{c}", f"c{c}/g{g}_{v}", f"g{g}") for (c, g), size in cells.items() for v in range(size)]


@st.composite
def fractions(draw: st.DrawFn) -> dict[str, float]:
    """Two to four parts that use up everything, or leave a rest."""
    names = draw(st.permutations(["train", "val", "test", "extra"]))[: draw(st.integers(2, 4))]
    weights = [draw(st.integers(1, 20)) for _ in names]
    total = sum(weights) + draw(st.sampled_from([0, 0, 5]))
    return {name: weight / total for name, weight in zip(names, weights, strict=True)}


SEEDS = st.integers(-(2**40), 2**40)


def sides_of(index: VideoIndex, shares: dict[str, float], seed: int) -> dict[str, str] | None:
    """The part of each group, "" for the rest; None where a part would be empty."""
    try:
        parts = split_index(index, fractions=shares, seed=seed)
    except LayoutError:
        return None
    sides = dict.fromkeys(index.groups, "")
    sides.update({group: name for name, part in parts.items() for group in part.groups})
    return sides


@settings(deadline=None)
@given(class_rows() | spanning_rows(), fractions(), SEEDS)
def test_parts_are_disjoint_whole_and_not_empty(rows: list[Row], shares: dict[str, float], seed: int) -> None:
    index = make_index(rows)
    try:
        parts = split_index(index, fractions=shares, seed=seed)
    except LayoutError:
        groups_of = defaultdict(set)
        for name, _, group in rows:
            groups_of[name].add(group)
        assert all(len(groups) < len(shares) for groups in groups_of.values())
        return
    verify_split(parts)
    keys = [key for part in parts.values() for key in part.keys]
    assert len(keys) == len(set(keys))
    assert all(len(part) for part in parts.values())
    if sum(shares.values()) > 1 - 1e-6:
        assert set(keys) == set(index.keys)


@settings(deadline=None)
@given(class_rows() | spanning_rows(), fractions(), SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_files_changes_nothing(rows: list[Row], shares: dict[str, float], seed: int, rng) -> None:
    shuffled = rows.copy()
    rng.shuffle(shuffled)
    assert sides_of(make_index(rows), shares, seed) == sides_of(make_index(shuffled), shares, seed)


@settings(deadline=None)
@given(class_rows(), fractions(), SEEDS)
def test_the_order_of_parts_changes_nothing(rows: list[Row], shares: dict[str, float], seed: int) -> None:
    index = make_index(rows)
    assert sides_of(index, shares, seed) == sides_of(index, dict(reversed(shares.items())), seed)


@settings(deadline=None)
@given(class_rows(), fractions(), SEEDS)
def test_each_class_is_within_one_group_at_each_cut(rows: list[Row], shares: dict[str, float], seed: int) -> None:
    index = make_index(rows)
    sides = sides_of(index, shares, seed)
    if sides is None:
        return
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for name, _, group in rows:
        sizes[name][group] += 1
    for groups in sizes.values():
        total, largest = sum(groups.values()), max(groups.values())
        for part, share in shares.items():
            held = sum(size for group, size in groups.items() if sides[group] == part)
            # half a group at either cut; more only where a part got the one group that it must have
            must = len(groups) < 2 * len(shares) or min(shares.values()) * total < len(shares) * largest
            assert must or abs(held - share * total) <= largest + 1e-6


@settings(deadline=None)
@given(class_rows() | spanning_rows(), fractions(), SEEDS)
def test_a_class_with_groups_enough_is_in_every_part(rows: list[Row], shares: dict[str, float], seed: int) -> None:
    sides = sides_of(make_index(rows), shares, seed)
    spans = Counter(group for _, group in {(name, group) for name, _, group in rows})
    groups_of = defaultdict(set)
    for name, _, group in rows:
        groups_of[name].add(group)
    for groups in groups_of.values():
        own = [group for group in groups if spans[group] == 1]
        if sides is not None and len(own) >= len(shares):
            assert set(shares) <= {sides[group] for group in groups}


@settings(max_examples=300, deadline=None)
@given(class_rows(), fractions(), SEEDS, st.integers(0, 10**6), st.booleans())
def test_an_added_file_moves_at_most_the_boundary_group_of_its_class(
    rows: list[Row], shares: dict[str, float], seed: int, pick: int, is_new_group: bool
) -> None:
    name, _, group = rows[pick % len(rows)]
    added = (name, f"{name}/added", f"{name}/new{pick}" if is_new_group else group)
    before, after = sides_of(make_index(rows), shares, seed), sides_of(make_index([*rows, added]), shares, seed)
    if before is None or after is None:
        return
    moved = [old for old in before if before[old] != after[old]]
    assert all(old.startswith(f"{name}/") for old in moved)
    num_cuts = len(set(shares)) - 1 + (sum(shares.values()) < 1 - 1e-6)
    assert len(moved) <= num_cuts


@settings(deadline=None)
@given(spanning_rows(), class_rows(), SEEDS, st.integers(0, 10**6))
def test_a_file_added_beside_spanning_groups_leaves_them_where_classes_are_not_far_off(
    spanning: list[Row], own: list[Row], seed: int, pick: int
) -> None:
    many = [(name, f"{key}x{copy}", f"{group}x{copy}") for name, key, group in own for copy in range(8)]
    rows = spanning + many
    classes = sorted({name for name, _, _ in many})
    name = classes[pick % len(classes)]
    shares = {"train": 0.75, "val": 0.25}
    before = sides_of(make_index(rows), shares, seed)
    after = sides_of(make_index([*rows, (name, "added", "new")]), shares, seed)
    assert before is not None
    assert after is not None
    spanned = {group for group, number in Counter(g for _, g in {(n, g) for n, _, g in rows}).items() if number > 1}
    covered = {n for n, _, g in rows if g in spanned} <= set(classes)
    if covered:
        moved = [group for group in before if before[group] != after[group]]
        assert len(moved) <= 1
        assert not spanned & set(moved)


@settings(deadline=None)
@given(class_rows(), SEEDS, st.integers(2, 5))
def test_folds_hold_out_everything_once(rows: list[Row], seed: int, k: int) -> None:
    index = make_index(rows)
    try:
        folds = kfold_index(index, k=k, seed=seed)
    except ValueError:
        assert all(len({g for n, _, g in rows if n == name}) < k for name, _, _ in rows)
        return
    assert sorted(key for fold in folds for key in fold["val"].keys) == sorted(index.keys)
    for fold in folds:
        verify_split(fold)
        assert len(fold["train"]) + len(fold["val"]) == len(index)
