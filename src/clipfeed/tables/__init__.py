"""The index's SQLite file: columns in, flat NumPy columns out.

One file per root keeps one row per video: what `find` listed, what `probe` saw, or why the file cannot be used. This
module never looks at a video or its folder and decides nothing: `index` says what to write and what it means.

    about    root, snapshot (rises with each change of a row), reader (the decoder that failures are due to)
    words    texts that repeat (classes, parts, groups, codecs, containers), by code
    videos   one row per video, in key order at the first scan, later files appended; a row id is never used twice

Writers take turns (WAL and a busy timeout, or a rollback journal where the file system has no shared memory), so two
processes may fill the same file at once. A file of another format version is rebuilt, never misread.
"""

from clipfeed.tables._files import (
    create_store,
    file_number,
    inspect_store,
    mark_failed,
    move_aside,
    open_memory_store,
    open_store,
    read_listing,
    read_store,
)
from clipfeed.tables._layout import (
    FAILED,
    PASSING,
    USABLE,
    WAITING,
    Listed,
    Outcome,
    StoreDamagedError,
    StoredFacts,
    StoreUnusableError,
)
from clipfeed.tables._read import BlobColumn, StoredTable
from clipfeed.tables._store import Store

__all__ = [
    "FAILED",
    "PASSING",
    "USABLE",
    "WAITING",
    "BlobColumn",
    "Listed",
    "Outcome",
    "Store",
    "StoreDamagedError",
    "StoreUnusableError",
    "StoredFacts",
    "StoredTable",
    "create_store",
    "file_number",
    "inspect_store",
    "mark_failed",
    "move_aside",
    "open_memory_store",
    "open_store",
    "read_listing",
    "read_store",
]
