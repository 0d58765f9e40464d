"""Motion JPEG: only wanted pictures are sent, and what is left out is one that a decoder would show."""

from __future__ import annotations

from collections.abc import Sequence

import av
import pytest

from clipfeed.decode.mjpeg import make_route
from clipfeed.decode.route import UnusualStreamError, Wanted


def segment(marker: int, content: bytes) -> bytes:
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2) + content


CODES = bytes([0x10]) + bytes([0, 2, 1] + [0] * 13) + bytes([1, 2, 3])
QUANTISERS, OTHERS = segment(0xDB, b"\0" + b"\x10" * 64), segment(0xDB, b"\0" + b"\x20" * 64)
FRAME, SCAN = segment(0xC0, bytes.fromhex("080060 00a001 012200")), segment(0xDA, bytes.fromhex("01 0100 003f00"))
HEADER = segment(0xE0, b"JFIF") + QUANTISERS + FRAME + segment(0xC4, CODES)
DATA = b"\x12\xff\x00\x34\xff\xd0\x56\xff\xd7"
PICTURE = b"\xff\xd8" + HEADER + SCAN + DATA + b"\xff\xd9"


def sent(pictures: Sequence[bytes], wanted: set[int]) -> list[tuple[int, list[int]]]:
    """Which pictures are sent, and which numbers must then be shown."""
    packets = [av.Packet(picture) for picture in pictures]
    steps = make_route(iter(packets), Wanted(numbers=wanted, last=max(wanted), saves_ends=True), b"")
    return [(packets.index(packet), [frame.number for frame in frames]) for packet, frames in steps if packet]


def test_only_the_first_and_the_wanted_pictures_are_sent() -> None:
    assert sent([PICTURE] * 9, {3, 6}) == [(0, [0]), (3, [3]), (6, [6])]


def test_nothing_is_read_behind_the_last_wanted_picture() -> None:
    assert sent([PICTURE] * 4 + [b"damaged"], {3}) == [(0, [0]), (3, [3])]


@pytest.mark.parametrize(
    "other",
    [
        PICTURE.replace(QUANTISERS, OTHERS),
        PICTURE.replace(CODES, CODES[:-1] + b"\x09"),
        PICTURE.replace(DATA, b"\x77" * 5),
        PICTURE + b"\0\0",
    ],
)
def test_contents_of_tables_and_data_may_differ(other: bytes) -> None:
    assert sent([PICTURE, other, PICTURE], {2}) == [(0, [0]), (2, [2])]


def test_comments_may_differ() -> None:
    first, other = (PICTURE.replace(FRAME, segment(0xFE, text) + FRAME) for text in (b"one", b"another"))
    assert sent([first, other, first], {2}) == [(0, [0]), (2, [2])]


@pytest.mark.parametrize(
    "other",
    [
        PICTURE[2:],
        PICTURE[:-2],  # no end
        PICTURE[: len(PICTURE) // 2],
        b"\xff" + PICTURE,
        PICTURE.replace(FRAME, segment(0xC0, bytes.fromhex("080060 00a101 012200"))),
        PICTURE.replace(segment(0xC4, CODES), b""),
        PICTURE.replace(QUANTISERS, QUANTISERS[:4] + b"\x10" + QUANTISERS[5:]),  # two bytes a quantiser
        PICTURE.replace(QUANTISERS, segment(0xDB, b"\0" * 66)),
        PICTURE.replace(DATA, DATA + segment(0xC4, CODES)),  # what looks like a table among the data
        PICTURE.replace(DATA, DATA + SCAN),
        PICTURE.replace(CODES, b"\x20" + CODES[1:]),  # no such table
        PICTURE.replace(CODES, b"\x14" + CODES[1:]),
        PICTURE.replace(CODES, CODES[:1] + b"\x03" + CODES[2:]),  # three codes of one bit
        PICTURE.replace(segment(0xC4, CODES), segment(0xC4, CODES[:-1])),
    ],
)
def test_pictures_of_another_form_are_refused(other: bytes) -> None:
    with pytest.raises(UnusualStreamError):
        sent([PICTURE, other, PICTURE], {2})
