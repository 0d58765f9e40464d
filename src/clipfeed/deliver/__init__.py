"""The last step of a clip's journey: numbered batches as what a framework eats.

One adapter a framework, and the only place beside `learn` that knows one. Importing this package imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clipfeed.dataset import VideoDataset
from clipfeed.deliver._keras import to_keras
from clipfeed.deliver._numpy import to_numpy
from clipfeed.deliver._tensorflow import to_tensorflow
from clipfeed.deliver.frameworks import Format, require_format
from clipfeed.deliver.items import Delivery, check_num_classes

if TYPE_CHECKING:
    from clipfeed.deliver.epoch_sync import EpochSync

__all__ = [
    "Delivery",
    "EpochSync",
    "Format",
    "check_num_classes",
    "deliver",
    "require_format",
    "to_keras",
    "to_numpy",
    "to_tensorflow",
]

_ADAPTERS = {"tf": to_tensorflow, "keras": to_keras, "numpy": to_numpy}


def deliver(ds: VideoDataset, delivery: Delivery) -> Any:  # noqa: ANN401  # whatever the framework's type is
    """Give a dataset in the format that a delivery names.

    Raises:
        ValueError: If the labels cannot take the wanted form.
        MissingDependencyError: If the format's framework is not installed.
    """
    return _ADAPTERS[delivery.format](
        ds,
        label_mode=delivery.label_mode,
        dtype=delivery.dtype,
        value_range=delivery.value_range,
        data_format=delivery.data_format,
    )


def __getattr__(name: str) -> object:
    if name != "EpochSync":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_format("keras")
    from clipfeed.deliver.epoch_sync import EpochSync  # a subclass of Keras's: there when Keras is

    return EpochSync
