"""A run folder: what a training run leaves behind, and what it goes on from.

    run/
    ├── config.json        everything needed to repeat the run
    ├── class_names.json   text of each label in label order
    ├── split.json         key, size and label of every video of each part
    ├── last.keras         the model after the last epoch, with its optimizer and the state of the run
    ├── best.keras         the model after the epoch with the best validation accuracy
    ├── state.json         epochs done, seed, split, history: the state again, for people and scripts
    ├── history.csv        one row an epoch
    ├── metrics.json       the last model on the validation part
    ├── predictions.csv    path, label, predicted, probability of each validation video
    └── left_out.csv       path, stage, reason of each file that was not used

Every file is written under another name, then renamed, so a reader never sees half of one. The renaming of `last.keras`
is what completes an epoch: the state travels inside it, so that model and state cannot disagree after a kill.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from clipfeed._types import StrPath
from clipfeed.errors import LayoutError
from clipfeed.learn.config import RunConfig
from clipfeed.records import checked_path

__all__ = ["Checkpoint", "EpochRow", "PartDigest", "RunFolder", "RunState", "check_is_free", "create_run", "open_run"]

Checkpoint: TypeAlias = Literal["last", "best"]

_STATE_MEMBER = "clipfeed.json"  # beside Keras's own members of the .keras archive; Keras ignores it


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """What one epoch gave: a row of `history.csv`.

    Attributes:
        epoch: Its number, from 0.
        loss: Mean cross-entropy over the training part, while the weights changed.
        accuracy: Share of the training clips that were right, 0..1, while the weights changed.
        val_loss: Mean cross-entropy over the validation part after the epoch.
        val_accuracy: Share of the validation videos that are right after the epoch, 0..1.
        learning_rate: In this epoch.
        seconds: It took, validation included.
    """

    epoch: int
    loss: float
    accuracy: float
    val_loss: float
    val_accuracy: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDigest:
    """A part of the split in short: enough to notice that it changed.

    Attributes:
        num_videos: Videos in the part.
        sha256: Over key, size in bytes and label of each video, in order.
    """

    num_videos: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """How far a run has come.

    Attributes:
        epochs_done: Epochs that are complete.
        seed: Seed of everything random in the run.
        split: Digest of each part, by name.
        best_epoch: Epoch of `best.keras`, from 0; None before the first.
        history: One row for each epoch that is done.
    """

    epochs_done: int = 0
    seed: int
    split: Mapping[str, PartDigest]
    best_epoch: int | None = None
    history: tuple[EpochRow, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Give the state as JSON knows it."""
        split = {name: asdict(digest) for name, digest in self.split.items()}
        plain = {name: getattr(self, name) for name in ("epochs_done", "seed", "best_epoch")}
        return {**plain, "split": split, "history": [asdict(row) for row in self.history]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunState:
        """Read what `to_json` gave."""
        split = {name: PartDigest(**digest) for name, digest in document["split"].items()}
        history = tuple(EpochRow(**row) for row in document["history"])
        return cls(**{**document, "split": split, "history": history})

    def after(self, row: EpochRow) -> RunState:
        """Give the state after one more epoch."""
        is_better = self.best_epoch is None or row.val_accuracy > self.history[self.best_epoch].val_accuracy
        return RunState(
            epochs_done=self.epochs_done + 1,
            seed=self.seed,
            split=self.split,
            best_epoch=self.epochs_done if is_better else self.best_epoch,
            history=(*self.history, row),
        )


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run.

    Attributes:
        path: The folder.
    """

    path: Path

    def checkpoint(self, name: Checkpoint) -> Path:
        """Where a model is kept."""
        return self.path / f"{name}.keras"

    # Reading

    def read_config(self) -> RunConfig:
        """What the run was asked to do."""
        try:
            return RunConfig.from_json(self._read_json("config.json"))
        except (ValueError, KeyError, TypeError) as error:
            raise LayoutError(
                f"cannot be read: {error}",
                path=str(self.path / "config.json"),
                stage="learn",
                expected="expected what `clipfeed train` of this version writes",
                remedy="train into a new folder",
            ) from error

    def read_class_names(self) -> tuple[str, ...]:
        """Text of each label in label order."""
        return tuple(self._read_json("class_names.json"))

    def read_split(self) -> dict[str, dict[str, list[Any]]]:
        """Columns of each part, by part and column name."""
        split: dict[str, dict[str, list[Any]]] = self._read_json("split.json")
        return split

    def read_state(self) -> RunState | None:
        """How far the run has come, as `last.keras` says; None before the first epoch is complete."""
        path = self.checkpoint("last")
        if not path.exists():
            return None
        try:
            with zipfile.ZipFile(path) as archive:
                return RunState.from_json(json.loads(archive.read(_STATE_MEMBER)))
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
            raise LayoutError(
                f"holds no state of a run: {error!r}",
                path=str(path),
                stage="learn",
                expected="expected what `clipfeed train` writes after each epoch",
                remedy="train into a new folder; this file was changed or replaced",
            ) from error

    def _read_json(self, name: str) -> Any:  # noqa: ANN401  # whatever JSON holds
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise LayoutError(
                f"is not a run folder: it has no {name}",
                path=str(self.path),
                stage="learn",
                expected="expected a folder that `clipfeed train` or `cf.learn.train` wrote",
                remedy="check the path, or train first",
            ) from error

    # Writing

    def write_json(self, name: str, document: object) -> None:
        """Write a JSON file."""
        self._write_text(name, json.dumps(document, indent=2) + "\n")

    def write_csv(self, name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write a CSV file; undecodable bytes in file names stay as they are."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        self._write_text(name, text.getvalue())

    def write_epoch(self, model: Any, state: RunState) -> None:  # noqa: ANN401  # a keras.Model
        """Keep the model and the state after an epoch; once `last.keras` is renamed the epoch is done."""
        if state.best_epoch == state.epochs_done - 1:
            self._write_model(model, "best", state)
        self._write_model(model, "last", state)
        self.write_state(state)

    def write_state(self, state: RunState) -> None:
        """Write the files that repeat what `last.keras` holds."""
        self.write_json("state.json", state.to_json())
        self.write_csv("history.csv", [entry.name for entry in fields(EpochRow)], map(astuple, state.history))

    def _write_model(self, model: Any, name: Checkpoint, state: RunState) -> None:  # noqa: ANN401  # a keras.Model
        path = self.checkpoint(name)
        partial = _partial(path)
        model.save(partial)
        with zipfile.ZipFile(partial, "a") as archive:
            archive.writestr(_STATE_MEMBER, json.dumps(state.to_json()))
        _replace(partial, path)

    def _write_text(self, name: str, text: str) -> None:
        path = self.path / name
        partial = _partial(path)
        partial.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
        _replace(partial, path)


def create_run(
    path: StrPath,
    config: RunConfig,
    *,
    class_names: Sequence[str],
    split: Mapping[str, Mapping[str, Sequence[object]]],
) -> RunFolder:
    """Make a new run folder.

    Raises:
        FileExistsError: If the folder holds something already.
    """
    check_is_free(path)
    folder = RunFolder(Path(path))
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_json("class_names.json", list(class_names))
    folder.write_json("split.json", split)
    folder.write_json("config.json", config.to_json())  # last: with it the folder is a run
    return folder


def check_is_free(path: StrPath) -> None:
    """Refuse a folder that holds something already.

    Raises:
        FileExistsError: Says how to go on with a run that is there.
        ValueError: For an empty path.
    """
    if Path(checked_path("run", path)).is_dir() and not any(Path(path).iterdir()):
        return
    if Path(path).exists():
        is_run = (Path(path) / "config.json").exists()
        advice = "resume the run (`--resume`, cf.learn.resume), or choose" if is_run else "choose"
        raise FileExistsError(f"{path}: holds {'a run' if is_run else 'something'} already; {advice} another folder")


def open_run(path: StrPath) -> RunFolder:
    """Give a run folder that is there.

    Args:
        path: The folder that training left.

    Raises:
        LayoutError: If it is none.
        ValueError: For an empty path.
    """
    folder = RunFolder(Path(checked_path("run", path)))
    folder.read_config()
    return folder


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.stem}.partial{path.suffix}")


def _replace(partial: Path, path: Path) -> None:
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(descriptor)  # the bytes before the name, also when the machine stops
    finally:
        os.close(descriptor)
    partial.replace(path)
