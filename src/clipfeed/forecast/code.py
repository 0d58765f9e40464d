"""The lines to paste: the facade's call for the folder as it is, with what was asked for, and a `fit`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from clipfeed.api import video_dataset_from_directory
from clipfeed.forecast.report import CacheAdvice
from clipfeed.learn.models import ModelName
from clipfeed.sample import AtRate, Dense, Segments, Stride, Uniform

__all__ = ["cache_argument", "lines_to_paste"]

_ALWAYS_SHOWN = ("num_frames", "image_size", "batch_size")
_POLICIES = (Uniform, Stride, Segments, Dense, AtRate)
_COLUMNS = 100


def cache_argument(advice: CacheAdvice | None) -> str | None:
    """Give the `cache` argument of an advice as it is written; None for none."""
    return {"raw": '"disk"', "jpeg": 'cf.Cache(codec="jpeg")', None: None}[advice]


def lines_to_paste(
    directory: str,
    arguments: Mapping[str, Any],
    *,
    cache: CacheAdvice | None,
    model: ModelName,
    clip_shape: tuple[int, int, int, int],
    num_classes: int,
) -> str:
    """Write the code.

    Args:
        directory: The folder as it was given.
        arguments: Arguments of the facade by name; those that are its defaults are left out.
        cache: What fits on the disk.
        model: Name of the model.
        clip_shape: (T, H, W, C).
        num_classes: Classes of the folder.
    """
    defaults = {name: each.default for name, each in inspect.signature(video_dataset_from_directory).parameters.items()}
    written = [_written(directory)] + [
        f"{name}={_written(value)}"
        for name, value in arguments.items()
        if name in _ALWAYS_SHOWN or value != defaults[name]
    ]
    written += [f"cache={argument}" for argument in [cache_argument(cache)] if argument is not None]
    has_two = arguments["subset"] == "both"
    lines = [
        "import clipfeed as cf",
        "",
        f"{'train_ds, val_ds' if has_two else 'train_ds'} = cf.video_dataset_from_directory(",
        *_broken(written),
        f'model = cf.learn.build_model("{model}", {clip_shape}, num_classes={num_classes})  # or a model of your own',
        'model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])',
        f"model.fit(train_ds, {'validation_data=val_ds, ' if has_two else ''}epochs=30)",
    ]
    return "\n".join(lines)


def _written(value: object) -> str:
    """Write a value as code; a policy or a rule of the user's own is their variable."""
    if isinstance(value, _POLICIES):
        return f"cf.{value!r}"
    if isinstance(value, str):
        text = repr(value)
        return text if '"' in text else f'"{text[1:-1]}"'
    return "policy" if hasattr(value, "choose") else "groups" if callable(value) else repr(value)


def _broken(arguments: list[str]) -> list[str]:
    """Break the arguments of a call into indented lines."""
    lines = [""]
    for argument in arguments:
        if lines[-1] and len(lines[-1]) + len(argument) > _COLUMNS:
            lines.append("")
        lines[-1] += f"{argument}, "
    return [f"    {line.rstrip()}" for line in lines[:-1]] + [f"    {lines[-1].removesuffix(', ')})"]
