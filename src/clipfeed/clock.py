"""Where the time of a clip goes: a clock that the stages of its journey report to while somebody measures.

    with measured_stages() as clock:      in the calling thread only
        ds.batch(0, 0, workers=0)
    clock.seconds["decode"]               time in that stage, without the stages called from within it
    clock.seconds["rest"]                 all other time in between; with it, the stages add up to the whole

Functions that are a stage carry `@staged("decode")`. Where nobody measures, that costs one look at a variable (0.1 to
0.2 us a call; a clip makes some hundred calls in 12 ms), and an iterator nothing at all. Nothing here knows what a
stage does.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, ParamSpec, TypeAlias, TypeVar, get_args

__all__ = ["STAGES", "Stage", "StageClock", "measured_stages", "staged", "staged_iterable"]

Stage: TypeAlias = Literal["open", "demux", "decode", "convert", "assemble", "rest"]
STAGES: tuple[Stage, ...] = get_args(Stage)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Element = TypeVar("Element")


class StageClock:
    """Adds up the time of each stage in one thread; at any moment exactly one stage runs, "rest" if no other.

    Attributes:
        seconds: Wall time of each stage so far, by name.
    """

    def __init__(self) -> None:
        self.seconds: dict[Stage, float] = dict.fromkeys(STAGES, 0.0)
        self._running: list[Stage] = ["rest"]
        self._since = time.perf_counter()

    @property
    def total_seconds(self) -> float:
        """Time of all stages together."""
        return sum(self.seconds.values())

    def begin(self, stage: Stage) -> None:
        """Go over to a stage; what ran before pauses."""
        self._charge()
        self._running.append(stage)

    def end(self) -> None:
        """Leave the stage at hand; what it interrupted goes on."""
        self._charge()
        self._running.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now


# A context variable and no argument: a decoder's signature is the same whether somebody measures or not. Other threads
# have contexts of their own, so that they are neither measured nor slowed down.
_CLOCK: ContextVar[StageClock | None] = ContextVar("clipfeed_stage_clock", default=None)


@contextmanager
def measured_stages() -> Iterator[StageClock]:
    """Measure what the calling thread does until the end of the `with` block.

    Yields:
        The clock; its figures are final once the block has ended.
    """
    clock = StageClock()
    token = _CLOCK.set(clock)
    try:
        yield clock
    finally:
        _CLOCK.reset(token)
        clock.begin("rest")  # charges what ran last


def staged(stage: Stage) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Mark a function as a stage, so that its time is counted where somebody measures."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            clock = _CLOCK.get()
            if clock is None:
                return function(*args, **kwargs)
            clock.begin(stage)
            try:
                return function(*args, **kwargs)
            finally:
                clock.end()

        return run

    return decorate


def staged_iterable(stage: Stage, elements: Iterable[Element]) -> Iterable[Element]:
    """Mark the making of each element as a stage; gives `elements` itself where nobody measures."""
    clock = _CLOCK.get()
    return elements if clock is None else _charged(clock, stage, iter(elements))


def _charged(clock: StageClock, stage: Stage, elements: Iterator[Element]) -> Iterator[Element]:
    while True:
        clock.begin(stage)
        try:
            element = next(elements, _END)
        finally:
            clock.end()
        if isinstance(element, _End):
            return
        yield element


class _End:
    """What no iterator gives."""


_END = _End()
