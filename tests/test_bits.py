"""Numbers of any number of bits, and Exp-Golomb codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clipfeed._bits import BitReader


def pack(bits: str) -> bytes:
    return int("1" + bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(1 + -(-len(bits) // 8))[1:]


def exp_golomb(value: int) -> str:
    return "0" * ((value + 1).bit_length() - 1) + f"{value + 1:b}"


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=20))
def test_exp_golomb_codes_are_read_as_they_were_written(values: list[int]) -> None:
    reader = BitReader(pack("".join(map(exp_golomb, values))))
    assert [reader.ue() for _ in values] == values


@pytest.mark.parametrize(("code", "value"), [(0, 0), (1, 1), (2, -1), (3, 2), (4, -2), (11, 6), (12, -6)])
def test_signed_codes_alternate(code: int, value: int) -> None:
    assert BitReader(pack(exp_golomb(code))).se() == value


def test_numbers_and_flags_follow_one_another() -> None:
    reader = BitReader(bytes([0b0001_0110, 0b1000_0001]))
    assert (reader.read(4), reader.flag(), reader.flag(), reader.num_left) == (1, False, True, 10)
    reader.skip(3)
    assert reader.read(7) == 1


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01", b"\x00\x10"])
def test_a_code_that_is_cut_off_is_the_end(data: bytes) -> None:
    with pytest.raises(EOFError):
        BitReader(data).ue()


def test_bits_behind_the_last_one_are_the_end() -> None:
    reader = BitReader(b"\xff")
    with pytest.raises(EOFError):
        reader.read(9)
    reader = BitReader(b"\xff")
    reader.skip(8)
    with pytest.raises(EOFError):
        reader.flag()
