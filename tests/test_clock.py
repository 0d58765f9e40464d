"""The clock of the stages: exclusive, complete, off by default, and for one thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from clipfeed import clock as clock_module
from clipfeed.clock import STAGES, Stage, measured_stages, staged, staged_iterable


class Ticks:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    ticks = Ticks()
    monkeypatch.setattr(clock_module, "time", ticks)
    return ticks


def wait(ticks: Ticks, seconds: float, stage: Stage) -> None:
    def work() -> None:
        ticks.now += seconds

    staged(stage)(work)()


def test_each_stage_gets_its_own_time_and_the_rest_what_is_left(ticks: Ticks) -> None:
    with measured_stages() as clock:
        ticks.now += 1
        wait(ticks, 10, "decode")
        wait(ticks, 100, "open")
        ticks.now += 2
        wait(ticks, 20, "decode")
        ticks.now += 4
    assert clock.seconds["decode"] == 30
    assert clock.seconds["open"] == 100
    assert clock.seconds["rest"] == 7
    assert clock.total_seconds == 137


def test_a_stage_inside_another_is_not_counted_twice(ticks: Ticks) -> None:
    @staged("assemble")
    def outer() -> None:
        ticks.now += 1
        wait(ticks, 10, "convert")
        ticks.now += 2

    with measured_stages() as clock:
        outer()
    assert clock.seconds["assemble"] == 3
    assert clock.seconds["convert"] == 10
    assert clock.total_seconds == 13


def test_an_iterator_is_charged_for_making_elements_and_not_for_what_is_done_with_them(ticks: Ticks) -> None:
    def elements() -> Iterator[int]:
        for number in range(3):
            ticks.now += 1
            yield number
        ticks.now += 5  # the end takes time too

    with measured_stages() as clock:
        for _ in staged_iterable("demux", elements()):
            ticks.now += 100
    assert clock.seconds["demux"] == 8
    assert clock.seconds["rest"] == 300


def test_an_iterator_that_breaks_leaves_its_stage(ticks: Ticks) -> None:
    def elements() -> Iterator[int]:
        ticks.now += 1
        raise KeyError("no more")
        yield 0

    with measured_stages() as clock:
        with pytest.raises(KeyError):
            list(staged_iterable("demux", elements()))
        ticks.now += 10
    assert clock.seconds["demux"] == 1
    assert clock.seconds["rest"] == 10


def test_a_stage_that_raises_is_left(ticks: Ticks) -> None:
    @staged("decode")
    def fail() -> None:
        ticks.now += 1
        raise ValueError("no")

    with measured_stages() as clock:
        with pytest.raises(ValueError, match="no"):
            fail()
        ticks.now += 10
    assert clock.seconds["decode"] == 1
    assert clock.seconds["rest"] == 10


def test_without_a_clock_functions_and_iterators_are_as_they_were() -> None:
    numbers = [1, 2]
    assert staged_iterable("demux", numbers) is numbers

    @staged("decode")
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    assert double(4) == 8
    assert double.__name__ == "double"
    assert double.__doc__ == "Twice."


def test_other_threads_are_not_measured(ticks: Ticks) -> None:
    with measured_stages() as clock:
        thread = threading.Thread(target=wait, args=(ticks, 5, "decode"))
        thread.start()
        thread.join()
    assert clock.seconds["decode"] == 0


def test_measuring_ends_with_the_block(ticks: Ticks) -> None:
    with measured_stages() as clock:
        pass
    wait(ticks, 5, "decode")
    assert clock.seconds == dict.fromkeys(STAGES, 0.0)
