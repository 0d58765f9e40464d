"""Folders of many videos made of a few: hard links, so that they take no room on disk.

Every name is a file of its own to clipfeed: nothing is reused by inode or content.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

__all__ = ["link_tree"]

_NUM_CLASSES = 51  # as many as HMDB51 has


def link_tree(target: Path, sources: Sequence[str], num_files: int) -> Path:
    """Make a folder of class folders with `num_files` names that are links to copies of the sources.

    Args:
        target: The folder; names that it has already are kept.
        sources: Videos, taken in turn.
        num_files: Names in all, under HMDB51's scheme, 10 clips a source.
    """
    beside = target.with_name(f"{target.name}-sources")
    beside.mkdir(parents=True, exist_ok=True)
    copies = []
    for number, source in enumerate(sources):
        copy = beside / f"{number}{Path(source).suffix}"
        if not copy.exists():
            shutil.copyfile(source, copy)
        copies.append(copy)
    for number in range(num_files):
        name, copy = f"class{number % _NUM_CLASSES:02d}", copies[number % len(copies)]
        folder = target / name
        folder.mkdir(parents=True, exist_ok=True)
        film, clip = divmod(number // _NUM_CLASSES, 10)
        link = folder / f"Film{film}_{name}_f_cm_np1_fr_med_{clip}{copy.suffix}"
        if not link.exists():
            os.link(copy, link)
    return target
