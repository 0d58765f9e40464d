"""The small models that `train` knows by name: plain Keras 3 layers, so they run on every backend.

Nothing here reads a file, compiles or trains. Weights and dropout are seeded by argument, never through global state.
Inside, every model works with channels last; clips with channels first are turned at its entrance, because TensorFlow
has no other convolutions on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

from clipfeed._types import DataFormat
from clipfeed.deliver.frameworks import import_keras
from clipfeed.records import check_choice, checked_seed
from clipfeed.seeds import hash_words

__all__ = ["MODELS", "ModelName", "build_model"]

ModelName: TypeAlias = Literal["lrcn", "convlstm", "conv3d"]
MODELS: tuple[ModelName, ...] = get_args(ModelName)

Tensor: TypeAlias = Any
"""A Keras tensor (B, T, H, W, C) without data; Keras carries no types."""


def build_model(
    name: ModelName,
    clip_shape: tuple[int, int, int, int],
    num_classes: int,
    *,
    seed: int = 0,
    data_format: DataFormat = "channels_last",
) -> Any:  # noqa: ANN401  # a keras.Model: Keras may not be installed where types are read
    """Give a model that turns clips into class probabilities, not compiled.

        lrcn      a small picture network for each frame, then an LSTM over the frames
        convlstm  LSTMs whose states are pictures
        conv3d    convolutions over time and space together

    Args:
        name: "lrcn", "convlstm" or "conv3d".
        clip_shape: Shape of one clip as delivered: (T, H, W, C), or (C, T, H, W) for channels first. Any size of at
            least 1: poolings shrink to what is left of a small picture.
        num_classes: Number of probabilities.
        seed: Any whole number; makes initial weights and dropout repeatable.
        data_format: Where the channels are in `clip_shape`.

    Returns:
        A functional model from float clips (B, *clip_shape), made for 0..1, to float32 (B, num_classes) that sum to 1.

    Raises:
        ValueError: For another name, sizes below 1, or a seed that is no whole number.
        MissingDependencyError: If Keras is not installed.

    Example:
        >>> build_model("lrcn", (20, 64, 64, 3), 51).output_shape
        (None, 51)
    """
    check_choice("model", name, MODELS)
    check_choice("data_format", data_format, get_args(DataFormat))
    if len(clip_shape) != 4 or min(clip_shape) < 1:
        raise ValueError(f"clip_shape={clip_shape!r}: expected four sizes of at least 1, such as (20, 64, 64, 3)")
    if num_classes < 1:
        raise ValueError(f"num_classes={num_classes!r}: expected at least 1")
    number = checked_seed(seed)
    keras = import_keras()
    layers = _Seeded(number)
    inputs = keras.Input(clip_shape, name="clips")
    clips = inputs if data_format == "channels_last" else keras.layers.Permute((2, 3, 4, 1))(inputs)
    features = _BODIES[name](layers, clips)
    outputs = layers.dense(num_classes, activation="softmax", dtype="float32", name="probabilities")(features)
    return keras.Model(inputs, outputs, name=name)


class _Seeded:
    """Makes layers whose initial weights and dropout follow from one seed and the layer's number."""

    def __init__(self, seed: int) -> None:
        self._keras = import_keras()
        self._seed = seed
        self._num_drawn = 0

    def conv3d(self, filters: int, kernel_size: tuple[int, int, int], **options: object) -> Any:  # noqa: ANN401  # a layer
        return self._keras.layers.Conv3D(
            filters,
            kernel_size,
            padding="same",
            data_format="channels_last",
            kernel_initializer=self._uniform(),
            **options,
        )

    def conv_lstm(self, filters: int, *, recurrent_dropout: float) -> Any:  # noqa: ANN401  # a layer
        return self._keras.layers.ConvLSTM2D(
            filters,
            3,
            padding="same",
            data_format="channels_last",
            return_sequences=True,
            kernel_initializer=self._uniform(),
            recurrent_initializer=self._orthogonal(),
            recurrent_dropout=recurrent_dropout,
            seed=self._draw(),
        )

    def lstm(self, units: int) -> Any:  # noqa: ANN401  # a layer
        return self._keras.layers.LSTM(
            units,
            kernel_initializer=self._uniform(),
            recurrent_initializer=self._orthogonal(),
            seed=self._draw(),
        )

    def dense(self, units: int, **options: object) -> Any:  # noqa: ANN401  # a layer
        return self._keras.layers.Dense(units, kernel_initializer=self._uniform(), **options)

    def dropout(self, rate: float) -> Any:  # noqa: ANN401  # a layer
        return self._keras.layers.Dropout(rate, seed=self._draw())

    def pooling(self, inputs: Tensor, sizes: tuple[int, int, int]) -> Tensor:
        """Take the largest of each block; a block is never larger than what there is."""
        sizes = tuple(min(size, side) for size, side in zip(sizes, inputs.shape[1:4], strict=True))
        return self._keras.layers.MaxPooling3D(sizes, data_format="channels_last")(inputs)

    def batch_norm(self) -> Any:  # noqa: ANN401  # a layer
        # Keras's momentum of 0.99 takes hundreds of steps to forget the start; small data sets have tens an epoch.
        return self._keras.layers.BatchNormalization(momentum=0.9)

    def _uniform(self) -> Any:  # noqa: ANN401  # an initializer
        return self._keras.initializers.GlorotUniform(seed=self._draw())

    def _orthogonal(self) -> Any:  # noqa: ANN401  # an initializer
        return self._keras.initializers.Orthogonal(seed=self._draw())

    def _draw(self) -> int:
        self._num_drawn += 1
        return hash_words(self._seed, "model", self._num_drawn) % 2**31  # Keras's seeds are 32-bit, some signed


def _lrcn(make: _Seeded, clips: Tensor) -> Tensor:
    """A picture network for each frame, an LSTM over the frames.

    The convolutions and poolings have an extent of one frame: the same operation as TimeDistributed(Conv2D), which
    unrolls time in Python and took 9 times as long (20 x 64 x 64, TensorFlow 2.21 on two cores).

    Source: Donahue et al., CVPR 2015; sizes as in the tutorials on human activity recognition with Keras that use
    UCF50 at 20 frames of 64 x 64.
    """
    layers = import_keras().layers
    features = clips
    for number, (filters, pool) in enumerate(((16, 4), (32, 4), (64, 2), (64, 2))):
        features = make.conv3d(filters, (1, 3, 3), activation="relu")(features)
        features = make.pooling(features, (1, pool, pool))
        if number < 3:
            features = make.dropout(0.25)(features)
    features = layers.Reshape((clips.shape[1], -1))(features)
    return make.lstm(32)(features)


def _convlstm(make: _Seeded, clips: Tensor) -> Tensor:
    """Four convolutional LSTMs, each followed by a pooling over space.

    Source: Shi et al., NeurIPS 2015; sizes as in the same tutorials.
    """
    layers = import_keras().layers
    features = clips
    for number, filters in enumerate((4, 8, 14, 16)):
        features = make.conv_lstm(filters, recurrent_dropout=0.2)(features)
        features = make.pooling(features, (1, 2, 2))
        if number < 3:
            features = make.dropout(0.2)(features)
    return layers.Flatten()(features)


def _conv3d(make: _Seeded, clips: Tensor) -> Tensor:
    """Three convolutions over time and space, then the mean over what is left of both.

    Source: Tran et al., ICCV 2015 (kernels of 3 x 3 x 3, no pooling over time in the first block); the mean in place of
    dense layers keeps it small.
    """
    layers = import_keras().layers
    features = clips
    for filters, pools in ((16, (1, 2, 2)), (32, (2, 2, 2)), (64, (2, 2, 2))):
        features = make.conv3d(filters, (3, 3, 3), use_bias=False)(features)
        features = make.batch_norm()(features)
        features = layers.ReLU()(features)
        features = make.pooling(features, pools)
    features = layers.GlobalAveragePooling3D(data_format="channels_last")(features)
    return make.dropout(0.3)(features)


_BODIES: dict[ModelName, Callable[[_Seeded, Tensor], Tensor]] = {
    "lrcn": _lrcn,
    "convlstm": _convlstm,
    "conv3d": _conv3d,
}
