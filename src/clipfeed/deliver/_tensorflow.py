"""A dataset as a real `tf.data.Dataset`.

    range(n) -> scan: (epoch, number) -> map: numpy_function, k batches at once -> prefetch(p) -> map: float, c at once

The core crosses the border once a batch, in uint8; shapes and cardinality stay known. The epoch is drawn once an
iterator, at its first pull: Keras makes and drops iterators that it never pulls from. With tf.data's own tuning and
injected prefetch off, exactly k + p + c batches are ahead, so their bytes are bounded.
"""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clipfeed._types import DataFormat, LabelMode
from clipfeed.dataset import VideoDataset
from clipfeed.deliver.door import door_of
from clipfeed.deliver.epochs import EpochCounter
from clipfeed.deliver.frameworks import import_tensorflow, keras_backend
from clipfeed.deliver.items import Delivery, Recipe, make_labels, recipe_for
from clipfeed.errors import BudgetError, ClipfeedError
from clipfeed.transform import DType

__all__ = ["Ahead", "plan_ahead", "to_tensorflow"]

_MOST_PREFETCHED = 2  # beside those in work; more only helps where decoding is slower than training anyway
# Floats are four times the bytes and take as long to make as frames take to copy out of a cache: 1.5 ms for a batch of
# 8 clips of 20 x 64 x 64. Two threads keep up with the cache.
_CONVERTED = 2


def to_tensorflow(
    ds: VideoDataset,
    *,
    label_mode: LabelMode | None = "int",
    dtype: DType = "float32",
    value_range: tuple[float, float] | None = None,
    data_format: DataFormat | None = None,
) -> Any:  # noqa: ANN401  # a tf.data.Dataset: TensorFlow may not be installed where types are read
    """Give a dataset as a `tf.data.Dataset`.

    Its element spec is static and its cardinality known; `take`, `skip`, `map`, `repeat`, `cache`, `shard`, `prefetch`,
    `zip` and `tf.distribute.MirroredStrategy` behave. Each iterator is the next epoch. `unbatch` and `rebatch` lose the
    cardinality (as everywhere in tf.data), and `skip(k)` decodes what it skips.

    An error of a video arrives as a `tf.errors.InvalidArgumentError` whose text names the file and the reason; the
    original is kept in `result.clipfeed.ledger`.

    Args:
        ds: The dataset. With `batch_size=None` elements are single clips.
        label_mode: "int" int32 (B,); "categorical" float32 (B, num_classes); "binary" float32 (B, 1), two classes; None
            clips only. Vector labels are passed on as float32 (B, num_labels).
        dtype: "float32", "float16", or "uint8" for 0..255 untouched.
        value_range: (low, high) of float clips, `low + (x / 255) * (high - low)` in float32, then cast; None is (0, 1).
        data_format: "channels_last" (T, H, W, C) or "channels_first" (C, T, H, W); None is Keras's configuration.

    Returns:
        A `tf.data.Dataset` with the attributes `class_names`, `file_paths`, `labels` and `clipfeed`. An element is
        `clips`, `(clips, labels)`, or `(clips, labels, weights)` where the dataset is weighted or padded.

    Raises:
        ValueError: For a value that is not allowed, or labels that cannot take the wanted form.
        BudgetError: If the dataset's memory budget does not hold the batch handed out and one in work.
        MissingDependencyError: If TensorFlow is not installed.

    Example:
        >>> cf.to_tensorflow(ds).element_spec[0].shape
        TensorShape([None, 20, 64, 64, 3])
    """
    delivery = Delivery(
        format="tf", label_mode=label_mode, dtype=dtype, value_range=value_range, data_format=data_format
    )
    tf = import_tensorflow()
    _leave_gpus_alone(tf)
    recipe = recipe_for(ds, delivery)
    ahead = plan_ahead(ds, bytes_per_value=1 if recipe.value_range is None else np.dtype(recipe.dtype).itemsize)
    core = _Core(ds, recipe, num_threads=ahead.num_threads)
    result = _build(tf, core, len(ds), ahead)
    # Owned by the dataset, which everything derived from it, and every iterator, holds: see _Core.
    result._clipfeed_core = core
    result.epochs = core.epochs
    result.clipfeed = ds
    result.class_names = None if ds.class_names is None else list(ds.class_names)
    result.file_paths = ds.file_paths
    result.labels = ds.labels
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How many batches tf.data holds beside the one handed out, and who makes them.

    Attributes:
        num_parallel: Batches in work at once, k.
        num_prefetched: Batches ready beside those, p.
        num_threads: Threads that decode the clips of one batch; 0: the calling thread alone.
        num_converted: Batches that are made floats ahead, c; 0: one is, when it is asked for.
    """

    num_parallel: int
    num_prefetched: int
    num_threads: int
    num_converted: int = 0

    @property
    def num_batches(self) -> int:
        """Batches ahead, k + p + c."""
        return self.num_parallel + self.num_prefetched + self.num_converted


def plan_ahead(ds: VideoDataset, *, bytes_per_value: int = 1) -> Ahead:
    """Share a dataset's memory budget and threads out between whole batches.

    One thread a batch and as many batches at once as there are workers; where the budget holds fewer batches than that,
    several threads share one. Floats are made ahead where there is room for them beside all that.

    Args:
        ds: The dataset.
        bytes_per_value: Of the clips as they are handed out; 1 for uint8.

    Raises:
        BudgetError: If the budget does not hold the batch handed out and one in work; shows the arithmetic.
    """
    num_affordable = (ds.memory_budget - ds.decoding_bytes - ds.batch_bytes) // ds.batch_bytes
    if num_affordable < 1:
        raise BudgetError(
            f"memory_budget={ds.memory_budget:,} bytes does not hold two batches; tf.data works on whole ones ahead",
            stage="deliver",
            expected=(
                f"the batch handed out and one in work: 2 x {ds.batch_bytes:,} bytes\n"
                f"frames in work, {ds.workers} workers: {ds.decoding_bytes:,} bytes\n"
                f"together: {2 * ds.batch_bytes + ds.decoding_bytes:,} bytes"
            ),
            remedy='raise memory_budget, lower batch_size, or use format="keras", which decodes ahead clip by clip',
        )
    # One place stays for a ready batch where there are two: what is in work is of no use to a model that waits.
    num_parallel = max(1, min(ds.workers, num_affordable - 1))
    num_prefetched = min(_MOST_PREFETCHED, num_affordable - num_parallel)
    num_threads = ds.workers // num_parallel
    has_room = num_affordable - num_parallel - num_prefetched >= _CONVERTED * bytes_per_value
    return Ahead(
        num_parallel=num_parallel,
        num_prefetched=num_prefetched,
        num_threads=num_threads if num_threads > 1 else 0,
        num_converted=_CONVERTED if has_room and bytes_per_value > 1 and ds.workers > 1 else 0,
    )


class _Core:
    """The Python side of a pipeline: what TensorFlow's threads call.

    TensorFlow keeps every function that a graph calls until the process ends. The functions below therefore hold the
    core weakly, and the dataset object owns it: it lives as long as a dataset or an iterator that came from it.
    """

    def __init__(self, ds: VideoDataset, recipe: Recipe, *, num_threads: int) -> None:
        self.epochs = EpochCounter()
        self.recipe = recipe
        self.shape = ds.spec.shape
        self._ds = ds
        self._num_threads = num_threads
        self._door = door_of(self)

    def draw_epoch(self) -> np.int64:
        """Give the number of the epoch that an iterator begins."""
        with self._door.passed():
            return np.int64(self.epochs.draw())

    def load(self, epoch: np.int64, number: np.int64) -> list[NDArray[Any]]:
        """Give one batch as arrays: uint8 clips, then labels and weights as the recipe has them.

        Raises:
            ValueError: In place of an error of ours, for TensorFlow tells apart only built-in exceptions.
        """
        try:
            with self._door.passed():
                batch = self._ds.batch(int(epoch), int(number), workers=self._num_threads)
        except ClipfeedError as error:
            self._ds.ledger.keep(error)
            raise ValueError(f"{type(error).__name__}: {error}") from error
        labels = make_labels(batch, self.recipe)
        arrays: list[NDArray[Any]] = [batch.clips]
        if labels is not None:
            arrays.append(labels)
        if self.recipe.is_weighted:
            arrays.append(batch.weights)
        return [array[0] for array in arrays] if self.recipe.is_single else arrays


def _build(tf: Any, core: _Core, num_batches: int, ahead: Ahead) -> Any:  # noqa: ANN401  # a tf.data.Dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    batches = (
        tf.data.Dataset.range(num_batches)
        .scan(np.int64(-1), _epoch_drawer(tf, core))
        .map(_batch_maker(tf, core), num_parallel_calls=ahead.num_parallel, deterministic=True)
    )
    if ahead.num_prefetched:
        batches = batches.prefetch(ahead.num_prefetched)
    finish = _clip_finisher(tf, core.recipe)
    if finish is not None:
        # Behind the queue, so that most of what is ahead is bytes and not floats.
        in_parallel = {"num_parallel_calls": ahead.num_converted, "deterministic": True} if ahead.num_converted else {}
        batches = batches.map(finish, **in_parallel)
    return batches.with_options(options)


def _epoch_drawer(tf: Any, core: _Core) -> Any:  # noqa: ANN401  # a function of tensors
    """Give the scan's step: (epoch or -1, number) -> (epoch, (epoch, number))."""
    held = weakref.ref(core)

    def draw() -> np.int64:
        return _alive(held).draw_epoch()

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # tensorflow
    def step(epoch: Any, number: Any) -> tuple[Any, tuple[Any, Any]]:  # noqa: ANN401  # tensors
        drawn = tf.cond(
            epoch < 0, lambda: tf.ensure_shape(tf.numpy_function(draw, [], tf.int64), ()), lambda: tf.identity(epoch)
        )
        return drawn, (drawn, number)

    return step


def _batch_maker(tf: Any, core: _Core) -> Any:  # noqa: ANN401  # a function of tensors
    """Give the map's function: (epoch, number) -> uint8 clips, labels and weights of known shapes."""
    held = weakref.ref(core)
    specs = _array_specs(core.recipe, core.shape)
    dtypes = [tf.as_dtype(dtype) for dtype, _ in specs]

    def load(epoch: np.int64, number: np.int64) -> list[NDArray[Any]]:
        return _alive(held).load(epoch, number)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # tensorflow
    def make(epoch: Any, number: Any) -> Any:  # noqa: ANN401  # tensors
        arrays = tf.numpy_function(load, [epoch, number], dtypes)
        parts = [tf.ensure_shape(array, shape) for array, (_, shape) in zip(arrays, specs, strict=True)]
        return tuple(parts) if len(parts) > 1 else parts[0]

    return make


def _array_specs(recipe: Recipe, clip_shape: tuple[int, ...]) -> list[tuple[str, tuple[int | None, ...]]]:
    """Give dtype and shape of what `_Core.load` returns."""
    rows = () if recipe.is_single else (recipe.num_rows,)
    specs: list[tuple[str, tuple[int | None, ...]]] = [("uint8", (*rows, *clip_shape))]
    if recipe.label_form == "int":
        specs.append(("int32", rows))
    elif recipe.label_form is not None:
        specs.append(("float32", (*rows, 1 if recipe.label_form == "binary" else recipe.num_classes)))
    if recipe.is_weighted:
        specs.append(("float32", rows))
    return specs


def _clip_finisher(tf: Any, recipe: Recipe) -> Any:  # noqa: ANN401  # a function of tensors, or None
    """Give the function that turns uint8 clips into what the recipe says; None where they are that already.

    Bit for bit what `transform.to_value_range` computes. The numbers are tensors that the function captures: the graph
    optimiser of `tf.function` turns a division by a constant into a multiplication by its reciprocal (measured with
    TensorFlow 2.21: 126 of the 256 values come out different).
    """
    if recipe.value_range is None and not recipe.is_channels_first:
        return None
    low, high = (np.float32(end) for end in recipe.value_range or (0, 255))
    with tf.device("CPU:0"):
        largest, scale, offset = (tf.constant(number) for number in (np.float32(255), high - low, low))

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]  # tensorflow
    def finish(clips: Any, *others: Any) -> Any:  # noqa: ANN401  # tensors
        if recipe.is_channels_first:
            clips = tf.transpose(clips, (3, 0, 1, 2) if recipe.is_single else (0, 4, 1, 2, 3))
        if recipe.value_range is not None:
            clips = tf.cast(clips, tf.float32) / largest
            clips = clips * scale if high - low != 1 else clips
            clips = clips + offset if low != 0 else clips
            clips = tf.cast(clips, recipe.dtype)
        return (clips, *others) if others else clips

    return finish


def _alive(held: weakref.ref[_Core]) -> _Core:
    core = held()
    if core is None:
        raise RuntimeError("the clipfeed dataset that this pipeline reads from is gone: keep a reference to it")
    return core


def _leave_gpus_alone(tf: Any) -> None:  # noqa: ANN401  # tensorflow
    """Keep TensorFlow off the GPUs where JAX or PyTorch trains: by default it would take all of their memory."""
    if keras_backend() in (None, "tensorflow"):
        return
    with contextlib.suppress(RuntimeError):  # in use by TensorFlow already, by the user's own doing
        tf.config.set_visible_devices([], "GPU")
