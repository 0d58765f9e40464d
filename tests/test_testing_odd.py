"""Awkward and broken files are awkward and broken in the way they say."""

from __future__ import annotations

import stat

import av
import numpy as np
import pytest

from clipfeed.testing import (
    PATCH_COLOURS,
    REFUSED_KINDS,
    VARIABLE_RATE_NUMBERS,
    damage_file,
    decode_bare,
    make_fifo,
    make_geometry,
    make_plan,
    make_record,
    read_frame_number,
    read_frame_numbers,
    read_patches,
    truncate_file,
    write_colour_patches,
    write_numbered_video,
    write_rotated,
    write_size_change,
    write_untold_delay,
    write_variable_rate,
    write_with_audio,
    write_with_cover,
    write_without_packets,
)


def test_variable_rate_shows_each_number_at_its_sixtieth_of_a_second(tmp_path):
    assert len(VARIABLE_RATE_NUMBERS) == 90
    with av.open(str(write_variable_rate(tmp_path / "a.mp4"))) as video:
        times = {read_frame_number(frame.to_ndarray(format="rgb24")): frame.time for frame in video.decode(video=0)}
    assert list(times) == list(VARIABLE_RATE_NUMBERS)
    assert all(abs(time - number / 60) < 1e-4 for number, time in times.items())


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_rotated_video_is_upright_once_turned_as_the_file_says(rotation, tmp_path):
    path = write_rotated(tmp_path / "a.mp4", rotation, num_frames=4)
    with av.open(str(path)) as video:
        assert next(video.decode(video=0)).rotation % 360 == rotation
    stored = decode_bare(path)
    assert stored[0].shape == ((96, 160, 3) if rotation == 180 else (160, 96, 3))
    assert [read_frame_number(np.rot90(frame, rotation // 90)) for frame in stored] == [0, 1, 2, 3]


def test_size_changes_in_mid_stream(tmp_path):
    frames = decode_bare(write_size_change(tmp_path / "a.ts", num_frames=40))
    assert [frame.shape[:2] for frame in frames] == [(96, 160)] * 20 + [(192, 320)] * 20
    assert [read_frame_number(frame) for frame in frames] == list(range(40))


def test_a_stream_without_its_first_key_shows_only_what_comes_after_the_next(tmp_path):
    whole = write_numbered_video(tmp_path / "a.mkv", options={"x264-params": "keyint=12:scenecut=0:bframes=0"})
    headless = write_without_packets(tmp_path / "b.mkv", whole, {0})
    with av.open(str(headless)) as video:
        assert not next(packet for packet in video.demux(video=0)).is_keyframe
    assert [read_frame_number(frame) for frame in decode_bare(headless)] == list(range(12, 61))


def test_sound_lasts_longer_than_the_pictures(tmp_path):
    with av.open(str(write_with_audio(tmp_path / "a.mp4", num_frames=25, audio_seconds=4))) as video:
        streams = {stream.type: float(stream.duration * stream.time_base) for stream in video.streams}
    assert streams["video"] == pytest.approx(1.0)
    assert streams["audio"] == pytest.approx(4.0, abs=0.1)


def test_a_cover_is_a_second_video_stream_that_is_not_the_best(tmp_path):
    with av.open(str(write_with_cover(tmp_path / "a.mkv"))) as video:
        assert [stream.codec_context.name for stream in video.streams.video] == ["h264", "png"]
        assert video.streams.video[1].width > video.streams.video[0].width
        assert video.streams.best("video").index == 0


@pytest.mark.parametrize("codec", ["libx264", "libvpx-vp9"])
@pytest.mark.parametrize("color_range", ["tv", "pc", None])
@pytest.mark.parametrize("color_matrix", ["bt601", "bt709", None])
def test_colour_patches_come_back_as_painted(codec, color_range, color_matrix, tmp_path):
    path = tmp_path / "a.mkv"
    write_colour_patches(path, color_range=color_range, color_matrix=color_matrix, codec=codec)
    for frame in decode_bare(path):
        assert np.abs(read_patches(frame).astype(int) - PATCH_COLOURS).max() <= 4


def test_patches_of_different_matrices_are_coded_differently(tmp_path):
    planes = []
    for matrix in ("bt601", "bt709"):
        path = write_colour_patches(tmp_path / f"{matrix}.mkv", color_matrix=matrix)
        with av.open(str(path)) as video:
            planes.append(next(video.decode(video=0)).to_ndarray().astype(int))
    assert np.abs(planes[0] - planes[1]).max() > 10


def test_damage_in_the_middle_loses_and_spoils_some_frames_and_leaves_the_rest(tmp_path):
    path = write_numbered_video(tmp_path / "a.ts", num_frames=300, codec="libx264")
    damage_file(path, at=0.5, num_bytes=600)
    readable = []
    for frame in decode_bare(path):
        try:
            readable.append(read_frame_number(frame))
        except ValueError:
            continue
    assert 200 < len(readable) < 300
    assert {0, 100, 299} <= set(readable)


def test_a_truncated_video_shows_its_beginning(tmp_path):
    path = truncate_file(write_numbered_video(tmp_path / "a.ts"), 0.5)
    numbers = [read_frame_number(frame) for frame in decode_bare(path)]
    assert numbers[:10] == list(range(10))
    assert max(numbers) < 55


@pytest.mark.parametrize("kind", REFUSED_KINDS, ids=lambda kind: kind.name)
def test_refused_kinds_show_nothing(kind, tmp_path):
    path = kind.write(tmp_path)
    try:
        shown = decode_bare(path)
    except (ValueError, av.FFmpegError):
        shown = []
    assert shown == []


def test_a_fifo_is_one(tmp_path):
    assert stat.S_ISFIFO(make_fifo(tmp_path / "a.mp4").stat().st_mode)


def test_a_record_says_what_the_file_is(tmp_path):
    record = make_record(write_rotated(tmp_path / "a.mp4", 90, num_frames=7), num_frames=7)
    assert (record.path, record.num_frames) == (str(tmp_path / "a.mp4"), 7)
    info = record.info
    assert (info.container, info.codec, info.width, info.height, info.rotation) == ("mov", "h264", 96, 160, 90)
    assert info.display_size == (96, 160)
    geometry = make_geometry(record, (48, 80))
    assert (geometry.scaled_height, geometry.scaled_width, geometry.turned_size) == (80, 48, (48, 80))
    plan = make_plan(record, [5, 1])
    assert (plan.frame_indices.tolist(), plan.mask.tolist()) == ([5, 1], [True, True])


def test_no_record_of_a_file_without_video(tmp_path):
    kind = next(kind for kind in REFUSED_KINDS if kind.name == "audio_only")
    with pytest.raises(ValueError, match="no video stream"):
        make_record(kind.write(tmp_path), num_frames=1)


def test_packets_left_out_in_the_middle_are_missed_by_their_numbers_only(tmp_path):
    whole = write_numbered_video(tmp_path / "a.avi", codec="mjpeg", num_frames=9)
    frames = np.stack(decode_bare(write_without_packets(tmp_path / "b.avi", whole, {3, 4})))
    assert read_frame_numbers(frames).tolist() == [0, 1, 2, 5, 6, 7, 8]


def test_a_video_of_untold_delay_shows_its_frames_in_order_and_states_no_delay(tmp_path):
    path = write_untold_delay(tmp_path / "a.mp4", num_frames=40)
    assert read_frame_numbers(np.stack(decode_bare(path))).tolist() == list(range(40))
    with av.open(str(path)) as video:
        extradata = video.streams.video[0].codec_context.extradata
    size = int.from_bytes(extradata[6:8])
    assert extradata[8 : 8 + size].endswith(bytes(8))  # where the usability information was
