"""Batches asked for by number, as Keras does, yet decoded ahead.

    fit asks for   4   0   2   1   3      numbers permuted by Keras, each once a pass
    and gets       0   1   2   3   4      batches of a training epoch in order, so that decoding ahead is never wrong

In training the order is ours already, so which of Keras's numbers meets which batch is free: the first question for a
number takes the next batch of the epoch and keeps it, however often and from whatever thread the number is asked for
again. A pass over all numbers therefore delivers every batch of the epoch exactly once. In evaluation number i is
batch i.

Keras-free and thread-safe; what a batch is made of is the dataset's business.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from typing import cast

from clipfeed.dataset import VideoDataset
from clipfeed.deliver.door import door_of
from clipfeed.deliver.epochs import EpochCounter
from clipfeed.errors import ClipfeedError
from clipfeed.records import Batch

__all__ = ["EpochFeed", "open_epoch"]


def open_epoch(ds: VideoDataset, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
    """Give the batches of an epoch from `start` on, decoded ahead until the generator ends or is closed."""
    return cast("Generator[Batch, None, None]", ds.iter_epoch(epoch, start=start))


class EpochFeed:
    """Hands out the batches of a dataset by number, pass after pass.

    A pass begins with `expect_pass`, between `begin` and `end`, and asks for every number. It belongs to one epoch: the
    next one begins only after all numbers were asked for, so a pass that is spread over several of Keras's epochs
    (`steps_per_epoch`), or broken off, or evaluated in between, or a look at the first batches for their shapes,
    changes nothing. Decoding ahead runs between `begin` and `end` only; at other times batches are made when they are
    asked for.

    Args:
        ds: Where batches come from.
        epochs: Says which epoch a new pass is.
    """

    def __init__(self, ds: VideoDataset, epochs: EpochCounter) -> None:
        self._ds = ds
        self._epochs = epochs
        self._lock = threading.Lock()
        self._door = door_of(self)
        self._epoch: int | None = None
        self._may_begin_pass = True
        self._asked: set[int] = set()  # numbers asked for in this pass
        self._batch_of: dict[int, int] = {}  # training: number asked for -> batch of the epoch
        self._is_running = False
        self._ahead: Generator[Batch, None, None] | None = None
        self._next_ahead = 0  # the batch that `_ahead` gives, or would give, next

    def expect_pass(self) -> None:
        """Note that the next question between `begin` and `end` may begin a new pass."""
        self._may_begin_pass = True

    def begin(self) -> None:
        """Allow decoding ahead from now on."""
        with self._lock:
            self._is_running = True

    def end(self) -> None:
        """Stop decoding ahead and give up what lies ready; no thread is left."""
        with self._lock:
            self._is_running = False
            self._stop()

    def take(self, number: int) -> Batch:
        """Give the batch for a number in [0, len(ds)).

        Raises:
            IndexError: If there is no such number.
            ClipfeedError: If the batch cannot be made; decoding ahead has stopped then.
        """
        if not -len(self._ds) <= number < len(self._ds):
            raise IndexError(f"batch {number} of {len(self._ds)}")
        with self._door.passed(), self._lock:
            epoch = self._begin_pass_if_due()
            asked = number % len(self._ds)
            self._asked.add(asked)
            wanted = self._batch_of.setdefault(asked, len(self._batch_of)) if self._ds.training else asked
            try:
                return self._make(epoch, wanted)
            except BaseException as error:
                self._stop()
                if isinstance(error, ClipfeedError):
                    self._ds.ledger.keep(error)  # on the TensorFlow backend only its message reaches the user
                raise

    def _begin_pass_if_due(self) -> int:
        """Give the epoch of the pass that the question at hand belongs to."""
        if self._epoch is not None and not (self._may_begin_pass and self._is_running):
            return self._epoch
        self._may_begin_pass = False
        is_complete = len(self._asked) == len(self._ds)
        self._asked.clear()
        if self._epoch is None or is_complete or self._epochs.is_set:
            before, self._epoch = self._epoch, self._epochs.draw()
            # An epoch begun and set again keeps what it promised: another pass over it may still be under way.
            if is_complete or before != self._epoch:
                self._batch_of.clear()
                self._rewind()
        if not self._ds.training:
            self._rewind()
        return self._epoch

    def _make(self, epoch: int, wanted: int) -> Batch:
        if not self._is_running or wanted != self._next_ahead:
            if wanted >= self._next_ahead:
                self._rewind(wanted + 1)
            return self._ds.batch(epoch, wanted)
        if self._ahead is None:
            self._ahead = open_epoch(self._ds, epoch, start=wanted)
        batch = next(self._ahead)
        self._next_ahead += 1
        if self._next_ahead == len(self._ds):
            self._stop()
        return batch

    def _rewind(self, start: int = 0) -> None:
        self._stop()
        self._next_ahead = start

    def _stop(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
