"""How many frames a packet of VP8 or VP9 shows, told from a few of its bits.

A packet may be for reference only (an "alternate reference" frame), and a VP9 packet may hold several frames.

Source: RFC 6386, 9.1 (VP8 frame tag); VP9 bitstream specification 0.6, 7.2 (uncompressed header) and annex B
(superframes).
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["count_shown_in_vp8", "count_shown_in_vp9"]


def count_shown_in_vp8(packet: memoryview) -> int:
    """Give 1 if the frame is to be shown, else 0."""
    return (packet[0] >> 4) & 1


def count_shown_in_vp9(packet: memoryview) -> int:
    """Give the number of frames of a packet that are to be shown."""
    return sum(_is_shown(packet[start:end]) for start, end in _frames_of_superframe(packet))


def _is_shown(frame: memoryview) -> bool:
    """Read show_existing_frame and show_frame: marker 2, profile 2 (profile 3: 1 more), show_existing, type, show."""
    bits = frame[0] << 8 | (frame[1] if len(frame) > 1 else 0)
    is_profile_3 = (bits >> 12) & 3 == 3
    bits <<= 5 if is_profile_3 else 4
    shows_existing, shows = bits & 0x8000, bits & 0x2000
    return bool(shows_existing or shows)


def _frames_of_superframe(packet: memoryview) -> Iterator[tuple[int, int]]:
    """Give start and end of each frame; a packet without an index at its end is one frame."""
    size, last = len(packet), packet[-1]
    num_frames, num_size_bytes = (last & 7) + 1, ((last >> 3) & 3) + 1
    index_start = size - 2 - num_frames * num_size_bytes
    if last & 0xE0 != 0xC0 or index_start < 0 or packet[index_start] != last:
        yield 0, size
        return
    start = 0
    for number in range(num_frames):
        at = index_start + 1 + number * num_size_bytes
        end = start + int.from_bytes(packet[at : at + num_size_bytes], "little")
        if start < end <= index_start:
            yield start, end
        start = end
