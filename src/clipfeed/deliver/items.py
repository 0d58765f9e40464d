"""What a batch becomes on its last step: clips as numbers of the wanted kind, labels in the wanted form.

A `Delivery` is the user's choice, checked before a file is read; a `Recipe` is that choice applied to one dataset.
NumPy and Keras use `make_item` whole; TensorFlow does the arithmetic on clips in its own graph, bit for bit the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import DataFormat, FrameArray, LabelMode
from clipfeed.dataset import VideoDataset
from clipfeed.deliver.frameworks import FORMATS, Format, default_data_format
from clipfeed.records import Batch, check_choice
from clipfeed.transform import DType, check_value_range, to_value_range

__all__ = ["Delivery", "Item", "Recipe", "check_num_classes", "make_clips", "make_item", "make_labels", "recipe_for"]

LABEL_MODES: tuple[LabelMode | None, ...] = ("int", "categorical", "binary", None)
DATA_FORMATS: tuple[DataFormat | None, ...] = ("channels_last", "channels_first", None)

LabelArray: TypeAlias = NDArray[np.int32] | NDArray[np.float32]
Item: TypeAlias = NDArray[Any] | tuple[NDArray[Any], ...]
"""`clips`, `(clips, labels)` or `(clips, labels, weights)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How a dataset is handed to a framework: the user's choice, checked when it is made.

    Args:
        format: "tf", "keras" or "numpy".
        label_mode: "int" int32 (B,); "categorical" float32 (B, num_classes); "binary" float32 (B, 1); None clips only.
        dtype: "float32", "float16", or "uint8" for 0..255 untouched.
        value_range: (low, high) of float clips; None is (0, 1).
        data_format: "channels_last" (T, H, W, C) or "channels_first" (C, T, H, W); None is Keras's configuration for
            "tf" and "keras", and channels last for "numpy".

    Raises:
        ValueError: For a value that no delivery can have; names the value and what is allowed.
    """

    format: Format = "numpy"
    label_mode: LabelMode | None = "int"
    dtype: DType = "float32"
    value_range: tuple[float, float] | None = None
    data_format: DataFormat | None = None

    def __post_init__(self) -> None:
        check_choice("format", self.format, FORMATS)
        check_choice("label_mode", self.label_mode, LABEL_MODES)
        check_choice("data_format", self.data_format, DATA_FORMATS)
        check_value_range(self.dtype, self.value_range)

    def describe(self, ds: VideoDataset) -> str:
        """Say in one line what kind of clips a model will see."""
        recipe = recipe_for(ds, self)
        axes = ", ".join(str(side) for side in (*([] if recipe.is_single else [ds.batch_size]), *recipe.clip_shape))
        if recipe.value_range is None:
            return f"clips: {recipe.dtype} ({axes}) in 0..255, untouched"
        low, high = recipe.value_range
        return f"clips: {recipe.dtype} ({axes}) in {low:g}..{high:g}, no Rescaling layer needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A delivery applied to one dataset: nothing is left open.

    Attributes:
        dtype: Kind of the clips' numbers.
        value_range: (low, high) of the clips' numbers; None for uint8 untouched.
        is_channels_first: True for (C, T, H, W).
        label_form: "int", "categorical", "binary", "vector" (several labels a clip, passed on as they are), or None.
        num_classes: Columns of categorical labels, or of vectors; 0 where labels have none.
        is_weighted: True where items are (clips, labels, weights).
        is_single: True where items are single clips, without the first axis.
        num_rows: Rows that every batch has; None where the number differs.
        clip_shape: Shape of one clip as delivered, without the first axis.
    """

    dtype: DType
    value_range: tuple[float, float] | None
    is_channels_first: bool
    label_form: Literal["int", "categorical", "binary", "vector"] | None
    num_classes: int
    is_weighted: bool
    is_single: bool
    num_rows: int | None
    clip_shape: tuple[int, ...]


def recipe_for(ds: VideoDataset, delivery: Delivery) -> Recipe:
    """Apply a delivery to a dataset.

    Args:
        ds: The dataset, asked for its labels, spec, batch size and weights; no file is read.
        delivery: The user's choice.

    Raises:
        ValueError: If the dataset's labels cannot take the wanted form.
    """
    form, num_classes = _label_form(ds, delivery.label_mode)
    data_format = delivery.data_format or default_data_format(delivery.format)
    is_channels_first = data_format == "channels_first"
    num_frames, height, width, num_channels = ds.spec.shape
    return Recipe(
        dtype=delivery.dtype,
        value_range=check_value_range(delivery.dtype, delivery.value_range),
        is_channels_first=is_channels_first,
        label_form=form,
        num_classes=num_classes,
        is_weighted=ds.is_weighted and form is not None,
        is_single=ds.batch_size is None,
        num_rows=ds.batch_size if ds.pad_last else None,
        clip_shape=(num_channels, num_frames, height, width) if is_channels_first else ds.spec.shape,
    )


def make_item(batch: Batch, recipe: Recipe) -> Item:
    """Give a batch as `fit` eats it.

    Returns:
        `clips`, `(clips, labels)` or `(clips, labels, weights)`; clips (B, *recipe.clip_shape) of `recipe.dtype`,
        weights (B,) float32; without the first axis for single clips.
    """
    parts: list[NDArray[Any]] = [make_clips(batch.clips, recipe)]
    labels = make_labels(batch, recipe)
    if labels is not None:
        parts.append(labels)
    if recipe.is_weighted:
        parts.append(batch.weights)
    if recipe.is_single:
        parts = [part[0] for part in parts]
    return tuple(parts) if len(parts) > 1 else parts[0]


def make_clips(clips: FrameArray, recipe: Recipe) -> NDArray[Any]:
    """Give clips their axes and numbers.

    Args:
        clips: (B, T, H, W, C) uint8 0..255.
        recipe: The wanted axes, kind and range.

    Returns:
        (B, *recipe.clip_shape) of `recipe.dtype`, C-contiguous.
    """
    # Axes first, while a pixel is one byte.
    turned = np.ascontiguousarray(np.moveaxis(clips, -1, 1)) if recipe.is_channels_first else clips
    return to_value_range(turned, recipe.dtype, recipe.value_range)


def make_labels(batch: Batch, recipe: Recipe) -> LabelArray | None:
    """Give labels their form.

    Returns:
        (B,) int32, (B, num_classes) float32, (B, 1) float32 or None, as `recipe.label_form` says.
    """
    labels = batch.labels
    if recipe.label_form is None or labels is None:
        return None
    if recipe.label_form == "categorical":
        one_hot: NDArray[np.float32] = (labels[:, np.newaxis] == np.arange(recipe.num_classes)).astype(np.float32)
        return one_hot
    if recipe.label_form == "binary":
        return labels.astype(np.float32).reshape(-1, 1)
    return labels


def _label_form(
    ds: VideoDataset, label_mode: LabelMode | None
) -> tuple[Literal["int", "categorical", "binary", "vector"] | None, int]:
    labels = ds.index.labels
    if label_mode is None or labels is None:
        return None, 0
    if labels.ndim == 2:
        if label_mode == "binary" and labels.shape[1] != 1:
            raise ValueError(
                f'label_mode="binary" with {labels.shape[1]} labels a clip: expected one label a clip, of two classes'
            )
        return "vector", labels.shape[1]
    num_classes = _num_classes(ds.class_names, labels)
    check_num_classes(label_mode, num_classes, ds.class_names)
    return label_mode, num_classes


def check_num_classes(label_mode: LabelMode | None, num_classes: int, class_names: Sequence[str] | None) -> None:
    """Refuse binary labels of anything but two classes.

    Raises:
        ValueError: Says how many there are, and which.
    """
    if label_mode == "binary" and num_classes != 2:
        named = f": {', '.join(class_names)}" if class_names and num_classes <= 10 else ""
        raise ValueError(f'label_mode="binary" needs exactly 2 classes, got {num_classes}{named}')


def _num_classes(class_names: Sequence[str] | None, labels: LabelArray) -> int:
    return len(class_names) if class_names is not None else int(labels.max(initial=-1)) + 1
