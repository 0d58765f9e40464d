"""Calls that come in from a framework's threads, until the interpreter ends.

TensorFlow asks for batches from threads of its own. One that is inside Python when the interpreter is torn down never
comes back, and TensorFlow waits for it for ever: leaving a script in the midst of an epoch, by Ctrl-C say, would hang.
So the calls that are inside are waited for before that, and no new one is let in.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Door", "door_of"]

# A call that has left us still needs the interpreter for microseconds, to hand its arrays over. So many seconds without
# any call are taken as the end of it. Nothing measures whether the last call is over; 0.1 s is waited once, at exit.
_QUIET_SECONDS = 0.1


class Door:
    """Counts the calls inside; once closed it lets none in."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_inside = 0
        self._is_closed = False
        self._quiet_since = 0.0
        self._pid = os.getpid()

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Be inside for the time of a call.

        Raises:
            RuntimeError: If the interpreter is ending.
        """
        with self._changed:
            self._quiet_since = time.monotonic()
            if self._is_closed:
                raise RuntimeError("the interpreter is ending: no more batches are made")
            self._num_inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_inside -= 1
                self._quiet_since = time.monotonic()
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait until those inside have left."""
        if self._pid != os.getpid():  # a forked child has none of the threads that were inside
            return
        with self._changed:
            self._is_closed = True
            while self._num_inside or self._seconds_to_quiet() > 0:
                self._changed.wait(None if self._num_inside else self._seconds_to_quiet())

    def _seconds_to_quiet(self) -> float:
        return self._quiet_since + _QUIET_SECONDS - time.monotonic()


def door_of(owner: object) -> Door:
    """Give a door that closes when the interpreter ends, and is forgotten when its owner is."""
    door = Door()
    weakref.finalize(owner, atexit.unregister, door.close).atexit = False
    # Registered after the finalizer, so run before all finalizers: a call inside may wait for threads that these end.
    atexit.register(door.close)
    return door
