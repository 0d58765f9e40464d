"""What H.264 says of each packet: where it is shown, and whether anything refers to it.

Read from the header of a picture's first slice. A picture is closed (an IDR picture) where nothing from it on refers to
what came before, and free where nothing refers to it at all (nal_ref_idc is 0). Decoders take a picture with a sound
header and show a frame for it, however damaged the rest is; so that is what is asked of pictures that are left out.
Nothing here numbers frames or chooses.

Source: ISO/IEC 14496-10, 7.4.1, 7.4.3 (frame_num), 8.2.1 (order of display); FFmpeg 8 (libavcodec/h264_slice.c).
"""

from __future__ import annotations

from collections.abc import Iterator

from clipfeed._bits import BitReader
from clipfeed._nal import length_size, split_units, split_whole_units, unescape
from clipfeed.decode.h264_syntax import (
    PictureSet,
    SequenceSet,
    Slice,
    check_rest,
    read_picture_set,
    read_sequence_set,
    read_slice,
)
from clipfeed.decode.route import UnusualStreamError
from clipfeed.decode.timed import TimedPicture

__all__ = ["H264Reader"]

_SLICE, _IDR_SLICE, _MESSAGE, _SEQUENCE_SET, _PICTURE_SET, _DELIMITER, _FILLER, _PREFIX = 1, 5, 6, 7, 8, 9, 12, 14
_KNOWN = frozenset({_SLICE, _IDR_SLICE, _MESSAGE, _SEQUENCE_SET, _PICTURE_SET, _DELIMITER, _FILLER, _PREFIX})

# More than any header of a slice but those with weights for many references.
_HEADER_BYTES = 64


class H264Reader:
    """Reads the packets of a stream in order.

    Args:
        extradata: The stream's extra data: parameter sets, and how packets are cut into units.
    """

    def __init__(self, extradata: bytes) -> None:
        self._num_length_bytes = length_size(extradata, "h264")
        self._sequences: dict[int, SequenceSet] = {}
        self._pictures: dict[int, PictureSet] = {}
        self._sets: dict[tuple[int, int], bytes] = {}
        self._is_started = False
        # Of the newest reference: its number since the last IDR picture, and its order.
        self._newest_reference = self._order_high = self._order_low = 0
        for unit in _units_of_extradata(extradata):
            self._take_set(unit)

    @property
    def num_reordered(self) -> int | None:
        """Frames that may stand before one and be shown after it, as the stream says; None where it does not."""
        stated = {sequence.num_reordered for sequence in self._sequences.values()}
        return stated.pop() if len(stated) == 1 else None

    def read(self, packet: bytes) -> TimedPicture[Slice]:
        """Say what a packet's picture is (see `TimedReader.read`)."""
        first = b""
        for unit in split_units(packet, self._num_length_bytes):
            kind = unit[0] & 31
            if kind in (_SLICE, _IDR_SLICE):
                first = first or unit
            elif kind in (_SEQUENCE_SET, _PICTURE_SET):
                self._take_set(unit)
            elif kind not in _KNOWN:
                raise UnusualStreamError("a rare kind of unit")
        if not first:
            raise UnusualStreamError("a packet without a picture")
        self._is_started = True
        is_idr, is_reference = first[0] & 31 == _IDR_SLICE, first[0] & 0x60 != 0
        reader = BitReader(unescape(first[1 : 1 + _HEADER_BYTES]))
        header = read_slice(reader, self._sequences, self._pictures, is_idr=is_idr)
        order = self._follow(header, is_idr=is_idr, is_reference=is_reference)
        return TimedPicture(order, is_reference, is_idr, header)

    def check_left_out(self, packet: bytes, picture: TimedPicture[Slice]) -> None:
        """Vouch for a packet (see `TimedReader.check_left_out`)."""
        units = split_whole_units(packet, self._num_length_bytes)
        # The highest bit of a unit's first byte is 0.
        if units is None or not _KNOWN.issuperset(unit[0] & 0x9F for unit in units):
            raise UnusualStreamError("a damaged packet")
        check_rest(picture.header, is_reference=picture.is_reference, is_idr=picture.is_closed)

    def _follow(self, header: Slice, *, is_idr: bool, is_reference: bool) -> int:
        """Give a picture's place in the order of display; refuse a number that does not follow the one before."""
        sequence = header.sequence
        number = 0 if is_idr else self._newest_reference + 1
        if header.frame_number != number % (1 << sequence.frame_number_bits):
            raise UnusualStreamError("numbers of frames that jump")
        if is_reference:
            self._newest_reference = number
        if sequence.order_type != 0:
            return 2 * number - (not is_reference)
        if is_idr:
            self._order_high, self._order_low = 0, header.order
        high, low, half = self._order_high, header.order, 1 << (sequence.order_bits - 1)
        if low < self._order_low and self._order_low - low >= half:
            high += 2 * half
        elif low > self._order_low and low - self._order_low > half:
            high -= 2 * half
        if is_reference:
            self._order_high, self._order_low = high, low
        return high + low + min(0, header.bottom_delta)

    def _take_set(self, unit: bytes) -> None:
        """Take a parameter set; once pictures have come it must be one that is in force already."""
        unit = unit.rstrip(b"\0")
        if unit in self._sets.values():
            return
        if self._is_started:
            raise UnusualStreamError("parameter sets that change")
        kind, reader = unit[0] & 31, BitReader(unescape(unit[1:]))
        if kind == _SEQUENCE_SET:
            number, sequence = read_sequence_set(reader)
            self._sequences[number] = sequence
        else:
            number, picture = read_picture_set(reader, self._sequences)
            self._pictures[number] = picture
        self._sets[kind, number] = unit


def _units_of_extradata(extradata: bytes) -> Iterator[bytes]:
    """Give the parameter sets: with start codes, or as in MP4's avcC (ISO/IEC 14496-15, 5.3.3.1)."""
    if not extradata.startswith(b"\x01"):
        yield from split_units(extradata, 0)
        return
    at = 5
    for mask in (31, 255):  # sequence sets, then picture sets, each list behind its length
        num_sets = extradata[at] & mask if at < len(extradata) else 0
        at += 1
        for _ in range(num_sets):
            start = at + 2
            at = start + int.from_bytes(extradata[at:start])
            if start < at <= len(extradata):
                yield extradata[start:at]
