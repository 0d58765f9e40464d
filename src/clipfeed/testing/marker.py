"""Frames whose pixels spell their own number.

A picture has bars for the frame number, bars for the video's number, and a reference that says what "black" and "white"
are after coding, resizing and scaling. So a test can ask any frame, clip or batch which frame of which video it shows,
and needs no decoder of ours to know the answer. Nothing here opens a file.

    rows 0 to 1/2      frame number, 10 bars, highest bit on the left, white is 1
    rows 1/2 to 3/4    video number, 12 bars
    rows 3/4 to 7/8    reference: left half black, right half white
    rows 7/8 to 1      coloured ramps that move from frame to frame: red falls to the right where green rises
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, IndexArray

__all__ = [
    "MAX_FRAME_NUMBER",
    "MAX_VIDEO_NUMBER",
    "paint_numbered_frame",
    "read_frame_number",
    "read_frame_numbers",
    "read_video_number",
    "read_video_numbers",
]

NUM_FRAME_BARS = 10
NUM_VIDEO_BARS = 12
MAX_FRAME_NUMBER = 2**NUM_FRAME_BARS - 1
MAX_VIDEO_NUMBER = 2**NUM_VIDEO_BARS - 1

# First and last row of each strip, as fractions of the height.
_FRAME_STRIP = (Fraction(0), Fraction(1, 2))
_VIDEO_STRIP = (Fraction(1, 2), Fraction(3, 4))
_REFERENCE_STRIP = (Fraction(3, 4), Fraction(7, 8))
_RAMP_STRIP = (Fraction(7, 8), Fraction(1))

# A bar must be this far from the middle between black and white, as a fraction of their distance. Coding at the lowest
# quality used here moves a bar by about 0.1; a blend of two frames lands in the middle.
_CLEAR = 0.15


def paint_numbered_frame(number: int, size: tuple[int, int] = (96, 160), *, video_number: int = 0) -> FrameArray:
    """Paint the picture that spells a frame number and a video number.

    Args:
        number: Frame number in [0, `MAX_FRAME_NUMBER`].
        size: (height, width) in pixels; (24, 24) is about the smallest that survives lossy coding.
        video_number: Which video this is, in [0, `MAX_VIDEO_NUMBER`].

    Returns:
        (H, W, 3) uint8.

    Raises:
        ValueError: For a number that the bars cannot spell.
    """
    height, width = size
    frame = np.zeros((height, width, 3), np.uint8)
    _paint_bars(frame, _FRAME_STRIP, number, NUM_FRAME_BARS)
    _paint_bars(frame, _VIDEO_STRIP, video_number, NUM_VIDEO_BARS)
    _paint_bars(frame, _REFERENCE_STRIP, 1, 2)
    _paint_ramps(frame, number, video_number)
    return frame


def read_frame_number(frame: NDArray[Any]) -> int:
    """Read the frame number out of one picture.

    Args:
        frame: (H, W, C) or (H, W), upright, of any size down to about 24 x 24; uint8, or float in any linear range such
            as 0..1, -1..1 or 0..255.

    Raises:
        ValueError: If the bars cannot be read: not a numbered frame, or one that is damaged, blended, or turned.
    """
    return int(read_frame_numbers(_with_channel_axis(frame)))


def read_frame_numbers(frames: NDArray[Any]) -> IndexArray:
    """Read the frame number of each picture of a clip or batch.

    Args:
        frames: (..., H, W, C) uint8 or float, channels last.

    Returns:
        (...) int64: one number a picture.

    Raises:
        ValueError: If any picture cannot be read.
    """
    return _read_bars(frames, _FRAME_STRIP, NUM_FRAME_BARS)


def read_video_number(frame: NDArray[Any]) -> int:
    """Read the number of the video that one picture, (H, W, C) or (H, W), comes from.

    Raises:
        ValueError: If the bars cannot be read.
    """
    return int(read_video_numbers(_with_channel_axis(frame)))


def read_video_numbers(frames: NDArray[Any]) -> IndexArray:
    """Read the video number of each picture of a clip or batch: (..., H, W, C) to (...) int64.

    Raises:
        ValueError: If any picture cannot be read.
    """
    return _read_bars(frames, _VIDEO_STRIP, NUM_VIDEO_BARS)


def _paint_bars(frame: FrameArray, strip: tuple[Fraction, Fraction], number: int, num_bars: int) -> None:
    if not 0 <= number < 2**num_bars:
        raise ValueError(f"number={number}: {num_bars} bars spell 0 to {2**num_bars - 1}")
    height, width = frame.shape[:2]
    top, bottom = (round(edge * height) for edge in strip)
    for bar in range(num_bars):
        if number >> (num_bars - 1 - bar) & 1:
            frame[top:bottom, round(bar * width / num_bars) : round((bar + 1) * width / num_bars)] = 255


def _paint_ramps(frame: FrameArray, number: int, video_number: int) -> None:
    """Give each picture colours of its own: motion for the encoders, and something to see when channels are swapped."""
    height, width = frame.shape[:2]
    rising = (np.arange(width) * 256 // width + 8 * number) % 256
    top, bottom = (round(edge * height) for edge in _RAMP_STRIP)
    frame[top:bottom, :, 0] = 255 - rising
    frame[top:bottom, :, 1] = rising
    frame[top:bottom, :, 2] = video_number * 37 % 256


def _read_bars(frames: NDArray[Any], strip: tuple[Fraction, Fraction], num_bars: int) -> IndexArray:
    black, white = np.moveaxis(_bar_levels(frames, _REFERENCE_STRIP, 2), -1, 0)
    contrast = white - black
    if not np.all(contrast > 0):
        raise ValueError("no numbered frame: the reference at the bottom is not black on the left, white on the right")
    levels = (_bar_levels(frames, strip, num_bars) - black[..., None]) / contrast[..., None]
    if np.any(unclear := np.abs(levels - 0.5) < _CLEAR):
        bar = tuple(int(place) for place in np.argwhere(unclear)[0])
        raise ValueError(f"a bar is neither black nor white: bar {bar[-1]} of frame {bar[:-1]} is {levels[bar]:.2f}")
    weights = 2 ** np.arange(num_bars - 1, -1, -1, dtype=np.int64)
    return np.asarray((levels > 0.5) @ weights, np.int64)


def _bar_levels(frames: NDArray[Any], strip: tuple[Fraction, Fraction], num_bars: int) -> NDArray[np.float64]:
    """Mean of the middle of each bar, (..., num_bars): edges are left out, as coding and resizing blur them."""
    height, width = frames.shape[-3:-1]
    top, bottom = _middle(strip[0] * height, strip[1] * height)
    columns = [
        _middle(Fraction(bar * width, num_bars), Fraction((bar + 1) * width, num_bars)) for bar in range(num_bars)
    ]
    bars = [frames[..., top:bottom, left:right, :].mean(axis=(-3, -2, -1), dtype=np.float64) for left, right in columns]
    return np.stack(bars, axis=-1)


def _middle(start: Fraction, end: Fraction) -> tuple[int, int]:
    """Whole pixels of the middle half of [start, end), at least one."""
    first = round(start + (end - start) / 4)
    last = round(end - (end - start) / 4)
    centre = int((start + end) / 2)
    return (first, last) if last > first else (centre, centre + 1)


def _with_channel_axis(frame: NDArray[Any]) -> NDArray[Any]:
    return frame[..., None] if frame.ndim == 2 else frame
