"""Trying things out on a few videos: a cache, and re-encoding. All of it in a temporary folder that is gone afterwards.

The folder holds links to the videos under trial as a data set of its own: a cache makes room for a whole data set, and
re-encoding takes a whole folder. Nothing is written beside the data or into the user's cache.
"""

from __future__ import annotations

import statistics
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np

from clipfeed.bench.fitting import measure_fit
from clipfeed.bench.report import FitWait, Rate
from clipfeed.bench.speed import pass_seconds, rate_of
from clipfeed.cache import Cache
from clipfeed.dataset import VideoDataset
from clipfeed.errors import CacheWarning
from clipfeed.index import build_index
from clipfeed.learn.models import ModelName
from clipfeed.records import VideoIndex
from clipfeed.storage import local_path
from clipfeed.transcode import transcode_directory

__all__ = ["CacheTrial", "TranscodeTrial", "linked_videos", "try_cache", "try_transcode"]

_SHORT_SIDE = 256  # pixels; what `transcode_directory` makes unless it is told otherwise
_NUM_TRANSCODED = 2
_MOST_PIXELS = 1.5e9  # of all frames together; more would take some ten seconds a core to re-encode


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTrial:
    """What a cache did for some videos.

    Attributes:
        rate: Clips a second of a later epoch.
        fit: How long `fit` waited in one; None where no model was fitted.
    """

    rate: Rate
    fit: FitWait | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscodeTrial:
    """What re-encoding did for some videos.

    Attributes:
        num_videos: How many were re-encoded.
        seconds_before: One thread's time for a clip of the videos as they are.
        seconds_after: The same of the results.
        bytes_before: Size of the videos.
        bytes_after: Size of the results.
    """

    num_videos: int
    seconds_before: float
    seconds_after: float
    bytes_before: int
    bytes_after: int


@contextmanager
def linked_videos(index: VideoIndex) -> Iterator[tuple[Path, VideoIndex]]:
    """Make a data set of links to an index's videos.

    Yields:
        A temporary folder to put other things in, and the index of the links: same videos, labels counted from 0.
    """
    with tempfile.TemporaryDirectory(prefix="clipfeed-bench-") as name:
        folder = Path(name)
        labels = index.labels if index.labels is not None and index.labels.ndim == 1 else np.zeros(len(index), np.int32)
        for number, (key, label) in enumerate(zip(index.keys, labels.tolist(), strict=True)):
            link = folder / "videos" / f"{label:06d}" / f"{number:06d}{PurePosixPath(key).suffix}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(local_path(index.root, key))
        yield folder, build_index(folder / "videos", index=folder / "index")


def try_cache(ds: VideoDataset, num_passes: int, model: ModelName | None) -> CacheTrial | None:
    """Run a dataset's videos from a cache on the disk.

    The first pass fills the cache and the second verifies what it reads; later ones are timed.

    Args:
        ds: The videos under trial, and how clips are made of them.
        num_passes: Timed passes.
        model: The model to fit; None for no `fit`.

    Returns:
        None where nothing could be kept, for want of room in the folder for temporary files, say.
    """
    with linked_videos(ds.index) as (folder, index), warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)  # the report says it
        kept = VideoDataset(
            index,
            ds.spec,
            batch_size=ds.batch_size,
            seed=ds.seed,
            limits=ds.limits,
            cache=Cache(folder / "frames"),
        )
        if kept.kept is None or (kept.kept.entries < 0).any():
            return None
        seconds = [pass_seconds(kept, epoch) for epoch in range(2 + num_passes)][2:]
        fit = None if model is None else measure_fit("cache", kept, model, len(index.class_names or ()))
        return CacheTrial(rate=rate_of("cache", kept, seconds, opens_files=False), fit=fit)


def try_transcode(ds: VideoDataset, num_passes: int) -> TranscodeTrial | None:
    """Re-encode a few middling videos of a dataset, and compare the time of clips before and after.

    Args:
        ds: The videos to choose from, and how clips are made of them.
        num_passes: Timed passes over both in turn, after one that is not counted.

    Returns:
        None where the videos are so large that trying would take long, or nothing came out.
    """
    chosen = _middling(ds.index)
    if not len(chosen):
        return None
    with linked_videos(chosen) as (folder, index):
        made = transcode_directory(
            folder / "videos", folder / "small", short_side=max(_SHORT_SIDE, *ds.spec.size), index=folder / "index"
        )
        if made.left_out:
            return None
        limits = replace(ds.limits, workers=1)
        both = [
            VideoDataset(each, ds.spec, batch_size=ds.batch_size, training=False, seed=0, limits=limits)
            for each in (index, build_index(folder / "small", index=folder / "index"))
        ]
        seconds = [[pass_seconds(each, 0) for each in both] for _ in range(1 + num_passes)][1:]
        before, after = (statistics.median(times) / len(index) for times in zip(*seconds, strict=True))
        return TranscodeTrial(
            num_videos=len(index),
            seconds_before=before,
            seconds_after=after,
            bytes_before=made.bytes_before,
            bytes_after=made.bytes_after,
        )


def _middling(index: VideoIndex) -> VideoIndex:
    """Choose videos of about the median number of pixels in all frames; none if those are too many."""
    columns, rows = index.columns, index.rows
    pixels = columns.widths[rows].astype(np.float64) * columns.heights[rows] * columns.num_frames[rows]
    order = np.argsort(pixels, kind="stable")
    first = max(0, (len(order) - _NUM_TRANSCODED) // 2)
    chosen = np.sort(order[first : first + _NUM_TRANSCODED])
    return index.select(chosen if pixels[chosen].sum() <= _MOST_PIXELS else chosen[:0])
