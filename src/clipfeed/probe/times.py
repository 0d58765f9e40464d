"""Whether the frames of a video are evenly spaced in time, and how many there are a second."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from clipfeed._types import IndexArray

__all__ = ["average_rate", "is_evenly_spaced"]

_ROUNDING = Fraction(1, 1000)
"""Seconds. Matroska and FLV round times to 1 ms, and keep that when they are copied to a finer time base."""


def is_evenly_spaced(pts: IndexArray, time_base: Fraction) -> bool:
    """Tell whether all times lie on an even grid between the first and the last, rounding aside.

    Rounding moves a time by half a unit at most, the grid's ends included: one unit in all. A frame that is missing or
    lasts longer moves many times by more than that.

    Args:
        pts: (n,) int64, never falling.
        time_base: Seconds of one unit.
    """
    if len(pts) < 3:
        return True
    tolerance = max(1.0, float(_ROUNDING / time_base))
    grid = np.linspace(0, float(pts[-1] - pts[0]), len(pts))
    return bool((np.abs(pts - pts[0] - grid) <= tolerance + 1e-6).all())


def average_rate(stated: Iterable[Fraction | None], pts: IndexArray | None, time_base: Fraction) -> Fraction | None:
    """Give the average number of frames a second.

    A stated rate is exact (30000/1001) where it is right; times, which may be rounded, show whether it is.

    Args:
        stated: What the container says, the most trusted first; None for nothing.
        pts: (n,) int64 times of all frames, or None where they are not known.
        time_base: Seconds of one unit of `pts`.
    """
    rates = [rate for rate in stated if rate and rate.numerator > 0]
    if pts is None or len(pts) < 2 or pts[-1] <= pts[0]:
        return rates[0] if rates else None
    num_steps, seconds = len(pts) - 1, int(pts[-1] - pts[0]) * time_base
    tolerance = 2 * max(_ROUNDING, time_base)
    exact = next((rate for rate in rates if abs(num_steps / rate - seconds) <= tolerance), None)
    return exact or (num_steps / seconds).limit_denominator(1_000_000)
