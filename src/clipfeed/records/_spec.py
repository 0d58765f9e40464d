"""What a clip should look like: the user's choices, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from clipfeed._types import Aspect, ColorMode, IndexArray, Interpolation, ShortVideos
from clipfeed.records._arguments import check_choice

INTERPOLATIONS: tuple[Interpolation, ...] = ("nearest", "bilinear", "bicubic", "area", "lanczos3", "gaussian")
ASPECTS: tuple[Aspect, ...] = ("stretch", "crop", "pad")
SHORT_VIDEOS: tuple[ShortVideos, ...] = ("drop", "repeat_last", "wrap", "error")
COLOR_MODES: tuple[ColorMode, ...] = ("rgb", "grayscale")

_MAX_COUNT = 2**31 - 1  # frame numbers are int32; products of two counts stay inside int64


class FrameTimes(Protocol):
    """The frames a policy chooses from: their number, and when each is shown."""

    @property
    def num_frames(self) -> int:
        """Number of frames, at least 1."""

    @property
    def duration_seconds(self) -> Fraction | None:
        """From the first frame's time to the end of the last frame, exact; None where the rate is unknown."""

    def frames_at(self, seconds: Sequence[Fraction]) -> IndexArray:
        """Frame shown at each time, counted from the first frame's time."""


@runtime_checkable
class SamplingPolicy(Protocol):
    """Which frames make a clip. Implementations are frozen dataclasses in `sample`."""

    @property
    def is_random(self) -> bool:
        """True where training draws differ from epoch to epoch."""

    def min_frames(self, frames: FrameTimes, num_frames: int) -> int:
        """Frames a video must have for a clip of `num_frames` without padding."""

    def choose(self, frames: FrameTimes, num_frames: int, rng: np.random.Generator | None) -> IndexArray:
        """Give (num_frames,) int64 sorted indices in [0, frames.num_frames); `rng` None asks for the centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipSpec:
    """What a clip looks like: how many frames, which ones, and their size.

    Args:
        num_frames: T, frames in a clip, at least 1.
        image_size: (height, width) in pixels; an int is a square.
        sampling: "uniform", "stride", or a policy such as `cf.Segments()`.
        short_videos: What happens to a video with fewer frames than the policy's `min_frames`: "drop", "repeat_last",
            "wrap" or "error".
        interpolation: How frames are resized, once, in uint8; all but "nearest" antialias.
        aspect: "stretch" to `image_size`, "crop" the centre, or "pad" with black.
        color_mode: "rgb" (3 channels) or "grayscale" (1).
        clips_per_video: Draws per video and epoch in training, at least 1.

    Raises:
        ValueError: For a value that no clip can have; names the value and what is allowed.
    """

    num_frames: int = 20
    image_size: tuple[int, int] | int = (64, 64)
    sampling: SamplingPolicy | Literal["uniform", "stride"] = "uniform"
    short_videos: ShortVideos = "drop"
    interpolation: Interpolation = "bilinear"
    aspect: Aspect = "stretch"
    color_mode: ColorMode = "rgb"
    clips_per_video: int = 1

    def __post_init__(self) -> None:
        for name in ("num_frames", "clips_per_video"):
            object.__setattr__(self, name, _checked_count(name, getattr(self, name)))
        object.__setattr__(self, "image_size", _checked_size(self.image_size))
        check_choice("short_videos", self.short_videos, SHORT_VIDEOS)
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        check_choice("aspect", self.aspect, ASPECTS)
        check_choice("color_mode", self.color_mode, COLOR_MODES)
        is_policy = isinstance(self.sampling, SamplingPolicy) and not isinstance(self.sampling, type)
        if not is_policy and self.sampling not in ("uniform", "stride"):
            raise ValueError(
                f'sampling={self.sampling!r}: expected "uniform", "stride" or a policy such as cf.Segments()'
            )

    @property
    def height(self) -> int:
        """Rows of a clip's frames, pixels."""
        return self.size[0]

    @property
    def width(self) -> int:
        """Columns of a clip's frames, pixels."""
        return self.size[1]

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        if isinstance(self.image_size, int):
            return (self.image_size, self.image_size)
        return self.image_size

    @property
    def num_channels(self) -> int:
        """3 for RGB, 1 for grayscale."""
        return 3 if self.color_mode == "rgb" else 1

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(T, H, W, C) of a clip."""
        return (self.num_frames, self.height, self.width, self.num_channels)

    @property
    def num_bytes(self) -> int:
        """Bytes of one clip in uint8."""
        return math.prod(self.shape)


def _checked_count(name: str, value: Any) -> int:  # noqa: ANN401  # whatever the user gave
    if not _is_count(value):
        raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
    if value > _MAX_COUNT:
        raise ValueError(f"{name}={value!r}: expected a whole number of at most {_MAX_COUNT}")
    return int(value)  # a NumPy int8 would overflow in the first product


def _checked_size(size: object) -> tuple[int, int]:
    given = size.tolist() if isinstance(size, np.ndarray | np.integer) else size
    pair = (given, given) if isinstance(given, int) else given
    if isinstance(pair, Sequence) and len(pair) == 2 and all(_is_count(side) and side <= _MAX_COUNT for side in pair):
        return (int(pair[0]), int(pair[1]))
    raise ValueError(f"image_size={size!r}: expected (height, width) in pixels, both at least 1, or one int")


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 1)
