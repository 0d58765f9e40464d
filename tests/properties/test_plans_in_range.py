"""Every plan has exactly T frames, in range, in order, whatever the video, the policy and the draw."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed.records import ClipSpec, SamplingPolicy, VideoInfo, VideoRecord
from clipfeed.sample import AtRate, Dense, Segments, Stride, Uniform, clip_generator, plan_clip, usable

rates = st.fractions(min_value=Fraction(1, 10), max_value=240, max_denominator=1001)
policies: st.SearchStrategy[SamplingPolicy] = st.one_of(
    st.sampled_from([Uniform(), Stride(), Segments()]),
    st.builds(Dense, frame_stride=st.integers(1, 9)),
    st.builds(AtRate, fps=rates),
)


@st.composite
def records(draw: st.DrawFn) -> VideoRecord:
    """A constant or variable video of 1 to 120 frames, or an interval of it that holds a frame at least."""
    num_frames = draw(st.integers(1, 120))
    gaps = draw(st.none() | st.lists(st.integers(1, 2000), min_size=num_frames, max_size=num_frames))
    start = draw(st.integers(0, num_frames - 1))
    info = VideoInfo(
        container="mov",
        codec="h264",
        stream_index=0,
        width=8,
        height=8,
        average_fps=draw(rates),
        time_base=Fraction(1, draw(st.integers(1, 90000))),
        num_frames_from_table=num_frames,
        frame_pts=None if gaps is None else np.cumsum(gaps, dtype=np.int64),
    )
    end = draw(st.none() | st.integers(start + 1, 200))
    return VideoRecord(
        row=0, root="", key="a.mp4", video_id=7, start=start, end=end, size_bytes=1, mtime_ns=1, info=info
    )


@settings(max_examples=300)
@given(
    record=records(),
    policy=policies,
    num_frames=st.integers(1, 40),
    short_videos=st.sampled_from(["repeat_last", "wrap"]),
    seed=st.none() | st.integers(0, 2**32),
)
def test_plans_have_T_frames_in_range(
    record: VideoRecord, policy: SamplingPolicy, num_frames: int, short_videos: str, seed: int | None
) -> None:
    spec = ClipSpec(num_frames=num_frames, sampling=policy, short_videos=short_videos)
    rng = None if seed is None else clip_generator(seed, 0, record)
    plan = plan_clip(record, spec, rng=rng)
    end = record.start + record.num_frames
    assert plan.frame_indices.shape == plan.mask.shape == (num_frames,)
    assert plan.frame_indices.dtype == np.int64
    assert record.start <= plan.frame_indices.min() <= plan.frame_indices.max() < end
    real = plan.frame_indices[plan.mask]
    assert np.all(np.diff(real) >= 0)
    assert np.all(np.diff(plan.mask.astype(int)) <= 0), "padding stands at the end"
    if short_videos == "repeat_last":
        assert np.all(np.diff(plan.frame_indices) >= 0)
        assert np.all(plan.frame_indices[~plan.mask] == end - 1)
    if usable(record, dataclasses.replace(spec, short_videos="drop")):
        assert plan.mask.all()


@given(num_frames=st.integers(1, 60), extra=st.integers(0, 300))
def test_uniform_covers_both_ends(num_frames: int, extra: int) -> None:
    count = num_frames + extra
    info = VideoInfo(container="", codec="", stream_index=0, width=8, height=8, num_frames_from_table=count)
    record = VideoRecord(row=0, root="", key="a", video_id=1, size_bytes=1, mtime_ns=1, info=info)
    chosen = plan_clip(record, ClipSpec(num_frames=num_frames)).frame_indices
    half_segment = count / (2 * num_frames)
    assert chosen[0] <= half_segment
    assert count - chosen[-1] <= half_segment + 1
    assert np.all(np.diff(chosen) > 0)
    assert (chosen + chosen[::-1])[0] in (count - 1, count), "the same distance from both ends, to a frame"


@settings(max_examples=30, deadline=None)
@given(num_frames=st.integers(1, 12), extra=st.integers(0, 24))
def test_segments_reach_every_frame(num_frames: int, extra: int) -> None:
    count = num_frames + extra
    info = VideoInfo(container="", codec="", stream_index=0, width=8, height=8, num_frames_from_table=count)
    record = VideoRecord(row=0, root="", key="a", video_id=1, size_bytes=1, mtime_ns=1, info=info)
    spec = ClipSpec(num_frames=num_frames, sampling=Segments())
    reached: set[int] = set()
    for draw in range(400):  # a segment of 25 frames misses one of them with a chance of 2e-6
        if len(reached) == count:
            break
        reached |= set(plan_clip(record, spec, rng=clip_generator(0, 0, record, draw)).frame_indices.tolist())
    assert reached == set(range(count))
