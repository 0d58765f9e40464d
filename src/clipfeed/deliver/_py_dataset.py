"""The `keras.utils.PyDataset` itself. Importing this module imports Keras, so `to_keras` does it when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import keras

from clipfeed.dataset import VideoDataset
from clipfeed.deliver.epochs import EpochCounter
from clipfeed.deliver.facts import DatasetFacts
from clipfeed.deliver.feed import EpochFeed, open_epoch
from clipfeed.deliver.items import Item, Recipe, make_item

__all__ = ["ClipPyDataset"]


class ClipPyDataset(DatasetFacts, keras.utils.PyDataset):  # type: ignore[misc]  # Keras carries no types
    """Batches of clips for `fit`, `evaluate` and `predict` on every backend; what `to_keras` gives.

    Keras's own `workers` stays 1: with more, `fit` on JAX and PyTorch trains a second time on the batches that it
    looked at for their shapes. Decoding ahead happens in here instead, while an epoch runs.

    Args:
        ds: Where batches come from.
        recipe: What an item looks like.

    Attributes:
        clipfeed: The `VideoDataset` under it.
        epochs: Counts the passes; `cf.EpochSync` sets it.
    """

    def __init__(self, ds: VideoDataset, recipe: Recipe) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.clipfeed = ds
        self.epochs = EpochCounter()
        self._recipe = recipe
        self._feed = EpochFeed(ds, self.epochs)

    def __len__(self) -> int:
        return len(self.clipfeed)

    def __reduce__(self) -> tuple[Any, ...]:
        return ClipPyDataset, (self.clipfeed, self._recipe)  # a copy begins at epoch 0

    @property
    def num_batches(self) -> int:
        """Batches in an epoch.

        Keras asks this when a pass over the data begins and never in the midst of one, which is the only sign of a new
        pass that it gives: its epochs may be longer or shorter than ours.
        """
        self._feed.expect_pass()
        return len(self.clipfeed)

    def __getitem__(self, index: int) -> Item:
        return make_item(self._feed.take(index), self._recipe)

    def __iter__(self) -> Iterator[Item]:
        """Give the next epoch, for a loop of one's own."""
        with closing(open_epoch(self.clipfeed, self.epochs.draw())) as batches:
            for batch in batches:
                yield make_item(batch, self._recipe)

    def on_epoch_begin(self) -> None:
        """Start decoding ahead (Keras calls this)."""
        self._feed.begin()

    def on_epoch_end(self) -> None:
        """Stop decoding ahead (Keras calls this)."""
        self._feed.end()
