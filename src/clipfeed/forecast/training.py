"""How many clips a GPU's memory holds while a model is trained: an estimate from counting, never a measurement.

    memory = reserved + parameters x 16 bytes + clips x what is kept of one clip

- **16 bytes a parameter:** the float32 weight, its gradient, and the two moments that Adam keeps of it (Kingma and Ba,
  ICLR 2015, algorithm 1). Weights that are not trained take 4.
- **What is kept of a clip** until its gradients are known: each layer's output, 4 bytes a value, 1 to 7 times (masks,
  copies in another layout, gradients on the way back); of a recurrent layer 9 to 18 times, for its gates and states at
  every step are kept too.
- **Reserved:** 0.5 to 1.5 GB for driver, libraries, workspaces and fragmentation: an assumption.

Source of the factors: clips of 20 x 64 x 64 x 3 through three models and a ConvLSTM of 64 filters, on a CPU: tensors
that PyTorch 2.13 saves for the backward pass, temporary memory of the compiled gradient in JAX 0.10, growth of the peak
with the batch in TensorFlow 2.21. In MB a clip, and what is counted here:

                     outputs   PyTorch    JAX    TensorFlow    here
    lrcn                 7.8        17     51            11    8 to 54
    convlstm             4.5        35     58            37    23 to 57
    conv3d              28          44     72            32    28 to 198
    ConvLSTM of 64      22         223    297           195    190 to 384

The batch size to begin with is the usual advice for 64 x 64 clips of 20 frames on 8 GB, 8 to 16, lowered to what memory
holds. It is that of networks such as two ConvLSTMs of 64 filters, for which this count gives 8 to 19. The small models
of `learn` leave most of the memory free; more clips a batch then mean fewer steps an epoch and ask for another
learning rate, which is no question of memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from clipfeed.deliver.frameworks import import_keras
from clipfeed.forecast.report import Range, TrainingMemory
from clipfeed.learn.models import ModelName, build_model

__all__ = ["LayerCounts", "count_layers", "estimate_training", "fit_batches"]

_VALUE_BYTES = 4
_TRAINED_BYTES = 4 * _VALUE_BYTES
_KEPT_TIMES = (1, 7)
_KEPT_TIMES_RECURRENT = (9, 18)
_RESERVED_BYTES = (500_000_000, 1_500_000_000)
_USUAL_BATCH_SIZES = (8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCounts:
    """What a model is made of.

    Attributes:
        num_trained: Weights that are trained.
        num_frozen: Weights that are not.
        num_values: Values of the outputs of its layers for one clip, recurrent layers left out.
        num_recurrent_values: Values of the states of its recurrent layers for one clip, at all steps.
    """

    num_trained: int
    num_frozen: int
    num_values: int
    num_recurrent_values: int


def count_layers(model: Any) -> LayerCounts:  # noqa: ANN401  # a keras.Model
    """Count the weights and the values of a functional Keras model, each layer used once."""
    keras = import_keras()
    plain = recurrent = 0
    for layer in model.layers:
        values = math.prod(layer.output.shape[1:])
        if isinstance(layer, keras.layers.RNN):
            recurrent += values * (1 if layer.return_sequences else layer.input.shape[1])
        else:
            plain += values
    return LayerCounts(
        num_trained=sum(math.prod(weight.shape) for weight in model.trainable_weights),
        num_frozen=sum(math.prod(weight.shape) for weight in model.non_trainable_weights),
        num_values=plain,
        num_recurrent_values=recurrent,
    )


def fit_batches(counts: LayerCounts, model: ModelName, gpu_memory_bytes: int) -> TrainingMemory:
    """Say how many clips memory holds; the formula stands at the top of this module."""
    parameters = counts.num_trained * _TRAINED_BYTES + counts.num_frozen * _VALUE_BYTES
    least, most = (
        _VALUE_BYTES * (counts.num_values * times + counts.num_recurrent_values * times_recurrent)
        for times, times_recurrent in zip(_KEPT_TIMES, _KEPT_TIMES_RECURRENT, strict=True)
    )
    at_worst = max(0, gpu_memory_bytes - _RESERVED_BYTES[1] - parameters) // most
    at_best = max(0, gpu_memory_bytes - _RESERVED_BYTES[0] - parameters) // least
    return TrainingMemory(
        model=model,
        gpu_memory_bytes=gpu_memory_bytes,
        num_parameters=counts.num_trained + counts.num_frozen,
        parameter_bytes=parameters,
        reserved_bytes=_range(*_RESERVED_BYTES),
        clip_bytes=_range(least, most),
        max_batch_size_low=at_worst,
        max_batch_size_high=at_best,
        batch_size_low=min(_USUAL_BATCH_SIZES[0], at_worst),
        batch_size_high=min(_USUAL_BATCH_SIZES[1], at_best),
    )


def _range(low: int, high: int) -> Range:
    return Range(low=low, middle=math.sqrt(low * high), high=high)


def estimate_training(
    model: ModelName, clip_shape: tuple[int, int, int, int], num_classes: int, gpu_memory_bytes: int
) -> TrainingMemory:
    """Build a model, on the CPU, and say how many clips a GPU's memory holds while it is trained.

    Args:
        model: Name of the model.
        clip_shape: (T, H, W, C).
        num_classes: Classes it tells apart.
        gpu_memory_bytes: Memory of the GPU.

    Raises:
        MissingDependencyError: If Keras or its backend is not installed.
    """
    keras = import_keras()
    with keras.device("cpu:0"):  # a GPU may be at work for somebody else
        built = build_model(model, clip_shape, num_classes)
    return fit_batches(count_layers(built), model, gpu_memory_bytes)
