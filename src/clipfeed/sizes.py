"""Numbers of bytes, as people write and read them.

Units are decimal unless an i says otherwise: 1 MB = 10**6 bytes, 1 MiB = 2**20 bytes (IEC 80000-13). Nothing here
measures anything.
"""

from __future__ import annotations

from fractions import Fraction

__all__ = ["parse_bytes", "show_bytes"]

_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}


def parse_bytes(name: str, size: int | str) -> int:
    """Give the number of bytes that an argument stands for: 512_000_000 or "512MB".

    Args:
        name: The argument's name, for the message.
        size: What the user gave.

    Raises:
        ValueError: For what is not a positive number of bytes.
    """
    text = str(size).strip().lower().replace("_", "")
    number = text.rstrip("kmgtib ")
    try:
        num_bytes = Fraction(number) * _UNITS[text[len(number) :].strip()]
    except (ValueError, KeyError, ZeroDivisionError):
        num_bytes = Fraction(0)
    if isinstance(size, bool) or num_bytes < 1:
        raise ValueError(f'{name}={size!r}: expected a number of bytes of at least 1, such as 512_000_000 or "512MB"')
    return int(num_bytes)


def show_bytes(num_bytes: int) -> str:
    """Give a number of bytes for people: "0 bytes", "983.0 KB", "1.7 GB"."""
    if num_bytes < 1000:
        return f"{num_bytes} bytes"
    size, unit = num_bytes / 1000, "KB"
    for larger in ("MB", "GB", "TB"):
        if size < 999.95:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}"
