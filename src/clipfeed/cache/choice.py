"""What the user chooses: where decoded frames are kept, how many bytes of them, and in what form."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import platformdirs

from clipfeed._types import StrPath
from clipfeed.records import check_choice
from clipfeed.sizes import parse_bytes

__all__ = ["Cache", "Codec", "cache_of"]

Codec: TypeAlias = Literal["raw", "jpeg"]
Where: TypeAlias = Literal["disk", "memory"]


@dataclass(frozen=True)
class Cache:
    """Where decoded frames are kept, so that later epochs need not decode.

    What is kept is resized and uint8; nothing random has happened to it, so random clips stay random.

    Args:
        directory: Folder of all packs; None for the user's cache folder. Not for `where="memory"`.
        where: "disk", or "memory": only for as long as the datasets made with this object live.
        max_bytes: Most that all packs of the folder may take, such as "100GB"; older packs make room, and where that is
            not enough a fixed part of the videos is kept. None: as the free space allows; for "memory" half of what is
            available, and more is refused.
        codec: "raw": frames bit for bit. "jpeg": about a tenth of the bytes, with the error of JPEG in every frame, the
            same in every epoch.
        max_frames: Where all frames of videos are kept, for random sampling: videos with more frames stay uncached.

    Raises:
        ValueError: For a choice that cannot be.
    """

    directory: StrPath | None = None
    where: Where = field(default="disk", kw_only=True)
    max_bytes: int | str | None = field(default=None, kw_only=True)
    codec: Codec = field(default="raw", kw_only=True)
    max_frames: int = field(default=3000, kw_only=True)

    def __post_init__(self) -> None:
        check_choice("where", self.where, ("disk", "memory"))
        check_choice("codec", self.codec, ("raw", "jpeg"))
        if self.max_bytes is not None:
            parse_bytes("max_bytes", self.max_bytes)
        if self.where == "memory" and self.directory is not None:
            raise ValueError(f'directory={str(self.directory)!r} with where="memory": expected one of them')
        if self.directory is not None and not os.fspath(self.directory):
            raise ValueError("directory='': expected a folder, or None for the user's cache folder")
        if isinstance(self.max_frames, bool) or not isinstance(self.max_frames, int) or self.max_frames < 1:
            raise ValueError(f"max_frames={self.max_frames!r}: expected a whole number of at least 1")

    def __reduce__(self) -> tuple[Any, ...]:
        # Frames held in memory stay where they are: another process fills its own.
        return _rebuild, (self.directory, self.where, self.max_bytes, self.codec, self.max_frames)

    @property
    def folder(self) -> Path:
        """The folder of all packs."""
        if self.directory is not None:
            return Path(self.directory).expanduser().absolute()
        return platformdirs.user_cache_path("clipfeed") / "frames"

    @property
    def limit(self) -> int | None:
        """`max_bytes` as a number."""
        return None if self.max_bytes is None else parse_bytes("max_bytes", self.max_bytes)

    @cached_property
    def held(self) -> dict[str, Any]:
        """What "memory" holds, by pack: shared by the datasets that are made with this object, and gone with it."""
        return {}


def cache_of(choice: Cache | StrPath | None) -> Cache | None:
    """Give what a facade's `cache` argument means: None, "disk", "memory", a folder, or a `Cache`.

    Raises:
        ValueError: For anything else.
    """
    if choice is None or isinstance(choice, Cache):
        return choice
    if isinstance(choice, str) and choice in ("disk", "memory"):
        return Cache(where="memory" if choice == "memory" else "disk")
    if isinstance(choice, (str, os.PathLike)) and os.fspath(choice):
        return Cache(choice)
    raise ValueError(f'cache={choice!r}: expected None, "disk", "memory", a folder or cf.Cache(...)')


def _rebuild(
    directory: StrPath | None, where: Where, max_bytes: int | str | None, codec: Codec, max_frames: int
) -> Cache:
    return Cache(directory, where=where, max_bytes=max_bytes, codec=codec, max_frames=max_frames)
