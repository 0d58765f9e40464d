from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from clipfeed import records
from clipfeed.errors import ProbeError
from clipfeed.probe import probe_video
from clipfeed.records import FoundVideo, VideoInfo
from clipfeed.testing import (
    REFUSED_KINDS,
    VARIABLE_RATE_NUMBERS,
    VIDEO_KINDS,
    Encoding,
    RefusedKind,
    VideoKind,
    decode_bare,
    make_fifo,
    paint_numbered_frame,
    truncate_file,
    video_kind,
    write_frames,
    write_numbered_video,
    write_packed_mpeg4,
    write_rotated,
    write_size_change,
    write_without_packets,
)

# What the containers of odd kinds are called, and which tier must answer; every other kind is only counted.
TABLE_KINDS = {
    "h264_mp4", "h264_mov", "h264_short_gops", "h264_open_gops", "h264_faststart", "h264_full_range", "h264_named_avi",
    "h264_one_frame", "h264_edit_list", "h264_longer_audio", "h264_avi_without_pts", "hevc_mp4", "prores_mov",
    "mjpeg_avi", "mpeg4_avi", "mpeg4_b_frames", "mpeg4_b_frames_mp4", "mpeg4_packed", "mpeg4_packed_runs",
    "mpeg4_packed_named", "mpeg4_not_coded", "h264_untold_delay", "h264_no_cabac", "mjpeg_mov",
}  # fmt: skip
PACKET_KINDS = {
    "h264_mkv", "h264_ts", "h264_flv", "h264_fragmented", "h264_444", "h264_10_bit", "h264_delayed_start", "h264_cover",
    "h264_variable_rate_mp4", "h264_variable_rate_mkv", "hevc_mkv", "av1_mp4", "vp8_webm", "vp9_webm", "vp8_hidden",
    "vp9_hidden", "h264_closed_gops", "hevc_open_gops", "av1_short_gops", "vp8_short_gops", "vp9_short_gops",
}  # fmt: skip


def found(path: Path) -> FoundVideo:
    return FoundVideo(key=path.name, class_name=None, size_bytes=path.stat().st_size, mtime_ns=path.stat().st_mtime_ns)


def probe(path: Path) -> VideoInfo:
    return probe_video(str(path.parent), found(path))


def tier(info: VideoInfo) -> str:
    given = [name for name in ("table", "packets", "decode") if getattr(info, f"num_frames_from_{name}") is not None]
    assert len(given) == 1, "exactly one tier answers"
    return given[0]


# Counting


@pytest.mark.parametrize("kind", VIDEO_KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_counted_as_it_is_decoded(kind: VideoKind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    info = probe(path)
    assert info.num_frames == kind.num_frames == len(decode_bare(path))
    assert info.codec == kind.codec
    expected = "table" if kind.name in TABLE_KINDS else "packets" if kind.name in PACKET_KINDS else "decode"
    assert tier(info) == expected
    assert info.is_variable_rate == kind.is_variable_rate
    if kind.name not in ("flv1_flv", "wmv1_wmv", "wmv2_wmv", "gif"):  # these state another rate, or round it
        assert info.is_variable_rate or info.average_fps == kind.fps


def test_the_header_is_recorded_and_never_believed(tmp_path: Path) -> None:
    info = probe(write_packed_mpeg4(tmp_path / "a.avi", num_frames=40))
    assert info.num_frames_from_header == 41
    assert info.num_frames == info.num_frames_from_table == 40
    assert probe(write_numbered_video(tmp_path / "a.mkv", num_frames=5)).num_frames_from_header is None


def test_packed_and_plain_avi_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [
        video_kind(name).write(tmp_path)
        for name in ("mpeg4_packed", "mpeg4_packed_runs", "mpeg4_not_coded", "mpeg4_avi")
    ]

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("clipfeed._ffmpeg.OpenVideo.decode", refuse)
    monkeypatch.setattr("clipfeed._ffmpeg.OpenVideo.packets", refuse)
    assert [probe(path).num_frames for path in paths] == [61, 61, 61, 61]


def test_an_upright_mp4_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_numbered_video(tmp_path / "a.mp4")

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("clipfeed._ffmpeg.OpenVideo.decode", refuse)
    assert tier(probe(path)) == "table"


@pytest.mark.parametrize("num_frames", [1, 2, 5])
@pytest.mark.parametrize("name", ["a.mp4", "a.avi", "a.mkv", "a.webm", "a.mpg", "a.wmv", "a.gif"])
def test_the_shortest_videos_are_counted(name: str, num_frames: int, tmp_path: Path) -> None:
    path = write_numbered_video(tmp_path / name, num_frames=num_frames)
    assert probe(path).num_frames == num_frames == len(decode_bare(path))


def test_a_stream_that_begins_without_its_key_frame_is_counted_by_decoding(tmp_path: Path) -> None:
    source = write_numbered_video(tmp_path / "a.ts", num_frames=60, options={"g": "20", "bf": "2"})
    for dropped in ({0}, {0, 1, 2}):
        path = write_without_packets(tmp_path / f"b{len(dropped)}.ts", source, dropped)
        info = probe(path)
        assert info.num_frames == len(decode_bare(path)) < 60
        assert tier(info) == "decode"


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
def test_pictures_that_an_open_start_drops_are_not_counted(codec: str, tmp_path: Path) -> None:
    options = {"g": "20", "bf": "3"}
    if codec == "libx264":
        options |= {"x264-params": "open-gop=1:keyint=20:bframes=3:b-adapt=0:scenecut=0"}
    else:
        options |= {"x265-params": "open-gop=1:keyint=20:bframes=3:b-adapt=0:scenecut=0:log-level=none"}
    source = write_numbered_video(tmp_path / "a.mkv", num_frames=61, codec=codec, options=options)
    with av.open(str(source)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    second_key = [number for number, packet in enumerate(packets) if packet.is_keyframe][1]
    for name in ("b.mkv", "b.mp4"):
        path = write_without_packets(tmp_path / name, source, set(range(second_key)))
        assert probe(path).num_frames == len(decode_bare(path)), name


@pytest.mark.parametrize("fraction", [0.3, 0.6, 0.95])
@pytest.mark.parametrize(
    "name",
    [
        "mpeg4_packed",
        "mpeg4_avi",
        "mpeg4_not_coded",
        "h264_avi_without_pts",
        "h264_mkv",
        "h264_ts",
        "h264_faststart",
        "vp9_webm",
        "mpeg2_mpg",
    ],
)
def test_what_is_left_of_a_cut_off_file_is_counted_as_it_is_decoded(name: str, fraction: float, tmp_path: Path) -> None:
    path = truncate_file(video_kind(name).write(tmp_path), fraction)
    try:
        num_left = len(decode_bare(path))
    except av.FFmpegError:
        num_left = 0
    if num_left:
        assert probe(path).num_frames == num_left
    else:
        with pytest.raises(ProbeError, match=r"FFmpeg|none of its"):
            probe(path)


def test_a_lying_index_of_an_avi_is_not_believed(tmp_path: Path) -> None:
    path = video_kind("mpeg4_packed").write(tmp_path)
    data = bytearray(path.read_bytes())
    at = data.rfind(b"idx1") + 8
    for name, change in (("size", 12), ("position", 8), ("flags", 4), ("stream", 0)):
        for entry in (0, 20, 62):
            lying = bytearray(data)
            place = at + 16 * min(entry, (len(data) - at) // 16 - 1) + change
            lying[place] ^= 1
            other = tmp_path / f"{name}{entry}.avi"
            other.write_bytes(lying)
            assert probe(other).num_frames == len(decode_bare(other)), (name, entry)


def test_threads_get_the_same_answers_as_one(tmp_path: Path) -> None:
    paths = [
        video_kind(name).write(tmp_path)
        for name in ("mpeg4_packed", "mpeg4_not_coded", "h264_mp4", "vp9_hidden", "mpeg2_mpg")
    ]
    alone = [probe(path) for path in paths]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(probe, paths * 20))
    assert together == alone * 20


# Shape


def test_size_aspect_and_stream_are_those_of_a_decoded_frame(tmp_path: Path) -> None:
    pictures = (paint_numbered_frame(number, (97, 131)) for number in range(5))
    encoding = Encoding(pixel_format="yuv444p", sample_aspect_ratio=Fraction(2))
    info = probe(write_frames(tmp_path / "a.mp4", pictures, encoding=encoding))
    assert (info.height, info.width) == (97, 131)
    assert info.sample_aspect_ratio == 2
    assert info.display_size == (97, 262)
    assert info.container == "mov"
    assert info.stream_index == 0


def test_the_larger_cover_beside_a_video_is_not_taken_for_it(tmp_path: Path) -> None:
    info = probe(video_kind("h264_cover").write(tmp_path))
    assert (info.height, info.width) == (96, 160)


@pytest.mark.parametrize("name", ["a.mp4", "a.mov"])
@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_rotation_turns_frames_upright(rotation: int, name: str, tmp_path: Path) -> None:
    path = write_rotated(tmp_path / name, rotation, num_frames=6)
    info = probe(path)
    assert info.rotation == rotation
    assert tier(info) == "table"
    assert info.num_frames == 6
    stored = decode_bare(path)[3]
    assert (info.height, info.width) == stored.shape[:2]
    upright = np.rot90(stored, info.rotation // 90).astype(int)
    assert np.abs(upright - paint_numbered_frame(3)).mean() < 12
    assert info.display_size == upright.shape[:2]


def test_a_size_that_changes_is_reported_as_that_of_the_first_frame(tmp_path: Path) -> None:
    info = probe(write_size_change(tmp_path / "a.ts"))
    assert (info.height, info.width) == (96, 160)
    assert info.num_frames == 40


def test_key_frames_are_positions_among_the_packets(tmp_path: Path) -> None:
    for name in ("a.mp4", "a.mkv", "a.avi", "a.mpg"):
        path = write_numbered_video(tmp_path / name, num_frames=40, options={"g": "12", "bf": "0"})
        with av.open(str(path)) as container:
            packets = [packet for packet in container.demux(video=0) if packet.size]
        expected = [number for number, packet in enumerate(packets) if packet.is_keyframe]
        assert probe(path).key_frames.tolist() == expected
        assert len(expected) > 2


# Time


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_variable_rate_gives_the_time_of_every_frame(container: str, tmp_path: Path) -> None:
    info = probe(video_kind(f"h264_variable_rate_{container}").write(tmp_path))
    assert info.is_variable_rate
    assert info.frame_pts is not None
    assert info.frame_pts.dtype == np.int64
    seconds = (info.frame_pts - info.frame_pts[0]) * float(info.time_base)
    assert np.allclose(seconds, np.array(VARIABLE_RATE_NUMBERS) / 60, atol=1e-3)
    assert info.average_fps is not None
    assert abs(info.average_fps - Fraction(89, 1) / Fraction(237, 60)) < Fraction(1, 20)


@pytest.mark.parametrize(
    "fps", [Fraction(30000, 1001), Fraction(24000, 1001), Fraction(25), Fraction(60), Fraction(15)]
)
@pytest.mark.parametrize("name", ["a.mkv", "a.webm", "a.flv", "a.mp4", "a.ts", "a.avi"])
def test_rounded_times_are_no_variable_rate(name: str, fps: Fraction, tmp_path: Path) -> None:
    info = probe(write_numbered_video(tmp_path / name, num_frames=50, size=(32, 48), fps=fps))
    assert not info.is_variable_rate
    assert info.frame_pts is None
    assert info.average_fps is not None
    assert abs(info.average_fps - fps) < fps / 50


def test_frames_that_are_missing_make_a_rate_variable(tmp_path: Path) -> None:
    ticks = [*range(20), *range(25, 40)]
    pictures = [paint_numbered_frame(tick, (32, 48)) for tick in ticks]
    for name in ("a.mp4", "a.mkv", "a.ts"):
        info = probe(write_frames(tmp_path / name, pictures, ticks=ticks))
        assert info.is_variable_rate, name
        assert info.frame_pts is not None
        steps = np.diff(info.frame_pts) * float(info.time_base) * 25
        assert np.allclose(steps, np.diff(ticks), atol=0.03)


# Refusing


@pytest.mark.parametrize("kind", REFUSED_KINDS, ids=lambda kind: kind.name)
def test_what_is_no_video_is_refused_with_file_reason_and_remedy(kind: RefusedKind, tmp_path: Path) -> None:
    path = kind.write(tmp_path)
    expected = {
        "empty": r"is empty \(0 bytes\)",
        "text": r"holds text, not video \(\d+ bytes\)|holds text, not video \([\d,]+ bytes\)",
        "zeros": r"holds zeros instead of a video \(4,096 bytes\)",
        "without_moov": r"is an incomplete MP4: the moov box, which lists its frames, is missing \([\d,]+ bytes\)",
        "without_frames": r"has a video stream \(mpeg4\) without a single picture",
        "audio_only": "has no video stream, it holds audio",
    }[kind.name]
    with pytest.raises(ProbeError, match=expected) as caught:
        probe(path)
    assert caught.value.path == f"{tmp_path}/{path.name}"
    assert caught.value.stage == "probe"
    assert caught.value.remedy


def test_garbage_of_every_sort_is_refused_by_a_probe_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, 50_000, np.uint8).tobytes()
    heads = (
        b"",
        b"RIFF\x00\x10\x00\x00AVI ",
        b"\x00\x00\x00\x18ftypmp42",
        b"\x1aE\xdf\xa3",
        b"GIF89a",
        b"G" * 188,
        b"\x00\x00\x01\xba",
        b"FLV\x01",
    )
    for number, head in enumerate(heads):
        for size in (0, 3, 300, 50_000):
            path = tmp_path / f"{number}_{size}.avi"
            path.write_bytes(head + noise[:size])
            with pytest.raises(ProbeError):
                probe(path)


def test_fragments_of_a_stream_are_told_from_broken_downloads(tmp_path: Path) -> None:
    data = video_kind("h264_fragmented").write(tmp_path).read_bytes()
    path = tmp_path / "segment.mp4"
    path.write_bytes(data[data.index(b"moof") - 4 :])
    with pytest.raises(ProbeError, match="is a fragment of an MP4 stream without its header"):
        probe(path)


def test_a_fifo_a_folder_and_a_vanished_file_are_refused_at_once(tmp_path: Path) -> None:
    make_fifo(tmp_path / "fifo.mp4")
    (tmp_path / "folder.mp4").mkdir()
    for name in ("fifo.mp4", "folder.mp4", "gone.mp4"):
        with pytest.raises(ProbeError, match=name):
            probe_video(str(tmp_path), FoundVideo(key=name, class_name=None, size_bytes=10, mtime_ns=0))


def test_a_stream_that_cannot_be_decoded_is_refused_though_its_packets_can_be_read(tmp_path: Path) -> None:
    path = write_numbered_video(tmp_path / "a.mp4", codec="libvpx-vp9")
    with av.open(str(path)) as container:
        packets = [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]
    data = bytearray(path.read_bytes())
    for position, size in packets:
        data[position : position + size] = bytes(size)
    path.write_bytes(data)
    with pytest.raises(ProbeError, match=r"none of its 61 packets can be decoded \(vp9"):
        probe(path)


def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    for name in ("vp9_webm", "mpeg2_mpg"):
        path = video_kind(name).write(tmp_path)
        with pytest.raises(ProbeError, match="not counted to its end within 0 s"):
            probe_video(str(tmp_path), found(path), max_seconds=0)


def test_nothing_is_kept_open_or_running(tmp_path: Path) -> None:
    path = video_kind("h264_mkv").write(tmp_path)
    files = Path("/proc/self/fd")
    probe(path)
    before = (len(list(files.iterdir())) if files.exists() else 0, threading.active_count())
    for _ in range(50):
        probe(path)
        with pytest.raises(ProbeError):
            probe_video(str(tmp_path), FoundVideo(key="none", class_name=None, size_bytes=1, mtime_ns=0))
    assert (len(list(files.iterdir())) if files.exists() else 0, threading.active_count()) == before


# Genuine files


def reference(shared: Path) -> list[dict[str, str]]:
    lines = (shared / "clips" / "REFERENCE.tsv").read_text("utf-8").splitlines()
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"), strict=False)) for line in lines[1:]]


@pytest.mark.shared
@pytest.mark.parametrize("source", ["hmdb51", "ucf101", "kinetics"])
def test_genuine_clips_are_counted_without_decoding(source: str, shared: Path) -> None:
    rows = [row for row in reference(shared) if row["path"].startswith(source)]
    assert rows
    for row in rows:
        info = probe(shared / "clips" / row["path"])
        assert info.num_frames == info.num_frames_from_table == int(row["frames"]), row["path"]
        assert (info.width, info.height) == (int(row["width"]), int(row["height"]))


def outcome(path: Path) -> int | str:
    try:
        return probe(path).num_frames
    except ProbeError as error:
        return "refused" if error.remedy else "refused without a remedy"


@pytest.mark.shared
def test_odd_files_are_counted_or_refused_as_the_reference_says(shared: Path) -> None:
    given = {row["path"]: outcome(shared / "clips" / row["path"]) for row in reference(shared)}
    wrong = {}
    for row in reference(shared):
        expected = int(row["frames"]) if row["readable"] == "yes" else "refused"
        if row["firm"] == "yes" and given[row["path"]] != expected:
            wrong[row["path"]] = given[row["path"]]
    # A cover picture in a sound file is no video here.
    assert wrong == {"awkward/fate-suite__video_mjpeg_Owner-iTunes_9.0.3.15.mp4": "refused"}


@pytest.mark.shared
def test_training_clips_are_counted_as_they_are_decoded(shared: Path) -> None:
    paths = sorted((shared / "train" / "ucf101").rglob("*.avi"))
    assert len(paths) == 216
    for path in paths[::6]:
        info = probe(path)
        assert info.num_frames == info.num_frames_from_table == len(decode_bare(path, size=(8, 8)))


def test_records_are_equal_only_if_counts_and_facts_are(tmp_path: Path) -> None:
    path = video_kind("mpeg4_packed").write(tmp_path)
    assert probe(path) == probe(path)
    assert isinstance(probe(path), records.VideoInfo)
