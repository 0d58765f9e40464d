"""One video: decoded to its end, redrawn, encoded, and held against its source by probing.

Frames are decoded one by one, as the plain decoder does, and each goes to the encoder before the next: what is held at
once does not grow with the length of a video. Nothing here names, keeps or removes files other than the one it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clipfeed._ffmpeg import OpenVideo, Picture, Redrawer, open_container, write_video
from clipfeed.decode import reformat_arguments
from clipfeed.errors import DecodeError
from clipfeed.probe import probe_video
from clipfeed.records import FoundVideo, Geometry, VideoRecord
from clipfeed.storage import local_path, stat_file
from clipfeed.transcode.settings import CODEC, PIXEL_FORMAT, Settings, result_size
from clipfeed.transcode.times import ResultTimes, differing_times, result_times

__all__ = ["Stopped", "reencode_video"]


class Stopped(Exception):
    """The run was given up; nobody asks for this video any more."""


def reencode_video(
    record: VideoRecord, settings: Settings, partial: Path, is_stopped: Callable[[], bool]
) -> tuple[str, ...]:
    """Write a video anew, and make sure that frames and times are those of the source.

    Args:
        record: The source, as it was indexed.
        settings: What the result looks like.
        partial: File to write.
        is_stopped: Looked at before each packet and frame.

    Returns:
        What is worth knowing of the result: damage of the source, whose marks are lost; times that are not quite alike.

    Raises:
        ProbeError: The source cannot be opened.
        DecodeError: Its frames cannot be converted, or are not as many as were counted; or the result is not as it
            should be.
        StaleIndexError: The source is not the one that was indexed.
        ValueError: FFmpeg cannot encode or write the result; its reason is the cause.
        Stopped: The run was given up.
    """
    times = result_times(record.info, record.path)
    seen = _Seen()
    with open_container(local_path(record.root, record.key), path=record.path) as video:
        write_video(
            partial,
            _pictures(_shown_frames(video, seen, is_stopped), record, settings, times),
            fps=times.fps,
            codec=CODEC,
            pix_fmt=PIXEL_FORMAT,
            codec_options=settings.codec_options,
            container_options=settings.container_options,
        )
    _check_result(record, settings, partial)
    return tuple(filter(None, (times.remark, *seen.remarks())))


@dataclass(slots=True)
class _Seen:
    """Damage that was met while decoding."""

    num_damaged: int = 0
    num_refused: int = 0
    is_cut_off: bool = False

    def remarks(self) -> Iterator[str]:
        if self.is_cut_off:
            yield "cut off: its container cannot be read to the end"
        if self.num_refused:
            yield f"packets that the decoder refused: {self.num_refused}"
        if self.num_damaged:
            yield f"damaged frames: {self.num_damaged}; the result shows them so, without their mark"


def _shown_frames(video: OpenVideo, seen: _Seen, is_stopped: Callable[[], bool]) -> Iterator[Picture]:
    """Give every frame the decoder shows, in its order; damage lasts until the next key frame."""
    packets, is_damaged, is_flushed = video.packets(), False, False
    while not is_flushed:
        if is_stopped():
            raise Stopped
        try:
            packet = next(packets, None)
        except DecodeError:
            packet, seen.is_cut_off = None, True
        is_flushed = packet is None
        try:
            frames = video.decode(packet)
        except DecodeError:
            is_damaged = True
            seen.num_refused += 1
            continue
        for frame in frames:
            is_damaged = frame.is_corrupt or (is_damaged and not frame.key_frame)
            seen.num_damaged += is_damaged
            yield frame


def _pictures(
    frames: Iterator[Picture], record: VideoRecord, settings: Settings, times: ResultTimes
) -> Iterator[Picture]:
    """Redraw frames, each with its time, and count them."""
    height, width = result_size(record.info, settings.short_side)
    rotation, num_frames, number = record.info.rotation, record.info.num_frames, 0
    redrawer = Redrawer(height=height, width=width, rotation=rotation, time_base=times.time_base, path=record.path)
    geometry = Geometry(scaled_height=height, scaled_width=width, height=height, width=width)
    for number, frame in enumerate(frames, 1):
        if number > num_frames:
            raise _wrong_count(record, f"more than {num_frames}")
        yield redrawer.draw(
            frame,
            pts=int(times.pts[number - 1]),
            duration=int(times.durations[number - 1]),
            assumed_matrix=reformat_arguments(geometry, frame).get("src_colorspace"),
        )
    if number < num_frames:
        raise _wrong_count(record, str(number))


def _wrong_count(record: VideoRecord, shown: str) -> DecodeError:
    return DecodeError(
        f"shows {shown} frames where {record.info.num_frames} were counted",
        path=record.path,
        stage="transcode",
        remedy="run `clipfeed check` on it; it is damaged",
    )


def _check_result(record: VideoRecord, settings: Settings, partial: Path) -> None:
    """Refuse a result whose frames, size or times are not those that they should be."""
    root, key = str(partial.parent), partial.name
    facts = stat_file(root, key)
    found = FoundVideo(key=key, class_name=None, size_bytes=facts.size_bytes, mtime_ns=facts.mtime_ns)
    info, source = probe_video(root, found), record.info
    problem = ""
    if info.num_frames != source.num_frames:
        problem = f"{info.num_frames} frames where the source has {source.num_frames}"
    elif info.display_size != (size := result_size(source, settings.short_side)):
        problem = f"pictures of {info.display_size}, height and width, where {size} was wanted"
    else:
        problem = differing_times(source, info)
    if problem:
        raise DecodeError(f"its result has {problem}", path=record.path, stage="transcode")
