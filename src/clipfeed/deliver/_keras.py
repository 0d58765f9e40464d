"""A dataset for Keras on any backend, without TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clipfeed._types import DataFormat, LabelMode
from clipfeed.dataset import VideoDataset
from clipfeed.deliver.frameworks import import_keras
from clipfeed.deliver.items import Delivery, recipe_for
from clipfeed.transform import DType

if TYPE_CHECKING:
    from clipfeed.deliver._py_dataset import ClipPyDataset

__all__ = ["to_keras"]


def to_keras(
    ds: VideoDataset,
    *,
    label_mode: LabelMode | None = "int",
    dtype: DType = "float32",
    value_range: tuple[float, float] | None = None,
    data_format: DataFormat | None = None,
) -> ClipPyDataset:
    """Give a dataset as a `keras.utils.PyDataset`, for Keras on TensorFlow, JAX or PyTorch.

    In training `fit` receives every batch once an epoch, in the dataset's own order, although Keras permutes their
    numbers (`fit(shuffle=True)` is its default): numbers meet batches in order of arrival. In evaluation item i is
    batch i; pass `shuffle=False` if you give such a dataset to `fit`, for only batches asked for in order are decoded
    ahead. Each pass is the next epoch; `cf.EpochSync()` sets the exact number where Keras starts at another one.

    On the TensorFlow backend Keras puts a queue of its own behind this dataset, of float batches and of a length that
    it chooses; there `cf.to_tensorflow` keeps to the memory budget.

    Args:
        ds: The dataset. With `batch_size=None` items are single clips.
        label_mode: "int" int32 (B,); "categorical" float32 (B, num_classes); "binary" float32 (B, 1), two classes; None
            clips only. Vector labels are passed on as float32 (B, num_labels).
        dtype: "float32", "float16", or "uint8" for 0..255 untouched.
        value_range: (low, high) of float clips, `low + (x / 255) * (high - low)` in float32, then cast; None is (0, 1).
        data_format: "channels_last" (T, H, W, C) or "channels_first" (C, T, H, W); None is Keras's configuration.

    Returns:
        A PyDataset that also has `class_names`, `file_paths`, `labels` and `clipfeed`. An item is `clips`,
        `(clips, labels)`, or `(clips, labels, weights)` where the dataset is weighted or padded.

    Raises:
        ValueError: For a value that is not allowed, or labels that cannot take the wanted form.
        MissingDependencyError: If Keras or its backend is not installed.

    Example:
        >>> model.fit(cf.to_keras(train), validation_data=cf.to_keras(val), epochs=30)
    """
    delivery = Delivery(
        format="keras", label_mode=label_mode, dtype=dtype, value_range=value_range, data_format=data_format
    )
    import_keras()
    from clipfeed.deliver._py_dataset import ClipPyDataset  # a subclass of Keras's: there when Keras is

    return ClipPyDataset(ds, recipe_for(ds, delivery))
