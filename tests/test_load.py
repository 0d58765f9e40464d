"""One plan to one clip, and one file to one clip."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.decode import PlainDecoder
from clipfeed.load import load_clip, load_video, video_record
from clipfeed.records import ClipSpec, VideoInfo, VideoRecord
from clipfeed.sample import plan_clip
from clipfeed.testing import (
    REFUSED_KINDS,
    Encoding,
    RefusedKind,
    make_fifo,
    paint_numbered_frame,
    read_frame_number,
    read_frame_numbers,
    write_frames,
    write_numbered_video,
    write_packed_mpeg4,
    write_rotated,
)

UNIFORM_20_OF_61 = [(2 * i + 1) * 61 // 40 for i in range(20)]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_packed_mpeg4(tmp_path_factory.mktemp("load") / "jump.avi", num_frames=61)


def load_as(record: VideoRecord, spec: ClipSpec) -> np.ndarray:
    return load_clip(plan_clip(record, spec), spec, PlainDecoder()).frames


def test_a_clip_is_float_in_0_to_1_channels_last(video: Path) -> None:
    clip = cf.load_video(video)
    assert clip.shape == (20, 64, 64, 3)
    assert clip.dtype == np.float32
    assert 0 <= clip.min() < 0.1
    assert 0.9 < clip.max() <= 1
    assert read_frame_numbers(clip).tolist() == UNIFORM_20_OF_61


def test_the_pixels_are_those_of_a_datasets_clip(video: Path) -> None:
    spec = ClipSpec(num_frames=5, image_size=(48, 80))
    frames = load_as(video_record(video), spec)
    assert frames.dtype == np.uint8
    np.testing.assert_array_equal(load_video(video, num_frames=5, image_size=(48, 80), dtype="uint8"), frames)
    floats = load_video(video, num_frames=5, image_size=(48, 80))
    np.testing.assert_array_equal(floats, frames.astype(np.float32) / np.float32(255))


def test_dtype_and_range_are_those_asked_for(video: Path) -> None:
    pixels = load_video(video, num_frames=4, dtype="uint8")
    halves = load_video(video, num_frames=4, dtype="float16")
    signed = load_video(video, num_frames=4, value_range=(-1, 1))
    assert (pixels.dtype, halves.dtype, signed.dtype) == (np.uint8, np.float16, np.float32)
    np.testing.assert_array_equal(halves, (pixels.astype(np.float32) / np.float32(255)).astype(np.float16))
    np.testing.assert_array_equal(
        signed, np.float32(-1) + (pixels.astype(np.float32) / np.float32(255)) * np.float32(2)
    )


def test_channels_first_is_the_same_clip_turned(video: Path) -> None:
    last = load_video(video, num_frames=4)
    first = load_video(video, num_frames=4, data_format="channels_first")
    assert first.shape == (3, 4, 64, 64)
    assert first.flags.c_contiguous
    np.testing.assert_array_equal(np.moveaxis(first, 0, -1), last)


def test_grayscale_has_one_channel_of_full_range(video: Path) -> None:
    clip = load_video(video, num_frames=4, color_mode="grayscale", dtype="uint8")
    assert clip.shape == (4, 64, 64, 1)
    assert clip.min() < 8
    assert clip.max() > 247
    assert read_frame_numbers(clip).tolist() == [7, 22, 38, 53]


def test_a_policy_that_draws_at_random_takes_its_centre(video: Path) -> None:
    clip = load_video(video, num_frames=4, sampling=cf.Dense(frame_stride=3))
    assert read_frame_numbers(clip).tolist() == [25, 28, 31, 34]
    np.testing.assert_array_equal(
        load_video(video, num_frames=4, sampling=cf.Segments()), load_video(video, num_frames=4)
    )


def test_crop_cuts_the_centre_and_pad_puts_black_around(tmp_path: Path) -> None:
    picture = np.zeros((96, 160, 3), np.uint8)
    picture[:, :32] = (255, 0, 0)
    picture[:, 32:128] = (0, 255, 0)
    picture[:, 128:] = (0, 0, 255)
    path = write_frames(tmp_path / "a.mkv", [picture] * 2, encoding=Encoding(codec="ffv1", pixel_format="yuv444p"))
    cropped = load_video(path, num_frames=1, image_size=48, crop_to_aspect_ratio=True)[0]
    assert (cropped[:, 2:-2, 1] > 0.95).all()
    assert (cropped[:, :, ::2].max(axis=(0, 1)) < 0.6).all()  # at most a blend in the border columns
    padded = load_video(path, num_frames=1, image_size=80, pad_to_aspect_ratio=True)[0]
    assert (padded[:16] == 0).all()
    assert (padded[64:] == 0).all()
    assert (padded[16:64].max(axis=-1) > 0.4).all()
    assert (padded[16:64, 2:14, 0] > 0.95).all()
    assert (padded[16:64, 66:78, 2] > 0.95).all()


def test_stretch_shows_the_whole_picture_in_height_and_width_order(video: Path) -> None:
    clip = load_video(video, num_frames=2, image_size=(40, 100))
    assert clip.shape == (2, 40, 100, 3)
    assert read_frame_numbers(clip).tolist() == [15, 45]


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_rotated_video_comes_out_upright_in_every_aspect(tmp_path: Path, rotation: int) -> None:
    path = write_rotated(tmp_path / "a.mp4", rotation, num_frames=5)
    stretched = load_video(path, num_frames=1, image_size=(64, 64))
    assert read_frame_number(stretched[0]) == 2
    padded = load_video(path, num_frames=1, image_size=(160, 160), pad_to_aspect_ratio=True)[0]
    assert (padded[:32] == 0).all()
    assert read_frame_number(padded[32:128]) == 2
    cropped = load_video(path, num_frames=1, image_size=(48, 80), crop_to_aspect_ratio=True)[0]
    assert read_frame_number(cropped) == 2


def test_pixels_that_are_not_square_are_seen_when_the_aspect_is_kept_f4(tmp_path: Path) -> None:
    picture = paint_numbered_frame(3, (96, 160))
    encoding = Encoding(sample_aspect_ratio=Fraction(2))
    path = write_frames(tmp_path / "a.mp4", [picture] * 2, encoding=encoding)
    assert video_record(path).info.display_size == (96, 320)
    padded = load_video(path, num_frames=1, image_size=(160, 160), pad_to_aspect_ratio=True)[0]
    assert (padded[:56] == 0).all()
    assert (padded[104:] == 0).all()
    assert read_frame_number(padded[56:104]) == 3


@pytest.mark.parametrize(("short_videos", "shown"), [("repeat_last", [0, 1, 2, 2]), ("wrap", [0, 1, 2, 0])])
def test_a_short_video_is_extended_if_asked_for_d2(tmp_path: Path, short_videos: str, shown: list[int]) -> None:
    path = write_numbered_video(tmp_path / "a.mp4", num_frames=3)
    clip = load_video(path, num_frames=4, short_videos=short_videos)
    assert read_frame_numbers(clip).tolist() == shown


@pytest.mark.parametrize("short_videos", ["error", "drop"])
def test_a_short_video_is_an_error_with_both_numbers_otherwise(tmp_path: Path, short_videos: str) -> None:
    path = write_numbered_video(tmp_path / "a.mp4", num_frames=3)
    with pytest.raises(cf.ProbeError, match=r"3 frames.*num_frames=4") as caught:
        load_video(path, num_frames=4, short_videos=short_videos)
    assert caught.value.path == str(path)
    assert "repeat_last" in caught.value.remedy


def test_one_frame_of_a_one_frame_video_is_a_clip(tmp_path: Path) -> None:
    path = write_numbered_video(tmp_path / "a.avi", num_frames=1)
    assert load_video(path, num_frames=1).shape == (1, 64, 64, 3)
    assert load_video(path, num_frames=5, short_videos="wrap").shape == (5, 64, 64, 3)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"num_frames": 0}, "num_frames=0"),
        ({"image_size": (64, -1)}, "image_size="),
        ({"sampling": "even"}, "sampling="),
        ({"short_videos": "pad"}, "short_videos="),
        ({"interpolation": "cubic"}, "interpolation="),
        ({"color_mode": "bgr"}, "color_mode="),
        ({"dtype": "float64"}, "dtype="),
        ({"dtype": "uint8", "value_range": (0, 1)}, "value_range="),
        ({"data_format": "first"}, "data_format="),
        ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, "pad_to_aspect_ratio"),
    ],
)
def test_arguments_that_no_clip_can_have_are_refused_before_the_file_is_looked_at(
    choice: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_video("no/such/file.mp4", **choice)


def test_a_path_may_be_relative_absolute_a_path_or_a_link(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = load_video(video, num_frames=2)
    (video.parent / "link.avi").symlink_to(video)
    monkeypatch.chdir(video.parent.parent)
    for path in (
        str(video),
        f"{video.parent.name}/jump.avi",
        video.parent / "link.avi",
        f"./{video.parent.name}//jump.avi",
    ):
        np.testing.assert_array_equal(load_video(path, num_frames=2), expected)
    monkeypatch.chdir(video.parent)
    np.testing.assert_array_equal(load_video("jump.avi", num_frames=2), expected)


@pytest.mark.parametrize(
    "name", ["-x.mp4", "file:x.mp4", "100%d.mp4", "a b [1] (2) #&;!'\".mp4", "new\nline.mp4", "日本 é ü.mp4"]
)  # fmt: skip
def test_odd_names_are_only_names_h5_h6(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    write_numbered_video(tmp_path / "plain.mp4", num_frames=3).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert read_frame_numbers(load_video(name, num_frames=3)).tolist() == [0, 1, 2]
    assert video_record(name).path == name


@pytest.mark.parametrize("kind", REFUSED_KINDS, ids=lambda kind: kind.name)
def test_what_is_no_video_is_refused_with_its_path(kind: RefusedKind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    with pytest.raises(cf.ProbeError) as caught:
        load_video(path)
    assert caught.value.path == str(path)


def test_missing_files_folders_and_fifos_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(cf.ProbeError, match=r"gone\.mp4: cannot be read: No such file"):
        load_video(tmp_path / "gone.mp4")
    for folder in (tmp_path, f"{tmp_path}/"):
        with pytest.raises(cf.ProbeError, match="is not a regular file") as caught:
            load_video(folder)
        assert "video_dataset_from_directory" in caught.value.remedy
    with pytest.raises(cf.ProbeError, match="is not a regular file"):
        load_video(make_fifo(tmp_path / "pipe.mp4"))


def test_no_index_is_written(video: Path) -> None:
    before = sorted(video.parent.iterdir())
    load_video(video, num_frames=2)
    assert sorted(video.parent.iterdir()) == before
    assert list(Path(os.environ["XDG_CACHE_HOME"]).iterdir()) == []


def test_a_clip_is_written_into_the_row_it_is_given(video: Path) -> None:
    record = video_record(video)
    for aspect in ("stretch", "crop", "pad"):
        spec = ClipSpec(num_frames=3, image_size=(64, 48), aspect=aspect)
        batch = np.full((3, *spec.shape), 77, np.uint8)
        clip = load_clip(plan_clip(record, spec), spec, PlainDecoder(), out=batch[1])
        assert np.shares_memory(clip.frames, batch)
        np.testing.assert_array_equal(batch[1], load_as(record, spec))
        assert (batch[[0, 2]] == 77).all()


def test_no_file_stays_open_whatever_the_way_out_a8(video: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        load_video(video, num_frames=2)
        with pytest.raises(cf.ProbeError):
            load_video(text)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_record_of_a_file_is_the_one_an_index_would_hold(video: Path, tmp_path: Path) -> None:
    indexed = cf.build_index(video.parent, labels=None, index=tmp_path / "index").records
    own = video_record(video)
    same = next(record for record in indexed if record.key == "jump.avi")
    assert (own.key, own.path, own.video_id, own.size_bytes) == (same.key, same.path, same.video_id, same.size_bytes)
    assert isinstance(own.info, VideoInfo)
    assert own.info == same.info
