"""Names for the arrays and closed choices that travel through the package.

Axes and ranges cannot be said in a type, so each alias says them here, and docstrings again where it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FrameArray: TypeAlias = NDArray[np.uint8]
"""(H, W, C) one frame, (T, H, W, C) a clip, or (B, T, H, W, C) a batch; uint8 0..255, RGB or gray."""

IndexArray: TypeAlias = NDArray[np.int64]
"""(n,) int64: frame indices, row numbers or example numbers, counted from 0."""

MaskArray: TypeAlias = NDArray[np.bool_]
"""(T,) or (B, T) bool: True where a frame is real, False where it is padding."""

StrPath: TypeAlias = str | PathLike[str]

Options: TypeAlias = Mapping[str, str]

LabelMode: TypeAlias = Literal["int", "categorical", "binary"]
ColorMode: TypeAlias = Literal["rgb", "grayscale"]
Interpolation: TypeAlias = Literal["nearest", "bilinear", "bicubic", "area", "lanczos3", "gaussian"]
Aspect: TypeAlias = Literal["stretch", "crop", "pad"]
ShortVideos: TypeAlias = Literal["drop", "repeat_last", "wrap", "error"]
DataFormat: TypeAlias = Literal["channels_last", "channels_first"]
Stage: TypeAlias = Literal[
    "find", "probe", "index", "split", "sample", "decode", "cache", "batch", "deliver", "learn", "transcode"
]
