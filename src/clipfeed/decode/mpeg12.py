"""Which picture a packet of MPEG-1 or MPEG-2 video holds.

Only whole pictures, not fields. All units of a packet are looked at, since one that damage has made up may end a
picture early, or change the tables of those behind it. What is damaged inside a slice is concealed, and a frame is
shown. Nothing here numbers frames or chooses.

Source: ISO/IEC 13818-2, 6.2 (syntax), 6.3.9 (picture header) and 6.3.10 (picture coding extension); what a decoder
refuses, as in FFmpeg 8 (libavcodec/mpeg12dec.c).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from av.packet import Packet
from av.video.stream import VideoStream

from clipfeed.decode.references import B_PICTURE, Picture
from clipfeed.decode.route import UnusualStreamError

__all__ = ["Mpeg12Reader"]

_START = re.compile(rb"\x00\x00\x01")  # splits packets in half the time that `bytes.split` takes

# First byte of a unit: what it is. Slices are 1 to 175, their number of macroblock rows from the top.
_PICTURE, _USER_DATA, _SEQUENCE, _EXTENSION, _END, _GROUP = 0, 0xB2, 0xB3, 0xB5, 0xB7, 0xB8
_OF_SEQUENCE, _OF_SEQUENCE_DISPLAY, _OF_PICTURE_DISPLAY, _OF_PICTURE = 1, 2, 7, 8  # kinds of extensions
_WHOLE_FRAME = 3  # picture_structure

_MACROBLOCKS_PER_BYTE = 48  # FFmpeg refuses a picture with fewer bytes than this
_MAX_HEIGHT = 2800  # taller pictures have slices with more than one byte of position
_MIN_UNIT_BYTES = 4


class Mpeg12Reader:
    """Reads the packets of a stream in order (see `PictureReader`).

    Args:
        extradata: The stream's extra data, which may hold its headers.
    """

    num_always_sent = 1
    keeps_references = False

    def __init__(self, extradata: bytes) -> None:
        self._num_packets = 0
        self._headers: set[bytes] = set()
        self._is_mpeg2 = False
        self._num_rows = self._min_bytes = 0
        for unit in _START.split(extradata)[1:]:
            self._take_header(unit)

    def read(self, packet: bytes) -> Sequence[Picture]:
        """Give the picture of the next packet (see `PictureReader.read`)."""
        rest, *units = _START.split(packet)
        if rest.strip(b"\0") or len(packet) < self._min_bytes:
            raise UnusualStreamError("a packet that begins with something else, or is too short")
        if min(map(len, units), default=0) < _MIN_UNIT_BYTES:
            # Only the end of a sequence is that short.
            units = [unit for unit in units if unit.rstrip(b"\0") != bytes([_END])]
        place = next((place for place, unit in enumerate(units) if unit[:1] == b"\0"), len(units))
        for unit in units[:place]:
            self._take_header(unit)
        picture = Picture(self._read_kind(units[place:]), self._num_packets)
        self._num_packets += 1
        return (picture,)

    def part_of(self, picture: Picture, packet: Packet[VideoStream]) -> Packet[Any]:
        """Give the whole packet."""
        return packet

    def _take_header(self, unit: bytes) -> None:
        """Take a header in front of a picture; once pictures have come it must be a known one."""
        if len(unit) < _MIN_UNIT_BYTES:
            raise UnusualStreamError("half a header")
        unit = unit.rstrip(b"\0")
        if unit in self._headers or unit[0] in (_GROUP, _USER_DATA):
            return
        kind = unit[1] >> 4 if unit[0] == _EXTENSION else 0
        is_header = unit[0] == _SEQUENCE or kind in (_OF_SEQUENCE, _OF_SEQUENCE_DISPLAY)
        if self._num_packets or not is_header:
            raise UnusualStreamError("headers that change")
        self._headers.add(unit)
        if unit[0] == _SEQUENCE:
            width, height = int.from_bytes(unit[1:4]) >> 12, int.from_bytes(unit[1:4]) & 0xFFF
            self._num_rows = -(-height // 16)
            self._min_bytes = -(-width // 16) * self._num_rows // _MACROBLOCKS_PER_BYTE + 1
            if height > _MAX_HEIGHT:
                raise UnusualStreamError("a large picture")
        self._is_mpeg2 |= kind == _OF_SEQUENCE

    def _read_kind(self, units: Sequence[bytes]) -> int:
        """Give the type of a picture, from all its units: its header, extensions, slices."""
        if not units or not self._num_rows or len(units[0]) < _MIN_UNIT_BYTES:
            raise UnusualStreamError("a packet without a picture")
        kind = units[0][2] >> 3 & 7
        is_fit, num_extensions, num_slices = 1 <= kind <= B_PICTURE, 0, 0
        for unit in units[1:]:
            code = unit[0] if len(unit) > 2 else _PICTURE
            if 0 < code <= self._num_rows:
                num_slices += 1
            elif code == _EXTENSION and unit[1] >> 4 == _OF_PICTURE and len(unit) > _MIN_UNIT_BYTES:
                num_extensions += 1
                is_fit &= unit[3] & 3 == _WHOLE_FRAME and not num_slices
            else:
                is_other = code == _USER_DATA or (code == _EXTENSION and unit[1] >> 4 == _OF_PICTURE_DISPLAY)
                is_fit &= is_other and not num_slices
        if not is_fit or not num_slices or num_extensions != self._is_mpeg2:
            raise UnusualStreamError("fields, or units that do not belong into a picture")
        return kind
