"""Batch sizes from counting: by hand, from built models, and against the usual advice."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clipfeed.forecast import forecast_directory
from clipfeed.forecast.text import answers_of
from clipfeed.forecast.training import LayerCounts, count_layers, estimate_training, fit_batches
from clipfeed.learn import MODELS
from clipfeed.testing import make_tree

GB = 10**9
SHAPE = (20, 64, 64, 3)


def test_the_formula_by_hand() -> None:
    counts = LayerCounts(num_trained=1000, num_frozen=10, num_values=10**6, num_recurrent_values=10**5)
    told = fit_batches(counts, "lrcn", 8 * GB)
    assert told.parameter_bytes == 1000 * 16 + 10 * 4
    assert told.clip_bytes.low == 4 * (10**6 + 9 * 10**5)
    assert told.clip_bytes.high == 4 * (7 * 10**6 + 18 * 10**5)
    assert told.max_batch_size_low == (8 * GB - 1_500_000_000 - told.parameter_bytes) // 35_200_000
    assert told.max_batch_size_high == (8 * GB - 500_000_000 - told.parameter_bytes) // 7_600_000


def test_more_memory_holds_more_and_a_small_one_nothing() -> None:
    counts = LayerCounts(num_trained=10**6, num_frozen=0, num_values=10**8, num_recurrent_values=0)
    told = [fit_batches(counts, "lrcn", size * GB) for size in (1, 2, 8, 80)]
    assert all(
        (one.max_batch_size_low, one.max_batch_size_high) < (next.max_batch_size_low, next.max_batch_size_high)
        for one, next in pairwise(told[1:])
    )
    assert told[0].max_batch_size_low == told[0].batch_size_low == 0
    assert all(each.batch_size_low <= each.batch_size_high <= 16 for each in told)


@pytest.fixture(scope="module")
def keras() -> Any:
    return pytest.importorskip("keras", reason="batch sizes are counted from a built model")


def test_layers_of_a_model_are_counted_once_each(keras: Any) -> None:
    clips = keras.Input((4, 8, 8, 3))
    features = keras.layers.ConvLSTM2D(5, 3, padding="same")(clips)
    model = keras.Model(clips, keras.layers.Dense(2)(keras.layers.Flatten()(features)))
    counts = count_layers(model)
    assert counts.num_trained == model.count_params() == 4 * 5 * (9 * (3 + 5) + 1) + 8 * 8 * 5 * 2 + 2
    assert counts.num_recurrent_values == 4 * 8 * 8 * 5  # at every step, though the last alone is handed on
    assert counts.num_values == 4 * 8 * 8 * 3 + 8 * 8 * 5 + 2


def test_two_wide_conv_lstms_give_the_usual_8_to_16_on_8_gb(keras: Any) -> None:
    clips = features = keras.Input(SHAPE)
    for _ in range(2):
        features = keras.layers.ConvLSTM2D(64, 3, padding="same", return_sequences=True)(features)
    model = keras.Model(clips, keras.layers.Dense(51)(keras.layers.GlobalAveragePooling3D()(features)))
    told = fit_batches(count_layers(model), "convlstm", 8 * GB)
    assert told.max_batch_size_low in (7, 8)
    assert told.max_batch_size_high in (19, 20)
    assert (told.batch_size_low, told.batch_size_high) in ((7, 16), (8, 16))


# Bytes a clip that PyTorch, JAX and TensorFlow take on a CPU, as measured (see the module).
MEASURED = {"lrcn": (11e6, 51e6), "convlstm": (35e6, 58e6), "conv3d": (32e6, 72e6)}


@pytest.mark.usefixtures("keras")
@pytest.mark.parametrize("model", MODELS)
def test_the_range_holds_what_three_frameworks_take(model: Any) -> None:
    told = estimate_training(model, SHAPE, 51, 8 * GB)
    least, most = MEASURED[model]
    assert told.clip_bytes.low <= least
    assert most <= told.clip_bytes.high * 1.05
    assert (told.batch_size_low, told.batch_size_high) == (8, 16)
    assert told.max_batch_size_low > 16


@pytest.mark.usefixtures("keras")
def test_larger_clips_and_smaller_gpus_lower_the_batch(tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("run", "walk"), sources_per_class=3, num_frames=30)
    told = [
        forecast_directory(tmp_path, model="conv3d", num_frames=24, image_size=size, gpu_memory=memory).training
        for size, memory in ((64, "8GB"), (224, "8GB"), (224, "2GB"))
    ]
    lows = [each.max_batch_size_low for each in told if each is not None]
    assert lows[0] > lows[1] > lows[2]


@pytest.mark.usefixtures("keras")
def test_the_report_calls_it_an_estimate_and_shows_the_arithmetic(tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("run", "walk"), sources_per_class=3)
    told = forecast_directory(tmp_path, gpu_memory="8GB")
    line = dict(answers_of(told))["batch size"]
    assert line.startswith("8 to 16 to begin with")
    assert "an estimate" in line
    assert "Adam" in line
    nothing = forecast_directory(tmp_path, gpu_memory="100MB")
    assert dict(answers_of(nothing))["batch size"].startswith("not one clip fits")


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed:UserWarning")  # Keras says it of every tf.data.Dataset
def test_the_lines_run_as_they_are_pasted(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="the lines ask for a tf.data.Dataset")
    make_tree(tmp_path, classes=("run", "walk"), sources_per_class=3, num_frames=8)
    told = forecast_directory(tmp_path, num_frames=4, image_size=16, batch_size=4, gpu_memory=None)
    assert 'cache="disk"' in told.code
    names: dict[str, Any] = {}
    exec(told.code.replace("epochs=30", "epochs=1"), names)
    assert names["model"].input_shape == (None, 4, 16, 16, 3)
    assert names["train_ds"].clipfeed.batch_size == 4
