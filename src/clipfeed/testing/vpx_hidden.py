"""VP8 and VP9 streams that hold frames which are never shown: in packets of their own, or sharing one.

Encoders make such frames (alternate references) only in a second pass, which PyAV does not offer. Here frames of an
ordinary stream are marked as not to be shown; what they code stays as it was, and later frames go on referring to it.

Source: RFC 6386, 9.1 (VP8's show_frame); VP9 Bitstream Specification, 6.2 (uncompressed header) and Annex B
(superframes).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import av

from clipfeed._types import StrPath
from clipfeed.testing.write import write_numbered_video

__all__ = ["write_hidden_vp8", "write_hidden_vp9"]

_VP8_SHOW_FRAME = 0x10
_VP9_SHOW_FRAME = 0x02


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packet:
    """A packet to be written."""

    payload: bytes
    is_key: bool
    is_shown: bool


_Change: TypeAlias = Callable[[Iterable[tuple[bytes, bool]]], Iterator[_Packet]]


def write_hidden_vp8(path: StrPath, *, num_frames: int = 61, hidden: Collection[int] = (10, 25, 26)) -> Path:
    """Write a numbered VP8 WebM in which some packets show nothing.

    Args:
        path: Where to write.
        num_frames: Frames encoded, and packets in the file.
        hidden: Numbers of the frames that are not shown.

    Returns:
        The path written.
    """

    def hide(packets: Iterable[tuple[bytes, bool]]) -> Iterator[_Packet]:
        for number, (payload, is_key) in enumerate(packets):
            if number in hidden:
                payload = bytes([payload[0] & ~_VP8_SHOW_FRAME]) + payload[1:]
            yield _Packet(payload=payload, is_key=is_key, is_shown=number not in hidden)

    return _rewrite(path, hide, num_frames=num_frames, codec="libvpx", gop_frames=num_frames)


def write_hidden_vp9(path: StrPath, *, num_frames: int = 61, gop_frames: int = 20) -> Path:
    """Write a numbered VP9 WebM whose key frames are not shown, each in one packet (a superframe) with its successor.

    Only key frames can be hidden so: the header of any other frame would need another bit, and motion vectors would be
    predicted differently.

    Args:
        path: Where to write.
        num_frames: Frames encoded; those at 0, `gop_frames`, 2 x `gop_frames`, ... are not shown.
        gop_frames: Frames from one key frame to the next, at least 2. A key frame that is last is left out.

    Returns:
        The path written.
    """

    def join(packets: Iterable[tuple[bytes, bool]]) -> Iterator[_Packet]:
        hidden = b""
        for payload, is_key in packets:
            if is_key:
                hidden = bytes([payload[0] & ~_VP9_SHOW_FRAME]) + payload[1:]
            elif hidden:
                yield _Packet(payload=_superframe(hidden, payload), is_key=True, is_shown=True)
                hidden = b""
            else:
                yield _Packet(payload=payload, is_key=False, is_shown=True)

    return _rewrite(path, join, num_frames=num_frames, codec="libvpx-vp9", gop_frames=gop_frames)


def _rewrite(path: StrPath, change: _Change, *, num_frames: int, codec: str, gop_frames: int) -> Path:
    """Encode a numbered video and write its packets as `change` gives them."""
    options = {"g": str(gop_frames), "keyint_min": str(gop_frames), "lag-in-frames": "0"}
    with tempfile.TemporaryDirectory() as folder:
        whole = write_numbered_video(Path(folder) / "a.webm", num_frames=num_frames, codec=codec, options=options)
        with av.open(str(whole)) as video, av.open(str(path), "w", format="webm") as out:
            stream = out.add_stream_from_template(video.streams.video[0])
            packets = ((bytes(packet), packet.is_keyframe) for packet in video.demux(video=0) if packet.size)
            num_shown = 0
            for part in change(packets):
                packet = av.Packet(part.payload)
                packet.stream, packet.is_keyframe, packet.time_base = stream, part.is_key, Fraction(1, 1000)
                # Shown frames follow each other evenly; a hidden one stands a millisecond before the next.
                packet.pts = packet.dts = 40 * num_shown - (not part.is_shown)
                out.mux(packet)
                num_shown += part.is_shown
    return Path(path)


def _superframe(first: bytes, second: bytes) -> bytes:
    """Join two VP9 frames: both, then an index of their sizes in 4 bytes each between two marker bytes."""
    marker = bytes([0b110_11_001])
    sizes = b"".join(len(frame).to_bytes(4, "little") for frame in (first, second))
    return first + second + marker + sizes + marker
