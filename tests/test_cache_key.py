"""A pack's name says all that decides its pixels, and nothing else."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from clipfeed.cache import PackKey
from clipfeed.testing import make_pack_key

words = st.text(max_size=8)
keys = st.builds(
    PackKey,
    clip_length=st.none() | st.integers(1, 4),
    frame_shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 3])),
    fields=st.dictionaries(words, words, max_size=3).map(lambda fields: tuple(sorted(fields.items()))),
)


@given(keys, keys)
def test_two_packs_have_one_name_exactly_if_everything_is_equal(left: PackKey, right: PackKey) -> None:
    assert (left.digest == right.digest) == (left == right)
    assert (left.text == right.text) == (left == right)


@given(keys)
def test_a_name_is_fit_for_a_folder_of_any_file_system(key: PackKey) -> None:
    assert len(key.digest) == 32
    assert set(key.digest) <= set("0123456789abcdef")


def test_the_text_is_there_for_people() -> None:
    said = json.loads(make_pack_key(20, (64, 48, 3), interpolation="bilinear").text)
    assert said == {
        "format": 1,
        "entries": "clips",
        "clip_length": 20,
        "frame_shape": [64, 48, 3],
        "interpolation": "bilinear",
    }
    assert json.loads(make_pack_key(None).text)["entries"] == "videos"


def test_a_frame_takes_a_byte_for_each_value() -> None:
    assert make_pack_key(5, (64, 48, 3)).frame_bytes == 64 * 48 * 3
