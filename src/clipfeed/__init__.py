"""clipfeed: a folder of videos in, batches for `model.fit` out.

    import clipfeed as cf

    train_ds, val_ds = cf.video_dataset_from_directory(
        "HMDB51", num_frames=20, image_size=(64, 64), batch_size=8,
        validation_split=0.2, subset="both", seed=1)
    model.fit(train_ds, validation_data=val_ds, epochs=30)

The files of this package are the steps of a clip's journey: find -> probe -> index -> split -> order -> sample ->
decode -> transform -> batch -> deliver. Names load when they are first used: importing clipfeed imports no framework
and no decoder.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clipfeed import learn as learn
    from clipfeed import testing as testing
    from clipfeed.api import video_dataset_from_directory as video_dataset_from_directory
    from clipfeed.bench import BenchOptions as BenchOptions
    from clipfeed.bench import bench_directory as bench_directory
    from clipfeed.cache import Cache as Cache
    from clipfeed.check import check_videos as check_videos
    from clipfeed.dataset import Limits as Limits
    from clipfeed.dataset import VideoDataset as VideoDataset
    from clipfeed.deliver import EpochSync as EpochSync
    from clipfeed.deliver import to_keras as to_keras
    from clipfeed.deliver import to_numpy as to_numpy
    from clipfeed.deliver import to_tensorflow as to_tensorflow
    from clipfeed.errors import BudgetError as BudgetError
    from clipfeed.errors import CacheError as CacheError
    from clipfeed.errors import CacheWarning as CacheWarning
    from clipfeed.errors import ClipfeedError as ClipfeedError
    from clipfeed.errors import DecodeError as DecodeError
    from clipfeed.errors import LayoutError as LayoutError
    from clipfeed.errors import LeakError as LeakError
    from clipfeed.errors import MissingDependencyError as MissingDependencyError
    from clipfeed.errors import ProbeError as ProbeError
    from clipfeed.errors import StaleIndexError as StaleIndexError
    from clipfeed.find import find_videos as find_videos
    from clipfeed.forecast import Forecast as Forecast
    from clipfeed.forecast import forecast_directory as forecast_directory
    from clipfeed.index import build_index as build_index
    from clipfeed.ledger import ErrorPolicy as ErrorPolicy
    from clipfeed.load import load_video as load_video
    from clipfeed.records import Batch as Batch
    from clipfeed.records import ClipSpec as ClipSpec
    from clipfeed.records import Failure as Failure
    from clipfeed.records import VideoIndex as VideoIndex
    from clipfeed.records import VideoInfo as VideoInfo
    from clipfeed.records import VideoRecord as VideoRecord
    from clipfeed.sample import AtRate as AtRate
    from clipfeed.sample import Dense as Dense
    from clipfeed.sample import Segments as Segments
    from clipfeed.sample import Stride as Stride
    from clipfeed.sample import Uniform as Uniform
    from clipfeed.split import kfold_index as kfold_index
    from clipfeed.split import split_index as split_index
    from clipfeed.transcode import transcode_directory as transcode_directory

_HOMES = {
    "clipfeed.api": ("video_dataset_from_directory",),
    "clipfeed.bench": ("BenchOptions", "bench_directory"),
    "clipfeed.cache": ("Cache",),
    "clipfeed.check": ("check_videos",),
    "clipfeed.dataset": ("Limits", "VideoDataset"),
    "clipfeed.deliver": ("EpochSync", "to_keras", "to_numpy", "to_tensorflow"),
    "clipfeed.errors": (
        "BudgetError",
        "CacheError",
        "CacheWarning",
        "ClipfeedError",
        "DecodeError",
        "LayoutError",
        "LeakError",
        "MissingDependencyError",
        "ProbeError",
        "StaleIndexError",
    ),
    "clipfeed.find": ("find_videos",),
    "clipfeed.forecast": ("Forecast", "forecast_directory"),
    "clipfeed.index": ("build_index",),
    "clipfeed.ledger": ("ErrorPolicy",),
    "clipfeed.load": ("load_video",),
    "clipfeed.records": ("Batch", "ClipSpec", "Failure", "VideoIndex", "VideoInfo", "VideoRecord"),
    "clipfeed.sample": ("AtRate", "Dense", "Segments", "Stride", "Uniform"),
    "clipfeed.split": ("kfold_index", "split_index"),
    "clipfeed.transcode": ("transcode_directory",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PARTS = ("learn", "testing")

__version__ = "0.1.0"

__all__ = sorted([*_HOME_OF, *_PARTS, "__version__"])


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name in _PARTS:
        return importlib.import_module(f"clipfeed.{name}")
    raise AttributeError(f"module 'clipfeed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
