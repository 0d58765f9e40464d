"""Judge a trained model: one prediction a video, in a fixed order, side by side with its path and label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import DataFormat, FrameArray, StrPath
from clipfeed.dataset import Limits, VideoDataset
from clipfeed.deliver.frameworks import import_keras
from clipfeed.errors import LayoutError
from clipfeed.index import build_index
from clipfeed.learn.data import find_part
from clipfeed.learn.metrics import Metrics, measure
from clipfeed.learn.runs import Checkpoint, RunFolder, open_run
from clipfeed.ledger import ErrorPolicy
from clipfeed.records import Failure, VideoIndex, check_choice, checked_path
from clipfeed.transform import to_value_range

__all__ = ["Evaluation", "evaluate", "judge", "load_model", "probabilities_of", "write_evaluation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Predictions beside what they should be.

    Attributes:
        checkpoint: Which model: "last", or "best", which was chosen by its validation accuracy, so that this very
            figure flatters it.
        class_names: Text of each label in label order.
        paths: One path a video, in the order of the index.
        labels: (n,) int32, what each video is.
        probabilities: (n, num_classes) float32, each row sums to 1.
        failures: Videos that could not be delivered, and so have no row.
        metrics: The figures.
    """

    checkpoint: Checkpoint
    class_names: tuple[str, ...]
    paths: tuple[str, ...]
    labels: NDArray[np.int32] = field(compare=False, repr=False)
    probabilities: NDArray[np.float32] = field(compare=False, repr=False)
    failures: tuple[Failure, ...]
    metrics: Metrics

    @property
    def predicted(self) -> NDArray[np.int64]:
        """(n,) the most probable class of each video."""
        best: NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return best


def evaluate(
    run: StrPath,
    *,
    data: StrPath | VideoIndex | None = None,
    part: str | None = None,
    checkpoint: Checkpoint = "last",
    errors: Literal["auto"] | ErrorPolicy = "auto",
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Judge a run's model on its validation part, another part, or other videos.

    Args:
        run: The run folder.
        data: A folder or an index of other videos, laid out in the run's classes (or some of them). Together with
            `part`: the run's own videos where they are no longer where they were.
        part: "val", "train" or another part of the run; None: "val", or with `data` all videos there.
        checkpoint: "last", or "best" by validation accuracy.
        errors: "auto" raises at a video that cannot be delivered; `cf.ErrorPolicy(on_error="skip")` lists it as
            missing.
        limits: Memory, threads and time.
        progress: Called with (videos done, videos in all).

    Raises:
        LayoutError: If `run` is no run folder, or videos are gone.
        ValueError: For a part that the run does not have, or a class that it does not know.
        DecodeError: If a video cannot be delivered.
        MissingDependencyError: If Keras or its backend is not installed.

    Example:
        >>> cf.learn.evaluate("runs/first").metrics.mean_class_accuracy
    """
    check_choice("checkpoint", checkpoint, ("last", "best"))
    import_keras()
    folder = open_run(run)
    config, class_names = folder.read_config(), folder.read_class_names()
    if data is None or part is not None:
        videos = find_part(folder, config, part or "val", data=data)
    else:
        videos = _in_classes(data, class_names, index=config.index)
    options = config.options
    ds = VideoDataset(
        videos, config.clips, batch_size=options.batch_size, training=False, seed=0, errors=errors, limits=limits
    )
    return judge(
        load_model(folder, checkpoint),
        ds,
        class_names,
        checkpoint=checkpoint,
        data_format=options.data_format,
        progress=progress,
    )


def judge(
    model: Any,  # noqa: ANN401  # a keras.Model
    ds: VideoDataset,
    class_names: Sequence[str],
    *,
    checkpoint: Checkpoint,
    data_format: DataFormat,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Judge a model on an evaluation dataset: as `evaluate`, with everything at hand."""
    paths: list[str] = []
    labels: list[NDArray[Any]] = []
    probabilities: list[NDArray[np.float32]] = []
    failures: list[Failure] = list(ds.dropped)
    for batch in ds.iter_epoch(0):
        paths += batch.paths
        failures += batch.failures
        if batch.labels is not None:
            labels.append(batch.labels)
        probabilities.append(probabilities_of(model, batch.clips, num_rows=ds.batch_size or 1, data_format=data_format))
        if progress is not None:
            progress(len(paths) + len(failures), ds.num_examples + len(ds.dropped))
    if not labels:
        raise LayoutError("there is no labelled video to judge by", path=ds.index.root, stage="learn")
    joined, truth = np.concatenate(probabilities), np.concatenate(labels).astype(np.int32)
    return Evaluation(
        checkpoint=checkpoint,
        class_names=tuple(class_names),
        paths=tuple(paths),
        labels=truth,
        probabilities=joined,
        failures=tuple(failures),
        metrics=measure(joined, truth, class_names, num_missing=len(failures)),
    )


def probabilities_of(
    model: Any,  # noqa: ANN401  # a keras.Model
    clips: FrameArray,
    *,
    num_rows: int,
    data_format: DataFormat,
) -> NDArray[np.float32]:
    """Ask a model about clips.

    Args:
        model: From float clips in 0..1 to probabilities.
        clips: (n, T, H, W, C) uint8, n at most `num_rows`.
        num_rows: Rows that the model is given, always the same so that it is compiled once; those without a clip are
            black.
        data_format: What the model expects.

    Returns:
        (n, num_classes) float32.
    """
    values = to_value_range(clips, "float32", None)
    if data_format == "channels_first":
        values = np.moveaxis(values, -1, 1)
    given = np.zeros((num_rows, *values.shape[1:]), np.float32)
    given[: len(values)] = values
    return np.asarray(model.predict_on_batch(given), np.float32)[: len(values)]


def load_model(folder: RunFolder, checkpoint: Checkpoint) -> Any:  # noqa: ANN401  # a keras.Model
    """Read a run's model.

    Raises:
        LayoutError: If no epoch was completed.
    """
    path = folder.checkpoint(checkpoint)
    if not path.exists():
        raise LayoutError(
            f"has no {path.name}: no epoch was completed",
            path=str(folder.path),
            stage="learn",
            remedy="go on training with `--resume` or cf.learn.resume",
        )
    return import_keras().models.load_model(path)


def write_evaluation(evaluation: Evaluation, directory: StrPath) -> None:
    """Write `metrics.json` and `predictions.csv` (path, label, predicted, probability) into a folder.

    Videos without a prediction are listed at the end of the CSV, with nothing in the last two columns.

    Args:
        evaluation: What to write.
        directory: A folder that is there; files of these names in it are replaced.

    Raises:
        ValueError: For an empty path.
    """
    folder = RunFolder(Path(checked_path("directory", directory)))
    folder.write_json("metrics.json", {"checkpoint": evaluation.checkpoint, **evaluation.metrics.to_json()})
    names = evaluation.class_names
    rows = [
        (path, names[label], names[predicted], f"{probabilities[predicted]:.6f}")
        for path, label, predicted, probabilities in zip(
            evaluation.paths, evaluation.labels, evaluation.predicted, evaluation.probabilities, strict=True
        )
    ]
    missing = [(failure.path, "", "", "") for failure in evaluation.failures]
    folder.write_csv("predictions.csv", ("path", "label", "predicted", "probability"), [*rows, *missing])


def _in_classes(data: StrPath | VideoIndex, class_names: Sequence[str], *, index: str | None) -> VideoIndex:
    """Give other videos labels by the run's classes."""
    videos = data if isinstance(data, VideoIndex) else build_index(data, index=index)
    unknown = sorted(set(videos.class_names or ()) - set(class_names))
    if videos.class_names is None or unknown:
        raise ValueError(
            f"{videos.root}: "
            + (f"classes {', '.join(unknown)} are unknown to the run" if unknown else "the videos have no classes")
            + f"; expected some of {', '.join(class_names)}"
        )
    label_of = np.array([list(class_names).index(name) for name in videos.class_names], np.int32)
    labels = videos.labels
    if labels is None or labels.ndim != 1:
        raise ValueError(f"{videos.root}: expected one class a video")
    return replace(videos, class_names=tuple(class_names), given_labels=label_of[labels])
