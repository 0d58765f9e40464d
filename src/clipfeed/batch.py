"""Clips into a batch.

One array for all clips of a batch, filled row by row as clips come in, so that a batch and its clips need not be held
twice. What could not be delivered is left out and listed; no other clip takes its place. Nothing here decodes, and
nothing decides whether a failure may be passed over: that is `ledger`.

    clips  [a, failure, c]   ->   rows a, c            (2 examples)
    the same, num_rows=4     ->   rows a, c, -, -      (4 rows, the last two black with weight 0)
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, MaskArray
from clipfeed.clock import staged
from clipfeed.records import Batch, Clip, ClipSpec, Failure

__all__ = ["BatchRows", "allocate"]

Labels: TypeAlias = NDArray[np.int32] | NDArray[np.float32]

_ALIGNMENT = 64  # bytes; TensorFlow takes an array over without a copy if it begins at such a multiple


@staged("assemble")
def allocate(shape: tuple[int, ...]) -> FrameArray:
    """Give a fresh, uninitialised, C-contiguous uint8 array that begins at a multiple of 64 bytes."""
    num_bytes = math.prod(shape)
    raw = np.empty(num_bytes + _ALIGNMENT, np.uint8)
    skip = -raw.ctypes.data % _ALIGNMENT
    return raw[skip : skip + num_bytes].reshape(shape)


class BatchRows:
    """The rows of one batch while it is being made.

    Args:
        spec: What a clip looks like.
        num_clips: Clips that will be put in, delivered or failed.
        num_rows: Rows of the batch; those without a clip are black and carry weight 0. None for as many rows as clips
            are delivered.

    Raises:
        ValueError: If there are more clips than rows.
    """

    def __init__(self, spec: ClipSpec, num_clips: int, num_rows: int | None = None) -> None:
        if num_rows is not None and num_rows < num_clips:
            raise ValueError(f"num_rows={num_rows}: {num_clips} clips do not fit")
        self._frames = allocate((num_clips if num_rows is None else num_rows, *spec.shape))
        self._is_padded = num_rows is not None
        self._num_clips = num_clips
        self._paths: list[str] = []
        self._frame_indices: list[NDArray[np.integer]] = []
        self._masks: list[MaskArray] = []
        self._delivered: list[int] = []
        self._failures: list[Failure] = []

    @property
    def next_row(self) -> FrameArray:
        """The (T, H, W, C) that the next delivered clip fills; to be written in place, then told by `add`.

        Raises:
            ValueError: If the batch is complete already.
        """
        if len(self._delivered) + len(self._failures) == self._num_clips:
            raise ValueError(f"the batch has its {self._num_clips} clips already")
        row: FrameArray = self._frames[len(self._delivered)]
        return row

    def add(self, path: str, frame_indices: NDArray[np.integer], mask: MaskArray) -> None:
        """Say that `next_row` has been filled.

        Args:
            path: The video.
            frame_indices: (T,) which of its frames these are.
            mask: (T,) bool, False where a frame repeats another.
        """
        self._delivered.append(len(self._delivered) + len(self._failures))
        self._paths.append(path)
        self._frame_indices.append(frame_indices)
        self._masks.append(mask)

    @staged("assemble")
    def put(self, made: Clip | Failure) -> None:
        """Take the next clip in; its frames are copied, and need not be kept.

        Raises:
            ValueError: If the batch is complete already, or the clip is not of the spec's shape.
        """
        row = self.next_row
        if isinstance(made, Failure):
            self._failures.append(made)
            return
        if made.frames.shape != row.shape:
            raise ValueError(f"{made.plan.record.path}: a clip of shape {made.frames.shape}, expected {row.shape}")
        np.copyto(row, made.frames, casting="no")
        self.add(made.plan.record.path, made.plan.frame_indices, made.plan.mask)

    @staged("assemble")
    def finish(
        self, *, epoch: int, number: int, labels: Labels | None = None, weights: NDArray[np.float32] | None = None
    ) -> Batch:
        """Give the batch.

        Args:
            epoch: The epoch, from 0.
            number: The batch's number in the epoch, from 0.
            labels: (num_clips,) int32 or (num_clips, C) float32, one for each clip put in, delivered or not; or None.
            weights: (num_clips,) float32, one for each clip put in; None for 1.

        Returns:
            A batch whose rows stand in the order of the clips. Every clip failed: no rows, or only padding.

        Raises:
            ValueError: If clips are missing, or there are not as many labels or weights as clips.
        """
        if len(self._delivered) + len(self._failures) != self._num_clips:
            raise ValueError(f"{len(self._delivered) + len(self._failures)} clips of {self._num_clips} were put in")
        for name, values in (("labels", labels), ("weights", weights)):
            if values is not None and len(values) != self._num_clips:
                raise ValueError(f"{len(values)} {name} for {self._num_clips} clips")
        num_delivered = len(self._delivered)
        num_rows = len(self._frames) if self._is_padded else num_delivered
        self._frames[num_delivered:] = 0
        delivered = np.array(self._delivered, np.int64)
        given = np.ones(self._num_clips, np.float32) if weights is None else weights
        no_frames = np.zeros((0, self._frames.shape[1]), np.int64)
        return Batch(
            epoch=epoch,
            number=number,
            clips=self._frames[:num_rows],
            labels=None if labels is None else _padded(labels[delivered], num_rows),
            weights=_padded(given[delivered].astype(np.float32, copy=False), num_rows),
            paths=(*self._paths, *[""] * (num_rows - num_delivered)),
            frame_indices=_padded(np.array(self._frame_indices or no_frames, np.int64), num_rows),
            mask=_padded(np.array(self._masks or no_frames, np.bool_), num_rows),
            failures=tuple(self._failures),
        )


def _padded(values: NDArray[Any], num_rows: int) -> NDArray[Any]:
    """Values with rows of zeros behind them."""
    padding = np.zeros((num_rows - len(values), *values.shape[1:]), values.dtype)
    return np.concatenate([values, padding]) if len(padding) else values
