"""Packets are cut into units as a decoder cuts them, or not at all."""

from __future__ import annotations

import pytest

from clipfeed._nal import length_size, split_units, split_whole_units, unescape

UNITS = [b"\x09\xf0", b"\x41\x9a\x00\x00\x03\x01", b"\x06\x05\x80"]
STARTED = b"".join(b"\x00\x00\x00\x01" + unit for unit in UNITS)
MEASURED = b"".join(len(unit).to_bytes(4) + unit for unit in UNITS)


def test_units_are_found_by_start_codes_and_by_lengths() -> None:
    assert [unit.rstrip(b"\0") for unit in split_units(STARTED, 0)] == UNITS
    assert list(split_units(MEASURED, 4)) == UNITS
    assert split_whole_units(MEASURED, 4) == UNITS
    assert [unit.rstrip(b"\0") for unit in split_whole_units(STARTED, 0)] == UNITS


@pytest.mark.parametrize(
    "packet", [MEASURED[:-1], MEASURED + b"\0", MEASURED + b"\0\0\0\0", b"\0\0\0\x05" + MEASURED[4:]]
)
def test_lengths_that_leave_something_over_are_not_whole(packet: bytes) -> None:
    assert split_whole_units(packet, 4) is None
    assert list(split_units(packet, 4))  # what can be told apart


def test_a_start_code_inside_a_unit_with_a_length_is_not_whole() -> None:
    unit = b"\x41\x9a\x00\x00\x01\x67\x11"
    assert split_whole_units(len(unit).to_bytes(4) + unit, 4) is None


@pytest.mark.parametrize("packet", [b"\x11" + STARTED, STARTED + b"\x00\x00\x01"])
def test_bytes_beside_start_codes_are_not_whole(packet: bytes) -> None:
    assert split_whole_units(packet, 0) is None


def test_the_size_of_lengths_is_read_from_extra_data() -> None:
    avcc = b"\x01\x64\x00\x1f\xff\xe1"
    assert length_size(avcc, "h264") == 4
    assert length_size(avcc[:4] + b"\xfd", "h264") == 2
    assert length_size(b"\x01" + bytes(20) + b"\x03", "hevc") == 4
    assert length_size(b"\x00\x00\x00\x01\x67", "h264") == 0
    assert length_size(None, "h264") == length_size(b"", "hevc") == 0


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        (b"\x01\x02", b"\x01\x02"),
        (b"\x00\x00\x03\x01", b"\x00\x00\x01"),
        (b"\x00\x00\x03\x00\x00\x03\x02", b"\x00\x00\x00\x00\x02"),
        (b"\x00\x03\x00", b"\x00\x03\x00"),
    ],
)
def test_bytes_against_false_start_codes_are_taken_out(escaped: bytes, plain: bytes) -> None:
    assert unescape(escaped) == plain
