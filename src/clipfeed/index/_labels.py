"""What the user says of classes and labels, checked against what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_MAX_CLASSES = 1_000_000  # far above any data set of videos: a label beyond is an id or a time, not a class number


def check_labels(
    labels: Literal["inferred"] | Sequence[int] | None, class_names: Sequence[str] | None
) -> NDArray[np.int32] | None:
    """Check what can be checked before a folder is read.

    Returns:
        (n,) int32 labels where the user listed them, else None.

    Raises:
        ValueError: For labels that are no class numbers, or `class_names` without inferred labels.
    """
    if class_names is not None and (isinstance(labels, str) is False or labels != "inferred"):
        raise ValueError(
            f'class_names={_short(class_names)} with labels={_short(labels)}: class_names needs labels="inferred"'
        )
    if class_names is not None:
        _check_names(class_names)
    if labels is None or (isinstance(labels, str) and labels == "inferred"):
        return None
    return _label_numbers(labels)


def _check_names(class_names: Sequence[str]) -> None:
    is_listed = isinstance(class_names, Sequence | np.ndarray) and not isinstance(class_names, str | bytes)
    if not is_listed or not all(isinstance(name, str) for name in class_names):  # a set has no order to number by
        raise ValueError(f"class_names={_short(class_names)}: expected a list of folder names")
    twice = sorted({name for name in class_names if list(class_names).count(name) > 1})
    if twice or not len(class_names):
        raise ValueError(f"class_names={_short(class_names)}: expected each class once, got {twice or 'none'}")


def _label_numbers(labels: Sequence[int]) -> NDArray[np.int32]:
    expected = 'expected "inferred", None, or one class number (0, 1, 2, ...) for each file found'
    if isinstance(labels, str | bytes) or not isinstance(labels, Sequence | np.ndarray):
        raise ValueError(f"labels={_short(labels)}: {expected}")
    for place, label in enumerate(labels):
        if not isinstance(label, int | np.integer) or isinstance(label, bool) or not 0 <= label < _MAX_CLASSES:
            raise ValueError(f"labels[{place}]={label!r}: {expected}")
    return np.asarray(labels, np.int32)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_num_labels(labels: NDArray[np.int32], num_files: int, root: str) -> None:
    """Refuse a list that is not as long as the list of files found, of which none has been dropped yet.

    Raises:
        ValueError: Names both numbers.
    """
    if len(labels) != num_files:
        raise ValueError(
            f"{len(labels)} labels for {num_files} files found in {root}: expected one label for each file, in the "
            "order of clipfeed.find_videos(directory)"
        )


def names_of_labels(labels: NDArray[np.int32]) -> tuple[str, ...]:
    """Name classes that only have numbers: "0", "1", ... up to the highest, so that label i is the name at i."""
    return tuple(str(label) for label in range(int(labels.max(initial=-1)) + 1))


def choose_classes(class_names: Sequence[str] | None, filled: set[str], empty: set[str], root: str) -> tuple[str, ...]:
    """Give the classes in label order: the user's, or all that hold files, sorted.

    A class stays although none of its files can be used: what a label means must not depend on a damaged file.

    Args:
        class_names: The user's order, may be a subset; None for all.
        filled: Classes that hold files.
        empty: Class folders without a file: a class only where the user names them.
        root: The folder, for the message.

    Raises:
        ValueError: If a class has no folder.
    """
    if class_names is None:
        return tuple(sorted(filled))
    missing = [name for name in class_names if name not in filled | empty]
    if missing:
        raise ValueError(
            f"class_names: no folder {', '.join(map(repr, missing[:10]))} in {root}; "
            f"found {', '.join(map(repr, sorted(filled | empty)[:20]))}"
        )
    return tuple(class_names)
