"""A Keras callback that tells datasets the epoch. Importing this module imports Keras."""

from __future__ import annotations

from typing import Any

import keras

from clipfeed.deliver.epochs import EpochCounter, live_counters

__all__ = ["EpochSync"]


class EpochSync(keras.callbacks.Callback):  # type: ignore[misc]  # Keras carries no types
    """Sets the exact epoch of the datasets that `fit` trains on, before its first batch.

    Without it a dataset counts its passes, which is right for plain `fit(ds, epochs=30)`. Use it where that count and
    Keras's epoch differ: with `initial_epoch`, when training goes on after an interruption, under a `tf.distribute`
    strategy, with a `tf.data` dataset on JAX or PyTorch (there Keras looks at batches before epoch 0), and with
    `steps_per_epoch`, where a pass over the data takes the number of the epoch in which it begins.

    Args:
        *datasets: What `cf.to_tensorflow`, `cf.to_keras` or the facade returned. None given: every dataset that is
            alive when an epoch begins, which is right unless two models train at once in one process.

    Raises:
        TypeError: If something else is given, such as the result of `ds.map(...)`; give the dataset it came from.
        MissingDependencyError: If Keras is not installed.

    Example:
        >>> model.fit(train_ds, epochs=30, initial_epoch=10, callbacks=[cf.EpochSync()])
    """

    def __init__(self, *datasets: object) -> None:
        super().__init__()
        self._counters = [_counter_of(dataset) for dataset in datasets]

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Set the epoch (Keras calls this before it asks for a batch)."""
        del logs
        for counter in self._counters or live_counters():
            counter.set_next(epoch)


def _counter_of(dataset: object) -> EpochCounter:
    counter = getattr(dataset, "epochs", None)
    if not isinstance(counter, EpochCounter):
        raise TypeError(
            f"EpochSync({type(dataset).__name__}): expected what cf.to_tensorflow, cf.to_keras or "
            "cf.video_dataset_from_directory returned, before any .map or .take"
        )
    return counter
