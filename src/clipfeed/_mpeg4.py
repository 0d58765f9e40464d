"""What the headers of an MPEG-4 part 2 stream say that both counting and decoding must know.

Pure functions of bytes. Nothing here reads files, follows a stream or knows PyAV.

Source: ISO/IEC 14496-2, 6.2.3 (VOL header); user data as in files of DivX 5 and XviD.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from clipfeed._bits import BitReader

__all__ = ["VOP_START", "Layer", "is_packed", "read_layer", "read_time_bits", "split_layer"]

VOP_START = b"\x00\x00\x01\xb6"
"""The start code of a VOP, which is what the codec calls a picture."""

_LAYER_BYTES = 192  # more than the longest header of a video object layer with both its matrices
_EXTENDED_ASPECT = 15
_RECTANGULAR, _GRAYSCALE = 0, 3

_VOL_START = re.compile(rb"\x00\x00\x01[\x20-\x2f]")
_PACKED_USER_DATA = re.compile(rb"\x00\x00\x01\xb2DivX\d+(?:Build|b)\d+p")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What the header of a video object layer says of its pictures.

    Attributes:
        time_resolution: vop_time_increment_resolution, units of time in a second, 1 to 65535.
        is_simple: True where the header could be read to its end, and pictures are rectangular, of 8 bits and whole: no
            sprites, partitions, scalability, complexity estimates, or choice of references by messages.
        is_interlaced: True where pictures may be; only right where `is_simple`.
        num_macroblocks: Macroblocks (16 x 16 pixels) of a picture; only right where `is_simple`.
    """

    time_resolution: int
    is_simple: bool
    is_interlaced: bool
    num_macroblocks: int

    @property
    def time_bits(self) -> int:
        """Number of bits of vop_time_increment, which stands in front of vop_coded, 1 to 16."""
        return _bits_of_time(self.time_resolution)


def read_layer(header: bytes) -> Layer | None:
    """Read the first header of a video object layer, or give None where there is none.

    Args:
        header: Bytes that hold it: extra data or the first sample.
    """
    begun = _read_to_resolution(header)
    if begun is None:
        return None
    reader, start, resolution = begun
    layer = Layer(time_resolution=resolution, is_simple=False, is_interlaced=False, num_macroblocks=0)
    return _read_rest(reader, layer, start.version) if start.is_rectangular else layer


def read_time_bits(header: bytes) -> int | None:
    """Give the number of bits of vop_time_increment, or None without a header of a video object layer.

    Args:
        header: As for `read_layer`.
    """
    begun = _read_to_resolution(header)
    return _bits_of_time(begun[2]) if begun else None


def is_packed(header: bytes) -> bool:
    """Tell whether the encoder says that it packs B-VOPs: user data such as "DivX503b1393p"."""
    return _PACKED_USER_DATA.search(header) is not None


def split_layer(section: bytes) -> tuple[str, str]:
    """Give what a video object layer's header says of decoding, without the buffer sizes that it may state.

    DivX states buffer sizes in the first header of a stream and leaves them out of later ones.

    Args:
        section: The header, start code included.

    Returns:
        Bits as "0" and "1": the header without vol_control_parameters and stuffing; chroma_format and low_delay of
        vol_control_parameters, "" where there are none.
    """
    body = section[len(VOP_START) :]
    start = _read_start(BitReader(body.ljust(_LAYER_BYTES, b"\0")))
    bits = f"{int.from_bytes(b'1' + body, 'big'):b}"[-8 * len(body) :]
    stuffed = bits[: start.control] + bits[start.behind :]
    return stuffed.rstrip("1").removesuffix("0"), bits[start.control + 1 : min(start.control + 4, start.behind)]


def _bits_of_time(resolution: int) -> int:
    return max(1, (resolution - 1).bit_length())


def _read_to_resolution(header: bytes) -> tuple[BitReader, _LayerStart, int] | None:
    """Read the first header of a layer up to its resolution of time, which is all that counting needs."""
    found = _VOL_START.search(header)
    if found is None:
        return None
    # Bits behind the end of a header that is cut off count as 0.
    reader = BitReader(header[found.end() : found.end() + _LAYER_BYTES].ljust(_LAYER_BYTES, b"\0"))
    start = _read_start(reader)
    reader.flag()
    resolution = reader.read(16)
    return (reader, start, resolution) if resolution else None


class _LayerStart(NamedTuple):
    """The start of a layer's header: where vol_control_parameters begin and end, bits behind the start code."""

    control: int
    behind: int
    version: int
    is_rectangular: bool


def _read_start(reader: BitReader) -> _LayerStart:
    """Read a layer's header up to the marker in front of the resolution of time."""
    reader.skip(1 + 8)  # random_accessible_vol, video_object_type_indication
    version = 1
    if reader.flag():  # is_object_layer_identifier
        version = reader.read(4)
        reader.skip(3)
    if reader.read(4) == _EXTENDED_ASPECT:
        reader.skip(16)
    control = reader.position
    if reader.flag():  # vol_control_parameters: chroma_format, low_delay, vbv_parameters
        reader.skip(3)
        if reader.flag():
            reader.skip(79)
    behind = reader.position
    shape = reader.read(2)
    if shape == _GRAYSCALE and version != 1:
        reader.skip(4)
    return _LayerStart(control, behind, version, shape == _RECTANGULAR)


def _read_rest(reader: BitReader, layer: Layer, version: int) -> Layer:
    """Read what stands behind the resolution of time in the header of rectangular pictures."""
    reader.flag()
    if reader.flag():  # fixed_vop_rate
        reader.skip(layer.time_bits)
    reader.flag()
    width = reader.read(13)
    reader.flag()
    height = reader.read(13)
    reader.flag()
    is_interlaced = reader.flag()
    reader.flag()  # obmc_disable
    is_simple = reader.read(1 if version == 1 else 2) == 0  # sprite_enable
    is_simple &= not reader.flag()  # not_8_bit
    if reader.flag():  # quant_type: each of two matrices may be given
        is_simple &= _skip_matrix(reader) and _skip_matrix(reader)
    if version != 1:
        reader.flag()  # quarter_sample
    is_simple &= reader.flag()  # complexity_estimation_disable
    reader.flag()  # resync_marker_disable
    is_simple &= not reader.flag()  # data_partitioned
    if version != 1:
        is_simple &= not reader.flag() and not reader.flag()  # newpred_enable, reduced_resolution_vop_enable
    is_simple &= not reader.flag()  # scalability
    num_macroblocks = -(-width // 16) * -(-height // 16)
    return replace(layer, is_simple=is_simple, is_interlaced=is_interlaced, num_macroblocks=num_macroblocks)


def _skip_matrix(reader: BitReader) -> bool:
    """Pass over a quantiser matrix that may be given, up to 64 numbers that a 0 cuts short; False if there is none."""
    if not reader.flag():
        return True
    for place in range(64):
        if reader.read(8) == 0:
            return place > 0
    return True
