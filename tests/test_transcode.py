"""Re-encoding keeps every frame, its time and its colour, and never touches what it was given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import clipfeed as cf
from clipfeed.decode import PlainDecoder
from clipfeed.errors import ClipfeedError
from clipfeed.load import load_clip, video_record
from clipfeed.records import VideoRecord
from clipfeed.sample import plan_clip
from clipfeed.testing import (
    PATCH_COLOURS,
    VIDEO_KINDS,
    Encoding,
    damage_file,
    decode_bare,
    make_tree,
    paint_numbered_frame,
    read_frame_numbers,
    read_patches,
    truncate_file,
    write_colour_patches,
    write_frames,
    write_numbered_video,
    write_rotated,
    write_size_change,
    write_variable_rate,
    write_with_audio,
)
from clipfeed.timing import times_of
from clipfeed.transcode import TranscodeReport, reencode, run
from clipfeed.transcode.output import Output
from clipfeed.transcode.settings import Settings

MANIFEST = ".clipfeed-transcode/manifest.jsonl"


def results(output: Path) -> list[str]:
    """Keys of all files with a final name."""
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("[!.]*") if path.is_file()
                  and ".clipfeed-transcode" not in path.parts)  # fmt: skip


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def transcode_one(path: Path, **options: int) -> tuple[VideoRecord, VideoRecord]:
    """Re-encode the only video of a folder; gives source and result."""
    output = path.parent.with_name(f"{path.parent.name}-out")
    report = cf.transcode_directory(path.parent, output, **options)
    assert report.left_out == ()
    return video_record(path), video_record(output / results(output)[0])


def clip_of(record: VideoRecord, size: tuple[int, int], num_frames: int = 3) -> np.ndarray:
    spec = cf.ClipSpec(num_frames=num_frames, image_size=size, short_videos="repeat_last")
    return load_clip(plan_clip(record, spec), spec, PlainDecoder()).frames


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((one.astype(float) - other) ** 2)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Four short videos of two classes."""
    make_tree(tmp_path / "data", classes=("run", "walk"), sources_per_class=2, clips_per_source=1, num_frames=12)
    return tmp_path / "data"


# Frames and times


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TranscodeReport]:
    """One video of each kind, and what became of them."""
    folder = tmp_path_factory.mktemp("kinds")
    for kind in VIDEO_KINDS:
        kind.write(folder)
    return folder, cf.transcode_directory(folder, folder.with_name("results"), gop=8, index=folder.with_name("index"))


@pytest.mark.parametrize("kind", VIDEO_KINDS, ids=lambda kind: kind.name)
def test_every_frame_of_every_kind_is_there_in_its_order_and_at_its_time(
    kind: object, every_kind: tuple[Path, TranscodeReport]
) -> None:
    folder, report = every_kind
    source = video_record(folder / f"{kind.name}{kind.extension}")
    result = video_record(Path(report.output, f"{kind.name}.mp4"))
    assert tuple(read_frame_numbers(np.stack(decode_bare(result.path)))) == kind.numbers
    num_frames = len(kind.numbers)
    assert result.info.num_frames == num_frames
    assert result.info.key_frames.tolist() == list(range(0, num_frames, 8))
    mine, theirs = times_of(source.info), times_of(result.info)
    assert theirs.seconds_at(range(num_frames)) == mine.seconds_at(range(num_frames))
    assert theirs.duration_seconds == mine.duration_seconds


def test_a_set_of_every_kind_has_nothing_left_out(every_kind: tuple[Path, TranscodeReport]) -> None:
    folder, report = every_kind
    assert report.left_out == report.odd == report.gone == ()
    assert report.num_made == len(VIDEO_KINDS)
    assert report.num_frames == sum(len(kind.numbers) for kind in VIDEO_KINDS)
    assert report.bytes_before == sum(path.stat().st_size for path in folder.iterdir())
    assert report.bytes_after == sum(Path(report.output, key).stat().st_size for key in results(Path(report.output)))


def test_a_result_is_plain_h264_without_b_frames_and_without_sound(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_with_audio(tmp_path / "data" / "a.mp4")
    _, result = transcode_one(tmp_path / "data" / "a.mp4", gop=5)
    with av.open(result.path) as container:
        (stream,) = container.streams
        assert (stream.codec.name, stream.pix_fmt, stream.codec_context.has_b_frames) == ("h264", "yuv420p", False)
        packets = [packet for packet in container.demux(stream) if packet.size]
    assert [packet.pts for packet in packets] == [packet.dts for packet in packets] == sorted(p.pts for p in packets)
    # Closed: an instantaneous refresh (NAL unit type 5), not just any intra picture.
    assert all((5 in nal_types(bytes(packet))) == (number % 5 == 0) for number, packet in enumerate(packets))


def nal_types(packet: bytes) -> set[int]:
    types, at = set(), 0
    while at < len(packet):
        types.add(packet[at + 4] & 31)
        at += 4 + int.from_bytes(packet[at : at + 4], "big")
    return types


@pytest.mark.parametrize("extension", [".mkv", ".mp4"])
def test_sampling_by_time_finds_the_same_frames_of_a_video_of_variable_rate(tmp_path: Path, extension: str) -> None:
    (tmp_path / "data").mkdir()
    write_variable_rate(tmp_path / "data" / f"screen{extension}")
    source, result = transcode_one(tmp_path / "data" / f"screen{extension}")
    assert result.info.is_variable_rate
    for fps in (1, 3, 10, 24):
        spec = cf.ClipSpec(num_frames=4, sampling=cf.AtRate(fps=fps))
        for seed in range(4):
            chosen = [plan_clip(video, spec, rng=np.random.default_rng(seed)) for video in (source, result)]
            assert chosen[0].frame_indices.tolist() == chosen[1].frame_indices.tolist()


def test_frames_that_share_a_time_are_kept_apart_by_less_than_a_unit(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "a.mkv"
    pictures = [paint_numbered_frame(number, (96, 160)) for number in range(8)]
    write_frames(path, pictures, fps=9000, ticks=(0, 360, 361, 1800, 1801, 2160, 3150, 4500))  # Matroska rounds to 1 ms
    source, result = transcode_one(path)
    assert np.any(np.diff(source.info.frame_pts) == 0)
    numbers = range(8)
    off = [b - a for a, b in zip(times_of(source.info).seconds_at(numbers),
                                 times_of(result.info).seconds_at(numbers), strict=True)]  # fmt: skip
    assert max(map(abs, off)) < source.info.time_base
    assert read_frame_numbers(np.stack(decode_bare(result.path))).tolist() == list(numbers)


@pytest.mark.parametrize("fps", [Fraction(30000, 1001), Fraction(25, 2), Fraction(997), Fraction(2880000, 95813)])
@pytest.mark.parametrize("num_frames", [1, 2, 5])
def test_short_videos_keep_odd_rates_exactly(tmp_path: Path, fps: Fraction, num_frames: int) -> None:
    (tmp_path / "data").mkdir()
    write_numbered_video(tmp_path / "data" / "a.mp4", num_frames=num_frames, fps=fps)
    source, result = transcode_one(tmp_path / "data" / "a.mp4")
    assert result.info.average_fps == source.info.average_fps == fps
    assert result.info.num_frames == num_frames


# Size, orientation, colour


@pytest.mark.parametrize(
    ("size", "short_side", "expected"),
    [
        ((96, 160), 256, (96, 160)),
        ((96, 160), 48, (48, 80)),
        ((160, 96), 48, (80, 48)),
        ((288, 352), 256, (256, 312)),
        ((96, 160), 47, (46, 78)),
        ((16, 400), 8, (8, 200)),
    ],
)
def test_results_are_even_small_enough_and_never_enlarged(
    tmp_path: Path, size: tuple[int, int], short_side: int, expected: tuple[int, int]
) -> None:
    (tmp_path / "data").mkdir()
    write_numbered_video(tmp_path / "data" / "a.avi", num_frames=2, size=size)
    _, result = transcode_one(tmp_path / "data" / "a.avi", short_side=short_side)
    assert (result.info.height, result.info.width) == expected


def test_an_odd_size_becomes_the_next_smaller_even_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_numbered_video(tmp_path / "data" / "a.avi", num_frames=2, size=(97, 161))
    _, result = transcode_one(tmp_path / "data" / "a.avi")
    assert (result.info.height, result.info.width) == (96, 160)


@pytest.mark.parametrize("rotation", [90, 180, 270])
@pytest.mark.parametrize("size", [(96, 160), (160, 96)])
def test_rotation_is_in_the_pixels(tmp_path: Path, rotation: int, size: tuple[int, int]) -> None:
    (tmp_path / "data").mkdir()
    path = write_rotated(tmp_path / "data" / "a.mp4", rotation, num_frames=5, size=size)
    source, result = transcode_one(path, crf=5)
    assert source.info.rotation == rotation
    assert (result.info.rotation, result.info.height, result.info.width) == (0, *size)
    assert read_frame_numbers(np.stack(decode_bare(result.path))).tolist() == [0, 1, 2, 3, 4]
    assert psnr(clip_of(source, size), clip_of(result, size)) > 35


def test_pixels_become_square(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    pictures = [paint_numbered_frame(number, (96, 160)) for number in range(3)]
    write_frames(tmp_path / "data" / "a.mp4", pictures, encoding=Encoding(sample_aspect_ratio=Fraction(2)))
    _, result = transcode_one(tmp_path / "data" / "a.mp4", short_side=64)
    assert (result.info.height, result.info.width, result.info.sample_aspect_ratio) == (64, 214, 1)


def test_a_video_whose_size_changes_becomes_one_of_one_size(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_size_change(tmp_path / "data" / "a.ts")
    _, result = transcode_one(tmp_path / "data" / "a.ts")
    frames = decode_bare(result.path)
    assert {frame.shape for frame in frames} == {(96, 160, 3)}
    assert read_frame_numbers(np.stack(frames)).tolist() == list(range(40))


@pytest.mark.parametrize("color_range", ["tv", "pc", None])
@pytest.mark.parametrize("color_matrix", ["bt601", "bt709", None])
@pytest.mark.parametrize("size", [(96, 160), (720, 1280)])
def test_colours_are_those_of_the_source_whatever_its_tags(
    tmp_path: Path, color_range: str | None, color_matrix: str | None, size: tuple[int, int]
) -> None:
    (tmp_path / "data").mkdir()
    path = write_colour_patches(
        tmp_path / "data" / "a.mp4", color_range=color_range, color_matrix=color_matrix, num_frames=2, size=size
    )
    source, result = transcode_one(path, short_side=90)
    before, after = (read_patches(clip_of(video, (90, 160))[0]).astype(int) for video in (source, result))
    assert np.abs(before - after).max() <= 4
    if color_matrix is not None or size == (96, 160):  # untagged HD is taken for BT.709, and was written as BT.601
        assert np.abs(after - PATCH_COLOURS).max() <= 5


@pytest.mark.parametrize(
    ("name", "codec", "pixel_format"),
    [
        ("gray.mkv", "ffv1", "gray"),
        ("gray_mjpeg.avi", "mjpeg", "yuvj444p"),
        ("gray10.mkv", "ffv1", "gray10le"),
        ("alpha.mkv", "ffv1", "yuva420p"),
        ("rgb_alpha.mov", "qtrle", "argb"),
        ("rgb.mkv", "ffv1", "bgr0"),
        ("planar_rgb.mp4", "libx264rgb", "rgb24"),
        ("palette.gif", "gif", "bgr8"),
        ("ten_bits.mkv", "ffv1", "yuv422p10le"),
    ],
)
@pytest.mark.parametrize("short_side", [256, 64])
def test_sources_of_any_pixel_format_keep_their_colours(
    tmp_path: Path, name: str, codec: str, pixel_format: str, short_side: int
) -> None:
    (tmp_path / "data").mkdir()
    columns = np.arange(160) * len(PATCH_COLOURS) // 160
    picture = np.broadcast_to(np.array(PATCH_COLOURS, np.uint8)[columns], (96, 160, 3))
    path = tmp_path / "data" / name
    write_frames(path, [picture] * 2, encoding=Encoding(codec=codec, pixel_format=pixel_format))
    source, result = transcode_one(path, short_side=short_side, crf=5)
    clips = (clip_of(video, (64, 160))[0].reshape(64, 8, 20, 3) for video in (source, result))
    before, after = (clip[:, :, 4:-4].mean((0, 2)) for clip in clips)  # a palette is dithered: the mean is its colour
    assert np.abs(before - after).max() <= 3


@pytest.mark.parametrize(("short_side", "decibel"), [(240, 33), (112, 28)])  # with hard edges, resized twice
def test_results_are_close_to_their_sources(tmp_path: Path, short_side: int, decibel: int) -> None:
    (tmp_path / "data").mkdir()
    scene = np.random.default_rng(0).integers(0, 256, (12, 20, 3), np.uint8).repeat(24, 0).repeat(24, 1)
    pictures = [np.roll(scene, 3 * number, axis=1)[:240, :320] for number in range(20)]
    path = write_frames(tmp_path / "data" / "a.avi", pictures, encoding=Encoding(codec="ffv1"))
    source, result = transcode_one(path, short_side=short_side)
    assert psnr(clip_of(source, (64, 64), 10), clip_of(result, (64, 64), 10)) > decibel


# Layout and names


def test_class_and_part_folders_are_kept_and_the_result_is_a_data_set_like_the_source(tmp_path: Path) -> None:
    for number, part in enumerate(("train", "val")):
        make_tree(tmp_path / "data", classes=(f"{part}/run", f"{part}/walk/deep"), sources_per_class=1,
                  first_video_number=10 * number)  # fmt: skip
    output = tmp_path / "new" / "out"
    report = cf.transcode_directory(tmp_path / "data", output)
    assert report.num_made == 8
    before, after = cf.build_index(tmp_path / "data"), cf.build_index(output)
    assert [key.replace(".avi", ".mp4") for key in before.keys] == after.keys
    assert (after.class_names, after.labels.tolist()) == (before.class_names, before.labels.tolist())
    assert {name: len(part) for name, part in after.folder_parts().items()} == {"train": 4, "val": 4}


def test_videos_that_differ_in_their_endings_keep_them(tmp_path: Path) -> None:
    for number, name in enumerate(("a.avi", "a.mp4", "b.mkv", "c.MP4", "d.2.avi")):
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True)
        write_numbered_video(path, num_frames=2, codec="mpeg4" if "avi" in name else "libx264", video_number=number)
    cf.transcode_directory(tmp_path / "data", tmp_path / "out")
    assert results(tmp_path / "out") == ["a.avi.mp4", "a.mp4", "b.mp4", "c.mp4", "d.2.mp4"]


def test_videos_that_cannot_be_told_apart_by_name_are_refused_before_any_work(tmp_path: Path) -> None:
    for name in ("a.avi", "a.mp4", "a.avi.mp4"):
        (tmp_path / "data").mkdir(exist_ok=True)
        write_numbered_video(tmp_path / "data" / name, num_frames=2)
    with pytest.raises(cf.LayoutError, match=r"'a.avi' and 'a.avi.mp4' would both become 'a.avi.mp4'"):
        cf.transcode_directory(tmp_path / "data", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_any_name_is_taken_as_it_is(tmp_path: Path) -> None:
    names = ["-x.avi", "100%d.avi", "é ü.avi", "file:y.avi", "z" * 240 + ".avi", os.fsdecode(b"\xff.avi"), "'q\".avi"]
    (tmp_path / "da ta").mkdir()
    for name in names:
        write_numbered_video(tmp_path / "tmp.avi", num_frames=2).replace(tmp_path / "da ta" / name)
    report = cf.transcode_directory(tmp_path / "da ta", tmp_path / "o%dut")
    assert report.left_out == ()
    assert results(tmp_path / "o%dut") == sorted(name.replace(".avi", ".mp4") for name in names)
    assert cf.transcode_directory(tmp_path / "da ta", tmp_path / "o%dut").num_kept == len(names)


# Doing it again


def test_a_second_run_makes_nothing_and_touches_nothing(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert cf.transcode_directory(root, output).num_made == 4
    before = contents(output)
    report = cf.transcode_directory(root, output)
    assert (report.num_made, report.num_kept, report.num_frames) == (0, 4, 48)
    assert contents(output) == before


def test_only_what_is_new_or_changed_or_gone_is_made_again(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    cf.transcode_directory(root, output)
    first, second, *_ = sorted(root.rglob("*.avi"))
    write_numbered_video(first, num_frames=7, size=(48, 64), video_number=9)
    write_numbered_video(root / "run" / "new.avi", num_frames=5, size=(48, 64))
    (output / second.relative_to(root).with_suffix(".mp4")).unlink()
    report = cf.transcode_directory(root, output)
    assert (report.num_made, report.num_kept, report.left_out) == (3, 2, ())
    assert len(decode_bare(output / first.relative_to(root).with_suffix(".mp4"))) == 7


def test_other_settings_make_all_of_it_again(root: Path, tmp_path: Path) -> None:
    cf.transcode_directory(root, tmp_path / "out")
    for number, change in enumerate(({"short_side": 32}, {"gop": 4}, {"crf": 30})):
        report = cf.transcode_directory(root, tmp_path / "out", **change)
        assert (report.num_made, report.num_kept) == (4, 0), number
    assert cf.transcode_directory(root, tmp_path / "out", crf=30).num_kept == 4


def test_a_moved_data_set_is_recognised_by_what_it_holds(root: Path, tmp_path: Path) -> None:
    cf.transcode_directory(root, tmp_path / "out")
    root.rename(tmp_path / "elsewhere")
    assert cf.transcode_directory(tmp_path / "elsewhere", tmp_path / "out").num_kept == 4


def test_results_of_sources_that_are_gone_are_named_and_left(root: Path, tmp_path: Path) -> None:
    cf.transcode_directory(root, tmp_path / "out")
    gone = sorted((root / "walk").iterdir())
    for path in gone:
        path.unlink()
    report = cf.transcode_directory(root, tmp_path / "out")
    assert report.gone == tuple(str(tmp_path / "out" / "walk" / path.with_suffix(".mp4").name) for path in gone)
    assert len(results(tmp_path / "out")) == 4


def test_a_class_without_a_result_is_named(root: Path, tmp_path: Path) -> None:
    for path in (root / "run").iterdir():
        path.write_text("no video")
    report = cf.transcode_directory(root, tmp_path / "out")
    assert report.lost_classes == ("run",)
    assert len(report.left_out) == 2


def test_a_file_that_is_not_ours_is_never_overwritten(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    cf.transcode_directory(root, output)
    first, second, third, *_ = [output / key for key in results(output)]
    first.write_bytes(b"mine")
    truncate_file(second, 0.5)
    third.unlink()
    third.symlink_to(tmp_path / "nowhere")
    report = cf.transcode_directory(root, output, crf=30)
    assert [failure.reason.split(" is ")[0] for failure in report.left_out] == [str(first), str(second), str(third)]
    assert first.read_bytes() == b"mine"
    assert third.is_symlink()
    assert report.num_made == 1


def test_a_manifest_whose_last_line_was_cut_off_costs_one_video(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    cf.transcode_directory(root, output, workers=1)
    manifest = output / MANIFEST
    lines = manifest.read_bytes().splitlines(keepends=True)
    (output / json.loads(lines[-1])["target"]).unlink()  # a line is written before its file gets the final name
    manifest.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    report = cf.transcode_directory(root, output)
    assert (report.num_made, report.num_kept, report.left_out) == (1, 3, ())
    assert cf.transcode_directory(root, output).num_kept == 4


# Interruptions

START = """
import os, signal, sys
from clipfeed.transcode import transcode_directory
signal.signal(signal.SIGINT, signal.default_int_handler)
stop_at = int(sys.argv[3])
def progress(done, total):
    if done == stop_at:
        os.kill(os.getpid(), signal.SIGINT)
transcode_directory(sys.argv[1], sys.argv[2], workers=2, progress=progress)
"""


def start(root: Path, output: Path, *, interrupt_at: int = 0) -> subprocess.Popen[bytes]:
    """Transcode in a process of its own, which presses Ctrl-C after so many videos."""
    return subprocess.Popen([sys.executable, "-c", START, root, output, str(interrupt_at)], stderr=subprocess.PIPE)


def wait_for_lines(process: subprocess.Popen[bytes], manifest: Path, number: int) -> None:
    """Wait until so many videos are finished, or all of them."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if manifest.is_file() and manifest.read_bytes().count(b"\n") >= number:
            return
        time.sleep(0.002)


def test_a_killed_run_leaves_whole_videos_only_and_the_next_one_finishes(tmp_path: Path) -> None:
    make_tree(tmp_path / "data", sources_per_class=3, clips_per_source=2, num_frames=40)
    cf.transcode_directory(tmp_path / "data", tmp_path / "whole")
    output = tmp_path / "out"
    for number in (1, 5, 9):
        process = start(tmp_path / "data", output)
        wait_for_lines(process, output / MANIFEST, number)
        process.kill()
        process.communicate()
        done = results(output)
        assert len(done) >= number - 1
        for key in done:
            assert (output / key).read_bytes() == (tmp_path / "whole" / key).read_bytes()
    report = cf.transcode_directory(tmp_path / "data", output)
    assert (report.num_made + report.num_kept, report.left_out) == (18, ())
    assert report.num_kept >= 8
    assert {path.name for path in (output / ".clipfeed-transcode").iterdir()} == {"manifest.jsonl"}


def test_ctrl_c_gives_up_a_long_video_and_keeps_what_is_finished(tmp_path: Path) -> None:
    make_tree(tmp_path / "data", classes=("a",), sources_per_class=1, clips_per_source=2, num_frames=12)
    (tmp_path / "data" / "b").mkdir()
    scene = np.random.default_rng(0).integers(0, 256, (90, 160, 3), np.uint8).repeat(8, 0).repeat(8, 1)
    pictures = (np.roll(scene, number, axis=1) for number in range(200))
    write_frames(tmp_path / "data" / "b" / "long.avi", pictures, encoding=Encoding(codec="mjpeg"))
    process = start(tmp_path / "data", tmp_path / "out", interrupt_at=2)
    _, errors = process.communicate(timeout=60)
    assert errors.rstrip().endswith(b"KeyboardInterrupt")
    assert [key.partition("/")[0] for key in results(tmp_path / "out")] == ["a", "a"]
    assert [path.name for path in (tmp_path / "out" / ".clipfeed-transcode").iterdir()] == ["manifest.jsonl"]


def test_a_full_disk_ends_the_run_with_one_message_and_keeps_what_is_finished(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = run.reencode_video, iter(range(100))

    def fill_up(*arguments: object) -> object:
        if next(calls) == 2:
            try:
                raise av.FFmpegError(28, "No space left on device")
            except av.FFmpegError as error:
                raise ValueError("FFmpeg cannot write this") from error
        return real(*arguments)

    monkeypatch.setattr(run, "reencode_video", fill_up)
    with pytest.raises(ClipfeedError, match="the disk is full; what is finished is kept") as caught:
        cf.transcode_directory(root, tmp_path / "out", workers=1)
    assert caught.value.path == str(tmp_path / "out")
    assert len(results(tmp_path / "out")) == 2
    assert cf.transcode_directory(root, tmp_path / "out").num_kept == 2


@pytest.mark.parametrize("fail_at", ["write", "finish"])
def test_a_result_that_cannot_get_its_line_or_its_name_is_not_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail_at: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    cf.build_index(root, labels=None)
    with monkeypatch.context() as patched:
        patched.setattr(*((os, "write", refuse) if fail_at == "write" else (Output, "finish", refuse)))
        report = cf.transcode_directory(root, tmp_path / "out")
    assert len(report.left_out) == 4
    assert "Input/output error" in report.left_out[0].reason
    assert results(tmp_path / "out") == []
    assert cf.transcode_directory(root, tmp_path / "out").num_made == 4


# What cannot be done


def test_what_is_wrong_with_a_source_is_listed_and_no_source_is_touched(root: Path, tmp_path: Path) -> None:
    for name, options in (("cut.avi", None), ("damaged.avi", {"g": "12"}), ("lost.avi", {"g": "12"}), ("no.mp4", None)):
        write_numbered_video(root / "run" / name, num_frames=61, options=options)
    truncate_file(root / "run" / "cut.avi", 0.5)
    truncate_file(root / "run" / "no.mp4", 0.5)
    damage_file(root / "run" / "damaged.avi", num_bytes=40)
    damage_file(root / "run" / "lost.avi", num_bytes=600)
    (root / "walk" / "empty.mp4").touch()
    before = contents(root)
    report = cf.transcode_directory(root, tmp_path / "out")
    assert contents(root) == before
    assert {Path(failure.path).name: failure.reason.partition(" (")[0] for failure in report.left_out} == {
        "empty.mp4": "is empty",
        "lost.avi": "shows 54 frames where 61 were counted",
        "no.mp4": "is an incomplete MP4: the moov box, which lists its frames, is missing",
    }
    remarks = {Path(odd.path).name: odd.remarks for odd in report.odd}
    assert remarks["damaged.avi"] == ("damaged frames: 12; the result shows them so, without their mark",)
    assert len(decode_bare(tmp_path / "out" / "run" / "cut.mp4")) == len(decode_bare(root / "run" / "cut.avi"))
    again = cf.transcode_directory(root, tmp_path / "out")
    assert (again.odd, again.left_out) == (report.odd, report.left_out)


def test_a_source_that_changes_meanwhile_is_left_out(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, changed = run.reencode_video, sorted(root.rglob("*.avi"))[1]

    def change(record: VideoRecord, *rest: object) -> object:
        made = real(record, *rest)
        if record.path == str(changed):
            write_numbered_video(changed, num_frames=9, size=(48, 64))
        return made

    monkeypatch.setattr(run, "reencode_video", change)
    report = cf.transcode_directory(root, tmp_path / "out")
    assert [(failure.path, failure.reason) for failure in report.left_out] == [
        (str(changed), "changed since it was indexed")
    ]
    assert len(results(tmp_path / "out")) == 3


@pytest.mark.parametrize(("claimed", "shown"), [(13, "12"), (11, "more than 11")])
def test_a_count_that_decoding_does_not_bear_out_is_an_error_of_that_file(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claimed: int, shown: str
) -> None:
    record = video_record(sorted(root.rglob("*.avi"))[0])
    info = replace(record.info, num_frames_from_table=claimed, num_frames_from_packets=None)
    with pytest.raises(cf.DecodeError, match=f"shows {shown} frames where {claimed} were counted"):
        reencode.reencode_video(replace(record, info=info), Settings(), tmp_path / "a.mp4", lambda: False)
    assert not (tmp_path / "a.mp4").exists()


def test_a_result_that_probing_finds_different_never_gets_its_name(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = reencode.probe_video

    def miscount(folder: str, found: object) -> object:
        info = real(folder, found)
        return replace(info, num_frames_from_table=info.num_frames - 1)

    monkeypatch.setattr(reencode, "probe_video", miscount)
    report = cf.transcode_directory(root, tmp_path / "out")
    assert [failure.reason for failure in report.left_out] == ["its result has 11 frames where the source has 12"] * 4
    assert results(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("data", "is the folder of the videos itself"),
        ("data/.", "is the folder of the videos itself"),
        ("link", "is the folder of the videos itself"),
        ("data/out", "lies inside the folder of the videos"),
        ("link/deep/er/out", "lies inside the folder of the videos"),
        (".", "holds the folder of the videos"),
        ("file", "is not a folder"),
        ("foreign", "holds files that this command did not make, such as 'notes.txt'"),
        ("file/out", "cannot be written"),
    ],
)
def test_an_output_folder_that_is_not_fit_is_refused_before_any_work(
    root: Path, tmp_path: Path, output: str, problem: str
) -> None:
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").touch()
    before = {path.name for path in tmp_path.rglob("*")}
    with pytest.raises(cf.LayoutError, match=problem) as caught:
        cf.transcode_directory(root, tmp_path / output)
    assert "fix: " in str(caught.value)
    assert {path.name for path in tmp_path.rglob("*")} == before


def test_a_folder_of_another_data_set_is_refused(root: Path, tmp_path: Path) -> None:
    make_tree(tmp_path / "other", classes=("jump",), sources_per_class=1)
    cf.transcode_directory(root, tmp_path / "out")
    with pytest.raises(cf.LayoutError, match="holds the videos of another data set"):
        cf.transcode_directory(tmp_path / "other", tmp_path / "out")


def test_a_source_that_is_a_link_into_the_output_folder_is_refused(root: Path, tmp_path: Path) -> None:
    cf.transcode_directory(root, tmp_path / "out")
    (root / "run" / "again.mp4").symlink_to(tmp_path / "out" / results(tmp_path / "out")[0])
    with pytest.raises(cf.LayoutError, match="is a link into the output folder"):
        cf.transcode_directory(root, tmp_path / "out")
    (root / "run" / "again.mp4").unlink()
    (root / "more").symlink_to(tmp_path / "out" / "run")
    with pytest.raises(cf.LayoutError, match="is a link into the output folder"):
        cf.transcode_directory(root, tmp_path / "out", follow_links=True)


def test_a_class_folder_of_the_output_that_leads_to_the_sources_is_not_followed(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    output = tmp_path / "out"
    cf.transcode_directory(root, output)
    for path in sorted((output / "run").iterdir()):
        path.unlink()
    (output / "run").rmdir()
    (output / "run").symlink_to(root / "run")
    report = cf.transcode_directory(root, output)
    assert len(report.left_out) == 2
    assert "leads out of the output folder by a link" in report.left_out[0].reason
    assert contents(root) == before


def test_two_runs_do_not_write_to_one_folder_at_a_time(root: Path, tmp_path: Path) -> None:
    refused: list[str] = []

    def begin_another(done: int, total: int) -> None:
        with pytest.raises(ClipfeedError, match="another process is writing videos there") as caught:
            cf.transcode_directory(root, tmp_path / "out")
        refused.append(str(caught.value))

    assert cf.transcode_directory(root, tmp_path / "out", progress=begin_another).num_made == 4
    assert len(refused) == 4


@pytest.mark.parametrize(
    "options",
    [{"short_side": 1}, {"short_side": 2.5}, {"gop": 0}, {"gop": True}, {"crf": 52}, {"crf": -1}, {"workers": 0}],
)
def test_numbers_that_cannot_be_are_refused_by_name(root: Path, tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))}="):
        cf.transcode_directory(root, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_missing_folder_and_an_empty_path_are_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(cf.LayoutError, match="no such folder"):
        cf.transcode_directory(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ValueError, match="output=''"):
        cf.transcode_directory(root, "")


# The report


def test_progress_counts_up_to_all_videos(root: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    cf.transcode_directory(root, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(number, 4) for number in range(1, 5)]


def test_the_speed_says_what_was_measured(root: Path, tmp_path: Path) -> None:
    report = cf.transcode_directory(root, tmp_path / "out")
    assert report.speed is not None
    assert (report.speed.num_videos, report.speed.clips.num_frames) == (4, 20)
    assert report.speed.clips_per_second_before > 0
    assert report.speed.gain == report.speed.clips_per_second_after / report.speed.clips_per_second_before
    assert "in one thread" in str(report.speed)


def test_no_more_videos_are_at_work_than_workers(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, at_work, most, lock = run.reencode_video, [0], [0], threading.Lock()

    def counted(*arguments: object) -> object:
        with lock:
            at_work[0] += 1
            most[0] = max(most[0], at_work[0])
        try:
            return real(*arguments)
        finally:
            with lock:
                at_work[0] -= 1

    monkeypatch.setattr(run, "reencode_video", counted)
    cf.transcode_directory(root, tmp_path / "out", workers=1)
    assert most == [1]


@pytest.mark.shared
def test_genuine_clips_keep_their_frames_and_look_like_before(shared: Path, tmp_path: Path) -> None:
    report = cf.transcode_directory(shared / "clips" / "kinetics", tmp_path / "out")
    assert report.left_out == ()
    for path in sorted((shared / "clips" / "kinetics").iterdir()):
        source, result = video_record(path), video_record(tmp_path / "out" / path.name)
        assert result.info.num_frames == source.info.num_frames
        assert psnr(clip_of(source, (112, 112), 8), clip_of(result, (112, 112), 8)) > 34
