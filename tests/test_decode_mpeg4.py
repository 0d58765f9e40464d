"""What MPEG-4 part 2 makes a decoder do, packet by packet, and what of it is refused."""

from __future__ import annotations

from collections.abc import Sequence

import av
import pytest

from clipfeed.decode.mpeg4 import Mpeg4Reader
from clipfeed.decode.references import B_PICTURE, I_PICTURE, P_PICTURE, DisplayOrder, Picture
from clipfeed.decode.route import UnusualStreamError

HEADER = bytes.fromhex("0000012008c80d0ba9850a041e14183f")
INTERLACED = bytes.fromhex("0000012008c80d0ba9850a041e1c183f")
PACKED = b"\x00\x00\x01\xb2DivX503b2816p"


def coded(kind: int, units: int, *, seconds: int = 0, is_coded: bool = True, rest: str = "", size: int = 60) -> bytes:
    """A VOP: kind 1 is I, 2 P, 3 B; behind vop_coded the flags, a quantiser of 4 and ranges of 1."""
    rest = rest or {1: "000" + "00100", 2: "0" + "000" + "00100" + "001", 3: "000" + "00100" + "001001"}[kind]
    bits = f"{kind - 1:02b}{'1' * seconds}0" + f"1{units:015b}1{int(is_coded)}" + rest * is_coded
    bits = bits.ljust(-(-len(bits) // 8) * 8, "0")
    return b"\x00\x00\x01\xb6" + int(bits, 2).to_bytes(len(bits) // 8) + b"\x55" * (size if is_coded else 0)


I0, P2, B1, P3 = coded(I_PICTURE, 0), coded(P_PICTURE, 2000), coded(B_PICTURE, 1000), coded(P_PICTURE, 3000)
EMPTY = coded(P_PICTURE, 2000, is_coded=False)


def follow(samples: Sequence[bytes], user_data: bytes = b"", header: bytes = HEADER) -> list[Picture]:
    samples = [header + user_data + samples[0], *samples[1:]]
    reader, order = Mpeg4Reader(b""), DisplayOrder()
    for sample in samples:
        for vop in reader.read(sample):
            order.add(vop)
    order.finish()
    return order.pictures


def test_numbers_are_those_of_the_decoders_order() -> None:
    assert [vop.number for vop in follow([I0, P2, B1, P3])] == [0, 2, 1, 3]
    packed = follow([I0, b"\x7f", P2 + B1, EMPTY, P3], PACKED)
    assert [(vop.number, vop.packet) for vop in packed] == [(0, 0), (2, 2), (1, 2), (3, 4)]
    assert [vop.number for vop in follow([I0, P2, EMPTY, P3])] == [0, 1, 2]


def test_a_packed_packet_is_sent_in_two_parts() -> None:
    _, first, second, _ = follow([I0, b"\x7f", P2 + B1, EMPTY, P3], PACKED)
    assert second.cut(P2 + B1) == B1
    whole = first.cut(P2 + B1)
    assert (whole[: len(P2)], len(whole)) == (P2, len(P2 + B1))
    assert whole[len(P2) + 4] & 0x40  # of a kind that is not held
    part = Mpeg4Reader(b"").part_of(second, av.Packet(P2 + B1))
    assert bytes(part) == B1


def test_only_packed_streams_need_all_references() -> None:
    for user_data, is_packed in ((b"", False), (PACKED, True)):
        reader = Mpeg4Reader(user_data)
        reader.read(HEADER + I0)
        assert reader.keeps_references == is_packed


@pytest.mark.parametrize(
    ("samples", "user_data"),
    [
        ([I0, P2, coded(B_PICTURE, 2500)], b""),  # a B-VOP that comes too late
        ([I0, P2, EMPTY, P3, coded(B_PICTURE, 2500)], b""),
        ([I0, P2, B1, EMPTY], b""),
        ([I0, P2, b"\xff" * 30], b""),  # a damaged sample
        ([I0, b"\xff" + P2], b""),
        ([I0, b"\x00\x00\x01\xb6" + b"\xff" * 30], b""),
        ([I0, b"\x00\x00\x01\xb6\x7f" + b"\xff" * 30], b""),  # seconds without end
        ([I0, b"\x00\x00\x01\xb6"], b""),
        ([I0, coded(4, 2000, rest="0" * 20)], b""),  # a sprite
        ([I0, HEADER.replace(b"\x85", b"\x95") + coded(I_PICTURE, 0)], b""),  # headers that change
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


@pytest.mark.parametrize(
    ("kind", "rest", "is_refused"),
    [
        (I_PICTURE, "000" + "00001", False),
        (I_PICTURE, "000" + "00000", True),  # no quantiser
        (P_PICTURE, "0000" + "00001" + "001", False),
        (P_PICTURE, "0000" + "00000" + "001", True),
        (P_PICTURE, "0000" + "00001" + "000", True),  # no range of motion vectors
        (B_PICTURE, "000" + "00001" + "001001", False),
        (B_PICTURE, "000" + "00000" + "001001", True),
        (B_PICTURE, "000" + "00001" + "000001", True),
        (B_PICTURE, "000" + "00001" + "001000", True),
    ],
)
def test_pictures_that_a_decoder_refuses_are_refused(kind: int, rest: str, is_refused: bool) -> None:
    samples = [I0, P2, coded(kind, 1000 if kind == B_PICTURE else 3000, rest=rest)]
    if is_refused:
        with pytest.raises(UnusualStreamError, match="that a decoder refuses"):
            follow(samples)
    else:
        assert len(follow(samples)) == 3


def test_interlaced_pictures_have_two_more_flags() -> None:
    # The quantiser of 1 is at its place only where the flags are counted.
    picture = coded(I_PICTURE, 1000, rest="000" + "11" + "00001" + "0" * 6)
    follow([coded(I_PICTURE, 0, rest="000" + "00" + "00001"), picture], header=INTERLACED)
    damaged = coded(I_PICTURE, 1000, rest="000" + "11" + "00000" + "1" * 6)
    with pytest.raises(UnusualStreamError):
        follow([coded(I_PICTURE, 0, rest="000" + "00" + "00001"), damaged], header=INTERLACED)


def test_b_pictures_of_interlaced_streams_are_refused() -> None:
    intra = coded(I_PICTURE, 0, rest="0" * 5 + "00100")
    later = coded(P_PICTURE, 2000, rest="0" * 6 + "00100" + "001")
    between = coded(B_PICTURE, 1000, rest="0" * 5 + "00100" + "001001")
    assert len(follow([intra, later], header=INTERLACED)) == 2
    with pytest.raises(UnusualStreamError, match="interlaced"):
        follow([intra, later, between], header=INTERLACED)


def test_pictures_too_short_for_their_macroblocks_are_refused() -> None:
    # 320 x 240 pixels are 300 macroblocks, and FFmpeg wants half a bit for each behind the header.
    for size, is_refused in ((14, True), (60, False)):
        samples = [I0, coded(P_PICTURE, 2000, size=size), coded(B_PICTURE, 1000, size=1)]
        if is_refused:
            with pytest.raises(UnusualStreamError, match="that a decoder refuses"):
                follow(samples)
        else:
            assert len(follow(samples)) == 3


def test_a_stream_without_headers_is_refused() -> None:
    with pytest.raises(UnusualStreamError):
        Mpeg4Reader(b"").read(I0)
