"""A cache among kills, full disks, other processes and damage: clips are right every time, or there is one warning."""

from __future__ import annotations

import functools
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.cache.room import find_packs, used_bytes
from clipfeed.errors import CacheWarning
from clipfeed.load import pack_bytes
from clipfeed.testing import make_tree

NUM_VIDEOS = 12
SPECS = {
    "clips": cf.ClipSpec(num_frames=6, image_size=(96, 96)),
    "videos": cf.ClipSpec(num_frames=6, image_size=(96, 96), sampling=cf.Segments()),
}
BOTH = pytest.mark.parametrize("kind", ["clips", "videos"])
CODECS = pytest.mark.parametrize("codec", ["raw", "jpeg"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that every user can reach, with data, its index, and the clips as they are without a cache."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    make_tree(place / "data", classes=("run", "walk"), sources_per_class=3, clips_per_source=2, num_frames=16)
    for kind, spec in SPECS.items():
        np.save(place / f"{kind}.npy", clips_of(cf.VideoDataset(index_of(place), spec, training=False)))
    yield place
    shutil.rmtree(place)


@functools.cache
def index_of(place: Path) -> cf.VideoIndex:
    return cf.build_index(place / "data", index=place / "index")


def make(place: Path, kind: str, cache: cf.Cache | Path, **arguments) -> cf.VideoDataset:
    cache = cf.Cache(cache) if isinstance(cache, Path) else cache
    arguments = {"training": False, "limits": cf.Limits(workers=2), **arguments}
    return cf.VideoDataset(index_of(place), SPECS[kind], cache=cache, **arguments)


def clips_of(ds: cf.VideoDataset) -> np.ndarray:
    return np.concatenate([batch.clips for batch in ds.iter_epoch(0)])


def is_right(ds: cf.VideoDataset, place: Path, kind: str) -> bool:
    """Whether an epoch shows what it shows without a cache; with JPEG, nearly."""
    expected, shown = np.load(place / f"{kind}.npy"), clips_of(ds)
    if ds.cache.codec == "raw":
        return np.array_equal(shown, expected)
    return all(np.abs(left.astype(int) - right).mean() < 6 for left, right in zip(shown, expected, strict=True))


def num_kept(ds: cf.VideoDataset) -> int:
    """Videos that are kept and right; nothing is written."""
    for name in ("_writes",):
        setattr(ds.kept.pack, name, False)
    ds._decoder = Refusing()
    return sum(ds.kept.entries[row] >= 0 and is_had(ds, row) for row in range(len(ds.index)))


class Refusing:
    """A decoder that gives nothing: what comes out of a dataset comes from its cache."""

    def decode(self, *arguments: object, **options: object) -> None:
        raise cf.DecodeError("not decoded")

    decode_chunks = decode


def is_had(ds: cf.VideoDataset, row: int) -> bool:
    try:
        ds._make_clip(0, row)
    except cf.DecodeError:
        return False
    return True


def said(work: Callable[[], object]) -> list[str]:
    """What is warned of, every time that it is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    assert all(warning.category is CacheWarning for warning in caught), caught
    return [str(warning.message) for warning in caught]


CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_cache_faults import *
place, frames, kind = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
"""


def start(code: str, place: Path, frames: Path, kind: str = "clips") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD + textwrap.dedent(code), str(Path(__file__).parent), str(place), str(frames)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, kind], text=True, **pipes)


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.splitlines()


# Killed


FILL_SLOWLY = """
import time
pwrite = os.pwrite
def write_a_little(descriptor, data, offset):
    time.sleep(0.0005)
    return pwrite(descriptor, data[:20_000], offset)
os.pwrite = write_a_little
print("begins", flush=True)
ds = make(place, kind, frames)
while True:
    clips_of(ds)
"""


@BOTH
def test_after_a_kill_in_the_midst_of_filling_clips_are_right_and_filling_goes_on(
    place: Path, tmp_path: Path, kind: str
) -> None:
    moments, kept = random.Random(), []
    for _ in range(2):
        process = start(FILL_SLOWLY, place, tmp_path, kind)
        process.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.5))
        process.kill()
        process.communicate()
        kept.append(num_kept(make(place, kind, tmp_path)))
    assert is_right(make(place, kind, tmp_path), place, kind)
    assert num_kept(make(place, kind, tmp_path)) == NUM_VIDEOS
    assert kept == sorted(kept)


# A full disk


@contextmanager
def small_disk(num_bytes: int, *, is_full: bool = False) -> Iterator[Path]:
    """A file system of its own, if this process may mount one; else files that cannot grow beyond that size."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", folder]
        is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            if is_mounted and is_full:
                fill_up(Path(folder) / "ballast")
            elif not is_mounted:
                resource.setrlimit(resource.RLIMIT_FSIZE, (0 if is_full else num_bytes, limits[1]))
            yield Path(folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            if is_mounted:
                subprocess.run(["umount", "-l", folder], check=True)


def fill_up(path: Path) -> None:
    size = 65_536
    with path.open("wb", buffering=0) as file:
        while size:
            try:
                file.write(b"x" * size)
            except OSError:
                size //= 2


@BOTH
def test_a_disk_too_small_for_all_keeps_some_with_one_warning(place: Path, kind: str) -> None:
    with small_disk(pack_bytes(index_of(place), SPECS[kind]) // 2) as disk:
        for _ in range(2):
            ds = []
            (message,) = said(lambda ds=ds: ds.append(make(place, kind, disk)))
            assert "cached" in message or "no room for all videos" in message
            assert said(lambda ds=ds: [is_right(ds[0], place, kind) for _ in range(2)]) == []
            assert is_right(ds[0], place, kind)
            assert num_kept(ds[0]) < NUM_VIDEOS


@CODECS
@BOTH
def test_a_disk_that_is_full_from_the_start_keeps_nothing_with_one_warning(place: Path, kind: str, codec: str) -> None:
    with small_disk(1_000_000, is_full=True) as disk:
        ds = []
        messages = said(lambda: ds.append(make(place, kind, cf.Cache(disk / "frames", codec=codec))))
        messages += said(lambda: [is_right(ds[0], place, kind) for _ in range(2)])
        assert len(messages) == 1
        assert is_right(ds[0], place, kind)


@CODECS
@BOTH
def test_a_disk_that_fills_up_while_frames_are_written_is_one_warning(
    place: Path, tmp_path: Path, kind: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reserve_nothing(*arguments: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", reserve_nothing)
    pwrite, write_bytes, left = os.pwrite, Path.write_bytes, [1_000_000 if codec == "raw" else 30_000]

    def write(descriptor: int, data: bytes, offset: int) -> int:
        take(len(data))
        return pwrite(descriptor, data, offset)

    def take(num_bytes: int) -> None:
        left[0] -= num_bytes
        if left[0] < 0:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: take(len(data)) or write_bytes(path, data))
    cache = cf.Cache(tmp_path, codec=codec)
    ds = make(place, kind, cache)
    (message,) = said(lambda: clips_of(ds))
    assert "No space left on device; what is there is used, the rest is decoded each time" in message
    assert is_right(ds, place, kind)
    assert is_right(ds, place, kind)
    monkeypatch.undo()
    assert 0 < num_kept(make(place, kind, cache)) < NUM_VIDEOS
    assert is_right(make(place, kind, cache), place, kind)
    assert num_kept(make(place, kind, cache)) == NUM_VIDEOS


@BOTH
def test_files_that_may_not_grow_as_large_are_one_warning(place: Path, tmp_path: Path, kind: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        ds = []
        (message,) = said(lambda: ds.append(make(place, kind, tmp_path)))
        assert "nothing more is cached" in message
        assert said(lambda: clips_of(ds[0])) == []
        assert is_right(ds[0], place, kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert is_right(make(place, kind, tmp_path), place, kind)
    assert num_kept(make(place, kind, tmp_path)) == NUM_VIDEOS


# Several processes


FILL_TOGETHER = """
sys.stdin.readline()
with warnings.catch_warnings():
    warnings.simplefilter("error")
    ds = make(place, kind, frames)
    print([is_right(ds, place, kind) for _ in range(3)], num_kept(make(place, kind, frames)))
"""


@pytest.mark.parametrize(("kind", "num_processes"), [("clips", 2), ("videos", 4)])
def test_processes_that_fill_one_pack_at_once_all_see_right_clips(
    place: Path, tmp_path: Path, kind: str, num_processes: int
) -> None:
    processes = [start(FILL_TOGETHER, place, tmp_path, kind) for _ in range(num_processes)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [finish(process) for process in processes] == [[f"[True, True, True] {NUM_VIDEOS}"]] * num_processes
    assert len(list(tmp_path.glob("*/part-*"))) == 1
    assert not list(tmp_path.glob("*/.*"))
    assert is_right(make(place, kind, tmp_path), place, kind)


@BOTH
def test_a_forked_process_fills_and_reads_beside_its_parent(place: Path, tmp_path: Path, kind: str) -> None:
    code = """
        ds = make(place, kind, frames, limits=cf.Limits(workers=1))
        ds.batch(0, 0)
        child = os.fork()
        right = [is_right(ds, place, kind) for _ in range(2)]
        if not child:
            os._exit(right != [True, True])
        print(right, os.waitpid(child, 0)[1], num_kept(make(place, kind, frames)))
    """
    assert finish(start(code, place, tmp_path, kind)) == [f"[True, True] 0 {NUM_VIDEOS}"]


def test_a_process_that_opens_a_pack_while_another_adds_a_part_is_right(place: Path, tmp_path: Path) -> None:
    part, whole = index_of(place).select([0, 3, 4]), index_of(place)
    starts = np.zeros(3, np.int64)
    few = cf.VideoIndex(root=part.root, columns=part.columns, rows=part.rows, class_names=part.class_names,
                        starts=starts, ends=starts - 1)  # fmt: skip
    open_now = cf.VideoDataset(few, SPECS["clips"], training=False, cache=cf.Cache(tmp_path))
    later = cf.VideoDataset(whole, SPECS["clips"], training=False, cache=cf.Cache(tmp_path))
    assert is_right(later, place, "clips")
    np.testing.assert_array_equal(clips_of(open_now), np.load(place / "clips.npy")[[0, 3, 4]])
    assert len(list(tmp_path.glob("*/part-*"))) == 2
    assert is_right(make(place, "clips", tmp_path), place, "clips")


# Damage


@CODECS
@BOTH
def test_a_flipped_byte_costs_one_video_which_is_made_again(place: Path, tmp_path: Path, kind: str, codec: str) -> None:
    cache, places = cf.Cache(tmp_path, codec=codec), random.Random()
    clips_of(make(place, kind, cache))
    files = [
        path for path in tmp_path.rglob("*") if path.name in ("frames.npy", "state.bin") or path.suffix == ".jpegs"
    ]
    for _ in range(8):
        path = places.choice(files)
        content = bytearray(path.read_bytes())
        content[places.randrange(128, len(content))] ^= 1 << places.randrange(8)
        path.write_bytes(content)
        assert num_kept(make(place, kind, cache)) >= NUM_VIDEOS - 1
        assert said(lambda: is_right(make(place, kind, cache), place, kind)) == []
        assert is_right(make(place, kind, cache), place, kind)
        assert num_kept(make(place, kind, cache)) == NUM_VIDEOS


@BOTH
@pytest.mark.parametrize("name", ["frames.npy", "state.bin", "rows.npy"])
def test_a_pack_cut_in_half_between_runs_is_said_and_made_again(
    place: Path, tmp_path: Path, kind: str, name: str
) -> None:
    clips_of(make(place, kind, tmp_path))
    (path,) = tmp_path.rglob(name)
    os.truncate(path, path.stat().st_size // 2)
    ds = []
    (message,) = said(lambda: ds.append(make(place, kind, tmp_path)))
    assert name in message
    assert "made again" in message
    assert is_right(ds[0], place, kind)
    assert num_kept(make(place, kind, tmp_path)) == NUM_VIDEOS


@BOTH
@pytest.mark.parametrize("name", ["frames.npy", "state.bin"])
def test_a_pack_cut_in_the_midst_of_a_run_ends_the_caching_and_nothing_else(
    place: Path, tmp_path: Path, kind: str, name: str
) -> None:
    ds = make(place, kind, tmp_path, batch_size=4)
    ds.batch(0, 0)
    ds.batch(0, 2)
    (path,) = tmp_path.rglob(name)
    os.truncate(path, path.stat().st_size // 3)
    (message,) = said(lambda: clips_of(ds))
    assert name in message
    for _ in range(2):
        assert is_right(ds, place, kind)
    assert "made again" in said(lambda: make(place, kind, tmp_path))[0]
    assert is_right(make(place, kind, tmp_path), place, kind)


@CODECS
@BOTH
def test_a_pack_that_is_removed_in_the_midst_of_a_run_harms_nothing(
    place: Path, tmp_path: Path, kind: str, codec: str
) -> None:
    cache = cf.Cache(tmp_path, codec=codec)
    ds = make(place, kind, cache, batch_size=4)
    ds.batch(0, 0)
    shutil.rmtree(tmp_path)
    assert len(said(lambda: clips_of(ds))) == (codec == "jpeg")
    assert is_right(ds, place, kind)
    again = make(place, kind, cache)
    assert is_right(again, place, kind)
    assert num_kept(make(place, kind, cache)) == NUM_VIDEOS


# Folders


@CODECS
@BOTH
def test_a_folder_that_may_only_be_read_is_used_and_nothing_is_written(
    place: Path, open_folder: Path, kind: str, codec: str
) -> None:
    frames = open_folder / "frames"
    clips_of(make(place, kind, cf.Cache(frames / "whole", codec=codec)))
    make(place, kind, cf.Cache(frames / "part", codec=codec), batch_size=5).batch(0, 0)
    before = sorted((path, path.stat().st_mtime_ns) for path in frames.rglob("*"))
    code = f"""
        clips_of(make(place, kind, cf.Cache(frames.parent / "warm", codec={codec!r})))
        if os.getuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        for name in ("whole", "part", "none"):
            ds, cache = [], cf.Cache(frames / name, codec={codec!r})
            messages = said(lambda: ds.append(make(place, kind, cache)))
            right = [is_right(ds[0], place, kind) for _ in range(2)]
            print(name, right, len(messages), num_kept(ds[0]) if ds[0].kept else None)
    """
    frames.chmod(0o555)
    assert finish(start(code, place, frames, kind)) == [
        f"whole [True, True] 0 {NUM_VIDEOS}",
        "part [True, True] 0 5",
        "none [True, True] 1 None",
    ]
    assert sorted((path, path.stat().st_mtime_ns) for path in frames.rglob("*")) == before


def test_a_file_where_the_folder_should_be_is_an_error_that_names_it(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(cf.CacheError, match="file: is no folder"):
        make(place, "clips", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@CODECS
@pytest.mark.parametrize("name", ["ümläut 日本", "two words", "line\nbreak", "-x", "50%d"])
def test_a_folder_may_have_any_name(place: Path, tmp_path: Path, name: str, codec: str) -> None:
    cache = cf.Cache(tmp_path / name, codec=codec)
    for _ in range(2):
        assert is_right(make(place, "clips", cache), place, "clips")
    assert num_kept(make(place, "clips", cache)) == NUM_VIDEOS


# Limits


@BOTH
def test_too_small_a_limit_keeps_the_same_videos_in_each_run_and_process(
    place: Path, tmp_path: Path, kind: str
) -> None:
    limit = pack_bytes(index_of(place), SPECS[kind]) // 2
    code = f"""
        ds = make(place, kind, cf.Cache(frames, max_bytes={limit}))
        print(is_right(ds, place, kind), (ds.kept.entries >= 0).tolist())
    """
    kept = []
    for folder in (tmp_path / "one", tmp_path / "one", tmp_path / "other"):
        ds = make(place, kind, cf.Cache(folder, max_bytes=limit))
        assert said(lambda ds=ds: is_right(ds, place, kind)) == []
        assert is_right(ds, place, kind)
        kept.append((ds.kept.entries >= 0).tolist())
        assert sum(map(used_bytes, find_packs(folder))) <= limit + 6 * 4096
    assert 0 < sum(kept[0]) < NUM_VIDEOS
    assert kept[1:] == kept[:1] * 2
    for folder in ("one", "new"):
        assert finish(start(code, place, tmp_path / folder, kind)) == [f"True {kept[0]}"]


def test_older_packs_make_room_but_not_those_in_use(place: Path, tmp_path: Path) -> None:
    limit = int(2.5 * pack_bytes(index_of(place), SPECS["clips"]))
    cache = cf.Cache(tmp_path, max_bytes=limit)
    specs = [
        cf.ClipSpec(num_frames=6, image_size=(96, 96), interpolation=name) for name in ("area", "bicubic", "nearest")
    ]
    in_use = cf.VideoDataset(index_of(place), specs[0], training=False, cache=cache)
    clips_of(in_use)
    clips_of(cf.VideoDataset(index_of(place), specs[1], training=False, cache=cache))
    newest = cf.VideoDataset(index_of(place), specs[2], training=False, cache=cache)
    assert "removed an older pack" in " ".join(newest.explain_cache())
    clips_of(newest)
    assert num_kept(newest) == num_kept(in_use) == NUM_VIDEOS
    assert len(find_packs(tmp_path)) == 2
    again = cf.VideoDataset(index_of(place), specs[1], training=False, cache=cache)
    assert "videos stay uncached: max_bytes leaves" in " ".join(again.explain_cache())  # all others are in use
    assert num_kept(again) < NUM_VIDEOS


def test_many_datasets_fit_into_64_descriptors(place: Path, tmp_path: Path) -> None:
    code = """
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        index = index_of(place)
        datasets = [cf.VideoDataset(part, SPECS[kind], seed=1, cache=cf.Cache(frames), limits=cf.Limits(workers=4))
                    for fold in cf.kfold_index(index, k=6, seed=1) for part in fold.values()]
        for epoch in range(2):
            for ds in datasets:
                list(ds.iter_epoch(epoch))
        is_kept = num_kept(datasets[0]) == len(datasets[0].index)
        print(len(datasets), is_kept, is_right(make(place, kind, frames), place, kind))
    """
    for kind in SPECS:
        assert finish(start(code, place, tmp_path, kind)) == ["12 True True"]


# Signals


@BOTH
def test_signals_that_interrupt_system_calls_harm_nothing(place: Path, tmp_path: Path, kind: str) -> None:
    heard, is_over, main = [], threading.Event(), threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))

    def disturb() -> None:
        while not is_over.wait(0.0005):
            signal.pthread_kill(main, signal.SIGUSR1)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        ds = make(place, kind, tmp_path)
        expected = np.load(place / f"{kind}.npy")
        for _ in range(3):
            shown = [ds.batch(0, number, workers=0).clips for number in range(len(ds))]
            np.testing.assert_array_equal(np.concatenate(shown), expected)
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert heard
    assert num_kept(make(place, kind, tmp_path)) == NUM_VIDEOS
