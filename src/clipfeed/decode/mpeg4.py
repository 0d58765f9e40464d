"""Which pictures of an MPEG-4 part 2 stream the decoder must be sent so that it shows the wanted ones.

`Stream` takes the packets in order and follows what a decoder would do with each: which VOP (picture) it decodes and
which number the frame has that it shows. `needed` then walks backwards from the wanted numbers:

    a B-VOP          nothing refers to it: needed if wanted
    a P-VOP          refers to the reference before it: needed if wanted, or if a later one needs it
    an I-VOP         refers to nothing: what comes before it in its group is needed for itself alone

so what is saved is unwanted B-VOPs and the end of each group behind its last wanted frame. A packed packet, [P|B], is
sent as two, since a decoder that is not sent every packet must not be left with half of one.

Whatever is not as in an ordinary stream raises `UnusualStreamError`: then only decoding everything tells what is shown.
Nothing here decodes, reads files or knows PyAV.

Source: ISO/IEC 14496-2, 6.2.3 to 6.2.5; what is decoded when, as in FFmpeg 8 (libavcodec/mpeg4videodec.c, h263dec.c).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from clipfeed._mpeg4 import VOP_START, is_packed, read_time_bits, read_time_resolution, split_layer

__all__ = ["B_VOP", "I_VOP", "NUM_ALWAYS_SENT", "P_VOP", "Stream", "UnusualStreamError", "Vop", "needed"]

I_VOP: Final = 0
P_VOP: Final = 1
B_VOP: Final = 2

# FFmpeg learns from how pictures end whether the encoder pads them wrongly, and then takes damage at an end for that: a
# score falls by 1 with each sound picture and rises by 16 at most with one that is not; above -2 all ends are believed.
NUM_ALWAYS_SENT: Final = 18

_MAX_STUFFING_BYTES = 7  # of a packet without a VOP; a damaged picture is longer
_MAX_UNSEARCHED_BYTES = 7  # FFmpeg does not look for a second picture in a rest as short as this
_MAX_TIME = 1 << 16  # FFmpeg keeps distances between pictures in 16 bits
_NEVER_HELD = 0x40  # the bit of the byte behind a VOP's start code that tells P and S from I and B
_HEADER_BYTES = 8  # of a VOP that hold its type, time and vop_coded
_KIND = 62  # lowest bit of the type in them, of 64
_FIRST_SECOND = 61  # bit of modulo_time_base, which is one 1-bit a second and ends with a 0
_LAST_SECOND = 21  # with more seconds the rest does not fit into the bytes looked at

_GROUP_START = 0xB3  # last byte of the start code of a group of VOPs
_LAYER_STARTS = range(0x20, 0x30)  # the same of a video object layer
_SEQUENCE_START = b"\x00\x00\x01\xb0"
_CODE_START = b"\x00\x00\x01"


class UnusualStreamError(Exception):
    """The stream is not one whose frames are known without decoding it."""


@dataclass(slots=True)
class Vop:
    """One picture that a decoder decodes, in decoding order.

    Attributes:
        kind: `I_VOP`, `P_VOP` or `B_VOP`.
        packet: Number of the packet that holds it.
        number: Of the frame that it shows; None until that is known.
        second_at: Where the second picture of its packet begins, None where it is alone.
        is_second: Whether it is that second one.
    """

    kind: int
    packet: int
    number: int | None = None
    second_at: int | None = None
    is_second: bool = False

    def cut(self, packet: bytes) -> bytes:
        """Give what a decoder must be sent of the picture's packed packet.

        Of the first picture that is all of it, with the second one marked as of a kind that a decoder does not hold: so
        it decodes the first as it would in any case, where a damaged one may run on over its end.
        """
        if self.second_at is None:
            return packet
        if self.is_second:
            return packet[self.second_at :]
        kind_at = self.second_at + len(VOP_START)
        return b"".join((packet[:kind_at], bytes([packet[kind_at] | _NEVER_HELD]), packet[kind_at + 1 :]))


class _Header(NamedTuple):  # made for every picture: a frozen dataclass takes four times as long
    """The start of a VOP: seconds since the last reference's, and units of time within the second."""

    kind: int
    seconds: int
    units: int
    is_coded: bool


class Stream:
    """Follows a decoder through a stream, packet by packet.

    Args:
        extradata: The stream's extra data, which may hold its headers.
        first_packet: The first packet, which must yet be given to `add`.

    Raises:
        UnusualStreamError: If no header can be read.
    """

    def __init__(self, extradata: bytes, first_packet: bytes) -> None:
        header = extradata + first_packet
        resolution, time_bits = read_time_resolution(header), read_time_bits(header)
        if resolution is None or time_bits is None:
            raise UnusualStreamError("no header of a video object layer")
        self.vops: list[Vop] = []
        self.num_shown = 0
        self.has_b = False
        self._resolution = resolution
        self._time_bits = time_bits
        self._units = (1 << time_bits) - 1
        self._markers = 1 << (time_bits + 2) | 2
        self._is_packed = is_packed(header)
        first_headers = first_packet[: max(0, first_packet.find(VOP_START))]
        self._known_headers = _identities([*_sections(extradata), *_sections(first_headers)])
        self._num_packets = 0
        self._held: tuple[Vop, _Header] | None = None
        self._waiting: Vop | None = None  # the reference that is shown when the next one comes
        self._has_not_coded = False
        self._num_references = 0
        self._groups_with_time: set[bool] = set()
        # Times as the decoder keeps them.
        self._second = self._second_before = self._time = self._distance = 0

    def add(self, packet: bytes) -> None:
        """Take the next packet.

        Raises:
            UnusualStreamError: If what the decoder would do with it is in doubt.
        """
        number, first = self._num_packets, packet.find(VOP_START)
        self._num_packets += 1
        held, self._held = self._held, None
        if held is not None:
            # The packet only supplies the next picture to hold.
            self._decode(*held)
        if first < 0:
            if len(packet) > _MAX_STUFFING_BYTES:
                raise UnusualStreamError("a packet without a picture")
            return
        prefix = packet[:first]
        if prefix:
            self._look_at(prefix)
        second = self._find_second(packet, first)
        header = self._read_header(packet, first)
        if held is not None:
            self._supply(Vop(header.kind, number), header, has_more=second >= 0, prefix=prefix)
            return
        if not header.is_coded:
            self._pass_over(header, has_more=second >= 0)
            return
        if second < 0:
            self._decode(Vop(header.kind, number), header, prefix)
            return
        self._decode(Vop(header.kind, number, second_at=second), header, prefix)
        behind = self._read_header(packet, second)
        self._hold(Vop(behind.kind, number, second_at=second, is_second=True), behind)

    def finish(self) -> None:
        """Say that there are no more packets: the last reference is shown."""
        if self._waiting is not None:
            self._show(self._waiting)
            self._waiting = None

    def _find_second(self, packet: bytes, first: int) -> int:
        """Give the position of a packed packet's second picture, or -1; in other streams nobody looks for one."""
        second = packet.find(_CODE_START, first + 4) if self._is_packed else -1
        if second < 0:
            return second
        is_alone = packet.startswith(VOP_START, second) and packet.find(_CODE_START, second + 4) < 0
        if not is_alone or len(packet) - second <= _MAX_UNSEARCHED_BYTES:
            raise UnusualStreamError("a packet of more than two pictures")
        return second

    def _supply(self, vop: Vop, header: _Header, *, has_more: bool, prefix: bytes) -> None:
        """Hold a packet's only picture, if it has one."""
        if has_more or prefix.startswith(_SEQUENCE_START):
            raise UnusualStreamError("a packet after a packed one that would be lost")
        if header.is_coded:
            if prefix:
                raise UnusualStreamError("a held picture with headers")
            self._hold(vop, header)
        elif header.kind != P_VOP:
            raise UnusualStreamError("a placeholder that is no P-VOP")

    def _hold(self, vop: Vop, header: _Header) -> None:
        if header.kind == P_VOP or not header.is_coded:
            raise UnusualStreamError("a second picture that is not decoded")
        self._held = (vop, header)

    def _pass_over(self, header: _Header, *, has_more: bool) -> None:
        """Take a picture with vop_coded = 0 that stands alone: it shows nothing, but has a time."""
        self._has_not_coded = True
        if has_more or self.has_b or header.kind != P_VOP:
            raise UnusualStreamError("a picture that is not coded beside others")

    def _decode(self, vop: Vop, header: _Header, prefix: bytes = b"") -> None:
        if not self.vops and vop.kind != I_VOP:
            raise UnusualStreamError("a start that is no I-VOP")
        self.vops.append(vop)
        if vop.kind == B_VOP:
            self.has_b = True
            if self._num_references < 2 or self._has_not_coded or len(self._groups_with_time) > 1:
                raise UnusualStreamError("a B-VOP whose references are in doubt")
            time = (self._second_before + header.seconds) * self._resolution + header.units
            if not 0 < self._distance - (self._time - time) < self._distance < _MAX_TIME:
                raise UnusualStreamError("a B-VOP that is not between its references in time")
            self._show(vop)
            return
        if vop.kind == I_VOP and self._num_references:
            self._groups_with_time.add(_has_group(prefix))
            if self.has_b and len(self._groups_with_time) > 1:
                raise UnusualStreamError("times that begin anew at some I-VOPs only")
        self._second_before = self._second
        self._second += header.seconds
        time = self._second * self._resolution + header.units
        self._distance, self._time = time - self._time, time
        self._num_references += 1
        self.finish()
        self._waiting = vop

    def _show(self, vop: Vop) -> None:
        vop.number = self.num_shown
        self.num_shown += 1

    def _look_at(self, prefix: bytes) -> None:
        """Refuse headers that differ from the first ones; follow the time of a group's header."""
        for section in _sections(prefix):
            if section[3] == _GROUP_START:
                self._second = _read_group_second(section)
            elif not _identities([section]) <= self._known_headers:
                raise UnusualStreamError("headers that change")

    def _read_header(self, packet: bytes, start: int) -> _Header:
        bits = int.from_bytes(packet[start + 4 : start + 4 + _HEADER_BYTES].ljust(_HEADER_BYTES, b"\0"), "big")
        at = _FIRST_SECOND
        while bits >> at & 1:
            at -= 1
            if at < _LAST_SECOND:
                raise UnusualStreamError("a damaged picture header")
        # The 0 that ends the seconds, a marker, the units, a marker, vop_coded.
        fields = bits >> (at - self._time_bits - 3)
        kind = bits >> _KIND
        if kind > B_VOP or fields & self._markers != self._markers:
            raise UnusualStreamError("a sprite or a damaged picture header")
        return _Header(kind, _FIRST_SECOND - at, fields >> 2 & self._units, bool(fields & 1))


def needed(vops: Sequence[Vop], wanted: Collection[int], *, num_always: int = NUM_ALWAYS_SENT) -> list[Vop]:
    """Give the pictures that a decoder must be sent to show the wanted frames, in order.

    Args:
        vops: Pictures in decoding order, as `Stream` gathered them.
        wanted: Numbers of frames.
        num_always: How many of the first pictures are needed in any case; at least 1, as it carries the headers.
    """
    kept, num_before = [], 0  # references that what is kept refers to
    for place in range(len(vops) - 1, -1, -1):
        vop = vops[place]
        is_wanted = place < num_always or vop.number in wanted
        if vop.kind == B_VOP:
            if is_wanted:
                num_before = 2
                kept.append(vop)
        elif is_wanted or num_before:
            num_before = max(num_before - 1, int(vop.kind == P_VOP))
            kept.append(vop)
    return kept[::-1]


def _sections(headers: bytes) -> list[bytes]:
    """Cut headers at their start codes."""
    starts = [found.start() for found in re.finditer(_CODE_START, headers)]
    if headers and (not starts or starts[0] > 0):
        raise UnusualStreamError("bytes in front of the first header")
    sections = [headers[start:end] for start, end in pairwise([*starts, len(headers)])]
    if any(len(section) < 4 for section in sections):
        raise UnusualStreamError("half a start code")
    return sections


def _identities(sections: Iterable[bytes]) -> set[tuple[str, object]]:
    """Give what headers say that matters; one of a layer need not repeat its vol_control_parameters."""
    identities: set[tuple[str, object]] = {("layer's control", "")}
    for section in sections:
        if section[3] in _LAYER_STARTS:
            layer, control = split_layer(section)
            identities |= {("layer", layer), ("layer's control", control)}
        else:
            identities.add(("header", section))
    return identities


def _has_group(prefix: bytes) -> bool:
    return _CODE_START + bytes([_GROUP_START]) in prefix


def _read_group_second(section: bytes) -> int:
    """Give the time of a group of VOPs in seconds: hours, minutes, a marker, seconds in 5, 6, 1 and 6 bits."""
    bits = int.from_bytes(section[4:7].ljust(3, b"\0"), "big") >> 6
    hours, minutes, marker, seconds = bits >> 13, bits >> 7 & 63, bits >> 6 & 1, bits & 63
    if not marker:
        raise UnusualStreamError("a damaged header of a group")
    return (hours * 60 + minutes) * 60 + seconds
