from __future__ import annotations

import pytest

from clipfeed._mpeg4 import is_packed, read_layer, read_time_bits, split_layer

# The first and a later header of one HMDB51 original: the first one states sizes of buffers.
FIRST = bytes.fromhex("0000012008c80d400057b3c00c4001c00097530a14083c28307f")
LATER = bytes.fromhex("0000012008c80d0ba9850a041e14183f")


def test_headers_that_differ_in_buffer_sizes_only_say_the_same() -> None:
    assert split_layer(FIRST) == split_layer(LATER)
    assert split_layer(FIRST)[1] == "010"


@pytest.mark.parametrize("place", [5, 10, 12, 14])
def test_headers_that_differ_in_anything_else_do_not(place: int) -> None:
    changed = bytearray(LATER)
    changed[place] ^= 4
    assert split_layer(bytes(changed)) != split_layer(FIRST)


def test_the_resolution_of_time_is_read_with_and_without_buffer_sizes() -> None:
    assert read_layer(FIRST) == read_layer(LATER)
    assert read_layer(FIRST).time_resolution == 30_000
    assert read_time_bits(FIRST) == 15
    assert read_layer(b"\x00\x00\x01\xb6\x10") is None
    assert read_time_bits(b"\x00\x00\x01\xb6\x10") is None


def test_a_header_that_is_cut_off_is_no_error() -> None:
    for length in range(4, len(FIRST)):
        assert len(split_layer(FIRST[:length])) == 2


def test_packed_streams_say_so() -> None:
    assert is_packed(b"\x00\x00\x01\xb2DivX503b2816p")
    assert not is_packed(b"\x00\x00\x01\xb2XviD0063")
