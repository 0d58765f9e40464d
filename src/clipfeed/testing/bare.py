"""Sequential decoding with PyAV alone: the truth that counts and frames are held against.

It shares no code with the package's own decoders. One thread, packet by packet, on after an error, flushed at the end,
in the order the decoder gives.
"""

from __future__ import annotations

import av
import numpy as np

from clipfeed._types import FrameArray, StrPath

__all__ = ["decode_bare"]


def decode_bare(path: StrPath, *, size: tuple[int, int] | None = None) -> list[FrameArray]:
    """Decode every frame of a video's best stream.

    Args:
        path: The video.
        size: (height, width) to resize to with FFmpeg's default filter; None keeps each frame's own.

    Returns:
        (H, W, 3) uint8 RGB arrays, neither turned nor cropped; their sizes differ where the video's size changes.
    """
    height, width = size or (None, None)
    frames: list[FrameArray] = []
    with av.open(str(path), metadata_errors="replace") as video:
        stream = video.streams.best("video")
        if not isinstance(stream, av.VideoStream):
            raise ValueError(f"{path}: no video stream")
        stream.thread_count = 1
        packets = video.demux(stream)
        while (packet := next(packets, None)) is not None:
            try:
                decoded = packet.decode()
            except av.FFmpegError:
                continue
            pictures = (frame.to_ndarray(format="rgb24", height=height, width=width) for frame in decoded)
            frames += [picture.astype(np.uint8, copy=False) for picture in pictures]
    return frames
