"""The frames of a pack as one `.npy` file a video, in the data set's own tree: for those who want exactly that.

    pack of HMDB51  ->  out/catch/a.avi.npy, out/run/b.avi.npy, ...

The data set is not needed, and nothing is decoded from videos. Entries are read in pieces, so that memory holds few
frames at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, StrPath
from clipfeed.cache.contents import StoredEntry, open_contents
from clipfeed.cache.shelves import PackFacts
from clipfeed.records import Failure, check_choice

__all__ = ["ExportType", "ExportedPack", "export_pack"]

ExportType: TypeAlias = Literal["float32", "uint8"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedPack:
    """What was written.

    Attributes:
        folder: The folder of the files.
        num_files: Files, one a video.
        num_bytes: Bytes of all files.
        num_older: Entries that were left because a newer one is of the same path: the file was replaced.
        left_out: Videos without a file, and why: not filled, damaged, or of no known name.
    """

    folder: str
    num_files: int
    num_bytes: int
    num_older: int
    left_out: tuple[Failure, ...]


def export_pack(
    pack: PackFacts,
    output: StrPath,
    *,
    dtype: ExportType = "float32",
    progress: Callable[[int, int], None] | None = None,
) -> ExportedPack:
    """Write the clips, or all frames, of every video of a pack: the video's path with ".npy" behind it.

    Args:
        pack: One of `list_packs`.
        output: Folder for the files; made if absent, files of the same names are replaced.
        dtype: "float32": pixels divided by 255, 0..1. "uint8": 0..255, a fourth of the bytes.
        progress: Called with (entries done, entries in all).

    Returns:
        What was written; each file is (T, H, W, C), or (frames, H, W, C) from a pack of whole videos.

    Raises:
        OSError: If a file cannot be written.
    """
    check_choice("dtype", dtype, ("float32", "uint8"))
    _, contents = open_contents(Path(pack.folder))
    seen: set[str] = set()
    num_files = num_bytes = num_older = 0
    left_out = [Failure(path=pack.folder, stage="cache", reason=problem) for problem in contents.problems]
    for done, entry in enumerate(contents.entries, 1):
        if entry.key in seen:
            num_older += 1
        else:
            written = _export(entry, Path(output), dtype)
            if isinstance(written, str):
                left_out.append(Failure(path=entry.key or entry.place, stage="cache", reason=written))
            else:
                num_files, num_bytes = num_files + 1, num_bytes + written
        seen |= {entry.key} - {""}
        if progress is not None:
            progress(done, len(contents.entries))
    return ExportedPack(
        folder=str(output), num_files=num_files, num_bytes=num_bytes, num_older=num_older, left_out=tuple(left_out)
    )


def _export(entry: StoredEntry, output: Path, dtype: ExportType) -> int | str:
    """Write one file, and give its bytes; or why not."""
    state, reason = entry.check()
    if state != "sound":
        return reason or state
    key = PurePosixPath(entry.key)
    if not entry.key or key.is_absolute() or ".." in key.parts:
        return "nothing says which video it is"
    path = output / f"{entry.key}.npy"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{uuid.uuid4().hex[:8]}.partial")
    try:
        _write_npy(partial, entry, dtype)
        partial.replace(path)
    except ValueError as error:
        return str(error)
    finally:
        partial.unlink(missing_ok=True)
    return path.stat().st_size


def _write_npy(path: Path, entry: StoredEntry, dtype: ExportType) -> None:
    num_frames, pieces = entry.read()
    with path.open("xb") as file:
        for number, frames in enumerate(pieces):
            values = _values(frames, dtype)
            if number == 0:
                shape = (num_frames, *values.shape[1:])
                header = {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(values.data)


def _values(frames: FrameArray, dtype: ExportType) -> NDArray[Any]:
    return frames if dtype == "uint8" else np.divide(frames, np.float32(255), dtype=np.float32)
