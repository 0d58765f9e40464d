from __future__ import annotations

from pathlib import Path

import pytest

from clipfeed.errors import ProbeError
from clipfeed.probe import CheckedVideo, check_video
from clipfeed.records import FoundVideo
from clipfeed.testing import (
    REFUSED_KINDS,
    VIDEO_KINDS,
    RefusedKind,
    VideoKind,
    damage_file,
    decode_bare,
    truncate_file,
    video_kind,
    write_numbered_video,
    write_rotated,
    write_size_change,
)


def found(path: Path) -> FoundVideo:
    return FoundVideo(key=path.name, class_name=None, size_bytes=path.stat().st_size, mtime_ns=0)


def check(path: Path) -> CheckedVideo:
    return check_video(str(path.parent), found(path))


@pytest.mark.parametrize("kind", VIDEO_KINDS, ids=lambda kind: kind.name)
def test_whole_files_are_confirmed(kind: VideoKind, tmp_path: Path) -> None:
    checked = check(kind.write(tmp_path))
    assert checked.key == f"{kind.name}{kind.extension}"
    assert checked.num_frames_decoded == checked.info.num_frames == kind.num_frames
    assert checked.is_count_right
    assert not checked.is_damaged
    assert checked.num_log_errors == 0
    assert checked.sizes == ((checked.info.height, checked.info.width),)


@pytest.mark.parametrize("name", ["mpeg4_avi", "h264_mp4", "h264_mkv"])
def test_damage_that_counting_does_not_see_is_found(name: str, tmp_path: Path) -> None:
    path = damage_file(video_kind(name).write(tmp_path), at=0.4, num_bytes=900)
    checked = check(path)
    assert checked.num_frames_decoded == len(decode_bare(path))
    assert checked.num_log_errors > 0
    if name == "h264_mp4":  # in the others whole frames are lost with their chunk's header, and only the log tells
        assert checked.is_damaged


@pytest.mark.parametrize("name", ["mpeg4_avi", "mpeg4_packed", "h264_faststart"])
def test_a_file_that_was_cut_off_is_found(name: str, tmp_path: Path) -> None:
    path = truncate_file(video_kind(name).write(tmp_path), 0.7)
    checked = check(path)
    assert checked.is_cut_off
    assert checked.is_damaged
    assert checked.num_frames_decoded == len(decode_bare(path)) < 61


def test_changes_of_size_are_listed_in_order(tmp_path: Path) -> None:
    assert check(write_size_change(tmp_path / "a.ts")).sizes == ((96, 160), (192, 320))


def test_rotation_and_variable_rate_stand_in_the_info(tmp_path: Path) -> None:
    assert check(write_rotated(tmp_path / "a.mp4", 90)).info.rotation == 90
    assert check(video_kind("h264_variable_rate_mp4").write(tmp_path)).info.is_variable_rate


@pytest.mark.parametrize("kind", REFUSED_KINDS, ids=lambda kind: kind.name)
def test_what_cannot_be_used_is_refused_as_by_probing(kind: RefusedKind, tmp_path: Path) -> None:
    with pytest.raises(ProbeError):
        check(kind.write(tmp_path))


def test_checking_has_a_deadline(tmp_path: Path) -> None:
    path = write_numbered_video(tmp_path / "a.avi")
    with pytest.raises(ProbeError, match="not counted to its end within 0 s"):
        check_video(str(tmp_path), found(path), max_seconds=0)


@pytest.mark.shared
def test_genuine_clips_are_confirmed(shared: Path) -> None:
    for source in ("hmdb51", "ucf101", "kinetics"):
        for path in sorted((shared / "clips" / source).iterdir()):
            checked = check(path)
            assert checked.is_count_right, path.name
            assert not checked.is_damaged, path.name
