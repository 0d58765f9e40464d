"""What a split looks like, ready to be printed or written as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from clipfeed._types import IndexArray
from clipfeed.records import VideoIndex
from clipfeed.split._leaks import mean_leak_rate
from clipfeed.split._parts import TRAIN_NAMES, Groups, group_texts
from clipfeed.split._table import ClassRows

MAX_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """One part of a split.

    Attributes:
        name: Its name.
        num_videos: Videos in it.
        num_groups: Groups in it.
        share: Its share of the videos of the whole index, 0..1.
        class_shares: Smallest and largest share of a class that stands in this part, 0..1.
        absent_classes: Classes that have no video here.
        leak_rate: Share of its videos whose group has a video in the training part; None for that part itself.
        naive_leak_rate: The same for a random split by file of the same sizes, on average; None for that part itself.
    """

    name: str
    num_videos: int
    num_groups: int
    share: float
    class_shares: tuple[float, float]
    absent_classes: tuple[str, ...]
    leak_rate: float | None = None
    naive_leak_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """A split, part by part; `str()` gives the lines to print.

    Attributes:
        seed: The seed it was made with; None for parts that were found as folders.
        num_videos: Videos of the whole index, in a part or not.
        num_groups: Groups of the whole index.
        train: Name of the part that leaks are counted against: "train", or else the largest.
        parts: One report a part, in the order of the split.
    """

    seed: int | None
    num_videos: int
    num_groups: int
    train: str
    parts: tuple[PartReport, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def as_dict(self) -> dict[str, object]:
        """Give the same facts as plain dicts, lists, texts and numbers, for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Give the lines to print."""
        seed = "" if self.seed is None else f" with seed {self.seed}"
        kind = f"in {self.num_groups} groups"
        if self.num_groups == self.num_videos:
            kind = "each a group of its own: neither file names nor groups= say what belongs together"
        others = [part for part in self.parts if part.leak_rate is not None]
        return [
            f"split{seed}: {self.num_videos} videos, {kind}",
            *(_size_line(part) for part in self.parts),
            *(_leak_line(part, self.train) for part in others),
            *(_absence_line(part) for part in self.parts if part.absent_classes),
        ]


def _size_line(part: PartReport) -> str:
    low, high = part.class_shares
    return (
        f"  {part.name}: {part.num_videos} videos ({part.share:.1%}) in {part.num_groups} groups, "
        f"{low:.0%} to {high:.0%} of each class"
    )


def _leak_line(part: PartReport, train: str) -> str:
    return (
        f"  leak: {part.leak_rate:.1%} of the videos of {part.name} have one of their group in {train}; "
        f"in a random split by file {part.naive_leak_rate:.1%}"
    )


def _absence_line(part: PartReport) -> str:
    shown = ", ".join(repr(name) for name in part.absent_classes[:MAX_NAMES])
    more = len(part.absent_classes) - MAX_NAMES
    return f"  not in {part.name}: {shown}" + (f" and {more} more classes" if more > 0 else "")


def describe_split(
    index: VideoIndex, parts: Mapping[str, VideoIndex], *, seed: int | None = None, groups: Groups = "auto"
) -> SplitReport:
    """Describe named parts: sizes, classes that are missing somewhere, leak rate and that of the naive split.

    Args:
        index: The whole that the parts were cut from.
        parts: Parts of it, as `split_index` gives them, or as folders on disk spell them.
        seed: The seed of the split; None where no seed was used.
        groups: What belongs together, as for `split_index`. None counts leaks by the groups of the index: they are
            what a random split by file pays.
    """
    texts = group_texts(index, "auto" if groups is None else groups)
    names: dict[str, int] = {}
    numbers = np.full(len(index.columns), -1, np.int64)
    numbers[index.rows] = [names.setdefault(text, len(names)) for text in texts]
    group_of = {name: numbers[np.unique(part.rows)] for name, part in parts.items()}
    named = [name for name in parts if name.lower() in TRAIN_NAMES]
    train = named[0] if named else max(parts, key=lambda name: len(group_of[name]))
    all_groups, class_sizes = numbers[np.unique(index.rows)], _class_sizes(index)
    naive = mean_leak_rate(np.bincount(all_groups).tolist(), num_train=len(group_of[train]))
    described = []
    for name, part in parts.items():
        described.append(_describe_part(name, group_of[name], _class_sizes(part), class_sizes, len(all_groups)))
        if name != train:
            leaking = np.isin(group_of[name], group_of[train])
            rate = float(leaking.mean()) if len(leaking) else 0.0
            described[-1] = replace(described[-1], leak_rate=rate, naive_leak_rate=naive)
    return SplitReport(
        seed=seed, num_videos=len(all_groups), num_groups=len(names), train=train, parts=tuple(described)
    )


def _describe_part(
    name: str, groups: IndexArray, sizes: Mapping[str, int], whole_sizes: Mapping[str, int], num_videos: int
) -> PartReport:
    shares = [sizes.get(label, 0) / size for label, size in whole_sizes.items()]
    return PartReport(
        name=name,
        num_videos=len(groups),
        num_groups=len(np.unique(groups)),
        share=len(groups) / max(1, num_videos),
        class_shares=(min(shares, default=0.0), max(shares, default=0.0)),
        absent_classes=tuple(label for label in whole_sizes if label not in sizes),
    )


def _class_sizes(part: VideoIndex) -> dict[str, int]:
    classes = ClassRows.of(part)
    counts = np.bincount(classes.codes, minlength=len(classes.names))
    return {name: int(count) for name, count in zip(classes.names, counts, strict=True) if count}
