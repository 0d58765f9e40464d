"""Pictures come back from JPEG near to what they were, and always the same."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed._jpeg import decode_jpegs, encode_jpegs
from clipfeed.testing import paint_numbered_frame, read_frame_number


def there_and_back(frames: np.ndarray) -> np.ndarray:
    seen = np.full_like(frames, 77)
    decode_jpegs(encode_jpegs(frames), seen)
    return seen


def natural(num_frames: int, height: int, width: int, channels: int = 3) -> np.ndarray:
    """Slow waves: what pictures are made of, unlike noise."""
    y, x = np.mgrid[0:height, 0:width] / 9
    waves = [[np.sin(x + frame + channel) + np.cos(y - channel) for channel in range(channels)]
             for frame in range(num_frames)]  # fmt: skip
    return np.rint(127.5 + 60 * np.moveaxis(np.array(waves), 1, -1)).astype(np.uint8)


@settings(max_examples=25)
@given(st.integers(1, 3), st.integers(1, 70), st.integers(1, 70), st.sampled_from([1, 3]))
def test_pictures_of_every_size_come_back_near_to_what_they_were(n: int, height: int, width: int, c: int) -> None:
    frames = natural(n, height, width, c)
    difference = np.abs(there_and_back(frames).astype(int) - frames)
    assert difference.mean() < 3
    assert difference.max() < 40


def test_primary_colours_stay_what_they_are() -> None:
    patches = np.array([(200, 40, 40), (40, 200, 40), (40, 40, 200), (255, 255, 255), (0, 0, 0)], np.uint8)
    frames = np.broadcast_to(patches[:, None, None], (5, 24, 24, 3)).copy()
    assert np.abs(there_and_back(frames).astype(int) - frames).max() <= 3


def test_gray_pictures_have_the_full_range() -> None:
    frames = np.broadcast_to(np.array([0, 128, 255], np.uint8)[:, None, None, None], (3, 16, 16, 1)).copy()
    assert np.abs(there_and_back(frames).astype(int) - frames).max() <= 2


def test_numbers_painted_into_frames_can_still_be_read() -> None:
    frames = np.stack([paint_numbered_frame(number, (48, 64)) for number in (0, 5, 1023)])
    assert [read_frame_number(frame) for frame in there_and_back(frames)] == [0, 5, 1023]


def test_a_picture_is_the_same_bytes_alone_in_company_and_in_any_thread() -> None:
    frames = natural(4, 20, 30)
    together = encode_jpegs(frames)
    assert [encode_jpegs(frame[None])[0] for frame in frames] == together
    with ThreadPoolExecutor(4) as pool:
        assert all(pictures == together for pictures in pool.map(lambda _: encode_jpegs(frames), range(8)))


def test_pictures_can_be_read_in_any_order_and_again() -> None:
    frames = natural(4, 20, 30)
    pictures, whole = encode_jpegs(frames), there_and_back(frames)
    some = np.empty((3, 20, 30, 3), np.uint8)
    decode_jpegs([pictures[place] for place in (3, 0, 3)], some)
    np.testing.assert_array_equal(some, whole[[3, 0, 3]])


def test_sizes_may_change_from_one_picture_to_the_next_in_a_thread() -> None:
    for height, width in ((16, 16), (31, 64), (16, 16), (8, 200)):
        there_and_back(natural(2, height, width))


def test_ordinary_pictures_take_less_than_half_their_bytes() -> None:
    frames = natural(3, 64, 64)
    assert sum(map(len, encode_jpegs(frames))) < frames.nbytes / 2


@pytest.mark.parametrize("bad", [b"", b"no picture", b"\xff\xd8\xff\xd9"])
def test_what_is_no_picture_is_refused_and_harms_nothing_after_it(bad: bytes) -> None:
    frames = natural(1, 16, 16)
    with pytest.raises(ValueError, match="JPEG picture"):
        decode_jpegs([bad], np.empty_like(frames))
    np.testing.assert_array_equal(there_and_back(frames), there_and_back(frames))


def test_a_picture_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="another size than 17 x 16"):
        decode_jpegs(encode_jpegs(natural(1, 16, 16)), np.empty((1, 16, 17, 3), np.uint8))


@settings(max_examples=40)
@given(st.data())
def test_a_cut_picture_is_refused_or_concealed_and_harms_nothing_after_it(data: st.DataObject) -> None:
    frames = natural(1, 24, 24)
    (picture,) = encode_jpegs(frames)
    with contextlib.suppress(ValueError):
        decode_jpegs([picture[: data.draw(st.integers(0, len(picture)))]], np.empty_like(frames))
    np.testing.assert_array_equal(there_and_back(frames), there_and_back(frames))
