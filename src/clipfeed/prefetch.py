"""Numbered jobs made ahead of need, in order, inside a budget.

    numbers   0 1 2 3 4 5 6 7 ...
              └─┘ └─────┘ └──── not begun
        handed out   max_ahead: being made, or made and waiting

Threads begin with the first result that is asked for and are gone when the run ends, whether by its end, an exception,
an early `break` or Ctrl-C. All runs of the process share one number of threads at work. Nothing here knows what a job
makes; videos, batches and frameworks are other modules' business.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["cgroup_cores", "parse_bytes", "run_ahead", "usable_cores"]

T = TypeVar("T")


# Running ahead


@contextmanager
def run_ahead(
    job: Callable[[int], T], numbers: Iterable[int], *, workers: int, max_ahead: int
) -> Iterator[Iterator[T]]:
    """Make `job(number)` for each number in threads, and give the results in the order of the numbers.

    A run that is opened inside a job of another run works inline: its results are made where they are asked for, so
    that jobs never wait for one another.

    Args:
        job: Makes one result; called from several threads at once.
        numbers: What to call it with. Read by the thread that asks for results, `max_ahead` numbers ahead.
        workers: Threads, named "clipfeed-worker-0" and so on; 0 makes each result in the calling thread when it is
            asked for. As many jobs as there are usable cores, or as the largest open run has workers, are at work at
            once in the whole process; others wait for their turn, first come, first served.
        max_ahead: Results being made, or made and waiting, at most; the one handed out last is not among them.

    Yields:
        An iterator over the results. An exception of a job comes out in the place of its result and ends the run.

    Raises:
        ValueError: If `workers` is negative or `max_ahead` below 1.

    Example:
        >>> with run_ahead(lambda number: number * number, range(4), workers=2, max_ahead=2) as squares:
        ...     list(squares)
        [0, 1, 4, 9]
    """
    if workers < 0 or max_ahead < 1:
        raise ValueError(f"workers={workers}, max_ahead={max_ahead}: expected at least 0 and 1")
    inline = workers == 0 or _turns().is_mine()
    results = _make_inline(job, numbers) if inline else _make_ahead(job, numbers, workers, max_ahead)
    try:
        yield results
    finally:
        results.close()


def _make_inline(job: Callable[[int], T], numbers: Iterable[int]) -> Generator[T]:
    for number in numbers:
        yield job(number)


def _make_ahead(job: Callable[[int], T], numbers: Iterable[int], workers: int, max_ahead: int) -> Generator[T]:
    remaining = iter(numbers)
    ahead: deque[Future[T]] = deque()
    crew = _Crew(job, min(workers, max_ahead))
    # Held until it is called: here, or at the interpreter's end, where threads at work would be cut off in mid-decode.
    close = weakref.finalize(crew, crew.close)
    try:
        while True:
            ahead.extend(map(crew.submit, islice(remaining, max_ahead - len(ahead))))
            if not ahead:
                return
            made = [ahead.popleft().result()]
            ahead.extend(map(crew.submit, islice(remaining, max_ahead - len(ahead))))
            yield made.pop()  # not kept by this frame while the caller works with it
    finally:
        ahead.clear()
        close()


# How long a thread may take to begin before it counts as one that never will, since Ctrl-C came while it was asked for.
_START_SECONDS = 5.0


class _Crew(Generic[T]):
    """The threads of one run and what they have to do."""

    def __init__(self, job: Callable[[int], T], workers: int) -> None:
        self._job = job
        self._workers = workers
        self._tasks: SimpleQueue[tuple[Future[T], int] | None] = SimpleQueue()
        self._threads: list[tuple[threading.Thread, threading.Event]] = []
        self._stopped = threading.Event()
        self._is_closed = False
        self._turns = _turns()
        self._turns.open(self, workers)

    def submit(self, number: int) -> Future[T]:
        """Have a result made; starts a thread if there are fewer than workers. Cancelled once the crew is closed."""
        future: Future[T] = Future()
        if self._stopped.is_set():
            future.cancel()
            return future
        self._tasks.put((future, number))
        if len(self._threads) < self._workers:
            begun = threading.Event()
            name = f"clipfeed-worker-{len(self._threads)}"
            thread = threading.Thread(target=self._work, args=(begun,), name=name, daemon=True)
            self._threads.append((thread, begun))  # before it starts: Ctrl-C may come while it does
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left: this one never begins
                self._threads.pop()
                raise
        return future

    def close(self) -> None:
        """Begin no further job, wait for those at work, end the threads."""
        if self._is_closed or self._turns.pid != os.getpid():  # a forked child has none of these threads
            return
        self._stopped.set()
        for _ in self._threads:
            self._tasks.put(None)
        self._turns.close(self)
        # The garbage collector may call this anywhere, even where we would wait for ourselves; the threads end alike.
        if not self._turns.is_mine():
            for thread, begun in self._threads:
                if thread is not threading.current_thread() and begun.wait(_START_SECONDS):
                    thread.join()
        self._is_closed = True

    def _work(self, begun: threading.Event) -> None:
        begun.set()
        while True:
            task = self._tasks.get()
            if task is None:
                return
            with self._turns.taken(self._stopped) as is_ours:
                if is_ours:
                    self._carry_out(*task)
                else:
                    task[0].cancel()  # somebody in another thread may wait for it
            del task  # an idle worker must not keep a result alive

    def _carry_out(self, future: Future[T], number: int) -> None:
        try:
            future.set_result(self._job(number))
        except BaseException as error:  # carried home: whoever asks for this result gets the error in its place
            future.set_exception(error)
            del future  # else the error's traceback would hold the future that holds the error


class _Depth(threading.local):
    depth = 0


class _Turns:
    """How many jobs of this process are at work at once, and whose turn it is: first come, first served."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._num_at_work = 0
        self._cores = 1
        self._wanted: dict[object, int] = {}
        self._mine = _Depth()

    def is_mine(self) -> bool:
        """Tell whether the calling thread is inside a job, or inside this very object."""
        return self._mine.depth > 0

    def open(self, run: object, workers: int) -> None:
        """A run with so many workers begins."""
        cores = usable_cores()
        with self._locked():
            self._cores = cores
            self._wanted[run] = workers

    def close(self, run: object) -> None:
        """A run ends; its waiting workers wake up."""
        with self._locked():
            self._wanted.pop(run, None)

    @contextmanager
    def taken(self, stopped: threading.Event) -> Iterator[bool]:
        """Hold a turn, waiting for it as long as need be; gives False, and no turn, once `stopped` is set."""
        is_ours = self._wait_for_turn(stopped)
        self._mine.depth += 1
        try:
            yield is_ours
        finally:
            self._mine.depth -= 1
            if is_ours:
                with self._locked():
                    self._num_at_work -= 1

    def _wait_for_turn(self, stopped: threading.Event) -> bool:
        ticket = object()
        with self._locked():
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: stopped.is_set() or self._is_next(ticket))
            finally:
                self._waiting.remove(ticket)
            is_ours = not stopped.is_set()
            self._num_at_work += is_ours
        return is_ours

    def _is_next(self, ticket: object) -> bool:
        return self._waiting[0] is ticket and self._num_at_work < max(self._cores, *self._wanted.values())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._mine.depth += 1
        try:
            with self._changed:
                yield
                self._changed.notify_all()
        finally:
            self._mine.depth -= 1


# One number of threads at work for the whole process is process-wide by nature; a forked child begins with its own.
_TURNS: dict[int, _Turns] = {}


def _turns() -> _Turns:
    return _TURNS.get(os.getpid()) or _TURNS.setdefault(os.getpid(), _Turns())


# Cores


def usable_cores() -> int:
    """Give the cores this process may keep busy: those it may run on, and no more than its control groups allow.

    Source: sched_getaffinity(2); Linux kernel, admin-guide/cgroup-v2 (cpu.max) and scheduler/sched-bwc (cgroup v1).
    """
    runnable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = cgroup_cores(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return runnable if allowed is None else min(runnable, allowed)


def cgroup_cores(membership: Path, hierarchy: Path) -> int | None:
    """Give the whole cores of processor time that control groups allow, at least 1; None without a limit.

    Args:
        membership: The file that says which groups a process is in, one line each: "id:controllers:/path".
        hierarchy: The folder under which groups are mounted; version 1 has a folder a controller below it.
    """
    quotas: list[Fraction] = []
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = hierarchy / "cpu" if controllers else hierarchy
        # Inside a container the path may lead nowhere: the mount itself is then the process's group.
        group = mount / path.strip("/")
        quotas += filter(None, map(_quota, [group, *group.parents][: len(group.relative_to(mount).parts) + 1]))
    return max(1, int(min(quotas))) if quotas else None


def _quota(group: Path) -> Fraction | None:
    """Cores by a group's own files: "quota period" in one file (version 2) or two (version 1); None without a limit."""
    words = _read(group / "cpu.max").split() or [
        *_read(group / "cpu.cfs_quota_us").split(),
        *_read(group / "cpu.cfs_period_us").split(),
    ]
    limited = len(words) == 2 and all(word.isdecimal() and int(word) > 0 for word in words)  # not "max", not -1
    return Fraction(int(words[0]), int(words[1])) if limited else None


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


# Bytes

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}


def parse_bytes(size: int | str) -> int:
    """Give a number of bytes: 512_000_000 or "512MB" (decimal: 1 MB = 10**6 bytes; 1 MiB = 2**20 bytes).

    Raises:
        ValueError: For what is not a positive number of bytes.
    """
    text = str(size).strip().lower().replace("_", "")
    number = text.rstrip("kmgtib ")
    try:
        num_bytes = Fraction(number) * _UNITS[text[len(number) :].strip()]
    except (ValueError, KeyError, ZeroDivisionError):
        num_bytes = Fraction(0)
    if isinstance(size, bool) or num_bytes < 1:
        raise ValueError(f'{size!r} is no number of bytes: expected a positive one, such as 512_000_000 or "512MB"')
    return int(num_bytes)
