"""What an MPEG-4 part 2 decoder does with samples, told from their first bytes: how many frames it shows.

A sample is what the container stores as one frame; a VOP is what the codec calls a picture. They are not the same:

    plain       I     P     P     n     P             n: a VOP with vop_coded = 0, shows nothing
    packed      I    [P|B]  n    [P|B]  n             two VOPs in one sample; the placeholder n makes up for it

FFmpeg decodes one VOP for each sample. In a packed stream it holds a sample's second VOP back if that is I or B, and
decodes it when the next sample comes, whatever that one holds. So packed streams, too, show one frame for each sample,
except where nothing is held back and the sample itself has nothing to show.

Nothing here decodes or reads files. Where the bytes leave a doubt the answer is None, and decoding must count.

Source: ISO/IEC 14496-2, 6.2.3 (VOL header) and 6.2.5 (VOP header); the order of events as observed in FFmpeg 8's
decoder, and checked against it for every clip of HMDB51 and UCF101 at hand and for generated streams.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray

__all__ = [
    "SMALL_SAMPLE_BYTES",
    "SampleVops",
    "count_shown_frames",
    "find_vops",
    "is_packed",
    "read_time_bits",
    "split_samples",
]

SMALL_SAMPLE_BYTES = 24
"""An empty VOP is a header alone, 7 bytes in every file seen; what is larger than this holds a picture."""

_KIND_I, _KIND_B = 0, 2  # vop_coding_type; 1 is P, 3 is S
_VOP_HEADER_BYTES = 8  # enough for the start of any VOP header: coding type, seconds, time increment, vop_coded
_MAX_SECONDS = 40  # modulo_time_base is one 1-bit a second; more do not fit into the bytes looked at
_MAX_HELD_TAIL_BYTES = 7  # FFmpeg does not look for a second VOP in a shorter rest of a sample

_VOL_START = re.compile(rb"\x00\x00\x01[\x20-\x2f]")
_PACKED_USER_DATA = re.compile(rb"\x00\x00\x01\xb2DivX\d+(?:Build|b)\d+p")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleVops:
    """The first two VOPs of each of n consecutive samples. Every array is (n,); kinds are vop_coding_type, 0 to 3.

    Attributes:
        num_vops: int64, VOPs that begin in the sample.
        first_kind: uint8, meaningless where there is none.
        first_is_coded: bool, False where there is none or vop_coded is 0.
        second_kind: uint8, meaningless where there is none.
        second_is_coded: bool, likewise.
        second_num_bytes: int64, from the second VOP's start code to the sample's end; 0 where there is none.
        num_bytes: int64, size of the sample.
        starts_sequence: bool, True where the sample begins with a visual object sequence, which drops what is held.
    """

    num_vops: IndexArray
    first_kind: NDArray[np.uint8]
    first_is_coded: NDArray[np.bool_]
    second_kind: NDArray[np.uint8]
    second_is_coded: NDArray[np.bool_]
    second_num_bytes: IndexArray
    num_bytes: IndexArray
    starts_sequence: NDArray[np.bool_]


def read_time_bits(header: bytes) -> int | None:
    """Give the number of bits of vop_time_increment, which stands in front of vop_coded.

    Args:
        header: Bytes that hold the video object layer's header: extra data or the first sample.

    Returns:
        1 to 16, or None without such a header.
    """
    found = _VOL_START.search(header)
    if found is None:
        return None
    bits = _Bits(header[found.end() : found.end() + 40])
    bits.take(1 + 8)  # random_accessible_vol, video_object_type_indication
    version = 1
    if bits.take(1):  # is_object_layer_identifier
        version = bits.take(4)
        bits.take(3)
    if bits.take(4) == 15:  # aspect_ratio_info: extended
        bits.take(16)
    if bits.take(1):  # vol_control_parameters
        bits.take(2 + 1)
        if bits.take(1):  # vbv_parameters
            bits.take(79)
    if bits.take(2) == 3 and version != 1:  # video_object_layer_shape: grayscale
        bits.take(4)
    bits.take(1)
    resolution = bits.take(16)
    return max(1, (resolution - 1).bit_length()) if resolution else None


def is_packed(header: bytes) -> bool:
    """Tell whether the encoder says that it packs B-VOPs: user data such as "DivX503b1393p"."""
    return _PACKED_USER_DATA.search(header) is not None


def find_vops(data: NDArray[np.uint8]) -> IndexArray:
    """Give the positions of all VOP start codes, 00 00 01 B6, of which at least one more byte is there.

    Looks at two bytes at a time, as words of even position, for "01 B6" and for "00 01" in front of B6: two passes in C
    without the GIL, about four times as fast as `bytes.find`.

    Args:
        data: (n,) uint8.

    Returns:
        (k,) int64, rising.
    """
    words = data[: len(data) & ~1].view("<u2")
    is_candidate = words == 0xB601
    is_candidate |= words == 0x0100
    groups = np.packbits(is_candidate)
    group = np.flatnonzero(groups != 0)  # eight words each; almost all of them are empty
    word = np.flatnonzero(np.unpackbits(groups[group]))
    even = 2 * (8 * group[word >> 3] + (word & 7))
    starts = np.concatenate((even - 2, even - 1))
    starts = np.sort(starts[(starts >= 0) & (starts < len(data) - 4)])
    code = data[starts] | data[starts + 1] | (data[starts + 2] ^ 1) | (data[starts + 3] ^ 0xB6)
    return starts[code == 0]


def split_samples(data: NDArray[np.uint8], starts: IndexArray, ends: IndexArray, time_bits: int) -> SampleVops | None:
    """Say which VOPs the samples hold.

    Args:
        data: (m,) uint8 that holds the samples.
        starts: (n,) int64, where each sample's bytes begin, rising.
        ends: (n,) int64, where they end, at most m.
        time_bits: What `read_time_bits` gave.

    Returns:
        One entry a sample, or None if a small VOP's header cannot be read.
    """
    vops = find_vops(data)
    first = np.searchsorted(vops, starts)
    num_vops = np.searchsorted(vops, ends - 4) - first
    vops = np.append(vops, (0, 0))  # so that absent ones can be looked up; masked by num_vops
    first_start, second_start = vops[first], vops[first + 1]
    has_first, has_second = num_vops > 0, num_vops > 1
    first_end = np.where(has_second, second_start, ends)
    first_is_coded = _are_coded(data, first_start, first_end, has_first, time_bits)
    second_is_coded = _are_coded(data, second_start, ends, has_second, time_bits)
    if first_is_coded is None or second_is_coded is None:
        return None
    codes = data[np.minimum(starts[:, None] + np.arange(4), len(data) - 1)]
    return SampleVops(
        num_vops=num_vops,
        first_kind=data[first_start + 4] >> 6,
        first_is_coded=first_is_coded,
        second_kind=data[second_start + 4] >> 6,
        second_is_coded=second_is_coded,
        second_num_bytes=np.where(has_second, ends - second_start, 0),
        num_bytes=ends - starts,
        starts_sequence=(codes == (0, 0, 1, 0xB0)).all(axis=1),
    )


def _are_coded(
    data: NDArray[np.uint8], starts: IndexArray, ends: IndexArray, is_there: NDArray[np.bool_], time_bits: int
) -> NDArray[np.bool_] | None:
    """Read vop_coded of the small VOPs; the others are too large to be empty."""
    is_coded = is_there.copy()
    small = np.flatnonzero(is_there & (ends - starts <= SMALL_SAMPLE_BYTES))
    if len(small):
        place = starts[small, None] + np.arange(4, 4 + _VOP_HEADER_BYTES)
        header = np.where(place < ends[small, None], data[np.minimum(place, len(data) - 1)], 0).astype(np.uint8)
        coded = _read_vop_coded(np.ascontiguousarray(header).view(">u8")[:, 0].astype(np.uint64), time_bits)
        if coded is None:
            return None
        is_coded[small] = coded
    return is_coded


def _read_vop_coded(header: NDArray[np.uint64], time_bits: int) -> NDArray[np.bool_] | None:
    """Read vop_coded from (k,) headers of 64 bits each, the coding type on top; None if a marker bit is missing."""
    rest = header << np.uint64(2)
    for _ in range(_MAX_SECONDS):
        has_second = (rest >> np.uint64(63)) != 0
        if not has_second.any():
            break
        rest = np.where(has_second, rest << np.uint64(1), rest)
    else:
        return None
    markers = (rest >> np.uint64(62)) & (rest >> np.uint64(61 - time_bits)) & np.uint64(1)
    if not markers.all():
        return None
    return ((rest >> np.uint64(60 - time_bits)) & np.uint64(1)) != 0


def count_shown_frames(samples: SampleVops, *, packed: bool) -> int | None:
    """Count the frames that a decoder shows, given all samples of a stream in order.

    Args:
        samples: All samples, the first one with an I-VOP.
        packed: Whether the encoder says that it packs B-VOPs.

    Returns:
        The number of frames, or None where only decoding can tell: a B-VOP before two references, or a held VOP that
        may be empty.
    """
    shown, kind = samples.first_is_coded, samples.first_kind
    if packed:
        if _has_doubtful_vop(samples):
            return None
        uses_held, held_kind = _held_vops(samples)
        shown, kind = shown | uses_held, np.where(uses_held, held_kind, kind)
    kind = kind[shown]
    is_b = kind == _KIND_B
    if is_b.any() and np.argmax(is_b) < 2:
        return None
    return len(kind)


def _has_doubtful_vop(samples: SampleVops) -> bool:
    """Find VOPs that may be held and are empty, or stand in a rest that FFmpeg perhaps does not search."""
    has_second = samples.num_vops > 1
    is_short = has_second & (samples.second_num_bytes <= _MAX_HELD_TAIL_BYTES)
    is_empty = has_second & ~samples.second_is_coded
    first_is_empty = (samples.num_vops > 0) & ~samples.first_is_coded & _may_be_held(samples.first_kind)
    return bool((is_short | is_empty | first_is_empty).any())


def _may_be_held(kind: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (kind == _KIND_I) | (kind == _KIND_B)


def _held_vops(samples: SampleVops) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Say for each sample whether a VOP held back before it is decoded in its place, and of which kind that is.

    Whether a sample leaves a VOP held depends on whether one was held before it: `after_own` if not, `after_held` if
    so. A run of such choices is solved without a loop: from the last sample where both agree, the state flips at each
    sample that holds only if none was held.
    """
    after_own = samples.first_is_coded & (samples.num_vops > 1) & _may_be_held(samples.second_kind)
    after_held = (samples.num_vops > 0) & _may_be_held(samples.first_kind) & (samples.num_bytes > _MAX_HELD_TAIL_BYTES)
    after_held = np.where(samples.starts_sequence, after_own, after_held)
    number = np.arange(len(after_own))
    settled = np.maximum.accumulate(np.where(after_own == after_held, number, -1))
    flips = np.cumsum(after_own & ~after_held)
    start = np.where(settled >= 0, after_own[settled], False)
    flips_since = flips - np.where(settled >= 0, flips[settled], 0)
    is_held_after = start ^ ((flips_since & 1) != 0)

    is_held = np.concatenate(([False], is_held_after[:-1]))
    uses_held = is_held & ~samples.starts_sequence
    held_kind = np.where(uses_held, samples.first_kind, samples.second_kind)
    return uses_held, np.concatenate(([0], held_kind[:-1])).astype(np.uint8)


class _Bits:
    """Bits of a header, most significant first; zeros after its end."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def take(self, num_bits: int) -> int:
        """Give the next bits as a number."""
        self._left -= num_bits
        value = self._value >> self._left if self._left >= 0 else self._value << -self._left
        return value & ((1 << num_bits) - 1)
