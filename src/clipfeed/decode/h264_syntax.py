"""The headers of H.264: parameter sets, and the start of a slice as far as a decoder may refuse it.

Only what an ordinary decoder needs to say which frame is shown when, and that it is shown at all. What it refuses, and
what nobody uses, raises `UnusualStreamError`. Nothing here follows a stream.

Source: ISO/IEC 14496-10, 7.3 (syntax), 8.2.1 (order of display); limits as in FFmpeg 8 (libavcodec/h264_ps.c,
h264_slice.c).
"""

from __future__ import annotations

from dataclasses import dataclass

from clipfeed._bits import BitReader
from clipfeed.decode.route import UnusualStreamError

__all__ = ["PictureSet", "SequenceSet", "Slice", "check_rest", "read_picture_set", "read_sequence_set", "read_slice"]

_HIGH_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 138, 144, 244})
_EXTENDED_ASPECT = 255
_MAX_REORDERED = 16
_MAX_REFERENCES = 16  # of a slice of a whole frame
_P_SLICE, _B_SLICE, _I_SLICE = 0, 1, 2
_RESET = 5  # memory management operation that begins the count of frames anew
_LAST_OPERATION = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSet:
    """A sequence parameter set.

    Attributes:
        frame_number_bits: Bits of frame_num.
        order_type: pic_order_cnt_type: 0 (numbers in each slice) or 2 (as decoded).
        order_bits: Bits of pic_order_cnt_lsb.
        has_chroma: Whether weights are given for chroma as well.
        max_quantiser: Largest value of the quantiser.
        num_reordered: Frames that may stand before one and be shown after it; None where the set does not say.
    """

    frame_number_bits: int
    order_type: int
    order_bits: int
    has_chroma: bool
    max_quantiser: int
    num_reordered: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSet:
    """A picture parameter set.

    Attributes:
        sequence: Number of its sequence parameter set.
        has_bottom_order: Whether slices say how much later a frame's second field is shown.
        num_references: Pictures that slices refer to, in each of two directions, unless they say otherwise.
        has_weights: Whether P-slices give weights.
        has_b_weights: Whether B-slices do.
        quantiser: Where slices start from.
        has_filter_choice: Whether slices say how they are deblocked.
    """

    sequence: int
    has_bottom_order: bool
    num_references: tuple[int, int]
    has_weights: bool
    has_b_weights: bool
    quantiser: int
    has_filter_choice: bool


@dataclass(slots=True)
class Slice:
    """The start of a slice; `reader` stands behind the number of its order.

    Attributes:
        kind: 0 is P, 1 is B, 2 is I.
        frame_number: frame_num.
        order: pic_order_cnt_lsb; 0 where frames are shown as they are decoded.
        bottom_delta: How much later the frame's second field is shown.
        reader: Where the rest of the header is.
        sequence: Its sequence parameter set.
        picture: Its picture parameter set.
    """

    kind: int
    frame_number: int
    order: int
    bottom_delta: int
    reader: BitReader
    sequence: SequenceSet
    picture: PictureSet


def read_sequence_set(reader: BitReader) -> tuple[int, SequenceSet]:
    """Read a sequence parameter set and its number."""
    profile = reader.read(8)
    reader.skip(16)  # constraints, level
    number = reader.ue()
    chroma_format, depth = 1, 8
    if profile in _HIGH_PROFILES:
        chroma_format, depth = _read_format(reader)
    frame_number_bits = 4 + reader.ue()
    order_type, order_bits = reader.ue(), 0
    if order_type == 0:
        order_bits = 4 + reader.ue()
    _refuse(order_type not in (0, 2) or frame_number_bits > 16 or order_bits > 16 or number > 31)
    reader.ue()  # max_num_ref_frames
    reader.flag()  # gaps_in_frame_num_value_allowed_flag
    reader.ue()  # width and height, in macroblocks
    reader.ue()
    _refuse(not reader.flag())  # frame_mbs_only_flag: pictures that may be fields
    reader.flag()  # direct_8x8_inference_flag
    if reader.flag():
        for _ in range(4):  # cropping
            reader.ue()
    return number, SequenceSet(
        frame_number_bits=frame_number_bits,
        order_type=order_type,
        order_bits=order_bits,
        has_chroma=chroma_format > 0,
        max_quantiser=51 + 6 * (depth - 8),
        num_reordered=_read_usability(reader) if reader.flag() else None,
    )


def read_picture_set(reader: BitReader, sequences: dict[int, SequenceSet]) -> tuple[int, PictureSet]:
    """Read a picture parameter set and its number."""
    number, sequence = reader.ue(), reader.ue()
    _refuse(number > 255 or sequence not in sequences)
    # Without CABAC, coefficients of a damaged macroblock stay in the decoder and spoil another one of a later picture.
    _refuse(not reader.flag())  # entropy_coding_mode_flag
    has_bottom_order = reader.flag()
    _refuse(reader.ue() > 0)  # groups of slices
    num_references = (reader.ue() + 1, reader.ue() + 1)
    has_weights, weights_of_b = reader.flag(), reader.read(2)
    quantiser = 26 + sequences[sequence].max_quantiser - 51 + reader.se()
    reader.se()  # of switching pictures
    reader.se()  # chroma_qp_index_offset
    has_filter_choice = reader.flag()
    reader.flag()  # constrained_intra_pred_flag
    _refuse(reader.flag())  # redundant pictures
    return number, PictureSet(
        sequence=sequence,
        has_bottom_order=has_bottom_order,
        num_references=num_references,
        has_weights=has_weights,
        has_b_weights=weights_of_b == 1,
        quantiser=quantiser,
        has_filter_choice=has_filter_choice,
    )


def read_slice(
    reader: BitReader, sequences: dict[int, SequenceSet], pictures: dict[int, PictureSet], *, is_idr: bool
) -> Slice:
    """Read the start of a picture's first slice."""
    first_macroblock, kind = reader.ue(), reader.ue()
    picture = pictures.get(reader.ue())
    if first_macroblock or kind > 9 or kind % 5 > _I_SLICE or picture is None:
        raise UnusualStreamError("a damaged header of a slice")
    kind %= 5
    _refuse(is_idr and kind != _I_SLICE)
    sequence = sequences[picture.sequence]
    frame_number = reader.read(sequence.frame_number_bits)
    if is_idr:
        reader.ue()  # idr_pic_id
    order = bottom_delta = 0
    if sequence.order_type == 0:
        order = reader.read(sequence.order_bits)
        if picture.has_bottom_order:
            bottom_delta = reader.se()
    return Slice(kind, frame_number, order, bottom_delta, reader, sequence, picture)


def check_rest(slice_: Slice, *, is_reference: bool, is_idr: bool) -> None:
    """Read the rest of a slice's header and refuse what a decoder refuses."""
    reader, picture, kind = slice_.reader, slice_.picture, slice_.kind
    num_lists = {_P_SLICE: 1, _B_SLICE: 2}.get(kind, 0)
    if kind == _B_SLICE:
        reader.flag()  # direct_spatial_mv_pred_flag
    counts = picture.num_references[:num_lists]
    if num_lists and reader.flag():
        counts = tuple(reader.ue() + 1 for _ in range(num_lists))
    _refuse(any(count > _MAX_REFERENCES for count in counts))
    for count in counts:
        _read_list_changes(reader, count)
    if (kind == _P_SLICE and picture.has_weights) or (kind == _B_SLICE and picture.has_b_weights):
        _read_weights(reader, counts, has_chroma=slice_.sequence.has_chroma)
    if is_reference:
        _read_marking(reader, is_idr=is_idr)
    if num_lists:
        _refuse(reader.ue() > 2)  # cabac_init_idc
    _refuse(not 0 <= picture.quantiser + reader.se() <= slice_.sequence.max_quantiser)
    if picture.has_filter_choice:
        choice = reader.ue()
        _refuse(choice > 2 or (choice != 1 and not all(-6 <= reader.se() <= 6 for _ in range(2))))


def _read_format(reader: BitReader) -> tuple[int, int]:
    """Read the part of a sequence parameter set that only high profiles have: chroma format and depth in bits."""
    chroma_format = reader.ue()
    _refuse(chroma_format > 3 or (chroma_format == 3 and reader.flag()))  # planes coded apart
    depth = 8 + reader.ue()
    _refuse(reader.ue() + 8 != depth or depth > 14)
    reader.flag()  # qpprime_y_zero_transform_bypass_flag
    if reader.flag():
        for number in range(8 if chroma_format != 3 else 12):
            if reader.flag():
                _skip_scaling_list(reader, 16 if number < 6 else 64)
    return chroma_format, depth


def _skip_scaling_list(reader: BitReader, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + reader.se()) % 256
        last = following or last


def _read_usability(reader: BitReader) -> int | None:
    """Read a sequence's usability information (VUI), for the number of frames that are shown late."""
    if reader.flag() and reader.read(8) == _EXTENDED_ASPECT:
        reader.skip(32)
    if reader.flag():  # overscan
        reader.flag()
    if reader.flag():  # type of signal: format, range, colours
        reader.skip(4)
        if reader.flag():
            reader.skip(24)
    if reader.flag():  # place of chroma samples
        reader.ue()
        reader.ue()
    if reader.flag():  # timing
        reader.skip(65)
    has_buffers = [_skip_buffer_model(reader) for _ in range(2)]
    if any(has_buffers):
        reader.flag()
    reader.flag()  # pic_struct_present_flag
    if not reader.flag():  # bitstream_restriction_flag
        return None
    reader.flag()
    for _ in range(4):
        reader.ue()
    num_reordered = reader.ue()
    _refuse(num_reordered > _MAX_REORDERED)
    reader.ue()
    return num_reordered


def _skip_buffer_model(reader: BitReader) -> bool:
    """Pass over the parameters of a hypothetical decoder, if they are given."""
    if not reader.flag():
        return False
    num_buffers = reader.ue() + 1
    _refuse(num_buffers > 32)
    reader.skip(8)
    for _ in range(num_buffers):
        reader.ue()
        reader.ue()
        reader.flag()
    reader.skip(20)
    return True


def _read_list_changes(reader: BitReader, count: int) -> None:
    """Read how a list of references is put into another order."""
    if not reader.flag():
        return
    for place in range(count + 1):
        operation = reader.ue()
        if operation == 3:
            return
        _refuse(operation > 3 or place == count)
        reader.ue()


def _read_weights(reader: BitReader, counts: tuple[int, ...], *, has_chroma: bool) -> None:
    """Read the weights of references; a decoder refuses those that do not fit into a byte."""
    _refuse(reader.ue() > 7 or (has_chroma and reader.ue() > 7))
    for _ in range(sum(counts)):
        for num_values in (2, 4) if has_chroma else (2,):
            if reader.flag():
                _refuse(not all(-128 <= reader.se() <= 127 for _ in range(num_values)))


def _read_marking(reader: BitReader, *, is_idr: bool) -> None:
    """Read which references are given up."""
    if is_idr:
        reader.skip(2)
        return
    if not reader.flag():
        return
    while operation := reader.ue():
        _refuse(operation > _LAST_OPERATION or operation == _RESET)
        if operation in (1, 3):
            reader.ue()
        if operation in (2, 3, 4, 6):
            _refuse(reader.ue() > _MAX_REFERENCES)


def _refuse(is_refused: bool) -> None:  # it is the condition
    if is_refused:
        raise UnusualStreamError("a header that a decoder refuses, or that is rare")
