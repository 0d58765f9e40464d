"""Decode every frame of a folder, or of one file, and say what is damaged or odd.

The slow, certain sibling of `index`: where indexing counts frames, checking looks at all of them. It changes nothing
and keeps nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clipfeed._types import StrPath
from clipfeed.errors import ProbeError
from clipfeed.find import find_videos
from clipfeed.prefetch import run_ahead, thread_count
from clipfeed.probe import CheckedVideo, check_video
from clipfeed.records import Failure, FoundVideo, checked_flag, join_key
from clipfeed.storage import stat_file

__all__ = ["CheckReport", "OddVideo", "check_videos"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OddVideo:
    """A video that can be used, and what is worth knowing of it.

    Attributes:
        path: The file.
        remarks: What is damaged or unusual, one short text each.
    """

    path: str
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What checking a folder showed.

    Attributes:
        num_files: Files looked at.
        num_frames: Frames decoded.
        odd: Files that are usable but damaged, cut off, rotated, of variable rate or of changing size.
        unusable: Files that give no clip, and why.
    """

    num_files: int
    num_frames: int
    odd: tuple[OddVideo, ...]
    unusable: tuple[Failure, ...]

    @property
    def num_fine(self) -> int:
        """Files of which there is nothing to say."""
        return self.num_files - len(self.odd) - len(self.unusable)


def check_videos(
    path: StrPath,
    *,
    follow_links: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CheckReport:
    """Decode every frame below a folder, or of one file.

    Args:
        path: A folder (files may lie anywhere in it), or one video file.
        follow_links: Whether to visit linked folders.
        workers: Threads; None for the cores this process may use.
        progress: Called with (files done, files in all).

    Returns:
        What is fine, odd and unusable.

    Raises:
        ValueError: If `workers` is no number of threads, or `follow_links` neither True nor False.
        LayoutError: If there is no such folder or file, or no video in it.
    """
    threads = thread_count(workers)
    root, videos, ignored = _videos_at(path, follow_links=checked_flag("follow_links", follow_links))
    odd: list[OddVideo] = []
    unusable = list(ignored)
    num_frames = 0
    with run_ahead(
        lambda number: _checked(root, videos[number]),
        range(len(videos)),
        workers=threads,
        max_ahead=64,
    ) as results:
        for number, seen in enumerate(results):
            if isinstance(seen, Failure):
                unusable.append(seen)
            else:
                num_frames += seen.num_frames_decoded
                remarks = tuple(_remarks(seen))
                if remarks:
                    odd.append(OddVideo(path=join_key(root, seen.key), remarks=remarks))
            if progress is not None:
                progress(number + 1, len(videos))
    return CheckReport(
        num_files=len(videos) + len(ignored), num_frames=num_frames, odd=tuple(odd), unusable=tuple(unusable)
    )


def _videos_at(path: StrPath, *, follow_links: bool) -> tuple[str, tuple[FoundVideo, ...], tuple[Failure, ...]]:
    shown = os.fspath(path)
    if Path(shown).is_file():
        root, key = str(Path(shown).parent), Path(shown).name
        facts = stat_file(root, key)
        found = FoundVideo(key=key, class_name=None, size_bytes=facts.size_bytes, mtime_ns=facts.mtime_ns)
        return root, (found,), ()
    listing = find_videos(shown, follow_links=follow_links, labels=None)
    return listing.root, listing.videos, listing.ignored


def _checked(root: str, found: FoundVideo) -> CheckedVideo | Failure:
    try:
        return check_video(root, found)
    except ProbeError as error:
        return Failure(path=join_key(root, found.key), stage="probe", reason=error.problem)


def _remarks(seen: CheckedVideo) -> Iterator[str]:
    if not seen.is_count_right:
        yield f"{seen.num_frames_decoded} frames decoded where {seen.info.num_frames} were counted"
    if seen.is_cut_off:
        yield "cut off: the container speaks of more than the file holds"
    if seen.num_errors:
        yield f"{seen.num_errors} packets refused by the decoder"
    if seen.num_corrupt:
        yield f"{seen.num_corrupt} frames damaged"
    if seen.num_log_errors and not seen.is_damaged:
        yield f"FFmpeg logged {seen.num_log_errors} errors while decoding"
    if len(seen.sizes) > 1:
        yield f"size changes: {', '.join(f'{width}x{height}' for height, width in seen.sizes[:4])}"
    if seen.info.is_variable_rate:
        yield "variable frame rate"
    if seen.info.rotation:
        yield f"rotated by {seen.info.rotation} degrees"
