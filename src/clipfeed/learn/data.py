"""Which videos a run trains on and is judged by: parts made once, written down, and found again.

Parts come from a folder, an index or the caller; `split.json` keeps them by key, so that files added later change
nothing and files that are gone or changed are noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from clipfeed._types import StrPath
from clipfeed.errors import LayoutError, StaleIndexError
from clipfeed.index import build_index
from clipfeed.learn.config import RunConfig, SplitSource, TrainOptions
from clipfeed.learn.runs import PartDigest, RunFolder
from clipfeed.records import VideoIndex, join_key
from clipfeed.split import SplitReport, describe_split, split_index

__all__ = ["Data", "Parts", "digest_part", "find_part", "make_parts", "part_columns"]

Data: TypeAlias = StrPath | VideoIndex | Mapping[str, VideoIndex]
"""A folder of videos, an index of one, or parts of one by name ("train", "val")."""

_NUM_LISTED = 10
_OPTIONAL_COLUMNS = ("starts", "ends", "weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a data set.

    Attributes:
        by_name: The parts, at least "train" and "val".
        source: Who cut them.
        class_names: Text of each label in label order.
        report: Sizes and leak rates; None where the caller has cut them.
    """

    by_name: Mapping[str, VideoIndex]
    source: SplitSource
    class_names: tuple[str, ...]
    report: SplitReport | None

    @property
    def root(self) -> str:
        """The data set's folder."""
        return self.by_name["train"].root


def make_parts(
    data: Data,
    options: TrainOptions,
    *,
    index: StrPath | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Parts:
    """Cut data into parts as the options say, unless its folders or the caller have done so.

    Raises:
        LayoutError: If a part is missing or empty, or there are no classes to learn.
        ValueError: If the labels are no class numbers.
    """
    if isinstance(data, Mapping):
        _check_present(data)
        return Parts(by_name=dict(data), source="given", class_names=_class_names(data), report=None)
    whole = _whole(data, options, index=index, progress=progress)
    folders = whole.folder_parts()
    fractions = {"train": 1 - options.validation_split, "val": options.validation_split}
    by_name = folders or split_index(whole, fractions=fractions, seed=options.seed, groups=options.groups)
    _check_present(by_name)
    return Parts(
        by_name=by_name,
        source="folders" if folders else "split",
        class_names=_class_names(by_name),
        report=describe_split(whole, by_name, seed=None if folders else options.seed, groups=options.groups),
    )


def _whole(
    data: StrPath | VideoIndex,
    options: TrainOptions,
    *,
    index: StrPath | None,
    progress: Callable[[int, int], None] | None,
) -> VideoIndex:
    if isinstance(data, VideoIndex):
        return data
    return build_index(data, index=index, follow_links=options.follow_links, progress=progress)


def _check_present(by_name: Mapping[str, VideoIndex]) -> None:
    for name in ("train", "val"):
        if name not in by_name or not len(by_name[name]):
            raise LayoutError(
                f"there is no video for {name!r}",
                path=next(iter(by_name.values())).root if by_name else None,
                stage="learn",
                expected="at least one video, and videos of at least two sources for a split",
                remedy="add videos from other sources, or another validation_split, or groups=None (which leaks)",
            )


def _class_names(by_name: Mapping[str, VideoIndex]) -> tuple[str, ...]:
    names = {part.class_names for part in by_name.values()}
    roots = {part.root for part in by_name.values()}
    if len(names) != 1 or len(roots) != 1:
        raise ValueError(
            f"parts of {sorted(roots)} with {len(names)} lists of classes: expected one folder and one list"
        )
    labels = [part.labels for part in by_name.values()]
    class_names = names.pop()
    if class_names is None or any(part is None or part.ndim != 1 for part in labels):
        raise ValueError("training needs one class a video: expected class folders, or labels with class names")
    if len(class_names) < 2:
        raise LayoutError(
            f"only one class: {', '.join(class_names)}",
            path=roots.pop(),
            stage="learn",
            expected="at least two class folders, or there is nothing to tell apart",
            remedy="pass the folder that holds the class folders",
        )
    return class_names


# Written down


def part_columns(part: VideoIndex) -> dict[str, list[Any]]:
    """Give what `split.json` keeps of a part: one entry a row in each column."""
    labels = part.labels
    columns: dict[str, list[Any]] = {
        "keys": part.keys,
        "size_bytes": part.columns.size_bytes[part.rows].tolist(),
        "labels": [] if labels is None else labels.tolist(),
    }
    for name in _OPTIONAL_COLUMNS:
        values = getattr(part, name)
        if values is not None:
            columns[name] = values.tolist()
    return columns


def digest_part(columns: Mapping[str, Sequence[Any]]) -> PartDigest:
    """Give a part in short.

    Args:
        columns: As `part_columns` gives them.
    """
    digest = hashlib.sha256()
    for name in sorted(columns):
        digest.update(f"{name}\n".encode())
        for value in columns[name]:
            digest.update(f"{value}\0".encode("utf-8", "surrogateescape"))
    return PartDigest(num_videos=len(columns["keys"]), sha256=digest.hexdigest())


# Found again


def find_part(
    folder: RunFolder,
    config: RunConfig,
    name: str,
    *,
    data: StrPath | VideoIndex | None = None,
    may_have_failed: bool = False,
) -> VideoIndex:
    """Give the videos that a run's part was made of.

    Args:
        folder: The run.
        config: Its config.
        name: Name of the part.
        data: The folder of the videos where it is no longer where it was, or an index of it; None: where it was.
        may_have_failed: Whether the part may be without the videos that the index lists as failures, as it is after
            training met some that could not be delivered.

    Raises:
        ValueError: If the run has no such part.
        LayoutError: If a video is gone.
        StaleIndexError: If a video's size changed.
    """
    split = folder.read_split()
    if name not in split:
        raise ValueError(f"part={name!r}: expected one of {', '.join(map(repr, split))}")
    columns: Mapping[str, Sequence[Any]] = split[name]
    whole = (
        data
        if isinstance(data, VideoIndex)
        else build_index(
            config.directory if data is None else data,
            index=config.index,
            follow_links=config.options.follow_links,
            labels=None,
        )
    )
    position_of = {key: position for position, key in enumerate(whole.keys)}
    if may_have_failed:
        columns = _without_failures(columns, whole)
    missing = [key for key in columns["keys"] if key not in position_of]
    if missing:
        raise LayoutError(
            f"{len(missing)} of the {len(columns['keys'])} videos of part {name!r} are not here or cannot be used",
            path=whole.root,
            stage="learn",
            expected=_listed(missing),
            remedy="put them back, or pass the folder's new place",
        )
    part = whole.select([position_of[key] for key in columns["keys"]], name)
    _check_sizes(part, columns["size_bytes"])
    optional = {column: np.array(columns[column]) for column in _OPTIONAL_COLUMNS if column in columns}
    return replace(
        part,
        class_names=folder.read_class_names(),
        given_labels=np.array(columns["labels"], np.int32),
        starts=optional.get("starts"),
        ends=optional.get("ends"),
        weights=None if "weights" not in optional else optional["weights"].astype(np.float32),
    )


def _without_failures(columns: Mapping[str, Sequence[Any]], whole: VideoIndex) -> dict[str, list[Any]]:
    """Leave out the rows of videos that the index lists as failures."""
    failed = {failure.path for failure in whole.failures}
    kept = [place for place, key in enumerate(columns["keys"]) if join_key(whole.root, key) not in failed]
    return {name: [values[place] for place in kept] for name, values in columns.items()}


def _check_sizes(part: VideoIndex, sizes: Sequence[int]) -> None:
    now = part.columns.size_bytes[part.rows]
    changed = [int(place) for place in np.flatnonzero(now != np.array(sizes))]
    if changed:
        raise StaleIndexError(
            f"{len(changed)} of the {len(part)} videos of part {part.name!r} changed since training began",
            path=part.root,
            stage="learn",
            expected=_listed([f"{part.keys[place]}: {sizes[place]} bytes then, {now[place]} now" for place in changed]),
            remedy="restore them, or train anew",
        )


def _listed(lines: Sequence[str]) -> str:
    more = [f"... and {len(lines) - _NUM_LISTED} more"] if len(lines) > _NUM_LISTED else []
    return "\n".join([*lines[:_NUM_LISTED], *more])
