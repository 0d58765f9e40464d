"""Why a file is no usable video, in words that say what to do.

FFmpeg says "Invalid data found" of an empty file, of a text and of half a download alike; the file's first bytes and
boxes tell them apart. Nothing here decides whether a file is refused.
"""

from __future__ import annotations

from typing import BinaryIO

from clipfeed.errors import ProbeError
from clipfeed.probe.counting import Decoded
from clipfeed.probe.mp4 import read_boxes

__all__ = ["explain_empty", "explain_unopened", "explain_without_frames"]

_FETCH_AGAIN = "copy or download it again, or delete it"
_REENCODE = "re-encode it, for example to H.264 in MP4, or delete it"
_MP4_BOXES = frozenset({b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"free", b"skip", b"wide", b"sidx", b"emsg"})
_HEAD_BYTES = 4096


def explain_empty(path: str) -> ProbeError:
    """Say that a file holds nothing."""
    return _refused(path, "is empty (0 bytes)", remedy=_FETCH_AGAIN)


def explain_unopened(cause: ProbeError, file: BinaryIO, size_bytes: int) -> ProbeError:
    """Say more of a file that FFmpeg cannot open.

    Args:
        cause: What `_ffmpeg` said.
        file: The file.
        size_bytes: Its size.
    """
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    size = f"{size_bytes:,} bytes"
    if head[4:8] in _MP4_BOXES:
        kinds = {box.kind for box in read_boxes(file, 0, size_bytes)}
        if b"moov" in kinds:
            return _refused(cause.path, f"is an MP4 whose index cannot be used ({size})", remedy=_FETCH_AGAIN)
        if b"moof" in kinds:
            problem = f"is a fragment of an MP4 stream without its header, the moov box ({size})"
            return _refused(cause.path, problem, remedy="join it with the stream's first segment, or delete it")
        problem = f"is an incomplete MP4: the moov box, which lists its frames, is missing ({size})"
        return _refused(cause.path, problem, remedy=_FETCH_AGAIN)
    if not head.strip(b"\0"):
        return _refused(cause.path, f"holds zeros instead of a video ({size})", remedy=_FETCH_AGAIN)
    if _is_text(head):
        return _refused(cause.path, f"holds text, not video ({size})", remedy="delete it, or look what it says")
    return _refused(cause.path, f"is not a video that FFmpeg knows, or is damaged ({size}): {cause.problem}")


def explain_without_frames(path: str, codec: str, seen: Decoded, size_bytes: int) -> ProbeError:
    """Say why a counting decode gave no frame."""
    size = f"{size_bytes:,} bytes"
    if seen.num_packets == 0:
        return _refused(path, f"has a video stream ({codec}) without a single picture ({size})", remedy=_FETCH_AGAIN)
    if seen.is_encrypted:
        return _refused(path, f"is encrypted ({codec}, {size})", remedy="decrypt it, or delete it")
    problem = f"none of its {seen.num_packets} packets can be decoded ({codec}, {size})"
    return _refused(path, problem, remedy=_FETCH_AGAIN)


def _refused(path: str | None, problem: str, *, remedy: str = _REENCODE) -> ProbeError:
    return ProbeError(problem, path=path, stage="probe", remedy=remedy)


def _is_text(head: bytes) -> bool:
    """Tell whether bytes are UTF-8 without control characters; a character may be cut at the end."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n\f\ufeff" for character in text)
