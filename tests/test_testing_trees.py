"""Trees are laid out and named like real data sets, and every file in them says which it is."""

from __future__ import annotations

import pytest

from clipfeed.testing import decode_bare, make_tree, read_frame_number, read_video_number


def test_every_file_spells_its_own_number(tmp_path):
    videos = make_tree(tmp_path, classes=("a", "b"), sources_per_class=2, clips_per_source=2, num_frames=7)
    assert [video.video_number for video in videos] == list(range(8))
    for video in videos:
        frames = decode_bare(video.path)
        assert [read_frame_number(frame) for frame in frames] == list(range(7))
        assert {read_video_number(frame) for frame in frames} == {video.video_number}


@pytest.mark.parametrize(
    ("naming", "keys"),
    [
        ("hmdb51", ["run/Film01_run_f_cm_np1_fr_med_0.avi", "run/Film01_run_f_cm_np1_fr_med_1.avi"]),
        ("ucf101", ["run/v_run_g01_c01.avi", "run/v_run_g01_c02.avi"]),
        ("plain", ["run/source00_clip0.avi", "run/source00_clip1.avi"]),
    ],
)
def test_names_follow_the_data_set(naming, keys, tmp_path):
    videos = make_tree(tmp_path, classes=("jump", "run"), sources_per_class=1, naming=naming, num_frames=2)
    assert [video.key for video in videos[2:]] == keys
    assert all((tmp_path / video.key).is_file() for video in videos)
    assert [(video.class_name, video.source) for video in videos] == [("jump", 0)] * 2 + [("run", 1)] * 2


def test_parts_stand_above_classes_and_numbers_go_on(tmp_path):
    first = make_tree(tmp_path, classes=("train/run",), sources_per_class=1, num_frames=2)
    second = make_tree(tmp_path, classes=("val/run",), sources_per_class=1, num_frames=2, first_video_number=len(first))
    assert second[0].key == "val/run/source00_clip0.avi"
    assert second[0].class_name == "run"
    assert [video.video_number for video in (*first, *second)] == [0, 1, 2, 3]
