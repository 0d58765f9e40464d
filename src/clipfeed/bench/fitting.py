"""How long a real `fit` waits for its data.

On TensorFlow `fit` fetches a batch inside its compiled step, where no callback can look. So two stamps go around the
dataset: the first is asked for just before a batch, the second made just after it came, both in the thread that `fit`
asks from. On JAX and PyTorch `fit` fetches in Python, between two steps, and a callback sees the gap.
"""

from __future__ import annotations

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


def measure_fit(name: str, ds: VideoDataset, model_name: ModelName, num_classes: int) -> FitWait:
    """Fit a model for two epochs and say how long the second one waited.

    Raises:
        MissingDependencyError: If Keras or its backend is not installed.
    """
    keras = import_keras()
    backend = str(keras.config.backend())
    model = build_model(model_name, ds.spec.shape, num_classes)
    model.compile("adam", "sparse_categorical_crossentropy")
    waits = _Waits()
    watch = _epoch_watch(keras, waits)
    if backend == "tensorflow":
        # PyDataset items would be queued by Keras, in its own thread: what waits there is not `fit`.
        data, callbacks = _stamped(to_tensorflow(ds, data_format="channels_last"), waits), [watch]
    else:
        data, callbacks = to_keras(ds, data_format="channels_last"), [watch, _gap_watch(keras, waits)]
    model.fit(data, epochs=_NUM_EPOCHS, shuffle=False, verbose=0, callbacks=callbacks)
    return FitWait(
        name=name,
        format="tf" if backend == "tensorflow" else "keras",
        backend=backend,
        model=model_name,
        num_steps=len(ds),
        seconds=waits.epoch_seconds,
        first_wait_seconds=waits.seconds[0],
        later_wait_seconds=sum(waits.seconds[1 : len(ds)]),
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


def _epoch_watch(keras: Any, waits: _Waits) -> Any:  # noqa: ANN401  # a keras.callbacks.Callback
    return keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda _epoch, _logs: waits.begin_epoch(), on_epoch_end=lambda _epoch, _logs: waits.end_epoch()
    )


def _gap_watch(keras: Any, waits: _Waits) -> Any:  # noqa: ANN401  # a keras.callbacks.Callback
    """Time from the end of a step, or the beginning of the epoch, to the beginning of the next step."""
    return keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda _epoch, _logs: waits.begin(),
        on_train_batch_begin=lambda _step, _logs: waits.end(),
        on_train_batch_end=lambda _step, _logs: waits.begin(),
    )
