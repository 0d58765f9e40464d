"""A dataset whose pixels carry their epoch, batch and row: it has the surface of a VideoDataset and decodes nothing.

Channel 0 of every pixel is the batch's number (plus an offset), channel 1 the epoch (0 in evaluation, which knows
none), channel 2 the row; labels are given by a function of number and epoch.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from clipfeed.ledger import Ledger
from clipfeed.prefetch import run_ahead
from clipfeed.records import Batch, ClipSpec

NUM_CODES = 2000


def code_of(epoch: int, number: int) -> int:
    """What identifies a batch among those of the first 40 epochs."""
    return epoch * 50 + number


@dataclass
class NumberedIndex:
    labels: np.ndarray | None
    weights: np.ndarray | None = None


@dataclass(eq=False)
class NumberedDataset:
    """`num_batches` batches of `batch_size` clips of 2 frames of 4 x 4 pixels; the last batch has one row less."""

    num_batches: int = 5
    batch_size: int | None = 3
    training: bool = True
    offset: int = 0
    pad_last: bool = False
    class_names: tuple[str, ...] | None = None
    labels: np.ndarray | None = None  # one an example; None: by `label_of`
    weights: np.ndarray | None = None
    is_labelled: bool = True
    label_of: Callable[[int, int], int] = code_of
    spec: ClipSpec = field(default_factory=lambda: ClipSpec(num_frames=2, image_size=(4, 4)))
    workers: int = 2
    memory_budget: int = 10**6
    decoding_bytes: int = 0
    rounds: int = 0  # of work on each batch, 10,000 take about 5 ms, most of it without the interpreter's lock
    broken: tuple[int, int] | None = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        rows = self.num_batches * (self.batch_size or 1) - (0 if self.batch_size is None else 1)
        if self.labels is None and self.is_labelled:
            size = self.batch_size or 1
            self.labels = np.array([self.label_of(0, row // size + self.offset) for row in range(rows)], np.int32)
            self._is_fixed = False
        else:
            self._is_fixed = True
        self.num_examples = rows
        self.index = NumberedIndex(self.labels, self.weights)
        self.file_paths = [f"data/{row}.avi" for row in range(rows)]
        self.ledger = Ledger(rows)
        self.calls: list[tuple[int, int, int | None]] = []
        self.runs: list[tuple[int, int]] = []
        self.num_handed_out = 0
        self.most_ahead = 0
        self._called = threading.Condition()

    def __len__(self) -> int:
        return self.num_batches

    @property
    def batch_bytes(self) -> int:
        return self.spec.num_bytes * (self.batch_size or 1)

    @property
    def is_weighted(self) -> bool:
        return self.pad_last or self.weights is not None

    def batch(self, epoch: int, number: int, *, workers: int | None = None) -> Batch:
        if not -len(self) <= number < len(self):
            raise IndexError(f"batch {number} of {len(self)}")
        with self._called:
            self.calls.append((epoch, number, workers))
            self.most_ahead = max(self.most_ahead, len(self.calls) - self.num_handed_out)
            self._called.notify_all()
        return self._make(epoch, number % len(self))

    def wait_for_calls(self, count: int) -> None:
        """Wait until `batch` was called so often."""
        with self._called:
            if not self._called.wait_for(lambda: len(self.calls) >= count, timeout=60):
                raise TimeoutError(f"{len(self.calls)} calls of batch after 60 s, expected {count}")

    def iter_epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        self.runs.append((epoch, start))
        with run_ahead(
            lambda number: self._make(epoch, number), range(start, len(self)), workers=2, max_ahead=3
        ) as batches:
            yield from batches

    def _make(self, epoch: int, number: int) -> Batch:
        if self.error is not None and self.broken == (epoch, number):
            raise self.error
        if self.rounds:
            hashlib.pbkdf2_hmac("sha256", b"batch", b"", self.rounds)
        size = self.batch_size or 1
        num_real = size - (self.batch_size is not None and number == len(self) - 1)
        num_rows = size if self.pad_last else num_real
        rows = number * size + np.arange(num_real)
        clips = np.zeros((num_rows, *self.spec.shape), np.uint8)
        clips[:num_real, ..., 0] = number + self.offset
        if self.spec.num_channels == 3:
            clips[:num_real, ..., 1] = epoch if self.training else 0
            clips[:num_real, ..., 2] = np.arange(num_real)[:, None, None, None]
        weights = np.zeros(num_rows, np.float32)
        weights[:num_real] = 1 if self.weights is None else self.weights[rows]
        return Batch(
            epoch=epoch,
            number=number,
            clips=clips,
            labels=self._labels(epoch, number, rows, num_rows),
            weights=weights,
            paths=tuple(self.file_paths[row] for row in rows) + ("",) * (num_rows - num_real),
            frame_indices=np.zeros((num_rows, self.spec.num_frames), np.int64),
            mask=np.ones((num_rows, self.spec.num_frames), bool),
        )

    def _labels(self, epoch: int, number: int, rows: np.ndarray, num_rows: int) -> np.ndarray | None:
        if self.labels is None:
            return None
        label = self.label_of(epoch if self.training else 0, number + self.offset)
        made = self.labels[rows] if self._is_fixed else np.full(len(rows), label, np.int32)
        return np.concatenate([made, np.zeros((num_rows - len(rows), *made.shape[1:]), made.dtype)])
