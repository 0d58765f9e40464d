"""All of a forecast on a folder: index, split, count, measure, and put the answers together."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from clipfeed._types import ColorMode, Interpolation, ShortVideos, StrPath
from clipfeed.cache import Cache
from clipfeed.cache.room import free_bytes
from clipfeed.dataset import Limits, VideoDataset, checked_batch_size
from clipfeed.errors import LayoutError, MissingDependencyError
from clipfeed.forecast.code import lines_to_paste
from clipfeed.forecast.measure import (
    Work,
    decoding_seconds,
    measure_decoding,
    measure_reading,
    reading_seconds,
    work_of,
)
from clipfeed.forecast.report import CacheAdvice, Decoding, Forecast, Machine, Range, Reading, TrainingMemory
from clipfeed.forecast.training import estimate_training
from clipfeed.index import build_index
from clipfeed.learn.models import MODELS, ModelName
from clipfeed.load import pack_bytes
from clipfeed.machine import available_memory
from clipfeed.prefetch import usable_cores
from clipfeed.records import (
    ClipSpec,
    Failure,
    SamplingPolicy,
    VideoIndex,
    check_choice,
    checked_flag,
    checked_path,
    checked_seed,
)
from clipfeed.sizes import parse_bytes
from clipfeed.split import Groups, check_groups, split_index
from clipfeed.transform import aspect_of

__all__ = ["Speeds", "forecast_directory", "look_at_machine"]

_FLOAT_BYTES = 4
_DISK_RESERVE_BYTES = 1 << 30  # which the cache leaves to others


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How fast a machine is with some videos; given, nothing is speeds.

    Attributes:
        decoding: Of some of the videos.
        reading: Of frames that were kept; None if they cannot be.
    """

    decoding: Decoding
    reading: Reading | None


def forecast_directory(  # noqa: PLR0913  # the facade's arguments that matter for memory and time, and the GPU
    directory: StrPath,
    *,
    color_mode: ColorMode = "rgb",
    batch_size: int | None = 8,
    image_size: tuple[int, int] | int = (64, 64),
    seed: int = 1,
    validation_split: float | None = 0.2,
    interpolation: Interpolation = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    num_frames: int = 20,
    sampling: SamplingPolicy | Literal["uniform", "stride"] = "uniform",
    clips_per_video: int = 1,
    short_videos: ShortVideos = "drop",
    groups: Groups = "auto",
    memory_budget: int | str = "512MB",
    workers: int | None = None,
    index: StrPath | None = None,
    model: ModelName = "lrcn",
    gpu_memory: int | str | None = "8GB",
    machine: Machine | None = None,
    speeds: Speeds | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Forecast:
    """Say what training on a folder will ask of this machine, before anything is trained.

    Memory the naive way and here, size of the cache, time of the first epoch and of later ones, threads, batch size,
    and the lines to paste. Builds the index, decodes some videos for about five seconds, and writes and reads 32 MB
    where the cache would be.

    Args:
        directory: The folder, as for `cf.video_dataset_from_directory`; arguments of its names mean what they do there.
        color_mode: "rgb" or "grayscale".
        batch_size: Clips in a batch; None for single clips.
        image_size: (height, width) in pixels; an int is a square.
        seed: For the split.
        validation_split: Share of the data for validation; None for none. Not used where the folder has parts.
        interpolation: How frames are resized.
        follow_links: Whether to visit linked folders.
        crop_to_aspect_ratio: Cut the largest centred part with the wanted aspect ratio.
        pad_to_aspect_ratio: Resize the whole picture and pad with black.
        num_frames: T, frames in a clip.
        sampling: "uniform", "stride", or a policy such as `cf.Segments()`.
        clips_per_video: Clips drawn from each video in a training epoch.
        short_videos: "drop", "repeat_last", "wrap" or "error".
        groups: What must stay on one side of the split.
        memory_budget: Bytes that a dataset may hold while it is iterated, such as "512MB".
        workers: Decoding threads; None for the cores this process may use.
        index: Folder in which the index is kept; None is the user's cache folder.
        model: The model to train: "lrcn", "convlstm" or "conv3d".
        gpu_memory: Memory of the GPU it is trained on, such as "8GB"; None leaves that question out, and Keras with it.
        machine: What the machine has left; None looks at this one.
        speeds: How fast it is with these videos; None measures.
        progress: Called with (what is done, how much of it is done, how much there is).

    Returns:
        All figures; `print` shows them as a report.

    Raises:
        ValueError: For an argument that no call accepts, or videos that are all too short.
        LayoutError: If the folder is not laid out as a data set, or cannot be split.
        BudgetError: If `memory_budget` does not hold one batch.

    Example:
        >>> told = cf.forecast_directory("HMDB51", num_frames=20, image_size=(64, 64), gpu_memory="8GB")
        >>> told.naive_clips_bytes, told.naive_clips_fit
        (6650265600, True)
    """
    spec = ClipSpec(
        num_frames=num_frames,
        image_size=image_size,
        sampling=sampling,
        short_videos=short_videos,
        interpolation=interpolation,
        aspect=aspect_of(crop_to_aspect_ratio=crop_to_aspect_ratio, pad_to_aspect_ratio=pad_to_aspect_ratio),
        color_mode=color_mode,
        clips_per_video=clips_per_video,
    )
    limits = Limits(memory_budget=memory_budget, workers=workers)
    check_choice("model", model, MODELS)
    check_groups(groups)
    cut = _Cut(share=_checked_share(validation_split), seed=checked_seed(seed), groups=groups)
    asked = _Asked(
        model=model,
        gpu_memory_bytes=None if gpu_memory is None else parse_bytes("gpu_memory", gpu_memory),
        batch_size=checked_batch_size(batch_size),
        facade={
            "num_frames": spec.num_frames,
            "image_size": spec.size,
            "batch_size": batch_size,
            "color_mode": color_mode,
            "interpolation": interpolation,
            "follow_links": checked_flag("follow_links", follow_links),
            "crop_to_aspect_ratio": crop_to_aspect_ratio,
            "pad_to_aspect_ratio": pad_to_aspect_ratio,
            "sampling": sampling,
            "clips_per_video": spec.clips_per_video,
            "short_videos": short_videos,
            "groups": groups,
            "memory_budget": memory_budget,
            "workers": workers,
            "index": None if index is None else checked_path("index", index),
        },
    )
    tell = progress or _keep_quiet
    whole = build_index(
        directory, index=index, follow_links=follow_links, workers=workers, progress=partial(tell, "indexing")
    )
    parts = _parts(whole, cut)
    datasets = {
        name: VideoDataset(
            part, spec, batch_size=asked.batch_size, training=name == "train", seed=cut.seed, limits=limits
        )
        for name, part in parts.items()
    }
    seen = machine or look_at_machine()
    measured = speeds or _measure(datasets["train"], seen, partial(tell, "decoding some of the videos"))
    tell("counting the model", 0, 1)
    return _foretell(whole, datasets, asked, cut, machine=seen, speeds=measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """How a folder without parts is cut; no share is no cut."""

    share: float | None
    seed: int
    groups: Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What was asked for beside the clips; `facade` holds the arguments that a call of the facade would repeat."""

    model: ModelName
    gpu_memory_bytes: int | None
    batch_size: int | None
    facade: Mapping[str, Any]


def look_at_machine() -> Machine:
    """Say what this machine has left."""
    folder = Cache().folder
    return Machine(
        memory_available_bytes=available_memory(),
        cores=usable_cores(),
        cache_folder=str(folder),
        disk_free_bytes=free_bytes(folder),
    )


def _checked_share(share: float | None) -> float | None:
    if share is not None and not (isinstance(share, int | float) and not isinstance(share, bool) and 0 < share < 1):
        raise ValueError(f"validation_split={share!r}: expected a number between 0 and 1, or None")
    return share


def _parts(whole: VideoIndex, cut: _Cut) -> dict[str, VideoIndex]:
    """Give what an epoch reads: training, and validation where there is one."""
    folders = whole.folder_parts()
    if folders and "train" not in folders:
        raise LayoutError(
            f"there is nothing to train on: its parts are {', '.join(folders)}",
            path=whole.root,
            stage="split",
            expected="a folder train (also training) beside them",
            remedy="add it, or pass the folder of one part, which is then split",
        )
    if folders:
        return {name: part for name, part in folders.items() if name in ("train", "val")}
    if cut.share is None:
        return {"train": whole}
    return split_index(whole, fractions={"train": 1 - cut.share, "val": cut.share}, seed=cut.seed, groups=cut.groups)


def _measure(ds: VideoDataset, machine: Machine, progress: Callable[[int, int], None]) -> Speeds:
    return Speeds(
        decoding=measure_decoding(ds, progress=progress),
        reading=measure_reading(machine.cache_folder, ds.spec.num_bytes),
    )


def _foretell(
    whole: VideoIndex,
    datasets: Mapping[str, VideoDataset],
    asked: _Asked,
    cut: _Cut,
    *,
    machine: Machine,
    speeds: Speeds,
) -> Forecast:
    """Put the answers together."""
    train = datasets["train"]
    spec, each = train.spec, datasets.values()
    num_clips = sum(ds.num_examples for ds in each)
    num_frames = sum(int(ds.index.num_frames.sum()) for ds in each)
    num_classes = len(whole.class_names or ())
    needed = max(each, key=_held_bytes)
    raw_bytes = pack_bytes(whole, spec)
    share = speeds.decoding.jpeg_share
    jpeg_bytes = None if share is None else math.ceil(raw_bytes * share)
    advice = _cache_advice(raw_bytes, jpeg_bytes, machine)
    training, training_missing = _training(asked, spec, num_classes)
    return Forecast(
        root=whole.root,
        num_videos=sum(len(ds.index) for ds in each),
        num_classes=num_classes,
        num_clips=num_clips,
        num_frames=num_frames,
        clip_shape=spec.shape,
        batch_size=asked.batch_size,
        machine=machine,
        naive_clips_bytes=num_clips * spec.num_bytes * _FLOAT_BYTES,
        naive_frames_bytes=num_frames * spec.num_bytes // spec.num_frames * _FLOAT_BYTES,
        memory_bytes=_held_bytes(needed),
        memory_budget_bytes=needed.memory_budget,
        memory_arithmetic=needed.explain_memory().removeprefix("memory: "),
        cache_raw_bytes=raw_bytes,
        cache_jpeg_bytes=jpeg_bytes,
        cache_advice=advice,
        first_epoch_seconds=decoding_seconds(speeds.decoding, _epoch_work(each)),
        later_epoch_seconds=_later_epochs(speeds.reading, num_clips * spec.num_bytes, raw_bytes, machine),
        decoding=speeds.decoding,
        reading=speeds.reading,
        workers=train.workers,
        training=training,
        training_missing=training_missing,
        code=_code(whole, datasets, asked, cut, advice),
        left_out=_left_out(whole, each),
    )


def _held_bytes(ds: VideoDataset) -> int:
    return ds.batch_bytes + ds.max_clips_ahead * ds.spec.num_bytes + ds.decoding_bytes


def _epoch_work(datasets: Collection[VideoDataset]) -> Work:
    """Add up what an epoch's clips are made from: a video as often as clips are drawn from it."""
    works = [(work_of(ds.index), ds.num_examples // max(len(ds.index), 1)) for ds in datasets]
    return Work(
        source_pixels=sum(work.source_pixels * draws for work, draws in works),
        source_bytes=sum(work.source_bytes * draws for work, draws in works),
    )


def _later_epochs(reading: Reading | None, epoch_bytes: int, raw_bytes: int, machine: Machine) -> Range | None:
    if reading is None:
        return None
    return reading_seconds(reading, epoch_bytes, is_in_memory=machine.holds(raw_bytes) is not False)


def _cache_advice(raw_bytes: int, jpeg_bytes: int | None, machine: Machine) -> CacheAdvice | None:
    room = machine.disk_free_bytes - _DISK_RESERVE_BYTES
    if raw_bytes <= room:
        return "raw"
    return "jpeg" if jpeg_bytes is not None and jpeg_bytes <= room else None


def _training(asked: _Asked, spec: ClipSpec, num_classes: int) -> tuple[TrainingMemory | None, str | None]:
    """Give what the model takes, or why that is not told."""
    if asked.gpu_memory_bytes is None:
        return None, "no gpu_memory was given"
    try:
        return estimate_training(asked.model, spec.shape, num_classes, asked.gpu_memory_bytes), None
    except MissingDependencyError as error:
        return None, f"{error.problem}; fix: {error.remedy}"


def _code(
    whole: VideoIndex, datasets: Mapping[str, VideoDataset], asked: _Asked, cut: _Cut, advice: CacheAdvice | None
) -> str:
    is_cut_by_folders = bool(whole.folder_parts())
    is_split = "val" in datasets and not is_cut_by_folders
    subset = "both" if "val" in datasets else "training" if is_cut_by_folders else None
    return lines_to_paste(
        whole.root,
        {**asked.facade, "validation_split": cut.share if is_split else None, "subset": subset, "seed": cut.seed},
        cache=advice,
        model=asked.model,
        clip_shape=datasets["train"].spec.shape,
        num_classes=len(whole.class_names or ()),
    )


def _left_out(whole: VideoIndex, datasets: Collection[VideoDataset]) -> tuple[Failure, ...]:
    return (*whole.failures, *(failure for ds in datasets for failure in ds.dropped))


def _keep_quiet(what: str, done: int, total: int) -> None:
    """Say nothing."""
