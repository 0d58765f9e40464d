"""Routes through Motion JPEG: every packet is a picture that stands by itself, so only the wanted ones are sent.

A picture is left out only where a decoder would show a frame for it: if its segments are those of the first picture,
which is always sent, contents of tables aside, and nothing among its coded data looks like another segment. Damage in
the data alone ends a picture early, but shows it. Nothing here decodes.

Source: ITU-T T.81, annex B; what a decoder refuses, as in FFmpeg 8 (libavcodec/mjpegdec.c).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from clipfeed.decode.references import I_PICTURE
from clipfeed.decode.route import Foreseen, Route, UnusualStreamError, Wanted
from clipfeed.decode.work import Packets

__all__ = ["make_route"]

_CODES, _START, _END, _SCAN, _QUANTISERS, _COMMENT = 0xC4, 0xD8, 0xD9, 0xDA, 0xDB, 0xFE
_QUANTISERS_BYTES = 65  # of a table: precision and number, then 64 quantisers of a byte
_MAX_LENGTH = 16  # of a code, in bits
_FIRST_MARKER, _LAST_MARKER = 0xC0, 0xFE
_RESTARTS = range(0xD0, 0xD8)

_Form: TypeAlias = list[tuple[int, bytes]]


def make_route(packets: Packets, wanted: Wanted, extradata: bytes) -> Route:
    """Say what to send: the first picture and the wanted ones (see `RouteMaker`)."""
    first_form: _Form = []
    for number, packet in enumerate(packets):
        form = _read_form(bytes(packet))
        if form != (first_form or form):
            raise UnusualStreamError("headers that change")
        first_form = form
        if number in wanted.numbers or number == 0:
            yield packet, (Foreseen(number, I_PICTURE),)
        if number == wanted.last:
            break
    yield None, ()


def _read_form(packet: bytes) -> _Form:
    """Give the segments of a picture, as (marker, content) with quantisers and comments left blank.

    Raises:
        UnusualStreamError: If this is not one whole picture of one scan.
    """
    form: _Form = []
    at = 2
    while not form or form[-1][0] != _SCAN:
        start = at + 4
        marker, at = int.from_bytes(packet[at : at + 2]), at + 2 + int.from_bytes(packet[at + 2 : start])
        if marker >> 8 != 0xFF or not start <= at <= len(packet):
            raise UnusualStreamError("a picture that does not begin with its segments")
        form.append((marker & 0xFF, _blank(marker & 0xFF, packet[start:at])))
    if packet[:2] != bytes([0xFF, _START]) or _find_marker(packet, at) != _END:
        raise UnusualStreamError("a picture that does not end, or with more than one scan")
    return form


def _blank(marker: int, content: bytes) -> bytes:
    """Take out what may differ from picture to picture: comments, and what tables hold, but not which they are."""
    if marker == _COMMENT:
        return b""
    if marker == _CODES:
        return _read_codes(content)
    if marker != _QUANTISERS:
        return content
    kinds = content[::_QUANTISERS_BYTES]
    if len(content) % _QUANTISERS_BYTES or any(kind >> 4 for kind in kinds):
        raise UnusualStreamError("tables of quantisers that are rare or damaged")
    return kinds


def _read_codes(content: bytes) -> bytes:
    """Give the kinds and numbers of tables of codes; refuse those that make no code."""
    kinds, at = [], 0
    while at < len(content):
        kind, lengths = content[at], content[at + 1 : at + 1 + _MAX_LENGTH]
        at += 1 + _MAX_LENGTH + sum(lengths)
        # Codes of all lengths together must not take more room than there is.
        room = sum(count << (_MAX_LENGTH - length) for length, count in enumerate(lengths, 1))
        if kind & 0xEC or sum(lengths) > 256 or room > 1 << _MAX_LENGTH:
            raise UnusualStreamError("damaged tables of codes")
        kinds.append(kind)
    if at > len(content):
        raise UnusualStreamError("damaged tables of codes")
    return bytes(kinds)


def _find_marker(packet: bytes, start: int) -> int:
    """Give the first marker among coded data, restarts aside, or 0."""
    data = np.frombuffer(packet, np.uint8, offset=start)
    behind = data[1:][data[:-1] == 0xFF]
    is_marker = (behind >= _FIRST_MARKER) & (behind <= _LAST_MARKER) & (behind & 0xF8 != _RESTARTS.start)
    markers = behind[is_marker]
    return int(markers[0]) if len(markers) else 0
