"""One plan to one clip: where cache, decoding and transform meet.

    plan -> kept? -yes-> the frames that were kept
                  -no--> decode, transform, keep what may be kept

`load_clip` is what a dataset calls for each example; `load_video` is the same for one file, without an index or a
cache. Nothing here chooses an order, batches, or keeps a video open. `sample` has planned; `batch` will stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import fspath
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import ColorMode, DataFormat, FrameArray, IndexArray, Interpolation, ShortVideos, StrPath
from clipfeed.cache import (
    Cache,
    Filling,
    OpenedPack,
    Pack,
    PackKey,
    entries_of,
    needed_bytes,
    open_pack,
)
from clipfeed.decode import Decoder, LeanDecoder, pixel_facts
from clipfeed.errors import DecodeError, ProbeError
from clipfeed.probe import probe_video
from clipfeed.records import (
    Clip,
    ClipPlan,
    ClipSpec,
    FoundVideo,
    SamplingPolicy,
    VideoIndex,
    VideoRecord,
    check_choice,
)
from clipfeed.sample import plan_clip, policy_of, usable_mask
from clipfeed.seeds import hash_key
from clipfeed.storage import stat_file
from clipfeed.transform import DType, aspect_of, check_value_range, geometry_of, needs_place, place, to_value_range

__all__ = ["KeptFrames", "Slot", "keep_frames", "load_clip", "load_video", "pack_bytes", "video_record"]


# What is kept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptFrames:
    """The cache of one dataset.

    Attributes:
        pack: Where its frames are kept.
        entries: (n,) int64 entry of each row of the index; -1 for rows that stay uncached.
        opened: What a user should know of it.
    """

    pack: Pack
    entries: IndexArray
    opened: OpenedPack


class Slot(NamedTuple):
    """Where the frames of one clip are, or will be, kept."""

    pack: Pack
    entry: int


def keep_frames(index: VideoIndex, spec: ClipSpec, cache: Cache) -> KeptFrames | None:
    """Find or make the place for the frames of an index's videos, with room for all of the data set.

    Training, validation and folds share a pack, since room is made for every usable video of the data set at once: one
    clip each where the policy always chooses the same frames, all frames of each where it draws.

    Args:
        index: A part of the data set, or all of it.
        spec: What a clip looks like.
        cache: Where to keep frames.

    Returns:
        None where nothing can be kept (a warning has said why).

    Raises:
        BudgetError: If memory does not hold all frames.
        CacheError: If the cache's folder cannot be one.
    """
    key = pack_key(spec, cache)
    opened = open_pack(cache, key, entries_of(_whole_index(index, spec), key.clip_length))
    if opened.pack is None:
        return None
    return KeptFrames(pack=opened.pack, entries=opened.pack.find(entries_of(index, key.clip_length)), opened=opened)


def pack_bytes(index: VideoIndex, spec: ClipSpec, cache: Cache | None = None) -> int:
    """Give the bytes that the frames of a whole data set take in a cache: exact for raw ones, estimated for JPEG.

    Args:
        index: The data set, or a part of it: the pack is for all of it.
        spec: What a clip looks like.
        cache: Where frames would be kept; None for raw ones on the disk.
    """
    chosen = Cache() if cache is None else cache
    key = pack_key(spec, chosen)
    return needed_bytes(key, entries_of(_whole_index(index, spec), key.clip_length), chosen)


def pack_key(spec: ClipSpec, cache: Cache) -> PackKey:
    """Name everything that decides the pixels which are kept."""
    policy = policy_of(spec)
    of_clips = {} if policy.is_random else {"sampling": _name_of(policy), "short_videos": spec.short_videos}
    fields = {
        **of_clips,
        "interpolation": spec.interpolation,
        "aspect": spec.aspect,
        "color_mode": spec.color_mode,
        "codec": cache.codec,
        **dict(pixel_facts()),
    }
    return PackKey(
        clip_length=None if policy.is_random else spec.num_frames,
        frame_shape=spec.shape[1:],
        fields=tuple(sorted(fields.items())),
    )


def _name_of(policy: SamplingPolicy) -> str:
    """Give what is the same for a policy in each process; its clips are compared with what is kept in any case."""
    kind = type(policy)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__repr__ is object.__repr__ else repr(policy)


def _whole_index(index: VideoIndex, spec: ClipSpec) -> VideoIndex:
    """Every video of the data set that a clip can be made of; of an index of intervals, its own rows."""
    if index.starts is not None or index.ends is not None:
        return index
    rows = np.flatnonzero(index.columns.num_frames > 0)
    whole = VideoIndex(root=index.root, columns=index.columns, rows=rows)
    if spec.short_videos in ("drop", "error"):
        whole = whole.select(np.flatnonzero(usable_mask(whole, spec)))
    return whole


# Clips


def load_clip(
    plan: ClipPlan, spec: ClipSpec, decoder: Decoder, *, out: FrameArray | None = None, slot: Slot | None = None
) -> Clip:
    """Give a plan its pixels.

    Args:
        plan: Which frames of which video.
        spec: Size, aspect, color mode and interpolation.
        decoder: What reads the file.
        out: (T, H, W, C) uint8 to write into, such as a row of a batch; None allocates.
        slot: Where the frames are kept, or will be; None decodes them.

    Returns:
        A clip of exactly the planned frames, the same whether they were kept or not.

    Raises:
        DecodeError: If a frame of the plan cannot be had.
        StaleIndexError: If the file is gone or changed since it was indexed.
    """
    if out is None:
        out = np.empty((len(plan.frame_indices), *spec.shape[1:]), np.uint8)
    if slot is None:
        return _decode(plan, spec, decoder, out)
    is_damaged = slot.pack.read(slot.entry, plan, out)
    if is_damaged is not None:
        return Clip(plan=plan, frames=out, is_damaged=is_damaged)
    filling = slot.pack.fill(slot.entry)
    if filling is None:
        return _decode(plan, spec, decoder, out)
    if filling.is_kept and slot.pack.key.clip_length is None:
        return _decode_all(plan, spec, decoder, out, filling)
    clip = _decode(plan, spec, decoder, out)
    out[...] = filling.add(out, clip.is_damaged)
    if filling.is_kept:
        filling.finish(plan)
    return clip


def _decode(plan: ClipPlan, spec: ClipSpec, decoder: Decoder, out: FrameArray) -> Clip:
    """Decode the frames of a plan."""
    geometry = geometry_of(plan.record.info, spec)
    if needs_place(geometry):
        decoded = decoder.decode(plan, geometry)
        place(decoded.frames, geometry, out)
    else:
        decoded = decoder.decode(plan, geometry, out=out)
    return Clip(plan=plan, frames=out, is_damaged=decoded.is_damaged)


def _decode_all(plan: ClipPlan, spec: ClipSpec, decoder: Decoder, out: FrameArray, filling: Filling) -> Clip:
    """Decode and keep all frames of a plan's row, and take those of the plan out of them as they pass."""
    record, geometry = plan.record, geometry_of(plan.record.info, spec)
    every = np.arange(record.start, record.start + record.num_frames)
    whole = ClipPlan(record=record, frame_indices=every, mask=np.ones(len(every), np.bool_))
    is_damaged, first = np.zeros(len(out), np.bool_), record.start
    try:
        for chunk in decoder.decode_chunks(whole, geometry):
            frames = chunk.frames
            if needs_place(geometry):
                frames = np.empty((len(chunk.frames), *spec.shape[1:]), np.uint8)
                place(chunk.frames, geometry, frames)
            seen, places = filling.add(frames, chunk.is_damaged), plan.frame_indices - first
            here = (places >= 0) & (places < len(seen))
            out[here], is_damaged[here] = seen[places[here]], chunk.is_damaged[places[here]]
            first += len(seen)
    except DecodeError:
        filling.abandon()
        return _decode(plan, spec, decoder, out)  # the planned frames may be sound where others are not
    filling.finish(whole)
    return Clip(plan=plan, frames=out, is_damaged=is_damaged)


def load_video(  # noqa: PLR0913  # the facade's arguments that concern one clip
    path: StrPath,
    *,
    num_frames: int = 20,
    image_size: tuple[int, int] | int = (64, 64),
    sampling: SamplingPolicy | Literal["uniform", "stride"] = "uniform",
    short_videos: ShortVideos = "error",
    interpolation: Interpolation = "bilinear",
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    color_mode: ColorMode = "rgb",
    dtype: DType = "float32",
    value_range: tuple[float, float] | None = None,
    data_format: DataFormat = "channels_last",
) -> NDArray[Any]:
    """Give one clip of one video file, made by the same code as a dataset's and with the same pixels.

    Needs no index and writes none. Policies that draw at random in training take their centre.

    Args:
        path: The video file.
        num_frames: T, frames in the clip.
        image_size: (height, width) in pixels; an int is a square.
        sampling: "uniform", "stride", or a policy such as `cf.Dense(frame_stride=2)`.
        short_videos: For a video with too few frames: "error", "repeat_last" or "wrap"; "drop" is an error as well,
            since there is no other video to go on with.
        interpolation: "nearest", "bilinear", "bicubic", "area", "lanczos3" or "gaussian".
        crop_to_aspect_ratio: Cut the largest centred part with the wanted aspect ratio, then resize it.
        pad_to_aspect_ratio: Resize the whole picture and pad with black. Without either the picture is stretched.
        color_mode: "rgb" (3 channels) or "grayscale" (1).
        dtype: "float32", "float16", or "uint8" for 0..255 untouched.
        value_range: (low, high) of floats; None is (0, 1).
        data_format: "channels_last" (T, H, W, C) or "channels_first" (C, T, H, W).

    Returns:
        (T, H, W, C) or (C, T, H, W), float32 in 0..1 unless asked otherwise.

    Raises:
        ValueError: For an argument that no clip can have.
        ProbeError: If the file is missing or is no video, or has too few frames.
        DecodeError: If a frame cannot be decoded.

    Example:
        >>> clip = cf.load_video("jump.avi", num_frames=20, image_size=(64, 64))
        >>> clip.shape, clip.dtype
        ((20, 64, 64, 3), dtype('float32'))
    """
    spec = ClipSpec(
        num_frames=num_frames,
        image_size=image_size,
        sampling=sampling,
        short_videos=short_videos,
        interpolation=interpolation,
        aspect=aspect_of(crop_to_aspect_ratio=crop_to_aspect_ratio, pad_to_aspect_ratio=pad_to_aspect_ratio),
        color_mode=color_mode,
    )
    check_value_range(dtype, value_range)
    check_choice("data_format", data_format, ("channels_last", "channels_first"))
    record = video_record(path)
    clip = load_clip(plan_clip(record, spec, rng=None), spec, LeanDecoder())
    values = to_value_range(clip.frames, dtype, value_range)
    return values if data_format == "channels_last" else np.ascontiguousarray(np.moveaxis(values, -1, 0))


def video_record(path: StrPath) -> VideoRecord:
    """Probe one file as if it were a data set of its own.

    Raises:
        ProbeError: If the file is missing, is no regular file, or cannot be used as a video.
    """
    shown = fspath(path)
    folder, slash, key = shown.rpartition("/")
    root = folder or slash
    try:
        facts = stat_file(root, key)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise ProbeError(reason, path=shown, stage="probe", remedy="check the path") from error
    if not facts.is_regular:
        raise ProbeError(
            "is not a regular file",
            path=shown,
            stage="probe",
            expected="expected one video file",
            remedy="pass a file; for a folder of videos use cf.video_dataset_from_directory or cf.build_index",
        )
    found = FoundVideo(key=key, class_name=None, size_bytes=facts.size_bytes, mtime_ns=facts.mtime_ns)
    return VideoRecord(
        row=0,
        root=root,
        key=key,
        video_id=hash_key(key),
        size_bytes=facts.size_bytes,
        mtime_ns=facts.mtime_ns,
        info=probe_video(root, found),
    )
