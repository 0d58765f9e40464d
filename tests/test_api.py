"""The front door: Keras's arguments with Keras's meaning, and a message for everything that cannot be."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clipfeed as cf
from clipfeed import api
from clipfeed.testing import make_tree, read_video_numbers

CLASSES = ("run", "walk", "wave")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "HMDB51"
    make_tree(folder, classes=CLASSES, sources_per_class=5, clips_per_source=2, num_frames=12)
    return folder


@pytest.fixture
def load(root: Path, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.getbasetemp() / "index"

    def call(directory: Path = root, **arguments):
        given = {"num_frames": 4, "image_size": 48, "format": "numpy", "verbose": False, "index": folder, "seed": 1}
        return cf.video_dataset_from_directory(directory, **{**given, **arguments})

    return call


def test_the_eight_lines_give_batches_for_fit(load) -> None:
    train_ds, val_ds = load(format="tf", validation_split=0.2, subset="both", batch_size=8)
    clips, labels = next(iter(train_ds))
    assert clips.shape == (8, 4, 48, 48, 3)
    assert clips.dtype == "float32"
    assert clips.numpy().min() >= 0
    assert clips.numpy().max() <= 1
    assert labels.shape == (8,)
    assert labels.dtype == "int32"
    assert train_ds.class_names == val_ds.class_names == list(CLASSES)
    assert len(train_ds.file_paths) == 24
    assert len(val_ds.file_paths) == 6


def test_the_same_seed_gives_the_same_split_whether_both_parts_are_asked_for_or_one(load) -> None:
    train_ds, val_ds = load(validation_split=0.2, subset="both")
    assert load(validation_split=0.2, subset="training").file_paths == train_ds.file_paths
    assert load(validation_split=0.2, subset="validation").file_paths == val_ds.file_paths
    assert load(validation_split=0.2, subset="validation", shuffle=False).file_paths == val_ds.file_paths
    assert load(validation_split=0.2, subset="validation", num_frames=9).file_paths == val_ds.file_paths


def test_no_source_stands_on_both_sides_and_every_class_on_each(load) -> None:
    for seed in range(10):
        train_ds, val_ds = load(validation_split=0.2, subset="both", seed=seed)
        train, val = train_ds.clipfeed.index, val_ds.clipfeed.index
        assert not set(train.groups) & set(val.groups)
        assert set(train.labels.tolist()) == set(val.labels.tolist()) == {0, 1, 2}


def test_labels_and_file_paths_align_with_iteration_when_unshuffled(load) -> None:
    ds = load(shuffle=False, batch_size=7)
    labels = np.concatenate([labels for _, labels in ds])
    assert labels.tolist() == list(ds.labels) == [CLASSES.index(Path(path).parent.name) for path in ds.file_paths]


def test_each_epoch_has_another_order_and_holds_each_video_once(load) -> None:
    ds = load(dtype="uint8", batch_size=7)
    orders = [np.concatenate([read_video_numbers(clips)[:, 0] for clips, _ in ds]).tolist() for _ in range(2)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    assert len(set(orders[0])) == 30


@pytest.mark.parametrize(("label_mode", "shape", "dtype"), [("int", (6,), "int32"), ("categorical", (6, 3), "float32")])
def test_label_modes(load, label_mode, shape, dtype) -> None:
    _, labels = next(iter(load(label_mode=label_mode, batch_size=6)))
    assert labels.shape == shape
    assert labels.dtype == dtype


def test_binary_labels_need_two_classes(load) -> None:
    with pytest.raises(ValueError, match="2 classes, got 3"):
        load(label_mode="binary")
    _, labels = next(iter(load(label_mode="binary", class_names=["wave", "run"], batch_size=6)))
    assert labels.shape == (6, 1)
    assert labels.dtype == "float32"


def test_class_names_set_the_order_and_may_be_a_subset(load) -> None:
    ds = load(class_names=["wave", "run"], shuffle=False)
    assert ds.class_names == ["wave", "run"]
    assert len(ds.file_paths) == 20
    assert {Path(path).parent.name: label for path, label in zip(ds.file_paths, ds.labels, strict=True)} == {
        "run": 1,
        "wave": 0,
    }
    with pytest.raises(ValueError, match="swim"):
        load(class_names=["wave", "swim"])


def test_a_list_of_labels_is_taken_in_the_order_of_find_videos(load, root: Path) -> None:
    found = cf.find_videos(root)
    labels = [number % 2 for number in range(len(found))]
    ds = load(labels=labels, shuffle=False)
    assert list(ds.labels) == labels
    assert ds.file_paths == found.paths
    with pytest.raises(ValueError, match=r"29.*30|30.*29"):
        load(labels=labels[:-1])
    with pytest.raises(ValueError, match="class_names"):
        load(labels=labels, class_names=["run"])


def test_without_labels_only_clips_come(load) -> None:
    ds = load(labels=None, batch_size=4)
    assert next(iter(ds)).shape == (4, 4, 48, 48, 3)
    assert ds.class_names is None


def test_batch_size_none_gives_single_clips(load) -> None:
    clip, label = next(iter(load(batch_size=None)))
    assert clip.shape == (4, 48, 48, 3)
    assert np.shape(label) == ()


def test_channels_first_and_value_range(load) -> None:
    clips, _ = next(iter(load(data_format="channels_first", value_range=(-1, 1), dtype="float16", shuffle=False)))
    plain, _ = next(iter(load(dtype="uint8", shuffle=False)))
    assert clips.shape == (8, 3, 4, 48, 48)
    assert clips.dtype == np.float16
    wanted = np.float32(-1) + plain.astype(np.float32) / np.float32(255) * np.float32(2)
    assert np.array_equal(np.moveaxis(clips, 1, -1), wanted.astype(np.float16))


WRONG = [
    ({"batch_size": 0}, "batch_size=0"),
    ({"num_frames": 0}, "num_frames=0"),
    ({"image_size": (64, -1)}, "image_size"),
    ({"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, "at most"),
    ({"validation_split": 0.2}, "subset"),
    ({"subset": "training"}, "validation_split"),
    ({"validation_split": 1.5, "subset": "both"}, "between 0 and 1"),
    ({"validation_split": 0.2, "subset": "both", "seed": None}, "seed"),
    ({"subset": "dev"}, "'training', 'validation', 'both', 'test'"),
    ({"label_mode": "text"}, "label_mode='text'"),
    ({"color_mode": "rgba"}, "color_mode='rgba'"),
    ({"interpolation": "mitchell"}, "interpolation='mitchell'"),
    ({"sampling": "random"}, "sampling='random'"),
    ({"short_videos": "loop"}, "short_videos='loop'"),
    ({"format": "torchvision"}, "format='torchvision'"),
    ({"dtype": "float64"}, "dtype='float64'"),
    ({"dtype": "uint8", "value_range": (0, 1)}, "value_range"),
    ({"data_format": "NCHW"}, "data_format='NCHW'"),
    ({"errors": "ignore"}, "errors='ignore'"),
    ({"batch_size": None, "errors": cf.ErrorPolicy(on_error="skip")}, "batch_size is None"),
    ({"memory_budget": "much"}, "memory_budget='much'"),
    ({"shuffle": "no"}, "shuffle='no': expected True or False"),
    ({"follow_links": 0}, "follow_links=0: expected True or False"),
    ({"crop_to_aspect_ratio": "yes"}, "crop_to_aspect_ratio='yes': expected True or False"),
    ({"pad_to_aspect_ratio": 1}, "pad_to_aspect_ratio=1: expected True or False"),
    ({"verbose": 2}, "verbose=2: expected True or False"),
    ({"pad_last": None}, "pad_last=None: expected True or False"),
    ({"dtype": "float16", "value_range": (0, 1e5)}, r"value_range=\(0, 100000.0\).*'float16'"),
    ({"sampling": "uniform", "index": ""}, "index='': an empty path"),
    ({"workers": 0}, "workers"),
    ({"labels": "guessed"}, "labels"),
    ({"groups": "person", "validation_split": 0.2, "subset": "both"}, "groups"),
    ({"seed": 1.5}, "seed=1.5"),
    ({"seed": float("nan")}, "seed=nan"),
    ({"seed": float("inf")}, "seed=inf"),
    ({"seed": "one"}, "seed='one'"),
    ({"seed": [1]}, r"seed=\[1\]"),
    ({"label_mode": np.array(["int", "binary"])}, "label_mode=array"),
    ({"errors": np.array([1, 2])}, "errors=array"),
    ({"class_names": 5}, "class_names=5"),
    ({"class_names": {"jump", "run"}}, "class_names={"),
    ({"class_names": iter(["jump"])}, "class_names=<"),
    ({"num_frames": 10**20}, "num_frames=1000"),
    ({"clips_per_video": 10**20}, "clips_per_video=1000"),
]


@pytest.mark.parametrize(("arguments", "named"), WRONG, ids=lambda value: str(value)[:40])
def test_what_cannot_be_is_a_value_error_at_the_call_that_names_it(load, arguments, named) -> None:
    with pytest.raises(ValueError, match=named):
        load(**arguments)


# Whether a folder is split by its folders can only be seen there.
@pytest.mark.parametrize(("arguments", "named"), [row for row in WRONG if row[0] != {"subset": "training"}], ids=str)
def test_it_is_said_before_any_file_is_read(load, arguments, named, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=named):
        load(tmp_path / "nowhere", **arguments)


def test_a_missing_folder_and_an_empty_one_draw_the_expected_tree(load, tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(cf.LayoutError, match="one folder per class"):
            load(folder)


def test_a_folder_without_a_usable_video_lists_why(load, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for number in range(12):
        (tmp_path / "run" / f"{number}.mp4").write_bytes(b"" if number % 2 else b"not a video")
    with pytest.raises(cf.ProbeError) as caught:
        load(tmp_path)
    assert str(caught.value).count(".mp4: ") == 10
    assert "2 more" in str(caught.value)


def test_parts_given_by_folders_are_taken_by_subset(load, tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("train/run", "train/walk", "val/run", "val/walk", "test/run"), sources_per_class=1,
              clips_per_source=2, num_frames=8)  # fmt: skip
    train_ds, val_ds = load(tmp_path, subset="both")
    assert train_ds.class_names == ["run", "walk"]
    assert all("/train/" in path for path in train_ds.file_paths)
    assert len(train_ds.file_paths) == 4
    assert all("/val/" in path for path in val_ds.file_paths)
    assert val_ds.clipfeed.training is False
    assert len(load(tmp_path, subset="test").file_paths) == 2
    with pytest.raises(ValueError, match="already split by its folders"):
        load(tmp_path, subset="both", validation_split=0.2)
    with pytest.raises(ValueError, match="training, validation, test"):
        load(tmp_path)
    (tmp_path / "val").rename(tmp_path / "test2")
    (tmp_path / "test2").rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    with pytest.raises(cf.LayoutError, match="validation"):
        load(tmp_path, subset="both")


@pytest.mark.parametrize("arguments", [{}, {"subset": "validation"}, {"subset": "both", "validation_split": 0.2}])
def test_what_the_listing_tells_is_refused_before_any_file_is_opened(
    load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object]
) -> None:
    for part in ("train", "test"):
        (tmp_path / part / "run").mkdir(parents=True)
        (tmp_path / part / "run" / "a.avi").write_bytes(b"not looked at")
    monkeypatch.setattr(api, "build_index", lambda *_, **__: pytest.fail("files were opened"))
    with pytest.raises(ValueError, match="train, test"):
        load(tmp_path, **arguments)


def test_binary_labels_of_three_classes_are_refused_before_any_file_is_opened(
    load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "build_index", lambda *_, **__: pytest.fail("files were opened"))
    with pytest.raises(ValueError, match="2 classes, got 3: run, walk, wave"):
        load(label_mode="binary")


def test_verbose_says_what_was_found_split_and_delivered(load, capsys: pytest.CaptureFixture[str]) -> None:
    load(validation_split=0.2, subset="both", verbose=True)
    said = capsys.readouterr().out
    assert "Found 30 files belonging to 3 classes." in said
    assert "Using 24 files for training." in said
    assert "Using 6 files for validation." in said
    assert said.count("clips: ") == 1
    assert "leak" in said
    assert "clips: float32 (8, 4, 48, 48, 3) in 0..1, no Rescaling layer needed" in said


def test_names_that_no_terminal_shows_are_printed_as_escapes(load, root: Path, tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "data" / "run"
    folder.mkdir(parents=True)
    (folder / "fine.avi").write_bytes(next(root.rglob("*.avi")).read_bytes())
    (folder / os.fsdecode(b"br\xe9ken \xc3\xa9.avi")).write_bytes(b"no video")
    for encoding, shown in (("utf-8", "br\\udce9ken é.avi"), ("ascii", "br\\udce9ken \\xe9.avi")):
        said = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        monkeypatch.setattr(sys, "stdout", said)
        load(tmp_path / "data", verbose=True)
        said.seek(0)
        assert shown in said.read()


def test_numpy_flags_are_flags(load) -> None:
    flags = dict.fromkeys(["follow_links", "crop_to_aspect_ratio", "pad_to_aspect_ratio", "verbose"], np.False_)
    ds = load(**flags, shuffle=np.False_, pad_last=np.True_)
    assert not ds.clipfeed.training
    assert len(next(iter(ds))) == 3


def test_numpy_numbers_are_numbers(load) -> None:
    arguments = {"image_size": np.int64(16), "batch_size": np.int32(2), "seed": np.int64(1), "num_frames": np.int8(4)}
    train, _ = load(subset="both", validation_split=np.float32(0.25), **arguments)
    assert next(iter(train))[0].shape == (2, 4, 16, 16, 3)


def test_quiet_means_quiet(load, capsys: pytest.CaptureFixture[str]) -> None:
    load(validation_split=0.2, subset="both")
    assert capsys.readouterr().out == ""


def test_nothing_is_written_beside_the_data(load, root: Path) -> None:
    before = sorted(root.parent.rglob("*"))
    for _ in load(validation_split=0.2, subset="training"):
        pass
    assert sorted(root.parent.rglob("*")) == before


def test_a_missing_extra_is_named_with_its_pip_line_before_any_file_is_read(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import clipfeed as cf\n"
        f"cf.video_dataset_from_directory({str(tmp_path / 'nowhere')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert 'pip install "clipfeed[tensorflow]"' in done.stderr
    assert "nowhere" not in done.stderr.splitlines()[-1]
