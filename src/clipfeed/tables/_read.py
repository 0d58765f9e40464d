"""Read a whole store into flat columns, with no Python object per number."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import IndexArray
from clipfeed.tables._layout import (
    FAILED,
    NUMBER_COLUMNS,
    PASSING,
    USABLE,
    WAITING,
    StoreDamagedError,
    check_bytes,
    decode,
)

Numbers: TypeAlias = NDArray[np.int64] | NDArray[np.int32]

_READ_ROWS = 16_384  # rows read at a time: 2 MB of digits, so that reading needs little beside the columns

_WIDE = frozenset(
    {"row_id", "size_bytes", "mtime_ns", "sample_aspect_numerator", "sample_aspect_denominator"}
    | {"average_fps_numerator", "average_fps_denominator", "time_base_numerator", "time_base_denominator"}
)

# One text per column and chunk: SQLite joins the digits and NumPy parses them. 22 columns of 6,766 rows took 13 ms this
# way and 38 ms as tuples. SQLite promises no order inside group_concat: row_id is among the columns and is checked.
_READ_NUMBERS = f"""
    SELECT {", ".join(f"group_concat({name})" for name in NUMBER_COLUMNS)}
    FROM (SELECT * FROM videos WHERE row_id > ? ORDER BY row_id LIMIT {_READ_ROWS})
"""
_READ_BLOBS = (
    f"SELECT key, key_frames, frame_pts, fingerprint FROM videos WHERE row_id > ? ORDER BY row_id LIMIT {_READ_ROWS}"
)
_READ_FAILURES = (
    f"SELECT row_id, failure_stage, failure_reason FROM videos WHERE state IN ({FAILED}, {PASSING}) ORDER BY row_id"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlobColumn:
    """Byte strings of all rows, one behind the other.

    Attributes:
        data: The bytes.
        offsets: (n + 1,) int64; row i has data[offsets[i]:offsets[i + 1]].
    """

    data: bytes
    offsets: IndexArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTable:
    """Every row of a store as flat columns, in row-id order.

    Attributes:
        snapshot: Number of this state of the store.
        reader: What the failures are due to, as `Store.forget_failures` was told.
        vocabulary: Texts by code; code -1 is no text.
        keys: Keys in UTF-8, undecodable bytes kept.
        numbers: (n,) int32 or int64 arrays by name: `row_id`, `state`, what `Listed` and `StoredFacts` have.
        key_frames: int32, little-endian.
        frame_pts: As they were written.
        fingerprints: 16 bytes each, nothing where the file could not be read.
        failures: (stage, reason) of the rows that failed, by row id.
    """

    snapshot: int
    reader: str
    vocabulary: tuple[str, ...]
    keys: BlobColumn
    numbers: dict[str, Numbers]
    key_frames: BlobColumn
    frame_pts: BlobColumn
    fingerprints: BlobColumn
    failures: dict[int, tuple[str, str]]

    def __post_init__(self) -> None:
        """Refuse what this package cannot have written; SQLite has no checksums of its own."""
        sizes = {len(column) for column in self.numbers.values()} | {len(self)}
        rises = bool(np.all(np.diff(self.numbers["row_id"]) > 0))
        codes = [self.numbers[name] for name in NUMBER_COLUMNS if name.endswith("_code")]
        known = all(int(column.max(initial=-1)) < len(self.vocabulary) for column in codes)
        turned = bool(np.isin(self.numbers["rotation"], (-1, 0, 90, 180, 270)).all())
        counted = all(
            int(self.numbers[name].min(initial=0)) >= -1 for name in NUMBER_COLUMNS if name.startswith("num_")
        )
        stated = bool(np.isin(self.numbers["state"], (WAITING, USABLE, FAILED, PASSING)).all())
        whole = len(self.key_frames.data) % 4 == 0
        if len(sizes) != 1 or not (rises and known and turned and stated and counted and whole):
            raise StoreDamagedError("the rows contradict each other")

    def __len__(self) -> int:
        return len(self.keys.offsets) - 1


def read_about(connection: sqlite3.Connection, name: str) -> int | str:
    """Give a fact about the whole store."""
    row = connection.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise StoreDamagedError(f"the file does not say its {name}")
    value: int | str = row[0]
    if not isinstance(value, int if name == "snapshot" else str):
        raise StoreDamagedError(f"the file says {value!r} where its {name} should be")
    return value


def read_table(connection: sqlite3.Connection) -> StoredTable:
    """Read every row; call it inside a transaction, so that all columns are of one moment.

    Raises:
        StoreDamagedError: If the rows contradict each other.
    """
    words = connection.execute("SELECT text FROM words ORDER BY code").fetchall()
    failures = connection.execute(_READ_FAILURES).fetchall()
    count = int(connection.execute("SELECT count(*) FROM videos").fetchone()[0])
    numbers: dict[str, Numbers] = {
        name: np.zeros(count, np.int64) if name in _WIDE else np.zeros(count, np.int32) for name in NUMBER_COLUMNS
    }
    blobs = _Blobs()
    row_id = -1
    for start in range(0, count, _READ_ROWS):
        _read_numbers(connection, row_id, {name: column[start:] for name, column in numbers.items()})
        blobs.add(connection.execute(_READ_BLOBS, (row_id,)).fetchall())
        row_id = int(numbers["row_id"][start : start + _READ_ROWS].max())
    keys, key_frames, frame_pts, fingerprints = blobs.columns()
    return StoredTable(
        snapshot=int(read_about(connection, "snapshot")),
        reader=str(read_about(connection, "reader")),
        vocabulary=tuple(decode(text) for (text,) in words),
        keys=keys,
        numbers=numbers,
        key_frames=key_frames,
        frame_pts=frame_pts,
        fingerprints=fingerprints,
        failures={row_id: (stage, decode(reason)) for row_id, stage, reason in failures},
    )


def _read_numbers(connection: sqlite3.Connection, after: int, columns: dict[str, Numbers]) -> None:
    """Write the numbers of the rows behind `after` to the beginning of the columns."""
    texts = connection.execute(_READ_NUMBERS, (after,)).fetchone()
    for text, column in zip(texts, columns.values(), strict=True):
        try:
            values = np.fromstring(text, np.int64, sep=",")
        except (TypeError, ValueError, DeprecationWarning) as error:
            raise StoreDamagedError("a row holds something else than numbers") from error
        if len(values) != min(len(column), _READ_ROWS):
            raise StoreDamagedError("a row holds something else than numbers")
        limits = np.iinfo(column.dtype)
        if values.min(initial=0) < limits.min or values.max(initial=0) > limits.max:
            raise StoreDamagedError("a row holds a number that it cannot hold")
        column[: len(values)] = values


class _Blobs:
    """Keys, key frames, pts and fingerprints of the rows read so far."""

    def __init__(self) -> None:
        self._data: tuple[list[bytes], ...] = ([], [], [], [])
        self._sizes: tuple[list[NDArray[np.int64]], ...] = ([], [], [], [])

    def add(self, rows: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
        for column, data, sizes in zip(zip(*rows, strict=True), self._data, self._sizes, strict=True):
            check_bytes(*column)
            data.append(b"".join(column))
            sizes.append(np.fromiter(map(len, column), np.int64, len(column)))

    def columns(self) -> list[BlobColumn]:
        start = np.zeros(1, np.int64)
        return [
            BlobColumn(data=b"".join(data), offsets=np.concatenate([start, *sizes]).cumsum())
            for data, sizes in zip(self._data, self._sizes, strict=True)
        ]
