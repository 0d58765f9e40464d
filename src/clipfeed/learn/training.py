"""Train a model by name on a folder of videos, and go on with a run that was interrupted.

The whole job around `fit`: parts, datasets, model, run folder, a last evaluation. Nothing here prints; a caller who
wants to see progress passes functions. A run is repeatable: order, clips, initial weights and dropout are functions of
(seed, epoch), so a run that goes on from `last.keras` does what the uninterrupted one would have done.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clipfeed._types import StrPath
from clipfeed.cache import Cache, Codec
from clipfeed.dataset import Limits, VideoDataset
from clipfeed.deliver import to_keras, to_tensorflow
from clipfeed.deliver.frameworks import import_keras, import_tensorflow
from clipfeed.learn.config import RunConfig, TrainOptions, describe_changes
from clipfeed.learn.data import Data, digest_part, find_part, make_parts, part_columns
from clipfeed.learn.evaluation import Evaluation, judge, write_evaluation
from clipfeed.learn.models import build_model
from clipfeed.learn.runs import EpochRow, RunFolder, RunState, check_is_free, create_run, open_run
from clipfeed.records import ClipSpec, Failure, VideoIndex, checked_path
from clipfeed.split import SplitReport

__all__ = ["Listener", "TrainedRun", "resume", "train"]

_FRAMES: dict[Codec, str] = {"raw": "frames as they were decoded", "jpeg": "frames that were kept as JPEG"}
_REMEDIES: dict[Codec, str] = {
    "raw": 'no cache, or one with codec="raw"',
    "jpeg": 'a cache with codec="jpeg" (--cache disk --cache-codec jpeg)',
}

_RECORDED_VERSIONS = ("clipfeed", "av", "numpy", "keras", "tensorflow", "jax", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Functions that are told how training goes; None for what nobody wants to know.

    Attributes:
        on_index: Called with (files done, files to open) while the index is built.
        on_split: Called with the split's sizes and leak rates before training begins.
        on_cache: Called with each line on where frames are kept before training begins.
        on_step: Called with (steps done, steps in all) after each training step.
        on_epoch: Called with an epoch's row once the epoch is kept.
        verbose: Keras's own: 0 silent, 1 a bar, 2 a line an epoch.
    """

    on_index: Callable[[int, int], None] | None = None
    on_split: Callable[[SplitReport], None] | None = None
    on_cache: Callable[[str], None] | None = None
    on_step: Callable[[int, int], None] | None = None
    on_epoch: Callable[[EpochRow], None] | None = None
    verbose: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedRun:
    """What training gave.

    Attributes:
        path: The run folder.
        config: What was asked for.
        num_videos: Videos of each part that were used.
        history: One row an epoch, also from before a resume.
        best_epoch: Epoch of `best.keras`, from 0.
        evaluation: The last model on the validation part.
        left_out: Files that were not used: unusable, too short, or undeliverable in training.
    """

    path: str
    config: RunConfig
    num_videos: dict[str, int]
    history: tuple[EpochRow, ...]
    best_epoch: int
    evaluation: Evaluation
    left_out: tuple[Failure, ...]


def train(  # noqa: PLR0913  # training is where data, clips, limits, cache and listener meet
    data: Data,
    run: StrPath,
    *,
    clips: ClipSpec | None = None,
    options: TrainOptions | None = None,
    limits: Limits | None = None,
    cache: Cache | None = None,
    index: StrPath | None = None,
    listener: Listener | None = None,
) -> TrainedRun:
    """Train a model on videos and leave a run folder.

    Args:
        data: The folder of the videos; an index of it; or parts of one, {"train": ..., "val": ...}. A folder or index
            is split by `options`, unless its top folders are train and val.
        run: Folder to make, empty or not there.
        clips: What a clip looks like; None: 20 frames of 64 x 64.
        options: Model, epochs, split, seed; None: the `TrainOptions` defaults.
        limits: Memory, threads and time of each of the two datasets.
        cache: Where decoded frames of both are kept for later epochs; None decodes each time.
        index: Folder in which the index is kept; None is the user's cache folder.
        listener: Who is told how it goes.

    Returns:
        The run, with the last model's figures on the validation part.

    Raises:
        FileExistsError: If `run` holds something already.
        LayoutError: If the videos are no class folders, or a part has no usable video.
        ValueError: If no video of a part is long enough for a clip, or for an empty path.
        MissingDependencyError: If Keras or its backend is not installed; nothing has been read then.

    Example:
        >>> done = cf.learn.train("HMDB51", "runs/first", options=cf.learn.TrainOptions(model="lrcn", epochs=30))
        >>> done.evaluation.metrics.top1
    """
    keras = import_keras()
    check_is_free(run)
    index_folder = None if index is None else str(Path(checked_path("index", index)).absolute())
    listener = listener or Listener()
    options = options or TrainOptions()
    parts = make_parts(data, options, index=index, progress=listener.on_index)
    if listener.on_split is not None and parts.report is not None:
        listener.on_split(parts.report)
    config = RunConfig(
        directory=str(Path(parts.root).absolute()),
        index=index_folder,
        clips=clips or ClipSpec(),
        options=options,
        codec=_codec_of(cache),
        split_source=parts.source,
        backend=keras.config.backend(),
        versions=_versions(),
    )
    datasets = _datasets(config, (parts.by_name["train"], parts.by_name["val"]), limits, cache)
    _tell_of_cache(datasets, listener)
    model = _compiled(config, num_classes=len(parts.class_names))
    split = {name: part_columns(part) for name, part in parts.by_name.items()}
    folder = create_run(run, config, class_names=parts.class_names, split=split)
    state = RunState(seed=options.seed, split={name: digest_part(columns) for name, columns in split.items()})
    return _Training(folder, config, datasets, listener).go_on(model, state)


def resume(
    run: StrPath,
    *,
    data: StrPath | VideoIndex | None = None,
    clips: ClipSpec | None = None,
    options: TrainOptions | None = None,
    limits: Limits | None = None,
    cache: Cache | None = None,
    listener: Listener | None = None,
) -> TrainedRun:
    """Go on with a run after its last complete epoch, as if it had not been interrupted.

    The model, its optimizer and the split come from the run folder. Files that were added to the videos since are not
    used; training videos that turned out to be undeliverable stay left out. On the backend and machine it began on, a
    resumed run gives the figures of an uninterrupted one up to the rounding of parallel sums.

    Args:
        run: The run folder.
        data: The folder of the videos where it is no longer where it was, or an index of it.
        clips: To make sure of; None for what the run began with.
        options: To make sure of; None for what the run began with. Only `epochs` may differ, to train longer.
        limits: Memory, threads and time of each of the two datasets.
        cache: Where decoded frames are kept from now on; it need not be the one that the run began with, nor be any,
            unless that one changed pixels (`codec="jpeg"`).
        listener: Who is told how it goes.

    Raises:
        LayoutError: If `run` is no run folder, or videos of the split are gone.
        StaleIndexError: If videos of the split changed.
        ValueError: If something else is asked for than the run began with.
        MissingDependencyError: If Keras or its backend is not installed.
    """
    keras = import_keras()
    folder = open_run(run)
    listener = listener or Listener()
    config = _unchanged(folder, clips, options)
    _check_codec(folder, config, cache)
    columns = folder.read_split()
    digests = {name: digest_part(part) for name, part in columns.items()}
    state = folder.read_state() or RunState(seed=config.options.seed, split=digests)
    if state.split != digests or state.seed != config.options.seed:
        raise ValueError(
            f"{run}: split.json or the seed is not what last.keras was trained with; train into a new folder"
        )
    if config.options.epochs < state.epochs_done:
        raise ValueError(f"{run}: epochs={config.options.epochs}: the run has done {state.epochs_done} already")
    train_part = find_part(folder, config, "train", data=data, may_have_failed=True)
    datasets = _datasets(config, (train_part, find_part(folder, config, "val", data=data)), limits, cache)
    _tell_of_cache(datasets, listener)
    if state.epochs_done:
        model = keras.models.load_model(folder.checkpoint("last"))
    else:
        model = _compiled(config, num_classes=len(folder.read_class_names()))
    folder.write_json("config.json", config.to_json())
    folder.write_state(state)
    return _Training(folder, config, datasets, listener).go_on(model, state)


def _unchanged(folder: RunFolder, clips: ClipSpec | None, options: TrainOptions | None) -> RunConfig:
    """Give the run's config, with the epochs that are asked for now."""
    config = folder.read_config()
    changes = describe_changes(config, clips=clips, options=options)
    if changes:
        raise ValueError(
            f"{folder.path}: the run cannot go on with something else than it began with\n  "
            + "\n  ".join(changes)
            + "\n  fix: leave these out, or train into a new folder"
        )
    if options is None or options.epochs == config.options.epochs:
        return config
    if config.options.decay == "cosine":
        raise ValueError(
            f"{folder.path}: epochs={options.epochs}: the run began with {config.options.epochs}, and the learning "
            "rate of each epoch depends on their number; train into a new folder"
        )
    return replace(config, options=options)


def _compiled(config: RunConfig, *, num_classes: int) -> Any:  # noqa: ANN401  # a keras.Model
    keras = import_keras()
    options = config.options
    num_frames, height, width, num_channels = config.clips.shape
    is_first = options.data_format == "channels_first"
    shape = (num_channels, num_frames, height, width) if is_first else config.clips.shape
    model = build_model(options.model, shape, num_classes, seed=options.seed, data_format=options.data_format)
    model.compile(
        optimizer=keras.optimizers.Adam(options.learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class _Datasets:
    """What a run trains on and is judged by."""

    train: VideoDataset
    val: VideoDataset

    def left_out(self) -> tuple[Failure, ...]:
        """Every file that was not used, once, in the order of the journey."""
        both = (self.train, self.val)
        failures = [
            *self.train.index.failures,
            *(failure for ds in both for failure in ds.dropped),
            *(failure for ds in both for failure in ds.ledger.failures),
        ]
        return tuple({failure.path: failure for failure in failures}.values())


def _datasets(
    config: RunConfig, parts: tuple[VideoIndex, VideoIndex], limits: Limits | None, cache: Cache | None
) -> _Datasets:
    options = config.options
    train_ds, val_ds = (
        VideoDataset(
            part,
            config.clips,
            batch_size=options.batch_size,
            training=training,
            seed=options.seed,
            limits=limits,
            cache=cache,
        )
        for part, training in zip(parts, (True, False), strict=True)
    )
    return _Datasets(train=train_ds, val=val_ds)


def _tell_of_cache(datasets: _Datasets, listener: Listener) -> None:
    if listener.on_cache is not None:
        for line in datasets.train.explain_cache():
            listener.on_cache(line)


def _codec_of(cache: Cache | None) -> Codec:
    return "raw" if cache is None else cache.codec


def _check_codec(folder: RunFolder, config: RunConfig, cache: Cache | None) -> None:
    """Refuse other pixels than the run began with."""
    now = _codec_of(cache)
    if now != config.codec:
        raise ValueError(
            f"{folder.path}: the run began with {_FRAMES[config.codec]}, and would go on with {_FRAMES[now]}\n"
            f"  fix: pass {_REMEDIES[config.codec]}, or train into a new folder"
        )


class _Training:
    """One `fit` and what belongs around it."""

    def __init__(self, folder: RunFolder, config: RunConfig, datasets: _Datasets, listener: Listener) -> None:
        self._folder = folder
        self._config = config
        self._datasets = datasets
        self._listener = listener

    def go_on(self, model: Any, state: RunState) -> TrainedRun:  # noqa: ANN401  # a keras.Model
        """Train the epochs that are not done, judge the last model, and write both down."""
        if state.epochs_done < self._config.options.epochs:
            state = self._fit(model, state)
        evaluation = judge(
            model,
            self._datasets.val,
            self._folder.read_class_names(),
            checkpoint="last",
            data_format=self._config.options.data_format,
        )
        write_evaluation(evaluation, self._folder.path)
        left_out = self._datasets.left_out()
        self._folder.write_csv(
            "left_out.csv",
            ("path", "stage", "reason"),
            ((failure.path, failure.stage, failure.reason) for failure in left_out),
        )
        return TrainedRun(
            path=str(self._folder.path),
            config=self._config,
            num_videos={"train": len(self._datasets.train.index), "val": len(self._datasets.val.index)},
            history=state.history,
            best_epoch=state.best_epoch or 0,
            evaluation=evaluation,
            left_out=left_out,
        )

    def _fit(self, model: Any, state: RunState) -> RunState:  # noqa: ANN401  # a keras.Model
        from clipfeed.deliver import EpochSync
        from clipfeed.learn.callbacks import CosineDecay, KeepRun, Reseed, ShowSteps  # subclasses of Keras's

        options, listener = self._config.options, self._listener
        train_data, val_data = (_delivered(ds, options) for ds in (self._datasets.train, self._datasets.val))
        keep = KeepRun(self._folder, state, listener.on_epoch)
        callbacks: list[Any] = [EpochSync(train_data), Reseed(options.seed)]
        if options.decay == "cosine":
            callbacks.append(CosineDecay(learning_rate=options.learning_rate, epochs=options.epochs))
        if listener.on_step is not None:
            steps = ShowSteps(listener.on_step, steps_per_epoch=len(self._datasets.train), epochs=options.epochs)
            callbacks.append(steps)
        try:
            model.fit(
                train_data,
                validation_data=val_data,
                epochs=options.epochs,
                initial_epoch=state.epochs_done,
                shuffle=False,
                callbacks=[*callbacks, keep],
                verbose=listener.verbose,
            )
        except _framework_errors() as error:
            ours = self._datasets.train.ledger.last_error or self._datasets.val.ledger.last_error
            if ours is None:
                raise
            raise ours from error
        return keep.state


def _delivered(ds: VideoDataset, options: TrainOptions) -> Any:  # noqa: ANN401  # what the backend's fit eats best
    """On TensorFlow a tf.data.Dataset, whose queues keep to the memory budget; elsewhere a PyDataset."""
    is_tensorflow = import_keras().config.backend() == "tensorflow"
    return (to_tensorflow if is_tensorflow else to_keras)(ds, data_format=options.data_format)


def _framework_errors() -> tuple[type[Exception], ...]:
    """What the backend raises in the place of errors of ours."""
    if import_keras().config.backend() != "tensorflow":
        return ()
    operation_error: type[Exception] = import_tensorflow().errors.OpError
    return (operation_error,)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _RECORDED_VERSIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
