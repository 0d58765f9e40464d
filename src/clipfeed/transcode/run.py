"""All videos of a folder, in threads, each by itself: what is wrong with one is no other's business.

What is finished is kept, whatever ends the run. Nothing here decodes or writes pixels.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clipfeed._types import StrPath
from clipfeed.check import OddVideo
from clipfeed.decode.trouble import check_unchanged
from clipfeed.errors import ClipfeedError, LayoutError
from clipfeed.find import FoundVideos, find_videos
from clipfeed.index import build_index
from clipfeed.load import video_record
from clipfeed.prefetch import run_ahead, thread_count
from clipfeed.records import Failure, VideoIndex, VideoRecord, checked_path, join_key
from clipfeed.storage import fingerprint_file, local_path
from clipfeed.transcode.naming import name_results
from clipfeed.transcode.output import Entry, Output, check_apart, open_output
from clipfeed.transcode.reencode import reencode_video
from clipfeed.transcode.settings import Settings
from clipfeed.transcode.speed import DecodingSpeed, measure_speed

__all__ = ["TranscodeReport", "transcode_directory"]

_DISK_IS_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NUM_MEASURED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscodeReport:
    """What became of a folder of videos.

    Attributes:
        root: The folder of the sources, as the user gave it.
        output: The folder of the results, as the user gave it.
        settings: The choices that decide what a result looks like, by name.
        num_made: Results made by this run.
        num_kept: Results that were there already, made of the same sources with the same settings.
        num_frames: Frames of all results, as many as the sources show.
        bytes_before: Size of the sources that have a result.
        bytes_after: Size of these results.
        odd: Results of which something is worth knowing, such as damage of the source.
        left_out: Files without a result, and why.
        gone: Older results whose source is no longer there or no longer usable; they are left in place.
        lost_classes: Class folders that have no result, so that labels after them would be numbered otherwise.
        speed: Clips a second before and after; None where none could be measured.
    """

    root: str
    output: str
    settings: dict[str, int]
    num_made: int
    num_kept: int
    num_frames: int
    bytes_before: int
    bytes_after: int
    odd: tuple[OddVideo, ...]
    left_out: tuple[Failure, ...]
    gone: tuple[str, ...]
    lost_classes: tuple[str, ...]
    speed: DecodingSpeed | None


def transcode_directory(  # noqa: PLR0913  # what a result looks like, and where sources, results and the index lie
    directory: StrPath,
    output: StrPath,
    *,
    short_side: int = 256,
    gop: int = 16,
    crf: int = 21,
    index: StrPath | None = None,
    follow_links: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TranscodeReport:
    """Re-encode every usable video of a folder for training, into another folder of the same layout.

        HMDB51/brush_hair/April_09.avi    ->    small/brush_hair/April_09.mp4

    H.264 in MP4, 8-bit 4:2:0, closed groups of `gop` frames without B-frames, no sound; upright and in square pixels.
    Every result has as many frames as its source, shown at the same times, and is probed before it gets its name. A
    second call makes only what is new or changed, or was left by an interrupted one. Sources are never changed.

    Args:
        directory: The folder of the videos; they may lie anywhere in it.
        output: Folder for the results: new, empty, or made by this call before; apart from `directory`.
        short_side: Most pixels of the shorter side; smaller videos keep their size.
        gop: Frames from one key frame to the next: fewer make single frames cheaper, and files larger.
        crf: Constant rate factor of x264, 0 (lossless) to 51. At 21 brightness differs by about 42 dB (PSNR).
        index: Folder in which the index is kept; None is the user's cache folder.
        follow_links: Whether to visit linked folders.
        workers: Threads; None for the cores this process may use.
        progress: Called with (files done, files in all).

    Returns:
        What was made, kept and left out, with sizes and speed of decoding before and after.

    Raises:
        ValueError: For a number or path that cannot be.
        LayoutError: There is no such folder or no video in it, or `output` is not fit to take the results.
        ProbeError: No video can be used.
        ClipfeedError: The disk is full, or another process is writing to `output`. What is finished is kept.

    Example:
        >>> report = cf.transcode_directory("HMDB51", "HMDB51-small", short_side=112)
        >>> report.num_made, report.left_out
        (6766, ())
    """
    settings = Settings(short_side=short_side, gop=gop, crf=crf)
    threads, target_root = thread_count(workers), checked_path("output", output)
    found = find_videos(directory, follow_links=follow_links)
    check_apart(found.root, target_root)
    _refuse_links_into(target_root, found)
    targets = name_results(found.keys, found.root)
    with open_output(target_root, frozenset(targets)) as folder:
        sources = build_index(found, labels=None, index=index, follow_links=follow_links, workers=workers)
        outcomes = _make_all(sources, _Work(folder, settings, targets), workers=threads, progress=progress)
        return _report(found, sources, folder, settings, outcomes)


def _refuse_links_into(output: str, found: FoundVideos) -> None:
    """Refuse sources that really lie in the output folder, where results would take their place."""
    real = Path(output).resolve()
    folders: dict[str, Path] = {}
    for key in found.keys:
        path = local_path(found.root, key)
        above = path.rpartition("/")[0]
        folder = folders.get(above) or folders.setdefault(above, Path(above).resolve())
        place = Path(path).resolve() if os.path.islink(path) else folder  # noqa: PTH114  # no Path for each file
        if place.is_relative_to(real):
            problem = f"its video {key!r} is a link into the output folder {output}"
            raise LayoutError(problem, path=found.root, stage="transcode", remedy="give another output folder")


def _make_all(
    sources: VideoIndex, work: _Work, *, workers: int, progress: Callable[[int, int], None] | None
) -> list[tuple[Entry | Failure, bool]]:
    """Make every result; what is made is kept, also when this is interrupted."""
    records, outcomes = sources.records, []
    jobs = run_ahead(
        lambda number: work.make(number, records[number]), range(len(records)), workers=workers, max_ahead=4 * workers
    )
    with jobs as results:
        try:
            for outcome in results:
                outcomes.append(outcome)
                if progress is not None:
                    progress(len(outcomes), len(records))
        finally:
            work.stopped.set()  # videos in the making are given up, else Ctrl-C would wait for the longest
    return outcomes


class _Work:
    """Makes one result after the other, in several threads.

    Args:
        output: Where results go.
        settings: What they look like.
        targets: Key of the result for each source's key.
    """

    def __init__(self, output: Output, settings: Settings, targets: dict[str, str]) -> None:
        self._output = output
        self._settings = settings
        self._targets = targets
        self.stopped = threading.Event()

    def make(self, number: int, record: VideoRecord) -> tuple[Entry | Failure, bool]:
        """Give the entry of a video's result, and whether it was made now; or why there is none."""
        try:
            return self._make(number, record)
        except ClipfeedError as error:
            reason: str = error.problem if error.path in (record.path, None) else str(error).splitlines()[0]
        except (ValueError, OSError) as error:
            self._refuse_full_disk(error)
            cause = error if isinstance(error, OSError) else error.__cause__ or error
            reason = f"cannot be re-encoded: {getattr(cause, 'strerror', None) or cause}"
        return Failure(path=record.path, stage="transcode", reason=reason), False

    def _make(self, number: int, record: VideoRecord) -> tuple[Entry | Failure, bool]:
        output, target = self._output, self._targets[record.key]
        source, settings = fingerprint_file(record.root, record.key), self._settings.as_dict()
        kept = output.finished(target, key=record.key, source=source, settings=settings)
        if kept is not None:
            return kept, False
        place = output.place_of(target)
        if output.is_foreign(target):
            reason = f"{place} is there, and is not what this command made: move it away"
            return Failure(path=record.path, stage="transcode", reason=reason), False
        name = output.partial_name(number)
        partial = Path(output.work_folder, name)
        try:
            remarks = reencode_video(record, self._settings, partial, self.stopped.is_set)
            check_unchanged(record)
            entry = Entry(
                target=target,
                key=record.key,
                source=source,
                settings=settings,
                result=fingerprint_file(output.work_folder, name),
                source_bytes=record.size_bytes,
                result_bytes=partial.stat().st_size,
                num_frames=record.info.num_frames,
                remarks=remarks,
            )
            output.finish(entry, partial, place)
        finally:
            partial.unlink(missing_ok=True)
        return entry, True

    def _refuse_full_disk(self, error: BaseException) -> None:
        """Every further video would fail alike: say it once, and end the run."""
        cause: BaseException | None = error
        while cause is not None:
            if getattr(cause, "errno", None) in _DISK_IS_FULL:
                self.stopped.set()
                raise ClipfeedError(
                    "the disk is full; what is finished is kept",
                    path=self._output.path,
                    stage="transcode",
                    remedy="free space and give the same command again; finished videos are not made again",
                ) from error
            cause = cause.__cause__ or cause.__context__


def _report(
    found: FoundVideos,
    sources: VideoIndex,
    output: Output,
    settings: Settings,
    outcomes: Sequence[tuple[Entry | Failure, bool]],
) -> TranscodeReport:
    entries = [outcome for outcome, _ in outcomes if isinstance(outcome, Entry)]
    failures = [outcome for outcome, _ in outcomes if isinstance(outcome, Failure)]
    num_made = sum(is_new for _, is_new in outcomes)
    targets, keys = {entry.target for entry in entries}, {entry.key for entry in entries}
    classes_left = {video.class_name for video in found.videos if video.key in keys}
    return TranscodeReport(
        root=found.root,
        output=output.path,
        settings=settings.as_dict(),
        num_made=num_made,
        num_kept=len(entries) - num_made,
        num_frames=sum(entry.num_frames for entry in entries),
        bytes_before=sum(entry.source_bytes for entry in entries),
        bytes_after=sum(entry.result_bytes for entry in entries),
        odd=tuple(
            OddVideo(path=join_key(found.root, entry.key), remarks=entry.remarks) for entry in entries if entry.remarks
        ),
        left_out=(*sources.failures, *failures),
        gone=tuple(_left_behind(output, targets)),
        lost_classes=tuple(name for name in found.class_names if name not in classes_left),
        speed=measure_speed(_some_pairs(sources, output, outcomes)),
    )


def _left_behind(output: Output, targets: Collection[str]) -> Iterator[str]:
    """Give the results of earlier runs that are there and belong to no source any more."""
    for target in sorted(output.entries.keys() - targets):
        if not output.is_foreign(target) and (place := Path(output.path, target)).is_file():
            yield str(place)


def _some_pairs(
    sources: VideoIndex, output: Output, outcomes: Sequence[tuple[Entry | Failure, bool]]
) -> list[tuple[VideoRecord, VideoRecord]]:
    """Pick sources and their results, evenly spread over the folder."""
    done = [(number, outcome) for number, (outcome, _) in enumerate(outcomes) if isinstance(outcome, Entry)]
    chosen = done[:: max(1, len(done) // _NUM_MEASURED)][:_NUM_MEASURED]
    return [(sources.records[number], video_record(f"{output.path}/{entry.target}")) for number, entry in chosen]
