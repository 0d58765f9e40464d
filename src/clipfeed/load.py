"""One plan to one clip: where decoding and transform meet.

`load_clip` is what a dataset calls for each example; `load_video` is the same for one file, without an index. Nothing
here chooses an order, batches, or keeps a file open. `sample` has planned; `batch` will stack.
"""

from __future__ import annotations

from os import fspath
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import ColorMode, DataFormat, FrameArray, Interpolation, ShortVideos, StrPath
from clipfeed.decode import Decoder, LeanDecoder
from clipfeed.errors import ProbeError
from clipfeed.probe import probe_video
from clipfeed.records import (
    Clip,
    ClipPlan,
    ClipSpec,
    FoundVideo,
    SamplingPolicy,
    VideoRecord,
    check_choice,
)
from clipfeed.sample import plan_clip
from clipfeed.seeds import hash_key
from clipfeed.storage import stat_file
from clipfeed.transform import DType, aspect_of, check_value_range, geometry_of, needs_place, place, to_value_range

__all__ = ["load_clip", "load_video", "video_record"]


def load_clip(plan: ClipPlan, spec: ClipSpec, decoder: Decoder, *, out: FrameArray | None = None) -> Clip:
    """Give a plan its pixels.

    Args:
        plan: Which frames of which video.
        spec: Size, aspect, color mode and interpolation.
        decoder: What reads the file.
        out: (T, H, W, C) uint8 to write into, such as a row of a batch; None allocates.

    Returns:
        A clip of exactly the planned frames.

    Raises:
        DecodeError: If a frame of the plan cannot be had.
        StaleIndexError: If the file is gone or changed since it was indexed.
    """
    geometry = geometry_of(plan.record.info, spec)
    if out is None:
        out = np.empty((len(plan.frame_indices), *spec.shape[1:]), np.uint8)
    if needs_place(geometry):
        decoded = decoder.decode(plan, geometry)
        place(decoded.frames, geometry, out)
    else:
        decoded = decoder.decode(plan, geometry, out=out)
    return Clip(plan=plan, frames=out, is_damaged=decoded.is_damaged)


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
