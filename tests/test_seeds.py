"""Randomness is a function of its arguments, the same on every machine."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clipfeed.seeds import generator, hash_key, hash_words

WORDS = st.lists(st.integers() | st.text(), max_size=4)


def test_the_hash_of_a_key_is_frozen_because_it_is_the_identity_of_a_video() -> None:
    assert hash_key("") == 13020603013274838756
    assert hash_key("run/a.mp4") == 10973304346532139628
    assert hash_key("日本/é ü.mp4") == 532475727011245534
    assert hash_key("run/\udcff.mp4") == 15850783660323874802


def test_mixed_words_are_frozen_because_orders_and_splits_are_made_of_them() -> None:
    assert hash_words(1, "split") == 14144814408197127236
    assert hash_words(0, "order", 3) == 14044929171269732913


def test_a_generator_is_frozen_because_clips_are_drawn_with_it() -> None:
    drawn = generator(1, 2, "sample", hash_key("run/a.mp4"), 3).integers(1000, size=5)
    assert drawn.tolist() == [863, 975, 486, 989, 403]


def test_hashes_do_not_depend_on_the_process() -> None:
    code = "from clipfeed.seeds import hash_key, hash_words; print(hash_key('a'), hash_words(1, 'b', 2))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout == f"{hash_key('a')} {hash_words(1, 'b', 2)}\n"


@given(st.text(st.characters(codec="utf-8") | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)))
def test_hashes_fit_64_bits_for_any_file_name(key: str) -> None:
    assert 0 <= hash_key(key) < 2**64
    assert 0 <= hash_words(key) < 2**64


@given(WORDS, WORDS)
def test_different_words_give_different_numbers(one: list[int | str], other: list[int | str]) -> None:
    same = [str(word) for word in one] == [str(word) for word in other]
    assert (hash_words(*one) == hash_words(*other)) == same


def test_where_words_part_matters() -> None:
    assert len({hash_words("a", "bc"), hash_words("ab", "c"), hash_words("abc"), hash_words("abc", "")}) == 4
    assert hash_words(1, 11) != hash_words(11, 1)


@pytest.mark.parametrize(
    "changed", [(2, 0, "p", 7, 0), (1, 1, "p", 7, 0), (1, 0, "q", 7, 0), (1, 0, "p", 8, 0), (1, 0, "p", 7, 1)]
)
def test_every_argument_changes_the_draw(changed: tuple[int, int, str, int, int]) -> None:
    assert generator(1, 0, "p", 7, 0).integers(2**63) != generator(*changed).integers(2**63)
    assert generator(*changed).integers(2**63) == generator(*changed).integers(2**63)


def test_neighbouring_seeds_epochs_and_videos_look_independent() -> None:
    draws = np.array(
        [
            generator(seed, epoch, "sample", video).random()
            for seed in range(8)
            for epoch in range(8)
            for video in range(8)
        ]
    )
    assert abs(draws.mean() - 0.5) < 0.05
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.15
    assert len(set(draws.tolist())) == len(draws)


def test_global_random_state_is_neither_read_nor_changed() -> None:
    kept = (random.getstate(), np.random.get_state())
    try:
        before = (random.getstate(), np.random.get_state()[1].tolist())
        first = generator(1, 0, "sample", 7).random()
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
        random.seed(2)
        np.random.seed(2)
        assert generator(1, 0, "sample", 7).random() == first
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
