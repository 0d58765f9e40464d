"""Pictures to JPEG and back, by FFmpeg.

4:4:4 and quantiser 2, FFmpeg's finest: on HMDB51, 64 x 64 pixels take a fourth of their raw bytes with a mean error of
2.4 of 255, 224 x 224 an eighth with 1.8. The same pixels give the same bytes. Nothing here keeps anything.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import av
import numpy as np
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clipfeed._types import FrameArray

__all__ = ["decode_jpegs", "encode_jpegs"]

_PIXELS = "yuvj444p"
_OPTIONS = {"qmin": "2", "qmax": "2"}
_NO_LIMIT = 10**9  # bits a second: the quantiser alone decides


class _Tools(threading.local):
    """One of each a thread: setting one up costs more than a small picture."""

    def __init__(self) -> None:
        self.to_yuv, self.to_rgb = VideoReformatter(), VideoReformatter()
        self.decoder = _codec("r")


def _codec(mode: Literal["r", "w"]) -> VideoCodecContext:
    codec = av.CodecContext.create("mjpeg", mode)
    codec.thread_count = 1
    return codec


_TOOLS = _Tools()


def encode_jpegs(frames: FrameArray) -> list[bytes]:
    """Compress pictures, each by itself.

    Args:
        frames: (n, H, W, C) uint8; C is 3 (RGB) or 1 (gray).

    Returns:
        n JPEG files.
    """
    encoder = _codec("w")
    encoder.width, encoder.height, encoder.pix_fmt = frames.shape[2], frames.shape[1], _PIXELS
    encoder.time_base, encoder.options, encoder.bit_rate = Fraction(1, 25), _OPTIONS, _NO_LIMIT
    packets = []
    for number, frame in enumerate(frames):
        picture = _TOOLS.to_yuv.reformat(
            VideoFrame.from_ndarray(np.repeat(frame, 3 // frame.shape[-1], axis=-1), format="rgb24"),
            format=_PIXELS,
            dst_colorspace=Colorspace.ITU601,
            dst_color_range=ColorRange.JPEG,
            threads=1,
        )
        picture.pts = number
        packets += encoder.encode(picture)
    return [bytes(packet) for packet in [*packets, *encoder.encode(None)]]


def decode_jpegs(pictures: Sequence[bytes], out: FrameArray) -> None:
    """Decompress pictures.

    Args:
        pictures: What `encode_jpegs` gave, some of it, in any order.
        out: (n, H, W, C) uint8 to write into.

    Raises:
        ValueError: If a picture cannot be decoded or has another size.
    """
    for picture, place in zip(pictures, out, strict=True):
        try:
            frame = _decode(picture)
            if (frame.height, frame.width) != place.shape[:2]:
                raise ValueError(f"a JPEG picture of another size than {place.shape[1]} x {place.shape[0]}")
        except ValueError:
            _TOOLS.decoder = _codec("r")  # the old one may be waiting for more, or at its end
            raise
        rgb = _TOOLS.to_rgb.reformat(frame, format="rgb24", threads=1).to_ndarray()
        place[...] = rgb[..., : place.shape[-1]]


def _decode(picture: bytes) -> VideoFrame:
    try:
        frames = _TOOLS.decoder.decode(Packet(picture))
    except av.FFmpegError as error:
        raise ValueError(f"a JPEG picture cannot be decoded: {error}") from error
    if len(frames) != 1:
        raise ValueError(f"{len(picture)} bytes are no JPEG picture")
    return frames[0]
