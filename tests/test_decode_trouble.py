"""What a decoder says when a clip cannot be had."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from clipfeed.decode.trouble import check_unchanged, describe_indices, frame_missing
from clipfeed.errors import DecodeError, StaleIndexError
from clipfeed.testing import make_plan, make_record, write_numbered_video


@pytest.fixture
def video(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return write_numbered_video(tmp_path / "folder" / "a.mp4", num_frames=5)


def test_an_unchanged_file_passes(video: Path) -> None:
    check_unchanged(make_record(video, num_frames=5))


def test_a_file_of_another_size_or_time_is_stale_and_says_what_to_do(video: Path) -> None:
    record = make_record(video, num_frames=5)
    os.utime(video, ns=(record.mtime_ns, record.mtime_ns + 1))
    with pytest.raises(StaleIndexError, match="changed since it was indexed") as caught:
        check_unchanged(record)
    assert (caught.value.path, caught.value.stage) == (str(video), "decode")
    assert f"expected {record.size_bytes:,} bytes" in str(caught.value)
    assert "build_index" in caught.value.remedy
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with video.open("ab") as file:
        file.write(b"more")
    os.utime(video, ns=(record.mtime_ns, record.mtime_ns))
    with pytest.raises(StaleIndexError, match=f"found {record.size_bytes + 4:,}"):
        check_unchanged(record)


def test_a_vanished_file_is_stale(video: Path) -> None:
    record = make_record(video, num_frames=5)
    video.unlink()
    with pytest.raises(StaleIndexError, match="is gone since it was indexed"):
        check_unchanged(record)


def test_a_file_that_cannot_be_looked_at_is_a_decode_error_with_the_systems_words(video: Path) -> None:
    record = make_record(video, num_frames=5)
    video.unlink()
    video.parent.rmdir()
    video.parent.write_text("a file where a folder was")
    with pytest.raises(DecodeError, match="cannot be read: Not a directory"):
        check_unchanged(record)


def test_the_first_frame_that_is_missing_is_named_in_whatever_order_it_was_asked_for(video: Path) -> None:
    plan = make_plan(make_record(video, num_frames=9), [8, 2, 7, 2])
    error = frame_missing(plan, num_shown=5)
    assert error.problem == "no frame at 0.280 s (frame 7 of 9, h264)"
    assert error.expected == "wanted 4 frames from 2 to 8; got 2; the file shows 5 frames"


def test_a_frame_that_no_video_has_is_named_too(video: Path) -> None:
    plan = make_plan(make_record(video, num_frames=5), [-1, 2])
    assert frame_missing(plan, num_shown=5).problem == "no frame -1 of 5 (h264)"


def test_a_plan_is_described_as_one_would_say_it() -> None:
    assert describe_indices(np.arange(290, 322, 2)) == "16 frames, every 2nd from frame 290"
    assert describe_indices(np.arange(0, 90, 3)) == "30 frames, every 3rd from frame 0"
    assert describe_indices(np.arange(0, 121, 11)) == "11 frames, every 11th from frame 0"
    assert describe_indices(np.arange(0, 220, 22)) == "10 frames, every 22nd from frame 0"
    assert describe_indices(np.arange(7, 12)) == "5 frames from 7 to 11"
    assert describe_indices(np.array([3, 10, 11])) == "3 frames from 3 to 11"
    assert describe_indices(np.array([0, 61])) == "2 frames from 0 to 61"
    assert describe_indices(np.array([3])) == "1 frame from 3 to 3"
    assert describe_indices(np.array([4, 0, 1, 4])) == "4 frames from 0 to 4"
