"""The ordinary and the awkward kinds of video, as a table for parametrised tests.

Each entry writes one file and knows which numbers its frames spell, in the order a right reader gives them. What the
entries are made of is in `write`, `odd` and `mpeg4_packed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

from clipfeed._types import StrPath
from clipfeed.testing.marker import paint_numbered_frame
from clipfeed.testing.mpeg4_packed import write_not_coded_mpeg4, write_packed_mpeg4
from clipfeed.testing.odd import (
    VARIABLE_RATE_NUMBERS,
    write_untold_delay,
    write_variable_rate,
    write_with_audio,
    write_with_cover,
)
from clipfeed.testing.vpx_hidden import write_hidden_vp8, write_hidden_vp9
from clipfeed.testing.write import Encoding, write_frames

__all__ = ["VIDEO_KINDS", "VideoKind", "video_kind"]

_NUM_FRAMES = 61


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoKind:
    """One kind of video.

    Attributes:
        name: Identifies it in test names.
        extension: Of the file, such as ".mp4".
        codec: FFmpeg's name of the codec in it, such as "h264".
        numbers: Which numbers its frames spell, in presentation order; most kinds show 0 to 60.
        fps: Frames a second, even where the container does not say so; for variable rate, ticks a second.
        is_variable_rate: True where frames are not evenly spaced.
        writer: Writes one to a path.
    """

    name: str
    extension: str
    codec: str
    numbers: tuple[int, ...] = tuple(range(_NUM_FRAMES))
    fps: Fraction = Fraction(25)
    is_variable_rate: bool = False
    writer: Callable[[Path], object]

    @property
    def num_frames(self) -> int:
        """Frames that a right reader gives."""
        return len(self.numbers)

    def write(self, folder: StrPath) -> Path:
        """Write one into a folder, named after its kind, and give its path."""
        path = Path(folder) / f"{self.name}{self.extension}"
        self.writer(path)
        return path


def video_kind(name: str) -> VideoKind:
    """Give the kind of a name.

    Raises:
        ValueError: If there is none; lists them.
    """
    for kind in VIDEO_KINDS:
        if kind.name == name:
            return kind
    raise ValueError(f"no kind {name!r}; there are {', '.join(kind.name for kind in VIDEO_KINDS)}")


def _write(path: Path, *, encoding: Encoding, ticks: Sequence[int]) -> None:
    pictures = (paint_numbered_frame(number) for number in range(len(ticks)))
    write_frames(path, pictures, encoding=encoding, ticks=ticks)


def _kind(name: str, extension: str, codec: str, encoding: Encoding, *, num_frames: int = _NUM_FRAMES) -> VideoKind:
    writer = partial(_write, encoding=encoding, ticks=range(num_frames))
    return VideoKind(name=name, extension=extension, codec=codec, numbers=tuple(range(num_frames)), writer=writer)


def _h264(name: str, extension: str, options: str, **container_options: str) -> VideoKind:
    encoding = Encoding(options={"x264-params": options}, container_options=container_options)
    return _kind(name, extension, "h264", encoding)


# Three B-frames between references, some of them references themselves, as x264 does by itself.
_B_FRAMES = "bframes=3:b-adapt=0:keyint=250:scenecut=0"

_H264_KINDS = (
    _h264("h264_mp4", ".mp4", _B_FRAMES),
    _h264("h264_mov", ".mov", _B_FRAMES),
    _h264("h264_mkv", ".mkv", _B_FRAMES),
    _h264("h264_ts", ".ts", _B_FRAMES),
    _h264("h264_flv", ".flv", _B_FRAMES),
    # AVI keeps no pts: a demuxer makes them up, wrongly where there are B-frames.
    _h264("h264_avi_without_pts", ".avi", _B_FRAMES),
    _h264("h264_short_gops", ".mp4", "bframes=0:keyint=12:scenecut=0"),
    _h264("h264_open_gops", ".mp4", "bframes=3:b-adapt=0:keyint=12:scenecut=0:open-gop=1"),
    _h264("h264_closed_gops", ".ts", "bframes=3:b-adapt=0:keyint=12:scenecut=0:slices=3"),
    _h264("h264_no_cabac", ".mp4", "bframes=2:keyint=12:scenecut=0:cabac=0"),
    VideoKind(
        # Nothing says how many frames must be held back to bring them into order: decoders find out on the way.
        name="h264_untold_delay",
        extension=".mp4",
        codec="h264",
        writer=partial(write_untold_delay, num_frames=_NUM_FRAMES),
    ),
    _h264("h264_faststart", ".mp4", _B_FRAMES, movflags="faststart"),
    _h264("h264_fragmented", ".mp4", "bframes=2:keyint=20:scenecut=0", movflags="frag_keyframe+empty_moov"),
    _kind("h264_444", ".mkv", "h264", Encoding(pixel_format="yuv444p")),
    _kind("h264_10_bit", ".mkv", "h264", Encoding(pixel_format="yuv420p10le")),
    _kind("h264_full_range", ".mp4", "h264", Encoding(color_range="pc", color_matrix="bt709")),
    _kind("h264_named_avi", ".avi", "h264", Encoding(container="mp4")),
    _kind("h264_one_frame", ".mp4", "h264", Encoding(), num_frames=1),
    VideoKind(
        # The frames before time 0 are in the file, and the edit list says that they are not shown.
        name="h264_edit_list",
        extension=".mp4",
        codec="h264",
        numbers=tuple(range(10, 10 + _NUM_FRAMES)),
        writer=partial(_write, encoding=Encoding(options={"x264-params": _B_FRAMES}), ticks=range(-10, _NUM_FRAMES)),
    ),
    VideoKind(
        name="h264_delayed_start",
        extension=".ts",
        codec="h264",
        writer=partial(_write, encoding=Encoding(), ticks=range(50, 50 + _NUM_FRAMES)),
    ),
    *(
        VideoKind(
            name=f"h264_variable_rate_{container}",
            extension=f".{container}",
            codec="h264",
            numbers=VARIABLE_RATE_NUMBERS,
            fps=Fraction(60),
            is_variable_rate=True,
            writer=write_variable_rate,
        )
        for container in ("mp4", "mkv")
    ),
    VideoKind(name="h264_longer_audio", extension=".mp4", codec="h264", writer=write_with_audio),
    VideoKind(
        name="h264_cover",
        extension=".mkv",
        codec="h264",
        writer=partial(write_with_cover, num_frames=_NUM_FRAMES),
    ),
)

_MPEG4_KINDS = (
    _kind("mpeg4_avi", ".avi", "mpeg4", Encoding(codec="mpeg4", options={"g": "12"}, tag="XVID")),
    _kind("mpeg4_b_frames", ".avi", "mpeg4", Encoding(codec="mpeg4", options={"bf": "2", "g": "12"}, tag="XVID")),
    _kind("mpeg4_b_frames_mp4", ".mp4", "mpeg4", Encoding(codec="mpeg4", options={"bf": "2", "g": "12"})),
    VideoKind(name="mpeg4_packed", extension=".avi", codec="mpeg4", fps=Fraction(30), writer=write_packed_mpeg4),
    VideoKind(
        name="mpeg4_packed_runs",
        extension=".avi",
        codec="mpeg4",
        fps=Fraction(30),
        writer=partial(write_packed_mpeg4, max_b_frames=2),
    ),
    VideoKind(
        # Names in HMDB51's headers are not always UTF-8.
        name="mpeg4_packed_named",
        extension=".avi",
        codec="mpeg4",
        fps=Fraction(30),
        writer=partial(write_packed_mpeg4, stream_name=b"H:\\wave\\R\xfcckkehr"),
    ),
    VideoKind(name="mpeg4_not_coded", extension=".avi", codec="mpeg4", fps=Fraction(30), writer=write_not_coded_mpeg4),
)

_X265_OPEN = {"x265-params": "log-level=none:pools=none:frame-threads=1:keyint=12:bframes=3:b-adapt=0:open-gop=1"}
_CLOSED = {"bf": "2", "g": "12", "flags": "+cgop", "sc_threshold": "1000000000"}
_INTERLACED = {"bf": "2", "g": "12", "flags": "+ildct+ilme"}

_OTHER_KINDS = (
    _kind("hevc_mp4", ".mp4", "hevc", Encoding(codec="libx265")),
    _kind("hevc_mkv", ".mkv", "hevc", Encoding(codec="libx265", options={"g": "12"})),
    _kind("hevc_open_gops", ".ts", "hevc", Encoding(codec="libx265", options=_X265_OPEN)),
    _kind("av1_mp4", ".mp4", "av1", Encoding(codec="libsvtav1")),
    _kind("av1_short_gops", ".mkv", "av1", Encoding(codec="libsvtav1", options={"g": "12"})),
    _kind("vp8_webm", ".webm", "vp8", Encoding(codec="libvpx")),
    _kind("vp8_short_gops", ".webm", "vp8", Encoding(codec="libvpx", options={"g": "12"})),
    _kind("vp9_webm", ".webm", "vp9", Encoding(codec="libvpx-vp9")),
    _kind("vp9_short_gops", ".webm", "vp9", Encoding(codec="libvpx-vp9", options={"g": "12"})),
    VideoKind(
        name="vp8_hidden",
        extension=".webm",
        codec="vp8",
        numbers=tuple(number for number in range(_NUM_FRAMES) if number not in (10, 25, 26)),
        writer=partial(write_hidden_vp8, num_frames=_NUM_FRAMES, hidden=(10, 25, 26)),
    ),
    VideoKind(
        name="vp9_hidden",
        extension=".webm",
        codec="vp9",
        numbers=tuple(number for number in range(_NUM_FRAMES) if number % 20),
        writer=partial(write_hidden_vp9, num_frames=_NUM_FRAMES, gop_frames=20),
    ),
    _kind("mpeg1_mpg", ".mpg", "mpeg1video", Encoding(codec="mpeg1video", options={"bf": "2"})),
    _kind("mpeg2_mpg", ".mpg", "mpeg2video", Encoding(codec="mpeg2video", options={"bf": "2"})),
    _kind("mpeg2_ts", ".ts", "mpeg2video", Encoding(codec="mpeg2video")),
    _kind("mpeg2_closed_gops", ".ts", "mpeg2video", Encoding(codec="mpeg2video", options=_CLOSED)),
    _kind("mpeg2_interlaced", ".mpg", "mpeg2video", Encoding(codec="mpeg2video", options=_INTERLACED)),
    _kind("mpeg2_avi", ".avi", "mpeg2video", Encoding(codec="mpeg2video", options={"bf": "2", "g": "12"})),
    _kind("wmv1_wmv", ".wmv", "wmv1", Encoding(codec="wmv1")),
    _kind("wmv2_wmv", ".wmv", "wmv2", Encoding(codec="wmv2")),
    _kind("flv1_flv", ".flv", "flv1", Encoding(codec="flv")),
    _kind("gif", ".gif", "gif", Encoding(codec="gif")),
    _kind("mjpeg_avi", ".avi", "mjpeg", Encoding(codec="mjpeg")),
    _kind("mjpeg_mov", ".mov", "mjpeg", Encoding(codec="mjpeg", options={"huffman": "default"})),
    _kind("ffv1_mkv", ".mkv", "ffv1", Encoding(codec="ffv1")),
    _kind("prores_mov", ".mov", "prores", Encoding(codec="prores")),
    _kind("msmpeg4_avi", ".avi", "msmpeg4v3", Encoding(codec="msmpeg4")),
    # Its encoder takes 25 ms a frame.
    _kind("cinepak_avi", ".avi", "cinepak", Encoding(codec="cinepak"), num_frames=11),
    _kind("svq1_mov", ".mov", "svq1", Encoding(codec="svq1")),
)

VIDEO_KINDS: tuple[VideoKind, ...] = (*_H264_KINDS, *_MPEG4_KINDS, *_OTHER_KINDS)
"""Every one must be counted exactly, and every frame of it read exactly."""
