"""What a decoder says when a clip cannot be had: which file and where, what was wanted, what to do.

Nothing here decodes. The first line of each error is what a ledger keeps, so it stands by itself.
"""

from __future__ import annotations

import shlex

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.errors import DecodeError, StaleIndexError
from clipfeed.records import ClipPlan, VideoRecord
from clipfeed.storage import stat_file
from clipfeed.timing import times_of

__all__ = ["cannot_convert", "check_unchanged", "describe_indices", "frame_missing", "took_too_long"]

_CHECK = 'run `clipfeed check {path}`; re-encode it, or pass errors=cf.ErrorPolicy(on_error="skip") (it will be listed)'


def check_unchanged(record: VideoRecord) -> None:
    """Refuse a file that is not the one the record speaks of.

    Raises:
        StaleIndexError: If the file is gone, or its size or time of change differ.
        DecodeError: If it cannot be looked at.
    """
    try:
        now = stat_file(record.root, record.key)
    except FileNotFoundError as error:
        raise _stale(record, "is gone since it was indexed", "expected the file to be there") from error
    except OSError as error:
        raise DecodeError(
            f"cannot be read: {error.strerror or error}",
            path=record.path,
            stage="decode",
            remedy="check the permissions of the file and of the folders above it",
        ) from error
    if (now.size_bytes, now.mtime_ns) != (record.size_bytes, record.mtime_ns):
        was = f"expected {record.size_bytes:,} bytes changed at {record.mtime_ns} ns"
        raise _stale(record, "changed since it was indexed", f"{was}; found {now.size_bytes:,} at {now.mtime_ns}")


def frame_missing(plan: ClipPlan, *, num_shown: int) -> DecodeError:
    """Say that a video ended before a wanted frame, after showing `num_shown` frames."""
    is_missing = (plan.frame_indices < 0) | (plan.frame_indices >= num_shown)
    wanted = describe_indices(plan.frame_indices)
    return DecodeError(
        f"no {_where(plan.record, int(plan.frame_indices[is_missing].min()))}",
        path=plan.record.path,
        stage="decode",
        expected=f"wanted {wanted}; got {np.count_nonzero(~is_missing)}; the file shows {num_shown} frames",
        remedy=_CHECK.format(path=shlex.quote(plan.record.path)),
    )


def took_too_long(plan: ClipPlan, seconds: float, *, num_shown: int) -> DecodeError:
    """Say that a clip was not there in time; `num_shown` frames had been decoded."""
    num_had = np.count_nonzero(plan.frame_indices < num_shown)
    return DecodeError(
        f"decoding took longer than {seconds:g} s and was given up at {_where(plan.record, num_shown)}",
        path=plan.record.path,
        stage="decode",
        expected=f"wanted {describe_indices(plan.frame_indices)}; got {num_had}",
        remedy="re-encode the file, or allow more time: cf.Limits(timeout_seconds=...)",
    )


def cannot_convert(plan: ClipPlan, pixel_format: str, reason: Exception, *, num_shown: int) -> DecodeError:
    """Say that a decoded frame, the one after `num_shown` others, cannot be made RGB or gray."""
    return DecodeError(
        f"{_where(plan.record, num_shown)} cannot be converted: {reason}",
        path=plan.record.path,
        stage="decode",
        expected=f"expected a pixel format that FFmpeg converts and resizes; the file has {pixel_format}",
        remedy="re-encode the file, for instance as H.264 with yuv420p",
    )


def describe_indices(indices: IndexArray) -> str:
    """Say which frames a plan wants: "16 frames, every 2nd from frame 290", or "20 frames from 4 to 398"."""
    count = f"{len(indices)} frame{'s' if len(indices) != 1 else ''}"
    steps = set(np.diff(indices).tolist())
    if len(indices) > 2 and len(steps) == 1 and (step := steps.pop()) > 1:
        return f"{count}, every {_ordinal(step)} from frame {indices[0]}"
    return f"{count} from {indices.min()} to {indices.max()}"


def _where(record: VideoRecord, index: int) -> str:
    """Name a frame by its time, where it has one, and its number."""
    number, codec = f"{index} of {record.info.num_frames}", record.info.codec
    is_timed = record.info.average_fps is not None or record.info.frame_pts is not None
    if is_timed and 0 <= index < record.info.num_frames:
        seconds = float(times_of(record.info).seconds_at([index])[0])
        return f"frame at {seconds:.3f} s (frame {number}, {codec})"
    return f"frame {number} ({codec})"


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"


def _stale(record: VideoRecord, problem: str, expected: str) -> StaleIndexError:
    return StaleIndexError(
        problem,
        path=record.path,
        stage="decode",
        expected=expected,
        remedy="build the index again (cf.build_index, or `clipfeed index`); only changed files are opened",
    )
