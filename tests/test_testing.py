"""Numbers survive painting, coding and resizing, and every kind of video shows the frames that it says."""

from __future__ import annotations

import subprocess
import sys

import av
import numpy as np
import pytest

from clipfeed.testing import (
    MAX_FRAME_NUMBER,
    MAX_VIDEO_NUMBER,
    VIDEO_KINDS,
    Encoding,
    decode_bare,
    encoding_for,
    paint_numbered_frame,
    read_frame_number,
    read_frame_numbers,
    read_video_number,
    read_video_numbers,
    video_kind,
    write_frames,
    write_numbered_video,
)

NUMBERS = (0, 512, 0b1010101010, MAX_FRAME_NUMBER)
VIDEO_NUMBERS = (MAX_VIDEO_NUMBER, 1, 0b101010101010, 0)


@pytest.mark.parametrize("size", [(24, 24), (64, 64), (48, 80), (33, 130)])
@pytest.mark.parametrize("filter_name", ["AREA", "BILINEAR", "BICUBIC", "LANCZOS", "POINT", "GAUSS"])
def test_numbers_survive_resizing(size, filter_name):
    for number, video_number in zip(NUMBERS, VIDEO_NUMBERS, strict=True):
        picture = av.VideoFrame.from_ndarray(paint_numbered_frame(number, video_number=video_number))
        small = picture.reformat(height=size[0], width=size[1], interpolation=filter_name).to_ndarray()
        assert (read_frame_number(small), read_video_number(small)) == (number, video_number)


@pytest.mark.parametrize("scale", [lambda x: x, lambda x: x / 255, lambda x: x / 127.5 - 1, lambda x: (x - 90) / 60])
def test_numbers_are_read_from_any_linear_range(scale):
    picture = scale(paint_numbered_frame(679, (64, 64), video_number=3000).astype(np.float32)).astype(np.float16)
    assert (read_frame_number(picture), read_video_number(picture)) == (679, 3000)
    assert read_frame_number(picture[..., 0]) == 679
    assert read_frame_number(picture[..., :1]) == 679


def test_numbers_of_a_batch_come_in_its_shape():
    clips = np.stack([[paint_numbered_frame(t, (32, 40), video_number=b) for t in (3, 7, 9)] for b in (11, 12)])
    assert read_frame_numbers(clips).tolist() == [[3, 7, 9]] * 2
    assert read_video_numbers(clips).tolist() == [[11] * 3, [12] * 3]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda picture: np.full_like(picture, 128),
        lambda picture: np.rot90(picture),
        lambda picture: np.rot90(picture, 2),
        lambda picture: picture[:, ::-1],
        lambda picture: picture // 2 + paint_numbered_frame(6, picture.shape[:2]) // 2,
    ],
    ids=["gray", "turned", "upside down", "mirrored", "blended"],
)
def test_a_picture_that_is_no_whole_numbered_frame_is_refused(spoil):
    with pytest.raises(ValueError, match=r"no numbered frame|neither black nor white"):
        read_frame_number(spoil(paint_numbered_frame(5, (64, 64))))


@pytest.mark.parametrize("arguments", [{"number": 1024}, {"number": -1}, {"number": 0, "video_number": 4096}])
def test_a_number_that_bars_cannot_spell_is_refused(arguments):
    with pytest.raises(ValueError, match="bars spell 0 to"):
        paint_numbered_frame(**arguments)


@pytest.mark.parametrize("kind", VIDEO_KINDS, ids=lambda kind: kind.name)
def test_a_bare_decode_of_every_kind_gives_its_numbers_in_order(kind, tmp_path):
    path = kind.write(tmp_path)
    frames = np.stack(decode_bare(path, size=(64, 64)))
    assert read_frame_numbers(frames).tolist() == list(kind.numbers)
    with av.open(str(path), metadata_errors="replace") as video:
        assert video.streams.best("video").codec_context.codec.canonical_name == kind.codec


def test_kinds_have_names_of_their_own_and_are_found_by_them():
    assert len({kind.name for kind in VIDEO_KINDS}) == len(VIDEO_KINDS)
    assert all(video_kind(kind.name) is kind for kind in VIDEO_KINDS)
    with pytest.raises(ValueError, match="h264_mp4"):
        video_kind("nothing")


def test_an_edit_list_hides_frames_that_are_in_the_file(tmp_path):
    with av.open(str(video_kind("h264_edit_list").write(tmp_path))) as video:
        packets = [packet for packet in video.demux(video=0) if packet.size]
    assert sum(packet.is_discard for packet in packets) == 10


def test_open_gops_start_with_pictures_that_refer_across_the_key(tmp_path):
    with av.open(str(video_kind("h264_open_gops").write(tmp_path))) as video:
        packets = [packet for packet in video.demux(video=0) if packet.size]
    keys = [place for place, packet in enumerate(packets) if packet.is_keyframe]
    assert len(keys) > 2
    assert all(packets[key + 1].pts < packets[key].pts for key in keys[1:-1])


def test_hidden_vp8_frames_have_packets_that_show_nothing(tmp_path):
    kind = video_kind("vp8_hidden")
    with av.open(str(kind.write(tmp_path))) as video:
        assert sum(packet.size > 0 for packet in video.demux(video=0)) == kind.num_frames + 3


def test_hidden_vp9_frames_stand_in_superframes(tmp_path):
    with av.open(str(video_kind("vp9_hidden").write(tmp_path))) as video:
        last_bytes = [bytes(packet)[-1] for packet in video.demux(video=0) if packet.size]
    assert [place for place, byte in enumerate(last_bytes) if byte >> 5 == 0b110] == [0, 19, 38]


def test_avi_with_b_frames_gives_times_that_are_not_in_order(tmp_path):
    with av.open(str(video_kind("h264_avi_without_pts").write(tmp_path))) as video:
        pts = [frame.pts for frame in video.decode(video=0)]
    assert pts != sorted(pts)


def test_frames_are_shown_at_their_ticks(tmp_path):
    pictures = [paint_numbered_frame(number) for number in range(4)]
    path = write_frames(tmp_path / "a.mkv", pictures, fps=10, ticks=[5, 6, 9, 20])
    with av.open(str(path)) as video:
        assert [round(frame.time, 3) for frame in video.decode(video=0)] == [0.5, 0.6, 0.9, 2.0]


def test_a_video_carries_its_number_size_and_rate(tmp_path):
    path = write_numbered_video(tmp_path / "a.avi", num_frames=5, size=(48, 66), fps=30, video_number=77)
    frames = decode_bare(path)
    assert {frame.shape for frame in frames} == {(48, 66, 3)}
    assert [read_video_number(frame) for frame in frames] == [77] * 5
    with av.open(str(path)) as video:
        assert video.streams.video[0].average_rate == 30


def test_tag_and_shape_of_pixels_are_written(tmp_path):
    encoding = Encoding(codec="mpeg4", tag="XVID", sample_aspect_ratio=2)
    path = write_frames(tmp_path / "a.avi", [paint_numbered_frame(0)] * 2, encoding=encoding)
    with av.open(str(path)) as video:
        stream = video.streams.video[0]
        assert (stream.codec_context.codec_tag, stream.sample_aspect_ratio) == ("XVID", 2)


def test_an_extension_that_stands_for_no_codec_is_refused():
    with pytest.raises(ValueError, match=r"'\.xyz'.*\.avi"):
        encoding_for("a.xyz")


def test_no_frames_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no frames to write"):
        write_numbered_video(tmp_path / "a.mp4", num_frames=0)


def test_videos_are_the_same_bytes_each_time(tmp_path):
    first = write_numbered_video(tmp_path / "a.mp4", num_frames=20).read_bytes()
    assert write_numbered_video(tmp_path / "b.mp4", num_frames=20).read_bytes() == first


def test_importing_needs_neither_pytest_nor_a_framework():
    frameworks = {"pytest", "keras", "tensorflow", "torch", "jax"}
    code = f"import sys, clipfeed.testing; print(sorted({frameworks} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
