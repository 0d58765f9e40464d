"""Whether the frames of a video are evenly spaced in time, and how many there are a second."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from clipfeed._types import IndexArray

__all__ = ["average_rate", "is_evenly_spaced"]

_ROUNDING = Fraction(1, 1000)
"""Seconds. Matroska and FLV round times to 1 ms, and keep that when they are copied to a finer time base."""

_MAX_RATE_DIFFERENCE = Fraction(1, 50)


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


def average_rate(stated: Fraction | None, pts: IndexArray | None, time_base: Fraction) -> Fraction | None:
    """Give the average number of frames a second.

    The container's own figure is exact (30000/1001) where it is right; times show whether it is.

    Args:
        stated: What the container says, or None.
        pts: (n,) int64 times of all frames, or None where they are not known.
        time_base: Seconds of one unit of `pts`.
    """
    stated = stated if stated and stated.numerator > 0 else None
    if pts is None or len(pts) < 2 or pts[-1] <= pts[0]:
        return stated
    measured = (len(pts) - 1) / (int(pts[-1] - pts[0]) * time_base)
    if stated and abs(stated - measured) <= _MAX_RATE_DIFFERENCE * measured:
        return stated
    return measured.limit_denominator(1_000_000)
