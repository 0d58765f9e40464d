from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from clipfeed.records import FrameTimes, VideoInfo
from clipfeed.timing import (
    ConstantTimes,
    VariableTimes,
    fold_frames,
    parse_rate,
    pts_at,
    seconds_of,
    times_of,
)

NTSC = Fraction(30000, 1001)


def variable_rate_recipe() -> VideoInfo:
    """R1 of the field reports: 240 frames at 60 fps, every 2nd of the first second and every 3rd later are kept."""
    ids = [*range(0, 60, 2), *range(60, 240, 3)]
    pts = np.array([number * 256 for number in ids], np.int64)
    return VideoInfo(
        container="mov",
        codec="h264",
        stream_index=0,
        width=64,
        height=48,
        average_fps=Fraction(45, 2),
        time_base=Fraction(1, 15360),
        is_variable_rate=True,
        num_frames_from_table=len(ids),
        frame_pts=pts,
    )


def ids_of(frames: np.ndarray) -> list[int]:
    return [[*range(0, 60, 2), *range(60, 240, 3)][frame] for frame in frames]


def steady_video(num_frames: int, fps: Fraction | None) -> VideoInfo:
    return VideoInfo(
        container="avi",
        codec="mpeg4",
        stream_index=0,
        width=64,
        height=48,
        average_fps=fps,
        num_frames_from_packets=num_frames,
    )


def test_variable_rate_shows_the_latest_frame_that_has_begun_R1() -> None:
    times = times_of(variable_rate_recipe())
    assert times.num_frames == 90
    assert times.duration_seconds == 4
    assert ids_of(times.frames_at([Fraction(1, 2), Fraction(2)])) == [30, 120]
    assert ids_of([45, 50]) == [105, 120]


def test_variable_rate_at_10_fps_takes_earlier_frames_never_later_ones_E6() -> None:
    times = times_of(variable_rate_recipe())
    wanted = [Fraction(number, 10) for number in range(40)]
    shown = ids_of(times.frames_at(wanted))
    assert shown[:3] == [0, 6, 12]
    for time, number in zip(wanted, shown, strict=True):
        gap = 2 if time < 1 else 3
        assert 0 <= time * 60 - number < gap


def test_a_slice_begins_at_zero_seconds_and_ends_where_the_next_frame_begins() -> None:
    times = times_of(variable_rate_recipe(), 10, 30)
    assert times.num_frames == 20
    assert times.duration_seconds == Fraction(40, 60)
    assert times.frames_at([Fraction(0), Fraction(1, 60), Fraction(2, 60)]).tolist() == [0, 0, 1]
    assert times.seconds_at([0, 19]) == [0, Fraction(38, 60)]


@pytest.mark.parametrize(("start", "end", "num_frames"), [(0, None, 90), (80, 200, 10), (90, None, 0), (95, 100, 0)])
def test_an_interval_beyond_the_video_is_cut_at_its_end(start: int, end: int | None, num_frames: int) -> None:
    assert times_of(variable_rate_recipe(), start, end).num_frames == num_frames
    assert times_of(steady_video(90, NTSC), start, end).num_frames == num_frames


def test_constant_rate_is_exact_where_floats_are_not() -> None:
    times = ConstantTimes(num_frames=10**7, fps=NTSC)
    begins = times.seconds_at(np.array([1, 29, 2_997_003, 9_999_999]))
    assert times.frames_at(begins).tolist() == [1, 29, 2_997_003, 9_999_999]
    before = [begin - Fraction(1, 10**12) for begin in begins]
    assert times.frames_at(before).tolist() == [0, 28, 2_997_002, 9_999_998]


@pytest.mark.parametrize("fps", [25, NTSC, 30, 50])
def test_after_the_end_the_last_frame_stays(fps: Fraction) -> None:
    times = ConstantTimes(num_frames=50, fps=Fraction(fps))
    assert times.duration_seconds == 50 / Fraction(fps)
    assert times.frames_at([times.duration_seconds, Fraction(100)]).tolist() == [49, 49]
    late = times_of(variable_rate_recipe()).frames_at([Fraction(4), Fraction(10**9)])
    assert late.tolist() == [89, 89]


def test_an_unknown_rate_has_no_times() -> None:
    times = times_of(steady_video(12, None))
    assert times.num_frames == 12
    assert times.duration_seconds is None
    with pytest.raises(ValueError, match="rate is unknown"):
        times.frames_at([Fraction(0)])
    with pytest.raises(ValueError, match="rate is unknown"):
        times.seconds_at([0])


@pytest.mark.parametrize("times", [ConstantTimes(num_frames=5, fps=NTSC), times_of(variable_rate_recipe())])
def test_nothing_is_shown_before_the_first_frame(times: FrameTimes) -> None:
    with pytest.raises(ValueError, match="-1/25 s"):
        times.frames_at([Fraction(1), Fraction(-1, 25)])


def test_no_frames_are_shown_at_no_time() -> None:
    empty = times_of(variable_rate_recipe(), 90)
    assert empty.duration_seconds == 0
    for times in (empty, ConstantTimes(num_frames=0, fps=NTSC)):
        with pytest.raises(ValueError, match="no frames"):
            times.frames_at([Fraction(0)])


def test_pts_that_fall_back_are_taken_in_decoder_order() -> None:
    """E4: decoder output order is the truth."""
    info = variable_rate_recipe()
    pts = np.array([0, 2, 3, 1, 4], np.int64)
    fallen = VideoInfo(
        container="matroska", codec="h264", stream_index=0, width=8, height=8,
        time_base=Fraction(1, 10), num_frames_from_packets=5, frame_pts=pts,
    )  # fmt: skip
    assert times_of(fallen).frames_at([Fraction(number, 10) for number in range(5)]).tolist() == [0, 0, 1, 3, 4]
    assert pts.tolist() == [0, 2, 3, 1, 4], "the record's own pts stay as they are"
    with pytest.raises(ValueError, match="may not fall"):
        VariableTimes(pts=pts, end_pts=5, time_base=Fraction(1, 10))
    with pytest.raises(ValueError, match="5 pts for 90 frames"):
        times_of(_with_pts(info, pts))


def _with_pts(info: VideoInfo, pts: np.ndarray) -> VideoInfo:
    return VideoInfo(
        container=info.container, codec=info.codec, stream_index=0, width=8, height=8,
        time_base=info.time_base, num_frames_from_table=info.num_frames, frame_pts=pts,
    )  # fmt: skip


def test_a_single_frame_lasts_as_long_as_the_average_says() -> None:
    single = VideoInfo(
        container="gif", codec="gif", stream_index=0, width=8, height=8, average_fps=Fraction(10),
        time_base=Fraction(1, 100), num_frames_from_packets=1, frame_pts=np.array([70], np.int64),
    )  # fmt: skip
    assert times_of(single).duration_seconds == Fraction(1, 10)


def test_pts_and_seconds_turn_into_each_other_exactly() -> None:
    base = Fraction(1001, 30000)
    assert seconds_of(130, base, 100) == Fraction(30 * 1001, 30000)
    assert pts_at(seconds_of(130, base, 100), base, 100) == 130
    assert pts_at(seconds_of(130, base, 100) - Fraction(1, 10**15), base, 100) == 129


def test_a_wrapped_list_starts_over_while_time_goes_on() -> None:
    times = VariableTimes(pts=np.array([100, 103, 106, 112], np.int64), end_pts=118, time_base=Fraction(1, 30))
    wrapped = times.extended(7, "wrap")
    assert wrapped.pts.tolist() == [100, 103, 106, 112, 118, 121, 124]
    assert wrapped.end_pts == 130
    assert wrapped.sliced(4).duration_seconds == Fraction(12, 30)
    assert fold_frames(np.arange(7), 4, "wrap").tolist() == [0, 1, 2, 3, 0, 1, 2]


def test_a_repeated_last_frame_is_shown_on_at_the_mean_rate() -> None:
    times = VariableTimes(pts=np.array([100, 103, 106, 112], np.int64), end_pts=118, time_base=Fraction(1, 30))
    longer = times.extended(6, "repeat_last")
    assert longer.num_frames == 6
    assert longer.pts.tolist() == [100, 103, 106, 112, 118, 123]
    assert longer.duration_seconds * 4 >= times.duration_seconds * 6
    assert fold_frames(np.arange(6), 4, "repeat_last").tolist() == [0, 1, 2, 3, 3, 3]


@pytest.mark.parametrize("extension", ["repeat_last", "wrap"])
def test_extending_to_fewer_frames_changes_nothing(extension: str) -> None:
    times = times_of(variable_rate_recipe())
    assert times.extended(90, extension) is times
    assert ConstantTimes(num_frames=9, fps=NTSC).extended(5, extension).num_frames == 9
    assert ConstantTimes(num_frames=9, fps=NTSC).extended(12, extension).num_frames == 12


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        (8, Fraction(8)),
        (29.97, Fraction(2997, 100)),
        (np.float64(12.5), Fraction(25, 2)),
        (np.int64(25), Fraction(25)),
        (NTSC, NTSC),
        ("30000/1001", NTSC),
        ("23.976", Fraction(2997, 125)),
        (1e-6, Fraction(1, 10**6)),
        (1e6, Fraction(10**6)),
    ],
)
def test_a_rate_is_the_number_as_written(written: object, exact: Fraction) -> None:
    assert parse_rate(written) == exact


@pytest.mark.parametrize(
    "written",
    [
        0, -1, 0.0, float("nan"), float("inf"), float("-inf"), "fast", "1/0", True, None, Fraction(-1), 1e-9, 9e-7,
        1e12, 1_000_001, "1/10000000", Fraction(10**7), 5e-324, np.float32("inf"),
    ],
)  # fmt: skip
def test_what_is_no_rate_is_refused_by_name_and_range(written: object) -> None:
    with pytest.raises(ValueError, match=r"expected frames a second above 0, from 1/1000000 to 1000000") as caught:
        parse_rate(written)
    assert str(caught.value).startswith(f"fps={written!r}: ")


def test_times_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        ConstantTimes(num_frames=-1)
    with pytest.raises(ValueError, match="negative"):
        ConstantTimes(num_frames=1, fps=Fraction(0))
    with pytest.raises(ValueError, match="time_base=0"):
        VariableTimes(pts=np.array([0], np.int64), end_pts=1, time_base=Fraction(0))
    with pytest.raises(ValueError, match="start=-1"):
        ConstantTimes(num_frames=5).sliced(-1)
