"""How good predictions are: plain NumPy over probabilities and labels, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Metrics", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Figures of one evaluation, clip level: one clip, one prediction a video.

    Attributes:
        num_videos: Videos that have a prediction.
        num_missing: Videos that have none because they could not be delivered; they are in no other figure.
        top1: Share of the videos whose most probable class is right, 0..1.
        top5: Share of the videos whose class is among the five most probable, 0..1.
        mean_class_accuracy: Mean over the classes that have videos of the share that is right.
        class_names: Text of each label in label order.
        per_class: Share that is right of each class's videos; None for a class without videos.
        confusion: (num_classes, num_classes) int64: videos of the row's class that were taken for the column's.
    """

    num_videos: int
    num_missing: int = 0
    top1: float
    top5: float
    mean_class_accuracy: float
    class_names: tuple[str, ...]
    per_class: tuple[float | None, ...]
    confusion: NDArray[np.int64] = field(compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Give the figures as JSON knows them."""
        return {
            "num_videos": self.num_videos,
            "num_missing": self.num_missing,
            "top1": self.top1,
            "top5": self.top5,
            "mean_class_accuracy": self.mean_class_accuracy,
            "per_class": dict(zip(self.class_names, self.per_class, strict=True)),
            "confusion": {"class_names": list(self.class_names), "rows_are_labels": self.confusion.tolist()},
        }


def measure(
    probabilities: NDArray[np.float32],
    labels: NDArray[np.int32],
    class_names: Sequence[str],
    *,
    num_missing: int = 0,
) -> Metrics:
    """Compare predictions with labels.

    Args:
        probabilities: (n, num_classes), n at least 1, one row a video.
        labels: (n,) in [0, num_classes).
        class_names: Text of each label in label order.
        num_missing: Videos without a prediction.

    Returns:
        The figures, shares in 0..1.

    Raises:
        ValueError: If the sizes do not fit together, or there is nothing to compare.

    Example:
        >>> measure(np.array([[.8, .2], [.6, .4]], np.float32), np.array([0, 1], np.int32), ("a", "b")).top1
        0.5
    """
    num_classes = len(class_names)
    if probabilities.shape != (len(labels), num_classes) or not len(labels):
        raise ValueError(
            f"probabilities of shape {probabilities.shape} for {len(labels)} labels and {num_classes} classes: "
            "expected one row a video, at least one, and one column a class"
        )
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(f"labels from {labels.min()} to {labels.max()}: expected 0 to {num_classes - 1}")
    confusion = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(confusion, (labels, probabilities.argmax(axis=1)), 1)
    right, counts = confusion.diagonal(), confusion.sum(axis=1)
    per_class = tuple(int(hits) / int(count) if count else None for hits, count in zip(right, counts, strict=True))
    return Metrics(
        num_videos=len(labels),
        num_missing=num_missing,
        top1=float(np.mean(_ranks(probabilities, labels) < 1)),
        top5=float(np.mean(_ranks(probabilities, labels) < 5)),
        mean_class_accuracy=float(np.mean([share for share in per_class if share is not None])),
        class_names=tuple(class_names),
        per_class=per_class,
        confusion=confusion,
    )


def _ranks(probabilities: NDArray[np.float32], labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """(n,) number of classes that come before the right one; of equals the first comes first, as in argmax."""
    own = np.take_along_axis(probabilities, labels[:, np.newaxis].astype(np.int64), axis=1)
    is_earlier = np.arange(probabilities.shape[1]) < labels[:, np.newaxis]
    before: NDArray[np.int64] = ((probabilities > own) | ((probabilities == own) & is_earlier)).sum(axis=1)
    return before
