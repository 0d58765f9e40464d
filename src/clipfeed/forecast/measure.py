"""How fast this machine is with these files: a few seconds of decoding, a moment of reading.

Clips come out of a dataset of the caller's own kind, its workers at work together, so that figures are those of
training. Which videos are decoded is drawn once and for all: the same folder is measured on the same files.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clipfeed._jpeg import encode_jpegs
from clipfeed._types import FrameArray, IndexArray, StrPath
from clipfeed.dataset import VideoDataset
from clipfeed.errors import ClipfeedError
from clipfeed.forecast.report import Decoding, Range, Reading
from clipfeed.order import Order
from clipfeed.prefetch import run_ahead
from clipfeed.records import VideoIndex
from clipfeed.transform import to_value_range

__all__ = ["Clock", "Work", "decoding_seconds", "measure_decoding", "measure_reading", "reading_seconds", "work_of"]

Clock = Callable[[], float]

_MAX_CLIPS = 1000
_NUM_BLOCKS = 10
_LEAST_SPREAD = 0.1  # two runs on a quiet machine differ by some per cent
_UNKNOWN_SPREAD = 0.5  # a single clip says little of the others
_JPEG_CLIPS = 16
_JPEG_FRAMES_A_CLIP = 4
_READ_BYTES = 32_000_000
_READ_PASSES = 4
_GATHERED_CLIPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an epoch's clips are made from; what decoding takes is in proportion to it.

    Attributes:
        source_pixels: Pixels of all frames of the videos, at their own size.
        source_bytes: Bytes of the files.
    """

    source_pixels: int
    source_bytes: int


def work_of(index: VideoIndex) -> Work:
    """Add up what the rows of an index are made from, each once."""
    columns, rows = index.columns, index.rows
    pixels = columns.widths[rows].astype(np.int64) * columns.heights[rows] * index.num_frames
    return Work(source_pixels=int(pixels.sum()), source_bytes=int(columns.size_bytes[rows].sum()))


# Decoding


def measure_decoding(
    ds: VideoDataset,
    *,
    max_seconds: float = 5.0,
    clock: Clock = time.perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> Decoding:
    """Decode one clip each of some videos of a dataset, with its workers, for a few seconds at most.

    Files are read as they lie, in the page cache or not, as an epoch would find them. Clips at random places are taken
    at their centre, which costs the mean of what they cost.

    Args:
        ds: The dataset.
        max_seconds: No clip is begun after so many seconds; one at least is made.
        clock: Gives the time in seconds.
        progress: Called with (whole seconds that have passed, `max_seconds`) after each clip.
    """
    chosen = _draw_videos(ds.index)
    single = VideoDataset(chosen, ds.spec, batch_size=1, training=False, limits=ds.limits)

    def make(number: int) -> FrameArray | None:
        try:
            frames: FrameArray = single.batch(0, number, workers=0).clips[0]
        except ClipfeedError:
            return None  # counted; training would leave it out
        return frames

    make(0)  # not timed: libraries load
    numbers = [*range(1, len(chosen)), 0]
    laps: list[float] = []
    kept: list[FrameArray] = []
    done: list[int] = []
    begun = last = clock()
    with run_ahead(make, numbers, workers=single.workers, max_ahead=single.workers) as clips:
        for number, clip in zip(numbers, clips, strict=True):
            now = clock()
            laps.append(now - last)
            last = now
            if clip is not None:
                done.append(number)
                kept += [clip] if len(kept) < _JPEG_CLIPS else []
            if progress is not None:
                progress(int(now - begun), int(max_seconds))
            if now - begun >= max_seconds:
                break
    work = [work_of(chosen.select([number])) for number in done]
    return Decoding(
        num_clips=len(done),
        num_failed=len(laps) - len(done),
        seconds=last - begun,
        source_pixels=sum(each.source_pixels for each in work),
        source_bytes=sum(each.source_bytes for each in work),
        spread=_spread(laps, [each.source_pixels for each in work]),
        jpeg_share=_jpeg_share(kept),
    )


def _draw_videos(index: VideoIndex) -> VideoIndex:
    order = Order(num_examples=len(index), batch_size=min(len(index), _MAX_CLIPS), shuffle=True)
    return index.select(order.examples(0, 0))


def _spread(laps: Sequence[float], pixels: Sequence[int]) -> float:
    """Twice the relative standard error of seconds a pixel, from blocks of clips that follow one another.

    Laps of single clips would not do: with several workers a lap is not the time of the clip that ends it.
    """
    num_blocks = min(_NUM_BLOCKS, len(pixels))
    if num_blocks < 2 or len(laps) != len(pixels):
        return _UNKNOWN_SPREAD
    seconds = np.array([block.sum() for block in np.array_split(np.array(laps), num_blocks)])
    sizes = np.array([block.sum() for block in np.array_split(np.array(pixels, np.float64), num_blocks)])
    residuals = seconds - seconds.sum() / sizes.sum() * sizes
    error = np.sqrt((residuals**2).sum() / (num_blocks * (num_blocks - 1))) / max(seconds.mean(), 1e-9)
    return float(np.clip(2 * error, _LEAST_SPREAD, 1))


def _jpeg_share(clips: Sequence[FrameArray]) -> float | None:
    chosen = [clip[:: -(-len(clip) // _JPEG_FRAMES_A_CLIP)] for clip in clips]
    if not chosen:
        return None
    return sum(len(jpeg) for frames in chosen for jpeg in encode_jpegs(frames)) / sum(frames.size for frames in chosen)


def decoding_seconds(decoding: Decoding, work: Work) -> Range | None:
    """Scale what was measured to an epoch: by pixels and by bytes, which differ where files do; None without a clip."""
    if not decoding.num_clips:
        return None
    by_pixels = decoding.seconds * work.source_pixels / decoding.source_pixels
    by_bytes = decoding.seconds * work.source_bytes / decoding.source_bytes
    return Range(
        low=min(by_pixels, by_bytes) * (1 - decoding.spread),
        middle=(by_pixels + by_bytes) / 2,
        high=max(by_pixels, by_bytes) * (1 + decoding.spread),
    )


# Reading


def measure_reading(folder: StrPath, clip_bytes: int, *, clock: Clock = time.perf_counter) -> Reading | None:
    """Write some frames where the cache would be, read them back as batches, and delete them.

    Args:
        folder: Folder of the cache; made if absent.
        clip_bytes: Bytes of one clip.
        clock: Gives the time in seconds.

    Returns:
        Speeds; None if the folder cannot be written.
    """
    row_bytes = min(clip_bytes, _READ_BYTES // _GATHERED_CLIPS)
    num_rows = _READ_BYTES // row_bytes
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".forecast-") as own:
            path = Path(own) / "frames"
            _write_noise(path, num_rows * row_bytes)
            from_disk = _disk_speed(path, clock)
            kept = np.memmap(path, np.uint8, "r", shape=(num_rows, row_bytes))
            return Reading(memory_bytes_per_second=_gather_speed(kept, clock), disk_bytes_per_second=from_disk)
    except OSError:
        return None


def _write_noise(path: Path, num_bytes: int) -> None:
    """Write what no file system can compress, and wait until the disk has it."""
    noise = np.random.Generator(np.random.PCG64(0)).integers(0, 256, num_bytes, np.uint8)
    with path.open("wb") as file:
        noise.tofile(file)
        file.flush()
        os.fsync(file.fileno())


def _disk_speed(path: Path, clock: Clock) -> float | None:
    if not hasattr(os, "posix_fadvise"):
        return None
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        begun = clock()
        num_bytes = len(file.read())
        return num_bytes / max(clock() - begun, 1e-9)


def _gather_speed(kept: FrameArray, clock: Clock) -> float:
    order = Order(num_examples=len(kept), batch_size=_GATHERED_CLIPS, shuffle=True)
    batches: list[IndexArray] = [
        order.examples(epoch, number) for epoch in range(_READ_PASSES) for number in range(order.num_batches)
    ]
    begun = clock()
    for rows in batches:
        to_value_range(kept[rows], "float32", None)
    num_bytes = sum(len(rows) for rows in batches) * int(kept.shape[1])
    return num_bytes / max(clock() - begun, 1e-9)


def reading_seconds(reading: Reading, epoch_bytes: int, *, is_in_memory: bool) -> Range:
    """Say how long an epoch from the cache takes.

    Args:
        reading: Speeds.
        epoch_bytes: Bytes of all clips of an epoch, uint8.
        is_in_memory: Whether the whole cache fits into the page cache.
    """
    at_best = epoch_bytes / reading.memory_bytes_per_second
    at_worst = at_best + epoch_bytes / (reading.disk_bytes_per_second or reading.memory_bytes_per_second)
    return Range(low=at_best, middle=at_best if is_in_memory else at_worst, high=at_worst)
