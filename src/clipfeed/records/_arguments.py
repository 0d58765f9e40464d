"""Arguments that many calls share, checked where they come in: choices, flags, seeds, paths."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence

import numpy as np


def check_choice(name: str, value: object, allowed: Sequence[object]) -> None:
    """Refuse a value outside a closed set.

    Raises:
        ValueError: Names the argument, the value and what is allowed.
    """
    if not isinstance(value, Hashable) or value not in allowed:  # an array would compare element by element
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(repr(choice) for choice in allowed)}")


def checked_flag(name: str, value: object) -> bool:
    """Give a flag as Python's own bool; "no", 1 and None are none, since each would silently count as one of the two.

    Raises:
        ValueError: For anything but True and False, of Python or NumPy.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r}: expected True or False")
    return bool(value)


def checked_seed(seed: object) -> int:
    """Give a seed as Python's own int, of either sign and any size: seeds are hashed before they are used.

    Raises:
        ValueError: For anything but a whole number.
    """
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        raise ValueError(f"seed={seed!r}: expected a whole number")
    return int(seed)


def checked_path(name: str, path: object) -> str:
    """Give a path as text; an empty one is refused, since it would count as the current folder.

    `Path("")` is written "." and cannot be told from the current folder.

    Raises:
        TypeError: For what is no path.
        ValueError: For an empty text.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"{name}={path!r}: expected a str or a Path")
    if not text:
        raise ValueError(f'{name}={path!r}: an empty path names nothing; the current folder is "."')
    return text
