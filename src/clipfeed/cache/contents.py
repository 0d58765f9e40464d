"""What lies in one pack, entry by entry and whatever its form: to be counted, checked and read without the data set.

Nothing here writes, and nothing decodes a video. `shelves` and `export` ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import numpy as np

from clipfeed._types import FrameArray, IndexArray
from clipfeed.cache.jpeg import read_jpegs
from clipfeed.cache.key import PackKey
from clipfeed.cache.listing import ListedJpegs, list_jpegs, read_columns
from clipfeed.cache.part import Part, PartDamagedError

__all__ = ["Contents", "State", "StoredEntry", "open_contents"]

State: TypeAlias = Literal["sound", "damaged", "not filled"]

_READ_AT_ONCE = 32  # frames


class StoredEntry(Protocol):
    """One entry of a pack."""

    @property
    def place(self) -> str:
        """Where in the pack it lies, for people."""

    @property
    def key(self) -> str:
        """Relative POSIX key of its video; "" where nothing says it."""

    def check(self) -> tuple[State, str]:
        """Compare it with its checksum; gives what it is, and what is wrong with it."""

    def read(self) -> tuple[int, Iterator[FrameArray]]:
        """Give the number of its frames, and the frames in order, some (n, H, W, C) at once.

        Raises:
            ValueError: If they cannot be had; also while they are read.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The entries of a pack.

    Attributes:
        entries: All of them, those made last first.
        num_filled: How many say that they are filled, checked or not.
        problems: Files that are missing or cut, one line each; what they held is not among the entries.
    """

    entries: tuple[StoredEntry, ...] = ()
    num_filled: int = 0
    problems: tuple[str, ...] = ()


def open_contents(pack: Path) -> tuple[PackKey | None, Contents]:
    """Open a pack; without a key where its own description cannot be read."""
    try:
        key = PackKey.from_text((pack / "pack.json").read_text(encoding="utf-8"))
        if key.digest != pack.name:
            raise ValueError("it describes another pack")
    except (OSError, ValueError) as error:
        return None, Contents(problems=(f"pack.json cannot be used: {error}",))
    return key, _open_jpegs(pack, key) if dict(key.fields).get("codec") == "jpeg" else _open_parts(pack, key)


def _in_pieces(num_frames: int, key: PackKey, read: Callable[[IndexArray, FrameArray], object]) -> Iterator[FrameArray]:
    for start in range(0, num_frames, _READ_AT_ONCE):
        places = np.arange(start, min(start + _READ_AT_ONCE, num_frames))
        frames = np.empty((len(places), *key.frame_shape), np.uint8)
        read(places, frames)
        yield frames


# Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class _RawEntry:
    part: Part
    row: int
    key: str

    @property
    def place(self) -> str:
        return f"{self.part.folder.name}, row {self.row}"

    def check(self) -> tuple[State, str]:
        if self.part.is_blank(self.row):
            return "not filled", ""
        kept = self.part.kept(self.row)
        if kept is None:
            where = "state.bin" if self.part.is_sound[self.row] else "rows.npy"
            return "damaged", f"its record in {where} is not what was written"
        if self.part.checksum(self.row) != kept.checksum:
            return "damaged", "its frames are not what was written"
        return "sound", ""

    def read(self) -> tuple[int, Iterator[FrameArray]]:
        count = int(self.part.rows["num_frames"][self.row])
        return count, _in_pieces(count, self.part.key, self._read_some)

    def _read_some(self, places: IndexArray, out: FrameArray) -> None:
        if self.part.read_some(self.row, places, out) is None:
            raise ValueError("bytes are missing")


def _open_parts(pack: Path, key: PackKey) -> Contents:
    entries: list[_RawEntry] = []
    problems, num_filled = [], 0
    for folder in sorted(pack.glob("part-*"), key=lambda part: part.stat().st_mtime_ns, reverse=True):
        try:
            part = Part(folder, key)
        except (PartDamagedError, OSError) as error:
            problems.append(str(error))
            continue
        table = [key for (key,) in read_columns(folder / "rows.csv", "path")]
        if len(table) != len(part):
            problems.append(f"{folder / 'rows.csv'} does not name the {len(part)} rows")
            table = [""] * len(part)
        entries += [_RawEntry(part=part, row=row, key=text) for row, text in enumerate(table)]
        num_filled += int(np.count_nonzero(part.find_filled()))
    return Contents(entries=tuple(entries), num_filled=num_filled, problems=tuple(problems))


# JPEG


@dataclass(frozen=True, slots=True, kw_only=True)
class _JpegEntry:
    listed: ListedJpegs
    pack_key: PackKey

    @property
    def place(self) -> str:
        return f"{self.listed.path.parent.name}/{self.listed.path.name}"

    @property
    def key(self) -> str:
        return self.listed.key

    def check(self) -> tuple[State, str]:
        if not self.listed.path.exists():
            return "not filled", ""
        return ("damaged", "it is not what was written") if read_jpegs(self.listed.path) is None else ("sound", "")

    def read(self) -> tuple[int, Iterator[FrameArray]]:
        jpegs = read_jpegs(self.listed.path)
        if jpegs is None:
            raise ValueError("it is not what was written")
        return len(jpegs.pictures), _in_pieces(len(jpegs.pictures), self.pack_key, jpegs.read)


def _open_jpegs(pack: Path, key: PackKey) -> Contents:
    listed = list(list_jpegs(pack))
    return Contents(
        entries=tuple(_JpegEntry(listed=each, pack_key=key) for each in listed),
        num_filled=sum(each.path.exists() for each in listed),
    )
