"""Importing clipfeed is free, and its public names are what they are said to be."""

from __future__ import annotations

import subprocess
import sys

import clipfeed


def test_importing_clipfeed_loads_no_framework_no_decoder_and_no_command_line() -> None:
    heavy = ["keras", "tensorflow", "torch", "jax", "av", "typer", "rich", "numpy"]
    code = f"import sys, clipfeed; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_loads() -> None:
    for name in clipfeed.__all__:
        assert getattr(clipfeed, name) is not None


def test_public_names_are_the_promised_ones() -> None:
    assert clipfeed.__all__ == sorted(
        [
            "AtRate", "Batch", "BenchOptions", "BudgetError", "Cache", "CacheError", "CacheWarning", "ClipSpec",
            "ClipfeedError", "DecodeError", "Dense", "EpochSync", "ErrorPolicy", "Failure",
            "Forecast", "LayoutError", "LeakError", "Limits", "MissingDependencyError", "ProbeError", "Segments",
            "StaleIndexError", "Stride", "Uniform", "VideoDataset", "VideoIndex", "VideoInfo", "VideoRecord",
            "__version__", "bench_directory", "build_index", "check_videos",
            "find_videos", "forecast_directory", "kfold_index", "learn", "load_video",
            "split_index", "testing", "to_keras", "to_numpy", "to_tensorflow", "transcode_directory",
            "video_dataset_from_directory",
        ]
    )  # fmt: skip


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(clipfeed, "video_dataset_from_nowhere")
