"""The folders that the documentation speaks of, small: its code runs beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clipfeed.testing import make_tree, truncate_file, write_numbered_video, write_rotated, write_variable_rate


@pytest.fixture(scope="session")
def data_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds every data set and video of the pages.

    HMDB51/      3 classes, 5 sources each, 2 clips a source, HMDB51's file names, 40 frames
    UCF101/      2 classes, 4 groups each, 2 clips a group, UCF101's file names
    actions/     train, val and test folders above the classes
    my_videos/   names that say nothing
    messy/       a usable file beside what is none
    jump.avi, phone.mp4 (turned by 90 degrees), screen.mkv (variable rate)
    """
    root = tmp_path_factory.mktemp("pages")
    classes = ("brush_hair", "cartwheel", "jump")
    make_tree(root / "HMDB51", classes=classes, sources_per_class=5, clips_per_source=2, naming="hmdb51", num_frames=40)
    make_tree(root / "UCF101", classes=("Archery", "Bowling"), naming="ucf101")
    for number, part in enumerate(("train", "val", "test")):
        make_tree(
            root / "actions",
            classes=(f"{part}/run", f"{part}/walk"),
            sources_per_class=2,
            naming="plain",
            first_video_number=100 * number,
        )
    make_tree(root / "my_videos", classes=("run", "walk"), sources_per_class=3, naming="plain")
    _make_mess(root / "messy")
    write_numbered_video(root / "jump.avi", num_frames=60)
    write_rotated(root / "phone.mp4", 90, num_frames=60)
    write_variable_rate(root / "screen.mkv")
    return root


def _make_mess(root: Path) -> None:
    make_tree(root, classes=("run", "walk"), sources_per_class=2, clips_per_source=1)
    truncate_file(write_numbered_video(root / "run" / "half.mp4"), 0.5)
    (root / "run" / "empty.avi").touch()
    (root / "walk" / "notes.mp4").write_text("not a video\n")
    (root / "walk" / ".DS_Store").touch()
    (root / "climb").mkdir()


@pytest.fixture
def beside_the_data(data_sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of one page: a copy, so that a page may write and break what it likes."""
    folder = tmp_path / "work"
    shutil.copytree(data_sets, folder)
    monkeypatch.chdir(folder)
    return folder
