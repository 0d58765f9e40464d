"""Change an open store: list files, finish rows; each change is one transaction."""

from __future__ import annotations

import operator
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from clipfeed.tables._layout import (
    FACT_COLUMNS,
    FACT_NAMES,
    FAILED,
    LISTED_COLUMNS,
    PASSING,
    WAITING,
    Listed,
    Outcome,
    StoreDamagedError,
    encode,
    sqlite_errors,
)
from clipfeed.tables._read import StoredTable, read_about, read_table

# Nothing happens to a row that says the same already; another size or time sends it back to be probed.
_LIST = f"""
    INSERT INTO videos (key, {", ".join(LISTED_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in LISTED_COLUMNS)},
        state = CASE WHEN (size_bytes, mtime_ns) IS (excluded.size_bytes, excluded.mtime_ns)
            THEN state ELSE {WAITING} END
    WHERE ({", ".join(LISTED_COLUMNS)}) IS NOT ({", ".join(f"excluded.{name}" for name in LISTED_COLUMNS)})
"""

# The outcome must be for the very file that the row lists, and news: another process may have been here first.
_FINISH = f"""
    UPDATE videos SET state = ?1, failure_stage = ?2, failure_reason = ?3, fingerprint = ?4, key_frames = ?5,
        frame_pts = ?6, {", ".join(f"{name} = ?{number}" for number, name in enumerate(FACT_COLUMNS, 10))}
    WHERE row_id = ?7 AND size_bytes = ?8 AND mtime_ns = ?9
        AND (state = {WAITING} OR state = {PASSING} AND (state, failure_reason) IS NOT (?1, ?3))
"""

_numbers_of = operator.attrgetter(*FACT_NAMES[2:])


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Commit what the block does, all of it or nothing; `kind` is "DEFERRED" to read and "IMMEDIATE" to write."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


class Store:
    """An open index file; `open_store` and `open_memory_store` make it, for the thread that opened it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._codes: dict[str, int] = {}

    def read(self) -> StoredTable:
        """Read everything, as of one moment."""
        with sqlite_errors(), transaction(self._connection, "DEFERRED"):
            return read_table(self._connection)

    def list_videos(self, listed: Sequence[Listed], gone: Iterable[int] = ()) -> None:
        """Take in new files, changed files and files with another class, part or group, and drop rows.

        A row whose size or time of change differs goes back to WAITING; one that says the same already is left alone.

        Args:
            listed: The files, new ones in the order in which they shall get their row ids.
            gone: Row ids of files that are no more.
        """
        with self._change():
            code = self._code_of({word for row in listed for word in (row.class_name, row.part, row.group)})
            with self._snapshot_rising():
                self._connection.executemany("DELETE FROM videos WHERE row_id = ?", [(row_id,) for row_id in gone])
                self._connection.executemany(_LIST, (_listed_values(row, code) for row in listed))

    def finish_videos(self, outcomes: Sequence[Outcome]) -> None:
        """Write what became of rows, in one commit."""
        with self._change():
            words = {word for outcome in outcomes for word in (outcome.facts.container, outcome.facts.codec)}
            code = self._code_of(words)
            with self._snapshot_rising():
                self._connection.executemany(_FINISH, (_outcome_values(outcome, code) for outcome in outcomes))

    def forget_failures(self, reader: str) -> None:
        """Send failed rows back to be probed, once for each `reader`: another decoder may read what this one cannot."""
        with self._change():
            if read_about(self._connection, "reader") == reader:
                return
            with self._snapshot_rising():
                self._connection.execute("UPDATE videos SET state = ? WHERE state = ?", (WAITING, FAILED))
            self._connection.execute("UPDATE about SET value = ? WHERE name = 'reader'", (reader,))

    @contextmanager
    def _change(self) -> Iterator[None]:
        try:
            with sqlite_errors(), transaction(self._connection, "IMMEDIATE"):
                yield
        except BaseException:
            self._codes.clear()  # the codes of words that were rolled back mean nothing
            raise

    @contextmanager
    def _snapshot_rising(self) -> Iterator[None]:
        before = self._connection.total_changes
        yield
        if self._connection.total_changes > before:
            raise_snapshot(self._connection)

    def _code_of(self, words: set[str | None]) -> dict[str | None, int]:
        """Give a code to each word, adding those that are new."""
        code: dict[str | None, int] = {None: -1}
        for word in sorted(word for word in words if word is not None):
            if word not in self._codes:
                self._codes[word] = self._add_word(encode(word))
            code[word] = self._codes[word]
        return code

    def _add_word(self, word: bytes) -> int:
        self._connection.execute(
            "INSERT OR IGNORE INTO words (code, text) VALUES ((SELECT ifnull(max(code), -1) + 1 FROM words), ?)",
            (word,),
        )
        row = self._connection.execute("SELECT code FROM words WHERE text = ?", (word,)).fetchone()
        if row is None or not isinstance(row[0], int):
            raise StoreDamagedError("a word has no code")
        return int(row[0])


def raise_snapshot(connection: sqlite3.Connection) -> None:
    """Raise the snapshot number. It follows the clock (microseconds), so that a rebuilt store repeats none."""
    now = time.time_ns() // 1000
    connection.execute("UPDATE about SET value = max(value + 1, ?) WHERE name = 'snapshot'", (now,))


def _listed_values(row: Listed, code: dict[str | None, int]) -> tuple[object, ...]:
    codes = (code[row.class_name], code[row.part], code[row.group])
    return (encode(row.key), row.size_bytes, row.mtime_ns, *codes)


def _outcome_values(outcome: Outcome, code: dict[str | None, int]) -> tuple[object, ...]:
    facts = outcome.facts
    return (
        outcome.state,
        outcome.stage,
        None if outcome.reason is None else encode(outcome.reason),
        outcome.fingerprint,
        facts.key_frames.astype("<i4").tobytes(),
        facts.frame_pts,
        outcome.row_id,
        outcome.size_bytes,
        outcome.mtime_ns,
        code[facts.container],
        code[facts.codec],
        *_numbers_of(facts),
    )
