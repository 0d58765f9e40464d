"""What the headers of an MPEG-4 part 2 stream say that both counting and decoding must know.

Pure functions of bytes. Nothing here reads files, follows a stream or knows PyAV.

Source: ISO/IEC 14496-2, 6.2.3 (VOL header); user data as in files of DivX 5 and XviD.
"""

from __future__ import annotations

import re

__all__ = ["VOP_START", "is_packed", "read_time_bits", "read_time_resolution", "split_layer"]

VOP_START = b"\x00\x00\x01\xb6"
"""The start code of a VOP, which is what the codec calls a picture."""

_LAYER_BYTES = 40  # more than the longest start of a video object layer's header

_VOL_START = re.compile(rb"\x00\x00\x01[\x20-\x2f]")
_PACKED_USER_DATA = re.compile(rb"\x00\x00\x01\xb2DivX\d+(?:Build|b)\d+p")


def read_time_resolution(header: bytes) -> int | None:
    """Give vop_time_increment_resolution, the units of time in a second.

    Args:
        header: Bytes that hold the video object layer's header: extra data or the first sample.

    Returns:
        1 to 65535, or None without such a header.
    """
    found = _VOL_START.search(header)
    return _read_layer(header[found.end() :])[2] if found else None


def read_time_bits(header: bytes) -> int | None:
    """Give the number of bits of vop_time_increment, which stands in front of vop_coded.

    Args:
        header: As for `read_time_resolution`.

    Returns:
        1 to 16, or None without such a header.
    """
    resolution = read_time_resolution(header)
    return max(1, (resolution - 1).bit_length()) if resolution else None


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
    control, behind, _ = _read_layer(body)
    bits = f"{int.from_bytes(b'1' + body, 'big'):b}"[-8 * len(body) :]
    stuffed = bits[:control] + bits[behind:]
    return stuffed.rstrip("1").removesuffix("0"), bits[control + 1 : min(control + 4, behind)]


def _read_layer(body: bytes) -> tuple[int, int, int | None]:
    """Give where vol_control_parameters begin and end, in bits behind the start code, and the resolution of time."""
    layer = int.from_bytes(body[:_LAYER_BYTES].ljust(_LAYER_BYTES, b"\0"), "big")

    def read(offset: int, num_bits: int) -> int:
        return layer >> (8 * _LAYER_BYTES - offset - num_bits) & ((1 << num_bits) - 1)

    at = 1 + 8  # behind random_accessible_vol, video_object_type_indication
    has_version = read(at, 1)  # is_object_layer_identifier
    version = read(at + 1, 4) if has_version else 1
    at += 8 if has_version else 1
    at += 20 if read(at, 4) == 15 else 4  # aspect_ratio_info, extended or not
    control = at
    if read(at, 1):  # vol_control_parameters: chroma_format, low_delay, vbv_parameters
        at += 4 + 79 * read(at + 4, 1)
    at += 1
    behind = at
    at += 6 if read(at, 2) == 3 and version != 1 else 2  # video_object_layer_shape, grayscale or not
    return control, behind, read(at + 1, 16) or None
