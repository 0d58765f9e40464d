"""Where a stream can be decoded from, told by the first packet of H.264, HEVC and MPEG-4."""

from __future__ import annotations

from collections.abc import Iterator

from clipfeed._nal import length_size, split_units
from clipfeed.probe.mpeg4 import starts_with_intra

__all__ = ["starts_closed", "starts_decodable", "turns_picture"]

_H264_IDR, _H264_SEI = 5, 6
_HEVC_IDR, _HEVC_SEI = frozenset({19, 20}), 39  # IDR_W_RADL, IDR_N_LP; prefix SEI
_DISPLAY_ORIENTATION = 47  # SEI payload type, in H.264 (D.2.26) as in HEVC (D.2.16)


def starts_decodable(packet: bytes, codec: str, extradata: bytes | None) -> bool:
    """Tell whether a stream that begins with this packet shows a frame for every packet.

    H.264 and HEVC must begin with a true key picture (IDR): after any other, pictures shown before it are dropped.
    MPEG-4 must begin with an I-VOP. Of other codecs nothing is asked.
    """
    if codec == "mpeg4":
        return starts_with_intra(packet)
    return codec not in ("h264", "hevc") or starts_closed(packet, codec, extradata)


def starts_closed(packet: bytes, codec: str, extradata: bytes | None) -> bool:
    """Tell whether an H.264 or HEVC packet holds an IDR picture."""
    return any(_is_idr(unit, codec) for unit in split_units(packet, length_size(extradata, codec)))


def turns_picture(packet: bytes, codec: str, extradata: bytes | None) -> bool:
    """Tell whether an H.264 or HEVC packet brings a display orientation message (SEI)."""
    units = split_units(packet, length_size(extradata, codec))
    return any(_DISPLAY_ORIENTATION in _message_types(unit, codec) for unit in units)


def _is_idr(unit: bytes, codec: str) -> bool:
    return unit[0] & 31 == _H264_IDR if codec == "h264" else (unit[0] >> 1) & 63 in _HEVC_IDR


def _message_types(unit: bytes, codec: str) -> Iterator[int]:
    """Give the payload types of an SEI unit's messages."""
    kind, at = (unit[0] & 31 == _H264_SEI, 1) if codec == "h264" else ((unit[0] >> 1) & 63 == _HEVC_SEI, 2)
    while kind and at + 2 < len(unit):
        numbers = []
        for _ in ("type", "size"):  # each: 255 for every full 255, then the rest
            number = 0
            while at < len(unit) and unit[at] == 255:
                number, at = number + 255, at + 1
            numbers.append(number + (unit[at] if at < len(unit) else 0))
            at += 1
        yield numbers[0]
        at += numbers[1]
