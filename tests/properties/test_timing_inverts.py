"""Frame -> seconds -> frame gives the frame back, for any rate and any times."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clipfeed.timing import ConstantTimes, VariableTimes, fold_frames, pts_at, seconds_of

rates = st.fractions(min_value=Fraction(1, 100), max_value=1000, max_denominator=100_000)
bases = st.fractions(min_value=Fraction(1, 10**9), max_value=1, max_denominator=10**9)
gaps = st.lists(st.integers(1, 10**6), min_size=1, max_size=60)
starts = st.integers(-(10**12), 10**12)


def variable(start: int, gaps: list[int], base: Fraction) -> VariableTimes:
    edges = start + np.cumsum([0, *gaps])
    return VariableTimes(pts=edges[:-1].astype(np.int64), end_pts=int(edges[-1]), time_base=base)


@given(rate=rates, num_frames=st.integers(1, 10**6), share=st.fractions(0, 1))
def test_constant_rate_inverts(rate: Fraction, num_frames: int, share: Fraction) -> None:
    times = ConstantTimes(num_frames=num_frames, fps=rate)
    frame = int(share * (num_frames - 1))
    (begin,) = times.seconds_at([frame])
    assert times.frames_at([begin]).tolist() == [frame]
    assert times.frames_at([begin + Fraction(99, 100) / rate]).tolist() == [frame]


@given(start=starts, gaps=gaps, base=bases)
def test_variable_rate_inverts(start: int, gaps: list[int], base: Fraction) -> None:
    times = variable(start, gaps, base)
    frames = np.arange(len(gaps))
    begins = times.seconds_at(frames)
    assert times.frames_at(begins).tolist() == frames.tolist()
    ends = [*begins[1:], times.duration_seconds]
    assert times.frames_at([end - base / 2 for end in ends]).tolist() == frames.tolist()


@given(start=starts, gaps=gaps, base=bases, cut=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_slices_keep_their_times(start: int, gaps: list[int], base: Fraction, cut: tuple[int, int]) -> None:
    times = variable(start, gaps, base)
    first, end = sorted(min(place, len(gaps)) for place in cut)
    part = times.sliced(first, end)
    assert part.num_frames == end - first
    assert part.duration_seconds == sum(gaps[first:end]) * base
    assert part.seconds_at(range(part.num_frames)) == [sum(gaps[first:place]) * base for place in range(first, end)]


@given(start=starts, gaps=gaps, base=bases, more=st.integers(0, 200))
def test_wrapping_repeats_the_times_of_each_turn(start: int, gaps: list[int], base: Fraction, more: int) -> None:
    times = variable(start, gaps, base)
    wrapped = times.extended(len(gaps) + more, "wrap")
    shown = fold_frames(np.arange(wrapped.num_frames), len(gaps), "wrap")
    assert np.diff(np.append(wrapped.pts, wrapped.end_pts)).tolist() == [gaps[frame] for frame in shown]


@given(start=starts, gaps=gaps, base=bases, more=st.integers(0, 200))
def test_repeating_covers_at_least_the_mean_time(start: int, gaps: list[int], base: Fraction, more: int) -> None:
    times = variable(start, gaps, base)
    longer = times.extended(len(gaps) + more, "repeat_last")
    assert longer.num_frames == len(gaps) + more
    assert longer.duration_seconds >= times.duration_seconds * longer.num_frames / times.num_frames


@given(pts=starts, start=starts, base=bases)
def test_pts_invert(pts: int, start: int, base: Fraction) -> None:
    assert pts_at(seconds_of(pts, base, start), base, start) == pts
