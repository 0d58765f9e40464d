"""Encode videos with PyAV alone: numbered ones, and any frames at any times.

The `ffmpeg` program is not needed. Nothing here decides what a test wants to prove: `kinds` lists ordinary videos,
`odd` and `broken` make the troublesome ones out of these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter

from clipfeed._types import FrameArray, StrPath
from clipfeed.testing.marker import paint_numbered_frame

__all__ = ["Encoding", "encoding_for", "write_frames", "write_numbered_video"]

_X264 = {"preset": "veryfast", "crf": "18"}

# What a file name's extension stands for where the caller names no codec.
_CODECS = {
    ".avi": "mpeg4",
    ".flv": "flv",
    ".gif": "gif",
    ".mkv": "libx264",
    ".mov": "libx264",
    ".mp4": "libx264",
    ".mpg": "mpeg1video",
    ".ts": "libx264",
    ".webm": "libvpx-vp9",
    ".wmv": "wmv2",
}

# Options that make each encoder fast, and good enough for bars and colours.
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "libx264": _X264,
    "libx265": {"preset": "ultrafast", "crf": "20", "x265-params": "log-level=error:pools=none:frame-threads=1"},
    "libsvtav1": {"preset": "12", "crf": "12", "svtav1-params": "lp=1"},
    "libvpx": {"deadline": "realtime", "cpu-used": "8", "b:v": "1M"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "b:v": "1M"},
    "flv": {"qscale": "3"},
    "mpeg1video": {"qscale": "3"},
    "mpeg2video": {"qscale": "3"},
    "mpeg4": {"qscale": "3"},
    "wmv1": {"qscale": "3"},
    "wmv2": {"qscale": "3"},
}


_RANGES: Mapping[str | None, ColorRange] = {"tv": ColorRange.MPEG, "pc": ColorRange.JPEG}
_MATRICES: Mapping[str | None, Colorspace] = {"bt601": Colorspace.ITU601, "bt709": Colorspace.ITU709}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How frames become a file.

    Attributes:
        codec: FFmpeg's name of the encoder, such as "libx264".
        options: The encoder's options, over the fast defaults of this module.
        pixel_format: Such as "yuv444p10le"; None for yuv420p where the encoder takes it, else its first.
        tag: Four characters that the container names the codec with, such as "XVID"; None for the usual ones.
        container: FFmpeg's name of the container; None takes it from the extension.
        container_options: The muxer's options, such as `{"movflags": "faststart"}`.
        rotation: Counter-clockwise turn in degrees that a player should make (MP4 and MOV only).
        sample_aspect_ratio: Width of a pixel over its height.
        color_range: "tv" or "pc" converts and tags; None does neither.
        color_matrix: "bt601" or "bt709" converts and tags; None does neither.
    """

    codec: str = "libx264"
    options: Mapping[str, str] = field(default_factory=dict)
    pixel_format: str | None = None
    tag: str | None = None
    container: str | None = None
    container_options: Mapping[str, str] = field(default_factory=dict)
    rotation: int = 0
    sample_aspect_ratio: Fraction = Fraction(1)
    color_range: Literal["tv", "pc"] | None = None
    color_matrix: Literal["bt601", "bt709"] | None = None


def encoding_for(path: StrPath) -> Encoding:
    """Give the usual encoding of a file name's extension: ".avi" is MPEG-4, ".mp4" is H.264, and so on.

    Raises:
        ValueError: For an extension that stands for no codec here.
    """
    extension = Path(path).suffix.lower()
    if extension not in _CODECS:
        raise ValueError(f"{path}: no usual codec for {extension!r}; name one, or use one of {', '.join(_CODECS)}")
    return Encoding(codec=_CODECS[extension])


def write_numbered_video(
    path: StrPath,
    *,
    num_frames: int = 61,
    size: tuple[int, int] = (96, 160),
    fps: Fraction | int = 25,
    codec: str | None = None,
    options: Mapping[str, str] | None = None,
    video_number: int = 0,
) -> Path:
    """Write a video whose frames spell 0, 1, 2, ... and the video's own number.

    Args:
        path: Where to write; the extension picks the container, and the codec unless `codec` names one.
        num_frames: Frames to write, 1 to 1024.
        size: (height, width) in pixels.
        fps: Frames a second.
        codec: FFmpeg's name of an encoder, such as "mpeg4".
        options: Options of the encoder, such as `{"bf": "2", "g": "12"}`.
        video_number: 0 to 4095, spelled by every frame.

    Returns:
        The path written.
    """
    encoding = Encoding(codec=codec or encoding_for(path).codec, options=options or {})
    frames = (paint_numbered_frame(number, size, video_number=video_number) for number in range(num_frames))
    return write_frames(path, frames, fps=fps, encoding=encoding)


def write_frames(
    path: StrPath,
    frames: Iterable[FrameArray],
    *,
    fps: Fraction | int = 25,
    encoding: Encoding | None = None,
    ticks: Sequence[int] | None = None,
) -> Path:
    """Write any frames.

    Args:
        path: Where to write.
        frames: (H, W, 3) uint8 RGB, all of one size.
        fps: Frames a second; one tick is 1 / fps.
        encoding: How; None takes the usual one of the extension.
        ticks: When each frame is shown, in ticks, rising; None is 0, 1, 2, ...

    Returns:
        The path written.

    Raises:
        ValueError: If there are no frames: no container takes a stream of none.
    """
    path = Path(path)
    encoding = encoding or encoding_for(path)
    with av.open(str(path), "w", format=encoding.container, container_options=dict(encoding.container_options)) as out:
        stream, reformatter = None, VideoReformatter()
        for number, picture in enumerate(frames):
            if stream is None:
                stream = add_video_stream(out, encoding, picture, Fraction(fps))
            frame = convert_picture(picture, stream, encoding, reformatter)
            frame.pts = number if ticks is None else ticks[number]
            frame.time_base = 1 / Fraction(fps)
            out.mux(stream.encode(frame))
        if stream is None:
            raise ValueError(f"{path}: no frames to write; `write_without_frames` makes a file that has none")
        out.mux(stream.encode(None))
    return path


def add_video_stream(out: OutputContainer, encoding: Encoding, picture: FrameArray, fps: Fraction) -> av.VideoStream:
    """Add the stream that frames like `picture` go into, its encoder set up."""
    options = {**_OPTIONS.get(encoding.codec, {}), **encoding.options}
    stream = out.add_stream(encoding.codec, rate=fps, options=options)
    if not isinstance(stream, av.VideoStream):
        raise ValueError(f"codec={encoding.codec!r}: not an encoder of video")
    context = stream.codec_context
    stream.height, stream.width = picture.shape[:2]
    stream.pix_fmt = encoding.pixel_format or _usual_pixel_format(encoding.codec)
    context.time_base = 1 / fps
    # One thread: the same bytes on every machine.
    context.thread_count = 1
    context.sample_aspect_ratio = encoding.sample_aspect_ratio
    if encoding.tag:
        context.codec_tag = encoding.tag
    if encoding.color_range:
        context.color_range = _RANGES[encoding.color_range]
    if encoding.color_matrix:
        context.colorspace = _MATRICES[encoding.color_matrix]
    if encoding.rotation:
        stream.set_display_rotation(encoding.rotation)
    return stream


def convert_picture(
    picture: FrameArray, stream: av.VideoStream, encoding: Encoding, reformatter: VideoReformatter
) -> av.VideoFrame:
    """Turn (H, W, 3) uint8 RGB into what a stream's encoder takes; a reformatter is slow to make, so keep one."""
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    return reformatter.reformat(
        frame,
        format=stream.pix_fmt,
        interpolation="BICUBIC",
        dst_colorspace=_MATRICES.get(encoding.color_matrix),
        dst_color_range=_RANGES.get(encoding.color_range),
        threads=1,
    )


def _usual_pixel_format(codec: str) -> str:
    if codec == "mjpeg":
        return "yuvj420p"
    names = [pixels.name for pixels in av.codec.Codec(codec, "w").video_formats or ()]
    return "yuv420p" if not names or "yuv420p" in names else names[0]
