"""Which epoch comes next: a counter per adapter, and how `EpochSync` reaches the counters.

Nobody tells a dataset the epoch, so adapters count: each pass over a dataset is the next epoch. Where Keras pulls
batches that are no epoch, or starts at another one, `EpochSync` sets the number.
"""

from __future__ import annotations

import threading
import weakref

__all__ = ["EpochCounter", "live_counters"]


class EpochCounter:
    """Hands out epoch numbers, 0, 1, 2, ..., from any thread; may be set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._is_set = False
        with _live_lock:
            _live.add(self)

    @property
    def upcoming(self) -> int:
        """The epoch that the next draw gives."""
        return self._next

    @property
    def is_set(self) -> bool:
        """True from `set_next` until the next draw."""
        return self._is_set

    def draw(self) -> int:
        """Give the next epoch and count on."""
        with self._lock:
            epoch = self._next
            self._next = epoch + 1
            self._is_set = False
            return epoch

    def set_next(self, epoch: int) -> None:
        """Make the next draw give `epoch`, and the ones after it count on from there."""
        if epoch < 0:
            raise ValueError(f"epoch={epoch}: expected a whole number of at least 0")
        with self._lock:
            self._next = int(epoch)
            self._is_set = True


def live_counters() -> list[EpochCounter]:
    """Give the counters of all datasets that somebody still holds."""
    with _live_lock:
        return list(_live)


# The one list of this package that outlives a call: a Keras callback sees the model and never its data, so there is no
# other way from `EpochSync()` to the datasets of a `fit`. It holds nothing alive.
_live: weakref.WeakSet[EpochCounter] = weakref.WeakSet()
_live_lock = threading.Lock()
