"""Checking decodes everything and says what is wrong with which file."""

from __future__ import annotations

from pathlib import Path

import pytest

import clipfeed as cf
from clipfeed.testing import damage_file, make_tree, truncate_file, write_numbered_video, write_rotated


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_tree(tmp_path / "data", classes=("run",), sources_per_class=2, clips_per_source=2, num_frames=12)
    return tmp_path / "data"


def test_a_sound_folder_has_nothing_to_say(root: Path) -> None:
    report = cf.check_videos(root)
    assert (report.num_files, report.num_fine, report.num_frames) == (4, 4, 48)
    assert report.odd == report.unusable == ()


def test_damaged_rotated_and_unusable_files_are_named_with_what_is_wrong(root: Path) -> None:
    write_numbered_video(root / "run" / "damaged.avi", num_frames=61)
    damage_file(root / "run" / "damaged.avi")
    write_numbered_video(root / "run" / "cut.avi", num_frames=61)
    truncate_file(root / "run" / "cut.avi", 0.5)
    write_rotated(root / "run" / "turned.mp4", 90)
    (root / "run" / "empty.mp4").touch()
    report = cf.check_videos(root)
    remarks = {Path(odd.path).name: "; ".join(odd.remarks) for odd in report.odd}
    assert set(remarks) == {"damaged.avi", "cut.avi", "turned.mp4"}
    assert "cut off" in remarks["cut.avi"]
    assert "rotated by" in remarks["turned.mp4"]
    assert "damaged" in remarks["damaged.avi"] or "refused" in remarks["damaged.avi"]
    assert [Path(failure.path).name for failure in report.unusable] == ["empty.mp4"]
    assert report.num_fine == 4


def test_one_file_can_be_checked_by_its_path(root: Path) -> None:
    path = next((root / "run").iterdir())
    assert cf.check_videos(path).num_fine == 1


def test_progress_counts_up_to_all_files(root: Path) -> None:
    seen: list[tuple[int, int]] = []
    cf.check_videos(root, workers=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 4) for number in range(1, 5)]


def test_an_empty_path_and_what_is_no_flag_are_refused(root: Path) -> None:
    with pytest.raises(cf.LayoutError, match="the path is empty"):
        cf.check_videos("")
    with pytest.raises(ValueError, match="follow_links='no': expected True or False"):
        cf.check_videos(next((root / "run").iterdir()), follow_links="no")


def test_a_missing_folder_is_a_layout_error(tmp_path: Path) -> None:
    with pytest.raises(cf.LayoutError, match="nowhere"):
        cf.check_videos(tmp_path / "nowhere")
