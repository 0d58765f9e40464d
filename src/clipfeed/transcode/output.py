"""The folder that results go to: who may write there, and what of it is done.

    OUT/run/a.mp4                              results; only whole ones have such names
    OUT/.clipfeed-transcode/manifest.jsonl     a line for each result, appended before the result gets its name
    OUT/.clipfeed-transcode/partial-7.mp4      a video in the making; what a killed process left is removed

The order (result on disk, line, name) makes any moment safe to be killed at: a line without its file is not believed,
and a file without a line cannot come about. Dot folders are never entered by `find`. Nothing here decodes.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from clipfeed.errors import ClipfeedError, LayoutError
from clipfeed.storage import fingerprint_file

try:
    import fcntl
except ImportError:  # not on Windows: there nobody keeps two runs apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["Entry", "Output", "check_apart", "open_output"]

_HIDDEN = ".clipfeed-transcode"
_MANIFEST = "manifest.jsonl"
_PARTIAL = "partial-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the manifest: one result, and what it was made of.

    Attributes:
        target: Key of the result.
        key: Key of the source.
        source: Fingerprint of the source.
        settings: Fields that decide the result.
        result: Fingerprint of the result.
        source_bytes: Size of the source.
        result_bytes: Size of the result.
        num_frames: Frames of both.
        remarks: What is worth knowing of it.
    """

    target: str
    key: str
    source: str
    settings: Mapping[str, int]
    result: str
    source_bytes: int
    result_bytes: int
    num_frames: int
    remarks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, line: bytes) -> Entry | None:
        """Read a line; None for one that was cut off."""
        try:
            facts = json.loads(line)
            return cls(**{**facts, "remarks": tuple(facts["remarks"]), "settings": dict(facts["settings"])})
        except (ValueError, TypeError, KeyError):
            return None

    def line(self) -> bytes:
        """Give it as a line; undecodable bytes of names stay as escapes."""
        return json.dumps(asdict(self)).encode("ascii") + b"\n"


class Output:
    """An opened folder of results; its methods may be called from many threads.

    Args:
        path: The folder, as the user gave it.
        manifest: Descriptor of the manifest, open for appending.
        entries: What the manifest says, in its order.
    """

    def __init__(self, path: str, manifest: int, entries: list[Entry]) -> None:
        self.path = path
        self._real = Path(path).resolve()
        self._manifest = manifest
        self._lock = threading.Lock()
        self._last = {entry.target: entry for entry in entries}
        self._made: dict[str, list[Entry]] = {}
        for entry in entries:
            self._made.setdefault(entry.target, []).append(entry)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The last entry of each target."""
        return self._last

    @property
    def work_folder(self) -> str:
        """Folder for videos in the making."""
        return f"{self.path}/{_HIDDEN}"

    def partial_name(self, number: int) -> str:
        """Name in the work folder for job `number`: short, and without what FFmpeg might read into a name."""
        return f"{_PARTIAL}{number}.mp4"

    def place_of(self, target: str) -> Path:
        """Give the final path of a result, its folder made.

        Raises:
            LayoutError: The folder is a link that leads out of the output folder.
            OSError: It cannot be made.
        """
        place = Path(self.path) / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.parent.resolve().is_relative_to(self._real):
            raise LayoutError("leads out of the output folder by a link", path=str(place.parent), stage="transcode")
        return place

    def finished(self, target: str, *, key: str, source: str, settings: Mapping[str, int]) -> Entry | None:
        """Give the entry of a result that is there, whole, and made of this source with these settings."""
        entry = self._last.get(target)
        wanted = (key, source, dict(settings))
        if entry is None or (entry.key, entry.source, dict(entry.settings)) != wanted or not self._is_there(entry):
            return None
        return entry

    def is_foreign(self, target: str) -> bool:
        """Tell whether something stands at a target that no line of the manifest speaks of."""
        return os.path.lexists(f"{self.path}/{target}") and not any(map(self._is_there, self._made.get(target, [])))

    def finish(self, entry: Entry, partial: Path, place: Path) -> None:
        """Give a whole video its line in the manifest, then its final name.

        Raises:
            OSError: The disk is full, or the folder cannot be written any more.
        """
        _flush_to_disk(partial)
        with self._lock:
            _append(self._manifest, entry.line())
            partial.replace(place)
            self._last[entry.target] = entry
            self._made.setdefault(entry.target, []).append(entry)

    def _is_there(self, entry: Entry) -> bool:
        try:
            size = (Path(self.path) / entry.target).lstat().st_size
            return size == entry.result_bytes and fingerprint_file(self.path, entry.target) == entry.result
        except OSError:
            return False


def check_apart(root: str, output: str) -> None:
    """Refuse an output folder that is the data set's folder, lies in it, or holds it.

    Raises:
        LayoutError: Says which of the three.
    """
    data, result = Path(root).resolve(), Path(output).resolve()
    if _is_same(data, result):
        problem = f"is the folder of the videos itself ({root})"
    elif any(_is_same(data, above) for above in result.parents):
        problem = f"lies inside the folder of the videos ({root})"
    elif any(_is_same(result, above) for above in data.parents):
        problem = f"holds the folder of the videos ({root})"
    else:
        return
    raise _refused(output, problem, "give a folder of its own; sources are never changed")


@contextmanager
def open_output(output: str, known_keys: frozenset[str]) -> Iterator[Output]:
    """Open a folder for results, new, empty, or made by this command before; nobody else may write there meanwhile.

    Args:
        output: The folder, as the user gave it.
        known_keys: Keys of the sources: a folder made of others only belongs to another data set.

    Raises:
        LayoutError: The folder is none of these, or cannot be written.
        ClipfeedError: Another process is writing there.
    """
    hidden = Path(output) / _HIDDEN
    _check_ours(Path(output), output)
    try:
        hidden.mkdir(parents=True, exist_ok=True)
        manifest = os.open(hidden / _MANIFEST, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _refused(output, f"cannot be written: {error.strerror}", "check its rights, or give another") from error
    try:
        _hold_alone(manifest, output)
        entries = _read_entries(manifest)
        if entries and not any(entry.key in known_keys for entry in entries):
            problem = f"holds the videos of another data set, such as {entries[0].key!r}"
            raise _refused(output, problem, "give a folder of its own to each data set")
        _remove_partials(hidden)
        yield Output(output, manifest, entries)
    finally:
        os.close(manifest)


def _check_ours(folder: Path, output: str) -> None:
    if not os.path.lexists(folder) or (folder / _HIDDEN / _MANIFEST).is_file():
        return
    if not folder.is_dir():
        raise _refused(output, "is not a folder", "give a folder")
    others = sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208  # names alone
    if others:
        problem = f"holds files that this command did not make, such as {others[0]!r}"
        raise _refused(output, problem, "give a new or empty folder")


def _hold_alone(manifest: int, output: str) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        problem, remedy = "another process is writing videos there", "wait for its end, or give another folder"
        raise ClipfeedError(problem, path=output, stage="transcode", remedy=remedy) from error
    except OSError:
        return  # a network file system without locks


def _read_entries(manifest: int) -> list[Entry]:
    """Read the manifest; a line that was cut off speaks of a result that never got its name."""
    with os.fdopen(os.dup(manifest), "rb") as file:
        file.seek(0)
        parsed = (Entry.parse(line) for line in file if line.endswith(b"\n"))
        entries = [entry for entry in parsed if entry is not None]
    shared: dict[str, Mapping[str, int]] = {}  # one object for the settings of thousands of lines
    return [replace(entry, settings=shared.setdefault(str(entry.settings), entry.settings)) for entry in entries]


def _append(manifest: int, line: bytes) -> None:
    """Append a whole line, or nothing; what a kill cut off ends where this line begins."""
    size = os.fstat(manifest).st_size
    waiting = b"\n" + line if size and os.pread(manifest, 1, size - 1) != b"\n" else line
    try:
        while waiting:
            waiting = waiting[os.write(manifest, waiting) :]
    except OSError:
        os.ftruncate(manifest, size)
        raise


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_partials(hidden: Path) -> None:
    for partial in hidden.glob(f"{_PARTIAL}*"):
        partial.unlink(missing_ok=True)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except OSError:
        return False


def _refused(output: str, problem: str, remedy: str) -> LayoutError:
    return LayoutError(problem, path=output, stage="transcode", remedy=remedy)
