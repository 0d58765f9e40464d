"""The one door to FFmpeg: open a container and its best video stream, and write a video.

What it never does: look into packets, count, choose frames or give pixels to anybody but an encoder; it hands PyAV's
objects to `probe` and `decode`. Decoders run on one thread without FFmpeg's own threads. FFmpeg's errors become
clipfeed's, with the path and FFmpeg's reason; its log is dropped by PyAV's own callback in C (nothing reaches stderr,
no Python runs for a line), except while `captured_log` listens.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO, Self, TypeAlias

import av
import av.logging
import numpy as np
from av.container import InputContainer, OutputContainer
from av.packet import Packet
from av.video.format import VideoFormat
from av.video.frame import PictureType, VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter
from av.video.stream import VideoStream

from clipfeed._types import FrameArray, Options, StrPath
from clipfeed.clock import staged, staged_iterable
from clipfeed.errors import DecodeError, ProbeError

__all__ = ["OpenVideo", "Picture", "Redrawer", "captured_log", "open_avi_header", "open_container", "write_video"]

# For modules that hand pictures on and leave PyAV alone.
Picture: TypeAlias = VideoFrame

# A playlist that calls itself .mp4 must not make FFmpeg fetch what it names.
_LOCAL_ONLY = {"protocol_whitelist": "file"}
_AVI_HEADER_ONLY = {"protocol_whitelist": "file", "fpsprobesize": "0"}
_REMEDY_REPLACE = "copy or download the file again, or delete it"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenVideo:
    """One open container and its chosen video stream; a context manager that closes it.

    Attributes:
        path: The file, as the user would name it.
        container: PyAV's container.
        stream: The best video stream.
        container_name: FFmpeg's short name of the container: the first of its aliases, such as "avi", "mov".
        codec_name: FFmpeg's name of the codec, not of the decoder that happens to be built in: "av1", not "libdav1d".
    """

    path: str
    container: InputContainer
    stream: VideoStream
    container_name: str
    codec_name: str

    def __enter__(self) -> Self:
        return self

    @staged("open")
    def __exit__(self, *_: object) -> None:
        self.container.close()

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """Give the stream's packets in file order, without empty ones: to a decoder an empty packet means the end.

        Raises:
            DecodeError: The container cannot be read any further.
        """
        try:
            for packet in staged_iterable("demux", self.container.demux(self.stream)):
                if packet.size:
                    yield packet
        except av.FFmpegError as error:
            raise DecodeError(f"cannot be read any further: {_reason(error)}", path=self.path) from error

    @staged("decode")
    def decode(self, packet: Packet[VideoStream] | None) -> list[VideoFrame]:
        """Decode one packet; None asks for the frames that the decoder still holds back.

        Returns:
            The frames that came out, in the decoder's output order; often none.

        Raises:
            DecodeError: The decoder refuses the packet; the next one may be fine.
        """
        try:
            return self.stream.decode(packet)
        except av.FFmpegError as error:
            raise DecodeError(f"a packet cannot be decoded: {_reason(error)}", path=self.path) from error


@staged("open")
def open_container(source: str | BinaryIO, *, path: str) -> OpenVideo:
    """Open a video for reading, its decoder set to one thread; to be used in a `with` statement.

    Args:
        source: Absolute path of a regular file, or a readable, seekable file object (which the caller closes).
        path: How to name the file in messages.

    Raises:
        ProbeError: Not a regular file, not readable by FFmpeg, without a video stream, or without a decoder for it.
    """
    _refuse_special_file(source, path)
    return _on_one_thread(_choose_stream(_open(source, path, _LOCAL_ONLY), path))


@staged("open")
def open_avi_header(source: str, *, path: str) -> OpenVideo:
    """Open an AVI for its header and its table of samples, in less than half the time of `open_container`.

    The format is not guessed, and no packets are read ahead to guess a rate, which an AVI states. What the header and
    the table say is the same; what FFmpeg finds out about reordering is not, so nothing is to be decoded but MPEG-4
    part 2, whose decoder asks nobody (packets and frames of 230 AVI files, and of 2,100 damaged ones, were the same).

    Args:
        source: Absolute path of a regular file that begins as an AVI does.
        path: How to name the file in messages.

    Raises:
        ProbeError: As for `open_container`.
    """
    return _on_one_thread(_choose_stream(_open(source, path, _AVI_HEADER_ONLY, "avi"), path))


@contextmanager
def captured_log(level: int = av.logging.ERROR) -> Iterator[Sequence[tuple[int, str, str]]]:
    """Collect what FFmpeg logs in this thread, as (level, where, message).

    FFmpeg has one log level for the whole process, the highest that anyone listens for; so lines of a higher level may
    be among those collected. Lines of threads that do not listen go to the "libav" logger of Python's logging, where
    they stay silent unless the application shows them. Listening costs nothing where nothing is logged.
    """
    with _LOG_SWITCH.at(level), av.logging.Capture() as lines:
        yield lines


def write_video(
    path: StrPath,
    frames: Iterable[FrameArray] | Iterable[VideoFrame],
    *,
    fps: Fraction | int,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    codec_options: Options | None = None,
    container_options: Options | None = None,
) -> int:
    """Write frames as a video; the container follows from the file name's suffix.

    Args:
        path: File to write; it is there only when all of it is, and what stood there before is kept until then.
        frames: (H, W, 3) uint8 0..255 RGB, all of one size, at least one; or pictures of a `Redrawer`, which bring
            times and colours of their own.
        fps: Frames a second; for pictures with times of their own, about how many.
        codec: FFmpeg's name of an encoder.
        pix_fmt: FFmpeg's name of the pixel format; "yuv420p" needs an even width and height.
        codec_options: Options of the encoder, such as {"g": "12", "bf": "2"}.
        container_options: Options of the muxer, such as {"movflags": "+faststart"}.

    Returns:
        Number of frames written.

    Raises:
        ValueError: No frame, frames of different size, or something FFmpeg's encoder or muxer does not accept.
    """
    finished = Path(path)
    partial = finished.with_name(f"{finished.stem}.partial{finished.suffix}")
    try:
        with av.open(str(partial), "w", container_options=dict(container_options or {})) as container:
            stream = _add_stream(container, codec, fps, _quiet_options(codec, codec_options))
            num_frames = _encode(container, stream, frames, pix_fmt)
        partial.replace(finished)
    except av.FFmpegError as error:
        raise ValueError(f"{path}: FFmpeg cannot write this with {codec}, {pix_fmt}: {_reason(error)}") from error
    finally:
        partial.unlink(missing_ok=True)
    return num_frames


def _add_stream(container: OutputContainer, codec: str, fps: Fraction | int, options: dict[str, str]) -> VideoStream:
    stream = container.add_stream(codec, rate=fps, options=options)
    if not isinstance(stream, VideoStream):
        raise ValueError(f"codec={codec!r}: expected the name of a video encoder")
    stream.thread_count = 1  # the same bytes on every machine
    return stream


def _encode(
    container: OutputContainer, stream: VideoStream, frames: Iterable[FrameArray | VideoFrame], pix_fmt: str
) -> int:
    num_frames = 0
    for frame in frames:
        picture = frame if isinstance(frame, VideoFrame) else _picture(frame, num_frames)
        if num_frames == 0:
            stream.width, stream.height, stream.pix_fmt = picture.width, picture.height, pix_fmt
            if picture is frame:
                _take_time_and_colours(stream, picture)
        elif (picture.width, picture.height) != (stream.width, stream.height):
            raise ValueError(
                f"frame {num_frames} is {picture.width} x {picture.height} pixels, "
                f"the first one was {stream.width} x {stream.height}"
            )
        container.mux(stream.encode(picture))
        num_frames += 1
    if num_frames == 0:
        raise ValueError("a video needs at least one frame, got none")
    container.mux(stream.encode(None))
    return num_frames


def _picture(frame: FrameArray, number: int) -> VideoFrame:
    picture = VideoFrame.from_ndarray(frame, format="rgb24")
    picture.pts = number
    return picture


def _take_time_and_colours(stream: VideoStream, picture: VideoFrame) -> None:
    context = stream.codec_context
    context.time_base = picture.time_base or context.time_base
    context.colorspace, context.color_range = picture.colorspace, picture.color_range
    context.color_primaries, context.color_trc = picture.color_primaries, picture.color_trc


def _quiet_options(codec: str, options: Options | None) -> dict[str, str]:
    """x265 prints to stderr by itself, past FFmpeg's log."""
    chosen = dict(options or {})
    if codec == "libx265":
        chosen["x265-params"] = ":".join(filter(None, ["log-level=none", chosen.get("x265-params")]))
    return chosen


# AVCOL_SPC_RGB, _UNSPECIFIED and _RESERVED of FFmpeg's libavutil/pixfmt.h: no matrix of YUV.
_NO_MATRIX = frozenset({0, 2, 3})
_BT601 = 6  # AVCOL_SPC_SMPTE170M
_LIMITED, _FULL = int(ColorRange.MPEG), int(ColorRange.JPEG)
_SMOOTH = Interpolation.BICUBIC | Interpolation.FULL_CHR_H_INT | Interpolation.ACCURATE_RND


class Redrawer:
    """Turns the decoded frames of one video into pictures for an encoder: one size, upright, 8-bit 4:2:0, in time.

    YUV keeps matrix and range of the first frame, so that no colour is computed anew; gray, RGB and palettes become
    BT.601 of limited range. Every picture says which it has. Alpha is dropped.

    Args:
        height: Rows of the pictures, even.
        width: Columns of the pictures, even.
        rotation: Counter-clockwise turn in degrees that makes a decoded frame upright: 0, 90, 180 or 270.
        time_base: Seconds of one unit of pts.
        path: How to name the video in messages.
    """

    def __init__(self, *, height: int, width: int, rotation: int, time_base: Fraction, path: str) -> None:
        self._size = (width, height) if rotation in (90, 270) else (height, width)
        self._num_turns = rotation // 90
        self._time_base = time_base
        self._path = path
        self._reformatters = (VideoReformatter(), VideoReformatter())
        self._matrix_and_range: tuple[int, int] | None = None

    def draw(self, frame: VideoFrame, *, pts: int, duration: int, assumed_matrix: int | None = None) -> VideoFrame:
        """Make one picture; `frame` is used up.

        Args:
            frame: A decoded frame of any size and format.
            pts: When it is shown, in units of the time base.
            duration: For how long, in the same units.
            assumed_matrix: What the decoder takes this frame's matrix for, as swscale numbers them, where that is
                neither tagged nor BT.601.

        Raises:
            DecodeError: FFmpeg cannot convert the frame.
        """
        try:
            picture, matrix, color_range = self._convert(frame, assumed_matrix)
        except av.FFmpegError as error:
            problem = f"a frame of format {frame.format.name} cannot be converted: {_reason(error)}"
            raise DecodeError(problem, path=self._path) from error
        picture.pts, picture.duration, picture.time_base = pts, duration, self._time_base
        picture.pict_type = PictureType.NONE  # else the encoder would place key frames where the source had them
        picture.colorspace, picture.color_range = matrix, color_range
        return picture

    def _convert(self, frame: VideoFrame, assumed_matrix: int | None) -> tuple[VideoFrame, int, int]:
        """Give the picture, and its matrix and range as FFmpeg numbers them for frames."""
        is_yuv = _is_yuv(frame.format)
        before = _matrix_and_range(frame, assumed_matrix) if is_yuv else (_BT601, _LIMITED)
        matrix, color_range = after = self._matrix_and_range = self._matrix_and_range or before
        colours: dict[str, int] = {}  # said only where it must be: a matrix of one side alone would mean a conversion
        if before != after:
            colours |= {"src_colorspace": _swscale(before[0]), "dst_colorspace": _swscale(matrix)}
        if before != after or color_range == _FULL:
            colours |= {"src_color_range": before[1], "dst_color_range": color_range}
        if is_yuv and not self._num_turns:
            return self._reformat(0, frame, "yuv420p", colours), matrix, color_range
        # Turned in full chroma: a turn of 4:2:0 would move its colours by half a pixel.
        full = self._reformat(0, frame, "yuv444p", colours) if is_yuv else self._reformat(0, frame, "gbrp", {})
        target = {"dst_color_range": color_range}
        target |= {"src_color_range": color_range} if is_yuv else {"dst_colorspace": _swscale(matrix)}
        return self._reformat(1, self._turn(full), "yuv420p", target), matrix, color_range

    def _reformat(self, number: int, frame: VideoFrame, pix_fmt: str, colours: dict[str, int]) -> VideoFrame:
        height, width = self._size if number == 0 else (frame.height, frame.width)
        return self._reformatters[number].reformat(
            frame, width, height, pix_fmt, interpolation=_SMOOTH, threads=1, **colours
        )

    def _turn(self, frame: VideoFrame) -> VideoFrame:
        if not self._num_turns:
            return frame
        axes = (0, 1) if frame.format.is_rgb else (1, 2)  # (H, W, 3), but (3, H, W) for YUV
        planes: FrameArray = np.ascontiguousarray(np.rot90(frame.to_ndarray(), self._num_turns, axes))
        return VideoFrame.from_ndarray(planes, format=frame.format.name)


def _is_yuv(pixels: VideoFormat) -> bool:
    """Tell formats that swscale takes for YUV from RGB, palettes, gray and XYZ."""
    is_colour = len(pixels.components) >= 3 and not pixels.is_rgb and not pixels.has_palette
    return is_colour and not pixels.name.startswith("xyz")


def _swscale(matrix: int) -> int:
    """Give swscale's number of a matrix: the same but for BT.601."""
    return int(Colorspace.ITU601) if matrix == _BT601 else matrix


def _matrix_and_range(frame: VideoFrame, assumed_matrix: int | None) -> tuple[int, int]:
    is_full = frame.color_range == _FULL or frame.format.name.startswith("yuvj")
    matrix = assumed_matrix or (_BT601 if frame.colorspace in _NO_MATRIX else frame.colorspace)
    return int(matrix), _FULL if is_full else _LIMITED


def _refuse_special_file(source: str | BinaryIO, path: str) -> None:
    """FFmpeg waits for ever on a FIFO, and no timeout of its own ends that: only regular files are opened."""
    if not isinstance(source, str):
        return
    try:
        mode = os.stat(source).st_mode  # noqa: PTH116  # a third of the time that a Path takes
    except OSError as error:
        raise ProbeError(f"cannot be opened: {_reason(error)}", path=path, stage="probe") from error
    if not stat.S_ISREG(mode):
        raise ProbeError("is not a regular file", path=path, stage="probe", remedy="move it out of the data folder")


def _open(
    source: str | BinaryIO, path: str, container_options: dict[str, str], container_format: str | None = None
) -> InputContainer:
    try:
        return av.open(source, "r", container_format, None, container_options, metadata_errors="replace")
    except (av.FFmpegError, OSError) as error:
        problem = f"FFmpeg cannot open it: {_reason(error)}"
        raise ProbeError(problem, path=path, stage="probe", remedy=_REMEDY_REPLACE) from error


def _choose_stream(container: InputContainer, path: str) -> OpenVideo:
    """Choose the best video stream; without a usable one, close the container and say why."""
    stream, name = container.streams.best("video"), container.format.name.partition(",")[0]
    # An AVI has no covers; asking costs 5 us.
    if isinstance(stream, VideoStream) and stream.codec_context and (name == "avi" or not _is_cover(stream)):
        codec_name = stream.codec_context.codec.canonical_name
        return OpenVideo(path=path, container=container, stream=stream, container_name=name, codec_name=codec_name)
    with container:
        if not isinstance(stream, VideoStream):
            kinds = ", ".join(sorted({stream.type for stream in container.streams})) or "nothing"
            problem = f"has no video stream, it holds {kinds}"
        elif stream.codec_context:
            problem = "has no video stream, its only picture is an attached cover"
        else:
            problem = f"has no decoder for its video: {_name_codec(container)}"
    remedy = "delete it, or re-encode it, for example to H.264 in MP4"
    raise ProbeError(problem, path=path, stage="probe", remedy=remedy)


def _on_one_thread(video: OpenVideo) -> OpenVideo:
    video.stream.thread_count = 1
    video.stream.thread_type = av.codec.context.ThreadType.NONE
    return video


def _is_cover(stream: VideoStream) -> bool:
    return bool(stream.disposition & av.stream.Disposition.attached_pic)


def _name_codec(container: InputContainer) -> str:
    """Give FFmpeg's description of a video stream's codec; without a decoder PyAV tells it nowhere else."""
    with captured_log(av.logging.INFO):
        dump: str = container.dumps_format()  # type: ignore[attr-defined]  # missing from PyAV's stubs
    found = re.search(r"Video: ([^,\n]*)", dump)
    return found[1] if found else "an unknown codec"


def _reason(error: BaseException) -> str:
    """FFmpeg's or the system's words for what went wrong, without the path, which stands in front already."""
    return str(getattr(error, "strerror", None) or error)


class _LogSwitch:
    """FFmpeg's log goes to Python while at least one thread listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._levels: list[int] = []
        self._before: tuple[int | None, bool] = (None, True)
        self._silent = logging.NullHandler()

    @contextmanager
    def at(self, level: int) -> Iterator[None]:
        """Listen for lines of this level and those more serious (lower)."""
        with self._lock:
            if not self._levels:
                self._before = (av.logging.get_level(), av.logging.get_skip_repeated())
                logging.getLogger("libav").addHandler(self._silent)
                av.logging.set_skip_repeated(False)
            self._levels.append(level)
            av.logging.set_level(max(self._levels))
        try:
            yield
        finally:
            with self._lock:
                self._levels.remove(level)
                av.logging.set_level(max(self._levels, default=self._before[0]))
                if not self._levels:
                    av.logging.set_skip_repeated(self._before[1])
                    logging.getLogger("libav").removeHandler(self._silent)


_LOG_SWITCH = _LogSwitch()
