"""Say what new videos show, with a run folder and without the videos it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import FrameArray, StrPath
from clipfeed.deliver.frameworks import import_keras
from clipfeed.errors import ClipfeedError
from clipfeed.find import find_videos
from clipfeed.learn.evaluation import load_model, probabilities_of
from clipfeed.learn.runs import Checkpoint, open_run
from clipfeed.load import load_video
from clipfeed.prefetch import run_ahead, thread_count
from clipfeed.records import ClipSpec, Failure, check_choice

__all__ = ["Prediction", "Predictions", "predict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What one video shows.

    Attributes:
        path: The file as it was given.
        class_name: The most probable class.
        probability: Of that class, 0..1.
    """

    path: str
    class_name: str
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """What videos show; iterating gives one `Prediction` a video.

    Attributes:
        class_names: Text of each column of `probabilities`.
        paths: The files that have a prediction, in the order they were given.
        probabilities: (n, num_classes) float32, each row sums to 1.
        failures: The files that have none, with stage and reason.
    """

    class_names: tuple[str, ...]
    paths: tuple[str, ...]
    probabilities: NDArray[np.float32] = field(compare=False, repr=False)
    failures: tuple[Failure, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Prediction]:
        for path, row in zip(self.paths, self.probabilities, strict=True):
            best = int(row.argmax())
            yield Prediction(path=path, class_name=self.class_names[best], probability=float(row[best]))


def predict(
    paths: StrPath | Sequence[StrPath],
    run: StrPath,
    *,
    checkpoint: Checkpoint = "last",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Predictions:
    """Say what videos show; a file that cannot be used is listed, and the rest goes on.

    Clips are made as in the run: same number of frames, size and sampling; random policies take their centre.

    Args:
        paths: A video file, a folder (all videos in it, at any depth), or several of these.
        run: The run folder.
        checkpoint: "last", or "best" by validation accuracy.
        workers: Decoding threads; None for the cores this process may use.
        progress: Called with (files done, files in all).

    Raises:
        ValueError: For another `checkpoint`, or `workers` that is no number of threads.
        LayoutError: If `run` is no run folder, or a folder in `paths` holds no video.
        MissingDependencyError: If Keras or its backend is not installed.

    Example:
        >>> for found in cf.learn.predict(["jump.avi"], "runs/first"):
        ...     print(found.path, found.class_name, round(found.probability, 2))
        jump.avi jump 0.93
    """
    check_choice("checkpoint", checkpoint, ("last", "best"))
    num_workers = thread_count(workers)
    import_keras()
    folder = open_run(run)
    config, class_names = folder.read_config(), folder.read_class_names()
    files = _files_of([paths] if not isinstance(paths, Sequence) or isinstance(paths, str) else paths)
    model = load_model(folder, checkpoint)
    ask = partial(probabilities_of, model, num_rows=config.options.batch_size, data_format=config.options.data_format)
    seen: list[str] = []
    failures: list[Failure] = []
    rows: list[NDArray[np.float32]] = []
    waiting: list[FrameArray] = []
    max_ahead = config.options.batch_size + num_workers
    with run_ahead(
        lambda number: _load(files[number], config.clips), range(len(files)), workers=num_workers, max_ahead=max_ahead
    ) as loaded:
        for number, (path, clip) in enumerate(zip(files, loaded, strict=True)):
            if isinstance(clip, Failure):
                failures.append(clip)
            else:
                seen.append(path)
                waiting.append(clip)
            if waiting and (len(waiting) == config.options.batch_size or number == len(files) - 1):
                rows.append(ask(np.stack(waiting)))
                waiting.clear()
            if progress is not None:
                progress(number + 1, len(files))
    return Predictions(
        class_names=class_names,
        paths=tuple(seen),
        probabilities=np.concatenate([*rows, np.empty((0, len(class_names)), np.float32)]),
        failures=tuple(failures),
    )


def _files_of(paths: Sequence[StrPath]) -> list[str]:
    """Every video file that is meant, folders replaced by what they hold."""
    files: list[str] = []
    for path in paths:
        files += find_videos(path, labels=None).paths if Path(path).is_dir() else [str(path)]
    return files


def _load(path: str, clips: ClipSpec) -> FrameArray | Failure:
    """(T, H, W, C) uint8 as in the run, or why not."""
    try:
        return load_video(
            path,
            num_frames=clips.num_frames,
            image_size=clips.image_size,
            sampling=clips.sampling,
            short_videos=clips.short_videos,
            interpolation=clips.interpolation,
            crop_to_aspect_ratio=clips.aspect == "crop",
            pad_to_aspect_ratio=clips.aspect == "pad",
            color_mode=clips.color_mode,
            dtype="uint8",
        )
    except ClipfeedError as error:
        return Failure(path=path, stage=error.stage or "decode", reason=error.problem)
