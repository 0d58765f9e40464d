from __future__ import annotations

import contextlib
import gc
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import av.logging
import numpy as np
import pytest

from clipfeed._ffmpeg import Redrawer, captured_log, open_avi_header, open_container, write_video
from clipfeed.errors import ClipfeedError, DecodeError, ProbeError
from clipfeed.testing import (
    REFUSED_KINDS,
    RefusedKind,
    damage_file,
    make_fifo,
    video_kind,
    write_audio_only,
    write_avi,
    write_numbered_video,
    write_with_cover,
)
from clipfeed.testing.avi import AviHeader

LINUX_FILES = Path("/proc/self/fd")


def num_open_files() -> int:
    return len(list(LINUX_FILES.iterdir()))


def pictures(num_frames: int, size: tuple[int, int] = (48, 64)) -> list[np.ndarray]:
    return [np.full((*size, 3), 10 * number, np.uint8) for number in range(num_frames)]


def decode_count(path: Path) -> int:
    with av.open(str(path)) as container:
        return sum(1 for _ in container.decode(video=0))


# Opening


def test_an_open_video_names_its_container_and_its_codec_not_the_decoder(tmp_path: Path) -> None:
    for kind, container, codec in (
        ("av1_mp4", "mov", "av1"),
        ("vp9_webm", "matroska", "vp9"),
        ("mpeg4_avi", "avi", "mpeg4"),
    ):
        with open_container(str(video_kind(kind).write(tmp_path)), path=kind) as video:
            assert (video.container_name, video.codec_name, video.path) == (container, codec, kind)


def test_decoders_run_on_one_thread(tmp_path: Path) -> None:
    with open_container(str(write_numbered_video(tmp_path / "a.mp4")), path="a.mp4") as video:
        assert video.stream.thread_count == 1
        assert video.stream.thread_type == av.codec.context.ThreadType.NONE


def test_the_best_stream_is_taken_not_a_cover_that_comes_with_it(tmp_path: Path) -> None:
    path = write_with_cover(tmp_path / "a.mkv", num_frames=5)
    with open_container(str(path), path="a.mkv") as video:
        assert video.codec_name == "h264"
        assert not video.stream.disposition & av.stream.Disposition.attached_pic


def test_a_cover_alone_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "song.mp4"
    with av.open(str(path), "w") as out:
        audio = out.add_stream("aac", rate=48_000, layout="mono")
        cover = out.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 48, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        picture = av.VideoFrame.from_ndarray(pictures(1)[0], format="rgb24").reformat(format="yuvj420p")
        out.mux(cover.encode(picture))
        out.mux(cover.encode(None))
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 24_000), np.float32), format="fltp", layout="mono")
        sound.sample_rate, sound.pts = 48_000, 0
        out.mux(audio.encode(sound))
        out.mux(audio.encode(None))
    with pytest.raises(ProbeError, match="its only picture is an attached cover"):
        open_container(str(path), path="song.mp4")


def test_a_file_without_video_says_what_it_holds_instead(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match=r"shown\.mp4: has no video stream, it holds audio"):
        open_container(str(write_audio_only(tmp_path / "a.mp4")), path="shown.mp4")


def test_a_codec_without_decoder_is_named(tmp_path: Path) -> None:
    header = AviHeader(size=(48, 64), fps=Fraction(25), codec_tag="ZZZQ")
    path = write_avi(tmp_path / "a.avi", [(b"\x01" * 500, True)] * 5, header)
    with pytest.raises(ProbeError, match=r"has no decoder for its video: .*ZZZQ"):
        open_container(str(path), path="a.avi")


@pytest.mark.parametrize("kind", [kind for kind in REFUSED_KINDS if kind.name in ("empty", "text", "zeros")], ids=str)
def test_what_ffmpeg_does_not_know_is_a_probe_error_with_its_reason(kind: RefusedKind, tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="FFmpeg cannot open it: ") as caught:
        open_container(str(kind.write(tmp_path)), path="data/x.mp4")
    assert caught.value.path == "data/x.mp4"
    assert isinstance(caught.value.__cause__, av.FFmpegError)
    assert str(tmp_path) not in str(caught.value)


def test_a_fifo_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="is not a regular file"):
        open_container(str(make_fifo(tmp_path / "a.mp4")), path="a.mp4")


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="is not a regular file"):
        open_container(str(tmp_path), path="folder")
    with pytest.raises(ProbeError, match="No such file") as caught:
        open_container(str(tmp_path / "gone.mp4"), path="gone.mp4")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_playlist_in_disguise_opens_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "list.mp4"
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(ProbeError):
        open_container(str(path), path="list.mp4")


def test_a_file_object_can_be_read(tmp_path: Path) -> None:
    data = write_numbered_video(tmp_path / "a.mp4", num_frames=7).read_bytes()
    with open_container(io.BytesIO(data), path="memory") as video:
        assert sum(len(video.decode(packet)) for packet in [*video.packets(), None]) == 7


def test_names_that_look_like_options_protocols_or_patterns_are_only_names(tmp_path: Path) -> None:
    made = write_numbered_video(tmp_path / "a.mp4", num_frames=3).read_bytes()
    for name in ("-i.mp4", "100%d.mp4", "file:x.mp4", "a\nb.mp4", "日本 é#&?.mp4"):
        path = tmp_path / name
        path.write_bytes(made)
        with open_container(str(path), path=name) as video:
            assert sum(1 for _ in video.packets()) == 3


def test_metadata_that_is_not_utf8_is_no_obstacle(tmp_path: Path) -> None:
    path = video_kind("mpeg4_packed_named").write(tmp_path)
    with pytest.raises(UnicodeDecodeError):
        av.open(str(path))
    with open_container(str(path), path="a.avi") as video:
        assert video.codec_name == "mpeg4"


def test_packets_leave_out_the_empty_ones_that_end_a_stream(tmp_path: Path) -> None:
    with open_container(str(write_numbered_video(tmp_path / "a.mp4", num_frames=9)), path="a.mp4") as video:
        sizes = [packet.size for packet in video.packets()]
    assert len(sizes) == 9
    assert min(sizes) > 0


def test_a_packet_that_cannot_be_decoded_is_a_decode_error_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = damage_file(write_numbered_video(tmp_path / "a.mp4", num_frames=60, options={"g": "10"}), num_bytes=900)
    errors: list[DecodeError] = []
    frames = 0
    with open_container(str(path), path="a.mp4") as video:
        for packet in [*video.packets(), None]:
            try:
                frames += len(video.decode(packet))
            except DecodeError as error:
                errors.append(error)
    assert errors
    assert "a packet cannot be decoded: " in str(errors[0])
    assert isinstance(errors[0].__cause__, av.FFmpegError)
    assert frames > 30


def test_the_header_of_an_avi_says_the_same_when_it_is_opened_quickly(tmp_path: Path) -> None:
    for kind in ("mpeg4_avi", "mpeg4_packed", "mpeg4_not_coded", "h264_avi_without_pts", "mjpeg_avi"):
        path = str(video_kind(kind).write(tmp_path))
        with open_container(path, path=kind) as usual, open_avi_header(path, path=kind) as quick:
            facts = [
                (
                    video.codec_name,
                    video.container_name,
                    video.stream.codec_context.width,
                    video.stream.codec_context.height,
                    video.stream.codec_context.extradata,
                    video.stream.sample_aspect_ratio,
                    video.stream.average_rate,
                    video.stream.time_base,
                    video.stream.frames,
                    [(entry.pos, entry.size, entry.flags) for entry in video.stream.index_entries],
                )
                for video in (usual, quick)
            ]
        assert facts[0] == facts[1], kind


# Closing


def leave_by_break(path: str) -> None:
    with open_container(path, path="a") as video:
        for packet in video.packets():
            if video.decode(packet):
                break


def leave_by_error(path: str) -> None:
    with contextlib.suppress(ZeroDivisionError), open_container(path, path="a") as video:
        next(video.packets())
        raise ZeroDivisionError


def leave_in_mid_generator(path: str) -> None:
    with open_container(path, path="a") as video:
        packets = video.packets()
        next(packets)
    del packets


def refuse(path: str) -> None:
    with pytest.raises(ProbeError):
        open_container(path.replace("video.mp4", "audio.mp4"), path="a")


@pytest.mark.skipif(not LINUX_FILES.exists(), reason="counts open files in /proc")
@pytest.mark.parametrize("leave", [leave_by_break, leave_by_error, leave_in_mid_generator, refuse])
def test_no_file_stays_open_whatever_way_is_left(leave: Callable[[str], None], tmp_path: Path) -> None:
    path = str(write_numbered_video(tmp_path / "video.mp4", num_frames=8, size=(32, 48)))
    write_audio_only(tmp_path / "audio.mp4")
    leave(path)
    gc.collect()
    before = num_open_files()
    for _ in range(200):
        leave(path)
    assert num_open_files() <= before


# FFmpeg's log


def noisy_decode(path: Path) -> int:
    with open_container(str(path), path="a") as video:
        frames = 0
        for packet in [*video.packets(), None]:
            try:
                frames += len(video.decode(packet))
            except DecodeError:
                continue
        return frames


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = write_numbered_video(tmp_path / "a.mp4", num_frames=60, options={"g": "10"})
    return damage_file(path, at=0.4, num_bytes=900)


def test_ffmpeg_writes_nothing_to_stderr(damaged: Path, capfd: pytest.CaptureFixture[str]) -> None:
    noisy_decode(damaged)
    with captured_log():
        noisy_decode(damaged)
    assert capfd.readouterr().err == ""


def test_log_lines_are_collected_while_somebody_listens(damaged: Path, tmp_path: Path) -> None:
    clean = write_numbered_video(tmp_path / "clean.mp4", num_frames=20)
    with captured_log() as lines:
        noisy_decode(clean)
        assert len(lines) == 0
        noisy_decode(damaged)
        heard = len(lines)
        assert heard > 0
        assert all(level <= av.logging.ERROR for level, _, _ in lines)
    noisy_decode(damaged)
    assert len(lines) == heard


def test_each_thread_hears_its_own_lines_and_the_log_is_as_before_when_all_are_done(damaged: Path) -> None:
    with captured_log() as lines:
        noisy_decode(damaged)
    alone, heard = len(lines), []

    def listen() -> None:
        with captured_log() as own:
            noisy_decode(damaged)
        heard.append(len(own))

    threads = [threading.Thread(target=listen) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == [alone] * 4
    assert av.logging.get_level() is None
    assert av.logging.get_skip_repeated()


def test_a_level_that_the_application_chose_is_given_back() -> None:
    av.logging.set_level(av.logging.FATAL)
    try:
        with captured_log(), captured_log(av.logging.INFO):
            assert av.logging.get_level() == av.logging.INFO
        assert av.logging.get_level() == av.logging.FATAL
    finally:
        av.logging.set_level(None)


# Writing


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [
        ("a.mp4", "libx264", "yuv420p"),
        ("a.avi", "mpeg4", "yuv420p"),
        ("a.mkv", "ffv1", "yuv444p"),
        ("b.mp4", "libx265", "yuv420p"),
    ],
)
def test_a_written_video_has_the_frames_it_was_given(
    name: str, codec: str, pix_fmt: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert write_video(path, pictures(12), fps=Fraction(30000, 1001), codec=codec, pix_fmt=pix_fmt) == 12
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        decoded = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
        assert stream.average_rate == Fraction(30000, 1001)
    assert [round(float(frame.mean()) / 10) for frame in decoded] == list(range(12))
    assert capfd.readouterr().err == ""


def test_options_reach_encoder_and_muxer(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    options = {"g": "4", "bf": "0"}
    write_video(path, pictures(12), fps=25, codec_options=options, container_options={"movflags": "+faststart"})
    with av.open(str(path)) as container:
        keys = [packet.is_keyframe for packet in container.demux(video=0) if packet.size]
    assert keys == [True, False, False, False] * 3
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_the_same_frames_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.avi", "b.avi"):
        write_video(tmp_path / name, pictures(12), fps=25, codec="mpeg4")
    assert (tmp_path / "a.avi").read_bytes() == (tmp_path / "b.avi").read_bytes()


@pytest.mark.parametrize(
    ("frames", "options", "message"),
    [
        ([], {}, "needs at least one frame"),
        (pictures(2) + pictures(1, (32, 32)), {}, "frame 2 is 32 x 32 pixels, the first one was 64 x 48"),
        (pictures(2, (47, 63)), {}, "FFmpeg cannot write this with libx264"),
        (pictures(2), {"codec": "aac"}, "expected the name of a video encoder"),
        (pictures(2), {"codec": "nonsense"}, "nonsense"),
    ],
)
def test_what_cannot_be_written_is_a_value_error_and_leaves_no_file(
    frames: list[np.ndarray], options: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        write_video(tmp_path / "a.mp4", frames, fps=25, **options)
    assert not isinstance(caught.value, ClipfeedError)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_kept_until_the_new_one_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="nonsense"):
        write_video(path, pictures(2), fps=25, codec="nonsense")
    with pytest.raises(ValueError, match="pixels"):
        write_video(path, pictures(2) + pictures(1, (32, 32)), fps=25)
    assert path.read_bytes() == b"old"
    write_video(path, pictures(3), fps=25)
    assert decode_count(path) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.mp4"]


def test_an_error_of_the_caller_comes_out_as_it_is_and_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> object:
        yield from pictures(3)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        write_video(tmp_path / "a.mp4", broken(), fps=25)
    assert list(tmp_path.iterdir()) == []


def redrawn(path: Path, *, rotation: int = 0, size: tuple[int, int] = (48, 64)) -> list[av.VideoFrame]:
    """The frames of a video as pictures for an encoder, frame k shown at k * k / 1000 s."""
    height, width = size
    drawer = Redrawer(height=height, width=width, rotation=rotation, time_base=Fraction(1, 1000), path="a.mp4")
    with open_container(str(path), path="a.mp4") as video:
        frames = [frame for packet in (*video.packets(), None) for frame in video.decode(packet)]
    return [drawer.draw(frame, pts=k * k, duration=2 * k + 1) for k, frame in enumerate(frames)]


def test_pictures_are_written_at_their_own_times_with_their_colours(tmp_path: Path) -> None:
    write_numbered_video(tmp_path / "source.avi", num_frames=9)
    drawn = redrawn(tmp_path / "source.avi")
    assert {(frame.format.name, frame.height, frame.width) for frame in drawn} == {("yuv420p", 48, 64)}
    assert write_video(tmp_path / "a.mp4", drawn, fps=100, codec_options={"bf": "0"}) == 9
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        times = [frame.pts * stream.time_base for frame in container.decode(stream)]
        context = stream.codec_context
        assert (context.colorspace, context.color_range) == (6, 1)  # BT.601 (SMPTE 170M), limited
    assert times == [Fraction(k * k, 1000) for k in range(9)]


def test_a_picture_does_not_tell_the_encoder_where_its_source_had_key_frames(tmp_path: Path) -> None:
    write_numbered_video(tmp_path / "source.avi", num_frames=12, size=(48, 64), options={"g": "3"})
    options = {"g": "6", "bf": "0", "sc_threshold": "0"}
    write_video(tmp_path / "a.mp4", redrawn(tmp_path / "source.avi"), fps=25, codec_options=options)
    with av.open(str(tmp_path / "a.mp4")) as container:
        keys = [packet.is_keyframe for packet in container.demux(video=0) if packet.size]
    assert keys == [True, False, False, False, False, False] * 2


@pytest.mark.parametrize(("rotation", "corner"), [(0, (0, 0)), (90, (-1, 0)), (180, (-1, -1)), (270, (0, -1))])
@pytest.mark.parametrize(("codec", "pix_fmt"), [("libx264", "yuv420p"), ("ffv1", "bgr0"), ("ffv1", "gray")])
def test_pictures_are_turned_counter_clockwise(
    rotation: int, corner: tuple[int, int], codec: str, pix_fmt: str, tmp_path: Path
) -> None:
    scene = np.zeros((48, 64, 3), np.uint8)
    scene[:12, :16] = 255
    write_video(tmp_path / "a.mkv", [scene], fps=25, codec=codec, pix_fmt=pix_fmt)
    size = (64, 48) if rotation in (90, 270) else (48, 64)
    (picture,) = redrawn(tmp_path / "a.mkv", rotation=rotation, size=size)
    brightness = picture.to_ndarray()[: size[0]]
    assert brightness.shape == size
    assert brightness[corner] > 230
    assert sum(int(brightness[row, column] > 128) for row in (0, -1) for column in (0, -1)) == 1


def test_a_file_that_may_not_be_read_is_refused_with_the_systems_words(tmp_path: Path) -> None:
    path = write_numbered_video(tmp_path / "a.mp4", num_frames=2)
    path.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    # In a process of its own: root may read everything, so it gives that up.
    code = f"""
import os
from clipfeed._ffmpeg import open_container
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
open_container({str(path)!r}, path="a.mp4")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-2].startswith("clipfeed.errors.ProbeError: a.mp4: ")
    assert "ermission denied" in done.stderr.splitlines()[-2]
