"""From the user's choices to a geometry, and the crop, black border and value range around it.

The decoder resizes in its one pass; what is left is slicing and copying whole clips. Nothing here opens a file or knows
how frames were decoded. `decode` stands before, `batch` and `deliver` after.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import Aspect, FrameArray
from clipfeed.clock import staged
from clipfeed.records import ClipSpec, Geometry, VideoInfo, check_choice, checked_flag

__all__ = [
    "DTYPES",
    "DType",
    "aspect_of",
    "check_value_range",
    "geometry_of",
    "needs_place",
    "place",
    "to_value_range",
]

DType: TypeAlias = Literal["float32", "float16", "uint8"]
DTYPES: tuple[DType, ...] = ("float32", "float16", "uint8")

# A crop resizes the whole picture, so a strip of 1,000 to 1 would become far wider than the clip. Beyond this many
# pixels a side gives way and the strip is squeezed; swscale itself ends at 65,535.
_MAX_SCALED_SIDE = 16_384


def aspect_of(*, crop_to_aspect_ratio: bool, pad_to_aspect_ratio: bool) -> Aspect:
    """Turn Keras's two flags into the one choice they are.

    Raises:
        ValueError: If both are set, or one is no flag.
    """
    is_cropped = checked_flag("crop_to_aspect_ratio", crop_to_aspect_ratio)
    is_padded = checked_flag("pad_to_aspect_ratio", pad_to_aspect_ratio)
    if is_cropped and is_padded:
        raise ValueError("crop_to_aspect_ratio=True and pad_to_aspect_ratio=True: expected one of them at most")
    if is_cropped:
        return "crop"
    return "pad" if is_padded else "stretch"


def geometry_of(info: VideoInfo, spec: ClipSpec) -> Geometry:
    """Say how a video's frames become frames of the clip.

    stretch: the whole picture, resized to the clip's size whatever its shape.
    crop:    the largest centred part of the clip's shape, as Keras's `crop_to_aspect_ratio`.
    pad:     the whole picture as large as it fits, centred on black.

    Crop and pad keep the shape that a viewer sees: pixels that are not square and turned pictures are accounted for.

    Args:
        info: Coded size, sample aspect ratio and rotation of the video.
        spec: Size, aspect, color mode and interpolation of the clip.

    Returns:
        A geometry with no empty side, however long and thin the video.
    """
    height, width = spec.size
    picture = {"stretch": spec.size, "crop": _covering(info, spec.size), "pad": _fitting(info, spec.size)}[spec.aspect]
    is_sideways = info.rotation in (90, 270)
    scaled_height, scaled_width = picture[::-1] if is_sideways else picture
    return Geometry(
        scaled_height=scaled_height,
        scaled_width=scaled_width,
        rotation=info.rotation,
        crop_top=max(0, picture[0] - height) // 2,
        crop_left=max(0, picture[1] - width) // 2,
        pad_top=max(0, height - picture[0]) // 2,
        pad_left=max(0, width - picture[1]) // 2,
        height=height,
        width=width,
        num_channels=3 if spec.color_mode == "rgb" else 1,
        interpolation=spec.interpolation,
    )


def needs_place(geometry: Geometry) -> bool:
    """True where decoded frames are not yet frames of the clip: there is something to crop or pad."""
    return geometry.turned_size != (geometry.height, geometry.width)


@staged("assemble")
def place(frames: FrameArray, geometry: Geometry, out: FrameArray) -> None:
    """Crop decoded frames, or put black around them.

    Args:
        frames: (T, *geometry.turned_size, C) uint8, as a decoder gives them.
        geometry: Where to crop and pad.
        out: (T, H, W, C) uint8 to write into.
    """
    kept = frames[
        :,
        geometry.crop_top : geometry.crop_top + geometry.height,
        geometry.crop_left : geometry.crop_left + geometry.width,
    ]
    height, width = kept.shape[1:3]
    if (height, width) != (geometry.height, geometry.width):
        out[...] = 0
    out[:, geometry.pad_top : geometry.pad_top + height, geometry.pad_left : geometry.pad_left + width] = kept


def check_value_range(dtype: str, value_range: tuple[float, float] | None) -> tuple[float, float] | None:
    """Give (low, high) of a dtype's values, None where they stay 0..255 untouched.

    Raises:
        ValueError: For another dtype, a range with "uint8", or anything but two numbers that differ and that the dtype
            can hold, and float32 their difference: what lies beyond becomes infinity.
    """
    check_choice("dtype", dtype, DTYPES)
    if dtype == "uint8":
        if value_range is not None:
            raise ValueError(f'value_range={value_range!r}: dtype="uint8" is 0..255 untouched; expected None')
        return None
    if value_range is None:
        return (0.0, 1.0)
    try:
        low, high = (float(end) for end in value_range)
    except (TypeError, ValueError, OverflowError):
        low = high = np.nan
    most, most_on_the_way = (float(np.finfo(kind).max) for kind in (dtype, np.float32))
    fits = max(abs(low), abs(high)) <= most and abs(high - low) <= most_on_the_way
    if not fits or np.float32(low) == np.float32(high):
        apart = f", at most {most:g} apart" if dtype == "float32" else ""
        raise ValueError(
            f"value_range={value_range!r}: expected two different numbers (low, high) that dtype={dtype!r} can hold, "
            f"from {-most:g} to {most:g}{apart}; or None for (0, 1)"
        )
    return (low, high)


def to_value_range(
    frames: FrameArray, dtype: str = "float32", value_range: tuple[float, float] | None = None
) -> NDArray[Any]:
    """Turn uint8 pixels into the numbers a model eats: `low + (x / 255) * (high - low)` in float32, then cast.

    The three operations are done one by one, each rounded to float32: that is what NumPy, PyTorch and `tf.data` compute
    alike. XLA and the graph optimiser of `tf.function` do not (they multiply by 1 / 255, which rounds half of the 256
    values differently), so JAX gets its floats from here.

    Args:
        frames: uint8 of any shape.
        dtype: "float32", "float16", or "uint8" for the frames as they are.
        value_range: (low, high) that 0 and 255 become; None is (0, 1) for floats.

    Returns:
        An array of the frames' shape and the dtype; `frames` itself for "uint8".

    Raises:
        ValueError: As `check_value_range`.
    """
    ends = check_value_range(dtype, value_range)
    if ends is None:
        return frames
    low, high = np.float32(ends[0]), np.float32(ends[1])
    values = np.divide(frames, np.float32(255), dtype=np.float32)
    # Adding 0 and multiplying by 1 change no bit, so the usual range is one pass over memory.
    if high - low != 1:
        values *= high - low
    if low != 0:
        values += low
    return values if dtype == "float32" else values.astype(dtype)


def _covering(info: VideoInfo, size: tuple[int, int]) -> tuple[int, int]:
    """(height, width) of the smallest picture of the video's shape that covers `size`."""
    seen_height, seen_width = _seen_size(info)
    scale = max(size[0] / seen_height, size[1] / seen_width)
    return _side(seen_height * scale, at_least=size[0]), _side(seen_width * scale, at_least=size[1])


def _fitting(info: VideoInfo, size: tuple[int, int]) -> tuple[int, int]:
    """(height, width) of the largest picture of the video's shape that fits into `size`."""
    seen_height, seen_width = _seen_size(info)
    scale = min(size[0] / seen_height, size[1] / seen_width)
    return max(1, round(seen_height * scale)), max(1, round(seen_width * scale))


def _side(length: Fraction, *, at_least: int) -> int:
    return max(at_least, min(round(length), _MAX_SCALED_SIDE))


def _seen_size(info: VideoInfo) -> tuple[Fraction, Fraction]:
    """(height, width) of the upright picture in square pixels, not rounded."""
    height, width = Fraction(info.height), info.width * info.sample_aspect_ratio
    return (width, height) if info.rotation in (90, 270) else (height, width)
