"""A progress bar for what takes longer than two seconds; nothing for what does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["track"]

_QUIET_SECONDS = 2.0


@contextmanager
def track(what: str, *, enabled: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Give a function to call with (done, total); a bar appears on stderr once two seconds have passed.

    Args:
        what: What is being done, such as "indexing".
        enabled: False: the function does nothing.
    """
    bar = _Bar(what)
    try:
        yield bar.update if enabled else _ignore
    finally:
        bar.close()


def _ignore(done: int, total: int) -> None:
    """Show nothing."""


class _Bar:
    """A rich progress bar that is made late."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._close: Callable[[], None] | None = None
        self._show: Callable[[int, int], None] | None = None

    def update(self, done: int, total: int) -> None:
        if self._show is None:
            if time.monotonic() - self._begun < _QUIET_SECONDS:
                return
            self._open()
        if self._show is not None:
            self._show(done, total)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        task = progress.add_task(self._what, total=None)
        progress.start()
        self._close = progress.stop
        self._show = lambda done, total: progress.update(task, completed=done, total=total)

    def close(self) -> None:
        if self._close is not None:
            self._close()
