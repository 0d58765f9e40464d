"""What happens around each epoch of a run, as Keras callbacks. Importing this module imports Keras.

Order matters and is `train`'s business: `Reseed` and `CosineDecay` act before an epoch, `KeepRun` after it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import keras

from clipfeed.learn.runs import EpochRow, RunFolder, RunState
from clipfeed.seeds import hash_words

__all__ = ["CosineDecay", "KeepRun", "Reseed", "ShowSteps"]


class Reseed(keras.callbacks.Callback):  # type: ignore[misc]  # Keras carries no types
    """Makes dropout a function of (seed, epoch).

    Keras does not save the state of its random generators with a model; set anew each epoch, a run that goes on from a
    file draws what it would have drawn.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Set every generator of the model."""
        del logs
        states = [state for state in self.model.variables if state.name == "seed_generator_state"]
        for number, state in enumerate(states):
            state.assign([hash_words(self._seed, "dropout", epoch, number) % 2**31, 0])


class CosineDecay(keras.callbacks.Callback):  # type: ignore[misc]  # Keras carries no types
    """Lets the learning rate fall from epoch to epoch: rate x (1 + cos(pi x epoch / epochs)) / 2.

    Source: Loshchilov and Hutter, ICLR 2017, equation 5 without restarts, one step an epoch.
    """

    def __init__(self, *, learning_rate: float, epochs: int) -> None:
        super().__init__()
        self._learning_rate = learning_rate
        self._epochs = epochs

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the rate of this epoch."""
        del logs
        self.model.optimizer.learning_rate = self._learning_rate * (1 + math.cos(math.pi * epoch / self._epochs)) / 2


class KeepRun(keras.callbacks.Callback):  # type: ignore[misc]  # Keras carries no types
    """Keeps the model and the state after each epoch, so that a run can go on from there.

    Args:
        folder: Where to.
        state: How far the run has come.
        on_epoch: Called with the row of each epoch once it is kept.
    """

    def __init__(self, folder: RunFolder, state: RunState, on_epoch: Callable[[EpochRow], None] | None) -> None:
        super().__init__()
        self.state = state
        self._folder = folder
        self._on_epoch = on_epoch
        self._begun = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Look at the clock."""
        del epoch, logs
        self._begun = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Write down what the epoch gave, and the model."""
        figures = {name: float(value) for name, value in (logs or {}).items()}
        row = EpochRow(
            epoch=epoch,
            loss=figures["loss"],
            accuracy=figures["accuracy"],
            val_loss=figures["val_loss"],
            val_accuracy=figures["val_accuracy"],
            learning_rate=float(self.model.optimizer.learning_rate.numpy()),
            seconds=round(time.monotonic() - self._begun, 3),
        )
        self.state = self.state.after(row)
        self._folder.write_epoch(self.model, self.state)
        if self._on_epoch is not None:
            self._on_epoch(row)


class ShowSteps(keras.callbacks.Callback):  # type: ignore[misc]  # Keras carries no types
    """Tells a function how many training steps of the whole run are done.

    Args:
        progress: Called with (steps done, steps in all).
        steps_per_epoch: Batches in an epoch.
        epochs: Epochs in all.
    """

    def __init__(self, progress: Callable[[int, int], None], *, steps_per_epoch: int, epochs: int) -> None:
        super().__init__()
        self._progress = progress
        self._steps_per_epoch = steps_per_epoch
        self._num_steps = steps_per_epoch * epochs
        self._num_done = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Count from the epoch's first step."""
        del logs
        self._num_done = epoch * self._steps_per_epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Report."""
        del logs
        self._progress(self._num_done + batch + 1, self._num_steps)
