"""Which video an entry is: tables for people, and for those who look into a pack without the data set.

A part of a raw pack has its `rows.csv`. A pack of JPEG files has a table for each time that videos were added to it:

    entries-<check>-<rows>.csv    entry, num_frames, path, label

Nothing that reads frames for training asks these tables; a damaged one costs names and no frame.
"""

from __future__ import annotations

import csv
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clipfeed.cache.entries import Entries
from clipfeed.cache.jpeg import SUFFIX, entry_name

__all__ = ["ListedJpegs", "list_jpegs", "read_columns", "write_listing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJpegs:
    """An entry of a pack of JPEG files, as a table names it.

    Attributes:
        path: Its file; there once the entry is filled.
        key: Relative POSIX key of the video; "" where no table has the entry.
    """

    path: Path
    key: str = ""


def write_listing(folder: Path, entries: Entries) -> None:
    """Write down the entries of a pack of JPEG files that no table has; two processes at once write the same.

    Raises:
        OSError: If it cannot be written.
    """
    known = {name for name, _ in _read_listings(folder)}
    names = [entry_name(bytes(identity)) for identity in entries.identities]
    everything = zip(names, entries.num_frames.tolist(), entries.keys, entries.class_names, strict=True)
    rows = [row for row in everything if row[0] not in known and row[0].strip("0")]
    if not rows:
        return
    check = zlib.crc32("".join(name for name, *_ in rows).encode())
    partial = folder / f".table-{uuid.uuid4().hex[:8]}.partial"
    try:
        with partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            csv.writer(file).writerows([("entry", "num_frames", "path", "label"), *rows])
        partial.replace(folder / f"entries-{check:08x}-{len(rows)}.csv")
    finally:
        partial.unlink(missing_ok=True)


def list_jpegs(folder: Path) -> Iterator[ListedJpegs]:
    """Give the entries of a pack of JPEG files: those of the newest table first, and last those that none names."""
    named = set()
    for name, key in _read_listings(folder):
        if name not in named:
            named.add(name)
            yield ListedJpegs(path=folder / name[:2] / f"{name}{SUFFIX}", key=key)
    for path in sorted(folder.glob(f"??/*{SUFFIX}")):
        if path.stem not in named and _is_name(path.stem):
            yield ListedJpegs(path=path)


def _read_listings(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the name and the key of each entry that a table has."""
    for table in sorted(folder.glob("entries-*.csv"), key=lambda table: table.stat().st_mtime_ns, reverse=True):
        for name, key in read_columns(table, "entry", "path"):
            if _is_name(name) and key:
                yield name, key


def read_columns(path: Path, *columns: str) -> list[tuple[str, ...]]:
    """Read some columns of a table, as far as it is one; nothing where it is missing or has other columns.

    A row that is cut off is no row: half a path is another path.
    """
    rows: list[tuple[str, ...]] = []
    try:
        with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
            table = csv.reader(file)
            head = next(table, [])
            places = [head.index(column) for column in columns]
            rows.extend(tuple(row[place] for place in places) for row in table if len(row) == len(head))
    except (OSError, csv.Error, ValueError):
        return rows
    return rows


def _is_name(text: str) -> bool:
    return len(text) == len(entry_name(b"")) and not text.strip("0123456789abcdef")
