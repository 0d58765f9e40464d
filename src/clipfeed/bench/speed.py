"""Clips a second: an epoch as training runs it, timed from outside. Nothing here looks into stages."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from clipfeed.bench.report import Rate
from clipfeed.dataset import VideoDataset

__all__ = ["pass_seconds", "rate_of"]


def pass_seconds(ds: VideoDataset, epoch: int) -> float:
    """Run through an epoch, decoding ahead, and give the time it took."""
    begun = time.perf_counter()
    for _ in ds.iter_epoch(epoch):
        pass
    return time.perf_counter() - begun


def rate_of(name: str, ds: VideoDataset, seconds: Sequence[float], *, opens_files: bool = True) -> Rate:
    """Turn the times of several passes into a rate by their median."""
    num_failed = len(ds.ledger) * (ds.spec.clips_per_video if ds.training else 1)
    num_clips = ds.num_examples - num_failed
    middle = statistics.median(seconds)
    file_bytes = int(ds.index.columns.size_bytes[ds.index.rows].sum()) if opens_files else 0
    return Rate(
        name=name,
        workers=ds.workers,
        clips_per_second=num_clips / middle,
        bytes_per_second=num_clips * ds.spec.num_bytes / middle,
        file_bytes_per_second=file_bytes * num_clips / ds.num_examples / middle,
    )
