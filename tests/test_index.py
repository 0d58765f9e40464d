"""From a folder to a table of usable videos: exact, incremental, interruptible, and never beside the data."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import platformdirs
import pytest

from clipfeed import testing
from clipfeed.errors import LayoutError, ProbeError, StaleIndexError
from clipfeed.find import find_videos
from clipfeed.index import _scan, build_index, remember_failure
from clipfeed.index._columns import columns_of
from clipfeed.records import Failure, VideoIndex, pack_times
from clipfeed.storage import fingerprint_file
from clipfeed.tables import (
    USABLE,
    Listed,
    Outcome,
    StoredFacts,
    create_store,
    open_store,
    read_listing,
    read_store,
)

CLASSES = ("jump", "run", "walk")


@pytest.fixture(scope="session")
def one_video(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A numbered video of 24 frames."""
    path = tmp_path_factory.mktemp("video") / "a.avi"
    return testing.write_numbered_video(path, num_frames=24, size=(48, 64)).read_bytes()


@pytest.fixture
def root(tmp_path: Path, one_video: bytes) -> Path:
    """Three classes of four videos, under names of which two clips each share a source."""
    folder = tmp_path / "data set"
    for class_name in CLASSES:
        for number in range(4):
            put(folder / class_name / f"v_{class_name}_g{number // 2 + 1:02d}_c{number % 2 + 1:02d}.avi", one_video)
    return folder


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of the files that were opened, in any order."""
    keys: list[str] = []
    probe = _scan.probe_video

    def probe_and_note(root: str, found: object) -> object:
        keys.append(found.key)
        return probe(root, found)

    monkeypatch.setattr(_scan, "probe_video", probe_and_note)
    return keys


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def change(path: Path, content: bytes) -> None:
    """Write other content, with a time of change that even a coarse clock tells from the old one."""
    before = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def all_files(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.lstat().st_mtime_ns for path in [folder, *folder.rglob("*")]}


def facts_of(index: VideoIndex) -> list[tuple[object, ...]]:
    return [(record.key, record.label, record.group, record.info) for record in index.records]


# ------------------------------------------------------------------------------------------------ what the index says


def test_every_video_becomes_a_row_in_the_order_of_find_videos(root: Path) -> None:
    index = build_index(root)
    assert index.keys == list(find_videos(root).keys)
    assert index.paths == [f"{root}/{key}" for key in index.keys]
    assert index.class_names == CLASSES
    assert index.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert index.num_frames.tolist() == [24] * 12
    assert index.failures == ()
    assert index.summary().splitlines()[0] == "12 videos belonging to 3 classes"


def test_a_record_carries_what_probing_found(root: Path) -> None:
    record = build_index(root).records[5]
    stat = (root / record.key).stat()
    assert (record.size_bytes, record.mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert (record.info.container, record.info.codec, record.info.width, record.info.height) == ("avi", "mpeg4", 64, 48)
    assert (record.info.average_fps, record.info.rotation, record.info.is_variable_rate) == (25, 0, False)
    assert record.info.key_frames[0] == 0


def test_times_of_a_variable_rate_video_are_kept(tmp_path: Path) -> None:
    (tmp_path / "data" / "jump").mkdir(parents=True)
    testing.write_variable_rate(tmp_path / "data" / "jump" / "a.mp4")
    built = build_index(tmp_path / "data").records[0].info
    again = build_index(tmp_path / "data").records[0].info
    for info in (built, again):
        assert (info.is_variable_rate, info.num_frames) == (True, 90)
        assert info.frame_pts is not None
        seconds = (info.frame_pts - info.frame_pts[0]) * float(info.time_base)
        assert np.allclose(seconds, np.array(testing.VARIABLE_RATE_NUMBERS) / 60)


def test_sources_that_names_spell_become_groups(root: Path, one_video: bytes) -> None:
    put(root / "jump" / "holiday.avi", one_video)
    groups = dict(zip(*(lambda index: (index.keys, index.groups))(build_index(root)), strict=True))
    assert groups["jump/holiday.avi"] == "jump/holiday.avi"
    assert groups["jump/v_jump_g01_c01.avi"] == groups["jump/v_jump_g01_c02.avi"]
    assert len({groups[key] for key in groups if key.startswith("jump/v_jump")}) == 2


def test_labels_do_not_depend_on_the_order_in_which_folders_were_made(tmp_path: Path, one_video: bytes) -> None:
    for name in ("walk", "jump", "Run", "run"):
        put(tmp_path / "data" / name / "a.avi", one_video)
    assert build_index(tmp_path / "data").class_names == ("Run", "jump", "run", "walk")


def test_folders_above_the_classes_are_parts(tmp_path: Path, one_video: bytes) -> None:
    for part, name in (("train", "run"), ("train", "jump"), ("validation", "run"), ("test", "run")):
        put(tmp_path / "data" / part / name / "a.avi", one_video)
    parts = build_index(tmp_path / "data").folder_parts()
    assert {name: part.keys for name, part in parts.items()} == {
        "train": ["train/jump/a.avi", "train/run/a.avi"],
        "val": ["validation/run/a.avi"],
        "test": ["test/run/a.avi"],
    }
    assert parts["val"].class_names == ("jump", "run")
    assert parts["val"].labels.tolist() == [1]


def test_names_of_all_sorts_survive(tmp_path: Path, one_video: bytes) -> None:
    names = [
        "-4jo2KgKd5U",
        "100%d",
        "file:x",
        "[a](b)#&;!",
        "é ü 日本",
        " two  spaces ",
        "a\nb",
        os.fsdecode(b"\xff\xe9"),
    ]
    for name in names:
        put(tmp_path / "data" / name / f"{name}.AVI", one_video)
    index = build_index(tmp_path / "data")
    assert sorted(index.class_names) == sorted(names)
    assert {record.class_name for record in index.records} == set(names)
    assert build_index(tmp_path / "data").keys == index.keys
    assert pickle.loads(pickle.dumps(index)).keys == index.keys


# ----------------------------------------------------------------------------------------- the second and later calls


def test_a_second_call_opens_no_file_and_gives_the_same(root: Path, probed: list[str]) -> None:
    first = build_index(root)
    assert sorted(probed) == first.keys
    probed.clear()
    second = build_index(root)
    assert probed == []
    assert facts_of(second) == facts_of(first)
    assert second.store == first.store


def test_the_root_may_be_spelled_in_any_way(root: Path, probed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    monkeypatch.chdir(root.parent)
    stores = {build_index(way).store.path for way in (str(root), f"{root}/", root, "data set", "./data set", link)}
    assert len(stores) == 1
    assert len(probed) == 12
    assert build_index("data set").paths[0] == "data set/jump/v_jump_g01_c01.avi"


def test_only_new_and_changed_files_are_opened(root: Path, probed: list[str], one_video: bytes) -> None:
    before = build_index(root)
    probed.clear()
    longer = testing.write_numbered_video(root.parent / "longer.avi", num_frames=30, size=(48, 64)).read_bytes()
    change(root / "run" / "v_run_g01_c01.avi", longer)
    put(root / "hop" / "new.avi", one_video)
    (root / "walk" / "v_walk_g01_c01.avi").unlink()
    after = build_index(root)
    assert sorted(probed) == ["hop/new.avi", "run/v_run_g01_c01.avi"]
    assert after.keys == list(find_videos(root).keys)
    assert after.class_names == ("hop", *CLASSES)
    counts = dict(zip(after.keys, after.num_frames.tolist(), strict=True))
    assert counts.pop("run/v_run_g01_c01.avi") == 30
    assert set(counts.values()) == {24}
    old_rows = {record.key: record.row for record in before.records}
    for record in after.records:
        assert record.row == old_rows.get(record.key, 13)


def test_the_same_size_at_another_time_counts_as_changed(root: Path, probed: list[str], one_video: bytes) -> None:
    build_index(root)
    probed.clear()
    change(root / "run" / "v_run_g01_c01.avi", one_video)
    build_index(root)
    assert probed == ["run/v_run_g01_c01.avi"]


def test_a_moved_folder_is_recognised_by_what_it_holds(root: Path, probed: list[str], one_video: bytes) -> None:
    before = build_index(root)
    probed.clear()
    moved = root.rename(root.parent / "elsewhere")
    put(moved / "jump" / "new.avi", one_video)
    after = build_index(moved)
    assert probed == ["jump/new.avi"]
    assert set(before.keys) < set(after.keys)
    old_rows = {record.key: record.row for record in before.records}
    assert all(record.row == old_rows.get(record.key, record.row) for record in after.records)
    assert after.store.path != before.store.path


def test_a_copied_folder_is_recognised_and_the_first_keeps_its_index(root: Path, probed: list[str]) -> None:
    first = build_index(root)
    probed.clear()
    copied = Path(shutil.copytree(root, root.parent / "copy"))
    assert build_index(copied).keys == first.keys
    assert probed == []
    assert pickle.loads(pickle.dumps(first)).keys == first.keys


def test_another_data_set_with_the_same_listing_is_not_taken_for_a_moved_one(root: Path, probed: list[str]) -> None:
    build_index(root)
    probed.clear()
    other = Path(shutil.copytree(root, root.parent / "other"))
    for path in other.rglob("*.avi"):
        stat = path.stat()
        content = bytearray(path.read_bytes())
        content[-100] ^= 0xFF
        path.write_bytes(bytes(content))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    build_index(other)
    assert len(probed) == 12


def test_another_way_of_finding_opens_no_file_again(root: Path, probed: list[str], one_video: bytes) -> None:
    put(root / "loose.avi", one_video)
    build_index(root)
    probed.clear()
    index = build_index(root, labels=None)
    assert probed == ["loose.avi"]
    assert (len(index), index.class_names, index.labels) == (13, None, None)
    assert {record.class_name for record in index.records} == {None}
    probed.clear()
    assert build_index(root).class_names == CLASSES
    assert probed == []


def test_linked_folders_are_visited_on_request(root: Path, tmp_path: Path, one_video: bytes) -> None:
    put(tmp_path / "far" / "a.avi", one_video)
    (root / "hop").symlink_to(tmp_path / "far")
    assert build_index(root).class_names == CLASSES
    assert build_index(root, follow_links=True).class_names == ("hop", *CLASSES)
    assert build_index(root).class_names == CLASSES


# ------------------------------------------------------------------------------------------------- what cannot be used


def test_files_that_cannot_be_used_are_left_out_by_name_and_not_opened_again(root: Path, probed: list[str]) -> None:
    broken = {kind.write(root / "run") for kind in testing.REFUSED_KINDS}
    index = build_index(root)
    assert len(index) == 12
    assert {Path(failure.path) for failure in index.failures} == broken
    assert {failure.stage for failure in index.failures} == {"probe"}
    assert all(failure.reason and str(root) not in failure.reason for failure in index.failures)
    probed.clear()
    again = build_index(root)
    assert probed == []
    assert again.failures == index.failures
    assert f"left out: {len(broken)} files" in again.summary()


def test_a_mended_file_is_used(root: Path, one_video: bytes) -> None:
    path = put(root / "run" / "a.avi", b"")
    assert [failure.path for failure in build_index(root).failures] == [str(path)]
    change(path, one_video)
    index = build_index(root)
    assert index.failures == ()
    assert "run/a.avi" in index.keys


def test_what_find_refuses_is_among_the_failures(root: Path) -> None:
    fifo = testing.make_fifo(root / "run" / "pipe.avi")
    failures = build_index(root).failures
    assert [(failure.path, failure.stage) for failure in failures] == [(str(fifo), "find")]


def test_a_class_keeps_its_label_though_none_of_its_files_can_be_used(root: Path) -> None:
    put(root / "hop" / "a.avi", b"")
    index = build_index(root)
    assert index.class_names == ("hop", *CLASSES)
    assert index.labels.min() == 1
    assert index.classes_without_videos == ("hop",)
    assert "classes without a usable video: hop" in index.summary()


def test_an_empty_class_folder_is_no_class(root: Path) -> None:
    (root / "hop").mkdir()
    assert build_index(root).class_names == CLASSES


def test_a_folder_without_any_usable_video_says_why_for_the_first_ten(tmp_path: Path) -> None:
    for number in range(12):
        put(tmp_path / "data" / "jump" / f"{number:02d}.avi", b"")
    with pytest.raises(ProbeError) as caught:
        build_index(tmp_path / "data")
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'data'}: none of the 12 files found can be used")
    assert text.count("jump/") == 10
    assert "and 2 more" in text


def test_a_folder_without_videos_draws_the_expected_layout(tmp_path: Path) -> None:
    put(tmp_path / "data" / "notes.txt", b"hello")
    with pytest.raises(LayoutError, match="data"):
        build_index(tmp_path / "data")


def test_another_decoder_gets_another_try_at_failed_files(
    root: Path, probed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "run" / "a.avi", b"")
    build_index(root)
    probed.clear()
    monkeypatch.setattr(_scan, "_PROBE_RULES", -1)
    build_index(root)
    assert probed == ["run/a.avi"]


# -------------------------------------------------------------------------------------------------- labels and classes


def test_a_list_of_labels_goes_by_the_order_of_find_videos_before_any_file_is_dropped(root: Path) -> None:
    put(root / "jump" / "a.avi", b"")
    keys = find_videos(root, labels=None).keys
    index = build_index(root, labels=range(len(keys)))
    assert index.keys == [key for key in keys if key != "jump/a.avi"]
    assert index.labels.tolist() == [label for label, key in enumerate(keys) if key != "jump/a.avi"]
    assert index.class_names == tuple(str(label) for label in range(len(keys)))
    assert [record.label for record in index.records] == index.labels.tolist()


def test_a_list_of_labels_that_starts_at_one_keeps_every_label_in_range(root: Path) -> None:
    index = build_index(root, labels=[1] * 6 + [3] * 6)
    assert index.class_names == ("0", "1", "2", "3")
    assert index.labels.max() < len(index.class_names)
    assert index.classes_without_videos == ("0", "2")


def test_a_list_of_another_length_names_both_numbers(root: Path, probed: list[str]) -> None:
    with pytest.raises(ValueError, match="11 labels for 12 files"):
        build_index(root, labels=[0] * 11)
    assert probed == []


@pytest.mark.parametrize("wrong", ["infer", [0, "1"], [0, 1.0], [True, False], [0, -1], [0, 10**9], 7, {0: 1}])
def test_labels_that_are_no_class_numbers_are_refused(root: Path, wrong: object) -> None:
    with pytest.raises(ValueError, match=r"labels.*expected"):
        build_index(root, labels=wrong)


def test_class_names_set_the_order_and_may_be_a_subset(root: Path, probed: list[str]) -> None:
    index = build_index(root, class_names=["walk", "jump"])
    assert index.class_names == ("walk", "jump")
    assert index.labels.tolist() == [1] * 4 + [0] * 4
    assert {key.split("/")[0] for key in probed} == {"walk", "jump"}
    probed.clear()
    assert len(build_index(root)) == 12
    assert {key.split("/")[0] for key in probed} == {"run"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"class_names": ["jump", "fly"]}, "no folder 'fly'"),
        ({"class_names": ["jump", "jump"]}, "each class once"),
        ({"class_names": []}, "each class once"),
        ({"class_names": "jump"}, "expected a list of folder names"),
        ({"class_names": ["jump"], "labels": [0] * 12}, 'needs labels="inferred"'),
        ({"class_names": ["jump"], "labels": None}, 'needs labels="inferred"'),
        ({"workers": 0}, "workers=0"),
    ],
)
def test_arguments_that_contradict_the_folder_or_each_other_are_refused(
    root: Path, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build_index(root, **arguments)


# -------------------------------------------------------------------------------------- progress, interruption, threads


def test_progress_counts_up_to_the_files_that_had_to_be_opened(root: Path, one_video: bytes) -> None:
    calls: list[tuple[int, int]] = []
    build_index(root, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (12, 12)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    calls.clear()
    put(root / "jump" / "new.avi", one_video)
    build_index(root, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 1)]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_number_of_workers_changes_nothing(root: Path, tmp_path: Path, workers: int) -> None:
    index = build_index(root, workers=workers, index=tmp_path / "store")
    assert facts_of(index) == facts_of(build_index(root))


SCAN = """
import os, signal, sys
from clipfeed.index import build_index

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job is born deaf to it

def stop(done, total):
    if done >= 24:
        {stop}

build_index(sys.argv[1], index=sys.argv[2], workers=2, progress=stop)
"""


def many(folder: Path, content: bytes, count: int) -> Path:
    for number in range(count):
        put(folder / f"class{number % 3}" / f"{number:04d}.avi", content)
    return folder


def test_ctrl_c_keeps_what_was_done(tmp_path: Path, one_video: bytes, probed: list[str]) -> None:
    folder = many(tmp_path / "data", one_video, 200)
    script = SCAN.format(stop="os.kill(os.getpid(), signal.SIGINT)")
    command = [sys.executable, "-c", script, folder, tmp_path / "store"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == -signal.SIGINT, result.stderr
    assert "KeyboardInterrupt" in result.stderr
    index = build_index(folder, index=tmp_path / "store")
    assert len(index) == 200
    assert 0 < len(probed) <= 200 - 24


def test_an_exception_on_the_way_keeps_what_was_done(tmp_path: Path, one_video: bytes, probed: list[str]) -> None:
    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    folder = many(tmp_path / "data", one_video, 60)
    with pytest.raises(RuntimeError, match="enough"):
        build_index(folder, progress=stop, workers=1)
    probed.clear()
    assert len(build_index(folder)) == 60
    assert len(probed) < 60


def test_a_killed_scan_leaves_a_store_that_goes_on(
    tmp_path: Path, one_video: bytes, probed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = many(tmp_path / "data", one_video, 60)
    script = "from clipfeed.index import _scan; _scan._COMMIT_FILES = 8\n" + SCAN.format(stop="os._exit(9)")
    command = [sys.executable, "-c", script, folder, tmp_path / "store"]
    assert subprocess.run(command, timeout=120, check=False).returncode == 9
    index = build_index(folder, index=tmp_path / "store")
    assert index.keys == list(find_videos(folder).keys)
    assert 0 < len(probed) <= 60 - 16
    assert [record.row for record in index.records] == list(range(1, 61))


def test_two_processes_may_build_one_index_at_once(tmp_path: Path, one_video: bytes) -> None:
    folder = many(tmp_path / "data", one_video, 80)
    script = (
        "import pickle, sys; from clipfeed.index import build_index; sys.stdin.readline()\n"
        "index = build_index(sys.argv[1], index=sys.argv[2]); print(len(index), index.store.snapshot)\n"
    )
    command = [sys.executable, "-c", script, folder, tmp_path / "store"]
    builders = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for builder in builders:
        builder.stdin.write("go\n")
        builder.stdin.flush()
    said = [builder.communicate(timeout=120)[0].split() for builder in builders]
    assert [words[0] for words in said] == ["80", "80"]
    index = build_index(folder, index=tmp_path / "store")
    assert [record.row for record in index.records] == sorted(record.row for record in index.records)
    assert index.store.snapshot == max(int(words[1]) for words in said)


# ---------------------------------------------------------------------------------------------- where the index is kept


def test_nothing_is_written_beside_the_data(root: Path) -> None:
    before = all_files(root)
    build_index(root)
    build_index(root)
    assert all_files(root) == before


def test_the_index_is_kept_in_the_users_cache_folder_or_where_one_says(root: Path, tmp_path: Path) -> None:
    assert Path(build_index(root).store.path).is_relative_to(platformdirs.user_cache_path("clipfeed"))
    index = build_index(root, index=tmp_path / "mine" / "deep")
    assert Path(index.store.path).parent == tmp_path / "mine" / "deep"
    assert sorted(path.name for path in (tmp_path / "mine" / "deep").iterdir()) == [
        "clipfeed.lock",
        Path(index.store.path).name,
    ]


@pytest.mark.parametrize("harm", ["words", "cut", "empty", "nonsense"])
def test_a_damaged_store_is_built_anew_with_one_warning(root: Path, harm: str, probed: list[str]) -> None:
    first = build_index(root)
    path = Path(first.store.path)
    probed.clear()
    harm_store(path, harm)
    with pytest.warns(UserWarning, match="was damaged") as caught:
        index = build_index(root)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert facts_of(index) == facts_of(first)
    assert len(probed) == 12
    assert path.with_name(path.name + ".damaged").exists()
    probed.clear()
    build_index(root)
    assert probed == []


def harm_store(path: Path, harm: str) -> None:
    if harm == "words":
        path.write_text("no database " * 1000)
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xa5" * (len(content) - 4096)
        path.write_bytes(bytes(content))


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


# What a disk may make of the facts of a row; the first video has times of its own, 24 of them.
DAMAGED_VALUES: dict[str, tuple[str, Callable[[bytes], object]]] = {
    "a bit of the times": ("frame_pts", lambda data: flipped(data, len(data) // 2)),
    "the last bit of the times": ("frame_pts", lambda data: flipped(data, len(data) - 1)),
    "half of the times": ("frame_pts", lambda data: data[: len(data) // 2]),
    "other times": ("frame_pts", lambda _: pack_times(np.arange(23, dtype=np.int64))),
    "times of half a number": ("frame_pts", lambda _: zlib.compress(bytes(24 * 8 - 4))),
    "no times at all": ("frame_pts", lambda _: b"no times"),
    "falling key frames": ("key_frames", lambda _: np.array([0, 12, 4], "<i4").tobytes()),
    "a negative key frame": ("key_frames", lambda _: np.array([-1], "<i4").tobytes()),
    "no width": ("width", lambda _: 0),
    "a negative height": ("height", lambda _: -480),
    "a number of frames": ("num_frames_from_packets", lambda _: 25),
    "no time base": ("time_base_denominator", lambda _: 0),
    "half a rate": ("average_fps_numerator", lambda _: 0),
    "a negative shape of pixels": ("sample_aspect_numerator", lambda _: -1),
    "no codec": ("codec_code", lambda _: -1),
}


@pytest.fixture
def variable_root(tmp_path: Path, one_video: bytes) -> Path:
    """A video of variable rate, counted by its packets, and one of constant rate."""
    folder = tmp_path / "variable"
    put(folder / "walk" / "steady.avi", one_video)
    (folder / "run").mkdir()
    ticks = [0, 1, 3, *range(10, 31)]
    frames = (testing.paint_numbered_frame(number, (48, 64)) for number in range(24))
    testing.write_frames(folder / "run" / "a.mkv", frames, ticks=ticks)
    return folder


def damage_value(store: Path, column: str, change_value: Callable[[bytes], object]) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        (value,) = connection.execute(f"SELECT {column} FROM videos WHERE row_id = 1").fetchone()
        connection.execute(f"UPDATE videos SET {column} = ? WHERE row_id = 1", (change_value(value),))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.parametrize("damage", DAMAGED_VALUES)
def test_a_damaged_value_of_a_video_is_damage_of_the_store(variable_root: Path, damage: str, probed: list[str]) -> None:
    first = build_index(variable_root)
    assert first.records[0].info.num_frames_from_packets == len(first.records[0].info.frame_pts) == 24
    copy = pickle.dumps(first)
    probed.clear()
    damage_value(Path(first.store.path), *DAMAGED_VALUES[damage])
    with pytest.raises(StaleIndexError, match=r"its index cannot be read again \(run/a.mkv: "):
        pickle.loads(copy)
    with pytest.warns(UserWarning, match=r"was damaged \(run/a.mkv: .*\); it has been built anew") as caught:
        index = build_index(variable_root)
    assert len(caught) == 1
    assert facts_of(index) == facts_of(first)
    np.testing.assert_array_equal(index.records[0].info.frame_pts, first.records[0].info.frame_pts)
    assert sorted(probed) == ["run/a.mkv", "walk/steady.avi"]


def test_values_of_files_that_cannot_be_used_are_not_looked_at(variable_root: Path, probed: list[str]) -> None:
    index = build_index(variable_root)
    remember_failure(index, "run/a.mkv", Failure(path="", stage="decode", reason="broken"))
    damage_value(Path(index.store.path), "frame_pts", lambda _: b"no times")
    probed.clear()
    assert [failure.reason for failure in build_index(variable_root).failures] == ["broken"]
    assert probed == []


def test_a_moved_folder_does_not_take_damage_along(variable_root: Path, probed: list[str]) -> None:
    first = build_index(variable_root)
    damage_value(Path(first.store.path), "frame_pts", lambda data: flipped(data, 4))
    moved = variable_root.rename(variable_root.with_name("elsewhere"))
    probed.clear()
    with pytest.warns(UserWarning, match="was damaged"):
        index = build_index(moved)
    assert index.store is not None
    assert sorted(probed) == ["run/a.mkv", "walk/steady.avi"]
    assert build_index(moved).keys == index.keys
    assert len(probed) == 2


def test_a_place_that_is_no_folder_means_an_index_in_memory_and_one_warning(root: Path, tmp_path: Path) -> None:
    place = put(tmp_path / "file", b"")
    with pytest.warns(UserWarning, match="cannot be kept") as caught:
        index = build_index(root, index=place)
    assert len(caught) == 1
    assert len(index) == 12
    assert index.store is None
    again = pickle.loads(pickle.dumps(index))
    assert facts_of(again) == facts_of(index)
    remember_failure(index, index.keys[0], Failure(path="", stage="decode", reason=""))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


WITHOUT_ROOT = """
import os, sys, warnings
from pathlib import Path
from clipfeed.index import build_index
warm, data, store = map(Path, sys.argv[1:4])
build_index(warm, index=warm.parent / "warm-store")  # loads all modules, which may be out of reach afterwards
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
def build():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        opened = []
        index = build_index(data, index=store, progress=lambda done, total: opened.append(total))
    kept = "memory" if index.store is None else "kept"
    return len(index), kept, opened[-1] if opened else 0, len(caught), sorted(f.reason for f in index.failures)
"""


def run_without_root(code: str, *arguments: Path) -> list[str]:
    """Run code in a process that has given up root, for which permissions mean nothing."""
    command = [sys.executable, "-c", WITHOUT_ROOT + code, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_a_cache_folder_that_may_not_be_entered_is_done_without(
    root: Path, open_folder: Path, one_video: bytes
) -> None:
    put(open_folder / "data" / "jump" / "open.avi", one_video)
    store = open_folder / "store"
    store.mkdir(0o700)
    for folder in (store, store / "below"):
        assert run_without_root("print(build())", root, open_folder / "data", folder) == ["(1, 'memory', 1, 1, [])"]


def test_an_unreadable_file_is_left_out_and_tried_again_when_it_may_be_read(
    root: Path, open_folder: Path, one_video: bytes
) -> None:
    secret = put(open_folder / "data" / "jump" / "secret.avi", one_video)
    put(open_folder / "data" / "jump" / "open.avi", one_video)
    secret.chmod(0)
    store = open_folder / "store"
    store.mkdir()
    store.chmod(0o777)
    said = [run_without_root("print(build())", root, open_folder / "data", store)[0] for _ in range(2)]
    assert [words[:18] for words in said] == ["(1, 'kept', 2, 0, ", "(1, 'kept', 1, 0, "]
    assert all("Permission denied" in words for words in said)
    secret.chmod(0o644)
    assert run_without_root("print(build())", root, open_folder / "data", store) == ["(2, 'kept', 1, 0, [])"]


def test_a_folder_that_cannot_be_written_means_an_index_in_memory_each_time(
    root: Path, open_folder: Path, one_video: bytes
) -> None:
    put(open_folder / "data" / "jump" / "a.avi", one_video)
    (open_folder / "store").mkdir()
    (open_folder / "store").chmod(0o555)
    said = run_without_root("print(build()); print(build())", root, open_folder / "data", open_folder / "store")
    assert said == ["(1, 'memory', 1, 1, [])"] * 2


def test_an_index_that_can_only_be_read_is_used(root: Path, open_folder: Path, one_video: bytes) -> None:
    put(open_folder / "data" / "jump" / "a.avi", one_video)
    Path(build_index(open_folder / "data", index=open_folder / "store").store.path).chmod(0o444)
    (open_folder / "store").chmod(0o555)
    said = run_without_root("print(build())", root, open_folder / "data", open_folder / "store")
    assert [words[:20] for words in said] == ["(1, 'memory', 0, 1, "]


def test_a_damaged_index_that_cannot_be_put_aside_is_done_without(
    root: Path, variable_root: Path, open_folder: Path
) -> None:
    shutil.copytree(variable_root, open_folder / "data")
    store = Path(build_index(open_folder / "data", index=open_folder / "store").store.path)
    damage_value(store, "frame_pts", lambda data: flipped(data, 4))
    (open_folder / "store").chmod(0o555)
    for rights in (0o644, 0o444):
        store.chmod(rights)
        said = run_without_root("print(build())", root, open_folder / "data", open_folder / "store")
        assert said == ["(2, 'memory', 2, 1, [])"]


# ------------------------------------------------------------------------------------ pickles, and failures of training


def test_a_pickle_is_small_and_opens_in_another_process(root: Path) -> None:
    index = build_index(root).select([7, 2], "val")
    data = pickle.dumps(index)
    assert len(data) < 2_000
    script = "import pickle, sys; print(*pickle.load(sys.stdin.buffer).keys)"
    result = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, timeout=60, check=True)
    assert result.stdout.decode().split() == index.keys


def test_a_pickle_of_an_index_that_moved_on_says_so(root: Path, one_video: bytes) -> None:
    data = pickle.dumps(build_index(root))
    put(root / "jump" / "new.avi", one_video)
    build_index(root)
    with pytest.raises(StaleIndexError, match="has changed") as caught:
        pickle.loads(data)
    assert str(root) in str(caught.value)


def test_a_pickle_whose_index_is_gone_says_so(root: Path) -> None:
    index = build_index(root)
    data = pickle.dumps(index)
    Path(index.store.path).unlink()
    with pytest.raises(StaleIndexError, match="cannot be read again"):
        pickle.loads(data)


def remember(index: VideoIndex, key: str) -> None:
    remember_failure(index, key, Failure(path=f"{index.root}/{key}", stage="decode", reason="no frame 7"))


def test_a_remembered_failure_is_left_out_until_the_file_changes(
    root: Path, probed: list[str], one_video: bytes
) -> None:
    index = build_index(root)
    key = index.keys[5]
    remember(index, key)
    probed.clear()
    again = build_index(root)
    assert again.keys == [other for other in index.keys if other != key]
    assert [(failure.path, failure.stage, failure.reason) for failure in again.failures] == [
        (f"{root}/{key}", "decode", "no frame 7")
    ]
    assert probed == []
    change(root / key, one_video)
    assert build_index(root).keys == index.keys
    assert probed == [key]


def test_a_remembered_failure_does_not_disturb_pickles_of_running_datasets(root: Path) -> None:
    index = build_index(root)
    part = index.select([11, 4, 5], "train")
    data = pickle.dumps(part)
    remember(index, index.keys[4])
    assert facts_of(pickle.loads(data)) == facts_of(part)
    assert build_index(root).store.snapshot == index.store.snapshot


def test_failures_may_be_remembered_from_many_threads(root: Path) -> None:
    index = build_index(root)
    threads = [threading.Thread(target=remember, args=(index, key)) for key in index.keys[:8]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert build_index(root).keys == index.keys[8:]


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: change(path, b"something else")])
def test_a_failure_that_is_not_the_indexed_files_is_not_remembered(
    root: Path, one_video: bytes, harm: Callable[[Path], None]
) -> None:
    index = build_index(root)
    path = root / index.keys[0]
    time_ns = path.stat().st_mtime_ns
    harm(path)
    remember(index, index.keys[0])
    path.write_bytes(one_video)
    os.utime(path, ns=(time_ns, time_ns))
    assert build_index(root).keys == index.keys


def test_a_failure_that_cannot_be_noted_is_logged_and_training_goes_on(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index = build_index(root)
    Path(index.store.path).unlink()
    with caplog.at_level(logging.WARNING, "clipfeed"):
        remember(index, index.keys[0])
    assert "could not be noted" in caplog.text


def test_a_video_that_the_index_does_not_have_cannot_fail(root: Path) -> None:
    with pytest.raises(KeyError):
        remember(build_index(root), "jump/nobody.avi")


def test_a_store_keeps_a_fingerprint_of_the_content(root: Path) -> None:
    index = build_index(root)
    for key, row in zip(index.keys, read_listing(Path(index.store.path), index.keys), strict=True):
        stat = (root / key).stat()
        assert row == (stat.st_size, stat.st_mtime_ns, bytes.fromhex(fingerprint_file(root, key)))


def test_columns_of_a_large_index_stay_small(tmp_path: Path) -> None:
    count = 20_000  # 240,000 rows shall take less than 60 MB: 250 bytes a row
    create_store(tmp_path / "a.sqlite", root="/data")
    facts = StoredFacts(container="mov", codec="h264", num_frames_from_table=300, key_frames=np.array([0, 125, 250]))
    with open_store(tmp_path / "a.sqlite") as store:
        keys = [f"class_{number // 600:03d}/abcdefghijk_{number:06d}_{number:06d}.mp4" for number in range(count)]
        store.list_videos([Listed(key=key, size_bytes=1, mtime_ns=1, class_name=key[:9]) for key in keys])
        store.finish_videos(
            [Outcome(row_id=row, size_bytes=1, mtime_ns=1, state=USABLE, facts=facts) for row in range(1, count + 1)]
        )
    tracemalloc.start()
    try:
        columns = columns_of(read_store(tmp_path / "a.sqlite"))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(columns) == count
    assert held < 250 * count
    assert peak < 500 * count + 8_000_000  # and what a chunk of rows takes while it is read


def test_a_defect_while_probing_names_the_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(*_: object) -> object:
        raise ZeroDivisionError("rate")

    monkeypatch.setattr(_scan, "probe_video", probe)
    with pytest.raises(ZeroDivisionError) as caught:
        build_index(root, workers=1)
    assert caught.value.__notes__ == [f"while probing {root}/jump/v_jump_g01_c01.avi"]


@pytest.mark.shared
def test_genuine_clips_are_counted_exactly(shared: Path) -> None:
    rows = [line.split("\t") for line in (shared / "clips" / "REFERENCE.tsv").read_text().splitlines()[1:]]
    expected = {row[0]: int(row[3]) for row in rows if row[0].split("/")[0] in ("hmdb51", "ucf101", "kinetics")}
    index = build_index(shared / "clips", labels=None)
    counts = dict(zip(index.keys, index.num_frames.tolist(), strict=True))
    assert {key: counts.get(key) for key in expected} == expected
