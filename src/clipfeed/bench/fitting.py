"""How long a real `fit` waits for its data.

On TensorFlow `fit` fetches a batch inside its compiled step, where no callback can look. So two stamps go around the
dataset: the first is asked for just before a batch, the second made just after it came, both in the thread that `fit`
asks from. On JAX and PyTorch `fit` fetches in Python, between two steps, and a callback sees the gap.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from clipfeed.bench.report import FitWait
from clipfeed.dataset import VideoDataset
from clipfeed.deliver import to_keras, to_tensorflow
from clipfeed.deliver.frameworks import import_keras, import_tensorflow
from clipfeed.learn.models import ModelName, build_model

__all__ = ["measure_fit"]

_NUM_EPOCHS = 2  # the first one compiles
# A few batches lie ready when the first one does; in a short epoch they would hide that decoding falls behind.
_FEWEST_STEPS = 24


def measure_fit(name: str, ds: VideoDataset, model_name: ModelName, num_classes: int) -> FitWait:
    """Fit a model for two epochs and say how long the second one waited.

    Args:
        name: "decoding" or "cache", for the report.
        ds: Where batches come from; few videos are taken several times an epoch.
        model_name: The model.
        num_classes: Classes of the labels.

    Raises:
        MissingDependencyError: If Keras or its backend is not installed.
    """
    keras = import_keras()
    backend = str(keras.config.backend())
    ds = _long_enough(ds)
    model = build_model(model_name, ds.spec.shape, num_classes)
    model.compile("adam", "sparse_categorical_crossentropy")
    waits = _Waits()
    is_tensorflow = backend == "tensorflow"
    if is_tensorflow:
        # PyDataset items would be queued by Keras, in its own thread: what waits there is not `fit`.
        data = _stamped(to_tensorflow(ds, data_format="channels_last"), waits)
    else:
        data = to_keras(ds, data_format="channels_last")
    watch = _watch(keras, waits, gaps=not is_tensorflow)
    model.fit(data, epochs=_NUM_EPOCHS, shuffle=False, verbose=0, callbacks=[watch])
    return FitWait(
        name=name,
        format="tf" if is_tensorflow else "keras",
        backend=backend,
        model=model_name,
        num_steps=len(ds),
        seconds=waits.epoch_seconds,
        first_wait_seconds=waits.seconds[0],
        later_wait_seconds=sum(waits.seconds[1 : len(ds)]),
    )


def _long_enough(ds: VideoDataset) -> VideoDataset:
    """Give a dataset with an epoch of at least `_FEWEST_STEPS` batches: its videos, again and again."""
    num_times = math.ceil(_FEWEST_STEPS * (ds.batch_size or 1) / ds.num_examples)
    if num_times == 1:
        return ds
    return VideoDataset(
        ds.index.select(np.tile(np.arange(len(ds.index)), num_times)),
        ds.spec,
        batch_size=ds.batch_size,
        seed=ds.seed,
        limits=ds.limits,
        cache=ds.cache,
    )


class _Waits:
    """The waits of the epoch at hand."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.epoch_seconds = 0.0
        self._epoch_begun = 0.0
        self._begun = 0.0

    def begin_epoch(self) -> None:
        self.seconds.clear()
        self._epoch_begun = time.perf_counter()

    def end_epoch(self) -> None:
        self.epoch_seconds = time.perf_counter() - self._epoch_begun

    def begin(self) -> np.int64:
        self._begun = time.perf_counter()
        return np.int64(0)

    def end(self) -> np.int64:
        self.seconds.append(time.perf_counter() - self._begun)
        return np.int64(0)


def _stamped(dataset: Any, waits: _Waits) -> Any:  # noqa: ANN401  # a tf.data.Dataset
    """Put a stamp before and after each element: `zip` asks its first part first, and nothing here runs ahead."""
    tf = import_tensorflow()
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # tensorflow
    def begin(number: Any) -> Any:  # noqa: ANN401  # tensors
        with tf.control_dependencies([tf.numpy_function(waits.begin, [], tf.int64)]):
            return tf.identity(number)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # tensorflow
    def end(number: Any, item: Any) -> Any:  # noqa: ANN401  # tensors
        with tf.control_dependencies([tf.numpy_function(waits.end, [], tf.int64)]):
            return tf.nest.map_structure(tf.identity, item)

    stamps = tf.data.Dataset.range(dataset.cardinality()).map(begin)
    return tf.data.Dataset.zip((stamps, dataset)).map(end).with_options(options)


def _watch(keras: Any, waits: _Waits, *, gaps: bool) -> Any:  # noqa: ANN401  # a keras.callbacks.Callback
    """Time epochs; with `gaps` also from the end of a step, or the beginning of an epoch, to the next step."""

    class Watch(keras.callbacks.Callback):  # type: ignore[misc]  # Keras carries no types
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            waits.begin_epoch()
            waits.begin()

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            waits.end_epoch()

        def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
            if gaps:
                waits.end()

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            if gaps:
                waits.begin()

    return Watch()
