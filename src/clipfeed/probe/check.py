"""Checking: decode every frame of a video and compare with what probing says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import av.logging

from clipfeed import storage
from clipfeed._ffmpeg import OpenVideo, captured_log
from clipfeed.probe.counted import Deadline
from clipfeed.probe.counting import Decoded, decode_all
from clipfeed.probe.opening import open_bytes, open_explained
from clipfeed.probe.refusal import explain_without_frames
from clipfeed.probe.tiers import probe_video
from clipfeed.records import FoundVideo, VideoInfo, join_key

__all__ = ["CheckedVideo", "check_video"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedVideo:
    """What decoding every frame of a video showed.

    Attributes:
        key: Relative POSIX path of the file.
        info: What probing says of it.
        num_frames_decoded: Frames that came out.
        num_corrupt: Frames that the decoder flagged as damaged; those built on them carry no flag.
        num_errors: Packets that the decoder refused.
        num_log_errors: Lines that FFmpeg logged as errors.
        sizes: (height, width) of decoded frames, pixels, one entry for every change.
        is_cut_off: True where the file ends before its container says.
    """

    key: str
    info: VideoInfo
    num_frames_decoded: int
    num_corrupt: int
    num_errors: int
    num_log_errors: int
    sizes: tuple[tuple[int, int], ...]
    is_cut_off: bool

    @property
    def is_count_right(self) -> bool:
        """True where probing counted as many frames as decoding gives."""
        return self.num_frames_decoded == self.info.num_frames

    @property
    def is_damaged(self) -> bool:
        """True where a frame or packet is damaged, or the file is cut off."""
        return self.is_cut_off or self.num_corrupt + self.num_errors > 0


def check_video(root: str, found: FoundVideo, *, max_seconds: float = 600.0) -> CheckedVideo:
    """Probe a video, then decode all of it.

    Args:
        root: The data set's folder, as the user gave it.
        found: The file.
        max_seconds: Longest time for each of the two, looked at between packets.

    Raises:
        ProbeError: The file cannot be used at all; says why and what to do.
    """
    path = join_key(root, found.key)
    info = probe_video(root, found, max_seconds=max_seconds)
    source = storage.local_path(root, found.key)
    with (
        captured_log() as lines,
        open_bytes(root, found) as file,
        open_explained(source, path, file, found.size_bytes) as video,
    ):
        seen = decode_all(video, Deadline(max_seconds, path=path))
        if seen.num_frames == 0:
            raise explain_without_frames(path, video.codec_name, seen, found.size_bytes)
        return CheckedVideo(
            key=found.key,
            info=info,
            num_frames_decoded=seen.num_frames,
            num_corrupt=seen.num_corrupt,
            num_errors=seen.num_errors,
            num_log_errors=sum(level <= av.logging.ERROR for level, _, _ in lines),
            sizes=tuple(seen.sizes),
            is_cut_off=_is_cut_off(video, file, seen, found.size_bytes),
        )


def _is_cut_off(video: OpenVideo, file: BinaryIO, seen: Decoded, size_bytes: int) -> bool:
    """Tell whether the container speaks of more bytes than the file holds, or could not be read to its end."""
    if video.container_name == "avi":
        file.seek(4)
        return seen.is_cut_off or 8 + int.from_bytes(file.read(4), "little") > size_bytes
    if video.container_name == "mov":
        ends = (entry.pos + entry.size for entry in video.stream.index_entries)
        return seen.is_cut_off or max(ends, default=0) > size_bytes
    return seen.is_cut_off
