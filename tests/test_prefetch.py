from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest

from clipfeed import prefetch
from clipfeed.prefetch import cgroup_cores, run_ahead, thread_count, usable_cores

PATIENCE = 30  # seconds until a test that hangs gives up


def our_threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("clipfeed"))


def double(number: int) -> int:
    return 2 * number


def doubles(count: int, *, workers: int = 2, max_ahead: int = 4) -> Generator[int]:
    """A generator over a run, as a dataset's iterator is."""
    with run_ahead(double, range(count), workers=workers, max_ahead=max_ahead) as results:
        yield from results


class Gate:
    """A job that waits until a test lets it go, and says which numbers were begun."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._changed = threading.Condition()
        self._open: set[int] = set()

    def __call__(self, number: int) -> int:
        with self._changed:
            self.begun.append(number)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: number in self._open, PATIENCE)
        return number

    def open(self, *numbers: int) -> None:
        with self._changed:
            self._open.update(numbers)
            self._changed.notify_all()

    def wait_for_begun(self, count: int) -> list[int]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, PATIENCE)
            return sorted(self.begun)


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one core."""
    monkeypatch.setattr(prefetch, "usable_cores", lambda: 1)


# Results


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
@pytest.mark.parametrize("max_ahead", [1, 3, 100])
def test_results_come_in_the_order_of_the_numbers(workers: int, max_ahead: int) -> None:
    numbers = [5, 3, 8, 3, 1, 0, 9] * 6
    with run_ahead(double, numbers, workers=workers, max_ahead=max_ahead) as results:
        assert list(results) == [2 * number for number in numbers]
    assert our_threads() == []


def test_a_later_result_that_is_ready_waits_for_the_earlier_one() -> None:
    gate = Gate()
    with run_ahead(gate, range(2), workers=2, max_ahead=2) as results:
        gate.open(1)
        threading.Timer(0, lambda: (gate.wait_for_begun(2), gate.open(0))).start()
        assert list(results) == [0, 1]


def test_no_numbers_make_no_results_and_no_threads() -> None:
    assert list(doubles(0)) == []
    assert our_threads() == []


@pytest.mark.parametrize(("workers", "max_ahead"), [(-1, 1), (1, 0), (0, 0)])
def test_numbers_of_workers_and_results_that_cannot_be_are_refused(workers: int, max_ahead: int) -> None:
    with (
        pytest.raises(ValueError, match=f"workers={workers}, max_ahead={max_ahead}"),
        run_ahead(double, range(3), workers=workers, max_ahead=max_ahead),
    ):
        pass


# How far ahead


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_at_most_max_ahead_results_are_made_or_waiting(workers: int) -> None:
    outstanding, most = 0, 0
    lock = threading.Lock()

    def make(number: int) -> int:
        nonlocal outstanding, most
        with lock:
            outstanding += 1
            most = max(most, outstanding)
        return number

    with run_ahead(make, range(60), workers=workers, max_ahead=3) as results:
        for _ in results:
            with lock:
                outstanding -= 1
    assert most <= 3 + 1, "the result just handed out is no longer counted as ahead"


def test_one_worker_runs_ahead_while_the_caller_is_busy_with_a_result() -> None:
    begun = threading.Semaphore(0)

    def make(number: int) -> int:
        begun.release()
        return number

    with run_ahead(make, range(10), workers=1, max_ahead=3) as results:
        assert next(results) == 0
        for _ in range(4):
            assert begun.acquire(timeout=PATIENCE), "numbers 0 to 3 are made without a further pull"
        assert not begun.acquire(blocking=False)


def test_numbers_are_read_no_further_than_results_may_be_ahead() -> None:
    read: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    with run_ahead(double, numbers(), workers=2, max_ahead=5) as results:
        assert read == []
        next(results)
        assert len(read) == 6


def test_inline_work_is_done_when_its_result_is_asked_for_and_not_before() -> None:
    made: list[tuple[int, str]] = []
    with run_ahead(
        lambda number: made.append((number, threading.current_thread().name)), range(3), workers=0, max_ahead=9
    ) as results:
        next(results)
        assert made == [(0, "MainThread")]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_result_that_was_handed_out_is_kept_by_nobody_else(workers: int) -> None:
    with run_ahead(lambda number: Result(), range(20), workers=workers, max_ahead=4) as results:
        for _ in range(10):
            result = next(results)
            kept = weakref.ref(result)
            del result
            assert kept() is None


# Threads


def test_threads_are_ours_by_name_and_none_lives_before_the_first_pull_or_after_the_end() -> None:
    with run_ahead(double, range(100), workers=3, max_ahead=10) as results:
        assert our_threads() == []
        next(results)
        assert our_threads() == ["clipfeed-worker-0", "clipfeed-worker-1", "clipfeed-worker-2"]
        assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("clipfeed"))
    assert our_threads() == []


def test_no_more_threads_begin_than_there_are_results_to_make() -> None:
    with run_ahead(double, range(100), workers=8, max_ahead=2) as results:
        next(results)
        assert our_threads() == ["clipfeed-worker-0", "clipfeed-worker-1"]


def test_the_last_result_ends_the_threads_without_leaving_the_with_block() -> None:
    with run_ahead(double, range(5), workers=2, max_ahead=2) as results:
        list(results)
        assert our_threads() == []


def test_an_early_break_leaves_no_thread_200_times_B2() -> None:
    for _ in range(200):
        for result in doubles(1000):
            if result >= 4:
                break
        assert our_threads() == []


def test_a_dropped_iterator_leaves_no_thread() -> None:
    results = doubles(1000)
    assert next(results) == 0
    del results
    assert our_threads() == []


def test_an_exception_in_the_callers_loop_leaves_no_thread() -> None:
    def consume() -> None:
        for result in doubles(1000):
            if result == 6:
                raise KeyError(result)

    with pytest.raises(KeyError):
        consume()
    assert our_threads() == []


def test_a_dropped_iterator_in_a_cycle_ends_with_the_cycle() -> None:
    class Holder:
        pass

    holder = Holder()
    holder.myself, holder.results = holder, doubles(1000)
    next(holder.results)
    assert our_threads() != []
    del holder
    gc.collect()
    assert our_threads() == []


def test_results_after_the_end_of_the_run_are_refused_not_awaited() -> None:
    with run_ahead(double, range(10), workers=2, max_ahead=2) as results:
        next(results)
    assert list(results) == []


# Exceptions


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_an_exception_comes_out_in_the_place_of_its_result(workers: int) -> None:
    def fail_at_3(number: int) -> int:
        if number == 3:
            raise ValueError("number 3")
        return number

    seen: list[int] = []
    with (
        pytest.raises(ValueError, match="number 3") as caught,
        run_ahead(fail_at_3, range(100), workers=workers, max_ahead=8) as results,
    ):
        seen.extend(results)
    assert our_threads() == []
    assert any(entry.name == "fail_at_3" for entry in caught.traceback)
    with run_ahead(fail_at_3, range(100), workers=workers, max_ahead=8) as results:
        for number in range(3):
            assert next(results) == number
        with pytest.raises(ValueError, match="number 3"):
            next(results)
        assert our_threads() == [], "the run is over, even inside the with block"


def test_jobs_behind_an_exception_are_not_begun() -> None:
    begun: list[int] = []

    def fail_first(number: int) -> int:
        begun.append(number)
        raise RuntimeError

    with pytest.raises(RuntimeError), run_ahead(fail_first, range(1000), workers=1, max_ahead=500) as results:
        next(results)
    assert len(begun) < 500


def test_an_exception_of_the_numbers_ends_the_run() -> None:
    def numbers() -> Iterator[int]:
        yield 0
        raise OSError("numbers are gone")

    with (
        pytest.raises(OSError, match="numbers are gone"),
        run_ahead(double, numbers(), workers=2, max_ahead=1) as results,
    ):
        list(results)
    assert our_threads() == []


def test_a_system_exit_in_a_job_reaches_the_caller() -> None:
    def leave(number: int) -> int:
        raise SystemExit(number)

    with pytest.raises(SystemExit), run_ahead(leave, range(3), workers=2, max_ahead=2) as results:
        list(results)


class Result:
    """Something that can be watched."""


def test_an_exception_and_all_results_are_freed_without_the_collector() -> None:
    kept: list[weakref.ref[Result]] = []

    def make(number: int) -> Result:
        result = Result()
        kept.append(weakref.ref(result))
        if number == 2:
            raise ValueError
        return result

    gc.collect()
    gc.disable()
    try:
        with run_ahead(make, range(50), workers=2, max_ahead=6) as results, contextlib.suppress(ValueError):
            list(results)
        assert [reference() for reference in kept if reference() is not None] == []
    finally:
        gc.enable()


def test_an_exception_that_is_kept_keeps_no_results() -> None:
    made: dict[int, weakref.ref[Result]] = {}
    later_ones_are_made = threading.Event()

    def make(number: int) -> Result:
        if number == 2:
            later_ones_are_made.wait(PATIENCE)
            raise ValueError("number 2")
        result = Result()
        made[number] = weakref.ref(result)
        if number == 10:
            later_ones_are_made.set()
        return result

    def consume() -> None:
        with run_ahead(make, range(50), workers=2, max_ahead=20) as results:
            for result in results:
                del result

    with pytest.raises(ValueError, match="number 2") as kept:
        consume()
    assert kept.value.__traceback__ is not None
    assert [number for number, reference in made.items() if reference() is not None] == []


def test_a_run_that_the_collector_ends_inside_our_own_lock_does_not_wait() -> None:
    results = doubles(1000)
    next(results)
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("clipfeed")]
    with prefetch._turns()._locked():
        del results
    for worker in workers:
        worker.join(PATIENCE)
    assert our_threads() == []


def test_ctrl_c_while_waiting_leaves_no_thread() -> None:
    gate = Gate()

    def interrupt() -> None:
        gate.wait_for_begun(2)
        os.kill(os.getpid(), signal.SIGINT)
        gate.open(*range(100))

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt), run_ahead(gate, range(100), workers=2, max_ahead=4) as results:
        list(results)
    sender.join()
    assert our_threads() == []
    assert list(doubles(3)) == [0, 2, 4], "the next run works"


def test_ctrl_c_while_a_thread_starts_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "clipfeed-worker-1":
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), run_ahead(double, range(100), workers=3, max_ahead=4) as results:
        list(results)
    assert our_threads() == []


def test_ctrl_c_inside_a_threads_start_that_surfaces_as_another_error_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C in `Condition.wait` of `Thread.start` becomes RuntimeError("cannot release un-acquired lock")."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "clipfeed-worker-1":
            raise RuntimeError("cannot release un-acquired lock")

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    results = doubles(100, workers=3)

    def pull() -> None:
        with contextlib.suppress(RuntimeError):
            next(results)

    puller = threading.Thread(target=pull, daemon=True)
    puller.start()
    puller.join(PATIENCE)
    assert not puller.is_alive(), "the run waits for a thread that nobody told to end"
    assert our_threads() == []


@pytest.mark.parametrize("interrupted", ["set", "open", "close"])
def test_ctrl_c_inside_the_opening_or_closing_of_a_run_leaves_no_thread_and_no_run(
    monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    holder = threading.Event if interrupted == "set" else prefetch._Turns
    whole = getattr(holder, interrupted)

    def cut_short(self: object, *arguments: object) -> None:
        monkeypatch.undo()
        if interrupted == "open":
            whole(self, *arguments)
        raise KeyboardInterrupt

    results = doubles(100)
    if interrupted != "open":
        next(results)
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("clipfeed")]
    monkeypatch.setattr(holder, interrupted, cut_short)
    with pytest.raises(KeyboardInterrupt):
        next(results) if interrupted == "open" else results.close()
    for worker in workers:
        worker.join(PATIENCE)
    gc.collect()
    assert our_threads() == []
    assert dict(prefetch._turns()._wanted) == {}
    assert list(doubles(3)) == [0, 2, 4], "the next run works"


def test_a_thread_that_the_system_refuses_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "clipfeed-worker-1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    monkeypatch.setattr(prefetch, "_START_SECONDS", 10 * PATIENCE)  # nobody waits for the one that never begins
    with (
        pytest.raises(RuntimeError, match="can't start new thread"),
        run_ahead(double, range(100), workers=3, max_ahead=4) as results,
    ):
        list(results)
    assert our_threads() == []


# One limit for the process


class Counter:
    """A job that counts how many of its kind are at work at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self, number: int) -> int:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        for _ in range(2000):  # long enough for other threads to come in
            pass
        with self.lock:
            self.now -= 1
        return number


def pull_together(job: Counter, workers: list[int]) -> None:
    def pull(count: int) -> None:
        with run_ahead(job, range(40), workers=count, max_ahead=8) as results:
            assert list(results) == list(range(40))

    threads = [threading.Thread(target=pull, args=(count,)) for count in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize(("workers", "limit"), [([1, 1, 1, 1], 1), ([3, 1, 1], 3), ([2, 2], 2)])
def test_all_runs_of_the_process_share_one_number_of_threads_at_work_B7(workers: list[int], limit: int) -> None:
    job = Counter()
    pull_together(job, workers)
    assert job.most <= limit


@pytest.mark.usefixtures("one_core")
def test_a_caller_that_stops_pulling_holds_no_turn() -> None:
    with run_ahead(double, range(100), workers=1, max_ahead=3) as stalled:
        next(stalled)
        for _ in range(3):
            assert list(doubles(50, workers=1)) == [2 * number for number in range(50)]
        assert list(stalled) == [2 * number for number in range(1, 100)]


@pytest.mark.usefixtures("one_core")
def test_two_runs_pulled_in_turn_both_go_on() -> None:
    both = zip(doubles(200, workers=1), doubles(200, workers=1), strict=True)
    assert [first == second for first, second in both] == [True] * 200
    assert our_threads() == []


@pytest.mark.usefixtures("one_core")
def test_a_run_inside_a_job_works_inline_and_cannot_wait_for_itself() -> None:
    names: set[str] = set()

    def inner(number: int) -> int:
        names.add(threading.current_thread().name)
        return number

    def outer(number: int) -> int:
        with run_ahead(inner, range(number), workers=4, max_ahead=4) as results:
            return sum(results)

    with run_ahead(outer, range(20), workers=1, max_ahead=4) as results:
        assert list(results) == [sum(range(number)) for number in range(20)]
    assert names == {"clipfeed-worker-0"}


@pytest.mark.usefixtures("one_core")
def test_a_run_inside_the_loop_over_another_run_goes_on() -> None:
    for outer in doubles(10, workers=1):
        assert list(doubles(outer, workers=1)) == [2 * number for number in range(outer)]


def wait_for_waiting(count: int) -> None:
    """Until so many workers of the process wait for their turn."""
    while len(prefetch._turns()._waiting) < count:
        pass


@pytest.mark.usefixtures("one_core")
def test_turns_go_round_first_come_first_served() -> None:
    """One turn for two runs: a long one cannot keep a short one waiting for more than the job that is at work."""
    finished: list[str] = []
    gate = Gate()

    def long_job(number: int) -> None:
        gate(number)
        finished.append("long")

    with (
        run_ahead(long_job, range(50), workers=1, max_ahead=50) as long,
        run_ahead(lambda number: finished.append("short"), range(3), workers=1, max_ahead=3) as short,
    ):
        pullers = [threading.Thread(target=lambda: next(long)), threading.Thread(target=lambda: list(short))]
        pullers[0].start()
        gate.wait_for_begun(1)
        pullers[1].start()
        wait_for_waiting(1)
        gate.open(*range(50))
        for puller in pullers:
            puller.join(PATIENCE)
            assert not puller.is_alive()
    assert finished[:2] == ["long", "short"]


@pytest.mark.usefixtures("one_core")
def test_closing_does_not_wait_for_turns_that_others_hold() -> None:
    gate = Gate()
    with run_ahead(gate, range(100, 105), workers=1, max_ahead=1) as other:
        holder = threading.Thread(target=lambda: next(other))

        def let_the_other_run_be_next() -> None:
            gate.wait_for_begun(1)
            holder.start()
            wait_for_waiting(1)
            gate.open(0)

        helper = threading.Thread(target=let_the_other_run_be_next)
        helper.start()
        with run_ahead(gate, range(5), workers=1, max_ahead=5) as results:
            assert next(results) == 0
            assert gate.wait_for_begun(2) == [0, 100]
            wait_for_waiting(1)
        assert len(our_threads()) == 1, "the closed run's worker is gone, though the other still holds the only turn"
        assert gate.begun == [0, 100]
        gate.open(*range(100, 105))
        for thread in (helper, holder):
            thread.join(PATIENCE)
            assert not thread.is_alive()


# The process's end


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)


RESULTS = """
import atexit, os, threading, warnings
from clipfeed import prefetch

def job(number):
    return number + 0 * sum(range(2000))

def results():
    with prefetch.run_ahead(job, range(1000), workers=2, max_ahead=50) as made:
        yield from made
"""


def test_an_iterator_left_open_is_closed_before_the_interpreter_ends() -> None:
    done = run_script(
        f"""{RESULTS}
atexit.register(lambda: print([thread.name for thread in threading.enumerate()]))
left_open = results()
next(left_open)
print(len(threading.enumerate()))
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n['MainThread']\n", "")


def test_nothing_of_a_finished_run_is_kept() -> None:
    assert next(doubles(100)) == 0
    assert len(list(doubles(10))) == 10
    assert [thing for thing in gc.get_objects() if isinstance(thing, prefetch._Crew)] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_runs_ahead_by_itself_and_may_drop_what_it_inherited_R8() -> None:
    """The fork comes while another thread holds our lock, which nobody in the child will ever release."""
    done = run_script(
        f"""{RESULTS}
warnings.simplefilter("ignore")  # of a fork with threads
inherited = results()
next(inherited)
holds, may_go_on = threading.Event(), threading.Event()

def hold_the_lock():
    with prefetch._turns()._locked():
        holds.set()
        may_go_on.wait()

holder = threading.Thread(target=hold_the_lock)
holder.start()
holds.wait()
child = os.fork()
if not child:
    inherited.close()
    os._exit(0 if list(results()) == list(range(1000)) else 3)
may_go_on.set()
holder.join()
status = os.waitpid(child, 0)[1]
print(os.waitstatus_to_exitcode(status), len(list(inherited)))
"""
    )
    assert (done.stdout, done.stderr) == ("0 999\n", "")


# Cores


def test_usable_cores_are_no_more_than_the_process_may_run_on() -> None:
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "350000 100000\n"}, 3),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {}, None),
        ("", {"cpu.max": "200000 100000\n"}, None),
        ("0::/pod/box\n", {"pod/cpu.max": "300000 100000\n", "pod/box/cpu.max": "max 100000\n"}, 3),
        ("0::/pod/box\n", {"pod/cpu.max": "300000 100000\n", "pod/box/cpu.max": "400000 100000\n"}, 3),
        ("0::/not/mounted/here\n", {"cpu.max": "400000 100000\n"}, 4),
        ("4:cpu,cpuacct:/box\n", {"cpu/box/cpu.cfs_quota_us": "150000\n", "cpu/box/cpu.cfs_period_us": "50000\n"}, 3),
        ("4:cpu,cpuacct:/box\n", {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ("4:cpu:/box\n", {"cpu/box/cpu.cfs_quota_us": "-1\n", "cpu/box/cpu.cfs_period_us": "100000\n"}, None),
        ("3:memory:/box\n", {"cpu/box/cpu.cfs_quota_us": "100000\n", "cpu/box/cpu.cfs_period_us": "100000\n"}, None),
        ("0::/\n", {"cpu.max": "nonsense\n"}, None),
        ("0::/\n", {"cpu.max": "100000 0\n"}, None),
    ],
)
def test_control_groups_limit_cores(tmp_path: Path, membership: str, files: dict[str, str], cores: int | None) -> None:
    hierarchy = write(tmp_path / "cgroup", files)
    hierarchy.mkdir(exist_ok=True)
    (tmp_path / "membership").write_text(membership)
    assert cgroup_cores(tmp_path / "membership", hierarchy) == cores


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert cgroup_cores(tmp_path / "none", tmp_path) is None


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, float("nan"), "2", [2]])
def test_what_is_no_number_of_threads_is_refused(workers: object) -> None:
    with pytest.raises(ValueError, match=r"workers=.*: expected a whole number of at least 1, or None"):
        thread_count(workers)


def test_numbers_of_threads_may_come_from_numpy_and_none_is_the_usable_cores() -> None:
    assert thread_count(np.int64(3)) == 3
    assert thread_count(None) == usable_cores()
