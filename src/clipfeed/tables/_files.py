"""A store as a file: make it, open it, copy it, put it aside; and what other processes may do to it meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from clipfeed.tables._layout import (
    APPLICATION_ID,
    FAILED,
    FORMAT_VERSION,
    SCHEMA,
    USABLE,
    StoreDamagedError,
    StoreUnusableError,
    encode,
    sqlite_errors,
)
from clipfeed.tables._read import StoredTable, read_table
from clipfeed.tables._store import Store, raise_snapshot, transaction

_BUSY_SECONDS = 60.0  # how long one waits for another process; a commit of 256 rows takes milliseconds


def inspect_store(path: Path) -> Literal["missing", "usable", "outdated"]:
    """Say whether a file is a store of this format version, or of another.

    Raises:
        StoreDamagedError: If it is no store at all.
        StoreUnusableError: If it cannot be opened.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        raise StoreUnusableError(str(error)) from error
    with sqlite_errors(), closing(_connect(path, "rw")) as connection:
        return "usable" if _format_version(connection) == FORMAT_VERSION else "outdated"


def create_store(path: Path, *, root: str, copy_of: Path | None = None) -> None:
    """Make a store where none is, or one of another format version; another process's fresh one is left alone.

    Args:
        path: The file; its folder is made if need be.
        root: Absolute folder of the data set, kept for people who look into the file.
        copy_of: Another store whose rows are taken over.

    Raises:
        StoreDamagedError: If `copy_of` is damaged, or something that is no store is in the way.
        StoreUnusableError: If the folder cannot be written.
    """
    with _folder_lock(path.parent):
        if inspect_store(path) == "usable":
            return
        fresh = path.with_name(path.name + ".new")
        _delete_with_logs(fresh)
        with sqlite_errors(), closing(_connect(fresh, "rwc")) as connection:
            _fill(connection, root=root, copy_of=copy_of)
            _choose_journal(connection)
        _put(fresh, path)


def move_aside(path: Path, number: int) -> None:
    """Put a damaged store aside as `*.damaged`, unless another process has replaced it already.

    Args:
        path: The store.
        number: `file_number` of the file that was found to be damaged.

    Raises:
        StoreUnusableError: If the folder cannot be written.
    """
    with _folder_lock(path.parent):
        if file_number(path) == number:
            _put(path, path.with_name(path.name + ".damaged"))


def file_number(path: Path) -> int:
    """Give what tells a file from the next one of its name; 0 where there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return 0


@contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """Open a store for reading and writing.

    Raises:
        StoreDamagedError: If it turns out to be damaged, also from within the block.
        StoreUnusableError: If it cannot be opened or written, also from within the block.
    """
    with sqlite_errors():
        connection = _connect(path, "rw")
    with closing(connection):
        with sqlite_errors():
            connection.execute("PRAGMA synchronous = NORMAL")  # WAL stays whole without a flush at each commit
        yield Store(connection)


@contextmanager
def open_memory_store(*, root: str, copy_of: Path | None = None) -> Iterator[Store]:
    """Open a store that lives in memory and is gone afterwards, filled from a file that can only be read."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        with sqlite_errors():
            _fill(connection, root=root, copy_of=copy_of)
        yield Store(connection)


def read_store(path: Path) -> StoredTable:
    """Read a store without changing it; works in a folder that cannot be written, too.

    Raises:
        StoreDamagedError: If it is damaged.
        StoreUnusableError: If it is missing or cannot be read.
    """
    with _reading(path) as connection, sqlite_errors(), transaction(connection, "DEFERRED"):
        return read_table(connection)


def read_listing(path: Path, keys: Sequence[str]) -> list[tuple[int, int, bytes] | None]:
    """Look a few files up in a store, which is how a moved root is recognised.

    Args:
        path: The store.
        keys: Relative POSIX keys.

    Returns:
        (size in bytes, time of last change in nanoseconds, fingerprint) of each key; None where the store lacks it.

    Raises:
        StoreDamagedError: If it is damaged.
        StoreUnusableError: If it is missing or cannot be read.
    """
    query = "SELECT size_bytes, mtime_ns, fingerprint FROM videos WHERE key = ?"
    with _reading(path) as connection, sqlite_errors():
        return [connection.execute(query, (encode(key),)).fetchone() for key in keys]


def mark_failed(path: Path, *, key: str, size_bytes: int, mtime_ns: int, stage: str, reason: str) -> None:
    """Note that a usable video could not be delivered; from any thread.

    The snapshot stays: the row keeps its place and facts, so datasets that are in use can still be opened by workers.

    Args:
        path: The store.
        key: The video.
        size_bytes: Size of the file that failed; a row that lists another file is left alone.
        mtime_ns: Its time of last change.
        stage: The step that failed.
        reason: Why.

    Raises:
        StoreDamagedError: If the store is damaged.
        StoreUnusableError: If it is missing or cannot be written.
    """
    with sqlite_errors(), closing(_connect(path, "rw")) as connection, transaction(connection, "IMMEDIATE"):
        connection.execute(
            "UPDATE videos SET state = ?, failure_stage = ?, failure_reason = ? "
            "WHERE key = ? AND size_bytes = ? AND mtime_ns = ? AND state = ?",
            (FAILED, stage, encode(reason), encode(key), size_bytes, mtime_ns, USABLE),
        )


def _connect(path: Path, mode: Literal["rw", "rwc", "ro"], *, more: str = "") -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}{more}"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a store of this format version, also in a folder where SQLite cannot make the files that WAL needs."""
    with sqlite_errors():
        connection = _connect(path, "rw")
        try:
            version = _format_version(connection)
        except sqlite3.OperationalError:
            connection.close()
            log = path.with_name(path.name + "-wal")
            if log.exists() and log.stat().st_size:
                raise  # what the log holds is not in the file yet
            connection = _connect(path, "ro", more="&immutable=1")
            version = _format_version(connection)
    with closing(connection):
        if version != FORMAT_VERSION:
            raise StoreUnusableError(f"format version {version}, expected {FORMAT_VERSION}")
        yield connection


def _format_version(connection: sqlite3.Connection) -> int:
    application, version = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise StoreDamagedError("not an index of clipfeed")
    return version


def _fill(connection: sqlite3.Connection, *, root: str, copy_of: Path | None) -> None:
    if copy_of is None:
        connection.executescript(SCHEMA)
        facts = [("root", encode(root)), ("snapshot", 0), ("reader", "")]
        connection.executemany("INSERT INTO about VALUES (?, ?)", facts)
    else:
        with _reading(copy_of) as source:
            source.backup(connection)
        connection.execute("UPDATE about SET value = ? WHERE name = 'root'", (encode(root),))
    raise_snapshot(connection)


def _choose_journal(connection: sqlite3.Connection) -> str:
    """Take WAL, in which readers never wait, or a rollback journal where the file system has no shared memory."""
    try:
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        connection.execute("SELECT value FROM about").fetchone()  # the first use of the shared memory
    except sqlite3.OperationalError:
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    return str(mode)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Let one process at a time make and replace stores; SQLite's own locks work wherever SQLite does."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnusableError(str(error)) from error
    with sqlite_errors():
        connection = _connect(folder / "clipfeed.lock", "rwc")
    with closing(connection):
        with sqlite_errors():
            connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


def _put(source: Path, target: Path) -> None:
    """Move a closed store, over another one if need be; logs of the old one must not be read with the new one."""
    try:
        _delete_logs(target)
        _delete_logs(source)
        source.replace(target)
    except OSError as error:
        raise StoreUnusableError(str(error)) from error


def _delete_with_logs(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
        _delete_logs(path)
    except OSError as error:
        raise StoreUnusableError(str(error)) from error


def _delete_logs(path: Path) -> None:
    for end in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + end).unlink(missing_ok=True)
