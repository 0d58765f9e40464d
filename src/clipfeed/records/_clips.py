"""A clip on its way from a plan to a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, IndexArray, Interpolation, MaskArray
from clipfeed.records._videos import Failure, VideoRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """How decoded frames become frames of the clip.

    Steps: one swscale pass to (`scaled_height`, `scaled_width`) in the stored orientation; a counter-clockwise turn by
    `rotation`; a crop of (`height`, `width`) at most, starting at (`crop_top`, `crop_left`); black around it from
    (`pad_top`, `pad_left`) on.

    Attributes:
        scaled_height: Rows after the resize, before rotation.
        scaled_width: Columns after the resize, before rotation.
        rotation: Counter-clockwise turn in degrees, after the resize.
        crop_top: First row of the turned picture that is kept.
        crop_left: First column of the turned picture that is kept.
        pad_top: Row of the clip's frame where the picture begins.
        pad_left: Column of the clip's frame where the picture begins.
        height: Rows of the clip's frames.
        width: Columns of the clip's frames.
        num_channels: 3 (RGB) or 1 (gray).
        interpolation: Filter of the resize.
    """

    scaled_height: int
    scaled_width: int
    rotation: Literal[0, 90, 180, 270] = 0
    crop_top: int = 0
    crop_left: int = 0
    pad_top: int = 0
    pad_left: int = 0
    height: int
    width: int
    num_channels: Literal[1, 3] = 3
    interpolation: Interpolation = "bilinear"

    @property
    def turned_size(self) -> tuple[int, int]:
        """(height, width) after the resize and the turn, as the decoder hands frames out."""
        size = (self.scaled_height, self.scaled_width)
        return size[::-1] if self.rotation in (90, 270) else size


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipPlan:
    """The frames of one clip, without pixels: printable, replayable, small.

    Attributes:
        record: The row the clip comes from.
        frame_indices: (T,) int64 in [0, record.info.num_frames), counted from the video's first frame.
        mask: (T,) bool, False where a frame repeats another because the video is short.
        draw: Which of the row's clips in this epoch, from 0.
    """

    record: VideoRecord
    frame_indices: IndexArray = field(compare=False)
    mask: MaskArray = field(compare=False)
    draw: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A plan with its pixels.

    Attributes:
        plan: Which frames these are.
        frames: (T, H, W, C) uint8 0..255.
        is_damaged: (T,) bool, True where the decoder flagged a frame as damaged, or one that it is built on.
    """

    plan: ClipPlan
    frames: FrameArray = field(compare=False, repr=False)
    is_damaged: NDArray[np.bool_] = field(compare=False)

    @property
    def num_corrupt(self) -> int:
        """How many of the frames are damaged."""
        return int(np.count_nonzero(self.is_damaged))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """B examples, stacked.

    Attributes:
        epoch: The epoch, from 0.
        number: The batch's number in the epoch, from 0.
        clips: (B, T, H, W, C) uint8 0..255.
        labels: (B,) int32, or (B, C) float32, or None without labels.
        weights: (B,) float32; 0 on rows that stand for nothing (padding, failed clips).
        paths: One path a row; "" on padding rows.
        frame_indices: (B, T) int64.
        mask: (B, T) bool, False on padding.
        failures: Clips that were left out of this batch, and why.
    """

    epoch: int
    number: int
    clips: FrameArray = field(compare=False, repr=False)
    labels: NDArray[np.int32] | NDArray[np.float32] | None = field(compare=False)
    weights: NDArray[np.float32] = field(compare=False)
    paths: tuple[str, ...]
    frame_indices: IndexArray = field(compare=False, repr=False)
    mask: MaskArray = field(compare=False, repr=False)
    failures: tuple[Failure, ...] = ()

    def __post_init__(self) -> None:
        rows = {len(self.clips), len(self.weights), len(self.paths), len(self.frame_indices), len(self.mask)}
        if self.labels is not None:
            rows.add(len(self.labels))
        if len(rows) != 1:
            raise ValueError(f"a batch needs as many labels, weights and paths as clips, got sizes {sorted(rows)}")

    def __len__(self) -> int:
        return len(self.clips)
