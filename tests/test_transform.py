"""Geometry, crop, pad and value range."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed.records import ClipSpec, Geometry, VideoInfo
from clipfeed.transform import (
    aspect_of,
    check_value_range,
    geometry_of,
    needs_place,
    place,
    to_value_range,
)


def info_of(height: int, width: int, *, rotation: int = 0, pixel_aspect: Fraction = Fraction(1)) -> VideoInfo:
    return VideoInfo(
        container="mov",
        codec="h264",
        stream_index=0,
        width=width,
        height=height,
        rotation=rotation,
        sample_aspect_ratio=pixel_aspect,
    )


def spec_of(height: int, width: int, aspect: str = "stretch") -> ClipSpec:
    return ClipSpec(image_size=(height, width), aspect=aspect)


def test_stretch_resizes_to_the_clips_size_whatever_the_shape() -> None:
    geometry = geometry_of(info_of(240, 320), spec_of(64, 48))
    assert (geometry.scaled_height, geometry.scaled_width) == (64, 48)
    assert not needs_place(geometry)


def test_stretch_of_a_sideways_picture_resizes_in_the_stored_orientation() -> None:
    geometry = geometry_of(info_of(240, 320, rotation=90), spec_of(64, 48))
    assert (geometry.scaled_height, geometry.scaled_width) == (48, 64)
    assert geometry.turned_size == (64, 48)
    assert not needs_place(geometry)


def test_crop_keeps_the_largest_centred_part_of_the_clips_shape() -> None:
    geometry = geometry_of(info_of(240, 320), spec_of(60, 60, "crop"))
    assert geometry.turned_size == (60, 80)
    assert (geometry.crop_top, geometry.crop_left) == (0, 10)
    assert (geometry.pad_top, geometry.pad_left) == (0, 0)


def test_pad_keeps_the_whole_picture_centred() -> None:
    geometry = geometry_of(info_of(240, 320), spec_of(80, 80, "pad"))
    assert geometry.turned_size == (60, 80)
    assert (geometry.pad_top, geometry.pad_left) == (10, 0)
    assert (geometry.crop_top, geometry.crop_left) == (0, 0)


def test_pixels_that_are_not_square_count_when_the_shape_is_kept() -> None:
    wide = info_of(96, 160, pixel_aspect=Fraction(2))
    assert geometry_of(wide, spec_of(96, 320, "pad")).turned_size == (96, 320)
    assert geometry_of(wide, spec_of(96, 96, "crop")).turned_size == (96, 320)
    assert geometry_of(wide, spec_of(96, 160)).turned_size == (96, 160)


def test_a_turned_picture_is_cropped_and_padded_upright() -> None:
    sideways = info_of(240, 320, rotation=270)
    padded = geometry_of(sideways, spec_of(80, 80, "pad"))
    assert padded.turned_size == (80, 60)
    assert (padded.scaled_height, padded.scaled_width) == (60, 80)
    assert (padded.pad_top, padded.pad_left) == (0, 10)
    cropped = geometry_of(sideways, spec_of(60, 60, "crop"))
    assert cropped.turned_size == (80, 60)
    assert (cropped.crop_top, cropped.crop_left) == (10, 0)


def test_channels_and_filter_come_from_the_spec() -> None:
    geometry = geometry_of(info_of(10, 10), ClipSpec(color_mode="grayscale", interpolation="area"))
    assert (geometry.num_channels, geometry.interpolation) == (1, "area")
    assert geometry_of(info_of(10, 10), ClipSpec()).num_channels == 3


@settings(deadline=None)
@given(
    height=st.integers(1, 5000),
    width=st.integers(1, 5000),
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    rotation=st.sampled_from([0, 90, 180, 270]),
    pixel_aspect=st.fractions(Fraction(1, 100), Fraction(100), max_denominator=100),
    aspect=st.sampled_from(["stretch", "crop", "pad"]),
)
def test_every_geometry_fills_the_clip_and_has_no_empty_side(
    height: int, width: int, size: tuple[int, int], rotation: int, pixel_aspect: Fraction, aspect: str
) -> None:
    info = info_of(height, width, rotation=rotation, pixel_aspect=pixel_aspect)
    geometry = geometry_of(info, spec_of(*size, aspect))
    assert min(geometry.scaled_height, geometry.scaled_width) >= 1
    assert max(geometry.scaled_height, geometry.scaled_width) <= 65_535
    for turned, kept, crop, pad in zip(
        geometry.turned_size,
        size,
        (geometry.crop_top, geometry.crop_left),
        (geometry.pad_top, geometry.pad_left),
        strict=True,
    ):
        assert crop == 0 or pad == 0
        assert turned >= kept if aspect == "crop" else turned <= kept
        assert crop + kept <= turned or aspect != "crop"
        assert pad + turned <= kept or aspect == "crop"
        # Centred, to within the one pixel that an odd rest leaves over.
        assert abs((turned - crop - kept) - crop) <= 1 or aspect != "crop"
        assert abs((kept - pad - turned) - pad) <= 1 or aspect == "crop"


@settings(deadline=None)
@given(height=st.integers(16, 2000), width=st.integers(16, 2000), side=st.integers(16, 300))
def test_crop_and_pad_keep_the_shape_to_half_a_pixel(height: int, width: int, side: int) -> None:
    for aspect in ("crop", "pad"):
        turned = geometry_of(info_of(height, width), spec_of(side, side, aspect)).turned_size
        exact = [Fraction(size * side, (min if aspect == "crop" else max)(height, width)) for size in (height, width)]
        assert all(abs(got - want) <= Fraction(1, 2) or got == 1 for got, want in zip(turned, exact, strict=True))


def test_place_cuts_the_centre() -> None:
    frames = np.arange(2 * 6 * 8 * 3, dtype=np.uint8).reshape(2, 6, 8, 3)
    geometry = Geometry(scaled_height=6, scaled_width=8, crop_top=1, crop_left=2, height=4, width=4)
    out = np.full((2, 4, 4, 3), 77, np.uint8)
    place(frames, geometry, out)
    np.testing.assert_array_equal(out, frames[:, 1:5, 2:6])


def test_place_puts_black_around_and_nothing_else() -> None:
    frames = np.full((2, 3, 8, 1), 200, np.uint8)
    geometry = Geometry(scaled_height=3, scaled_width=8, pad_top=2, height=8, width=8, num_channels=1)
    out = np.full((2, 8, 8, 1), 77, np.uint8)
    place(frames, geometry, out)
    assert (out[:, 2:5] == 200).all()
    assert (out[:, :2] == 0).all()
    assert (out[:, 5:] == 0).all()


@pytest.mark.parametrize(("dtype", "value_range"), [("float32", None), ("float32", (0, 255)), ("float32", (-1, 1))])
def test_float_values_follow_the_formula_bit_for_bit(dtype: str, value_range: tuple[float, float] | None) -> None:
    pixels = np.arange(256, dtype=np.uint8)
    low, high = (np.float32(end) for end in (value_range or (0, 1)))
    expected = [low + (np.float32(x) / np.float32(255)) * (high - low) for x in pixels]
    values = to_value_range(pixels, dtype, value_range)
    assert values.dtype == np.float32
    assert values.tobytes() == np.array(expected, np.float32).tobytes()


@settings(deadline=None)
@given(low=st.floats(-300, 300, width=32), high=st.floats(-300, 300, width=32))
def test_any_range_follows_the_formula_in_both_float_types(low: float, high: float) -> None:
    if low == high:
        return
    pixels = np.arange(256, dtype=np.uint8)
    ends = (np.float32(low), np.float32(high))
    expected = ends[0] + (pixels.astype(np.float32) / np.float32(255)) * (ends[1] - ends[0])
    np.testing.assert_array_equal(to_value_range(pixels, "float32", (low, high)), expected)
    np.testing.assert_array_equal(to_value_range(pixels, "float16", (low, high)), expected.astype(np.float16))


def test_the_usual_range_ends_at_0_and_1_exactly() -> None:
    values = to_value_range(np.array([[0, 255]], np.uint8))
    assert values.tolist() == [[0.0, 1.0]]
    assert to_value_range(np.array([0, 255], np.uint8), "float16", (-1, 1)).tolist() == [-1.0, 1.0]


def test_uint8_stays_untouched_and_is_not_copied() -> None:
    pixels = np.arange(256, dtype=np.uint8)
    assert to_value_range(pixels, "uint8") is pixels


def test_the_pixels_given_are_never_written_to() -> None:
    pixels = np.arange(256, dtype=np.uint8)
    to_value_range(pixels, "float32", (-1, 1))
    np.testing.assert_array_equal(pixels, np.arange(256))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "value_range",
    [
        (0, 0), (0,), (0, 1, 2), "01x", (0, float("nan")), (float("nan"), 0), (0, float("inf")), (0, 1e39), 3,
        (float("-inf"), float("inf")), (0, 10**400), (-3e38, 3e38), (1, 1 + 1e-12),
    ],
)  # fmt: skip
def test_a_range_that_is_none_is_refused_with_its_value(value_range: object, dtype: str) -> None:
    with pytest.raises(ValueError, match="value_range="):
        check_value_range(dtype, value_range)


@pytest.mark.parametrize("value_range", [(0, 1e5), (-65_505, 0), (1e5, 2e5), (70_000, -70_000)])
def test_a_range_beyond_the_largest_float16_is_refused_for_it_alone(value_range: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"value_range=.*'float16'.*65504"):
        check_value_range("float16", value_range)
    assert check_value_range("float32", value_range) == value_range


@settings(deadline=None)
@given(ends=st.tuples(*[st.floats(allow_nan=False)] * 2), dtype=st.sampled_from(["float32", "float16"]))
def test_a_range_that_is_accepted_gives_finite_values(ends: tuple[float, float], dtype: str) -> None:
    pixels = np.arange(256, dtype=np.uint8)
    try:
        values = to_value_range(pixels, dtype, ends)
    except ValueError:
        return
    assert np.isfinite(values).all()


def test_a_range_with_uint8_and_an_unknown_dtype_are_refused() -> None:
    with pytest.raises(ValueError, match="uint8"):
        check_value_range("uint8", (0, 1))
    with pytest.raises(ValueError, match=r"dtype='float64'.*float32"):
        check_value_range("float64", None)


def test_both_aspect_flags_are_refused() -> None:
    with pytest.raises(ValueError, match="pad_to_aspect_ratio"):
        aspect_of(crop_to_aspect_ratio=True, pad_to_aspect_ratio=True)
    with pytest.raises(ValueError, match="crop_to_aspect_ratio='no': expected True or False"):
        aspect_of(crop_to_aspect_ratio="no", pad_to_aspect_ratio=False)
    with pytest.raises(ValueError, match="pad_to_aspect_ratio=1: expected True or False"):
        aspect_of(crop_to_aspect_ratio=np.True_, pad_to_aspect_ratio=1)
    assert aspect_of(crop_to_aspect_ratio=False, pad_to_aspect_ratio=False) == "stretch"
    assert aspect_of(crop_to_aspect_ratio=True, pad_to_aspect_ratio=False) == "crop"
    assert aspect_of(crop_to_aspect_ratio=False, pad_to_aspect_ratio=True) == "pad"
