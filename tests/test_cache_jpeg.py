"""Entries as files of JPEG pictures: whole or not there, and within their limit."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clipfeed.cache.jpeg import JpegFiles, Jpegs, compress
from clipfeed.cache.room import used_bytes
from clipfeed.testing import make_frames

NAME = bytes(range(16))


def make_jpegs(num_frames: int = 3, *, seed: int = 0) -> tuple[Jpegs, np.ndarray]:
    pictures, seen = compress(make_frames(num_frames, (8, 8, 3), seed=seed))
    facts = {"frame_indices": np.arange(num_frames, dtype=np.int32) * 7, "mask": np.arange(num_frames) % 2 == 0}
    return Jpegs(pictures=tuple(pictures), is_damaged=np.arange(num_frames) == 1, **facts), seen


def is_same(left: Jpegs | None, right: Jpegs) -> bool:
    return (
        left is not None
        and left.pictures == right.pictures
        and left.is_damaged.tolist() == right.is_damaged.tolist()
        and left.frame_indices.tolist() == right.frame_indices.tolist()
        and left.mask.tolist() == right.mask.tolist()
    )


def test_an_entry_comes_back_as_it_was_put_also_in_another_process(tmp_path: Path) -> None:
    jpegs, _ = make_jpegs()
    files = JpegFiles(tmp_path, 10**9)
    assert files.get(NAME) is None
    assert not files.has(NAME)
    files.put(NAME, jpegs)
    for opened in (files, JpegFiles(tmp_path, 0)):
        assert is_same(opened.get(NAME), jpegs)
        assert opened.has(NAME)
        assert opened.get(b"another one") is None


def test_frames_are_read_whole_or_in_any_order_as_compressing_showed_them() -> None:
    jpegs, seen = make_jpegs(4)
    out = np.empty((4, 8, 8, 3), np.uint8)
    assert jpegs.read(None, out).tolist() == [False, True, False, False]
    np.testing.assert_array_equal(out, seen)
    some = np.empty((3, 8, 8, 3), np.uint8)
    assert jpegs.read(np.array([3, 1, 1]), some).tolist() == [False, True, True]
    np.testing.assert_array_equal(some, seen[[3, 1, 1]])
    assert jpegs.num_bytes == sum(map(len, jpegs.pictures))


def test_gray_frames_stay_gray_frames() -> None:
    frames = make_frames(2, (8, 8, 1))
    pictures, seen = compress(frames)
    assert seen.shape == frames.shape
    jpegs = Jpegs(pictures=tuple(pictures), is_damaged=np.zeros(2, np.bool_),
                  frame_indices=np.empty(0, np.int32), mask=np.empty(0, np.bool_))  # fmt: skip
    out = np.empty_like(frames)
    jpegs.read(None, out)
    np.testing.assert_array_equal(out, seen)


def test_names_that_end_in_zeros_are_names_too(tmp_path: Path) -> None:
    files = JpegFiles(tmp_path, 10**9)
    one, other = make_jpegs(1, seed=1)[0], make_jpegs(1, seed=2)[0]
    files.put(b"\1" * 15, one)  # as NumPy gives a digest whose last byte is 0
    files.put(b"\1" * 16, other)
    assert is_same(files.get(b"\1" * 15), one)
    assert is_same(files.get(b"\1" * 15 + b"\0"), one)
    assert is_same(files.get(b"\1" * 16), other)


@settings(max_examples=100)
@given(st.data())
def test_a_flipped_bit_or_a_cut_makes_an_entry_none_at_all(data: st.DataObject) -> None:
    jpegs, _ = make_jpegs(2)
    with tempfile.TemporaryDirectory() as folder:
        files = JpegFiles(Path(folder), 10**9)
        files.put(NAME, jpegs)
        (path,) = Path(folder).rglob("*.jpegs")
        whole = path.read_bytes()
        content = bytearray(whole)
        if data.draw(st.booleans()):
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        else:
            del content[data.draw(st.integers(0, len(content) - 1)) :]
        path.write_bytes(content)
        assert files.get(NAME) is None
        files.put(NAME, jpegs)
        assert path.read_bytes() == whole


def test_what_cannot_be_read_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = JpegFiles(tmp_path, 10**9)
    files.put(NAME, make_jpegs()[0])

    def fail(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fail)
    assert files.get(NAME) is None


def test_the_limit_is_kept_to_the_byte_and_smaller_entries_still_fit(tmp_path: Path) -> None:
    large, small = make_jpegs(4)[0], make_jpegs(1)[0]
    probe = JpegFiles(tmp_path / "probe", 10**9)
    (tmp_path / "probe").mkdir()
    for name, jpegs in ((b"large", large), (b"small", small)):
        probe.put(name, jpegs)
    sizes = sorted(path.stat().st_size for path in (tmp_path / "probe").rglob("*.jpegs"))
    (tmp_path / "pack").mkdir()
    files = JpegFiles(tmp_path / "pack", sum(sizes) - 1)
    files.put(b"small", small)
    with pytest.raises(OSError, match="used up"):
        files.put(b"large", large)
    assert not files.has(b"large")
    assert [path.name for path in (tmp_path / "pack").rglob("*") if path.is_file()] == [
        "736d616c6c" + "0" * 22 + ".jpegs"
    ]
    JpegFiles(tmp_path / "pack", sizes[1]).put(b"large", large)


def test_a_write_that_fails_leaves_nothing_and_an_older_entry_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = JpegFiles(tmp_path, 10**9)
    files.put(NAME, make_jpegs(1)[0])

    def fail(path: Path, data: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left"):
        files.put(NAME, make_jpegs(2)[0])
    monkeypatch.undo()
    assert is_same(files.get(NAME), make_jpegs(1)[0])
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_threads_that_put_one_entry_leave_one_whole_file_and_never_show_half_of_one(tmp_path: Path) -> None:
    files, (jpegs, _) = JpegFiles(tmp_path, 10**9), make_jpegs(6)
    files.put(NAME, jpegs)

    def work(number: int) -> bool:
        if number % 2:
            files.put(NAME, jpegs)
        return is_same(files.get(NAME), jpegs)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(60)))
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_what_other_processes_write_is_seen_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jpegs, _ = make_jpegs(2)
    monkeypatch.setattr("clipfeed.cache.jpeg._MEASURED_AGAIN", 3000)
    measured = []
    files = JpegFiles(tmp_path, 10_000, lambda: measured.append(1) or 10_000 - used_bytes(tmp_path))
    (tmp_path / "written by others").write_bytes(b"x" * 6000)
    num_put = 0
    with contextlib.suppress(OSError):
        for number in range(12):
            files.put(b"%d" % number, jpegs)
            num_put += 1
    assert 0 < len(measured) < 6
    assert 1 <= num_put <= 5


def test_threads_together_stay_within_the_limit(tmp_path: Path) -> None:
    jpegs, _ = make_jpegs(2)
    files = JpegFiles(tmp_path, 10_000)

    def put(number: int) -> bool:
        try:
            files.put(b"%d" % number, jpegs)
        except OSError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(put, range(64)))
    written = [path.stat().st_size for path in tmp_path.rglob("*.jpegs")]
    assert len(written) == sum(done) > 0
    assert sum(written) <= 10_000 < sum(written) + written[0]
