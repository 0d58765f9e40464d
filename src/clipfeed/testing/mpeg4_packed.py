"""The MPEG-4 streams of HMDB51 and UCF101 that no encoder makes any more, out of an ordinary one.

HMDB51's originals are DivX 5 in AVI with *packed* B-frames: AVI cannot say that a frame is shown later than it is
stored, so DivX put a P-VOP and the B-VOP that is shown before it into one sample, and filled the following sample with
a placeholder that codes nothing. Its second sample is a single byte, so the header claims one frame more than is shown.

    shown      I0      B1 P2          P3   B4 P5
    samples    [I0] [.] [P2 B1] [n]  [P3] [P5 B4] [n]       . one byte, n a VOP with vop_coded = 0

A few of UCF101's files (XviD without B-frames) hold VOPs with vop_coded = 0 that show nothing and stand for a dropped
frame. Here an ordinary stream is encoded and its VOPs are put into such samples; no picture is coded anew.

Source: ISO/IEC 14496-2, 6.2.5 (VideoObjectPlane); sample sizes and user data as found in HMDB51's and UCF101's files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import av
from av.video.frame import PictureType

from clipfeed._types import StrPath
from clipfeed.testing.avi import AviHeader, write_avi
from clipfeed.testing.marker import paint_numbered_frame

__all__ = ["write_not_coded_mpeg4", "write_packed_mpeg4"]

_VOP = b"\x00\x00\x01\xb6"
_USER_DATA = b"\x00\x00\x01\xb2"
_OBJECT = b"\x00\x00\x01\x00"

# Times inside the stream are counted in 1/30000 s, 1000 a frame, as DivX 5 did: 15 bits of time in each VOP header.
_TIME_RESOLUTION = 30_000
_TICKS_PER_FRAME = 1_000
_TIME_BITS = (_TIME_RESOLUTION - 1).bit_length()
_FPS = Fraction(_TIME_RESOLUTION, _TICKS_PER_FRAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CodedFrame:
    """One encoded picture: its bytes, headers before a key picture's VOP included, and its VOP's type."""

    payload: bytes
    kind: str


def write_packed_mpeg4(
    path: StrPath,
    *,
    num_frames: int = 61,
    size: tuple[int, int] = (96, 160),
    video_number: int = 0,
    max_b_frames: int = 1,
    stream_name: bytes | None = None,
) -> Path:
    """Write a numbered video of HMDB51's own kind: packed B-frames in AVI, 30 frames a second.

    Args:
        path: Where to write; an AVI whatever the extension.
        num_frames: Frames that it shows; the header claims one more.
        size: (height, width) in pixels.
        video_number: Spelled by every frame.
        max_b_frames: Longest run of B-VOPs: 1 as DivX 5 made them, 2 as XviD did.
        stream_name: Bytes of the stream's name; HMDB51's hold paths, some not in UTF-8.

    Returns:
        The path written.
    """
    pictures = [(number, number) for number in range(num_frames)]
    coded = _encode(pictures, size, video_number, max_b_frames)
    samples = list(_packed_samples(_with_user_data(coded, b"DivX503b2816p")))
    # The second sample is a byte of stuffing, as the encoder is one frame late.
    samples.insert(1, (b"\x7f", False))
    return write_avi(path, samples, AviHeader(size=size, fps=_FPS, codec_tag="DX50", name=stream_name))


def write_not_coded_mpeg4(
    path: StrPath,
    *,
    num_frames: int = 61,
    size: tuple[int, int] = (96, 160),
    video_number: int = 0,
    not_coded_before: Sequence[int] = (20, 37, 37),
) -> Path:
    """Write a numbered XviD video without B-frames in which some samples show nothing, as in UCF101's v_HorseRace.

    Args:
        path: Where to write; an AVI whatever the extension.
        num_frames: Frames that it shows; the header claims `len(not_coded_before)` more.
        size: (height, width) in pixels.
        video_number: Spelled by every frame.
        not_coded_before: Frame numbers before which a VOP with vop_coded = 0 stands; twice for two of them.

    Returns:
        The path written.
    """
    gaps = list(not_coded_before)
    pictures = [(number, number + sum(gap <= number for gap in gaps)) for number in range(num_frames)]
    coded = _with_user_data(_encode(pictures, size, video_number, 0), b"XviD0050")
    samples: list[tuple[bytes, bool]] = []
    for (number, _), frame in zip(pictures, coded, strict=True):
        for _ in range(gaps.count(number)):
            samples.append((_not_coded_vop(samples[-1][0], num_frames=1), False))
        samples.append((frame.payload, frame.kind == "I"))
    return write_avi(path, samples, AviHeader(size=size, fps=_FPS, codec_tag="xvid"))


def _encode(
    pictures: Sequence[tuple[int, int]], size: tuple[int, int], video_number: int, max_b_frames: int
) -> list[_CodedFrame]:
    """Encode (frame number, position in time) pairs as MPEG-4; gives the coded frames in decoding order."""
    encoder = av.CodecContext.create("mpeg4", "w")
    encoder.height, encoder.width = size
    encoder.pix_fmt = "yuv420p"
    encoder.time_base = Fraction(1, _TIME_RESOLUTION)
    encoder.options = {"bf": str(max_b_frames), "g": "300", "qscale": "3", "threads": "1"}
    packets = []
    for number, position in pictures:
        picture = paint_numbered_frame(number, size, video_number=video_number)
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
        frame.pts = position * _TICKS_PER_FRAME
        frame.time_base = encoder.time_base
        frame.pict_type = _picture_type(position)
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return [_CodedFrame(payload=bytes(packet), kind=_vop_kind(bytes(packet))) for packet in packets]


def _picture_type(position: int) -> PictureType:
    """Choose I, P, or (NONE) B as far as the encoder's longest run allows: mixed as DivX mixed them.

    Key pictures never stand near the turn of a second: their group header, which starts the count of seconds anew, is
    taken out later, and here it says nothing that the picture before did not say.
    """
    in_second = position % int(_FPS)
    if in_second == 17:
        return PictureType.I
    if in_second == 16 or position % 7 in (0, 1, 4):
        return PictureType.P
    return PictureType.NONE


def _with_user_data(coded: Sequence[_CodedFrame], user_data: bytes) -> list[_CodedFrame]:
    """Give key pictures the headers that DivX and XviD wrote: object, layer, user data, and the picture at once."""
    return [_with_headers(frame, user_data) if frame.kind == "I" else frame for frame in coded]


def _with_headers(frame: _CodedFrame, user_data: bytes) -> _CodedFrame:
    payload = frame.payload
    headers = payload[payload.index(_OBJECT) : payload.index(_USER_DATA)]
    return replace(frame, payload=headers + _USER_DATA + user_data + payload[payload.index(_VOP) :])


def _packed_samples(coded: Sequence[_CodedFrame]) -> Iterator[tuple[bytes, bool]]:
    """Put each reference and the first B-VOP after it into one sample; a placeholder ends the run."""
    run: list[_CodedFrame] = []
    for frame in [*coded, None]:
        if frame is not None and frame.kind == "B":
            run.append(frame)
            continue
        if run:
            yield run[0].payload + b"".join(b.payload for b in run[1:2]), run[0].kind == "I"
            yield from ((b.payload, False) for b in run[2:])
            if len(run) > 1:
                # Another byte of stuffing ends it, as DivX wrote.
                yield _not_coded_vop(run[0].payload, num_frames=0) + b"\x7f", False
        run = [] if frame is None else [frame]


def _not_coded_vop(previous: bytes, num_frames: int) -> bytes:
    """Write a P-VOP with vop_coded = 0, `num_frames` later than the last VOP of `previous`.

    Bits: vop_coding_type (2), modulo_time_base (a 1 a second, then 0), marker, time, marker, vop_coded, stuffing.
    """
    header = previous[previous.rindex(_VOP) + len(_VOP) :][:8]
    bits = f"{int.from_bytes(header):064b}"
    time_at = bits.index("0", 2) + 2
    time = int(bits[time_at : time_at + _TIME_BITS], 2) + num_frames * _TICKS_PER_FRAME
    seconds, time = divmod(time, _TIME_RESOLUTION)
    written = f"01{'1' * seconds}01{time:0{_TIME_BITS}b}10" + "0"
    written += "1" * (-len(written) % 8)
    return _VOP + int(written, 2).to_bytes(len(written) // 8)


def _vop_kind(payload: bytes) -> str:
    return "IPBS"[payload[payload.index(_VOP) + len(_VOP)] >> 6]
