"""Splits stay what they are: who trained on one seed yesterday validates on the same videos tomorrow.

A change here moves videos between training and validation for everyone who keeps a seed, and makes runs that were
resumed leak. It needs a breaking entry in the changelog.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from clipfeed.records import TextColumn, VideoColumns, VideoIndex
from clipfeed.split import kfold_index, split_index

CLASSES = ("jump", "run", "日本")


def make_index(rows: list[tuple[str, str, str]]) -> VideoIndex:
    """An index of (class, key, group) rows."""
    classes, keys, groups = zip(*rows, strict=True)
    unread = {field.name: np.zeros(len(keys), np.int64) for field in dataclasses.fields(VideoColumns)}
    columns = VideoColumns(
        **{
            **unread,
            "keys": TextColumn.from_texts(keys),
            "groups": TextColumn.from_texts(groups),
            "class_codes": np.array([CLASSES.index(name) for name in classes], np.int32),
            "vocabulary": CLASSES,
        }
    )
    return VideoIndex(root="data", columns=columns, rows=np.arange(len(keys)), class_names=CLASSES)


def plain() -> VideoIndex:
    """Three classes of eight groups of one to four videos."""
    return make_index(
        [
            (name, f"{name}/g{group}_{video}.avi", f"{name}/g{group}")
            for name in CLASSES
            for group in range(8)
            for video in range(1 + group % 4)
        ]
    )


def spanning() -> VideoIndex:
    """Twelve sources, of which two thirds have videos of two or three classes."""
    return make_index(
        [
            (name, f"{name}/film{film}_{video}.avi", f"film{film}")
            for place, name in enumerate(CLASSES)
            for film in range(12)
            if (film + place) % 3 or film % 4 == 0
            for video in range(1 + (film * 7 + place) % 5)
        ]
    )


def groups_of(part: VideoIndex) -> list[str]:
    return sorted(set(part.groups))


def test_a_split_by_groups_of_one_class_is_frozen() -> None:
    parts = split_index(plain(), fractions={"train": 0.8, "val": 0.2}, seed=1)
    assert groups_of(parts["val"]) == ["jump/g3", "jump/g4", "run/g0", "run/g4", "run/g6", "日本/g1", "日本/g3"]


def test_another_seed_gives_another_frozen_split() -> None:
    parts = split_index(plain(), fractions={"train": 0.8, "val": 0.2}, seed=2)
    assert groups_of(parts["val"]) == ["jump/g2", "jump/g5", "run/g0", "run/g6", "日本/g3"]


def test_a_split_by_groups_that_span_classes_is_frozen() -> None:
    parts = split_index(spanning(), fractions={"train": 0.7, "val": 0.3}, seed=1)
    assert groups_of(parts["val"]) == ["film1", "film11", "film7", "film9"]


def test_a_split_in_three_is_frozen() -> None:
    parts = split_index(plain(), fractions={"train": 0.5, "val": 0.25, "test": 0.25}, seed=1)
    assert groups_of(parts["test"]) == ["jump/g3", "jump/g4", "run/g0", "run/g4", "run/g6", "日本/g1", "日本/g3"]
    assert groups_of(parts["val"]) == ["jump/g5", "jump/g6", "run/g5", "run/g7", "日本/g4", "日本/g6"]


def test_a_random_split_by_file_is_frozen() -> None:
    parts = split_index(plain(), fractions={"train": 0.9, "val": 0.1}, seed=1, groups=None)
    assert parts["val"].keys == [
        "jump/g6_2.avi",
        "jump/g7_3.avi",
        "run/g1_0.avi",
        "run/g4_0.avi",
        "日本/g3_1.avi",
        "日本/g4_0.avi",
    ]


def test_folds_are_frozen() -> None:
    folds = kfold_index(plain(), k=4, seed=1)
    assert [len(fold["val"]) for fold in folds] == [16, 15, 17, 12]
    assert groups_of(folds[2]["val"]) == ["jump/g0", "jump/g1", "jump/g2", "run/g1", "run/g2", "日本/g5", "日本/g7"]
