"""What an MPEG-4 part 2 decoder does with samples, told from their first bytes: how many frames it shows.

A sample is what the container stores as one frame; a VOP is what the codec calls a picture. They are not the same:

    plain       I     P     P     n     P             n: a VOP with vop_coded = 0, shows nothing
    packed      I    [P|B]  n    [P|B]  n             two VOPs in one sample; the placeholder n makes up for it

FFmpeg decodes one VOP for each sample. In a packed stream it holds a sample's second VOP back if that is I or B, and
decodes it when the next sample comes; what that one brings, if anything, is held in turn. So pictures wait in a queue
of one place, and a sample shows nothing only where the queue and the sample itself are empty.

Nothing here decodes or reads files. Where the bytes leave a doubt the answer is None, and decoding must count.

Source: ISO/IEC 14496-2, 6.2.3 (VOL header) and 6.2.5 (VOP header); the order of events as observed in FFmpeg 8's
decoder, and checked against it for every clip of HMDB51 and UCF101 at hand and for generated streams.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clipfeed._mpeg4 import VOP_START, is_packed, read_time_bits
from clipfeed._types import IndexArray

__all__ = [
    "SMALL_SAMPLE_BYTES",
    "ShownCounter",
    "find_vops",
    "starts_with_intra",
]

SMALL_SAMPLE_BYTES = 24
"""An empty VOP is a header alone, 7 bytes in every file seen; what is larger than this holds a picture."""

_B_VOP = 2  # vop_coding_type: 0 is I, 1 P, 2 B, 3 S
_NEVER_WAITS = 0x40  # the bit of the byte behind a VOP's start code that tells P and S from I and B
_SEQUENCE_CODE = 0xB0  # last byte of a visual object sequence's start code
_MAX_UNSEARCHED_BYTES = 7  # FFmpeg does not look for a VOP to hold in a rest as short as this
_MAX_SECONDS = 40  # modulo_time_base is one 1-bit a second; more do not fit into the bytes looked at

_WORD = np.dtype("<u2")
_VOP_HEADER = np.arange(4, 12)  # enough for the start of any: coding type, seconds, time increment, vop_coded


def starts_with_intra(sample: bytes) -> bool:
    """Tell whether a sample's first VOP is an I-VOP."""
    kind_at = sample.find(VOP_START) + len(VOP_START)
    return len(VOP_START) <= kind_at < len(sample) and sample[kind_at] >> 6 == 0


def find_vops(data: NDArray[np.uint8], masks: NDArray[np.uint64] | None = None) -> IndexArray:
    """Give the positions of all VOP start codes, 00 00 01 B6, of which at least one more byte is there.

    A few passes in C without the GIL, five times as fast as `bytes.find`: words of two bytes at even positions are
    compared with "01 B6" and with "00 01", eight results are looked at as one number, and only where that is not 0, a
    few times in 64 KiB, bytes are.

    Args:
        data: (n,) uint8.
        masks: (2, at least n // 16 + 1) uint64 to work in; made anew if None.

    Returns:
        (k,) int64, rising.
    """
    num_words = len(data) // 2
    if masks is None:
        masks = np.empty((2, num_words // 8 + 1), np.uint64)
    masks[:, num_words // 8] = 0  # whose bytes the last words do not fill
    is_candidate = masks.view(np.bool_)[:, :num_words]
    words = data[: 2 * num_words].view(_WORD)
    np.equal(words, 0xB601, out=is_candidate[0])
    np.equal(words, 0x0100, out=is_candidate[1])
    eights = masks[:, : num_words // 8 + 1]
    group = (np.bitwise_or(eights[0], eights[1], out=eights[0]) != 0).nonzero()[0]
    place = eights[0].view(np.bool_).reshape(-1, 8)[group].ravel().nonzero()[0]
    word = 8 * group[place >> 3] + (place & 7)
    before, after = words.take(word - 1, mode="clip"), words.take(word + 1, mode="clip")
    is_even = words[word] == 0xB601  # 00 00, 01 B6; or else  xx 00, 00 01, B6 xx
    is_code = np.where(is_even, before == 0, (before < 0x100) & (after & 0xFF == 0xB6))
    starts: IndexArray = (2 * word - 1 - is_even)[is_code]
    return starts[(starts >= 0) & (starts < len(data) - 4)]


@dataclass(frozen=True, slots=True)
class _Group:
    """Consecutive samples, arrays of (n,), and the VOPs that begin in them, arrays of (k,); all int64 but the data."""

    data: NDArray[np.uint8]
    starts: IndexArray
    vops: IndexArray  # where they begin
    vop_bytes: IndexArray  # to the next VOP or the end of the sample
    num_vops: IndexArray  # of each sample
    num_pictures: IndexArray  # the same without empty VOPs


class ShownCounter:
    """Counts the frames that a decoder shows, given the samples of a stream in groups, in order.

    Args:
        header: Bytes that hold the stream's headers: its extra data and first sample.
    """

    def __init__(self, header: bytes) -> None:
        self._time_bits = read_time_bits(header)
        self._is_packed = is_packed(header)
        self._num_shown = 0
        self._num_waiting = 0
        self._first_kinds: list[int] = []
        self._has_b = self._is_packed
        self._has_empty = False
        self._ends_empty = False
        self._is_doubtful = self._time_bits is None

    @property
    def num_shown(self) -> int | None:
        """Frames shown so far, or None where only decoding can tell.

        In doubt are: a header that cannot be read; a B-VOP before two references, which is not shown; one after an
        empty VOP that was looked at, whose time may make it late; an end that shows nothing, for which FFmpeg repeats
        the picture before; and what gets lost of a stream that is packed in another way than described above.
        """
        is_doubtful = self._is_doubtful or self._ends_empty or (self._has_empty and self._has_b)
        is_doubtful |= _B_VOP in self._first_kinds
        return None if is_doubtful else self._num_shown

    def add(
        self,
        data: NDArray[np.uint8],
        starts: IndexArray,
        ends: IndexArray,
        masks: NDArray[np.uint64] | None = None,
    ) -> None:
        """Take the next samples, at least one.

        Args:
            data: (m,) uint8 that holds them.
            starts: (n,) int64, where each sample's bytes begin in it, rising.
            ends: (n,) int64, where they end, at most m.
            masks: As for `find_vops`.
        """
        vops = find_vops(data, masks)
        sample = starts.searchsorted(vops, side="right") - 1
        vop_bytes = ends[sample]
        np.minimum(vop_bytes[:-1], vops[1:], out=vop_bytes[:-1])
        vop_bytes -= vops
        if 1 in (vop_bytes <= len(VOP_START)).tobytes():  # bytes between samples look like a VOP
            is_inside = vop_bytes > len(VOP_START)
            vops, sample, vop_bytes = vops[is_inside], sample[is_inside], vop_bytes[is_inside]
        is_picture = vop_bytes > SMALL_SAMPLE_BYTES
        small = (~is_picture).nonzero()[0]
        is_coded = _read_vop_coded(data, vops[small], self._time_bits or 1)
        if is_coded is None:
            self._is_doubtful = True
            return
        is_picture[small] = is_coded
        if len(self._first_kinds) < 2:
            first = vops[is_picture.nonzero()[0][: 2 - len(self._first_kinds)]]
            self._first_kinds += (data[first + 4] >> 6).tolist()
        num_vops = np.bincount(sample, minlength=len(starts))
        num_pictures = np.bincount(sample[is_picture], minlength=len(starts))
        self._count(_Group(data, starts, vops, vop_bytes, num_vops, num_pictures))

    def _count(self, group: _Group) -> None:
        if self._is_packed:
            shows_nothing = self._take_from_queue(group)
        else:
            shows_nothing = group.num_pictures == 0
            self._has_b |= 1 in (group.data[group.vops + 4] >> 6 == _B_VOP).tobytes()
            self._is_doubtful |= bool(np.maximum.reduce(group.num_vops) > 1)
        self._num_shown += len(group.starts) - int(np.count_nonzero(shows_nothing))
        self._has_empty |= 1 in (shows_nothing & (group.num_vops > 0)).tobytes()
        self._ends_empty = bool(shows_nothing[-1])

    def _take_from_queue(self, group: _Group) -> NDArray[np.bool_]:
        """Let pictures wait in a queue of one place, from which every sample takes one; say which samples find none.

        The level of a queue that could run into debt, less the deepest debt so far, is the level of one that cannot.
        """
        level = np.zeros(len(group.starts) + 1, np.int64)
        np.add.accumulate(group.num_pictures - 1, out=level[1:])
        level[1:] += self._num_waiting
        debt = np.minimum.accumulate(level)
        num_waiting = (level - debt)[1:]
        waits = num_waiting.nonzero()[0]  # behind these samples a picture waits, the last one of the sample
        waiting = (np.add.accumulate(group.num_vops) - 1)[waits]
        is_lost = (
            (num_waiting[waits] > 1)
            | (group.vop_bytes[waiting] <= _MAX_UNSEARCHED_BYTES)
            | (group.data[group.vops[waiting] + 4] & _NEVER_WAITS != 0)
        )
        has_lost = 1 in is_lost.tobytes() or self._drops_waiting(group, num_waiting)
        self._is_doubtful |= has_lost or 1 in ((group.num_vops > 1) & (group.num_pictures != group.num_vops)).tobytes()
        self._num_waiting = int(num_waiting[-1])
        return debt[1:] < debt[:-1]

    def _drops_waiting(self, group: _Group, num_waiting: IndexArray) -> bool:
        """Tell whether a picture waits in front of a visual object sequence, which empties the queue."""
        is_sequence = group.data.take(group.starts + 3, mode="clip") == _SEQUENCE_CODE
        samples = is_sequence.nonzero()[0].tolist()
        return any(num_waiting[number - 1] if number else self._num_waiting for number in samples)


def _read_vop_coded(data: NDArray[np.uint8], vops: IndexArray, time_bits: int) -> NDArray[np.bool_] | None:
    """Read vop_coded of the VOPs that begin at these positions; None if a marker bit is missing."""
    headers = data.take(vops[:, None] + _VOP_HEADER, mode="clip")
    rest = headers.view(">u8")[:, 0].astype(np.uint64) << np.uint64(2)
    for _ in range(_MAX_SECONDS):
        has_second = rest >> np.uint64(63)
        if not has_second.any():
            break
        rest = rest << has_second
    else:
        return None
    markers = (rest >> np.uint64(62)) & (rest >> np.uint64(61 - time_bits)) & np.uint64(1)
    is_coded: NDArray[np.bool_] = ((rest >> np.uint64(60 - time_bits)) & np.uint64(1)).astype(np.bool_)
    return is_coded if markers.all() else None
