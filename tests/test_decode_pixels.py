"""Colour, size and turn of one decoded frame."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import get_args

import av
import av.filter
import numpy as np
import pytest
from av.video.reformatter import Colorspace, VideoReformatter

from clipfeed._types import Interpolation
from clipfeed.decode import pixel_facts, pixels, reformat_arguments
from clipfeed.decode.pixels import write_picture
from clipfeed.records import Geometry
from clipfeed.testing import (
    PATCH_COLOURS,
    Encoding,
    paint_numbered_frame,
    read_frame_number,
    read_patches,
    write_colour_patches,
    write_frames,
)

RED = (200, 40, 40)
LUMA_OF_RED = 87.9  # 0.299 * 200 + 0.587 * 40 + 0.114 * 40


def geometry_to(height: int, width: int, **choices: object) -> Geometry:
    return Geometry(scaled_height=height, scaled_width=width, height=height, width=width, **choices)


def picture_of(frame: av.VideoFrame, geometry: Geometry) -> np.ndarray:
    out = np.full((*geometry.turned_size, geometry.num_channels), 77, np.uint8)
    write_picture(frame, geometry, VideoReformatter(), out)
    return out


def frame_of(pixels: np.ndarray, pixel_format: str = "yuv420p") -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    # One thread: several leave seams when they make 10-bit pictures of an odd height.
    return VideoReformatter().reformat(frame, format=pixel_format, threads=1)


def plain_frame(height: int, width: int, pixel_format: str = "yuv420p") -> av.VideoFrame:
    return frame_of(np.full((height, width, 3), RED, np.uint8), pixel_format)


def first_frame(path: Path) -> av.VideoFrame:
    with av.open(str(path)) as video:
        return next(video.decode(video=0))


@pytest.mark.parametrize("codec", ["libx264", "libvpx-vp9"])
@pytest.mark.parametrize("color_range", ["tv", "pc"])
@pytest.mark.parametrize("color_matrix", ["bt601", "bt709"])
def test_tagged_colours_are_right_at_source_size_and_resized_f2(
    tmp_path: Path, codec: str, color_range: str, color_matrix: str
) -> None:
    path = write_colour_patches(tmp_path / "a.mkv", color_range=color_range, color_matrix=color_matrix, codec=codec)
    frame = first_frame(path)
    for size in ((96, 160), (64, 64), (90, 200)):
        patches = read_patches(picture_of(frame, geometry_to(*size))).astype(int)
        assert np.abs(patches - PATCH_COLOURS).max() <= 4, size
        gray = picture_of(frame, geometry_to(*size, num_channels=1))
        luma = np.array(PATCH_COLOURS) @ (0.299, 0.587, 0.114)
        assert np.abs(read_patches(gray)[:, 0] - luma).max() <= 3, size


@pytest.mark.parametrize(
    ("size", "matrix"),
    [
        ((576, 1024), Colorspace.ITU601),
        ((96, 1294), Colorspace.ITU601),
        ((720, 1280), Colorspace.ITU709),
        ((1280, 720), Colorspace.ITU709),
    ],
)
def test_an_untagged_matrix_is_bt709_for_hd_and_bt601_below(size: tuple[int, int], matrix: Colorspace) -> None:
    red = av.VideoFrame.from_ndarray(np.full((*size, 3), RED, np.uint8), format="rgb24")
    frame = VideoReformatter().reformat(red, format="yuv444p", dst_colorspace=matrix)
    frame.colorspace = 2  # unspecified
    for target in ((64, 64), size):
        assert np.abs(picture_of(frame, geometry_to(*target)).astype(int) - RED).max() <= 4
        assert np.abs(picture_of(frame, geometry_to(*target, num_channels=1)) - LUMA_OF_RED).max() <= 3


def test_a_tagged_matrix_is_honoured_in_hd() -> None:
    red = av.VideoFrame.from_ndarray(np.full((720, 1280, 3), RED, np.uint8), format="rgb24")
    frame = VideoReformatter().reformat(red, format="yuv444p", dst_colorspace=Colorspace.ITU601)
    assert frame.colorspace == 6
    assert np.abs(picture_of(frame, geometry_to(64, 64)).astype(int) - RED).max() <= 4


def test_red_stays_in_the_first_channel_f1() -> None:
    picture = picture_of(plain_frame(96, 160), geometry_to(64, 64))
    assert (picture[..., 0] > 190).all()
    assert (picture[..., 1:] < 50).all()


@pytest.mark.parametrize("width", [98, 130, 171, 1294])
@pytest.mark.parametrize("num_channels", [1, 3])
def test_the_last_columns_are_no_noise_at_any_width_f3(width: int, num_channels: int) -> None:
    expected = RED if num_channels == 3 else LUMA_OF_RED
    for pixel_format in ("yuv420p", "yuv444p", "gray" if num_channels == 1 else "gbrp"):
        if pixel_format == "gray":
            frame = av.VideoFrame.from_ndarray(np.full((50, width), 88, np.uint8), format="gray")
        else:
            frame = plain_frame(50, width, pixel_format)
        for target in ((50, width), (50, width // 2), (33, width), (64, width + 1)):
            picture = picture_of(frame, geometry_to(*target, num_channels=num_channels))
            assert np.abs(picture[:, -8:].astype(int) - expected).max() <= 4, (pixel_format, target)


@pytest.mark.parametrize(
    "pixel_format",
    [
        "yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuv411p", "yuv420p10le", "yuv422p10le", "yuv444p12le", "nv12",
        "rgb24", "bgr24", "bgra", "gbrp", "gbrp10le", "rgb48le", "yuva420p", "yuva444p10le", "yuyv422",
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [(96, 160), (97, 161), (1, 1)])
def test_any_pixel_format_and_size_gives_its_colour(pixel_format: str, size: tuple[int, int]) -> None:
    frame = plain_frame(*size, pixel_format)
    for target in ((64, 64), size, (7, 5)):
        assert np.abs(picture_of(frame, geometry_to(*target)).astype(int) - RED).max() <= 4, target
        gray = picture_of(frame, geometry_to(*target, num_channels=1))
        assert np.abs(gray - LUMA_OF_RED).max() <= 2, target


def test_paletted_and_transparent_pictures_lose_only_their_alpha() -> None:
    pixels = np.full((40, 50, 4), (*RED, 0), np.uint8)
    pixels[:, 25:, 3] = 128
    frame = av.VideoFrame.from_ndarray(pixels, format="rgba")
    paletted = av.VideoFrame(50, 40, "pal8")
    np.frombuffer(paletted.planes[0], np.uint8)[:] = 3
    np.frombuffer(paletted.planes[1], np.uint32)[:] = 0xFFC82828
    for target in ((40, 50), (20, 20)):
        assert np.abs(picture_of(frame, geometry_to(*target)).astype(int) - RED).max() <= 1
        assert np.abs(picture_of(paletted, geometry_to(*target)).astype(int) - RED).max() <= 1


@pytest.mark.parametrize("num_channels", [1, 3])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_the_turn_is_counter_clockwise_after_the_resize(rotation: int, num_channels: int) -> None:
    upright = paint_numbered_frame(677, (96, 160))
    stored = np.rot90(upright, -rotation // 90)
    for height, width in ((96, 160), (48, 80)):
        scaled = (width, height) if rotation in (90, 270) else (height, width)
        geometry = Geometry(
            scaled_height=scaled[0],
            scaled_width=scaled[1],
            rotation=rotation,
            height=height,
            width=width,
            num_channels=num_channels,
        )
        picture = picture_of(frame_of(stored, "yuv444p"), geometry)
        assert picture.shape == (height, width, num_channels)
        assert read_frame_number(picture) == 677


@pytest.mark.parametrize("interpolation", get_args(Interpolation))
def test_a_fresh_reformatter_with_the_same_arguments_gives_the_same_pixels(interpolation: str) -> None:
    frames = [frame_of(paint_numbered_frame(number, (97, 131)), "yuv422p") for number in (5, 800)]
    reused = VideoReformatter()
    for frame in frames:
        for size in ((97, 131), (64, 64), (130, 200)):
            for num_channels in (1, 3):
                geometry = geometry_to(*size, interpolation=interpolation, num_channels=num_channels)
                out = np.empty((*size, num_channels), np.uint8)
                write_picture(frame, geometry, reused, out)
                fresh = VideoReformatter().reformat(frame, **reformat_arguments(geometry, frame))
                expected = fresh.to_ndarray(format="rgb24") if num_channels == 3 else fresh.to_ndarray()[..., None]
                np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuvj420p", "yuv444p", "nv12", "yuv420p10le", "gbrp", "bgra"])
def test_pixels_at_source_size_are_those_of_to_ndarray_whatever_the_filter(pixel_format: str) -> None:
    frame = frame_of(paint_numbered_frame(341, (97, 160)), pixel_format)
    for interpolation in ("bilinear", "lanczos3"):
        picture = picture_of(frame, geometry_to(97, 160, interpolation=interpolation))
        np.testing.assert_array_equal(picture, frame.to_ndarray(format="rgb24", threads=1))


@pytest.mark.parametrize("interpolation", [choice for choice in get_args(Interpolation) if choice != "nearest"])
def test_shrinking_averages_instead_of_picking_pixels(interpolation: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 1), np.uint8).repeat(3, axis=2)
    frame = frame_of(noise, "yuv444p")
    picked = picture_of(frame, geometry_to(60, 80, interpolation="nearest"))
    averaged = picture_of(frame, geometry_to(60, 80, interpolation=interpolation))
    assert picked.std() > 60
    assert averaged.std() < 0.4 * picked.std()


def test_resized_colours_are_as_sharp_as_the_picture() -> None:
    """Without full chroma, two neighbouring columns would share their colour."""
    stripes = np.zeros((64, 256, 3), np.uint8)
    stripes[:, 0::8] = stripes[:, 1::8] = stripes[:, 2::8] = stripes[:, 3::8] = (255, 0, 0)
    stripes[:, 4::8] = stripes[:, 5::8] = stripes[:, 6::8] = stripes[:, 7::8] = (0, 0, 255)
    picture = picture_of(frame_of(stripes, "yuv444p"), geometry_to(16, 64, interpolation="area")).astype(int)
    assert (picture[:, 0::2, 0] > 200).all()
    assert (picture[:, 1::2, 0] < 50).all()


def test_a_frame_stored_bottom_row_first_comes_out_upright() -> None:
    pixels = paint_numbered_frame(700, (96, 160))
    for pixel_format, num_channels in (("rgb24", 3), ("gray", 1), ("yuv420p", 3)):
        frame = frame_of(pixels, pixel_format)
        graph = av.filter.Graph()
        source = graph.add_buffer(width=160, height=96, format=frame.format, time_base=Fraction(1, 25))
        flip, sink = graph.add("vflip"), graph.add("buffersink")
        source.link_to(flip)
        flip.link_to(sink)
        graph.configure()
        graph.push(frame)
        flipped = graph.pull()
        assert flipped.planes[0].line_size < 0
        for size in ((96, 160), (48, 80)):
            picture = picture_of(flipped, geometry_to(*size, num_channels=num_channels))
            assert read_frame_number(picture[::-1]) == 700


def test_writes_into_a_slice_that_is_not_contiguous() -> None:
    clip = np.full((64, 64, 2, 3), 77, np.uint8)
    write_picture(plain_frame(96, 160), geometry_to(64, 64), VideoReformatter(), clip[:, :, 1])
    assert (clip[:, :, 0] == 77).all()
    assert np.abs(clip[:, :, 1].astype(int) - RED).max() <= 4


def test_a_gif_keeps_its_colours(tmp_path: Path) -> None:
    path = write_frames(
        tmp_path / "a.gif",
        [np.full((40, 50, 3), RED, np.uint8)] * 2,
        encoding=Encoding(codec="gif", pixel_format="rgb8"),
    )
    picture = picture_of(first_frame(path), geometry_to(20, 20)).astype(int)
    assert np.abs(picture - RED).max() <= 40  # rgb8 has 8 reds, 8 greens and 4 blues
    assert np.ptp(picture[..., 0]) < 16


def test_facts_name_all_that_decides_pixels() -> None:
    facts = dict(pixel_facts())
    assert len(facts) == len(pixel_facts())
    assert all(isinstance(value, str) and value for value in facts.values())
    assert facts["libswscale"] == ".".join(map(str, av.library_versions["libswscale"]))
    flags = [facts[f"flags_{interpolation}"] for interpolation in get_args(Interpolation)]
    assert len(set(flags)) == len(flags)
    assert facts["untagged_hd_side"] == "720"


def test_another_rule_is_another_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pixel_facts()
    monkeypatch.setattr(pixels, "_HD_SIDE", 600)
    assert pixel_facts() != before
