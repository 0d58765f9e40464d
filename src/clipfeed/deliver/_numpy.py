"""Batches as NumPy arrays, for loops of one's own: no framework needed.

Each `iter` is the next epoch. Leaving the loop early stops the decoding ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from clipfeed._types import DataFormat, LabelMode
from clipfeed.dataset import VideoDataset
from clipfeed.deliver.epochs import EpochCounter
from clipfeed.deliver.facts import DatasetFacts
from clipfeed.deliver.feed import open_epoch
from clipfeed.deliver.items import Delivery, Item, make_item, recipe_for
from clipfeed.transform import DType

__all__ = ["NumpyDataset", "to_numpy"]


class NumpyDataset(DatasetFacts):
    """A sized, re-iterable object of NumPy items; what `to_numpy` gives.

    Args:
        ds: Where batches come from.
        delivery: What an item looks like.

    Attributes:
        clipfeed: The `VideoDataset` under it.
        epochs: Counts the passes; `epochs.set_next(3)` makes the next pass epoch 3.
    """

    def __init__(self, ds: VideoDataset, delivery: Delivery) -> None:
        self.clipfeed = ds
        self.epochs = EpochCounter()
        self._delivery = delivery
        self._recipe = recipe_for(ds, delivery)

    def __len__(self) -> int:
        return len(self.clipfeed)

    def __iter__(self) -> Iterator[Item]:
        with closing(open_epoch(self.clipfeed, self.epochs.draw())) as batches:
            for batch in batches:
                yield make_item(batch, self._recipe)

    def __reduce__(self) -> tuple[Any, ...]:
        return NumpyDataset, (self.clipfeed, self._delivery)  # a copy begins at epoch 0

    def __repr__(self) -> str:
        return f"<NumpyDataset of {self.clipfeed!r}>"


def to_numpy(
    ds: VideoDataset,
    *,
    label_mode: LabelMode | None = "int",
    dtype: DType = "float32",
    value_range: tuple[float, float] | None = None,
    data_format: DataFormat | None = None,
) -> NumpyDataset:
    """Give a dataset as a sized, re-iterable object of NumPy arrays.

    Args:
        ds: The dataset. With `batch_size=None` items are single clips.
        label_mode: "int" int32 (B,); "categorical" float32 (B, num_classes); "binary" float32 (B, 1), two classes; None
            clips only. Vector labels are passed on as float32 (B, num_labels).
        dtype: "float32", "float16", or "uint8" for 0..255 untouched.
        value_range: (low, high) of float clips, `low + (x / 255) * (high - low)` in float32, then cast; None is (0, 1).
        data_format: "channels_last" (T, H, W, C), also for None, or "channels_first" (C, T, H, W).

    Returns:
        An object with `len` (batches in an epoch), `iter` (the next epoch's items), `class_names`, `file_paths`,
        `labels` and `clipfeed`. An item is `clips`, `(clips, labels)`, or `(clips, labels, weights)` where the dataset
        is weighted or padded.

    Raises:
        ValueError: For a value that is not allowed, or labels that cannot take the wanted form.

    Example:
        >>> for clips, labels in cf.to_numpy(ds):
        ...     print(clips.shape, clips.dtype, labels.shape)
        (8, 20, 64, 64, 3) float32 (8,)
    """
    delivery = Delivery(
        format="numpy", label_mode=label_mode, dtype=dtype, value_range=value_range, data_format=data_format
    )
    return NumpyDataset(ds, delivery)
