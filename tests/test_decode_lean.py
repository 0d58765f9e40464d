"""The lean decoder gives what the plain one gives, and decodes less."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

import clipfeed as cf
from clipfeed._ffmpeg import OpenVideo, open_avi_header, open_container
from clipfeed.decode import LeanDecoder, PlainDecoder, lean, plain, references, timed
from clipfeed.decode.lean import _FAMILIES, _wanted
from clipfeed.decode.work import Clipwork, Deadline
from clipfeed.errors import DecodeError, ProbeError
from clipfeed.load import video_record
from clipfeed.records import ClipSpec, VideoRecord
from clipfeed.sample import plan_clip
from clipfeed.testing import (
    VIDEO_KINDS,
    VideoKind,
    damage_file,
    decode_bare,
    make_geometry,
    make_plan,
    make_record,
    truncate_file,
    video_kind,
    write_numbered_video,
)

SIZE = (64, 64)
# Of codecs that somebody here knows, and long enough for something to be left out.
LEAN_KINDS = [kind for kind in VIDEO_KINDS if kind.codec in _FAMILIES and kind.num_frames > 40]
MPEG4_KINDS = [kind for kind in VIDEO_KINDS if kind.codec == "mpeg4"]
# Their packets carry times that are made up, or are marked as hidden; or a decoder remembers damage.
PLAIN_KINDS = {"h264_avi_without_pts", "h264_edit_list", "h264_no_cabac"}
SAVING_KINDS = ["h264_short_gops", "h264_mp4", "mpeg4_avi", "mpeg4_packed", "mpeg2_ts", "mjpeg_avi"]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of all packets that any decoder is sent."""
    sizes: list[int] = []
    decode = OpenVideo.decode

    def noted(self: OpenVideo, packet: object) -> object:
        sizes.append(getattr(packet, "size", 0))
        return decode(self, packet)

    monkeypatch.setattr(OpenVideo, "decode", noted)
    return sizes


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of clips that were left to plain decoding."""
    paths: list[str] = []
    fill = PlainDecoder._fill_from

    def noted(self: PlainDecoder, work: Clipwork, *rest: object) -> None:
        if isinstance(self, LeanDecoder):
            paths.append(work.plan.record.path)
        fill(self, work, *rest)

    monkeypatch.setattr(PlainDecoder, "_fill_from", noted)
    return paths


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of all videos that are opened for decoding."""
    paths: list[str] = []
    for module in (lean, plain):

        def noted(record: VideoRecord, *rest: object, really: Callable[..., object] = module.opened) -> object:
            paths.append(record.path)
            return really(record, *rest)

        monkeypatch.setattr(module, "opened", noted)
    return paths


def plans_of(record: VideoRecord, seed: int = 0) -> list[list[int]]:
    rng, num_frames = np.random.default_rng(seed), record.info.num_frames
    plans = [[num_frames - 1], [num_frames // 2], [0, num_frames - 1], list(range(num_frames))]
    plans += [rng.integers(0, num_frames, count).tolist() for count in (2, 7)]
    for clip_frames in (20, 8, 1):
        for sampling in ("uniform", "stride", cf.Dense(frame_stride=2), cf.Segments(), cf.AtRate(fps=8)):
            spec = ClipSpec(num_frames=clip_frames, sampling=sampling, short_videos="wrap")
            plans.append(plan_clip(record, spec, rng=None).frame_indices.tolist())
            if not isinstance(sampling, str):
                plans.append(plan_clip(record, spec, rng=rng).frame_indices.tolist())
    return plans


def check_equal(record: VideoRecord, plans: Sequence[Sequence[int]]) -> None:
    geometry = make_geometry(record, SIZE)
    whole = PlainDecoder().decode(make_plan(record, range(record.info.num_frames)), geometry).frames
    for plan in plans:
        frames = LeanDecoder().decode(make_plan(record, plan), geometry).frames
        assert np.array_equal(frames, whole[list(plan)]), (record.path, plan)


@pytest.mark.parametrize("kind", LEAN_KINDS, ids=lambda kind: kind.name)
def test_frames_are_the_plain_decoders_and_most_come_leanly(
    kind: VideoKind, tmp_path: Path, plainly: list[str]
) -> None:
    record = video_record(kind.write(tmp_path))
    plans = plans_of(record)
    check_equal(record, plans)
    num_late = sum(max(plan) > 20 for plan in plans)
    num_plain = len(plainly) - (len(plans) - num_late)
    assert num_plain == num_late if kind.name in PLAIN_KINDS else num_plain <= num_late / 2.9


@pytest.mark.parametrize("kind", [kind for kind in VIDEO_KINDS if kind not in LEAN_KINDS], ids=lambda kind: kind.name)
def test_frames_of_other_videos_are_the_plain_decoders(kind: VideoKind, tmp_path: Path) -> None:
    record = video_record(kind.write(tmp_path))
    check_equal(record, plans_of(record)[:6])


@pytest.mark.parametrize("name", SAVING_KINDS)
def test_the_middle_and_the_end_of_a_video_come_with_fewer_packets(
    name: str, tmp_path: Path, sent: list[int], plainly: list[str]
) -> None:
    kind = video_kind(name)
    record = video_record(kind.write(tmp_path))
    wanted, geometry = make_plan(record, [kind.num_frames // 2, kind.num_frames - 1]), make_geometry(record, SIZE)
    PlainDecoder().decode(wanted, geometry)
    num_plain = len(sent)
    LeanDecoder().decode(wanted, geometry)
    assert not plainly
    assert len(sent) - num_plain < num_plain


@pytest.mark.parametrize("name", ["hevc_mp4", "vp8_webm", "vp9_webm", "av1_mp4", "prores_mov", "msmpeg4_avi"])
def test_other_codecs_are_decoded_plainly(name: str, tmp_path: Path, plainly: list[str]) -> None:
    record = make_record(video_kind(name).write(tmp_path), num_frames=61)
    check_equal(record, [[60]])
    assert plainly == [record.path]


@pytest.mark.parametrize(
    "name", ["h264_short_gops", "h264_ts", "mpeg1_mpg", "mpeg2_ts", "mpeg4_avi", "mpeg4_packed_runs", "mjpeg_avi"]
)
def test_damaged_videos_give_the_plain_decoders_frames(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    undamaged = video_kind(name).write(tmp_path)
    path = tmp_path / f"damaged{undamaged.suffix}"
    for number in range(4):
        path.write_bytes(undamaged.read_bytes())
        damage_file(path, at=float(rng.uniform(0.2, 0.9)), num_bytes=int(rng.integers(1, 40)))
        record = make_record(path, num_frames=len(decode_bare(path)))
        check_equal(record, plans_of(record, number)[:7])


@pytest.mark.parametrize("name", ["mpeg4_b_frames", "mpeg4_packed", "h264_ts", "mpeg2_mpg"])
def test_a_truncated_video_gives_the_plain_decoders_frames(name: str, tmp_path: Path) -> None:
    path = truncate_file(video_kind(name).write(tmp_path), 0.7)
    record = make_record(path, num_frames=len(decode_bare(path)))
    check_equal(record, plans_of(record))


def test_a_frame_that_the_video_does_not_have_is_the_plain_decoders_error(tmp_path: Path) -> None:
    for name in ("h264_short_gops", "mpeg4_packed", "mjpeg_avi"):
        record = make_record(video_kind(name).write(tmp_path), num_frames=62)
        errors = []
        for decoder in (PlainDecoder(), LeanDecoder()):
            with pytest.raises(DecodeError) as caught:
                decoder.decode(make_plan(record, [50, 61]), make_geometry(record))
            errors.append(str(caught.value))
        assert errors[0] == errors[1]


@pytest.mark.parametrize("name", SAVING_KINDS)
def test_early_clips_are_decoded_plainly(name: str, tmp_path: Path, plainly: list[str]) -> None:
    record = video_record(video_kind(name).write(tmp_path))
    check_equal(record, [[5]])
    assert plainly == [record.path]


@pytest.mark.parametrize("change", ["type", "time", "corrupt", "interlaced", "surplus", "missing"])
def test_a_frame_that_was_not_foreseen_is_decoded_plainly(
    change: str, tmp_path: Path, plainly: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "h264_short_gops" if change == "time" else "mpeg4_packed"
    record = video_record(video_kind(name).write(tmp_path))
    plan, geometry = make_plan(record, [30, 59]), make_geometry(record, SIZE)
    truth = PlainDecoder().decode(plan, geometry).frames
    decode = OpenVideo.decode

    class Changed:
        def __init__(self, frame: av.VideoFrame) -> None:
            self.pict_type = int(frame.pict_type) % 3 + 1 if change == "type" else frame.pict_type
            self.pts = -1 if change == "time" else frame.pts
            self.is_corrupt = change == "corrupt"
            self.interlaced_frame = change == "interlaced"

    def changed(self: OpenVideo, packet: object) -> object:
        frames = decode(self, packet)
        if plainly:
            return frames
        return {"surplus": frames * 2, "missing": []}.get(change, [Changed(frame) for frame in frames])

    monkeypatch.setattr(OpenVideo, "decode", changed)
    monkeypatch.setattr(lean, "write_picture", lambda *_: None)
    assert np.array_equal(LeanDecoder().decode(plan, geometry).frames, truth)
    assert plainly == [record.path]


@pytest.mark.parametrize(
    ("name", "level", "message", "is_plain"),
    [
        ("mpeg4_packed", av.logging.ERROR, "Error at MB: 9", True),
        ("mpeg4_packed", av.logging.WARNING, "Error at MB: 9", False),
        ("mpeg4_packed", av.logging.INFO, "concealing 9 DC, 9 AC, 9 MV errors in P frame", True),
        ("mpeg4_packed", av.logging.DEBUG, "MPEG motion vector out of boundary (9 9)", False),
        ("mpeg2_ts", av.logging.DEBUG, "MPEG motion vector out of boundary (9 9)", True),
    ],
)
def test_a_clip_that_ffmpeg_complains_about_is_decoded_plainly(
    name: str,
    level: int,
    message: str,
    is_plain: bool,
    tmp_path: Path,
    plainly: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = video_record(video_kind(name).write(tmp_path))
    monkeypatch.setattr(lean, "captured_log", lambda _: nullcontext([(level, "decoder", message)]))
    check_equal(record, [[60]])
    assert plainly == [record.path] * is_plain


@pytest.mark.parametrize("kind", [kind for kind in MPEG4_KINDS if kind.extension == ".avi"], ids=lambda kind: kind.name)
def test_an_avi_of_mpeg4_opened_by_its_header_gives_the_same_packets_and_frames(
    kind: VideoKind, tmp_path: Path
) -> None:
    path = str(kind.write(tmp_path))
    seen = []
    for open_video in (open_container, open_avi_header):
        with open_video(path, path=path) as video:
            packets = list(video.packets())
            frames = [frame.to_ndarray() for packet in [*packets, None] for frame in video.decode(packet)]
            seen.append(([bytes(packet) for packet in packets], frames))
    assert seen[0][0] == seen[1][0]
    assert len(seen[0][1]) == len(seen[1][1]) == kind.num_frames
    assert all(map(np.array_equal, seen[0][1], seen[1][1]))


def test_what_was_read_in_vain_is_not_read_again(tmp_path: Path, plainly: list[str], opened: list[str]) -> None:
    options = {"x264-params": "bframes=0:keyint=250:scenecut=0"}
    record = video_record(write_numbered_video(tmp_path / "a.mp4", options=options))
    plan, geometry = make_plan(record, [9, 50]), make_geometry(record, SIZE)
    truth = PlainDecoder().decode(plan, geometry).frames
    del opened[:]
    assert np.array_equal(LeanDecoder().decode(plan, geometry).frames, truth)
    assert (plainly, opened) == ([record.path], [record.path])


def test_after_the_first_packet_was_sent_decoding_begins_anew(
    tmp_path: Path, plainly: list[str], opened: list[str]
) -> None:
    kind = video_kind("h264_short_gops")
    record = make_record(kind.write(tmp_path), num_frames=62)
    with pytest.raises(DecodeError):
        LeanDecoder().decode(make_plan(record, [50, 61]), make_geometry(record))
    assert (plainly, opened) == ([record.path], [record.path] * 2)


def test_no_more_packets_than_a_limit_are_held(
    tmp_path: Path, plainly: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (lean, references, timed):
        monkeypatch.setattr(module, "MAX_HELD_BYTES", 2_000)
    for name in ("h264_mp4", "mpeg4_packed"):
        record = video_record(video_kind(name).write(tmp_path))
        check_equal(record, [[10, 40, 60]])
        assert plainly == [record.path]
        plainly.clear()


def test_the_ends_of_groups_are_worth_it_where_keys_stand_between_wanted_frames(tmp_path: Path) -> None:
    record = video_record(video_kind("h264_mp4").write(tmp_path))

    def saves_ends(indices: list[int], keys: list[int]) -> bool:
        info = replace(record.info, key_frames=np.array(keys, np.int64))
        plan = make_plan(replace(record, info=info), indices)
        work = Clipwork(
            plan=plan,
            geometry=make_geometry(record),
            place_of={index: place for place, index in enumerate(indices)},
            frames=np.empty(0, np.uint8),
            is_damaged=np.empty(0, np.bool_),
            deadline=Deadline(1),
        )
        return _wanted(work).saves_ends

    assert not saves_ends([99], [])
    assert not saves_ends([99], [0])
    assert saves_ends([99], [0, 50])  # 50 of 100
    assert not saves_ends([48, 99], [0, 50])  # 1
    assert saves_ends([10, 99], [0, 20, 90])
    assert not saves_ends([*range(100)], [0, 10, 20, 90])
    assert not saves_ends([40], [0, 50])


def test_time_runs_out_for_both_ways_together(tmp_path: Path, plainly: list[str]) -> None:
    record = video_record(video_kind("mpeg4_packed").write(tmp_path))
    with pytest.raises(DecodeError, match="took longer than 1e-09 s"):
        LeanDecoder(timeout_seconds=1e-9).decode(make_plan(record, [50]), make_geometry(record))
    assert not plainly


def test_pickles_as_what_it_is() -> None:
    assert repr(pickle.loads(pickle.dumps(LeanDecoder(timeout_seconds=5)))) == "LeanDecoder(timeout_seconds=5)"


@pytest.mark.shared
@pytest.mark.parametrize("source", ["clips/hmdb51", "clips/ucf101", "clips/kinetics"])
def test_genuine_clips_are_the_plain_decoders(source: str, shared: Path) -> None:
    for number, path in enumerate(sorted((shared / source).iterdir())):
        record = video_record(path)
        check_equal(record, plans_of(record, number)[::3])


@pytest.mark.shared
def test_training_clips_are_the_plain_decoders(shared: Path) -> None:
    for number, path in enumerate(sorted((shared / "train").rglob("*.avi"))[::6]):
        record = video_record(path)
        check_equal(record, plans_of(record, number)[number % 4 :: 8])


@pytest.mark.shared
@pytest.mark.parametrize("part", range(4))
def test_odd_files_are_the_plain_decoders(part: int, shared: Path) -> None:
    num_files = 0
    for path in sorted((shared / "clips" / "awkward").iterdir())[part::4]:
        try:
            record = video_record(path)
        except ProbeError:
            continue
        info = record.info
        if info.codec in _FAMILIES and info.num_frames * info.width * info.height < 100_000_000:
            check_equal(record, plans_of(record, part)[:7])
            num_files += 1
    assert num_files > 10
