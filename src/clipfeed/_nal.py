"""The units (NAL units) that packets of H.264 and HEVC consist of.

Pure functions of bytes. Nothing here decodes, reads files or knows PyAV.

Source: ISO/IEC 14496-10, 7.4.1 and annex B (start codes, emulation prevention); ISO/IEC 14496-15 (length fields).
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["length_size", "split_units", "split_whole_units", "unescape"]

_START = b"\x00\x00\x01"
_ESCAPE = b"\x00\x00\x03"


def length_size(extradata: bytes | None, codec: str) -> int:
    """Give the number of bytes of the length fields that the extra data announces, or 0 where units have start codes.

    Args:
        extradata: The stream's extra data.
        codec: "h264" or "hevc".
    """
    length_at = 4 if codec == "h264" else 21  # lengthSizeMinusOne in avcC and hvcC
    if not extradata or extradata[0] != 1 or len(extradata) <= length_at:
        return 0
    return (extradata[length_at] & 3) + 1


def split_units(packet: bytes, num_length_bytes: int) -> Iterator[bytes]:
    """Give a packet's units, as far as they can be told apart.

    Args:
        packet: The packet.
        num_length_bytes: As `length_size` gives it.
    """
    if not num_length_bytes:
        yield from (unit for unit in packet.split(_START)[1:] if unit)
        return
    at = 0
    while at + num_length_bytes < len(packet):
        start = at + num_length_bytes
        at = start + int.from_bytes(packet[at:start], "big")
        if start < at <= len(packet):
            yield packet[start:at]


def split_whole_units(packet: bytes, num_length_bytes: int) -> list[bytes] | None:
    """Give a packet's units, or None where something is left over, or a start code hides in a unit with a length.

    FFmpeg splits such a unit in two.
    """
    if not num_length_bytes:
        units = packet.split(_START)
        return units[1:] if not units[0].strip(b"\0") and all(units[1:]) else None
    units, at = [], 0
    while at < len(packet):
        start = at + num_length_bytes
        at = start + int.from_bytes(packet[at:start], "big")
        if not start < at <= len(packet) or packet.rfind(_START, start, at) >= 0:
            return None
        units.append(packet[start:at])
    return units


def unescape(unit: bytes) -> bytes:
    """Take out the bytes that keep a unit from looking like a start code."""
    return unit.replace(_ESCAPE, b"\x00\x00") if _ESCAPE in unit else unit
