"""Videos that play well and yet trip up those who count, seek, turn or colour them by the header.

Each function says what is odd about the file and what a right reader gets from it. Files that cannot be used, or not
wholly, are made by `broken`; files of every ordinary kind are listed in `kinds`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.video.reformatter import VideoReformatter

from clipfeed._types import FrameArray, StrPath
from clipfeed.testing.marker import paint_numbered_frame
from clipfeed.testing.write import Encoding, add_video_stream, convert_picture, encoding_for, write_frames

__all__ = [
    "PATCH_COLOURS",
    "VARIABLE_RATE_NUMBERS",
    "read_patches",
    "write_colour_patches",
    "write_rotated",
    "write_size_change",
    "write_untold_delay",
    "write_variable_rate",
    "write_with_audio",
    "write_with_cover",
    "write_without_packets",
]

VARIABLE_RATE_NUMBERS = (*range(0, 60, 2), *range(60, 240, 3))
"""The 90 frames, of 240 at 60 a second, that `write_variable_rate` keeps: every 2nd up to 1 s, then every 3rd."""

PATCH_COLOURS: tuple[tuple[int, int, int], ...] = (
    (250, 250, 250),
    (235, 235, 235),
    (128, 128, 128),
    (16, 16, 16),
    (5, 5, 5),
    (200, 40, 40),
    (40, 200, 40),
    (40, 40, 200),
)
"""RGB of the columns that `write_colour_patches` paints, left to right."""

_PICTURE_SIZE = (96, 160)


def write_variable_rate(path: StrPath, *, video_number: int = 0, encoding: Encoding | None = None) -> Path:
    """Write 90 frames over 4 s, unevenly spaced: frame n, of `VARIABLE_RATE_NUMBERS`, is shown at n / 60 s.

    By index, frame 45 is number 105; at 2.0 s number 120 is shown, which is index 50.
    """
    numbers = VARIABLE_RATE_NUMBERS
    return write_frames(path, _pictures(numbers, video_number), fps=60, encoding=encoding, ticks=numbers)


def write_rotated(
    path: StrPath, rotation: Literal[90, 180, 270], *, num_frames: int = 20, size: tuple[int, int] = _PICTURE_SIZE
) -> Path:
    """Write a numbered MP4 or MOV that a player must turn.

    Args:
        path: Where to write.
        rotation: Counter-clockwise turn in degrees that makes a decoded frame upright.
        num_frames: Frames to write.
        size: (height, width) of the upright picture.

    Returns:
        The path written. Decoded frames are of the stored size: width and height swapped for 90 and 270.
    """
    turned = (np.rot90(paint_numbered_frame(number, size), -rotation // 90) for number in range(num_frames))
    return write_frames(path, turned, encoding=replace(encoding_for(path), rotation=rotation))


def write_size_change(path: StrPath, *, num_frames: int = 40) -> Path:
    """Write an MPEG-TS whose second half is twice as large: 96 x 160, then 192 x 320, numbered through.

    The header claims no number of frames.
    """
    half = num_frames // 2
    halves = [(range(half), _PICTURE_SIZE), (range(half, num_frames), (192, 320))]
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.ts"
        parts = [write_frames(part, _pictures(numbers, size=size)).read_bytes() for numbers, size in halves]
    path = Path(path)
    path.write_bytes(b"".join(parts))
    return path


def write_without_packets(path: StrPath, source: StrPath, dropped: Collection[int]) -> Path:
    """Copy a video's stream without some of its packets.

    Without packet 0 the stream starts with a picture that cannot be decoded; without one in the middle, pictures that
    refer to it are damaged or missing, and no reader is told.

    Args:
        path: Where to write; the extension picks the container.
        source: The video to copy.
        dropped: Packets to leave out, counted from 0 in decoding order.

    Returns:
        The path written.
    """
    with av.open(str(source)) as given, av.open(str(path), "w") as out:
        stream = given.streams.video[0]
        copy = out.add_stream_from_template(stream)
        for number, packet in enumerate(packet for packet in given.demux(stream) if packet.size):
            if number not in dropped:
                packet.stream = copy
                out.mux(packet)
    return Path(path)


def write_untold_delay(path: StrPath, *, num_frames: int = 61) -> Path:
    """Write a numbered H.264 MP4 with B-frames that does not say how many frames a decoder must hold back.

    The usability information is cut off its sequence parameter set, as encoders do that write none.
    """
    options = {"x264-params": "bframes=3:b-adapt=0:keyint=24:scenecut=0"}
    encoding = replace(encoding_for("a.mp4"), options=options)
    path = write_frames(path, _pictures(range(num_frames)), encoding=encoding)
    data = path.read_bytes()
    start = data.index(b"avcC") + 4 + 8  # behind version, profile, level, size of lengths and number of sets
    end = start + int.from_bytes(data[start - 2 : start])
    shorter = _without_usability(data[start:end])
    path.write_bytes(data[:start] + shorter.ljust(end - start, b"\0") + data[end:])
    return path


def _without_usability(sequence_set: bytes) -> bytes:
    """Cut a set, unescaped and of High profile as x264 writes it, in front of its usability information.

    Source: ISO/IEC 14496-10, 7.3.2.1.1.
    """
    bits, at = f"{int.from_bytes(sequence_set):0{8 * len(sequence_set)}b}", 32  # unit, profile, constraints, level

    def skip_codes(number: int) -> None:
        nonlocal at
        for _ in range(number):
            at += 2 * (bits.index("1", at) - at) + 1

    skip_codes(4)  # number, chroma format, two depths
    at += 2  # lossless, scaling lists
    skip_codes(4)  # bits of frame numbers, kind and bits of order, references
    at += 1  # gaps
    skip_codes(2)  # width, height
    at += 2  # frames only, direct inference
    if bits[at] == "1":
        at += 1
        skip_codes(4)  # cropping
    else:
        at += 1
    kept = bits[:at] + "0" + "1"  # no usability information, and the bit that ends a set
    kept += "0" * (-len(kept) % 8)
    return int(kept, 2).to_bytes(len(kept) // 8)


def write_with_audio(path: StrPath, *, num_frames: int = 61, audio_seconds: float = 4.0) -> Path:
    """Write a numbered video, 25 frames a second, beside a tone that lasts longer than it."""
    encoding = encoding_for(path)
    rate, reformatter = 48_000, VideoReformatter()
    with av.open(str(path), "w") as out:
        video = add_video_stream(out, encoding, paint_numbered_frame(0), Fraction(25))
        audio = out.add_stream("aac", rate=rate, layout="mono")
        for number in range(num_frames):
            frame = convert_picture(paint_numbered_frame(number), video, encoding, reformatter)
            frame.pts = number
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
        tone = np.sin(np.arange(int(audio_seconds * rate)) * 0.06).astype(np.float32)[None]
        sound = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
        sound.sample_rate = rate
        sound.pts = 0
        out.mux(audio.encode(sound))
        out.mux(audio.encode(None))
    return Path(path)


def write_with_cover(path: StrPath, *, num_frames: int = 20) -> Path:
    """Write a numbered Matroska video with a cover picture, larger than it, attached as a stream of its own."""
    encoding, reformatter = Encoding(), VideoReformatter()
    with tempfile.TemporaryDirectory() as folder:
        cover = write_frames(
            Path(folder) / "cover.png",
            [np.full((320, 320, 3), 90, np.uint8)],
            encoding=Encoding(codec="png", container="image2"),
        ).read_bytes()
    with av.open(str(path), "w", format="matroska") as out:
        video = add_video_stream(out, encoding, paint_numbered_frame(0), Fraction(25))
        out.add_attachment("cover.png", "image/png", cover)
        for number in range(num_frames):
            frame = convert_picture(paint_numbered_frame(number), video, encoding, reformatter)
            frame.pts = number
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
    return Path(path)


def write_colour_patches(
    path: StrPath,
    *,
    color_range: Literal["tv", "pc"] | None = None,
    color_matrix: Literal["bt601", "bt709"] | None = None,
    codec: str = "libx264",
    num_frames: int = 3,
    size: tuple[int, int] = (96, 160),
) -> Path:
    """Write frames of eight coloured columns, `PATCH_COLOURS`, in yuv444p, converted and tagged as asked.

    Args:
        path: Where to write.
        color_range: "tv" (16..235) or "pc" (0..255); None is FFmpeg's default, tv, untagged.
        color_matrix: "bt601" or "bt709"; None is FFmpeg's default, BT.601, untagged.
        codec: FFmpeg's name of an encoder that takes yuv444p.
        num_frames: Frames to write, all alike.
        size: (height, width) in pixels.

    Returns:
        The path written. A right reader gets each colour within 4.
    """
    encoding = Encoding(codec=codec, pixel_format="yuv444p", color_range=color_range, color_matrix=color_matrix)
    columns = np.arange(size[1]) * len(PATCH_COLOURS) // size[1]
    picture = np.broadcast_to(np.array(PATCH_COLOURS, np.uint8)[columns], (*size, 3))
    return write_frames(path, [picture] * num_frames, encoding=encoding)


def read_patches(frame: FrameArray) -> FrameArray:
    """Read the colour in the middle of each column of a frame of `write_colour_patches`.

    Args:
        frame: (H, W, 3) uint8, of any size that shows the whole picture.

    Returns:
        (8, 3) uint8, to compare with `PATCH_COLOURS`.
    """
    height, width = frame.shape[:2]
    columns = [(2 * patch + 1) * width // (2 * len(PATCH_COLOURS)) for patch in range(len(PATCH_COLOURS))]
    return frame[height // 2, columns]


def _pictures(
    numbers: Iterable[int], video_number: int = 0, size: tuple[int, int] = _PICTURE_SIZE
) -> Iterable[FrameArray]:
    return (paint_numbered_frame(number, size, video_number=video_number) for number in numbers)
