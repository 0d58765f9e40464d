"""Numbered jobs made ahead of need, in order, inside a budget.

    numbers   0 1 2 3 4 5 6 7 ...
              └─┘ └─────┘ └──── not begun
        handed out   max_ahead: being made, or made and waiting

Threads begin with the first result that is asked for and are gone when the run ends, whether by its end, an exception,
an early `break` or Ctrl-C. All runs of the process share one number of threads at work. Nothing here knows what a job
makes; videos, batches and frameworks are other modules' business.

Ctrl-C raises between any two bytecodes of the main thread, also inside `threading.Condition` and all that is built on
it (`Event`, `Future`, `Queue`), which may then stay locked. The calling thread therefore waits for results in
`SimpleQueue` and takes locks by their own `with`, both of which are C; threads end by a message that needs no Python.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from numbers import Integral
from pathlib import Path
from queue import SimpleQueue
from typing import Generic, TypeVar

__all__ = ["cgroup_cores", "run_ahead", "thread_count", "usable_cores"]

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
    ahead: deque[_Promise[T]] = deque()
    owner = _Owner()
    crew = _Crew(job, min(workers, max_ahead), owner)
    # Called here, or when this frame goes, should Ctrl-C come before that, or at the interpreter's end, where threads
    # at work would be cut off in mid-decode.
    close = weakref.finalize(owner, crew.close)
    try:
        while True:
            ahead.extend(map(crew.submit, islice(remaining, max_ahead - len(ahead))))
            if not ahead:
                return
            made = [ahead.popleft().take()]
            ahead.extend(map(crew.submit, islice(remaining, max_ahead - len(ahead))))
            yield made.pop()  # not kept by this frame while the caller works with it
    finally:
        ahead.clear()
        close()


class _Owner:
    """What a run's frame holds and its threads do not: once it is gone, nobody asks for results any more."""

    __slots__ = ("__weakref__",)


class _Promise(Generic[T]):
    """A result to be made in another thread, for one taker."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: SimpleQueue[tuple[list[T], BaseException | None]] = SimpleQueue()

    def keep(self, result: T) -> None:
        """Give the result."""
        self._answers.put(([result], None))

    def fail(self, error: BaseException) -> None:
        """Give an error in its place."""
        self._answers.put(([], error))

    def take(self) -> T:
        """Wait for the result, or raise the error."""
        results, error = self._answers.get()
        if error is None:
            return results[0]
        try:
            raise error
        finally:
            del error, self  # else the error's traceback would hold the error


# How long a thread may take to begin before it counts as one that never will, since Ctrl-C came while it was asked for.
_START_SECONDS = 5.0


class _Crew(Generic[T]):
    """The threads of one run and what they have to do."""

    def __init__(self, job: Callable[[int], T], workers: int, owner: _Owner) -> None:
        self._job = job
        self._workers = workers
        self._tasks: SimpleQueue[tuple[_Promise[T], int] | weakref.ref[_Owner] | None] = SimpleQueue()
        self._threads: list[tuple[threading.Thread, threading.Event]] = []
        self._stopped = threading.Event()
        self._is_closed = False
        self._turns = _turns()
        # Should Ctrl-C keep `close` from being called or from doing its work, the threads end with the run's frame.
        self._end = weakref.ref(owner, self._tasks.put)
        self._turns.open(self, workers)

    def submit(self, number: int) -> _Promise[T]:
        """Have a result made; starts a thread if there are fewer than workers. Cancelled once the crew is closed."""
        promise: _Promise[T] = _Promise()
        if self._stopped.is_set():
            promise.fail(CancelledError())
            return promise
        self._tasks.put((promise, number))
        if len(self._threads) < self._workers:
            begun = threading.Event()
            name = f"clipfeed-worker-{len(self._threads)}"
            thread = threading.Thread(target=self._work, args=(begun,), name=name, daemon=True)
            self._threads.append((thread, begun))  # before it starts: Ctrl-C may come while it does
            thread.start()
        return promise

    def close(self) -> None:
        """Begin no further job, wait for those at work, end the threads."""
        if self._is_closed or self._turns.pid != os.getpid():  # a forked child has none of these threads
            return
        self._tasks.put(None)  # first, so that no later Ctrl-C leaves a thread behind
        self._stopped.set()
        self._turns.close(self)
        # The garbage collector may call this anywhere, even where we would wait for ourselves; the threads end alike.
        if not self._turns.is_mine():
            for thread, begun in self._threads:
                if thread is not threading.current_thread() and _may_run(thread) and begun.wait(_START_SECONDS):
                    thread.join()
        self._is_closed = True

    def _work(self, begun: threading.Event) -> None:
        begun.set()
        while True:
            task = self._tasks.get()
            if not isinstance(task, tuple):
                self._tasks.put(task)  # for the next thread: one message ends them all
                return
            with self._turns.taken(self._stopped) as is_ours:
                if is_ours:
                    self._carry_out(*task)
                else:
                    task[0].fail(CancelledError())  # somebody in another thread may wait for it
            del task  # an idle worker must not keep a result alive

    def _carry_out(self, promise: _Promise[T], number: int) -> None:
        try:
            promise.keep(self._job(number))
        except BaseException as error:  # carried home: whoever asks for this result gets the error in its place
            promise.fail(error)
            del promise  # else the error's traceback would hold the promise that holds the error


def _may_run(thread: threading.Thread) -> bool:
    """Tell whether a thread runs or is about to: one that ended, or that was refused or interrupted, never will."""
    return thread in threading.enumerate()


class _Depth(threading.local):
    depth = 0


class _Turns:
    """How many jobs of this process are at work at once, and whose turn it is: first come, first served."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # workers alone enter and wait by it
        self._waiting: deque[object] = deque()
        self._num_at_work = 0
        self._cores = 1
        self._wanted: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self._mine = _Depth()

    def is_mine(self) -> bool:
        """Tell whether the calling thread is inside a job, or inside this very object."""
        return self._mine.depth > 0

    def open(self, run: object, workers: int) -> None:
        """A run with so many workers begins."""
        cores = usable_cores()

        def begin() -> None:
            self._cores = cores
            self._wanted[run] = workers

        self._change(begin)

    def close(self, run: object) -> None:
        """A run ends; its waiting workers wake up."""
        self._change(lambda: self._wanted.pop(run, None))

    def _change(self, change: Callable[[], object]) -> None:
        """Change something from a thread that Ctrl-C may interrupt: the lock is given back at any point."""
        with self._lock:
            self._mine.depth += 1
            try:
                change()
                self._changed.notify_all()
            finally:
                self._mine.depth -= 1

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


def thread_count(workers: int | None) -> int:
    """Give the number of threads that a user's `workers` asks for: the usable cores for None.

    Raises:
        ValueError: For anything but None or a whole number of at least 1.
    """
    if workers is None:
        return usable_cores()
    if not isinstance(workers, Integral) or isinstance(workers, bool) or workers < 1:
        raise ValueError(f"workers={workers!r}: expected a whole number of at least 1, or None for the usable cores")
    return int(workers)


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
