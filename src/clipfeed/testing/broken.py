"""Files that cannot be used as videos, and ways to damage those that could.

`REFUSED_KINDS` lists what every reader must refuse with a reason; the other functions hurt an existing file. Files that
are only awkward are made by `odd`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from clipfeed._types import StrPath
from clipfeed.testing.avi import AviHeader, write_avi
from clipfeed.testing.write import write_numbered_video

__all__ = [
    "REFUSED_KINDS",
    "RefusedKind",
    "damage_file",
    "make_fifo",
    "truncate_file",
    "write_audio_only",
    "write_without_frames",
    "write_without_moov",
]


def damage_file(path: StrPath, *, at: float = 0.5, num_bytes: int = 600) -> Path:
    """Overwrite bytes in the middle of a file with 0xFF.

    Args:
        path: The file to hurt.
        at: Where, as a fraction of its size, 0 to 1.
        num_bytes: How many bytes.

    Returns:
        The path given.
    """
    path = Path(path)
    with path.open("r+b") as file:
        file.seek(int(path.stat().st_size * at))
        file.write(b"\xff" * num_bytes)
    return path


def truncate_file(path: StrPath, fraction: float) -> Path:
    """Cut a file off after a fraction, 0 to 1, of its bytes, as a broken download does."""
    os.truncate(path, int(Path(path).stat().st_size * fraction))
    return Path(path)


def make_fifo(path: StrPath) -> Path:
    """Make a named pipe: opening it to read blocks until somebody writes, which nobody does."""
    os.mkfifo(path)
    return Path(path)


def write_without_moov(path: StrPath) -> Path:
    """Write an MP4 whose table of contents, which stands at the end, is cut off."""
    return truncate_file(write_numbered_video(path, codec="libx264"), 0.6)


def write_without_frames(path: StrPath) -> Path:
    """Write an AVI with the headers of a video stream and not one sample."""
    header = AviHeader(size=(96, 160), fps=Fraction(25), codec_tag="XVID", num_frames=61)
    return write_avi(path, [], header)


def write_audio_only(path: StrPath) -> Path:
    """Write an MP4 that holds half a second of sound and no video stream."""
    with av.open(str(path), "w", format="mp4") as out:
        stream = out.add_stream("aac", rate=48_000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 24_000), np.float32), format="fltp", layout="mono")
        sound.sample_rate = 48_000
        sound.pts = 0
        out.mux(stream.encode(sound))
        out.mux(stream.encode(None))
    return Path(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedKind:
    """A kind of regular file with a video's name that no reader can use.

    Attributes:
        name: What is wrong with it, in a word or two.
        extension: Such as ".mp4".
        writer: Writes one to a path.
    """

    name: str
    extension: str
    writer: Callable[[Path], object]

    def write(self, folder: StrPath) -> Path:
        """Write one into a folder, named after its kind, and give its path."""
        path = Path(folder) / f"{self.name}{self.extension}"
        self.writer(path)
        return path


def _write_empty(path: Path) -> None:
    path.write_bytes(b"")


def _write_text(path: Path) -> None:
    path.write_text("<html><body>404 Not Found</body></html>\n" * 20)


def _write_zeros(path: Path) -> None:
    path.write_bytes(bytes(4096))


REFUSED_KINDS: tuple[RefusedKind, ...] = (
    RefusedKind(name="empty", extension=".avi", writer=_write_empty),
    RefusedKind(name="text", extension=".mp4", writer=_write_text),
    RefusedKind(name="zeros", extension=".mkv", writer=_write_zeros),
    RefusedKind(name="without_moov", extension=".mp4", writer=write_without_moov),
    RefusedKind(name="without_frames", extension=".avi", writer=write_without_frames),
    RefusedKind(name="audio_only", extension=".mp4", writer=write_audio_only),
)
"""Every one must be refused with a reason, quickly, and without an error that is not ours."""
