"""The lean decoder gives what the plain one gives, and decodes less."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import av
import numpy as np
import pytest

import clipfeed as cf
from clipfeed._ffmpeg import OpenVideo
from clipfeed.decode import LeanDecoder, PlainDecoder, lean
from clipfeed.decode.mpeg4 import B_VOP, I_VOP, NUM_ALWAYS_SENT, P_VOP, Stream, UnusualStreamError, Vop, needed
from clipfeed.errors import DecodeError
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
MPEG4_KINDS = [kind for kind in VIDEO_KINDS if kind.codec == "mpeg4"]


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
    """Paths of clips that were left to the plain decoder."""
    paths: list[str] = []
    fill = PlainDecoder._fill

    def noted(self: PlainDecoder, work: object) -> None:
        if isinstance(self, LeanDecoder):
            paths.append(work.plan.record.path)
        fill(self, work)

    monkeypatch.setattr(PlainDecoder, "_fill", noted)
    return paths


def plans_of(record: VideoRecord, seed: int = 0) -> list[list[int]]:
    rng, num_frames = np.random.default_rng(seed), record.info.num_frames
    plans = [[num_frames - 1], [num_frames // 2], [0, num_frames - 1], list(range(num_frames))]
    plans += [rng.integers(0, num_frames, count).tolist() for count in (2, 7)]
    for clip_frames in (20, 16, 8, 1):
        for sampling in ("uniform", "stride", cf.Dense(frame_stride=2), cf.Segments()):
            spec = ClipSpec(num_frames=clip_frames, sampling=sampling, short_videos="wrap")
            plans.append(plan_clip(record, spec, rng=None).frame_indices.tolist())
    return plans


def check_equal(record: VideoRecord, plans: Sequence[Sequence[int]]) -> None:
    geometry = make_geometry(record, SIZE)
    whole = PlainDecoder().decode(make_plan(record, range(record.info.num_frames)), geometry).frames
    for plan in plans:
        frames = LeanDecoder().decode(make_plan(record, plan), geometry).frames
        assert np.array_equal(frames, whole[list(plan)]), (record.path, plan)


@pytest.mark.parametrize("kind", MPEG4_KINDS, ids=lambda kind: kind.name)
def test_frames_are_the_plain_decoders(kind: VideoKind, tmp_path: Path, plainly: list[str]) -> None:
    record = make_record(kind.write(tmp_path), num_frames=kind.num_frames)
    check_equal(record, plans_of(record))
    assert len(plainly) < 5  # early clips


@pytest.mark.parametrize("kind", MPEG4_KINDS, ids=lambda kind: kind.name)
def test_the_middle_and_the_end_of_a_video_come_with_fewer_packets(
    kind: VideoKind, tmp_path: Path, sent: list[int], plainly: list[str]
) -> None:
    record = make_record(kind.write(tmp_path), num_frames=kind.num_frames)
    wanted, geometry = make_plan(record, [kind.num_frames // 2, kind.num_frames - 1]), make_geometry(record, SIZE)
    PlainDecoder().decode(wanted, geometry)
    num_plain = len(sent)
    LeanDecoder().decode(wanted, geometry)
    assert not plainly
    assert len(sent) - num_plain < num_plain


@pytest.mark.parametrize("name", ["mpeg4_avi", "mpeg4_b_frames", "mpeg4_packed", "mpeg4_packed_runs"])
def test_damaged_videos_give_the_plain_decoders_frames(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    undamaged = video_kind(name).write(tmp_path).read_bytes()
    path = tmp_path / "damaged.avi"
    for number in range(4):
        path.write_bytes(undamaged)
        damage_file(path, at=float(rng.uniform(0.2, 0.9)), num_bytes=int(rng.integers(1, 40)))
        record = make_record(path, num_frames=len(decode_bare(path)))
        check_equal(record, plans_of(record, number)[:7])


@pytest.mark.parametrize("name", ["mpeg4_b_frames", "mpeg4_packed"])
def test_a_truncated_video_gives_the_plain_decoders_frames(name: str, tmp_path: Path) -> None:
    path = truncate_file(video_kind(name).write(tmp_path), 0.7)
    record = make_record(path, num_frames=len(decode_bare(path)))
    check_equal(record, plans_of(record))


def test_another_number_of_frames_than_was_counted_is_decoded_plainly(tmp_path: Path, plainly: list[str]) -> None:
    path = video_kind("mpeg4_packed").write(tmp_path)
    record = make_record(path, num_frames=60)
    LeanDecoder().decode(make_plan(record, [40]), make_geometry(record))
    assert plainly == [str(path)]


@pytest.mark.parametrize(
    ("name", "index"), [("mpeg4_packed", 5), ("h264_mp4", 60), ("mpeg1_mpg", 60), ("msmpeg4_avi", 60)]
)
def test_early_clips_and_other_codecs_are_decoded_plainly(
    name: str, index: int, tmp_path: Path, plainly: list[str]
) -> None:
    record = make_record(video_kind(name).write(tmp_path), num_frames=61)
    check_equal(record, [[index]])
    assert plainly == [record.path]


def test_large_files_are_decoded_plainly(tmp_path: Path, plainly: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean, "_MAX_FILE_BYTES", 1000)
    record = make_record(video_kind("mpeg4_packed").write(tmp_path), num_frames=61)
    check_equal(record, [[60]])
    assert plainly == [record.path]


@pytest.mark.parametrize("change", ["type", "corrupt", "interlaced"])
def test_a_frame_that_was_not_foreseen_is_decoded_plainly(
    change: str, tmp_path: Path, plainly: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record(video_kind("mpeg4_packed").write(tmp_path), num_frames=61)
    plan, geometry = make_plan(record, [30, 59]), make_geometry(record, SIZE)
    truth = PlainDecoder().decode(plan, geometry).frames
    decode = OpenVideo.decode

    class Changed:
        def __init__(self, frame: object) -> None:
            self.pict_type = frame.pict_type % 3 + 1 if change == "type" else frame.pict_type
            self.is_corrupt = change == "corrupt"
            self.interlaced_frame = change == "interlaced"

    def changed(self: OpenVideo, packet: object) -> object:
        frames = decode(self, packet)
        return frames if plainly else [Changed(frame) for frame in frames]

    monkeypatch.setattr(OpenVideo, "decode", changed)
    monkeypatch.setattr(lean, "write_picture", lambda *_: None)
    assert np.array_equal(LeanDecoder().decode(plan, geometry).frames, truth)
    assert plainly == [record.path]


def test_time_runs_out_for_both_ways_together(tmp_path: Path, plainly: list[str]) -> None:
    record = make_record(write_numbered_video(tmp_path / "a.avi", num_frames=9), num_frames=9)
    with pytest.raises(DecodeError, match="took longer than 1e-09 s"):
        LeanDecoder(timeout_seconds=1e-9).decode(make_plan(record, [8]), make_geometry(record))
    assert not plainly


def test_pickles_as_what_it_is() -> None:
    assert repr(pickle.loads(pickle.dumps(LeanDecoder(timeout_seconds=5)))) == "LeanDecoder(timeout_seconds=5)"


# Which pictures are needed


def vops(kinds: str) -> list[Vop]:
    """Pictures in decoding order, numbered as a decoder shows them."""
    made, waiting, number = [], None, 0
    for sample, letter in enumerate(kinds):
        vop = Vop({"I": I_VOP, "P": P_VOP, "B": B_VOP}[letter], sample)
        made.append(vop)
        shown = vop if letter == "B" else waiting
        waiting = waiting if letter == "B" else vop
        if shown is not None:
            shown.number, number = number, number + 1
    if waiting is not None:
        waiting.number = number
    return made


@pytest.mark.parametrize(
    ("kinds", "wanted", "expected"),
    [
        ("IPPPIPPP", {5}, [0, 4, 5]),  # the first one carries the headers
        ("IPPPIPPP", {1, 4}, [0, 1, 4]),  # the end of a group
        ("IPBPBPB", {2}, [0, 1]),  # B-VOPs
        ("IPBPBPB", {3}, [0, 1, 3, 4]),  # a B-VOP needs both its neighbours
        ("IPPIBBP", {3}, [0, 1, 2, 3, 4]),  # a B-VOP behind an I-VOP needs the group before
        ("IPPIBBP", {5}, [0, 3]),  # the I-VOP itself does not
        ("IPPIBBP", set(), [0]),
    ],
)
def test_needed_are_the_wanted_and_what_they_refer_to(kinds: str, wanted: set[int], expected: list[int]) -> None:
    assert [vop.packet for vop in needed(vops(kinds), wanted, num_always=1)] == expected


def test_the_first_pictures_are_always_needed() -> None:
    pictures = vops("IPBB" + "PBB" * 9)
    assert [vop.packet for vop in needed(pictures, {24})] == [*range(NUM_ALWAYS_SENT), 19, 22]


@pytest.mark.parametrize("is_serious", [True, False])
def test_a_clip_that_ffmpeg_complains_about_is_decoded_plainly(
    is_serious: bool, tmp_path: Path, plainly: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make_record(video_kind("mpeg4_packed").write(tmp_path), num_frames=61)
    level = av.logging.ERROR if is_serious else av.logging.WARNING
    monkeypatch.setattr(lean, "captured_log", lambda _: nullcontext([(level, "mpeg4", "Error at MB: 9")]))
    check_equal(record, [[60]])
    assert plainly == [record.path] * is_serious


# What is unusual

HEADER = bytes.fromhex("0000012008c80d0ba9850a041e14183f")


def coded(kind: int, units: int, *, seconds: int = 0, is_coded: bool = True) -> bytes:
    bits = f"{kind:02b}{'1' * seconds}0" + f"1{units:015b}1{int(is_coded)}"
    return b"\x00\x00\x01\xb6" + int(bits.ljust(32, "0"), 2).to_bytes(4, "big") + b"\x55" * 20


I0, P2, B1, P3 = coded(0, 0), coded(1, 2000), coded(2, 1000), coded(1, 3000)
EMPTY = coded(1, 2000, is_coded=False)
PACKED = b"\x00\x00\x01\xb2DivX503b2816p"


def follow(samples: Sequence[bytes], user_data: bytes = b"") -> Stream:
    samples = [HEADER + user_data + samples[0], *samples[1:]]
    stream = Stream(b"", samples[0])
    for sample in samples:
        stream.add(sample)
    stream.finish()
    return stream


def test_numbers_are_those_of_the_decoders_order() -> None:
    assert [vop.number for vop in follow([I0, P2, B1, P3]).vops] == [0, 2, 1, 3]
    packed = follow([I0, b"\x7f", P2 + B1, EMPTY, P3], PACKED)
    assert [(vop.number, vop.packet) for vop in packed.vops] == [(0, 0), (2, 2), (1, 2), (3, 4)]
    assert packed.vops[2].cut(P2 + B1) == B1
    assert packed.vops[1].cut(P2 + B1)[: len(P2)] == P2
    assert [vop.number for vop in follow([I0, P2, EMPTY, P3]).vops] == [0, 1, 2]


@pytest.mark.parametrize(
    ("samples", "user_data"),
    [
        ([P2, P3], b""),  # does not begin with an I-VOP
        ([I0, B1, P2], b""),  # a B-VOP before two references
        ([I0, P2, coded(2, 2500)], b""),  # and one that comes too late
        ([I0, P2, EMPTY, P3, coded(2, 2500)], b""),
        ([I0, P2, B1, EMPTY], b""),
        ([I0, P2, b"\xff" * 30], b""),  # a damaged sample
        ([I0, b"\xff" + P2], b""),
        ([I0, b"\x00\x00\x01\xb6" + b"\xff" * 30], b""),
        ([I0, coded(3, 2000)], b""),  # a sprite
        ([I0, HEADER.replace(b"\x85", b"\x95") + coded(0, 2000)], b""),  # headers that change
        ([I0, P2 + B1 + B1], PACKED),
        ([I0, P2 + P3], PACKED),
        ([I0, P2 + B1, P3], PACKED),  # which would be lost
        ([I0, P2 + B1, P3 + B1], PACKED),
        ([I0, P2 + b"\x00\x00\x01\xb2abcdefgh", P3], PACKED),
    ],
)
def test_what_is_unusual_is_refused(samples: list[bytes], user_data: bytes) -> None:
    with pytest.raises(UnusualStreamError):
        follow(samples, user_data)


def test_a_stream_without_headers_is_refused() -> None:
    with pytest.raises(UnusualStreamError):
        Stream(b"", I0)


@pytest.mark.shared
@pytest.mark.parametrize("source", ["clips/hmdb51", "clips/ucf101", "train/ucf101"])
def test_genuine_clips_are_the_plain_decoders(source: str, shared: Path, plainly: list[str]) -> None:
    paths = sorted(path for path in (shared / source).rglob("*.avi"))
    for number, path in enumerate(paths[:: max(1, len(paths) // 6)]):
        record = video_record(path)
        plans = [plan for plan in plans_of(record, number) if 2 * max(plan) >= record.info.num_frames]
        check_equal(record, plans[:9])
    assert not plainly
