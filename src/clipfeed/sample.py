"""Which frames of a video make a clip.

A policy turns a number of frames (and, for `AtRate`, their times) into frame indices; `plan_clip` puts a record, a spec
and a policy together. Nothing here opens a file or touches a pixel: `order` has said which video, `decode` will say
what these frames look like. Randomness comes in as a generator; without one, random policies take their centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.errors import ProbeError
from clipfeed.records import ClipPlan, ClipSpec, Failure, FrameTimes, SamplingPolicy, VideoIndex, VideoRecord
from clipfeed.seeds import generator
from clipfeed.timing import ConstantTimes, Extension, Rate, fold_frames, parse_rate, times_of

__all__ = [
    "AtRate",
    "Dense",
    "Segments",
    "Stride",
    "Uniform",
    "clip_generator",
    "plan_clip",
    "policy_of",
    "shortfall_of",
    "usable",
    "usable_mask",
]

_MAX_COUNT = 2**31 - 1  # frame numbers are int32; products of two counts stay inside int64


@dataclass(frozen=True, slots=True)
class Uniform:
    """The centre frame of each of T equal segments: frame floor((2i + 1) N / 2T).

    N=12, T=4:   0 [1] 2 | 3 [4] 5 | 6 [7] 8 | 9 [10] 11

    Needs T frames. The same in training and evaluation.

    Source: the test-time sampling of TSN (Wang et al., ECCV 2016, section 3).
    """

    @property
    def is_random(self) -> bool:
        """False."""
        return False

    def min_frames(self, frames: FrameTimes, num_frames: int) -> int:
        """T."""
        return num_frames

    def choose(self, frames: FrameTimes, num_frames: int, rng: np.random.Generator | None) -> IndexArray:
        """Give (T,) int64, rising, each in [0, frames.num_frames)."""
        return _segment_centres(frames.num_frames, num_frames)


@dataclass(frozen=True, slots=True)
class Stride:
    """The rule of the published answer: frame i x max(N // T, 1).

    N=11, T=4:   [0] 1 [2] 3 [4] 5 [6] 7 8 9 10

    Needs T frames. The end of the video is not covered (a 39-frame video with T=20 shows its first half), which is why
    it is not the default.

    Source: the published answer on feeding HMDB51 to Keras without holding it in memory.
    """

    @property
    def is_random(self) -> bool:
        """False."""
        return False

    def min_frames(self, frames: FrameTimes, num_frames: int) -> int:
        """T."""
        return num_frames

    def choose(self, frames: FrameTimes, num_frames: int, rng: np.random.Generator | None) -> IndexArray:
        """Give (T,) int64, rising, each in [0, frames.num_frames)."""
        return np.arange(num_frames, dtype=np.int64) * max(frames.num_frames // num_frames, 1)


@dataclass(frozen=True, slots=True)
class Segments:
    """A random frame of each of T equal segments; in evaluation the centre of each, as `Uniform`.

    N=12, T=4:   0 1 [2] | [3] 4 5 | 6 [7] 8 | [9] 10 11

    Segment i is [floor(iN/T), floor((i + 1)N/T)): together they hold every frame once, so each can be drawn. Needs T
    frames.

    Source: the training-time sampling of TSN (Wang et al., ECCV 2016, section 3).
    """

    @property
    def is_random(self) -> bool:
        """True."""
        return True

    def min_frames(self, frames: FrameTimes, num_frames: int) -> int:
        """T."""
        return num_frames

    def choose(self, frames: FrameTimes, num_frames: int, rng: np.random.Generator | None) -> IndexArray:
        """Give (T,) int64, rising, each in [0, frames.num_frames)."""
        if rng is None:
            return _segment_centres(frames.num_frames, num_frames)
        borders = np.arange(num_frames + 1, dtype=np.int64) * frames.num_frames // num_frames
        return borders[:-1] + _draw_below(rng, np.diff(borders))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """T frames that are `frame_stride` apart, from a random start; in evaluation from the middle of the video.

    N=12, T=4, frame_stride=2:   0 1 2 [3] 4 [5] 6 [7] 8 [9] 10 11

    Needs (T - 1) x frame_stride + 1 frames.

    Args:
        frame_stride: Source frames from one frame of the clip to the next, 1 to 2**31 - 1.

    Raises:
        ValueError: For a `frame_stride` that is no such whole number.
    """

    frame_stride: int = 2

    def __post_init__(self) -> None:
        whole = isinstance(self.frame_stride, int | np.integer) and not isinstance(self.frame_stride, bool)
        if not whole or not 1 <= self.frame_stride <= _MAX_COUNT:
            raise ValueError(
                f"frame_stride={self.frame_stride!r}: expected a whole number of at least 1 and at most {_MAX_COUNT}"
            )

    @property
    def is_random(self) -> bool:
        """True."""
        return True

    def min_frames(self, frames: FrameTimes, num_frames: int) -> int:
        """The span, (T - 1) x frame_stride + 1."""
        return (num_frames - 1) * int(self.frame_stride) + 1

    def choose(self, frames: FrameTimes, num_frames: int, rng: np.random.Generator | None) -> IndexArray:
        """Give (T,) int64, rising, each in [0, frames.num_frames)."""
        spare = frames.num_frames - self.min_frames(frames, num_frames)
        start = spare // 2 if rng is None else int(_draw_below(rng, np.array([spare + 1], np.int64))[0])
        return start + np.arange(num_frames, dtype=np.int64) * int(self.frame_stride)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AtRate:
    """T frames as they are shown `fps` times a second, from a random start; in evaluation from the middle.

    Each time takes the frame shown then, by the frames' own times where the rate is variable. A video slower than `fps`
    shows some frames several times. The clip's last time, (T - 1) / fps after its first, must come before the video's
    end: at a constant rate r that takes floor((T - 1) r / fps) + 1 frames.

    Args:
        fps: Frames a second, from a millionth to a million: an int, a float (taken as the decimal it is written as), a
            Fraction or a text such as "30000/1001".

    Raises:
        ValueError: For a rate that is none, or beyond these.
    """

    fps: Rate = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "fps", parse_rate(self.fps))

    def __repr__(self) -> str:
        return f"AtRate(fps={self.fps})"

    @property
    def is_random(self) -> bool:
        """True."""
        return True

    def span_seconds(self, num_frames: int) -> Fraction:
        """Seconds from the first to the last time of a clip of T frames."""
        return (num_frames - 1) / parse_rate(self.fps)

    def min_frames(self, frames: FrameTimes, num_frames: int) -> int:
        """Give the frames that cover a clip; for a short video, what its mean rate makes of the missing time.

        Raises:
            ProbeError: If the frame rate is unknown.
        """
        span, duration = self.span_seconds(num_frames), _known_duration(frames)
        if duration > span:
            return int(frames.frames_at([span])[0]) + 1
        missing_frames = (span - duration) * frames.num_frames / duration
        return frames.num_frames + int(missing_frames) + 1

    def choose(self, frames: FrameTimes, num_frames: int, rng: np.random.Generator | None) -> IndexArray:
        """Give (T,) int64, not falling, each in [0, frames.num_frames).

        Raises:
            ProbeError: If the frame rate is unknown.
        """
        spare = max(Fraction(0), _known_duration(frames) - self.span_seconds(num_frames))
        start = spare * (Fraction(1, 2) if rng is None else Fraction(int(_draw_32_bits(rng, 1)[0]), 2**32))
        rate = parse_rate(self.fps)
        return frames.frames_at([start + number / rate for number in range(num_frames)])


def policy_of(spec: ClipSpec) -> SamplingPolicy:
    """Give the policy that a spec names or holds."""
    policy = spec.sampling
    if isinstance(policy, str):
        return Uniform() if policy == "uniform" else Stride()
    return policy


def clip_generator(seed: int, epoch: int, record: VideoRecord, draw: int = 0) -> np.random.Generator:
    """Give the generator that one clip is drawn with: a function of the video, never of its place in a list.

    Rows that stand for different intervals of one video draw independently; equal rows are told apart by `draw`.

    Args:
        seed: The dataset's seed.
        epoch: The epoch, from 0.
        record: The row; its video's identity and interval count.
        draw: Which of the row's clips in this epoch, from 0.
    """
    whole = record.start == 0 and record.end is None
    purpose = "sample" if whole else f"sample {record.start}:{record.end}"
    return generator(seed, epoch, purpose, record.video_id, draw)


def plan_clip(
    record: VideoRecord, spec: ClipSpec, *, rng: np.random.Generator | None = None, draw: int = 0
) -> ClipPlan:
    """Choose the frames of one clip.

    A video that is too short is extended first, if `spec.short_videos` says so; `mask` is False where a frame of the
    extension was chosen. With "wrap" the plan's frame indices may then fall and repeat.

    Args:
        record: The video, or the interval of it, that the clip comes from.
        spec: What a clip looks like.
        rng: Source of random starts; None for the centre (evaluation).
        draw: Which of the row's clips in this epoch, from 0; only noted in the plan.

    Returns:
        A plan of exactly `spec.num_frames` indices in [record.start, end of the interval).

    Raises:
        ProbeError: If the video is too short and may not be extended, or the policy needs a rate that is unknown.
        ValueError: If a policy gives something that is no clip.
    """
    policy = policy_of(spec)
    real = times_of(record.info, record.start, record.end)
    needed, refusal = _needed(record, real, spec, policy)
    if refusal is not None:
        raise ProbeError(refusal, path=record.path, stage="sample", remedy=_REMEDY)
    extension: Extension = "wrap" if spec.short_videos == "wrap" else "repeat_last"
    times: FrameTimes = real.extended(needed, extension)
    chosen = _checked(policy.choose(times, spec.num_frames, rng), times, spec, policy)
    return ClipPlan(
        record=record,
        frame_indices=record.start + fold_frames(chosen, real.num_frames, extension),
        mask=chosen < real.num_frames,
        draw=draw,
    )


_REMEDY = (
    'leave it out (short_videos="drop"), extend it ("repeat_last", "wrap"), or take fewer frames, or frames that are '
    "nearer to one another"
)

# A video that is extended to more frames than these, a week at 25 a second, is padding and nothing else; and the times
# of a variable rate are made one by one, in 8 bytes each.
_MOST_EXTENDED = 2**24


def shortfall_of(record: VideoRecord, spec: ClipSpec) -> Failure | None:
    """Say why no clip can be made of a row, or None if one can."""
    times = times_of(record.info, record.start, record.end)
    refusal = _needed(record, times, spec, policy_of(spec))[1]
    return None if refusal is None else Failure(path=record.path, stage="sample", reason=refusal)


def _needed(record: VideoRecord, times: FrameTimes, spec: ClipSpec, policy: SamplingPolicy) -> tuple[int, str | None]:
    """Frames that a clip of this row takes, and why it cannot be made, if so."""
    if times.num_frames == 0:
        end = record.info.num_frames if record.end is None else record.end
        return 0, f"no frames in [{record.start}, {end}): the video has {record.info.num_frames}"
    try:
        needed = policy.min_frames(times, spec.num_frames)
    except ProbeError as error:
        return 0, f"{error.problem}, and {policy!r} needs it"
    is_extended = spec.short_videos in ("repeat_last", "wrap")
    if needed <= (max(times.num_frames, _MOST_EXTENDED) if is_extended else times.num_frames):
        return needed, None
    lasting = _lasting(times, spec, policy) if isinstance(policy, AtRate) else ""
    limit = f", and a video is extended to {_MOST_EXTENDED} at most" if is_extended else ""
    clip = f"a clip of num_frames={spec.num_frames} with {policy!r} {lasting}needs {needed}"
    return needed, f"{times.num_frames} frames: {clip}{limit}"


def _lasting(times: FrameTimes, spec: ClipSpec, policy: AtRate) -> str:
    had, span = _known_duration(times), policy.span_seconds(spec.num_frames)
    return f"lasts {float(span):g} s, this video {float(had):g} s, and "


def usable(record: VideoRecord, spec: ClipSpec) -> bool:
    """Tell whether a clip can be made of a row."""
    return shortfall_of(record, spec) is None


def usable_mask(index: VideoIndex, spec: ClipSpec) -> NDArray[np.bool_]:
    """Tell for each row whether a clip can be made of it: `usable` over flat columns.

    Returns:
        (len(index),) bool.
    """
    had = _frames_of_rows(index)
    needed = _needed_frames(index, had, spec)
    if spec.short_videos in ("repeat_last", "wrap"):
        needed = np.where(needed > np.maximum(had, _MOST_EXTENDED), _NEVER, 1)
    return (had > 0) & (had >= needed)


_NEVER = np.iinfo(np.int64).max  # no number of frames is enough


def _frames_of_rows(index: VideoIndex) -> IndexArray:
    """(n,) int64 frames in each row's interval."""
    counts = index.num_frames.astype(np.int64)
    starts = np.zeros_like(counts) if index.starts is None else index.starts
    ends = counts if index.ends is None else np.where(index.ends < 0, counts, np.minimum(index.ends, counts))
    return np.maximum(ends - starts, 0)


def _needed_frames(index: VideoIndex, had: IndexArray, spec: ClipSpec) -> IndexArray:
    """(n,) int64 frames that each row would need, _NEVER where its rate is unknown."""
    policy = policy_of(spec)
    if isinstance(policy, Uniform | Stride | Segments | Dense):
        return np.full(len(index), policy.min_frames(ConstantTimes(num_frames=1), spec.num_frames), np.int64)
    needed = np.full(len(index), _NEVER, np.int64)
    asked = had > 0
    if isinstance(policy, AtRate):
        steady = np.diff(index.columns.frame_pts_offsets)[index.rows] == 0
        pairs = index.columns.average_fps[index.rows]
        needed = np.where(steady, _needed_at_rates(pairs, policy.span_seconds(spec.num_frames)), needed)
        asked &= ~steady
    records = index.records
    for place in np.flatnonzero(asked):
        record = records[int(place)]
        try:
            count = policy.min_frames(times_of(record.info, record.start, record.end), spec.num_frames)
            needed[place] = min(count, _NEVER)
        except ProbeError:
            continue  # stays _NEVER; `shortfall_of` tells why
    return needed


def _needed_at_rates(pairs: NDArray[np.int64], span: Fraction) -> IndexArray:
    """Frames that cover `span` seconds at each rate (n, 2: numerator, denominator): floor(span x rate) + 1.

    Python integers, once for each rate that occurs: products of a span and a rate can pass 64 bits.
    """
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    ranked = pairs[order]
    is_new = np.ones(len(pairs), np.bool_)
    is_new[1:] = np.any(ranked[1:] != ranked[:-1], axis=1)
    needed = [
        span.numerator * top // (span.denominator * bottom) + 1 if top > 0 and bottom > 0 else _NEVER
        for top, bottom in ranked[is_new].tolist()
    ]
    result = np.empty(len(pairs), np.int64)
    result[order] = np.array([min(count, _NEVER) for count in needed], np.int64)[np.cumsum(is_new) - 1]
    return result


def _segment_centres(num_frames: int, clip_length: int) -> IndexArray:
    return (2 * np.arange(clip_length, dtype=np.int64) + 1) * num_frames // (2 * clip_length)


def _known_duration(frames: FrameTimes) -> Fraction:
    if not frames.duration_seconds:
        raise ProbeError("the frame rate is unknown", stage="sample", remedy="sample by frames, such as cf.Dense()")
    return frames.duration_seconds


def _draw_32_bits(rng: np.random.Generator, num_draws: int) -> NDArray[np.uint64]:
    """Whole words of the bit generator, whose stream NumPy keeps for ever; not so what it makes of them."""
    return rng.integers(0, 2**64, num_draws, np.uint64) >> np.uint64(32)


def _draw_below(rng: np.random.Generator, sizes: IndexArray) -> IndexArray:
    """Give (n,) int64, each evenly in [0, size), size < 2**32; uneven by less than size / 2**32."""
    return (_draw_32_bits(rng, len(sizes)) * sizes.astype(np.uint64) >> np.uint64(32)).astype(np.int64)


def _checked(chosen: IndexArray, times: FrameTimes, spec: ClipSpec, policy: SamplingPolicy) -> IndexArray:
    """Refuse what a policy of the user's own may give and no decoder can serve."""
    indices = np.asarray(chosen)
    fits = indices.shape == (spec.num_frames,) and indices.dtype.kind in "iu"
    if not fits or indices.min() < 0 or indices.max() >= times.num_frames or np.any(indices[1:] < indices[:-1]):
        raise ValueError(
            f"{policy!r} gave {indices.tolist()}: expected {spec.num_frames} whole numbers,"
            f" not falling, in [0, {times.num_frames})"
        )
    return indices.astype(np.int64)
