"""What a dataset may use, and the checks of its arguments that can be made before any file is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clipfeed.ledger import ErrorPolicy
from clipfeed.prefetch import thread_count
from clipfeed.records import ClipSpec, Failure, VideoIndex
from clipfeed.sample import shortfall_of, usable_mask
from clipfeed.sizes import parse_bytes

__all__ = ["Limits", "checked_batch_size", "errors_for", "without_short_videos"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a dataset may use while it is iterated; an idle one holds nothing.

    Args:
        memory_budget: Bytes of batches ahead plus frames in work, as an int or a text such as "512MB".
        workers: Decoding threads, one FFmpeg thread each; None for the cores this process may use.
        timeout_seconds: Longest time that one clip may take to decode before it counts as failed.

    Raises:
        ValueError: For a budget or a number of workers that cannot be.
    """

    memory_budget: int | str = "512MB"
    workers: int | None = None
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        parse_bytes("memory_budget", self.memory_budget)
        thread_count(self.workers)
        if not self.timeout_seconds > 0:
            raise ValueError(f"timeout_seconds={self.timeout_seconds!r}: expected a number of seconds above 0")


def checked_batch_size(batch_size: int | None) -> int | None:
    """Give the batch size back if it is one.

    Raises:
        ValueError: For anything but None or a whole number of at least 1.
    """
    whole = isinstance(batch_size, int | np.integer) and not isinstance(batch_size, bool)
    if batch_size is not None and not (whole and batch_size >= 1):
        raise ValueError(f"batch_size={batch_size!r}: expected a whole number of at least 1, or None for single clips")
    return None if batch_size is None else int(batch_size)


def errors_for(errors: Literal["auto"] | ErrorPolicy, *, training: bool, batch_size: int | None) -> ErrorPolicy:
    """Say what happens to a clip that cannot be delivered: "auto" skips in training batches and raises elsewhere.

    Raises:
        ValueError: For another value, or for skipping where there is no batch to leave a clip out of.
    """
    if isinstance(errors, ErrorPolicy):
        if batch_size is None and errors.on_error == "skip":
            raise ValueError(
                'errors=ErrorPolicy(on_error="skip") needs batches to leave a clip out of; batch_size is None'
            )
        return errors
    if not isinstance(errors, str) or errors != "auto":
        raise ValueError(f'errors={errors!r}: expected "auto" or cf.ErrorPolicy(...)')
    return ErrorPolicy(on_error="skip" if training and batch_size is not None else "raise")


def without_short_videos(index: VideoIndex, spec: ClipSpec) -> tuple[VideoIndex, tuple[Failure, ...]]:
    """Keep the videos that are long enough for a clip, and name the others.

    Raises:
        ValueError: If videos are too short and `spec.short_videos` is "error".
    """
    usable = usable_mask(index, spec)
    if usable.all() and len(index):
        return index, ()
    records = index.records
    short = tuple(filter(None, (shortfall_of(records[int(place)], spec) for place in np.flatnonzero(~usable))))
    listed = "".join(f"\n  {failure.path}: {failure.reason}" for failure in short[:10])
    if spec.short_videos == "error":
        raise ValueError(f'short_videos="error" and {len(short)} videos are too short:{listed}')
    if not usable.any():
        raise ValueError(
            f"none of the {len(index)} videos is long enough for num_frames={spec.num_frames}:{listed}\n"
            '  lower num_frames, or pass short_videos="repeat_last" or "wrap"'
        )
    return index.select(np.flatnonzero(usable)), short
