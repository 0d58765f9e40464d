"""An entry is a content below a name: wherever the data set lies, whenever it was written."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.cache import entries_of
from clipfeed.testing import make_tree


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("entries") / "data"
    make_tree(root, classes=("run", "walk"), sources_per_class=1, clips_per_source=2, num_frames=6)
    return root


@pytest.fixture
def index(root: Path, tmp_path: Path) -> cf.VideoIndex:
    return cf.build_index(root, index=tmp_path / "index")


def test_there_is_an_entry_for_each_row_with_its_frames_name_and_label(index: cf.VideoIndex) -> None:
    clips, videos = entries_of(index, 4), entries_of(index, None)
    assert len(clips) == len(index) == 4
    assert clips.num_frames.tolist() == [4, 4, 4, 4]
    assert videos.num_frames.tolist() == [6, 6, 6, 6]
    assert list(clips.keys) == index.keys
    assert list(clips.class_names) == ["run", "run", "walk", "walk"]
    assert len(set(clips.identities.tolist())) == 4


def test_a_data_set_that_was_copied_elsewhere_has_the_same_entries(
    root: Path, index: cf.VideoIndex, tmp_path: Path
) -> None:
    shutil.copytree(root, tmp_path / "moved é\n")
    for path in (tmp_path / "moved é\n").rglob("*.avi"):
        os.utime(path, (1, 1))
    moved = cf.build_index(tmp_path / "moved é\n", index=tmp_path / "index 2")
    assert np.array_equal(entries_of(moved, 4).identities, entries_of(index, 4).identities)


def test_one_content_under_two_names_is_two_entries_and_another_content_under_one_name_too(
    root: Path, index: cf.VideoIndex, tmp_path: Path
) -> None:
    copied = shutil.copytree(root, tmp_path / "data")
    first, second, *_ = index.keys
    shutil.copy(copied / first, copied / second)
    before, after = entries_of(index, 4), entries_of(cf.build_index(copied, index=tmp_path / "index 2"), 4)
    assert after.identities[0] == before.identities[0]
    assert after.identities[1] not in before.identities
    assert len(set(after.identities.tolist())) == 4


def test_a_part_of_an_index_has_the_entries_of_its_rows(index: cf.VideoIndex) -> None:
    whole, part = entries_of(index, None), entries_of(index.select([3, 1]), None)
    assert np.array_equal(part.identities, whole.identities[[3, 1]])
    taken = whole.take(np.array([3, 1]))
    assert np.array_equal(taken.identities, part.identities)
    assert list(taken.keys) == list(part.keys)
    assert list(taken.class_names) == list(part.class_names)
    assert taken.num_frames.tolist() == part.num_frames.tolist()


def test_intervals_are_entries_of_their_own_and_end_with_the_video(index: cf.VideoIndex) -> None:
    rows = index.rows[[0, 0, 0, 0]]
    cut = dataclasses.replace(
        index, rows=rows, starts=np.array([0, 2, 2, 5]), ends=np.array([-1, 5, 99, 4]), given_labels=None
    )
    entries = entries_of(cut, None)
    assert entries.num_frames.tolist() == [6, 3, 4, 0]
    assert entries.identities[0] == entries_of(index, None).identities[0]
    assert len(set(entries.identities.tolist())) == 4


def test_a_video_whose_content_is_not_known_is_an_entry_of_nothing(index: cf.VideoIndex) -> None:
    unread = np.array(index.columns.fingerprints)
    unread[1] = 0
    half = dataclasses.replace(index, columns=dataclasses.replace(index.columns, fingerprints=unread))
    none = dataclasses.replace(index, columns=dataclasses.replace(index.columns, fingerprints=None))
    assert (entries_of(half, 4).identities == b"").tolist() == [False, True, False, False]
    assert (entries_of(none, 4).identities == b"").all()


def test_another_count_of_frames_is_another_entry(index: cf.VideoIndex) -> None:
    counted = dataclasses.replace(index.columns, num_frames_from_decode=np.array([5, 6, 6, 6], np.int32))
    before, after = entries_of(index, 4), entries_of(dataclasses.replace(index, columns=counted), 4)
    assert (before.identities == after.identities).tolist() == [False, True, True, True]
