"""What an MPEG-4 part 2 decoder does with samples, told from their first bytes: how many frames it shows.

A sample is what the container stores as one frame; a VOP is what the codec calls a picture. They are not the same:

    plain       I     P     P     n     P             n: a VOP with vop_coded = 0, shows nothing
    packed      I    [P|B]  n    [P|B]  n             two VOPs in one sample; the placeholder n makes up for it

FFmpeg decodes one VOP for each sample. In a packed stream it holds a sample's second VOP back if that is I or B, and
decodes it when the next sample comes, whatever that one holds. So a packed stream, too, shows one frame for each
sample, except where nothing is held back and the sample itself has nothing to show.

Nothing here decodes or reads files. Where the bytes leave a doubt the answer is None, and decoding must count.

Source: ISO/IEC 14496-2, 6.2.3 (VOL header) and 6.2.5 (VOP header); the order of events as observed in FFmpeg 8's
decoder, and checked against it for every clip of HMDB51 and UCF101 at hand and for generated streams.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray

__all__ = [
    "SMALL_SAMPLE_BYTES",
    "SampleVops",
    "count_shown_frames",
    "find_vops",
    "is_packed",
    "join_samples",
    "read_time_bits",
    "split_samples",
    "starts_with_intra",
]

SMALL_SAMPLE_BYTES = 24
"""An empty VOP is a header alone, 7 bytes in every file seen; what is larger than this holds a picture."""

_KIND_I, _KIND_B = 0, 2  # vop_coding_type; 1 is P, 3 is S. FFmpeg holds back what is even
_SEQUENCE_CODE = 0xB0  # last byte of a visual object sequence's start code
_VOP_HEADER_BYTES = 8  # enough for the start of any VOP header: coding type, seconds, time increment, vop_coded
_MAX_SECONDS = 40  # modulo_time_base is one 1-bit a second; more do not fit into the bytes looked at
_MAX_UNSEARCHED_BYTES = 7  # FFmpeg does not look for a VOP to hold in a rest as short as this

_VOP_START = b"\x00\x00\x01\xb6"
_VOL_START = re.compile(rb"\x00\x00\x01[\x20-\x2f]")
_PACKED_USER_DATA = re.compile(rb"\x00\x00\x01\xb2DivX\d+(?:Build|b)\d+p")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleVops:
    """What decides the fate of each of n consecutive samples. Every array is (n,).

    Attributes:
        shows_own: bool, a VOP begins in the sample, and the first one has a picture.
        first_may_wait: bool, that VOP is of a kind that is held back, and found if the sample is searched from its start.
        second_may_wait: bool, a second VOP begins in the sample and is of a kind that is held back.
        first_kind: uint8 vop_coding_type, meaningless where there is no VOP.
        second_kind: uint8, likewise.
        starts_sequence: bool, the sample begins with a visual object sequence, which drops what is held.
        is_doubtful: bool, a VOP that may be held is perhaps empty, or too short to be found.
    """

    shows_own: NDArray[np.bool_]
    first_may_wait: NDArray[np.bool_]
    second_may_wait: NDArray[np.bool_]
    first_kind: NDArray[np.uint8]
    second_kind: NDArray[np.uint8]
    starts_sequence: NDArray[np.bool_]
    is_doubtful: NDArray[np.bool_]


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


def starts_with_intra(sample: bytes) -> bool:
    """Tell whether a sample's first VOP is an I-VOP."""
    kind_at = sample.find(_VOP_START) + len(_VOP_START)
    return len(_VOP_START) <= kind_at < len(sample) and sample[kind_at] >> 6 == _KIND_I


def find_vops(data: NDArray[np.uint8]) -> IndexArray:
    """Give the positions of all VOP start codes, 00 00 01 B6, of which at least one more byte is there.

    A few passes in C without the GIL, four times as fast as `bytes.find`: words of two bytes at even positions are
    compared with "01 B6" and with "00 01", eight of them become one bit mask, and only where that is not 0, a few times
    in 64 KiB, bytes are looked at.

    Args:
        data: (n,) uint8.

    Returns:
        (k,) int64, rising.
    """
    words = data[: len(data) & ~1].view("<u2")
    is_candidate = words == 0xB601
    is_candidate |= words == 0x0100
    group = (np.packbits(is_candidate) != 0).nonzero()[0]
    # A code whose candidate is in group g begins at one of the 16 bytes from 16 g - 2 on.
    near = data.take(16 * group[:, None] + np.arange(-2, 17), mode="clip")
    is_code = (near[:, 3:] == 0xB6) & (near[:, 2:-1] == 1) & (near[:, 1:-2] == 0) & (near[:, :-3] == 0)
    row, column = is_code.nonzero()
    starts: IndexArray = 16 * group[row] + column - 2
    return starts[(starts >= 0) & (starts < len(data) - 4)]


def split_samples(data: NDArray[np.uint8], starts: IndexArray, ends: IndexArray, time_bits: int) -> SampleVops | None:
    """Say which VOPs the samples hold.

    Args:
        data: (m,) uint8 that holds the samples.
        starts: (n,) int64, where each sample's bytes begin, rising.
        ends: (n,) int64, where they end, at most m.
        time_bits: What `read_time_bits` gave.

    Returns:
        One entry a sample, or None if the header of a small VOP cannot be read.
    """
    vops = find_vops(data)
    number = vops.searchsorted(starts)
    vops = np.append(vops, (len(data), len(data)))  # so that the VOPs of a sample without any can be looked up
    first, second, last = vops[number], vops[number + 1], ends - 4
    has_first, has_second = first < last, second < last
    first_kind = data.take(first + 4, mode="clip") >> 6
    second_kind = data.take(second + 4, mode="clip") >> 6
    first_may_wait = has_first & (first_kind & 1 == 0)
    small = (has_first & (np.minimum(second, ends) - first <= SMALL_SAMPLE_BYTES)).nonzero()[0]
    is_coded = _read_vop_coded(data, first[small], time_bits)
    if is_coded is None:
        return None
    shows_own = has_first.copy()
    shows_own[small] = is_coded
    return SampleVops(
        shows_own=shows_own,
        first_may_wait=first_may_wait & (ends - starts > _MAX_UNSEARCHED_BYTES),
        second_may_wait=has_second & (second_kind & 1 == 0),
        first_kind=first_kind,
        second_kind=second_kind,
        starts_sequence=data.take(starts + 3, mode="clip") == _SEQUENCE_CODE,
        is_doubtful=(first_may_wait & ~shows_own) | (has_second & (ends - second <= SMALL_SAMPLE_BYTES)),
    )


def join_samples(groups: list[SampleVops]) -> SampleVops:
    """Put groups of consecutive samples one behind the other; at least one group."""
    if len(groups) == 1:
        return groups[0]
    columns = {
        field.name: np.concatenate([getattr(group, field.name) for group in groups]) for field in fields(SampleVops)
    }
    return SampleVops(**columns)


def count_shown_frames(samples: SampleVops, *, packed: bool) -> int | None:
    """Count the frames that a decoder shows, given all samples of a stream in order.

    Args:
        samples: All samples, at least one.
        packed: Whether the encoder says that it packs B-VOPs.

    Returns:
        The number of frames, or None where only decoding can tell: a B-VOP before two references, which is not shown,
        or a doubt about what is held.
    """
    shown = samples.shows_own
    uses_held = _uses_held(samples) if packed else np.zeros(len(shown), np.bool_)
    if packed and samples.is_doubtful.any():
        return None
    shown = shown | uses_held
    for number in shown.nonzero()[0][:2].tolist():
        if _shown_kind(samples, uses_held, number) == _KIND_B:
            return None
    return int(np.count_nonzero(shown))


def _uses_held(samples: SampleVops) -> NDArray[np.bool_]:
    """Say for each sample whether a VOP held back before it is decoded in its place.

    Whether a sample leaves a VOP held depends on whether one was held before it: `after_own` if not, `after_held` if
    so. The chain is solved without a loop: from the last sample where both agree, the state flips at each sample that
    holds only if none was held.
    """
    after_own = samples.shows_own & samples.second_may_wait
    after_held = np.where(samples.starts_sequence, after_own, samples.first_may_wait)
    settled = np.maximum.accumulate(np.where(after_own == after_held, np.arange(len(after_own)), -1))
    flips = np.append(np.cumsum(after_own & ~after_held), 0)  # [-1] is 0: nothing is held before the first sample
    state = np.append(after_own, False)[settled] ^ (((flips[:-1] - flips[settled]) & 1) != 0)
    uses_held = np.zeros(len(state), np.bool_)
    uses_held[1:] = state[:-1] & ~samples.starts_sequence[1:]
    return uses_held


def _shown_kind(samples: SampleVops, uses_held: NDArray[np.bool_], number: int) -> int:
    """Give the kind of the VOP that is decoded for a sample: its own, or what the sample before it left held."""
    if not uses_held[number]:
        return int(samples.first_kind[number])
    before = number - 1
    return int(samples.first_kind[before] if uses_held[before] else samples.second_kind[before])


def _read_vop_coded(data: NDArray[np.uint8], vops: IndexArray, time_bits: int) -> NDArray[np.bool_] | None:
    """Read vop_coded of the VOPs that begin at these positions; None if a marker bit is missing."""
    if len(vops) == 0:
        return np.zeros(0, np.bool_)
    headers = data.take(vops[:, None] + np.arange(4, 4 + _VOP_HEADER_BYTES), mode="clip")
    rest = headers.view(">u8")[:, 0].astype(np.uint64) << np.uint64(2)
    for _ in range(_MAX_SECONDS):
        has_second = (rest >> np.uint64(63)) != 0
        if not has_second.any():
            break
        rest = np.where(has_second, rest << np.uint64(1), rest)
    else:
        return None
    markers = (rest >> np.uint64(62)) & (rest >> np.uint64(61 - time_bits)) & np.uint64(1)
    is_coded: NDArray[np.bool_] = ((rest >> np.uint64(60 - time_bits)) & np.uint64(1)) != 0
    return is_coded if markers.all() else None


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
