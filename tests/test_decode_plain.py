"""The plain decoder beyond the contract of all decoders: time limit, damage, threads, what it keeps."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from av.video.reformatter import VideoReformatter

from clipfeed._ffmpeg import OpenVideo
from clipfeed.decode import PlainDecoder, plain, work
from clipfeed.errors import DecodeError
from clipfeed.records import VideoRecord
from clipfeed.testing import (
    Encoding,
    damage_file,
    decode_bare,
    make_geometry,
    make_plan,
    make_record,
    paint_numbered_frame,
    read_frame_numbers,
    truncate_file,
    write_frames,
    write_numbered_video,
    write_packed_mpeg4,
)


def frames_of(record: VideoRecord, indices: list[int], size: tuple[int, int] = (48, 80)) -> np.ndarray:
    return PlainDecoder().decode(make_plan(record, indices), make_geometry(record, size)).frames


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> VideoRecord:
    path = write_packed_mpeg4(tmp_path_factory.mktemp("plain") / "packed.avi", num_frames=61)
    return make_record(path, num_frames=61)


def test_a_clip_that_takes_too_long_is_given_up_b6(record: VideoRecord) -> None:
    decoder = PlainDecoder(timeout_seconds=1e-9)
    with pytest.raises(DecodeError, match="longer than 1e-09 s") as caught:
        decoder.decode(make_plan(record, [3, 7]), make_geometry(record))
    assert caught.value.path == record.path
    assert "got 0" in str(caught.value)
    assert "timeout_seconds" in caught.value.remedy


@pytest.mark.parametrize("timeout_seconds", [0, -1, float("nan")])
def test_a_time_limit_that_is_none_is_refused(timeout_seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout_seconds="):
        PlainDecoder(timeout_seconds=timeout_seconds)


def test_each_frame_is_converted_once_however_often_it_is_asked_for(
    record: VideoRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Counter()
    write = plain.write_picture

    def counting(*arguments: object) -> None:
        written["pictures"] += 1
        write(*arguments)

    monkeypatch.setattr(plain, "write_picture", counting)
    frames = frames_of(record, [9, 3, 9, 9, 50, 3])
    assert read_frame_numbers(frames).tolist() == [9, 3, 9, 9, 50, 3]
    assert written["pictures"] == 3


def test_no_packet_is_decoded_behind_the_last_wanted_frame(
    record: VideoRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    decode = OpenVideo.decode

    def counting(video: OpenVideo, packet: object) -> object:
        sent.append(packet)
        return decode(video, packet)

    monkeypatch.setattr(OpenVideo, "decode", counting)
    frames_of(record, [0, 5])
    assert len(sent) < 12


def test_decoding_goes_on_behind_damage_c6(tmp_path: Path) -> None:
    pictures = (paint_numbered_frame(number) for number in range(300))
    encoding = Encoding(container_options={"movflags": "faststart"}, options={"g": "30"})
    path = damage_file(write_frames(tmp_path / "a.mp4", pictures, encoding=encoding))
    num_shown = len(decode_bare(path))
    assert num_shown > 240
    record = make_record(path, num_frames=num_shown)
    indices = [(2 * i + 1) * num_shown // 32 for i in range(16)]
    decoded = PlainDecoder().decode(make_plan(record, indices), make_geometry(record))
    expected = decode_bare(path)
    for frame, index in zip(decoded.frames, indices, strict=True):
        np.testing.assert_array_equal(frame, expected[index])
    shown = [indices[0], indices[-1] + 300 - num_shown]
    assert read_frame_numbers(decoded.frames[[0, -1]]).tolist() == shown


def test_damage_lasts_until_the_next_key_frame(tmp_path: Path) -> None:
    path = write_numbered_video(tmp_path / "a.avi", num_frames=100, options={"g": "20"})
    sound = decode_bare(path)
    shown = decode_bare(damage_file(path, num_bytes=40))
    record, decoder = make_record(path, num_frames=len(shown)), PlainDecoder()
    flags = [
        decoder.decode(make_plan(record, [index]), make_geometry(record)).num_corrupt for index in range(len(shown))
    ]
    first, lost = flags.index(1), len(sound) - len(shown)
    end = first + flags[first:].index(0)
    assert first > 0
    assert 0 < end - first <= 20
    for index, picture in enumerate(shown):
        is_sound = np.array_equal(picture, sound[index if index < first else index + lost])
        assert is_sound != bool(flags[index]), index
    assert not any(flags[end:])


def test_a_damaged_frame_counts_as_often_as_the_clip_shows_it(tmp_path: Path) -> None:
    path = damage_file(write_numbered_video(tmp_path / "a.avi", num_frames=100, options={"g": "20"}), num_bytes=40)
    record = make_record(path, num_frames=len(decode_bare(path)))
    whole = PlainDecoder().decode(make_plan(record, range(record.num_frames)), make_geometry(record))
    twice = PlainDecoder().decode(make_plan(record, [*range(record.num_frames)] * 2), make_geometry(record))
    assert twice.num_corrupt == 2 * whole.num_corrupt > 0


def test_the_message_names_file_time_frame_plan_and_remedy(tmp_path: Path) -> None:
    path = truncate_file(write_numbered_video(tmp_path / "a b.ts", num_frames=61), 0.5)
    record = make_record(path, num_frames=61)
    num_shown = len(decode_bare(path))
    with pytest.raises(DecodeError) as caught:
        frames_of(record, list(range(0, 61, 4)))
    missing = -(-num_shown // 4) * 4
    first, wanted, fix = str(caught.value).splitlines()
    assert first == f"{path}: no frame at {missing / 25:.3f} s (frame {missing} of 61, h264)"
    assert (
        wanted == f"  wanted 16 frames, every 4th from frame 0; got {missing // 4}; the file shows {num_shown} frames"
    )
    assert fix.startswith(f"  fix: run `clipfeed check '{path}'`; re-encode it, or pass errors=cf.ErrorPolicy(")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.stage) == (str(caught.value), "decode")


def test_a_frame_without_a_time_is_named_by_its_number(record: VideoRecord) -> None:
    untimed = replace(record, info=replace(record.info, average_fps=None))
    with pytest.raises(DecodeError, match=r": no frame 61 of 61 \(mpeg4\)\n  wanted 2 frames from 0 to 61; got 1"):
        frames_of(untimed, [0, 61])


def test_a_file_that_is_no_video_any_more_is_a_decode_error(tmp_path: Path) -> None:
    path = write_numbered_video(tmp_path / "a.mp4", num_frames=5)
    record = make_record(path, num_frames=5)
    path.write_text("not a video")
    stat = path.stat()
    record = replace(record, size_bytes=stat.st_size, mtime_ns=stat.st_mtime_ns)
    with pytest.raises(DecodeError) as caught:
        frames_of(record, [0])
    assert (caught.value.path, caught.value.stage) == (str(path), "decode")


def test_a_failed_conversion_names_the_frame_and_its_format(
    record: VideoRecord,
) -> None:
    too_wide = replace(make_geometry(record), scaled_width=1_000_000, width=1_000_000, scaled_height=1, height=1)
    with pytest.raises(DecodeError, match=r"frame at 0\.200 s \(frame 6 of 61, mpeg4\) cannot be converted") as caught:
        PlainDecoder().decode(make_plan(record, [6]), too_wide)
    assert "yuv420p" in caught.value.expected


def test_many_threads_give_what_one_gives(record: VideoRecord) -> None:
    decoder = PlainDecoder()
    sizes = [(48, 80), (64, 64), (96, 160), (33, 71)]

    def clip(number: int) -> np.ndarray:
        return decoder.decode(make_plan(record, [number, 60]), make_geometry(record, sizes[number % 4])).frames

    alone = [clip(number) for number in range(24)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(clip, range(24)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_thread_keeps_one_reformatter(record: VideoRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def making() -> VideoReformatter:
        made.append(VideoReformatter())
        return made[-1]

    monkeypatch.setattr(plain, "VideoReformatter", making)
    decoder = PlainDecoder()
    for _ in range(3):
        decoder.decode(make_plan(record, [0]), make_geometry(record))
    assert len(made) == 1
    with ThreadPoolExecutor(1) as pool:
        pool.submit(decoder.decode, make_plan(record, [0]), make_geometry(record)).result()
    assert len(made) == 2


def test_what_is_kept_of_a_large_video_is_small_a5(tmp_path: Path) -> None:
    """These frames would be 300 MB as decoded and 600 MB as RGB."""
    path = tmp_path / "large.avi"
    picture = np.zeros((2160, 3840, 3), np.uint8)
    write_frames(path, (picture for _ in range(24)), encoding=Encoding(codec="mpeg4", options={"g": "1000"}))
    code = f"""
import resource
from clipfeed.decode import PlainDecoder
from clipfeed.testing import make_geometry, make_plan, make_record
record = make_record({str(path)!r}, num_frames=24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
decoded = PlainDecoder().decode(make_plan(record, range(24)), make_geometry(record, (112, 112)))
assert decoded.frames.shape == (24, 112, 112, 3)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150_000  # KiB, as Linux counts


@pytest.mark.parametrize("frames_at_once", [0, -3])
def test_a_chunk_of_no_frames_is_refused_at_once(record: VideoRecord, frames_at_once: int) -> None:
    with pytest.raises(ValueError, match=f"frames_at_once={frames_at_once}: expected at least 1"):
        PlainDecoder().decode_chunks(make_plan(record, [0]), make_geometry(record), frames_at_once=frames_at_once)


def test_the_memory_of_a_chunk_is_used_again(record: VideoRecord) -> None:
    chunks = list(PlainDecoder().decode_chunks(make_plan(record, range(61)), make_geometry(record), frames_at_once=8))
    assert [len(chunk.frames) for chunk in chunks] == [8] * 7 + [5]
    assert all(np.shares_memory(chunk.frames, chunks[0].frames) for chunk in chunks)


def test_time_is_counted_anew_for_each_chunk_and_not_between_two(
    record: VideoRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(work, "time", SimpleNamespace(monotonic=lambda: now[0]))
    decode = OpenVideo.decode

    def slowly(video: OpenVideo, packet: object) -> object:
        now[0] += 1.0
        return decode(video, packet)

    monkeypatch.setattr(OpenVideo, "decode", slowly)
    decoder, plan, geometry = PlainDecoder(timeout_seconds=20), make_plan(record, range(61)), make_geometry(record)
    for _ in decoder.decode_chunks(plan, geometry, frames_at_once=8):
        now[0] += 100.0
    with pytest.raises(DecodeError, match="took longer than 20 s"):
        list(decoder.decode_chunks(plan, geometry, frames_at_once=40))
