"""Parts that share no source, near their fractions in every class, and what is said of them."""

from __future__ import annotations

import dataclasses
import json
import pickle
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clipfeed.errors import LayoutError, LeakError
from clipfeed.names import group_videos
from clipfeed.records import TextColumn, VideoColumns, VideoIndex
from clipfeed.split import (
    describe_split,
    kfold_index,
    leak_rate,
    naive_leak_rate,
    split_index,
    verify_split,
)

HALF = {"train": 0.5, "val": 0.5}
USUAL = {"train": 0.8, "val": 0.2}


def make_index(rows: Iterable[tuple[str, str, str]], **more: object) -> VideoIndex:
    """An index of (class, key, group) rows; a split reads nothing else."""
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
    return VideoIndex(root="data", columns=columns, **{"rows": np.arange(len(keys)), "class_names": names, **more})


def grid(num_classes: int, num_groups: int, group_size: int) -> list[tuple[str, str, str]]:
    """Classes of as many groups of as many videos each; no group spans classes."""
    return [
        (f"c{c}", f"c{c}/g{g}_{v}.avi", f"c{c}/g{g}")
        for c in range(num_classes)
        for g in range(num_groups)
        for v in range(group_size)
    ]


def class_counts(part: VideoIndex) -> dict[str, int]:
    names, counts = np.unique(np.array(part.class_names)[part.labels], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


# Whole groups, each class by itself


def test_no_group_stands_on_two_sides() -> None:
    parts = split_index(make_index(grid(5, 10, 3)), fractions=USUAL, seed=1)
    assert not set(parts["train"].groups) & set(parts["val"].groups)
    assert len(parts["train"]) + len(parts["val"]) == 150


@pytest.mark.parametrize("seed", range(5))
def test_each_class_is_cut_at_its_fraction(seed: int) -> None:
    parts = split_index(make_index(grid(7, 10, 3)), fractions=USUAL, seed=seed)
    assert class_counts(parts["val"]) == {f"c{c}": 6 for c in range(7)}
    assert class_counts(parts["train"]) == {f"c{c}": 24 for c in range(7)}


def test_each_class_is_as_near_as_whole_groups_allow() -> None:
    sizes = [7, 1, 4, 2, 9, 3, 5, 1, 6]
    rows = [("c", f"{g}_{v}", str(g)) for g, size in enumerate(sizes) for v in range(size)]
    for seed in range(20):
        num_val = len(split_index(make_index(rows), fractions={"train": 0.7, "val": 0.3}, seed=seed)["val"])
        assert abs(num_val - 0.3 * len(rows)) <= max(sizes) / 2


def test_seeds_give_different_splits_and_one_seed_always_the_same() -> None:
    index = make_index(grid(3, 20, 2))
    splits = [tuple(split_index(index, fractions=USUAL, seed=seed)["val"].keys) for seed in (0, 1, 2, 1, np.int64(1))]
    assert len(set(splits[:3])) == 3
    assert splits[1] == splits[3] == splits[4]


def test_held_out_groups_are_spread_evenly_over_seeds() -> None:
    index = make_index(grid(1, 10, 1))
    held_out = [key for seed in range(300) for key in split_index(index, fractions=USUAL, seed=seed)["val"].keys]
    counts = [held_out.count(key) for key in index.keys]
    assert sum(counts) == 600
    assert 35 <= min(counts) <= max(counts) <= 85  # 60 expected, standard deviation 7


def test_rows_keep_the_order_of_the_index_and_parts_their_names() -> None:
    index = make_index(grid(3, 4, 2))
    parts = split_index(index, fractions={"val": 0.25, "train": 0.75}, seed=3)
    assert list(parts) == ["val", "train"]
    assert [part.name for part in parts.values()] == ["val", "train"]
    assert all(np.all(np.diff(part.rows) > 0) for part in parts.values())
    assert all(part.class_names == index.class_names for part in parts.values())


def test_any_number_of_parts_with_any_names_and_a_rest() -> None:
    index = make_index(grid(4, 20, 1))
    parts = split_index(index, fractions={"a": 0.1, "b": 0.25, "train": 0.5}, seed=1)
    assert {name: class_counts(part)["c0"] for name, part in parts.items()} == {"a": 2, "b": 5, "train": 10}
    (whole,) = split_index(index, fractions={"all": 1.0}, seed=1).values()
    assert whole.keys == index.keys


def test_fractions_that_add_up_to_one_only_roughly_leave_no_video_out() -> None:
    index = make_index(grid(2, 30, 1))
    parts = split_index(index, fractions=dict.fromkeys("abcdefghij", 0.1), seed=1)
    assert sum(map(len, parts.values())) == 60
    parts = split_index(index, fractions={"train": 1 - 0.9, "val": 0.9}, seed=1)
    assert sum(map(len, parts.values())) == 60


def test_a_smaller_training_fraction_leaves_the_validation_videos_as_they_are() -> None:
    index = make_index(grid(5, 20, 2))
    validations = [
        split_index(index, fractions={"train": share, "val": 0.2}, seed=1)["val"].keys for share in (0.1, 0.5, 0.8)
    ]
    assert validations[0] == validations[1] == validations[2]


def test_a_larger_held_out_fraction_keeps_what_a_smaller_one_held_out() -> None:
    index = make_index(grid(5, 20, 2))
    validations = [
        set(split_index(index, fractions={"train": 1 - share, "val": share}, seed=1)["val"].keys)
        for share in (0.1, 0.2, 0.4)
    ]
    assert validations[0] < validations[1] < validations[2]


def test_the_split_depends_on_names_not_on_label_numbers_or_file_order() -> None:
    rows = grid(4, 7, 3)
    other = rows.copy()
    random.Random(0).shuffle(other)
    one = split_index(make_index(rows), fractions=USUAL, seed=1)
    two = split_index(make_index(other, class_names=("c3", "c1", "c0", "c2")), fractions=USUAL, seed=1)
    assert {name: set(part.keys) for name, part in one.items()} == {name: set(part.keys) for name, part in two.items()}


# Few groups


def test_a_class_with_two_groups_has_one_on_each_side() -> None:
    rows = [*grid(1, 50, 1), *(("rare", f"{g}/{v}", f"rare{g}") for g in (1, 2) for v in range(9))]
    for seed in range(10):
        for share in (0.01, 0.2, 0.99):
            parts = split_index(make_index(rows), fractions={"train": 1 - share, "val": share}, seed=seed)
            assert class_counts(parts["val"])["rare"] == class_counts(parts["train"])["rare"] == 9


def test_a_class_with_one_group_is_trained_on_and_named() -> None:
    rows = [*grid(2, 10, 2), ("rare", "r1", "r"), ("rare", "r2", "r")]
    index = make_index(rows)
    for fractions in (USUAL, HALF, {"train": 0.3, "val": 0.2}):
        parts = split_index(index, fractions=fractions, seed=1)
        assert class_counts(parts["train"])["rare"] == 2
        report = describe_split(index, parts, seed=1)
        assert [part.absent_classes for part in report.parts] == [(), ("rare",)]
        assert "  not in val: 'rare'" in report.lines()


def test_two_groups_for_three_parts_go_to_the_largest_two() -> None:
    rows = [*grid(1, 30, 1), ("rare", "r1", "r1"), ("rare", "r2", "r2")]
    for seed in range(10):
        parts = split_index(make_index(rows), fractions={"train": 0.7, "val": 0.2, "test": 0.1}, seed=seed)
        assert {name: class_counts(part).get("rare", 0) for name, part in parts.items()} == {
            "train": 1,
            "val": 1,
            "test": 0,
        }


@pytest.mark.parametrize(
    "rows", [[("c", "a", "a")], [("c", "a", "g"), ("c", "b", "g")], [("c", "a", "a"), ("d", "b", "b")]]
)
def test_a_part_that_would_be_empty_is_an_error_that_says_why(rows: list[tuple[str, str, str]]) -> None:
    with pytest.raises(
        LayoutError, match=r"data: no video is left for the part 'val'\n.* videos in \d groups"
    ) as caught:
        split_index(make_index(rows), fractions=USUAL, seed=1)
    assert "groups=" in str(caught.value)


def test_an_index_without_classes_is_cut_as_one_class() -> None:
    index = make_index(grid(3, 10, 2), class_names=None)
    parts = split_index(index, fractions=USUAL, seed=1)
    assert (len(parts["train"]), len(parts["val"])) == (48, 12)


def test_an_index_without_videos_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="without videos"):
        split_index(make_index(grid(1, 2, 1)).select([]), fractions=USUAL, seed=1)


# Groups that span classes


def persons(num_persons: int, num_classes: int, size: int, *, share: float = 1.0) -> list[tuple[str, str, str]]:
    """Everybody does everything (or a random share of it)."""
    rng = random.Random(0)
    return [
        (f"c{c}", f"c{c}/p{p}_{v}", f"p{p}")
        for p in range(num_persons)
        for c in range(num_classes)
        if rng.random() < share
        for v in range(size)
    ]


def test_persons_who_do_everything_are_cut_by_their_number() -> None:
    for seed in range(5):
        parts = split_index(make_index(persons(25, 6, 4)), fractions=USUAL, seed=seed)
        assert class_counts(parts["val"]) == {f"c{c}": 20 for c in range(6)}


def test_two_persons_who_do_everything_stand_on_two_sides() -> None:
    parts = split_index(make_index(persons(2, 6, 4)), fractions={"train": 0.9, "val": 0.1}, seed=1)
    assert len(parts["train"]) == len(parts["val"]) == 24


@pytest.mark.parametrize("seed", range(5))
def test_classes_with_groups_of_their_own_even_out_what_spanning_groups_did(seed: int) -> None:
    rows = persons(10, 3, 2) + [(f"c{c}", f"own{c}_{g}", f"own{c}_{g}") for c in range(3) for g in range(60)]
    parts = split_index(make_index(rows), fractions={"train": 0.75, "val": 0.25}, seed=seed)
    assert class_counts(parts["val"]) == {"c0": 20, "c1": 20, "c2": 20}


@pytest.mark.parametrize("seed", range(5))
def test_classes_stay_near_their_fraction_where_all_groups_span_them(seed: int) -> None:
    index = make_index(persons(60, 12, 3, share=0.4))
    parts = split_index(index, fractions=USUAL, seed=seed)
    whole, val = class_counts(index), class_counts(parts["val"])
    groups_off = [abs(val[name] - 0.2 * whole[name]) / 3 for name in whole]
    assert max(groups_off) <= 2
    assert np.mean(np.array(groups_off) <= 1) >= 0.8


def test_a_class_that_only_spanning_groups_hold_is_on_both_sides() -> None:
    rows = [("a", f"a{g}_{v}", f"a{g}") for g in range(40) for v in range(3)]
    rows += [(name, f"{name}{g}", f"a{g}") for name, groups in (("x", (0, 1)), ("y", (2, 3))) for g in groups]
    for seed in range(20):
        parts = split_index(make_index(rows), fractions=USUAL, seed=seed)
        assert {"a", "x", "y"} == set(class_counts(parts["train"])) == set(class_counts(parts["val"]))


def test_several_labels_a_row_are_all_stratified() -> None:
    index = make_index([("c", f"{v}", f"{v}") for v in range(200)])
    labels = np.zeros((200, 3), np.float32)
    labels[:100, 0] = labels[50:150, 1] = labels[::2, 2] = 1  # rows 151, 153, ... have none
    index = replace(index, given_labels=labels, class_names=("x", "y", "z"))
    parts = split_index(index, fractions=USUAL, seed=1)
    assert np.abs(parts["val"].labels.sum(axis=0) - 20).max() <= 1
    assert abs(len(parts["val"]) - 40) <= 2
    report = describe_split(index, parts, seed=1)
    assert report.parts[1].absent_classes == ()


def test_rows_of_one_video_stay_together_also_without_groups() -> None:
    index = make_index(grid(2, 10, 2))
    rows = np.repeat(np.arange(40), 3)
    parts = split_index(replace(index, rows=rows), fractions=USUAL, seed=1, groups=None)
    assert not set(parts["train"].rows.tolist()) & set(parts["val"].rows.tolist())
    assert describe_split(replace(index, rows=rows), parts).num_videos == 40


def test_rows_of_one_video_in_different_groups_are_a_leak() -> None:
    index = make_index(grid(1, 10, 1))
    index = replace(
        index, rows=np.repeat(np.arange(10), 2), given_groups=TextColumn.from_texts([str(n) for n in range(20)])
    )
    with pytest.raises(LeakError, match=r"file 'c0/g\d_0.avi' stands in two parts"):
        split_index(index, fractions=HALF, seed=1)


# groups=


def test_groups_may_be_a_function_of_the_key() -> None:
    index = make_index(grid(2, 10, 4))
    parts = split_index(index, fractions=HALF, seed=1, groups=lambda key: key[-5])  # the video's number, across all
    assert set(parts["train"].groups) | set(parts["val"].groups) == {"0", "1", "2", "3"}
    assert {key[-5] for key in parts["val"].keys} == set(parts["val"].groups)
    verify_split(parts)


def test_groups_may_be_a_mapping_with_values_of_any_kind() -> None:
    index = make_index(grid(1, 10, 2))
    by_function = split_index(index, fractions=HALF, seed=1, groups=lambda key: key[4])
    by_mapping = split_index(index, fractions=HALF, seed=1, groups={key: int(key[4]) for key in index.keys})
    assert {n: p.keys for n, p in by_function.items()} == {n: p.keys for n, p in by_mapping.items()}


def test_a_key_without_group_is_named() -> None:
    index = make_index(grid(1, 3, 1))
    with pytest.raises(ValueError, match=r"no entry for 'c0/g1_0.avi'; 2 of 3 keys are missing"):
        split_index(index, fractions=HALF, seed=1, groups={"c0/g0_0.avi": "x"})
    with pytest.raises(ValueError, match=r"groups gives None for 'c0/g0_0.avi'"):
        split_index(index, fractions=HALF, seed=1, groups=lambda key: None)


@pytest.mark.parametrize("groups", ["none", "source", 3, True])
def test_an_unknown_choice_of_groups_is_refused(groups: object) -> None:
    with pytest.raises(ValueError, match='expected "auto", None'):
        split_index(make_index(grid(1, 3, 1)), fractions=HALF, seed=1, groups=groups)


def test_no_groups_is_the_random_split_by_file_and_its_leak_shows() -> None:
    index = make_index(grid(4, 10, 10))
    parts = split_index(index, fractions=USUAL, seed=1, groups=None)
    assert class_counts(parts["val"]) == {f"c{c}": 20 for c in range(4)}
    assert leak_rate(parts["train"], parts["val"]) > 0.95
    assert describe_split(index, parts, seed=1, groups=None).parts[1].leak_rate > 0.95
    with pytest.raises(LeakError):
        verify_split(parts)


# Wrong arguments


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ({}, "expected a mapping"),
        ([0.8, 0.2], "expected a mapping"),
        ({"train": 0.9, "val": 0.2}, r"add up to 1\.1; expected at most 1"),
        ({"train": 1.0, "val": 0.0}, "fraction of 'val' is 0.0; expected a number above 0"),
        ({"train": 1.2}, "fraction of 'train' is 1.2"),
        ({"train": -0.1, "val": 0.5}, "fraction of 'train' is -0.1"),
        ({"train": float("nan")}, "fraction of 'train' is nan"),
        ({"train": "0.8"}, "fraction of 'train' is '0.8'"),
        ({"train": True}, "fraction of 'train' is True"),
        ({"": 0.5}, "part called ''"),
        ({3: 0.5}, "part called 3"),
    ],
)
def test_impossible_fractions_are_refused_by_name(fractions: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_index(make_index(grid(1, 5, 1)), fractions=fractions, seed=1)


@pytest.mark.parametrize("seed", [None, 1.5, "1", True])
def test_a_seed_that_is_no_whole_number_is_refused(seed: object) -> None:
    with pytest.raises(ValueError, match=f"seed={seed!r}: expected a whole number"):
        split_index(make_index(grid(1, 5, 1)), fractions=HALF, seed=seed)


# Folds


def test_each_group_is_held_out_in_exactly_one_fold() -> None:
    index = make_index(grid(4, 10, 3))
    folds = kfold_index(index, k=5, seed=1)
    assert len(folds) == 5
    assert sorted(key for fold in folds for key in fold["val"].keys) == sorted(index.keys)
    for fold in folds:
        verify_split(fold)
        assert sorted(fold["train"].keys + fold["val"].keys) == sorted(index.keys)
        assert class_counts(fold["val"]) == {f"c{c}": 6 for c in range(4)}
        assert [part.name for part in fold.values()] == ["train", "val"]


def test_folds_use_the_ranking_of_the_split() -> None:
    index = make_index(grid(4, 10, 3))
    assert kfold_index(index, k=5, seed=1)[0]["val"].keys == split_index(index, fractions=USUAL, seed=1)["val"].keys


def test_folds_take_groups_too() -> None:
    index = make_index(grid(2, 3, 4))
    folds = kfold_index(index, k=4, seed=1, groups=lambda key: key[-5])
    assert sorted(set(fold["val"].groups).pop() for fold in folds) == ["0", "1", "2", "3"]
    assert leak_rate(*kfold_index(index, k=3, seed=1, groups=None)[0].values()) > 0.5


@pytest.mark.parametrize("k", [1, 0, -3, 2.0, True, None])
def test_a_number_of_folds_below_two_is_refused(k: object) -> None:
    with pytest.raises(ValueError, match="expected a whole number of at least 2"):
        kfold_index(make_index(grid(1, 5, 1)), k=k, seed=1)


def test_more_folds_than_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="k=6: 5 groups do not fill so many folds"):
        kfold_index(make_index(grid(1, 5, 2)), k=6, seed=1)


def test_a_number_of_folds_far_beyond_the_videos_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="k=1000000000: 10 videos do not fill so many folds"):
        kfold_index(make_index(grid(1, 5, 2)), k=10**9, seed=1)


def test_folds_that_the_classes_cannot_fill_are_refused_with_what_they_fill() -> None:
    with pytest.raises(ValueError, match=r"k=6: 10 groups do not fill so many folds \(class by class they fill 5\)"):
        kfold_index(make_index(grid(2, 5, 1)), k=6, seed=1)


# Leaks


def test_the_leak_rate_counts_held_out_videos_whose_group_was_trained_on() -> None:
    index = make_index([("c", "1", "a"), ("c", "2", "a"), ("c", "3", "a"), ("c", "4", "b"), ("c", "5", "c")])
    assert leak_rate(index.select([0]), index.select([1, 2, 3, 4])) == 0.5
    assert leak_rate(index.select([3]), index.select([0, 1, 4])) == 0.0
    assert leak_rate(index.select([0]), index.select([])) == 0.0


def test_a_leak_names_the_group_both_parts_and_a_file_of_each() -> None:
    index = make_index([("c", "1", "film"), ("c", "2", "film"), ("c", "3", "b"), ("c", "4", "b"), ("c", "5", "x")])
    verify_split({"train": index.select([0, 1]), "val": index.select([2, 3])})
    with pytest.raises(LeakError) as caught:
        verify_split({"train": index.select([0, 2]), "val": index.select([1, 3, 4])})
    text = str(caught.value)
    assert "group 'film' stands in two parts (2 groups and 0 files do)" in text
    assert "train: data/1" in text
    assert "val: data/2" in text
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == text


def test_the_same_file_in_two_parts_is_a_leak() -> None:
    index = make_index(grid(1, 2, 1))
    with pytest.raises(LeakError, match=r"1 groups and 1 files do"):
        verify_split({"a": index, "b": index.select([1])})


@pytest.mark.parametrize(
    ("sizes", "fraction"), [([3] * 20, 0.2), ([1, 2, 3, 4, 5, 6, 7], 0.3), ([1] * 9, 0.5), ([8], 0.25)]
)
def test_the_naive_leak_rate_is_the_mean_over_all_splits_by_file(sizes: list[int], fraction: float) -> None:
    rows = [("c", f"{g}_{v}", str(g)) for g, size in enumerate(sizes) for v in range(size)]
    index, num_val = make_index(rows), round(fraction * len(rows))
    rng, rates = np.random.default_rng(0), []
    for _ in range(400):
        order = rng.permutation(len(rows))
        rates.append(leak_rate(index.select(order[num_val:]), index.select(order[:num_val])))
    assert naive_leak_rate(index, fraction) == pytest.approx(np.mean(rates), abs=0.03)


def test_the_naive_leak_rate_at_its_ends() -> None:
    index = make_index(grid(2, 3, 4))
    assert naive_leak_rate(index, 0.0) == 1.0
    assert naive_leak_rate(index, 1.0) == 0.0
    assert naive_leak_rate(make_index(grid(2, 3, 1)), 0.5) == 0.0


# The report


def test_the_report_prints_sizes_and_both_leak_rates() -> None:
    index = make_index(grid(4, 10, 5))
    report = describe_split(index, split_index(index, fractions=USUAL, seed=7), seed=7)
    naive = naive_leak_rate(index, 0.2)
    assert str(report).splitlines() == [
        "split with seed 7: 200 videos, in 40 groups",
        "  train: 160 videos (80.0%) in 32 groups, 80% to 80% of each class",
        "  val: 40 videos (20.0%) in 8 groups, 20% to 20% of each class",
        f"  leak: 0.0% of the videos of val have one of their group in train; in a random split by file {naive:.1%}",
    ]
    assert naive > 0.99


def test_the_report_is_plain_data_for_json() -> None:
    index = make_index(grid(2, 5, 2))
    report = describe_split(index, split_index(index, fractions=USUAL, seed=7), seed=7)
    facts = json.loads(json.dumps(report.as_dict()))
    assert facts["seed"] == 7
    assert facts["parts"][1] == {
        "name": "val",
        "num_videos": 4,
        "num_groups": 2,
        "share": 0.2,
        "class_shares": [0.2, 0.2],
        "absent_classes": [],
        "leak_rate": 0.0,
        "naive_leak_rate": pytest.approx(naive_leak_rate(index, 0.2)),
    }


def test_the_report_says_when_every_file_is_a_group_of_its_own() -> None:
    index = make_index(grid(2, 10, 1))
    lines = describe_split(index, split_index(index, fractions=USUAL, seed=1), seed=1).lines()
    assert "each a group of its own: neither file names nor groups= say what belongs together" in lines[0]


def test_the_report_counts_leaks_by_the_groups_that_were_given() -> None:
    index = make_index(grid(2, 10, 4))
    folders = {"train": index.select(range(0, 80, 2)), "test": index.select(range(1, 80, 2))}
    assert describe_split(index, folders).parts[1].leak_rate == 1.0
    assert describe_split(index, folders).lines()[0].startswith("split: 80 videos")
    by_parity = describe_split(index, folders, groups=lambda key: str(int(key[-5]) % 2))
    assert by_parity.parts[1].leak_rate == 0.0


def test_the_report_names_ten_absent_classes_and_counts_the_others() -> None:
    rows = [*grid(2, 10, 1), *((f"rare{n:02d}", f"r{n}", f"r{n}") for n in range(13))]
    index = make_index(rows)
    line = describe_split(index, split_index(index, fractions=USUAL, seed=1)).lines()[-1]
    assert line.startswith("  not in val: 'rare00', 'rare01'")
    assert line.endswith("'rare09' and 3 more classes")


def test_leaks_are_counted_against_the_largest_part_where_none_is_called_train() -> None:
    index = make_index(grid(2, 10, 2))
    report = describe_split(index, split_index(index, fractions={"a": 0.3, "b": 0.5}, seed=1))
    assert report.train == "b"
    assert [part.leak_rate for part in report.parts] == [0.0, None]
    assert sum(part.share for part in report.parts) == pytest.approx(0.8)


# The published lists


@pytest.fixture(scope="module")
def hmdb51(shared: Path) -> VideoIndex:
    names = [
        (listing.name.removesuffix("_test_split1.txt"), line.split()[0])
        for listing in sorted((shared / "splits/hmdb51").glob("*_test_split1.txt"))
        for line in listing.read_text().splitlines()
        if line.strip()
    ]
    classes, keys = [folder for folder, _ in names], [f"{folder}/{name}" for folder, name in names]
    return make_index(zip(classes, keys, group_videos(keys, classes).groups, strict=True))


@pytest.fixture(scope="module")
def ucf101(shared: Path) -> VideoIndex:
    lists = [shared / f"splits/ucf101/{kind}list01.txt" for kind in ("train", "test")]
    keys = [line.split()[0] for listing in lists for line in listing.read_text().splitlines() if line.strip()]
    return make_index(zip([key.split("/")[0] for key in keys], keys, group_videos(keys).groups, strict=True))


@pytest.mark.shared
def test_a_random_split_of_hmdb51_leaks_as_published(hmdb51: VideoIndex) -> None:
    assert naive_leak_rate(hmdb51, 0.2) == pytest.approx(0.9286, abs=0.0001)
    by_class = [f"{key.split('/')[0]}|{group}" for key, group in zip(hmdb51.keys, hmdb51.groups, strict=True)]
    grouped = replace(hmdb51, given_groups=TextColumn.from_texts(by_class))
    assert naive_leak_rate(grouped, 0.2) == pytest.approx(0.8287, abs=0.0001)
    drawn = [split_index(hmdb51, fractions=USUAL, seed=seed, groups=None) for seed in range(10)]
    rates = [leak_rate(parts["train"], parts["val"]) for parts in drawn]
    assert np.mean(rates) == pytest.approx(0.93, abs=0.01)


@pytest.mark.shared
def test_a_random_split_of_ucf101_leaks_as_published(ucf101: VideoIndex) -> None:
    assert naive_leak_rate(ucf101, 0.2) == pytest.approx(0.9972, abs=0.0001)


@pytest.mark.shared
@pytest.mark.parametrize("seed", range(5))
def test_hmdb51_splits_without_leak_and_with_every_class_on_both_sides(hmdb51: VideoIndex, seed: int) -> None:
    parts = split_index(hmdb51, fractions=USUAL, seed=seed)
    verify_split(parts)
    assert len(parts["val"]) / len(hmdb51) == pytest.approx(0.2, abs=0.02)
    assert len(class_counts(parts["train"])) == len(class_counts(parts["val"])) == 51
    largest = dict.fromkeys(hmdb51.class_names, 0)
    cells, counts = np.unique(
        [hmdb51.labels, np.unique(hmdb51.groups, return_inverse=True)[1]], axis=1, return_counts=True
    )
    for label, count in zip(cells[0], counts, strict=True):
        largest[hmdb51.class_names[label]] = max(largest[hmdb51.class_names[label]], int(count))
    whole, val = class_counts(hmdb51), class_counts(parts["val"])
    assert all(abs(val[name] - 0.2 * whole[name]) <= largest[name] for name in whole)


@pytest.mark.shared
def test_a_clip_added_to_hmdb51_hardly_moves_anything(hmdb51: VideoIndex) -> None:
    rows = list(zip(np.array(hmdb51.class_names)[hmdb51.labels].tolist(), hmdb51.keys, hmdb51.groups, strict=True))
    before = set(split_index(hmdb51, fractions=USUAL, seed=1)["val"].groups)
    rng, moved = random.Random(0), []
    for number in range(40):
        class_name, _, group = rng.choice(rows)
        added = (class_name, f"{class_name}/added", group if number % 2 else "a new source")
        after = set(split_index(make_index([*rows, added]), fractions=USUAL, seed=1)["val"].groups)
        moved.append(len((before ^ after) - {"a new source"}))
    assert max(moved) <= 1


@pytest.mark.shared
def test_ucf101_is_cut_evenly_in_every_class(ucf101: VideoIndex) -> None:
    parts = split_index(ucf101, fractions=USUAL, seed=1)
    report = describe_split(ucf101, parts, seed=1)
    assert report.num_groups == 2525
    low, high = report.parts[1].class_shares
    assert 0.17 < low <= high < 0.23
    assert report.parts[1].leak_rate == 0.0
