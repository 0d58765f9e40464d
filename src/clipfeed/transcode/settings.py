"""What the result of a re-encoding looks like: the user's choices, checked, and those that are made for all.

Nothing here encodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np

from clipfeed.records import VideoInfo

__all__ = ["CODEC", "PIXEL_FORMAT", "Settings", "result_size"]

CODEC, PIXEL_FORMAT = "libx264", "yuv420p"

# Measured on 7 clips of HMDB51, UCF101 and Kinetics. `fastdecode` (no CABAC, no deblocking, no weighted prediction)
# halves the time of decoding for 8 % more bytes. B-frames save 7 % of bytes and decode no faster; without them packets
# lie in the order of frames, so that seeking and dropping by the table of samples is exact. Macroblock tree would save
# 10 % of bytes, but one encoding in 20 of the same video came out otherwise, where 250 without it were all alike.
_ENCODER = {
    "preset": "veryfast",
    "tune": "fastdecode",
    "bf": "0",
    "sc_threshold": "0",
    "flags": "+cgop",
    "a53cc": "0",
    "x264-params": "mbtree=0:rc-lookahead=0",
}
_MUXER = {"movflags": "+faststart"}

_RULES = 1  # raised when the same choices come to mean another result
_MAX_SIDE = 16_384  # of H.264 in libx264
_MAX_CRF = 51


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a result looks like.

    Attributes:
        short_side: Most rows or columns, whichever are fewer, pixels; at least 2.
        gop: Frames from one key frame to the next, at least 1.
        crf: Constant rate factor of x264, 0 (lossless) to 51.

    Raises:
        ValueError: For a value that no video can have.
    """

    short_side: int = 256
    gop: int = 16
    crf: int = 21

    def __post_init__(self) -> None:
        for name, least, most in (("short_side", 2, _MAX_SIDE), ("gop", 1, 2**15), ("crf", 0, _MAX_CRF)):
            object.__setattr__(self, name, _checked_number(name, getattr(self, name), least, most))

    @property
    def codec_options(self) -> Mapping[str, str]:
        """Options of the encoder."""
        return {**_ENCODER, "crf": str(self.crf), "g": str(self.gop), "keyint_min": str(self.gop)}

    @property
    def container_options(self) -> Mapping[str, str]:
        """Options of the muxer: the table of samples comes first, where a reader looks."""
        return _MUXER

    def as_dict(self) -> dict[str, int]:
        """What decides a result, by name: two results of equal fields need not be made twice."""
        return {**asdict(self), "rules": _RULES}


def result_size(info: VideoInfo, short_side: int) -> tuple[int, int]:
    """Give (height, width) of the result: upright, in square pixels, even, at most `short_side`, never enlarged.

    A side of one pixel becomes two: 4:2:0 has no less.

    Args:
        info: Coded size, sample aspect ratio and rotation.
        short_side: Most pixels of the shorter side.
    """
    sides = info.display_size
    scale = min(Fraction(1), Fraction(short_side, min(sides)), Fraction(_MAX_SIDE, max(sides)))
    height, width = (_even_side(side * scale, most=short_side if side == min(sides) else side) for side in sides)
    return height, width


def _even_side(length: Fraction, *, most: int) -> int:
    """Round to the nearest even number that is no more than allowed, and at least 2."""
    nearest = 2 * round(length / 2)
    return max(2, nearest if nearest <= most else nearest - 2)


def _checked_number(name: str, value: object, least: int, most: int) -> int:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or not least <= value <= most:  # type: ignore[operator]  # it is a number where it is compared
        raise ValueError(f"{name}={value!r}: expected a whole number from {least} to {most}")
    return int(value)  # type: ignore[call-overload, no-any-return]
