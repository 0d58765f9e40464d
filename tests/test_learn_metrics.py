"""Figures of an evaluation, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from clipfeed.learn import measure

NAMES = ("a", "b", "c")


def one_hot(*columns: int, num_classes: int = 3) -> np.ndarray:
    return np.eye(num_classes, dtype=np.float32)[list(columns)]


def test_top1_is_the_share_whose_most_probable_class_is_right() -> None:
    metrics = measure(one_hot(0, 1, 1, 2), np.array([0, 1, 2, 2], np.int32), NAMES)
    assert metrics.top1 == 0.75
    assert metrics.num_videos == 4


def test_rare_classes_weigh_as_much_as_others_in_the_mean_class_accuracy() -> None:
    labels = np.array([0, 0, 0, 1], np.int32)
    metrics = measure(one_hot(0, 0, 0, 0), labels, NAMES)
    assert metrics.top1 == 0.75
    assert metrics.mean_class_accuracy == 0.5  # (3/3 + 0/1) / 2; class c has no videos
    assert metrics.per_class == (1.0, 0.0, None)


def test_confusion_has_labels_in_rows_and_predictions_in_columns() -> None:
    metrics = measure(one_hot(1, 1, 0), np.array([0, 1, 2], np.int32), NAMES)
    assert metrics.confusion.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]


def test_top5_counts_a_class_that_is_fifth_and_not_one_that_is_sixth() -> None:
    descending = np.array([[0.3, 0.25, 0.2, 0.1, 0.08, 0.07]] * 2, np.float32)
    metrics = measure(descending, np.array([4, 5], np.int32), tuple("abcdef"))
    assert metrics.top5 == 0.5
    assert metrics.top1 == 0.0


def test_ties_are_broken_in_the_same_way_for_top1_top5_and_confusion() -> None:
    equal = np.full((6, 6), 1 / 6, np.float32)
    metrics = measure(equal, np.arange(6, dtype=np.int32), tuple("abcdef"))
    assert metrics.top1 == pytest.approx(1 / 6)
    assert metrics.top5 == pytest.approx(5 / 6)
    assert metrics.confusion[:, 0].tolist() == [1] * 6


def test_with_fewer_than_five_classes_every_video_is_among_the_top_five() -> None:
    assert measure(one_hot(0, 0), np.array([1, 2], np.int32), NAMES).top5 == 1.0


def test_videos_without_prediction_are_counted_apart() -> None:
    metrics = measure(one_hot(0), np.array([0], np.int32), NAMES, num_missing=2)
    assert (metrics.num_videos, metrics.num_missing, metrics.top1) == (1, 2, 1.0)


def test_json_names_the_classes() -> None:
    document = measure(one_hot(0, 0), np.array([0, 1], np.int32), NAMES).to_json()
    assert document["per_class"] == {"a": 1.0, "b": 0.0, "c": None}
    assert document["confusion"] == {
        "class_names": ["a", "b", "c"],
        "rows_are_labels": [[1, 0, 0], [1, 0, 0], [0, 0, 0]],
    }


@pytest.mark.parametrize(
    ("probabilities", "labels"),
    [(one_hot(0, 1), [0]), (one_hot(0)[:, :2], [0]), (one_hot(), []), (one_hot(0), [3]), (one_hot(0), [-1])],
)
def test_sizes_that_do_not_fit_together_are_refused(probabilities: np.ndarray, labels: list[int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        measure(probabilities, np.array(labels, np.int32), NAMES)
