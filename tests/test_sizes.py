"""Numbers of bytes, read and written."""

from __future__ import annotations

import pytest

from clipfeed.sizes import parse_bytes, show_bytes


@pytest.mark.parametrize(
    ("written", "num_bytes"),
    [
        (1, 1),
        (512_000_000, 512_000_000),
        ("512MB", 512_000_000),
        ("512 mb", 512_000_000),
        ("1.5GB", 1_500_000_000),
        ("0.1 GB", 100_000_000),
        ("64kB", 64_000),
        ("2TB", 2 * 10**12),
        ("1GiB", 2**30),
        ("10 MiB", 10 * 2**20),
        ("4 KiB", 4096),
        ("700", 700),
        ("700B", 700),
        ("1_000_000", 1_000_000),
    ],
)
def test_bytes_are_decimal_unless_an_i_says_otherwise(written: int | str, num_bytes: int) -> None:
    assert parse_bytes("memory_budget", written) == num_bytes


@pytest.mark.parametrize(
    "written", [0, -5, "0MB", "-1GB", "many", "", "MB", "12XB", "1MBit", None, True, float("nan"), "0.1B", "1/0"]
)
def test_what_is_no_number_of_bytes_is_refused_by_argument_and_value(written: object) -> None:
    with pytest.raises(ValueError, match="expected a number of bytes") as caught:
        parse_bytes("memory_budget", written)
    assert str(caught.value).startswith(f"memory_budget={written!r}: ")


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 KB"),
        (983_040, "983.0 KB"),
        (999_949, "999.9 KB"),
        (999_999, "1.0 MB"),
        (6_650_000_000, "6.7 GB"),
        (2 * 10**15, "2000.0 TB"),
    ],
)
def test_bytes_are_shown_with_three_digits_or_so(num_bytes: int, shown: str) -> None:
    assert show_bytes(num_bytes) == shown
