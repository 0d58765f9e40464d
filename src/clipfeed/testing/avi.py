"""A small AVI writer: headers, samples and index as a test wants them, not as an encoder's muxer would.

It knows nothing of what the samples hold. FFmpeg's muxer names every chunk alike, counts for itself and cannot write a
header that lies; genuine old files do all of that.

Source: AVI RIFF File Reference (Microsoft, Video for Windows) for every structure below.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from clipfeed._types import StrPath

__all__ = ["AviHeader", "write_avi"]

_HAS_INDEX = 0x10
_IS_KEY = 0x10


@dataclass(frozen=True, slots=True, kw_only=True)
class AviHeader:
    """What the headers of an AVI claim.

    Attributes:
        size: (height, width) in pixels.
        fps: Frames a second.
        codec_tag: Four characters, such as "DX50".
        num_frames: Number of frames; None claims one a sample.
        name: Bytes of the stream's name, in any encoding; None leaves the name out.
    """

    size: tuple[int, int]
    fps: Fraction
    codec_tag: str
    num_frames: int | None = None
    name: bytes | None = None


def write_avi(path: StrPath, samples: Sequence[tuple[bytes, bool]], header: AviHeader) -> Path:
    """Write an AVI of one video stream.

    Args:
        path: Where to write.
        samples: (payload, is key) of each sample, in decoding order; a key sample's chunk is "00db", others "00dc".
        header: What the headers claim.

    Returns:
        The path written.
    """
    body, index, offset = [], [], 4
    for payload, is_key in samples:
        tag = b"00db" if is_key else b"00dc"
        chunk = _chunk(tag, payload)
        index.append(struct.pack("<4sIII", tag, _IS_KEY if is_key else 0, offset, len(payload)))
        body.append(chunk)
        offset += len(chunk)
    largest = max((len(payload) for payload, _ in samples), default=0)
    movie = _list(b"movi", b"".join(body)) + _chunk(b"idx1", b"".join(index))
    path = Path(path)
    path.write_bytes(_chunk(b"RIFF", b"AVI " + _header_list(header, len(samples), largest) + movie))
    return path


def _header_list(header: AviHeader, num_samples: int, largest: int) -> bytes:
    num_frames = num_samples if header.num_frames is None else header.num_frames
    (height, width), fps = header.size, header.fps
    micros = round(1_000_000 / fps)
    main = struct.pack("<14I", micros, 0, 0, _HAS_INDEX, num_frames, 0, 1, largest, width, height, 0, 0, 0, 0)
    tag = header.codec_tag.encode("ascii")
    timing = (fps.denominator, fps.numerator, 0, num_frames)
    stream = struct.pack("<4s4s10I4H", b"vids", tag, 0, 0, 0, *timing, largest, 0, 0, 0, 0, width, height)
    picture = struct.pack("<IIIHH4sIIIII", 40, width, height, 1, 24, tag, width * height * 3, 0, 0, 0, 0)
    name = b"" if header.name is None else _chunk(b"strn", header.name + b"\x00")
    strl = _list(b"strl", _chunk(b"strh", stream) + _chunk(b"strf", picture) + name)
    return _list(b"hdrl", _chunk(b"avih", main) + strl)


def _list(kind: bytes, content: bytes) -> bytes:
    return _chunk(b"LIST", kind + content)


def _chunk(tag: bytes, content: bytes) -> bytes:
    return tag + struct.pack("<I", len(content)) + content + b"\x00" * (len(content) % 2)
