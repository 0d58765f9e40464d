"""Which pictures a decoder decodes when it is sent a packet of MPEG-4 part 2, plain or packed.

`Mpeg4Reader` takes the packets in order and follows what a decoder would do with each: which VOPs (pictures) it
decodes. A packed packet, [P|B], is sent as two, since a decoder that is not sent all must not be left with half of one.
In packed streams all references are sent: a decoder looks for the second picture where it stopped reading the first,
and does not find it where damage led it on.

Headers of pictures are read as far as a decoder may refuse them; behind that, damage is concealed and a frame is shown.
Whatever is not as in an ordinary stream raises `UnusualStreamError`: then only decoding everything tells what is shown.
Nothing here decodes or reads files.

Source: ISO/IEC 14496-2, 6.2.3 to 6.2.5; what is decoded when, as in FFmpeg 8 (libavcodec/mpeg4videodec.c, h263dec.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from av.packet import Packet
from av.video.stream import VideoStream

from clipfeed._mpeg4 import VOP_START, is_packed, read_layer, split_layer
from clipfeed.decode.references import B_PICTURE, I_PICTURE, P_PICTURE, Picture
from clipfeed.decode.route import UnusualStreamError

__all__ = ["NUM_ALWAYS_SENT", "Mpeg4Reader", "Vop"]

# FFmpeg learns from how pictures end whether the encoder pads them wrongly, and then takes damage at an end for that: a
# score falls by 1 with each sound picture and rises by 16 at most with one that is not; above -2 all ends are believed.
NUM_ALWAYS_SENT: Final = 18

_MAX_STUFFING_BYTES = 7  # of a packet without a VOP; a damaged picture is longer
_MAX_UNSEARCHED_BYTES = 7  # FFmpeg does not look for a second picture in a rest as short as this
_MAX_TIME = 1 << 16  # FFmpeg keeps distances between pictures in 16 bits
_NEVER_HELD = 0x40  # the bit of the byte behind a VOP's start code that tells P and S from I and B

_START_BYTES = len(VOP_START)
_HEADER_BYTES = 12  # of a VOP behind its start code: type, time, vop_coded, quantiser, ranges of motion vectors
_KIND_AT = 8 * _HEADER_BYTES - 2  # lowest bit of the type in them
_SECONDS_AT = _KIND_AT - 1  # modulo_time_base: one 1-bit a second, then a 0
_BEHIND_KIND = (1 << _KIND_AT) - 1
_MAX_SECONDS = 30  # with more the rest may not fit into the bytes looked at

_GROUP_START = 0xB3  # last byte of the start code of a group of VOPs
_LAYER_STARTS = range(0x20, 0x30)  # the same of a video object layer
_SEQUENCE_START = b"\x00\x00\x01\xb0"
_CODE_START = b"\x00\x00\x01"


@dataclass(slots=True)
class Vop(Picture):
    """One picture.

    Attributes:
        seconds: Full seconds since the last reference's.
        units: Units of time within the second.
        is_coded: Whether it is a picture at all; one that is not shows nothing.
        second_at: Where the second picture of its packet begins, None where it is alone.
        is_second: Whether it is that second one.
    """

    seconds: int = 0
    units: int = 0
    is_coded: bool = True
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
        kind_at = self.second_at + _START_BYTES
        return b"".join((packet[:kind_at], bytes([packet[kind_at] | _NEVER_HELD]), packet[kind_at + 1 :]))


class Mpeg4Reader:
    """Reads the packets of a stream in order (see `PictureReader`).

    Args:
        extradata: The stream's extra data, which may hold its headers.
    """

    num_always_sent = NUM_ALWAYS_SENT

    def __init__(self, extradata: bytes) -> None:
        self._extradata = extradata
        self._num_packets = 0
        self._known_headers: set[tuple[str, object]] = set()
        self._known_prefixes: set[bytes] = set()
        self._is_packed = self._has_b = self._has_not_coded = False
        self._num_references = 0
        self._held: Vop | None = None
        self._groups_with_time: set[bool] = set()
        # Times as the decoder keeps them.
        self._second = self._second_before = self._time = self._distance = 0

    @property
    def keeps_references(self) -> bool:
        """Whether a decoder must be sent all references."""
        return self._is_packed

    def read(self, packet: bytes) -> Sequence[Vop]:
        """Give the pictures that the next packet makes a decoder decode (see `PictureReader.read`)."""
        first = packet.find(VOP_START)
        if not self._num_packets:
            self._begin(packet, first)
        self._num_packets += 1
        held, self._held = self._held, None
        if held is not None:
            # The packet only supplies the next picture to hold.
            self._follow(held)
        if first < 0:
            if len(packet) > _MAX_STUFFING_BYTES:
                raise UnusualStreamError("a packet without a picture")
            return () if held is None else (held,)
        prefix = packet[:first] if first else b""
        if prefix and prefix not in self._known_prefixes:
            self._look_at(prefix)
        second = self._find_second(packet, first) if self._is_packed else -1
        vop = self._read(packet, first)
        if held is not None:
            self._supply(vop, has_more=second >= 0, prefix=prefix)
            return (held,)
        if not vop.is_coded:
            self._pass_over(vop, has_more=second >= 0)
            return ()
        self._follow(vop, prefix)
        if second >= 0:
            vop.second_at = second
            behind = self._read(packet, second)
            behind.second_at, behind.is_second = second, True
            self._hold(behind)
        return (vop,)

    def part_of(self, picture: Vop, packet: Packet[VideoStream]) -> Packet[Any]:
        """Give a whole packet, or the picture's part of a packed one."""
        if picture.second_at is None:
            return packet
        # Not Packet(bytes): FFmpeg reads some bytes behind a packet's end, and only a packet of its own has them.
        payload = picture.cut(bytes(packet))
        part: Packet[Any] = Packet(len(payload))
        part.update(payload)
        return part

    def _begin(self, packet: bytes, first: int) -> None:
        """Take the headers in front of the first picture."""
        header = self._extradata + packet
        layer = read_layer(header)
        if layer is None or not layer.is_simple:
            raise UnusualStreamError("no header of a video object layer, or an unusual one")
        self._resolution = layer.time_resolution
        self._time_bits = layer.time_bits
        self._units = (1 << layer.time_bits) - 1
        self._markers = 1 << (layer.time_bits + 2) | 2
        self._is_interlaced = layer.is_interlaced
        # Bits behind vop_coded: intra_dc_vlc_thr, two flags of interlaced pictures, the rounding of a P-VOP, and what
        # `_read` looks at.
        num_flags = 5 if layer.is_interlaced else 3
        self._num_behind_coded = {I_PICTURE: num_flags + 5, P_PICTURE: num_flags + 9, B_PICTURE: num_flags + 11}
        self._min_bits = layer.num_macroblocks // 2  # FFmpeg refuses a shorter I- or P-VOP
        self._is_packed = is_packed(header)
        self._known_headers = _identities([*_sections(self._extradata), *_sections(packet[: max(0, first)])])

    def _find_second(self, packet: bytes, first: int) -> int:
        """Give the position of a packed packet's second picture, or -1; in other streams nobody looks for one."""
        # From behind: such a search takes a third of the time of one from the front.
        second = packet.rfind(_CODE_START, first + _START_BYTES)
        if second < 0:
            return second
        is_alone = packet.startswith(VOP_START, second) and packet.rfind(_CODE_START, first + _START_BYTES, second) < 0
        if not is_alone or len(packet) - second <= _MAX_UNSEARCHED_BYTES:
            raise UnusualStreamError("a packet of more than two pictures")
        return second

    def _supply(self, vop: Vop, *, has_more: bool, prefix: bytes) -> None:
        """Hold a packet's only picture, if it has one."""
        if has_more or prefix.startswith(_SEQUENCE_START):
            raise UnusualStreamError("a packet after a packed one that would be lost")
        if vop.is_coded:
            if prefix:
                raise UnusualStreamError("a held picture with headers")
            self._hold(vop)
        elif vop.kind != P_PICTURE:
            raise UnusualStreamError("a placeholder that is no P-VOP")

    def _hold(self, vop: Vop) -> None:
        if vop.kind == P_PICTURE or not vop.is_coded:
            raise UnusualStreamError("a second picture that is not decoded")
        self._held = vop

    def _pass_over(self, vop: Vop, *, has_more: bool) -> None:
        """Take a picture with vop_coded = 0 that stands alone: it shows nothing, but has a time."""
        self._has_not_coded = True
        if has_more or self._has_b or vop.kind != P_PICTURE:
            raise UnusualStreamError("a picture that is not coded beside others")

    def _follow(self, vop: Vop, prefix: bytes = b"") -> None:
        """Keep the times that a decoder keeps when it decodes a picture."""
        if vop.kind == B_PICTURE:
            self._check_b(vop)
            return
        if vop.kind == I_PICTURE and self._num_references:
            self._groups_with_time.add(_has_group(prefix))
            if self._has_b and len(self._groups_with_time) > 1:
                raise UnusualStreamError("times that begin anew at some I-VOPs only")
        self._num_references += 1
        self._second_before = self._second
        self._second += vop.seconds
        time = self._second * self._resolution + vop.units
        self._distance, self._time = time - self._time, time

    def _check_b(self, vop: Vop) -> None:
        """Refuse a B-VOP that a decoder would pass over."""
        self._has_b = True
        if self._has_not_coded or len(self._groups_with_time) > 1:
            raise UnusualStreamError("a B-VOP whose references are in doubt")
        if self._is_interlaced:  # of the first B-VOP a decoder remembers how long a frame lasts
            raise UnusualStreamError("a B-VOP of an interlaced stream")
        time = (self._second_before + vop.seconds) * self._resolution + vop.units
        if not 0 < self._distance - (self._time - time) < self._distance < _MAX_TIME:
            raise UnusualStreamError("a B-VOP that is not between its references in time")

    def _look_at(self, prefix: bytes) -> None:
        """Refuse headers that differ from the first ones; follow the time of a group's header."""
        if not _has_group(prefix):
            self._known_prefixes.add(prefix)
        for section in _sections(prefix):
            if section[3] == _GROUP_START:
                self._second = _read_group_second(section)
            elif not _identities([section]) <= self._known_headers:
                raise UnusualStreamError("headers that change")

    def _read(self, packet: bytes, start: int) -> Vop:
        """Read the header of the picture at a position of the newest packet, as far as a decoder may refuse it."""
        header = packet[start + _START_BYTES : start + _START_BYTES + _HEADER_BYTES]
        bits = int.from_bytes(header.ljust(_HEADER_BYTES, b"\0"))
        kind, at = (bits >> _KIND_AT) + 1, (~bits & _BEHIND_KIND).bit_length() - 1  # where the first 0 is
        seconds = _SECONDS_AT - at
        # The 0 that ends the seconds, a marker, the units, a marker, vop_coded.
        at -= self._time_bits + 3
        fields = bits >> at if seconds <= _MAX_SECONDS else 0
        if kind > B_PICTURE or fields & self._markers != self._markers:
            raise UnusualStreamError("a sprite or a damaged picture header")
        vop = Vop(kind, self._num_packets - 1, None, seconds, fields >> 2 & self._units, bool(fields & 1))
        if vop.is_coded:
            # At the end of what stands behind vop_coded are the quantiser and the ranges of motion vectors, forward and
            # backward, in 5, 3 and 3 bits; none of them may be 0.
            at -= self._num_behind_coded[kind]
            ranges = bits >> at
            is_long = 8 * (len(packet) - start - _START_BYTES - _HEADER_BYTES) + at >= self._min_bits
            if kind == B_PICTURE:
                is_fit = ranges & 0x7C0 and ranges & 0x38 and ranges & 7
            elif kind == P_PICTURE:
                is_fit = is_long and ranges & 0xF8 and ranges & 7
            else:
                is_fit = is_long and ranges & 0x1F
            if not is_fit:
                raise UnusualStreamError("a picture that a decoder refuses")
        return vop


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
