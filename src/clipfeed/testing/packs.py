"""What a cache keeps, made up: keys of packs, entries, frames and plans of videos that no file holds.

For tests of whatever keeps frames: they need no video and no decoder, since a cache looks into neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from clipfeed._types import FrameArray
from clipfeed.cache.entries import IDENTITY, Entries
from clipfeed.cache.key import PackKey
from clipfeed.records import ClipPlan, VideoInfo, VideoRecord

__all__ = ["make_entries", "make_entry_plan", "make_frames", "make_pack_key"]


def make_pack_key(
    clip_length: int | None = None, frame_shape: tuple[int, int, int] = (2, 3, 3), **fields: str
) -> PackKey:
    """Give the key of a pack: of clips of `clip_length` frames, or of whole videos."""
    return PackKey(clip_length=clip_length, frame_shape=frame_shape, fields=tuple(sorted(fields.items())))


def make_entries(num_frames: Sequence[int], *, first: int = 0) -> Entries:
    """Give entries of so many frames each; those with the same number, from `first` on, are the same video."""
    numbers = range(first, first + len(num_frames))
    return Entries(
        identities=np.array([hashlib.blake2b(b"%d" % number, digest_size=16).digest() for number in numbers], IDENTITY),
        num_frames=np.array(num_frames, np.int64),
        keys=[f"run/video {number}.avi" for number in numbers],
        class_names=["run"] * len(num_frames),
    )


def make_frames(num_frames: int, frame_shape: tuple[int, int, int] = (2, 3, 3), *, seed: int = 0) -> FrameArray:
    """Give (num_frames, H, W, C) uint8 noise, another one for each seed."""
    return np.random.default_rng(seed).integers(0, 256, (num_frames, *frame_shape), np.uint8)


def make_entry_plan(
    num_frames: int, frame_indices: Sequence[int] | None = None, *, mask: Sequence[bool] | None = None, start: int = 0
) -> ClipPlan:
    """Give the plan of a clip of a video, or of the interval of `num_frames` frames that begins at `start`.

    Args:
        num_frames: Frames of the interval.
        frame_indices: (T,) in [start, start + num_frames); None for all of them.
        mask: (T,) bool; None for True.
        start: First frame of the interval.
    """
    end = start + num_frames
    info = VideoInfo(container="", codec="", stream_index=0, width=1, height=1, num_frames_from_decode=end)
    record = VideoRecord(
        row=0, root="", key="", video_id=0, start=start, end=end, size_bytes=0, mtime_ns=0, info=info
    )  # fmt: skip
    indices = np.arange(start, end) if frame_indices is None else np.array(frame_indices, np.int64)
    shown = np.ones(len(indices), np.bool_) if mask is None else np.array(mask, np.bool_)
    return ClipPlan(record=record, frame_indices=indices, mask=shown)
