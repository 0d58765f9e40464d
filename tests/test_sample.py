from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest

from clipfeed.errors import ProbeError
from clipfeed.records import ClipSpec, SamplingPolicy, TextColumn, VideoColumns, VideoIndex, VideoInfo, VideoRecord
from clipfeed.sample import (
    AtRate,
    Dense,
    Segments,
    Stride,
    Uniform,
    clip_generator,
    plan_clip,
    policy_of,
    shortfall_of,
    usable,
    usable_mask,
)
from clipfeed.seeds import hash_key

POLICIES = [Uniform(), Stride(), Segments(), Dense(), Dense(frame_stride=1), AtRate(fps=10)]


def a_record(num_frames: int = 100, *, fps: Fraction | None = Fraction(30), **changes: object) -> VideoRecord:
    pts = changes.pop("pts", None)
    info = VideoInfo(
        container="avi",
        codec="mpeg4",
        stream_index=0,
        width=64,
        height=48,
        average_fps=fps,
        time_base=Fraction(1, 60),
        is_variable_rate=pts is not None,
        num_frames_from_packets=num_frames,
        frame_pts=pts,
    )
    key = str(changes.pop("key", "jump/a.avi"))
    return VideoRecord(
        row=0, root="clips", key=key, video_id=hash_key(key), size_bytes=1, mtime_ns=1, info=info, **changes
    )


def recipe_R1() -> VideoRecord:
    ids = [*range(0, 60, 2), *range(60, 240, 3)]
    return a_record(len(ids), fps=Fraction(45, 2), pts=np.array(ids, np.int64))


def indices(record: VideoRecord, spec: ClipSpec, rng: np.random.Generator | None = None) -> list[int]:
    return plan_clip(record, spec, rng=rng).frame_indices.tolist()


# The policies


def test_uniform_takes_the_centre_of_each_segment_and_covers_the_video_D3() -> None:
    assert indices(a_record(12), ClipSpec(num_frames=4)) == [1, 4, 7, 10]
    for count in range(28, 201):
        chosen = indices(a_record(count), ClipSpec(num_frames=16))
        assert chosen == [(2 * place + 1) * count // 32 for place in range(16)]
        assert chosen[-1] >= 0.9 * count


def test_stride_is_the_published_rule() -> None:
    spec = ClipSpec(num_frames=20, sampling="stride")
    assert indices(a_record(39), spec) == list(range(20))
    assert indices(a_record(100), spec) == list(range(0, 100, 5))


def test_segments_take_one_frame_of_each_segment_and_their_centre_in_evaluation() -> None:
    spec = ClipSpec(num_frames=7, sampling=Segments())
    borders = [place * 50 // 7 for place in range(8)]
    for draw in range(50):
        chosen = indices(a_record(50), spec, clip_generator(1, 0, a_record(50), draw))
        assert all(low <= frame < high for low, frame, high in zip(borders, chosen, borders[1:], strict=False))
    assert indices(a_record(50), spec) == indices(a_record(50), ClipSpec(num_frames=7))


def test_dense_is_evenly_spaced_and_centred_in_evaluation() -> None:
    spec = ClipSpec(num_frames=4, sampling=Dense(frame_stride=2))
    assert indices(a_record(12), spec) == [2, 4, 6, 8]
    starts = set()
    for draw in range(200):
        chosen = indices(a_record(12), spec, clip_generator(1, 0, a_record(12), draw))
        assert np.diff(chosen).tolist() == [2, 2, 2]
        starts.add(chosen[0])
    assert starts == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize("policy", [Segments(), Dense(), Dense(frame_stride=1), AtRate(fps=10)])
def test_random_policies_reach_every_frame_D5(policy: SamplingPolicy) -> None:
    record, spec = a_record(50), ClipSpec(num_frames=8, sampling=policy)
    reached = {frame for draw in range(200) for frame in indices(record, spec, clip_generator(3, 0, record, draw))}
    assert reached == set(range(50))


def test_at_rate_takes_the_frames_shown_on_variable_rate_R1() -> None:
    """From 0 s on, 10 times a second: 39 steps of .1 s and the last frame's end at 4 s leave a start in [0, .1)."""
    chosen = plan_clip(recipe_R1(), ClipSpec(num_frames=40, sampling=AtRate(fps=10))).frame_indices
    ids = recipe_R1().info.frame_pts[chosen]
    times = [Fraction(1, 20) + Fraction(number, 10) for number in range(40)]
    assert ids.tolist() == [int(time * 60) // 2 * 2 if time < 1 else int(time * 60) // 3 * 3 for time in times]


def test_at_rate_spaces_frames_in_time_not_in_number() -> None:
    record, spec = recipe_R1(), ClipSpec(num_frames=5, sampling=AtRate(fps=4))
    for draw in range(100):
        ids = record.info.frame_pts[plan_clip(record, spec, rng=clip_generator(0, 0, record, draw)).frame_indices]
        assert all(12 < gap < 18 for gap in np.diff(ids)), ids


def test_at_rate_repeats_frames_of_a_slower_video() -> None:
    chosen = plan_clip(a_record(4, fps=Fraction(5)), ClipSpec(num_frames=7, sampling=AtRate(fps=10)))
    assert chosen.frame_indices.tolist() == [0, 1, 1, 2, 2, 3, 3], "shown at .1, .2, .. .7 s"
    assert chosen.mask.all()


def test_at_rate_agrees_with_dense_where_rates_are_multiples() -> None:
    record = a_record(101)
    for num_frames in (1, 5, 20):
        dense = ClipSpec(num_frames=num_frames, sampling=Dense(frame_stride=3))
        rate = ClipSpec(num_frames=num_frames, sampling=AtRate(fps=10))
        assert np.diff(indices(record, dense)).tolist() == np.diff(indices(record, rate)).tolist()
        assert abs(indices(record, dense)[0] - indices(record, rate)[0]) <= 1


@pytest.mark.parametrize("fps", [Fraction(25), Fraction(30000, 1001), Fraction(30), Fraction(50)])
def test_one_second_gives_the_same_number_of_frames_at_any_rate_D6(fps: Fraction) -> None:
    spec = ClipSpec(num_frames=8, sampling=AtRate(fps=8))
    record = a_record(round(fps), fps=fps)
    for draw in range(50):
        assert len(indices(record, spec, clip_generator(0, 0, record, draw))) == 8


# What a video must have


@pytest.mark.parametrize(
    ("policy", "needed"),
    [
        (Uniform(), 16),
        (Stride(), 16),
        (Segments(), 16),
        (Dense(frame_stride=2), 31),
        (Dense(frame_stride=1), 16),
        (AtRate(fps=30), 16),
        (AtRate(fps=15), 31),
        (AtRate(fps=8), 57),
        (AtRate(fps=60), 8),
    ],
)
def test_min_frames_is_the_shortest_video_that_needs_no_padding(policy: SamplingPolicy, needed: int) -> None:
    spec = ClipSpec(num_frames=16, sampling=policy, short_videos="repeat_last")
    for count in (needed - 1, needed, needed + 1):
        record = a_record(count)
        assert usable(record, dataclasses.replace(spec, short_videos="drop")) == (count >= needed)
        masks = [plan_clip(record, spec, rng=clip_generator(1, 0, record, draw)).mask for draw in range(30)]
        assert np.all(masks) == (count >= needed)


def test_a_variable_rate_video_is_measured_by_its_time() -> None:
    spec = ClipSpec(num_frames=40, sampling=AtRate(fps=10))
    assert usable(recipe_R1(), spec)
    assert not usable(recipe_R1(), dataclasses.replace(spec, num_frames=41))
    late = dataclasses.replace(recipe_R1(), start=30)
    assert usable(late, dataclasses.replace(spec, num_frames=30))
    assert not usable(late, dataclasses.replace(spec, num_frames=31))


# Short videos


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("short_videos", ["repeat_last", "wrap"])
def test_short_videos_give_exactly_T_frames_D1_D2_D4(policy: SamplingPolicy, count: int, short_videos: str) -> None:
    for num_frames in (5, 16):
        plan = plan_clip(a_record(count), ClipSpec(num_frames=num_frames, sampling=policy, short_videos=short_videos))
        assert plan.frame_indices.shape == plan.mask.shape == (num_frames,)
        assert plan.frame_indices.min() >= 0
        assert plan.frame_indices.max() < count


def test_repeat_last_shows_the_last_frame_on_and_masks_it() -> None:
    plan = plan_clip(a_record(5), ClipSpec(num_frames=8, short_videos="repeat_last"))
    assert plan.frame_indices.tolist() == [0, 1, 2, 3, 4, 4, 4, 4]
    assert plan.mask.tolist() == [True] * 5 + [False] * 3


def test_wrap_starts_over_and_masks_what_came_before() -> None:
    plan = plan_clip(a_record(5), ClipSpec(num_frames=8, short_videos="wrap"))
    assert plan.frame_indices.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert plan.mask.tolist() == [True] * 5 + [False] * 3


def test_wrap_goes_on_in_time_for_at_rate() -> None:
    plan = plan_clip(
        a_record(10, fps=Fraction(10)), ClipSpec(num_frames=6, sampling=AtRate(fps=4), short_videos="wrap")
    )
    assert plan.mask.tolist() == [True] * 4 + [False] * 2
    assert plan.frame_indices.tolist() == [0, 2, 5, 7, 0, 2], "shown at .025, .275, .. 1.275 s of 1.3"


@pytest.mark.parametrize("short_videos", ["drop", "error"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_short_video_is_refused_by_name_and_numbers(policy: SamplingPolicy, short_videos: str) -> None:
    spec = ClipSpec(num_frames=16, sampling=policy, short_videos=short_videos)
    with pytest.raises(
        ProbeError, match=r"clips/jump/a.avi: 5 frames: .*num_frames=16 .* needs \d+\n  fix: "
    ) as caught:
        plan_clip(a_record(5), spec)
    assert caught.value.stage == "sample"
    failure = shortfall_of(a_record(5), spec)
    assert failure is not None
    assert failure.path == "clips/jump/a.avi"
    assert repr(policy) in failure.reason


def test_a_video_too_short_for_a_rate_is_told_the_seconds_of_both() -> None:
    failure = shortfall_of(a_record(45), ClipSpec(num_frames=20, sampling=AtRate(fps=0.001)))
    assert failure is not None
    assert failure.reason == (
        "45 frames: a clip of num_frames=20 with AtRate(fps=1/1000) lasts 19000 s, this video 1.5 s, and needs 570001"
    )


@pytest.mark.parametrize("policy", [AtRate(fps=1e-6), Dense(frame_stride=2**31 - 1)])
@pytest.mark.parametrize("short_videos", ["repeat_last", "wrap"])
@pytest.mark.parametrize("record", [a_record(45), recipe_R1()], ids=["steady", "variable"])
def test_no_video_is_extended_without_end(record: VideoRecord, policy: SamplingPolicy, short_videos: str) -> None:
    spec = ClipSpec(num_frames=20, sampling=policy, short_videos=short_videos)
    with pytest.raises(ProbeError, match=r"needs \d{9,}, and a video is extended to 16777216 at most"):
        plan_clip(record, spec)
    assert not usable(record, spec)


@pytest.mark.parametrize("short_videos", ["drop", "repeat_last", "wrap"])
def test_a_video_without_frames_is_never_usable(short_videos: str) -> None:
    spec = ClipSpec(num_frames=1, short_videos=short_videos)
    assert not usable(a_record(0), spec)
    with pytest.raises(ProbeError, match="no frames in"):
        plan_clip(a_record(0), spec)
    with pytest.raises(ProbeError, match=r"no frames in \[7, 9\): the video has 5"):
        plan_clip(a_record(5, start=7, end=9), spec)


def test_at_rate_needs_a_rate_and_says_which_file_has_none() -> None:
    spec = ClipSpec(num_frames=4, sampling=AtRate(fps=8), short_videos="wrap")
    with pytest.raises(ProbeError, match=r"clips/jump/a.avi: the frame rate is unknown, and AtRate\(fps=8\) needs it"):
        plan_clip(a_record(100, fps=None), spec)
    assert not usable(a_record(100, fps=None), spec)
    assert indices(a_record(100, fps=None), ClipSpec(num_frames=2)) == [25, 75]


# Intervals


@pytest.mark.parametrize("policy", POLICIES)
def test_an_interval_is_sampled_as_a_video_of_its_own(policy: SamplingPolicy) -> None:
    spec = ClipSpec(num_frames=6, sampling=policy)
    part, alone = a_record(100, start=30, end=70), a_record(40)
    rng = [clip_generator(1, 0, alone) for _ in range(2)]
    shifted = [frame - 30 for frame in indices(part, spec, rng[0])]
    assert shifted == indices(alone, spec, rng[1])


def test_a_short_interval_is_padded_inside_itself() -> None:
    plan = plan_clip(a_record(100, start=97, end=200), ClipSpec(num_frames=5, short_videos="wrap"))
    assert plan.frame_indices.tolist() == [97, 98, 99, 97, 98]
    assert plan.mask.tolist() == [True, True, True, False, False]


# Randomness


def drawn(record: VideoRecord, **which: int) -> list[int]:
    spec = ClipSpec(num_frames=8, sampling=Segments())
    facts = {"seed": 1, "epoch": 0, "draw": 0, **which}
    return indices(record, spec, clip_generator(facts["seed"], facts["epoch"], record, facts["draw"]))


def test_a_draw_is_a_function_of_seed_epoch_video_and_draw_L1() -> None:
    first = a_record()
    base = drawn(first)
    assert drawn(dataclasses.replace(first, row=17, root="elsewhere", label=3)) == base
    others = [
        drawn(first, seed=2),
        drawn(first, epoch=1),
        drawn(first, draw=1),
        drawn(a_record(key="jump/b.avi")),
        drawn(a_record(start=0, end=100)),
        drawn(a_record(start=0, end=99)),
    ]
    assert len({tuple(chosen) for chosen in [base, *others]}) == 7


def test_intervals_of_one_video_do_not_share_their_draws() -> None:
    early, late = a_record(200, start=0, end=100), a_record(200, start=100, end=200)
    assert drawn(early) != [frame - 100 for frame in drawn(late)]


# Policies as values


def test_policies_are_values_that_say_what_they_are() -> None:
    assert [repr(policy) for policy in POLICIES[:4]] == ["Uniform()", "Stride()", "Segments()", "Dense(frame_stride=2)"]
    assert repr(AtRate(fps="30000/1001")) == "AtRate(fps=30000/1001)"
    assert AtRate(fps=8) == AtRate(fps=8.0) == AtRate(fps="8")
    assert len({AtRate(fps=8), AtRate(fps=8.0), AtRate(fps=9)}) == 2
    for policy in POLICIES:
        assert isinstance(policy, SamplingPolicy)
        assert pickle.loads(pickle.dumps(policy)) == policy
    assert [policy.is_random for policy in POLICIES] == [False, False, True, True, True, True]


@pytest.mark.parametrize("frame_stride", [0, -1, 1.5, True, "2", None, 2**31, 10**30])
def test_dense_refuses_what_is_no_stride(frame_stride: object) -> None:
    with pytest.raises(ValueError, match=r"frame_stride=.*at least 1 and at most 2147483647"):
        Dense(frame_stride=frame_stride)


@pytest.mark.parametrize("fps", [0, -8, "fast", float("nan"), float("inf"), True, 1e-9, 1e12])
def test_at_rate_refuses_what_is_no_rate(fps: object) -> None:
    with pytest.raises(ValueError, match=r"fps=.*above 0"):
        AtRate(fps=fps)


def test_a_spec_names_or_holds_its_policy() -> None:
    assert policy_of(ClipSpec()) == Uniform()
    assert policy_of(ClipSpec(sampling="stride")) == Stride()
    assert policy_of(ClipSpec(sampling=Dense(frame_stride=3))) == Dense(frame_stride=3)


def test_a_class_in_place_of_a_policy_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sampling=.*Segments.*a policy such as cf.Segments\(\)"):
        policy_of(ClipSpec(sampling=Segments))


class Fixed:
    """A policy of a user's own."""

    is_random = False

    def __init__(self, chosen: object) -> None:
        self.chosen = chosen

    def __repr__(self) -> str:
        return "Fixed()"

    def min_frames(self, frames: object, num_frames: int) -> int:
        return 2 * num_frames

    def choose(self, frames: object, num_frames: int, rng: object) -> object:
        return np.array(self.chosen)


def test_a_policy_of_the_users_own_is_asked() -> None:
    spec = ClipSpec(num_frames=3, sampling=Fixed([0, 2, 2]))
    assert indices(a_record(6), spec) == [0, 2, 2]
    assert not usable(a_record(5), spec)
    assert usable_mask(an_index([5, 6, 7]), spec).tolist() == [False, True, True]


@pytest.mark.parametrize("chosen", [[0, 1], [0, 1, 6], [-1, 0, 1], [2, 1, 3], [0.0, 1.0, 2.0], [[0], [1], [2]]])
def test_what_a_policy_may_not_give_is_refused(chosen: object) -> None:
    with pytest.raises(ValueError, match=r"Fixed\(\) gave .*expected 3 whole numbers, not falling, in \[0, 6\)"):
        plan_clip(a_record(6), ClipSpec(num_frames=3, sampling=Fixed(chosen)))


# Over columns


def an_index(counts: list[int], rates: list[tuple[int, int]] | None = None, **changes: object) -> VideoIndex:
    """Videos of these lengths and rates; those with a rate of None are variable, 60 units a second."""
    num_videos = len(counts)
    rates = [(30, 1)] * num_videos if rates is None else rates
    pts = [
        np.arange(count, dtype=np.int64) * 2 if rate == (1, 1) else []
        for count, rate in zip(counts, rates, strict=True)
    ]
    small, none = np.zeros(num_videos, np.int32), np.full(num_videos, -1, np.int32)
    columns = VideoColumns(
        keys=TextColumn.from_texts([f"a/{number}.avi" for number in range(num_videos)]),
        groups=TextColumn.from_texts(["g"] * num_videos),
        row_ids=np.arange(num_videos),
        size_bytes=np.ones(num_videos, np.int64),
        mtime_ns=np.ones(num_videos, np.int64),
        class_codes=none,
        part_codes=none,
        container_codes=none,
        codec_codes=none,
        stream_indices=small,
        widths=small,
        heights=small,
        rotations=small,
        sample_aspect_ratios=np.ones((num_videos, 2), np.int64),
        average_fps=np.array(rates, np.int64).reshape(-1, 2),
        time_bases=np.tile(np.array([1, 60], np.int64), (num_videos, 1)),
        is_variable_rate=np.zeros(num_videos, np.bool_),
        num_frames_from_header=none,
        num_frames_from_table=none,
        num_frames_from_packets=np.array(counts, np.int32),
        num_frames_from_decode=none,
        key_frames=np.empty(0, np.int32),
        key_frame_offsets=np.zeros(num_videos + 1, np.int64),
        frame_pts=np.concatenate([np.empty(0, np.int64), *pts]).astype(np.int64),
        frame_pts_offsets=np.cumsum([0, *(len(times) for times in pts)]),
        vocabulary=(),
    )
    facts: dict[str, object] = {"root": "clips", "columns": columns, "rows": np.arange(num_videos), **changes}
    return VideoIndex(**facts)


ENDLESS = [AtRate(fps=1e-6), AtRate(fps=1e6), Dense(frame_stride=2**31 - 1), Dense(frame_stride=2**20)]


@pytest.mark.parametrize("policy", [*POLICIES, *ENDLESS])
@pytest.mark.parametrize("short_videos", ["drop", "error", "repeat_last", "wrap"])
def test_the_mask_says_of_each_row_what_usable_says(policy: SamplingPolicy, short_videos: str) -> None:
    counts = [0, 1, 5, 15, 16, 17, 31, 40, 46, 47, 200] * 4
    rates = [(30, 1)] * 11 + [(30000, 1001)] * 11 + [(0, 0)] * 11 + [(1, 1)] * 11
    rng = np.random.default_rng(0)
    starts, ends = rng.integers(0, 20, 44), rng.choice([-1, 18, 40, 500], 44)
    for index in (an_index(counts, rates), an_index(counts, rates, starts=starts, ends=ends)):
        shuffled = index.select(rng.permutation(44))
        spec = ClipSpec(num_frames=16, sampling=policy, short_videos=short_videos)
        assert usable_mask(shuffled, spec).tolist() == [usable(record, spec) for record in shuffled.records]


def test_rates_whose_products_pass_64_bits_are_exact() -> None:
    rates = [(2**31 - 1, 2**31 - 2), (2**31 - 1, 1), (1, 2**31 - 1)]
    index = an_index([16, 16, 16], rates)
    spec = ClipSpec(num_frames=16, sampling=AtRate(fps="2147483629/2147483587"))
    assert usable_mask(index, spec).tolist() == [usable(record, spec) for record in index.records]


def test_the_mask_of_an_empty_index_is_empty() -> None:
    for policy in POLICIES:
        assert usable_mask(an_index([]), ClipSpec(sampling=policy)).shape == (0,)


def test_the_mask_of_a_large_index_makes_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: VideoColumns, position: int) -> VideoInfo:
        raise AssertionError(f"made the record of row {position}")

    monkeypatch.setattr(VideoColumns, "info", refuse)
    index = an_index(list(range(500)) * 4, [(24000 + number % 50, 1001) for number in range(2000)])
    for policy in POLICIES:
        assert usable_mask(index, ClipSpec(num_frames=16, sampling=policy)).sum() > 1000
