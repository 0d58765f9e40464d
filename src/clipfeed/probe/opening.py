"""Opening a found file, and saying why it cannot be opened."""

from __future__ import annotations

from typing import BinaryIO

import av

from clipfeed import storage
from clipfeed._ffmpeg import OpenVideo, open_container
from clipfeed.errors import ProbeError
from clipfeed.probe.refusal import explain_empty, explain_unopened
from clipfeed.records import FoundVideo, join_key

__all__ = ["open_bytes", "open_explained"]


def open_bytes(root: str, found: FoundVideo) -> BinaryIO:
    """Open a file as bytes; to be used in a `with` statement.

    Raises:
        ProbeError: It is empty, not regular, gone, or may not be read.
    """
    if found.size_bytes == 0:
        raise explain_empty(join_key(root, found.key))
    try:
        return storage.open_file(root, found.key)
    except OSError as error:
        path = join_key(root, found.key)
        raise ProbeError(f"cannot be read: {error.strerror or error}", path=path, stage="probe") from error


def open_explained(source: str, path: str, file: BinaryIO, size_bytes: int) -> OpenVideo:
    """Open a video, and say what the file is instead where FFmpeg does not know it; to be used in a `with` statement.

    Args:
        source: Absolute path.
        path: How to name the file in messages.
        file: The same file as bytes.
        size_bytes: Its size.

    Raises:
        ProbeError: It cannot be opened as a video; says why.
    """
    try:
        return open_container(source, path=path)
    except ProbeError as error:
        if isinstance(error.__cause__, OSError) or not isinstance(error.__cause__, av.FFmpegError):
            raise
        raise explain_unopened(error, file, size_bytes) from error.__cause__
