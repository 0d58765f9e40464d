"""The index's SQLite file: rows in, flat columns out, whatever happens to the file."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from clipfeed import tables
from clipfeed.tables import FAILED, PASSING, USABLE, WAITING, Listed, Outcome, Store, StoredFacts, StoredTable
from clipfeed.tables._files import _choose_journal
from clipfeed.tables._read import _READ_ROWS

FACTS = StoredFacts(
    container="avi",
    codec="mpeg4",
    stream_index=1,
    width=320,
    height=240,
    rotation=90,
    sample_aspect_numerator=4,
    sample_aspect_denominator=3,
    average_fps_numerator=30000,
    average_fps_denominator=1001,
    time_base_numerator=1001,
    time_base_denominator=30000,
    is_variable_rate=True,
    num_frames_from_header=409,
    num_frames_from_table=408,
    num_frames_from_packets=407,
    num_frames_from_decode=406,
    key_frames=np.array([0, 12, 24]),
    frame_pts=b"packed",
)


def make_store(folder: Path, name: str = "a.sqlite") -> Path:
    path = folder / name
    tables.create_store(path, root="/data/a")
    return path


def listed(key: str, *, size_bytes: int = 10, mtime_ns: int = 1_700_000_000_123_456_789, **more: str | None) -> Listed:
    return Listed(key=key, size_bytes=size_bytes, mtime_ns=mtime_ns, **more)


def outcome(row_id: int, *, state: int = USABLE, size_bytes: int = 10, reason: str | None = None) -> Outcome:
    return Outcome(
        row_id=row_id,
        size_bytes=size_bytes,
        mtime_ns=1_700_000_000_123_456_789,
        state=state,
        fingerprint=b"0123456789abcdef",
        facts=FACTS if state == USABLE else StoredFacts(),
        stage=None if reason is None else "probe",
        reason=reason,
    )


def filled(store: Store, *keys: str) -> StoredTable:
    store.list_videos([listed(key) for key in keys])
    store.finish_videos([outcome(row_id) for row_id in store.read().numbers["row_id"].tolist()])
    return store.read()


def keys_of(table: StoredTable) -> list[str]:
    bounds = table.keys.offsets.tolist()
    return [table.keys.data[start:end].decode("utf-8", "surrogateescape") for start, end in itertools.pairwise(bounds)]


# ------------------------------------------------------------------------------------------------ rows and columns


def test_an_empty_store_has_empty_columns(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        table = store.read()
    assert len(table) == 0
    assert all(len(column) == 0 for column in table.numbers.values())
    assert table.vocabulary == ()


def test_every_fact_of_a_row_comes_back(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        store.list_videos([listed("train/jump/a.avi", class_name="jump", part="train", group="a-source")])
        store.finish_videos([outcome(1)])
        table = store.read()
    assert keys_of(table) == ["train/jump/a.avi"]
    words = {name: table.vocabulary[table.numbers[f"{name}_code"][0]] for name in ("class", "part", "group")}
    assert words == {"class": "jump", "part": "train", "group": "a-source"}
    assert table.vocabulary[table.numbers["container_code"][0]] == "avi"
    assert table.vocabulary[table.numbers["codec_code"][0]] == "mpeg4"
    assert table.numbers["mtime_ns"][0] == 1_700_000_000_123_456_789
    assert table.numbers["state"][0] == USABLE
    for name in ("stream_index", "width", "height", "rotation", "sample_aspect_numerator", "sample_aspect_denominator"):
        assert table.numbers[name][0] == getattr(FACTS, name)
    for name in ("average_fps_numerator", "average_fps_denominator", "time_base_numerator", "time_base_denominator"):
        assert table.numbers[name][0] == getattr(FACTS, name)
    for name in ("is_variable_rate", *(f"num_frames_from_{tier}" for tier in ("header", "table", "packets", "decode"))):
        assert table.numbers[name][0] == getattr(FACTS, name)
    assert np.frombuffer(table.key_frames.data, "<i4").tolist() == [0, 12, 24]
    assert table.frame_pts.data == b"packed"


def test_rows_keep_the_order_in_which_they_were_listed(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        assert keys_of(filled(store, "b/2.avi", "a/1.avi")) == ["b/2.avi", "a/1.avi"]
        assert keys_of(filled(store, "0/0.avi")) == ["b/2.avi", "a/1.avi", "0/0.avi"]


def test_more_rows_than_are_read_at_a_time_come_out_whole_and_in_order(tmp_path: Path) -> None:
    count = 2 * _READ_ROWS + 3
    with tables.open_store(make_store(tmp_path)) as store:
        store.list_videos([listed(f"c/{number}.avi", size_bytes=number) for number in range(count)], gone=[])
        table = store.read()
    assert table.numbers["size_bytes"].tolist() == list(range(count))
    assert keys_of(table)[:: _READ_ROWS // 2] == [f"c/{number}.avi" for number in range(0, count, _READ_ROWS // 2)]


def test_names_that_are_no_utf8_survive(tmp_path: Path) -> None:
    key = os.fsdecode(b"caf\xe9/\xff\xfe.avi")
    with tables.open_store(make_store(tmp_path)) as store:
        store.list_videos([listed(key, class_name=os.fsdecode(b"caf\xe9"))])
        store.finish_videos([outcome(1, state=FAILED, reason=f"cannot read {key}")])
        table = store.read()
    assert keys_of(table) == [key]
    assert table.vocabulary[table.numbers["class_code"][0]] == os.fsdecode(b"caf\xe9")
    assert table.failures == {1: ("probe", f"cannot read {key}")}


# --------------------------------------------------------------------------------------------------- what changes


def test_listing_the_same_again_changes_nothing(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        before = filled(store, "a/1.avi", "a/2.avi")
        store.list_videos([listed("a/1.avi"), listed("a/2.avi")])
        assert store.read().snapshot == before.snapshot


@pytest.mark.parametrize("change", [{"size_bytes": 11}, {"mtime_ns": 5}])
def test_a_changed_file_waits_again_in_its_old_row(tmp_path: Path, change: dict[str, int]) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        before = filled(store, "a/1.avi", "a/2.avi")
        store.list_videos([listed("a/1.avi", **change)])
        after = store.read()
    assert after.numbers["row_id"].tolist() == before.numbers["row_id"].tolist()
    assert after.numbers["state"].tolist() == [WAITING, USABLE]
    assert after.snapshot > before.snapshot


def test_another_class_does_not_send_a_file_back_to_be_probed(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        before = filled(store, "train/jump/1.avi")
        store.list_videos([listed("train/jump/1.avi", class_name="jump", part="train")])
        after = store.read()
    assert after.numbers["state"].tolist() == [USABLE]
    assert after.vocabulary[after.numbers["class_code"][0]] == "jump"
    assert after.snapshot > before.snapshot


def test_a_row_id_is_never_used_twice(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        filled(store, "a/1.avi", "a/2.avi")
        store.list_videos([], gone=[2])
        after = filled(store, "a/3.avi")
    assert dict(zip(keys_of(after), after.numbers["row_id"].tolist(), strict=True)) == {"a/1.avi": 1, "a/3.avi": 3}


def test_an_outcome_for_another_version_of_the_file_is_dropped(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        store.list_videos([listed("a/1.avi", size_bytes=11)])
        before = store.read()
        store.finish_videos([outcome(1, size_bytes=10)])
        after = store.read()
    assert after.numbers["state"].tolist() == [WAITING]
    assert after.snapshot == before.snapshot


def test_the_first_of_two_outcomes_stays_and_the_second_changes_nothing(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        before = filled(store, "a/1.avi")
        store.finish_videos([outcome(1, state=FAILED, reason="broken")])
        after = store.read()
    assert after.numbers["state"].tolist() == [USABLE]
    assert after.snapshot == before.snapshot


def test_a_passing_failure_takes_another_outcome_but_not_the_same_one(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        store.list_videos([listed("a/1.avi")])
        store.finish_videos([outcome(1, state=PASSING, reason="no permission")])
        before = store.read()
        store.finish_videos([outcome(1, state=PASSING, reason="no permission")])
        assert store.read().snapshot == before.snapshot
        store.finish_videos([outcome(1)])
        after = store.read()
    assert before.failures == {1: ("probe", "no permission")}
    assert (after.numbers["state"].tolist(), after.failures) == ([USABLE], {})


def test_failures_are_forgotten_once_for_each_reader(tmp_path: Path) -> None:
    with tables.open_store(make_store(tmp_path)) as store:
        store.forget_failures("av 18")
        store.list_videos([listed("a/1.avi"), listed("a/2.avi")])
        store.finish_videos([outcome(1, state=FAILED, reason="broken"), outcome(2)])
        store.forget_failures("av 18")
        assert store.read().numbers["state"].tolist() == [FAILED, USABLE]
        store.forget_failures("av 19")
        assert store.read().numbers["state"].tolist() == [WAITING, USABLE]
        assert store.read().reader == "av 19"


def test_a_change_that_is_broken_off_leaves_nothing(tmp_path: Path) -> None:
    def rows() -> Iterator[Listed]:
        yield listed("a/1.avi", class_name="jump")
        yield listed("a/2.avi", size_bytes=2**70)  # no SQLite integer

    with tables.open_store(make_store(tmp_path)) as store:
        with pytest.raises(OverflowError):
            store.list_videos(list(rows()))
        assert len(store.read()) == 0
        store.list_videos([listed("b/1.avi", class_name="run"), listed("b/2.avi", class_name="jump")])
        table = store.read()
    assert [table.vocabulary[code] for code in table.numbers["class_code"]] == ["run", "jump"]


def test_marking_a_video_as_failed_keeps_snapshot_and_facts(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        before = filled(store, "a/1.avi", "a/2.avi")
    when = 1_700_000_000_123_456_789
    tables.mark_failed(path, key="a/2.avi", size_bytes=10, mtime_ns=when, stage="decode", reason="frame 3")
    tables.mark_failed(path, key="a/1.avi", size_bytes=11, mtime_ns=when, stage="decode", reason="another file")
    after = tables.read_store(path)
    assert after.snapshot == before.snapshot
    assert after.numbers["state"].tolist() == [USABLE, FAILED]
    assert after.failures == {2: ("decode", "frame 3")}
    assert after.numbers["num_frames_from_decode"].tolist() == [406, 406]


def test_what_is_looked_up_is_the_listing_and_the_fingerprint(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        filled(store, "a/1.avi")
    when = 1_700_000_000_123_456_789
    assert tables.read_listing(path, ["a/1.avi", "a/0.avi"]) == [(10, when, b"0123456789abcdef"), None]


# --------------------------------------------------------------------------------------------- the file and its fate


def test_a_store_writes_ahead_so_that_readers_never_wait(tmp_path: Path) -> None:
    with closing(sqlite3.connect(make_store(tmp_path))) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_file_system_without_shared_memory_gets_a_rollback_journal(tmp_path: Path) -> None:
    uri = f"{(tmp_path / 'a.sqlite').as_uri()}?vfs=unix-dotfile"  # SQLite's layer for such file systems
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE about (name, value)")
        assert _choose_journal(connection) == "delete"


def test_creating_a_store_twice_keeps_the_first(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        filled(store, "a/1.avi")
    tables.create_store(path, root="/data/a")
    assert keys_of(tables.read_store(path)) == ["a/1.avi"]


def test_a_copy_takes_the_rows_and_not_the_root(tmp_path: Path) -> None:
    first, second = make_store(tmp_path), tmp_path / "b.sqlite"
    with tables.open_store(first) as store:
        before = filled(store, "a/1.avi")
        tables.create_store(second, root="/data/b", copy_of=first)  # the first may be open meanwhile
    copied = tables.read_store(second)
    assert keys_of(copied) == ["a/1.avi"]
    assert copied.snapshot > before.snapshot
    with closing(sqlite3.connect(second)) as connection:
        assert connection.execute("SELECT value FROM about WHERE name = 'root'").fetchone() == (b"/data/b",)


def test_a_store_in_memory_starts_from_a_file_and_leaves_it_alone(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        before = filled(store, "a/1.avi")
    with tables.open_memory_store(root="/data/a", copy_of=path) as memory:
        assert keys_of(filled(memory, "a/2.avi")) == ["a/1.avi", "a/2.avi"]
    assert tables.read_store(path).snapshot == before.snapshot


def test_another_format_version_is_rebuilt_and_never_read(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        before = filled(store, "a/1.avi")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert tables.inspect_store(path) == "outdated"
    with pytest.raises(tables.StoreUnusableError, match="format version 99"):
        tables.read_store(path)
    tables.create_store(path, root="/data/a")
    rebuilt = tables.read_store(path)
    assert len(rebuilt) == 0
    assert rebuilt.snapshot > before.snapshot


def test_a_missing_store_is_missing(tmp_path: Path) -> None:
    assert tables.inspect_store(tmp_path / "a.sqlite") == "missing"
    with pytest.raises(tables.StoreUnusableError):
        tables.read_store(tmp_path / "a.sqlite")


@pytest.mark.parametrize("content", [b"", b"no database, just words\n" * 200, b"SQLite format 3\0" + bytes(4000)])
def test_a_file_that_is_no_store_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    for use in (tables.inspect_store, tables.read_store):
        with pytest.raises(tables.StoreDamagedError):
            use(path)


def test_somebody_elses_database_is_moved_aside_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE dear (diary); INSERT INTO dear VALUES ('today');")
    with pytest.raises(tables.StoreDamagedError):
        tables.create_store(path, root="/data/a")
    tables.move_aside(path, tables.file_number(path))
    tables.create_store(path, root="/data/a")
    with closing(sqlite3.connect(tmp_path / "a.sqlite.damaged")) as connection:
        assert connection.execute("SELECT * FROM dear").fetchall() == [("today",)]


def test_a_store_whose_end_is_lost_is_damaged(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        filled(store, *(f"a/{number}.avi" for number in range(500)))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(tables.StoreDamagedError), tables.open_store(path) as store:
        store.read()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE words SET text = 'x' WHERE code = 0",
        "UPDATE videos SET state = 2, failure_reason = NULL",
        "UPDATE about SET value = 'x' WHERE name = 'snapshot'",
        "UPDATE about SET value = 1 WHERE name = 'reader'",
    ],
)
def test_a_store_with_another_type_in_place_of_a_text_is_damaged(tmp_path: Path, change: str) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        filled(store, "a/1.avi")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(tables.StoreDamagedError), tables.open_store(path) as store:
        store.read()


def test_a_store_whose_schema_is_no_text_any_more_is_damaged(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    data = path.read_bytes()
    place = data.rindex(b"CREATE TABLE videos")  # SQLite quotes what it cannot read in its message
    path.write_bytes(data[:place] + b"CREATE T\xccBLE videos" + data[place + 19 :])
    with pytest.raises(tables.StoreDamagedError), tables.open_store(path) as store:
        store.read()


def test_a_store_with_nonsense_in_a_row_is_damaged(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    with tables.open_store(path) as store:
        filled(store, "a/1.avi")
    for nonsense in (
        "rotation = 17", "class_code = 1000", "key_frames = x'00'", "width = 'wide'", "height = x''", "state = 9",
        "num_frames_from_decode = -5", "num_frames_from_table = 99999999999", "frame_pts = 7", "key = 'a/1.avi'",
    ):  # fmt: skip
        copy = tmp_path / "copy.sqlite"
        shutil.copy(path, copy)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.execute(f"UPDATE videos SET {nonsense}")
        with pytest.raises(tables.StoreDamagedError, match=r"contradict|number|bytes"):
            tables.read_store(copy)


def test_a_store_that_another_process_replaced_is_not_moved_aside(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    seen = tables.file_number(path)
    path.rename(tmp_path / "old.sqlite")
    make_store(tmp_path)
    tables.move_aside(path, seen)
    assert tables.inspect_store(path) == "usable"


def test_a_log_of_a_removed_store_is_not_read_with_the_next_one(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    script = (
        "import os, sys; from pathlib import Path; from clipfeed import tables\n"
        "with tables.open_store(Path(sys.argv[1])) as store:\n"
        "    store.list_videos([tables.Listed(key='a/1.avi', size_bytes=1, mtime_ns=1)]); os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, path], check=False, timeout=60).returncode == 9
    assert path.with_name("a.sqlite-wal").exists()  # killed before the log went into the file
    path.unlink()
    make_store(tmp_path)
    assert len(tables.read_store(path)) == 0


def test_a_killed_writer_leaves_what_it_committed(tmp_path: Path) -> None:
    path = make_store(tmp_path)
    script = (
        "import os, sys; from pathlib import Path; from clipfeed import tables\n"
        "with tables.open_store(Path(sys.argv[1])) as store:\n"
        "    store.list_videos([tables.Listed(key='a/1.avi', size_bytes=1, mtime_ns=1)])\n"
        "    store._connection.execute('BEGIN IMMEDIATE')\n"
        "    store._connection.execute('DELETE FROM videos'); os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", script, path], check=False, timeout=60)
    assert keys_of(tables.read_store(path)) == ["a/1.avi"]


def test_processes_that_fill_one_store_at_once_agree(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.sqlite"
    script = (
        "import sys; from pathlib import Path; from clipfeed import tables; path = Path(sys.argv[1])\n"
        "sys.stdin.readline()\n"
        "tables.create_store(path, root='/data/a')\n"
        "with tables.open_store(path) as store:\n"
        "    store.list_videos([tables.Listed(key=f'c{n % 7}/{n}', size_bytes=n, mtime_ns=1, class_name=f'c{n % 7}')"
        " for n in range(400)])\n"
        "    for start in range(0, 400, 16):\n"
        "        store.finish_videos([tables.Outcome(row_id=n + 1, size_bytes=n, mtime_ns=1, state=tables.USABLE)"
        " for n in range(start, start + 16)])\n"
        "print(tables.read_store(path).snapshot)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=120)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    table = tables.read_store(path)
    assert keys_of(table) == [f"c{number % 7}/{number}" for number in range(400)]
    assert set(table.numbers["state"].tolist()) == {USABLE}
    assert [table.vocabulary[code] for code in table.numbers["class_code"][:8]] == [f"c{n % 7}" for n in range(8)]
    assert max(int(text) for text in said) == table.snapshot
    assert sorted(item.name for item in path.parent.iterdir()) == ["a.sqlite", "clipfeed.lock"]


# -------------------------------------------------------------------------------------------------------- permissions


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def run_without_root(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in a process that has given up root, for which permissions mean nothing."""
    prelude = (
        "import os, sys; from pathlib import Path; from clipfeed import tables\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    )
    command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_folder_that_cannot_be_written_is_unusable(open_folder: Path) -> None:
    code = (
        "try: tables.create_store(Path(sys.argv[1]) / 'a.sqlite', root='/data')\n"
        "except tables.StoreUnusableError as error: print('unusable:', error)\n"
    )
    open_folder.chmod(0o555)
    for folder in (open_folder, open_folder / "below"):
        assert run_without_root(code, folder).stdout.startswith("unusable:")
    assert list(open_folder.iterdir()) == []


def test_a_store_in_a_folder_that_cannot_be_written_can_be_read(open_folder: Path) -> None:
    path = make_store(open_folder)
    with tables.open_store(path) as store:
        filled(store, "a/1.avi")
    path.chmod(0o444)
    open_folder.chmod(0o555)
    code = (
        "path = Path(sys.argv[1])\n"
        "print(tables.read_store(path).keys.data)\n"
        "with tables.open_memory_store(root='/data', copy_of=path) as store: print(len(store.read()))\n"
        "try:\n"
        "    with tables.open_store(path) as store: store.list_videos([], gone=[1])\n"
        "except tables.StoreUnusableError: print('unusable')\n"
    )
    result = run_without_root(code, path)
    assert result.stdout.split() == ["b'a/1.avi'", "1", "unusable"], result.stderr
