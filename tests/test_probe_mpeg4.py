from __future__ import annotations

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed._mpeg4 import is_packed, read_time_bits
from clipfeed.errors import ProbeError
from clipfeed.probe import probe_video
from clipfeed.probe.mpeg4 import ShownCounter, find_vops, starts_with_intra
from clipfeed.probe.samples import SampleCounter
from clipfeed.records import FoundVideo
from clipfeed.testing import paint_numbered_frame, video_kind, write_avi
from clipfeed.testing.avi import AviHeader

VOP = b"\x00\x00\x01\xb6"
SIZE = (64, 96)
RESOLUTION = 30_000
TICKS = 1_000
TIME_BITS = 15


@dataclass(frozen=True)
class Picture:
    payload: bytes
    kind: str


@cache
def encoded(max_b_frames: int, user_data: bytes) -> tuple[Picture, ...]:
    """Forty numbered pictures in decoding order, key pictures with all headers."""
    encoder = av.CodecContext.create("mpeg4", "w")
    encoder.height, encoder.width = SIZE
    encoder.pix_fmt, encoder.time_base = "yuv420p", Fraction(1, RESOLUTION)
    encoder.options = {"bf": str(max_b_frames), "g": "17", "qscale": "3", "threads": "1"}
    packets = []
    for number in range(40):
        frame = av.VideoFrame.from_ndarray(paint_numbered_frame(number, SIZE), format="rgb24").reformat(
            format="yuv420p"
        )
        frame.pts, frame.time_base = number * TICKS, encoder.time_base
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return tuple(with_user_data(bytes(packet), user_data) for packet in packets)


def with_user_data(payload: bytes, user_data: bytes) -> Picture:
    kind = "IPBS"[payload[payload.index(VOP) + 4] >> 6]
    if kind == "I":
        headers = payload[payload.index(b"\x00\x00\x01\x00") : payload.index(b"\x00\x00\x01\xb2")]
        payload = headers + b"\x00\x00\x01\xb2" + user_data + payload[payload.index(VOP) :]
    return Picture(payload=payload, kind=kind)


def empty_vop(previous: bytes) -> bytes:
    """A P-VOP with vop_coded = 0 at the time of the last VOP of `previous`."""
    bits = f"{int.from_bytes(previous[previous.rindex(VOP) + 4 :][:8]):064b}"
    time_at = bits.index("0", 2) + 2
    written = f"0101{bits[time_at : time_at + TIME_BITS]}10" + "0"
    written += "1" * (-len(written) % 8)
    return VOP + int(written, 2).to_bytes(len(written) // 8)


def write(path: Path, samples: list[bytes]) -> Path:
    header = AviHeader(size=SIZE, fps=Fraction(30), codec_tag="DX50")
    return write_avi(path, [(sample, starts_with_intra(sample)) for sample in samples], header)


def decoded(path: Path) -> int:
    count = 0
    with av.open(str(path)) as container:
        container.streams.video[0].thread_count = 1
        for packet in container.demux(video=0):
            try:
                count += len(packet.decode())
            except av.FFmpegError:
                continue
    return count


# The model of what FFmpeg does, against FFmpeg


@st.composite
def packings(draw: st.DrawFn) -> list[bytes]:
    """Streams packed as DivX did, and in ways in which nobody would."""
    user_data = draw(st.sampled_from([b"DivX503b1393p", b"DivX501Build413p", b"XviD0050"]))
    pictures = encoded(draw(st.integers(0, 2)), user_data)
    is_regular = draw(st.booleans())
    odd = st.booleans() if draw(st.booleans()) else st.just(False)
    samples: list[bytes] = []
    number = 0
    while number < len(pictures):
        own, number = pictures[number].payload, number + 1
        if number < len(pictures) and (pictures[number].kind == "B" if is_regular else draw(st.booleans())):
            samples.append(own + pictures[number].payload)
            number += 1
            while is_regular and number < len(pictures) and pictures[number].kind == "B":
                samples.append(pictures[number].payload)
                number += 1
            if is_regular or draw(st.booleans()):
                samples.append(empty_vop(own) + draw(st.sampled_from([b"", b"\x7f"])))
        else:
            samples.append(own)
        if draw(odd) and draw(st.integers(0, 9)) == 0:
            samples.append(draw(st.sampled_from([empty_vop(own), b"\x7f"])))
    return samples


@settings(max_examples=60, deadline=None)
@given(samples=packings())
def test_any_packing_is_counted_as_ffmpeg_decodes_it(samples: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "a.avi", samples)
        truth = decoded(path)
        counter = SampleCounter(None)
        for sample in samples:
            counter.add(sample)
        assert counter.count() in (truth, None)
        found = FoundVideo(key="a.avi", class_name=None, size_bytes=path.stat().st_size, mtime_ns=0)
        try:
            assert probe_video(folder, found).num_frames == truth
        except ProbeError:
            assert truth == 0


@pytest.mark.parametrize("max_b_frames", [1, 2])
def test_streams_packed_as_divx_did_are_counted_without_a_doubt(max_b_frames: int) -> None:
    pictures, counter, number = encoded(max_b_frames, b"DivX503b1393p"), SampleCounter(None), 0
    while number < len(pictures):
        run = [pictures[number].payload]
        while number + len(run) < len(pictures) and pictures[number + len(run)].kind == "B":
            run.append(pictures[number + len(run)].payload)
        number += len(run)
        for sample in [b"".join(run[:2]), *run[2:], *([empty_vop(run[0])] if len(run) > 1 else [])]:
            counter.add(sample)
    assert counter.count() == 40


def test_one_group_or_many_give_the_same_count(tmp_path: Path) -> None:
    for kind in ("mpeg4_packed", "mpeg4_packed_runs", "mpeg4_not_coded"):
        with av.open(str(video_kind(kind).write(tmp_path)), metadata_errors="replace") as container:
            samples = [bytes(packet) for packet in container.demux(video=0) if packet.size]
        for size in (1, 2, 3, 7, len(samples)):
            counter = ShownCounter(samples[0])
            for start in range(0, len(samples), size):
                group = samples[start : start + size]
                ends = np.cumsum([len(sample) for sample in group])
                counter.add(np.frombuffer(b"".join(group), np.uint8), ends - [len(sample) for sample in group], ends)
            assert counter.num_shown == 61, (kind, size)


# Its parts


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.sampled_from([VOP, VOP[1:], VOP[:3], b"\x00\x00\x01\xb0", b"\x01\xb6", b"\x00\x01", b"\x00", b"\xb6"]),
            st.binary(max_size=40),
            st.integers(0, 3000).map(bytes),
        ),
        max_size=30,
    ),
    start=st.integers(0, 3),
)
def test_start_codes_are_found_wherever_they_stand(pieces: list[bytes], start: int) -> None:
    data = b"".join(pieces)[start:]
    expected = [at for at in range(len(data) - 4) if data[at : at + 4] == VOP]
    array = np.frombuffer(data, np.uint8)
    assert find_vops(array).tolist() == expected
    masks = np.full((2, len(data) // 16 + 3), 2**64 - 1, np.uint64)  # what an earlier search left there
    assert find_vops(array, masks).tolist() == expected


@pytest.mark.parametrize("resolution", [1, 2, 25, 30, 1000, 1001, 30_000, 65_535])
def test_the_width_of_times_is_read_from_the_layer_header(resolution: int) -> None:
    encoder = av.CodecContext.create("mpeg4", "w")
    encoder.height, encoder.width, encoder.pix_fmt = *SIZE, "yuv420p"
    encoder.time_base = Fraction(1, resolution)
    encoder.flags |= 1 << 22  # global header
    encoder.open()
    assert encoder.extradata is not None
    assert read_time_bits(encoder.extradata) == max(1, (resolution - 1).bit_length())


def layer_header(*fields: tuple[int, int]) -> bytes:
    bits = "".join(f"{value:0{width}b}" for value, width in fields)
    return b"\x00\x00\x01\x20" + int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8))


@pytest.mark.parametrize(
    "fields",
    [
        [(0, 9), (0, 1), (1, 4), (0, 1), (0, 2)],
        [(0, 9), (1, 1), (2, 4), (1, 3), (1, 4), (0, 1), (0, 2)],
        [(0, 9), (0, 1), (15, 4), (12, 8), (11, 8), (0, 1), (0, 2)],
        [(0, 9), (0, 1), (1, 4), (1, 1), (1, 2), (0, 1), (0, 1), (0, 2)],
        [(0, 9), (0, 1), (1, 4), (1, 1), (1, 2), (0, 1), (1, 1), (0, 79), (0, 2)],
        [(0, 9), (1, 1), (2, 4), (1, 3), (1, 4), (0, 1), (3, 2), (0, 4)],
    ],
)
def test_every_optional_part_of_a_layer_header_is_stepped_over(fields: list[tuple[int, int]]) -> None:
    header = layer_header(*fields, (1, 1), (30_000, 16), (1, 1))
    assert read_time_bits(b"\x00\x00\x01\xb0\xf5" + header) == TIME_BITS


def test_without_a_layer_header_nothing_is_counted() -> None:
    assert read_time_bits(b"\x00\x00\x01\xb6\x10") is None
    counter = SampleCounter(None)
    counter.add(VOP + b"\x10" * 60)
    assert counter.count() is None
    assert SampleCounter(None).count() is None


@pytest.mark.parametrize(
    ("user_data", "expected"),
    [(b"DivX503b1393p", True), (b"DivX501Build413p", True), (b"DivX503b1393", False), (b"XviD0050", False)],
)
def test_packed_streams_say_so_in_their_user_data(user_data: bytes, expected: bool) -> None:
    assert is_packed(b"\x00\x00\x01\xb0\x01\x00\x00\x01\xb2" + user_data + VOP) is expected


def test_the_kind_of_the_first_picture_is_read() -> None:
    assert starts_with_intra(b"\x00\x00\x01\xb0\x01" + VOP + b"\x10")
    assert not starts_with_intra(VOP + b"\x50")
    assert not starts_with_intra(VOP)
    assert not starts_with_intra(b"")
