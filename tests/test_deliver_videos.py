"""All adapters over real videos: the same clips bit for bit, in the planned order, and errors that name their file."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed.testing import make_tree, read_frame_numbers, read_video_numbers, truncate_file

tf = pytest.importorskip("tensorflow", reason="the extra [tensorflow] is not installed")
keras = pytest.importorskip("keras", reason="Keras is not installed")

SPEC = cf.ClipSpec(num_frames=4, image_size=(48, 48), sampling=cf.Segments())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    make_tree(root, classes=("run", "walk"), sources_per_class=3, clips_per_source=2, num_frames=12)
    return root


@pytest.fixture
def index(root: Path, tmp_path: Path) -> cf.VideoIndex:
    return cf.build_index(root, index=tmp_path / "index")


def in_keras_order(ds: object) -> Iterator[object]:
    """One epoch of `fit`, as Keras asks for it."""
    ds.on_epoch_begin()
    numbers = np.random.default_rng(0).permutation(ds.num_batches)
    yield from (ds[int(number)] for number in numbers)
    ds.on_epoch_end()


@pytest.mark.parametrize("options", [{}, {"dtype": "uint8"}, {"dtype": "float16", "value_range": (-1, 1)}])
def test_every_format_gives_the_same_clips_in_the_same_order(index: cf.VideoIndex, options: dict) -> None:
    ds = cf.VideoDataset(index, SPEC, batch_size=5, training=True, seed=3)
    by_numpy, by_keras, by_tensorflow = (make(ds, **options) for make in (cf.to_numpy, cf.to_keras, cf.to_tensorflow))
    for epoch in range(2):
        expected = list(by_numpy)
        for number, (clips, labels) in enumerate(expected):
            batch = ds.batch(epoch, number)
            assert clips.dtype == options.get("dtype", "float32")
            assert labels.tolist() == batch.labels.tolist()
            if clips.dtype == np.uint8:
                assert (read_frame_numbers(clips) == batch.frame_indices).all()
        for items in (in_keras_order(by_keras), by_tensorflow.as_numpy_iterator()):
            for (clips, labels), (wanted_clips, wanted_labels) in zip(items, expected, strict=True):
                np.testing.assert_array_equal(clips, wanted_clips)
                np.testing.assert_array_equal(labels, wanted_labels)


def test_paths_and_labels_line_up_with_iteration_in_evaluation(index: cf.VideoIndex) -> None:
    core = cf.VideoDataset(index, SPEC, batch_size=5, training=False)
    for ds in (cf.to_numpy(core), cf.to_keras(core), cf.to_tensorflow(core)):
        labels = np.concatenate([np.asarray(labels) for _, labels in ds])
        assert labels.tolist() == ds.labels.tolist()
        assert [Path(path).parent.name for path in ds.file_paths] == [ds.class_names[label] for label in labels]


def test_single_clips_and_padded_batches_come_whole(index: cf.VideoIndex) -> None:
    single = cf.to_tensorflow(cf.VideoDataset(index, SPEC, batch_size=None, training=False), dtype="uint8")
    assert single.element_spec[0].shape == (4, 48, 48, 3)
    shown = [int(read_video_numbers(clip[None].numpy())[0, 0]) for clip, _ in single]
    assert len(set(shown)) == len(shown) == 12
    padded = cf.to_tensorflow(cf.VideoDataset(index, SPEC, batch_size=5, pad_last=True, seed=1))
    assert [int(np.sum(weights)) for *_, weights in padded] == [5, 5, 2]
    assert padded.element_spec[0].shape == (5, 4, 48, 48, 3)


def test_what_numpy_and_keras_are_given_survives_pickling(index: cf.VideoIndex) -> None:
    core = cf.VideoDataset(index, SPEC, batch_size=5, seed=3)
    for ds in (cf.to_numpy(core, dtype="uint8"), cf.to_keras(core, dtype="uint8")):
        copy = pickle.loads(pickle.dumps(ds))
        for (clips, labels), (same_clips, same_labels) in zip(ds, copy, strict=True):
            np.testing.assert_array_equal(clips, same_clips)
            np.testing.assert_array_equal(labels, same_labels)


def test_a_damaged_video_is_named_whatever_the_format(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree", classes=("run", "walk"), sources_per_class=1, clips_per_source=2, num_frames=12)
    index = cf.build_index(tmp_path / "tree", index=tmp_path / "index")
    ds = cf.VideoDataset(index, SPEC, batch_size=2, training=False)
    truncate_file(index.paths[2], 0.5)
    name = Path(index.paths[2]).name
    with pytest.raises(cf.ClipfeedError, match=name):
        list(cf.to_numpy(ds))
    with pytest.raises(cf.ClipfeedError, match=name):
        list(in_keras_order(cf.to_keras(ds)))
    with pytest.raises(tf.errors.InvalidArgumentError, match=name):
        list(cf.to_tensorflow(ds))
    assert name in ds.ledger.last_error.path


def test_fit_trains_on_videos_and_leaves_a_damaged_one_out(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree", classes=("run", "walk"), sources_per_class=2, clips_per_source=3, num_frames=12)
    index = cf.build_index(tmp_path / "tree", index=tmp_path / "index")
    truncate_file(index.paths[2], 0.5)
    clips = keras.Input(SPEC.shape)
    model = keras.Model(clips, keras.layers.Dense(2, "softmax")(keras.layers.GlobalAveragePooling3D()(clips)))
    model.compile("sgd", "sparse_categorical_crossentropy")
    for adapt in (cf.to_keras, cf.to_tensorflow):
        ds = cf.VideoDataset(index, SPEC, batch_size=4, seed=1)
        history = model.fit(adapt(ds), epochs=2, verbose=0, shuffle=False)
        assert np.isfinite(history.history["loss"]).all()
        assert [Path(failure.path) for failure in ds.ledger.failures] == [Path(index.paths[2])]
