"""The models that `train` knows by name."""

from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest

from clipfeed.learn import MODELS, build_model

# Keras reads variables in a way that NumPy 2 will not take for ever.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def clips_of(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, np.float32)


@pytest.mark.parametrize(
    ("name", "clip_shape"), list(itertools.product(MODELS, [(20, 64, 64, 3), (16, 112, 112, 3), (1, 5, 9, 1)]))
)
def test_models_take_clips_of_any_size(name: str, clip_shape: tuple[int, ...]) -> None:
    model = build_model(name, clip_shape, 51)
    assert model.input_shape == (None, *clip_shape)
    assert model.output_shape == (None, 51)
    assert model.count_params() < 3_000_000


@pytest.mark.parametrize("name", MODELS)
def test_models_give_probabilities_and_do_not_care_where_the_channels_are(name: str) -> None:
    last = build_model(name, (3, 8, 12, 3), 4, seed=5)
    first = build_model(name, (3, 3, 8, 12), 4, seed=5, data_format="channels_first")
    clips = clips_of(2, 3, 8, 12, 3)
    given = keras.ops.convert_to_numpy(last(clips))
    assert given.shape == (2, 4)
    np.testing.assert_allclose(given.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(given, keras.ops.convert_to_numpy(first(np.moveaxis(clips, -1, 1))), rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_follow_from_the_seed_alone(name: str) -> None:
    shape = (2, 8, 8, 3)
    keras.utils.set_random_seed(1)
    one = build_model(name, shape, 3, seed=7).get_weights()
    keras.utils.set_random_seed(2)
    same = build_model(name, shape, 3, seed=7).get_weights()
    other = build_model(name, shape, 3, seed=8).get_weights()
    assert all(np.array_equal(left, right) for left, right in zip(one, same, strict=True))
    assert not all(np.array_equal(left, right) for left, right in zip(one, other, strict=True))


def test_lrcn_looks_at_each_frame_by_itself_before_the_lstm() -> None:
    model = build_model("lrcn", (4, 16, 16, 3), 3)
    lstm = next(layer for layer in model.layers if isinstance(layer, keras.layers.LSTM))
    frames = keras.Model(model.input, lstm.input)
    clips = clips_of(1, 4, 16, 16, 3)
    changed = clips.copy()
    changed[0, 2] = 0
    before, after = (keras.ops.convert_to_numpy(frames(given)) for given in (clips, changed))
    is_same = np.isclose(before, after).all(axis=(0, 2))
    assert is_same.tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    "arguments",
    [("resnet", (2, 8, 8, 3), 3), ("lrcn", (2, 8, 8), 3), ("lrcn", (0, 8, 8, 3), 3), ("conv3d", (2, 8, 8, 3), 0)],
)
def test_what_cannot_be_built_is_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        build_model(*arguments)
