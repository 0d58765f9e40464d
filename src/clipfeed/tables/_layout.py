"""What a store's file looks like: its tables, what goes into a row, and what can be wrong with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

import numpy as np

from clipfeed._types import IndexArray

FORMAT_VERSION = 1
APPLICATION_ID = 0x434C4644  # "CLFD": tells our files from other people's SQLite files

# States of a row: not probed yet; usable; failed until the file changes; failed for a reason outside the file.
WAITING, USABLE, FAILED, PASSING = range(4)

# SQLite's own codes (https://www.sqlite.org/rescode.html). These mean that the content is not what this package wrote;
# every other one means that the file cannot be opened, locked or written now.
_DAMAGE_CODES = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


class StoreDamagedError(Exception):
    """The file is not what this package wrote, or no longer."""


class StoreUnusableError(Exception):
    """The file or its folder cannot be opened, locked or written."""


@contextmanager
def sqlite_errors() -> Iterator[None]:
    """Turn SQLite's errors into the two answers that a caller can act on."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.ProgrammingError):
            raise
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF
        kind = StoreDamagedError if code in _DAMAGE_CODES else StoreUnusableError
        raise kind(str(error)) from error
    except UnicodeDecodeError as error:  # SQLite's message about a damaged schema quotes the damaged bytes
        raise StoreDamagedError("its schema is not readable") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What a listing says of a file.

    Attributes:
        key: Relative POSIX key.
        size_bytes: Size of the file.
        mtime_ns: Time of last change, nanoseconds since the epoch.
        class_name: Its class, or None.
        part: Its part, or None.
        group: What must stay on one side of a split; None for the key itself.
    """

    key: str
    size_bytes: int
    mtime_ns: int
    class_name: str | None = None
    part: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFacts:
    """What probing found, in numbers; -1 stands for a count that is not known, 0/0 for a rate that is not.

    The attributes are those of `records.VideoInfo`, fractions as numerator and denominator, `frame_pts` as
    `records.pack_times` packs them.
    """

    container: str | None = None
    codec: str | None = None
    stream_index: int = -1
    width: int = 0
    height: int = 0
    rotation: int = 0
    sample_aspect_numerator: int = 1
    sample_aspect_denominator: int = 1
    average_fps_numerator: int = 0
    average_fps_denominator: int = 0
    time_base_numerator: int = 1
    time_base_denominator: int = 1
    is_variable_rate: bool = False
    num_frames_from_header: int = -1
    num_frames_from_table: int = -1
    num_frames_from_packets: int = -1
    num_frames_from_decode: int = -1
    key_frames: IndexArray = field(default_factory=lambda: np.empty(0, np.int64), compare=False)
    frame_pts: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a row that was probed.

    Attributes:
        row_id: The row.
        size_bytes: Size of the file that was probed; an outcome for another size or time than the row's is dropped.
        mtime_ns: Its time of last change.
        state: USABLE, FAILED (until the file changes) or PASSING (probed again by the next scan).
        fingerprint: Digest of the file's size and sampled blocks; empty where it could not be read.
        facts: What probing found.
        stage: The step that failed, or None.
        reason: Why it failed, or None.
    """

    row_id: int
    size_bytes: int
    mtime_ns: int
    state: int
    fingerprint: bytes = b""
    facts: StoredFacts = field(default_factory=StoredFacts)
    stage: str | None = None
    reason: str | None = None


LISTED_COLUMNS = ("size_bytes", "mtime_ns", "class_code", "part_code", "group_code")
FACT_NAMES = tuple(item.name for item in fields(StoredFacts) if item.name not in ("key_frames", "frame_pts"))
FACT_COLUMNS = tuple(f"{name}_code" if name in ("container", "codec") else name for name in FACT_NAMES)
NUMBER_COLUMNS = ("row_id", *LISTED_COLUMNS, "state", *FACT_COLUMNS)

SCHEMA = f"""
    CREATE TABLE about (name TEXT PRIMARY KEY, value NOT NULL);
    CREATE TABLE words (code INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);
    CREATE TABLE videos (
        row_id INTEGER PRIMARY KEY AUTOINCREMENT,
        key BLOB NOT NULL UNIQUE,
        {" ".join(f"{name} INTEGER NOT NULL DEFAULT -1," for name in LISTED_COLUMNS)}
        state INTEGER NOT NULL DEFAULT {WAITING},
        {" ".join(f"{name} INTEGER NOT NULL DEFAULT -1," for name in FACT_COLUMNS)}
        fingerprint BLOB NOT NULL DEFAULT x'',
        key_frames BLOB NOT NULL DEFAULT x'',
        frame_pts BLOB NOT NULL DEFAULT x'',
        failure_stage TEXT,
        failure_reason BLOB
    );
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {FORMAT_VERSION};
"""


def encode(text: str) -> bytes:
    """Give a text as bytes; file names keep bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """Give the text of bytes that `encode` made.

    Raises:
        StoreDamagedError: If a damaged row holds something else in their place.
    """
    check_bytes(data)
    return data.decode("utf-8", "surrogateescape")


def check_bytes(*values: object) -> None:
    """Refuse what is no bytes: SQLite gives back whatever type a damaged row claims to hold.

    Raises:
        StoreDamagedError: If one of them is something else.
    """
    if not all(isinstance(value, bytes) for value in values):
        raise StoreDamagedError("a row holds something else than bytes")
