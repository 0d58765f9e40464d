"""Which pictures packets of MPEG-1 and MPEG-2 hold, and what of them is refused."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from clipfeed.decode.mpeg12 import Mpeg12Reader
from clipfeed.decode.references import B_PICTURE, I_PICTURE, P_PICTURE
from clipfeed.decode.route import UnusualStreamError
from clipfeed.testing import video_kind

START = b"\x00\x00\x01"
SEQUENCE = START + bytes.fromhex("b30a006013ffffe018")  # 160 x 96
SEQUENCE_EXTENSION = START + bytes.fromhex("b5148200010000")
GROUP = START + bytes.fromhex("b800080040")
EXTENSION = START + bytes.fromhex("b58ffff34180")  # a whole frame
FIELD = START + bytes.fromhex("b58ffff14180")
MATRICES = START + bytes.fromhex("b530000000")
SLICES = b"".join(START + bytes([row]) + b"\x12\x34\x56" for row in range(1, 7))


def picture(kind: int) -> bytes:
    return START + bytes([0, 0, kind << 3, 0xFF, 0xF8])


def kinds_of(*packets: bytes, extradata: bytes = b"") -> list[int]:
    reader = Mpeg12Reader(extradata)
    return [picture.kind for packet in packets for picture in reader.read(packet)]


FIRST_OF_MPEG1 = SEQUENCE + GROUP + picture(I_PICTURE) + SLICES
FIRST = SEQUENCE + SEQUENCE_EXTENSION + GROUP + picture(I_PICTURE) + EXTENSION + SLICES
P = picture(P_PICTURE) + EXTENSION + SLICES
B = picture(B_PICTURE) + EXTENSION + SLICES


def test_the_type_of_a_picture_is_read() -> None:
    assert kinds_of(FIRST, P, B, FIRST) == [I_PICTURE, P_PICTURE, B_PICTURE, I_PICTURE]
    assert kinds_of(FIRST_OF_MPEG1, picture(B_PICTURE) + SLICES) == [I_PICTURE, B_PICTURE]


def test_headers_may_be_in_the_extra_data() -> None:
    extradata = SEQUENCE + SEQUENCE_EXTENSION
    assert kinds_of(GROUP + picture(I_PICTURE) + EXTENSION + SLICES, P, extradata=extradata) == [I_PICTURE, P_PICTURE]


def test_zeros_between_units_and_the_end_of_the_sequence_are_nothing() -> None:
    assert kinds_of(FIRST, b"\0\0" + P + b"\0\0\0" + START + b"\xb7") == [I_PICTURE, P_PICTURE]


@pytest.mark.parametrize(
    "packet",
    [
        b"\xff" + P,  # begins with something else
        START + P,
        P[:-1] + START,
        SLICES,
        picture(0) + EXTENSION + SLICES,
        picture(4) + EXTENSION + SLICES,
        picture(P_PICTURE) + SLICES,  # without what it is
        picture(P_PICTURE) + FIELD + SLICES,
        picture(P_PICTURE) + EXTENSION + EXTENSION + SLICES,
        picture(P_PICTURE) + EXTENSION,  # without a slice
        P + START + b"\x07\x12\x34\x56",  # a slice below the picture
        P + MATRICES,  # tables that would outlast the picture
        P + GROUP,
        P + picture(P_PICTURE),
        P + EXTENSION,
        P + START + b"\x01\x12",
        SEQUENCE[:-1] + b"\x38" + P,  # headers that change
        SEQUENCE + SEQUENCE_EXTENSION[:-1] + b"\x01" + P,
        MATRICES + P,
        START + b"\xb3\x0a" + P,
    ],
)
def test_what_is_unusual_is_refused(packet: bytes) -> None:
    with pytest.raises(UnusualStreamError):
        kinds_of(FIRST, P, packet)


def test_a_picture_too_short_for_its_macroblocks_is_refused() -> None:
    large = SEQUENCE[:4] + bytes.fromhex("500400") + SEQUENCE[7:]  # 1280 x 1024: 5,120 macroblocks
    with pytest.raises(UnusualStreamError):
        kinds_of(large + FIRST[len(SEQUENCE) :], P)
    assert kinds_of(large + FIRST[len(SEQUENCE) :] + bytes(200), P + bytes(200)) == [I_PICTURE, P_PICTURE]


def test_a_stream_without_headers_is_refused() -> None:
    with pytest.raises(UnusualStreamError):
        kinds_of(P)


@pytest.mark.parametrize("name", ["mpeg1_mpg", "mpeg2_mpg", "mpeg2_ts"])
def test_types_are_those_that_the_decoder_finds(name: str, tmp_path: Path) -> None:
    with av.open(str(video_kind(name).write(tmp_path))) as video:
        stream = video.streams.video[0]
        packets = [packet for packet in video.demux(stream) if packet.size]
        found = kinds_of(*(bytes(packet) for packet in packets), extradata=stream.codec_context.extradata or b"")
        frames = [frame for packet in [*packets, None] for frame in stream.decode(packet)]
    assert sorted(found) == sorted(int(frame.pict_type) for frame in frames)
