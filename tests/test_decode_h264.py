"""What H.264 says of its packets, held against what the decoder makes of them, and what of it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np
import pytest

from clipfeed._bits import BitReader
from clipfeed._nal import length_size, split_units, unescape
from clipfeed.decode.h264 import H264Reader
from clipfeed.decode.h264_syntax import SequenceSet, read_sequence_set
from clipfeed.decode.route import UnusualStreamError
from clipfeed.decode.timed import TimedPicture
from clipfeed.testing import Encoding, paint_numbered_frame, video_kind, write_frames

NUM_FRAMES = 60


def encode(path: Path, options: str, *, pixel_format: str | None = None) -> Path:
    noise = np.random.default_rng(0).integers(0, 50, (96, 160, 3), np.uint8)
    pictures = (np.maximum(paint_numbered_frame(number), np.roll(noise, number)) for number in range(NUM_FRAMES))
    encoding = Encoding(options={"x264-params": options, "preset": "medium"}, pixel_format=pixel_format)
    return write_frames(path, pictures, encoding=encoding)


def read(path: Path) -> tuple[bytes, list[av.Packet], list[av.VideoFrame]]:
    """Extra data, packets and frames of a video."""
    with av.open(str(path)) as video:
        stream = video.streams.video[0]
        extradata = stream.codec_context.extradata or b""
        packets = [packet for packet in video.demux(stream) if packet.size]
        return extradata, packets, [frame for packet in [*packets, None] for frame in stream.decode(packet)]


def pictures_of(extradata: bytes, packets: Sequence[bytes]) -> list[TimedPicture]:
    reader = H264Reader(extradata)
    pictures = [reader.read(packet) for packet in packets]
    for packet, picture in zip(packets, pictures, strict=True):
        reader.check_left_out(packet, picture)
    return pictures


KINDS = {
    "b_pyramid": "bframes=3:b-adapt=0:keyint=24:scenecut=0",
    "open_gops": "bframes=3:b-adapt=0:keyint=16:scenecut=0:open-gop=1",
    "weights": "bframes=2:ref=4:keyint=250:weightp=2:weightb=1",
    "slices": "slices=4:bframes=1:keyint=12",
    "no_b": "bframes=0:keyint=10:ref=1",
    "many_references": "ref=16:bframes=8:b-adapt=2:keyint=250:weightp=2",
    "stated_buffers": "nal-hrd=vbr:vbv-maxrate=500:vbv-bufsize=500:bframes=2:aud=1:keyint=20",
    "no_deblocking": "no-deblock=1:bframes=2:keyint=30",
    "short_numbers": "bframes=2:keyint=250:ref=2:slices=1",
}


@pytest.fixture(scope="module", params=KINDS, ids=str)
def stream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    extension = ".ts" if request.param in ("slices", "stated_buffers") else ".mp4"
    return read(encode(tmp_path_factory.mktemp("h264") / f"a{extension}", KINDS[request.param]))


def test_pictures_are_shown_in_the_order_that_is_read(stream: object) -> None:
    extradata, packets, frames = stream
    pictures = pictures_of(extradata, [bytes(packet) for packet in packets])
    shown: list[int] = []
    group: list[tuple[int, int]] = []
    for packet, picture in zip(packets, pictures, strict=True):
        if picture.is_closed:
            shown += [pts for _, pts in sorted(group)]
            group = []
        group.append((picture.order, packet.pts))
    shown += [pts for _, pts in sorted(group)]
    assert shown == [frame.pts for frame in frames]
    assert len(frames) == NUM_FRAMES


def test_what_nothing_refers_to_can_be_left_out(stream: object) -> None:
    extradata, packets, frames = stream
    pictures = pictures_of(extradata, [bytes(packet) for packet in packets])
    expected = {frame.pts: frame.to_ndarray(format="gray") for frame in frames}
    decoder = av.CodecContext.create("h264", "r")
    decoder.extradata = extradata or None
    kept = [packet for packet, picture in zip(packets, pictures, strict=True) if picture.is_reference]
    alone = [frame for packet in [*kept, None] for frame in decoder.decode(packet)]
    assert len(alone) == len(kept)
    assert all(np.array_equal(frame.to_ndarray(format="gray"), expected[frame.pts]) for frame in alone)


def test_closed_pictures_are_the_key_frames_of_streams_with_closed_groups(stream: object) -> None:
    extradata, packets, _ = stream
    closed = [picture.is_closed for picture in pictures_of(extradata, [bytes(packet) for packet in packets])]
    assert closed[0]
    assert all(packet.is_keyframe for packet, is_closed in zip(packets, closed, strict=True) if is_closed)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[bytes]]:
    path = encode(tmp_path_factory.mktemp("h264") / "a.mp4", KINDS["b_pyramid"])
    extradata, packets, _ = read(path)
    return extradata, [bytes(packet) for packet in packets]


def test_the_set_says_how_many_frames_are_shown_late(whole: tuple[bytes, list[bytes]]) -> None:
    assert H264Reader(whole[0]).num_reordered == 2
    assert H264Reader(b"").num_reordered is None


@pytest.mark.parametrize("pixel_format", ["yuv420p10le", "yuv444p", "gray"])
def test_sets_of_high_profiles_are_read(pixel_format: str, tmp_path: Path) -> None:
    extradata, packets, _ = read(encode(tmp_path / "a.mkv", "bframes=2:keyint=20", pixel_format=pixel_format))
    sequence = next(unit for unit in units_of(extradata) if unit[0] & 31 == 7)
    _, found = read_sequence_set(BitReader(unescape(sequence[1:])))
    assert isinstance(found, SequenceSet)
    assert found.max_quantiser == (63 if pixel_format.endswith("10le") else 51)
    assert found.has_chroma == (pixel_format != "gray")
    assert len(pictures_of(extradata, [bytes(packet) for packet in packets])) == NUM_FRAMES


def units_of(extradata: bytes) -> Iterator[bytes]:
    at = 6
    size = int.from_bytes(extradata[at : at + 2])
    yield extradata[at + 2 : at + 2 + size]


@pytest.mark.parametrize("options", ["tff=1:bframes=2", "cabac=0:bframes=2"])
def test_interlaced_streams_and_those_without_cabac_are_refused(options: str, tmp_path: Path) -> None:
    extradata, packets, _ = read(encode(tmp_path / "a.mp4", options))
    with pytest.raises(UnusualStreamError):
        pictures_of(extradata, [bytes(packet) for packet in packets])


def first_slice(packet: bytes) -> int:
    """Where the first slice's unit begins, behind its length."""
    at = 0
    while packet[at + 4] & 31 not in (1, 5):
        at += 4 + int.from_bytes(packet[at : at + 4])
    return at + 4


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (-4, 0x7F),  # a length beyond the packet
        (-1, None),  # one byte less: the next length is off
        (0, 0x81),  # the bit that is always 0
        (0, 0x45),  # reference and type of an IDR picture
        (0, 0x41 ^ 0x46),  # another kind of unit
        (1, 0x00),  # first_mb_in_slice
        (2, 0xFF),
        (2, 0x00),
        (3, 0xFF),
    ],
)
def test_damaged_headers_are_refused(whole: tuple[bytes, list[bytes]], offset: int, value: int | None) -> None:
    extradata, packets = whole
    damaged = bytearray(packets[20])
    at = first_slice(packets[20]) + offset
    damaged[at] = damaged[at] - 1 if value is None else value
    with pytest.raises((UnusualStreamError, EOFError)):
        pictures_of(extradata, [*packets[:20], bytes(damaged), *packets[21:]])


def test_every_bit_of_a_headers_start_counts(whole: tuple[bytes, list[bytes]]) -> None:
    """Whatever single bit of it turns, the picture is refused, or is shown in another place, or a decoder takes it."""
    extradata, packets = whole
    sound = pictures_of(extradata, packets)
    num_refused = 0
    for bit in range(40):
        at = first_slice(packets[20])
        damaged = bytearray(packets[20])
        damaged[at + bit // 8] ^= 128 >> bit % 8
        changed = [*packets[:20], bytes(damaged), *packets[21:]]
        try:
            orders = [picture.order for picture in pictures_of(extradata, changed)]
        except (UnusualStreamError, EOFError):
            num_refused += 1
            continue
        if orders == [picture.order for picture in sound]:
            assert num_shown(extradata, changed) == NUM_FRAMES, bit
    assert num_refused > 20


def num_shown(extradata: bytes, packets: Sequence[bytes]) -> int:
    decoder = av.CodecContext.create("h264", "r")
    decoder.extradata = extradata
    number = 0
    for payload in [*packets, None]:
        packet = None if payload is None else av.Packet(payload)
        try:
            number += len(decoder.decode(packet))
        except av.FFmpegError:
            continue
    return number


def test_a_start_code_inside_a_unit_is_refused(whole: tuple[bytes, list[bytes]]) -> None:
    extradata, packets = whole
    damaged = packets[20][:-10] + b"\x00\x00\x01\x67" + packets[20][-6:]
    with pytest.raises(UnusualStreamError, match="a damaged packet"):
        pictures_of(extradata, [*packets[:20], damaged])


def test_numbers_of_frames_that_jump_are_refused(whole: tuple[bytes, list[bytes]]) -> None:
    """A packet is missing: a decoder would fill the gap with a frame of its own."""
    extradata, packets = whole
    reader = H264Reader(extradata)
    references = [number for number, packet in enumerate(packets) if reader.read(packet).is_reference]
    missing = references[5]
    with pytest.raises(UnusualStreamError, match="jump"):
        pictures_of(extradata, [*packets[:missing], *packets[missing + 1 :]])


def test_sets_may_be_repeated_but_not_change(whole: tuple[bytes, list[bytes]]) -> None:
    extradata, packets = whole
    sequence = next(units_of(extradata))
    repeated = len(sequence).to_bytes(4) + sequence
    assert len(pictures_of(extradata, [packets[0], repeated + packets[1]])) == 2
    changed = repeated[:7] + bytes([repeated[7] ^ 1]) + repeated[8:]
    with pytest.raises(UnusualStreamError, match="sets that change"):
        pictures_of(extradata, [packets[0], changed + packets[1]])
    assert list(split_units(repeated, length_size(extradata, "h264"))) == [sequence]


def test_a_packet_without_a_picture_is_refused(whole: tuple[bytes, list[bytes]]) -> None:
    extradata, packets = whole
    delimiter = b"\x00\x00\x00\x02\x09\xf0"
    with pytest.raises(UnusualStreamError, match="without a picture"):
        pictures_of(extradata, [packets[0], delimiter])


def test_a_set_without_usability_information_says_nothing_of_delay(tmp_path: Path) -> None:
    extradata, packets, frames = read(video_kind("h264_untold_delay").write(tmp_path))
    assert H264Reader(extradata).num_reordered is None
    pictures_of(extradata, [bytes(packet) for packet in packets])
    assert len(frames) == len(packets)
