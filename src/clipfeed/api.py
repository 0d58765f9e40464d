"""The front door: a folder of videos in, what `fit` eats out.

`video_dataset_from_directory` is the missing sibling of Keras's `image_dataset_from_directory`: same names, same order,
same meaning. It checks everything it can before a file is read, then composes index, split, dataset and adapter.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from clipfeed._types import ColorMode, DataFormat, Interpolation, LabelMode, ShortVideos, StrPath
from clipfeed.cache import Cache, cache_of
from clipfeed.dataset import Limits, VideoDataset, checked_batch_size, errors_for
from clipfeed.decode import DecoderName
from clipfeed.deliver import Delivery, Format, check_num_classes, deliver, require_format
from clipfeed.errors import LayoutError
from clipfeed.find import find_videos
from clipfeed.index import build_index, check_labels
from clipfeed.ledger import ErrorPolicy
from clipfeed.progress import track
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
from clipfeed.split import Groups, check_groups, describe_split, split_index
from clipfeed.transform import aspect_of

__all__ = ["video_dataset_from_directory"]

Subset = Literal["training", "validation", "both", "test"]

_PART_OF_SUBSET = {"training": "train", "validation": "val", "test": "test"}
_NUM_LISTED = 10


def video_dataset_from_directory(  # noqa: PLR0913  # Keras's arguments, and what videos need beside them
    directory: StrPath,
    labels: Literal["inferred"] | Sequence[int] | None = "inferred",
    label_mode: LabelMode | None = "int",
    class_names: Sequence[str] | None = None,
    color_mode: ColorMode = "rgb",
    batch_size: int | None = 8,
    image_size: tuple[int, int] | int = (64, 64),
    shuffle: bool = True,
    seed: int | None = None,
    validation_split: float | None = None,
    subset: Subset | None = None,
    interpolation: Interpolation = "bilinear",
    follow_links: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    data_format: DataFormat | None = None,
    format: Format = "tf",
    verbose: bool = True,
    *,
    num_frames: int = 20,
    sampling: SamplingPolicy | Literal["uniform", "stride"] = "uniform",
    clips_per_video: int = 1,
    short_videos: ShortVideos = "drop",
    groups: Groups = "auto",
    dtype: Literal["float32", "float16", "uint8"] = "float32",
    value_range: tuple[float, float] | None = None,
    errors: Literal["auto"] | ErrorPolicy = "auto",
    pad_last: bool = False,
    memory_budget: int | str = "512MB",
    workers: int | None = None,
    index: StrPath | None = None,
    cache: Cache | StrPath | None = None,
    decoder: DecoderName = "auto",
) -> Any:  # noqa: ANN401  # a tf.data.Dataset, a PyDataset or an iterable, or a pair of them: the framework's own type
    """Turn a folder of videos into a dataset for `model.fit`, decoded clip by clip in bounded memory.

        HMDB51/
        ├── brush_hair/
        │   ├── April_09_brush_hair_u_nm_np1_ba_goo_0.avi
        │   └── ...
        └── cartwheel/
            └── ...

    Then `video_dataset_from_directory("HMDB51")` yields batches `(clips, labels)`: `clips` float32
    (batch_size, num_frames, height, width, channels) in 0..1, and `labels` int32 (batch_size,), 0 for `brush_hair`.

    Args:
        directory: The folder: one sub-folder per class, deeper folders belong to it. If every top folder is one of
            train/training, val/valid/validation, test and holds folders, these are parts and `subset` picks one.
        labels: "inferred" from the folders; None for clips without labels; or a list of ints in the order of
            `cf.find_videos(directory)`, one for each file found.
        label_mode: "int": int32 (B,); "categorical": float32 one-hot (B, num_classes); "binary": float32 (B, 1), two
            classes; None: clips only.
        class_names: Order of the classes, and may be a subset of the folders; only with `labels="inferred"`.
        color_mode: "rgb" (3 channels) or "grayscale" (1).
        batch_size: B; None yields single clips.
        image_size: (height, width) in pixels; an int is a square.
        shuffle: True: a new full permutation each epoch, a function of (seed, epoch). False: the index's order.
        seed: For order, random sampling and the split; needed when a split is asked for and `shuffle` is True.
        validation_split: Share of the data for validation, between 0 and 1. Videos of one source stay together.
        subset: "training", "validation" or "both" (a tuple of the two); "test" where the folder has parts.
        interpolation: "nearest", "bilinear", "bicubic", "area", "lanczos3" or "gaussian"; once, in uint8, antialiased.
        follow_links: Whether to visit linked folders; loops are harmless.
        crop_to_aspect_ratio: Cut the largest centred part with the wanted aspect ratio, then resize it.
        pad_to_aspect_ratio: Resize the whole picture and pad with black. Without either the picture is stretched.
        data_format: "channels_last" (T, H, W, C) or "channels_first" (C, T, H, W); None follows Keras's configuration
            for "tf" and "keras", and is channels last for "numpy".
        format: "tf": a `tf.data.Dataset`; "keras": a `keras.utils.PyDataset`, which needs no TensorFlow; "numpy": a
            sized, re-iterable object.
        verbose: Print what was found, left out, split and delivered.
        num_frames: T, frames in a clip.
        sampling: "uniform": the centre of each of T equal segments of the video; "stride": frames i x max(N // T, 1);
            or a policy: `cf.Uniform()`, `cf.Stride()`, `cf.Segments()`, `cf.Dense(frame_stride=2)`, `cf.AtRate(fps=8)`.
        clips_per_video: Clips drawn from each video in a training epoch.
        short_videos: For videos with too few frames for the policy: "drop" (and list), "repeat_last", "wrap", "error".
        groups: What must stay on one side of the split: "auto" (HMDB51's and UCF101's sources by file name; otherwise
            each file is its own group), a function of the key, or a mapping from key to group. None splits file by
            file at random, which leaks.
        dtype: "float32", "float16", or "uint8" for 0..255 untouched.
        value_range: (low, high) of float clips; None is (0, 1): low + (x / 255) * (high - low).
        errors: "auto": leave undeliverable clips out in training and list them, raise in evaluation; or
            `cf.ErrorPolicy(...)`.
        pad_last: True: every batch has B rows, rows without a clip are black, and items with labels are (x, y, weight)
            with weight 0 for these rows.
        memory_budget: Bytes that this dataset may hold while it is iterated, such as "512MB".
        workers: Decoding threads; None for the cores this process may use.
        index: Folder in which the index is kept; None is the user's cache folder. Nothing is written beside the data.
        cache: Where decoded frames are kept, so that later epochs copy instead of decoding: "disk" (the user's cache
            folder), a folder, "memory", or `cf.Cache(...)` with limits; None decodes in every epoch. The first epoch
            fills it. Pixels and random clips are the same with and without; training and validation share it.
        decoder: "auto" leaves out what no wanted frame needs; "plain" decodes everything. Frames are the same.

    Returns:
        The dataset, or a tuple (training, validation) for `subset="both"`. It carries `class_names`, `file_paths` and
        `labels` (aligned with iteration when unshuffled), and `clipfeed`, the `VideoDataset` under it.

    Raises:
        ValueError: For an argument that no call accepts, or two that contradict each other.
        LayoutError: If the folder is not laid out as above, or holds no usable video (the reasons are listed).
        BudgetError: If `memory_budget` does not hold one batch, or `cache="memory"` not all frames.
        CacheError: If the folder given as `cache` cannot be one.
        MissingDependencyError: If the package that `format` needs is not installed; nothing has been read then.

    Example:
        >>> train_ds, val_ds = cf.video_dataset_from_directory(
        ...     "HMDB51", num_frames=20, image_size=(64, 64), batch_size=8,
        ...     validation_split=0.2, subset="both", seed=1)
        >>> model.fit(train_ds, validation_data=val_ds, epochs=30)
    """
    flags = {"shuffle": shuffle, "follow_links": follow_links, "verbose": verbose, "pad_last": pad_last}
    for name, flag in flags.items():
        checked_flag(name, flag)
    if index is not None:
        checked_path("index", index)
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
    choice = _Choice(
        validation_split=validation_split,
        subset=subset,
        groups=groups,
        shuffle=shuffle,
        seed=_checked_seed(seed, shuffle=shuffle, validation_split=validation_split),
    )
    limits = Limits(memory_budget=memory_budget, workers=workers)
    chosen_cache = cache_of(cache)
    check_choice("decoder", decoder, get_args(DecoderName))
    checked_batch_size(batch_size)
    for training in choice.trainings:
        errors_for(errors, training=training, batch_size=batch_size)
    delivery = Delivery(
        format=format,
        label_mode=None if labels is None else label_mode,
        dtype=dtype,
        value_range=value_range,
        data_format=data_format,
    )
    check_labels(labels, class_names)
    require_format(format)
    say = _say if verbose else _keep_quiet

    # Listing takes a moment and opening files may take an hour: what the listing tells is refused before that.
    found = find_videos(directory, follow_links=follow_links, labels="inferred" if isinstance(labels, str) else None)
    _check_parts(found.root, found.parts, choice)
    if isinstance(labels, str) and found.videos:
        names = found.class_names if class_names is None else class_names
        check_num_classes(delivery.label_mode, len(names), names)
    with track("indexing", enabled=verbose) as progress:
        whole = build_index(
            found,
            index=index,
            follow_links=follow_links,
            labels=labels,
            class_names=class_names,
            workers=workers,
            progress=progress,
        )
    parts = _parts(whole, choice, say)
    datasets = [
        VideoDataset(
            part,
            spec,
            batch_size=batch_size,
            training=training,
            seed=choice.seed,
            pad_last=pad_last,
            errors=errors,
            limits=limits,
            cache=chosen_cache,
            decoder=decoder,
        )
        for part, training in zip(parts, choice.trainings, strict=True)
    ]
    results = [deliver(dataset, delivery) for dataset in datasets]
    for dataset, name in zip(datasets, choice.subsets, strict=True):
        say(f"Using {len(dataset.index)} files for {name}.")
        _say_failures("left out, too short", dataset.dropped, say)
    for line in dict.fromkeys(delivery.describe(dataset) for dataset in datasets):
        say(line)
    for line in dict.fromkeys(line for dataset in datasets for line in dataset.explain_cache()):
        say(line)
    return tuple(results) if subset == "both" else results[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """Which part of the data is wanted, checked."""

    validation_split: float | None
    subset: Subset | None
    groups: Groups
    shuffle: bool
    seed: int

    def __post_init__(self) -> None:
        if self.subset is not None:
            check_choice("subset", self.subset, get_args(Subset))
        check_groups(self.groups)
        share = self.validation_split
        if share is not None and not (isinstance(share, int | float | np.number) and 0 < share < 1):
            raise ValueError(f"validation_split={share!r}: expected a number between 0 and 1")
        if share is not None and self.subset not in ("training", "validation", "both"):
            raise ValueError(
                f'validation_split={share!r} with subset={self.subset!r}: expected subset="training", "validation" or '
                f'"both"'
            )

    @property
    def subsets(self) -> tuple[str, ...]:
        """The wanted subsets, one a dataset."""
        return ("training", "validation") if self.subset == "both" else (self.subset or "training",)

    @property
    def trainings(self) -> tuple[bool, ...]:
        """For each wanted subset, whether it is for training: shuffled, and neither validation nor test."""
        return tuple(self.shuffle and subset == "training" for subset in self.subsets)


def _checked_seed(seed: int | None, *, shuffle: bool, validation_split: float | None) -> int:
    if seed is not None:
        return checked_seed(seed)
    if validation_split is not None and shuffle:
        raise ValueError(
            f"validation_split={validation_split!r} with shuffle=True needs a seed, so that training and validation "
            "are cut the same way each time: pass seed=1, say"
        )
    return secrets.randbits(31) if shuffle else 0


def _parts(whole: VideoIndex, choice: _Choice, say: Callable[[str], None]) -> list[VideoIndex]:
    """Cut the index into the wanted parts, and say how."""
    _say_index(whole, say)
    folders = whole.folder_parts()
    if folders:
        _check_parts(whole.root, folders, choice)  # a part of which no file can be used is none
        say(str(describe_split(whole, folders, groups=choice.groups)))
        return [folders[_PART_OF_SUBSET[subset]] for subset in choice.subsets]
    if choice.validation_split is None:
        return [whole]
    share = choice.validation_split
    cut = split_index(whole, fractions={"train": 1 - share, "val": share}, seed=choice.seed, groups=choice.groups)
    say(str(describe_split(whole, cut, seed=choice.seed, groups=choice.groups)))
    return [cut[_PART_OF_SUBSET[subset]] for subset in choice.subsets]


def _check_parts(root: str, folders: Collection[str], choice: _Choice) -> None:
    """Refuse a choice that the parts which the folders spell cannot serve."""
    if not folders:
        if choice.subset is not None and choice.validation_split is None:
            raise ValueError(
                f"subset={choice.subset!r} without validation_split: {root} has no train, val and test folders to "
                "choose from; pass validation_split=0.2, say"
            )
        return
    offered = [subset for subset, name in _PART_OF_SUBSET.items() if name in folders]
    if choice.validation_split is not None:
        raise ValueError(
            f"validation_split={choice.validation_split!r}: {root} is already split by its folders "
            f"({', '.join(folders)}); leave validation_split out and pass subset, one of {', '.join(offered)}"
        )
    if choice.subset is None:
        raise ValueError(
            f"{root} is split by its folders ({', '.join(folders)}): pass subset, one of {', '.join(offered)}"
            + (", both" if {"train", "val"} <= set(folders) else "")
        )
    missing = [subset for subset in choice.subsets if _PART_OF_SUBSET[subset] not in folders]
    if missing:
        raise LayoutError(
            f"subset={choice.subset!r} needs a folder for {' and '.join(missing)}",
            path=root,
            stage="split",
            expected=f"folders train and val (also training, valid, validation); found {', '.join(folders)}",
            remedy=f"pass one of {', '.join(offered)}, or move the classes up and pass validation_split",
        )


def _say_index(whole: VideoIndex, say: Callable[[str], None]) -> None:
    found = len(whole) + len(whole.failures)
    classes = f" belonging to {len(whole.class_names)} classes" if whole.class_names is not None else ""
    say(f"Found {found} files{classes}.")
    _say_failures("left out, cannot be used", whole.failures, say)


def _say_failures(title: str, failures: Sequence[Failure], say: Callable[[str], None]) -> None:
    if not failures:
        return
    say(f"{title}: {len(failures)} files")
    for failure in failures[:_NUM_LISTED]:
        say(f"  {failure.path}: {failure.reason}")
    if len(failures) > _NUM_LISTED:
        say(f"  ... and {len(failures) - _NUM_LISTED} more")


def _say(text: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)  # file names may hold what no terminal can show
    print(text, file=sys.stdout)  # noqa: T201  # verbose=True asks for it


def _keep_quiet(text: str) -> None:
    """Say nothing."""
