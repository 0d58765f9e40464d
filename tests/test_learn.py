"""The whole job through `clipfeed.learn`: train, be killed, go on, judge, predict."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import pytest

import clipfeed as cf
from clipfeed.cache import list_packs
from clipfeed.demo import CLASSES, DemoSize, write_demo_videos
from clipfeed.learn import Listener, TrainOptions, evaluate, open_run, predict, resume, train, write_evaluation

# Keras saves TensorFlow's variables in a way that NumPy 2 will not take for ever.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

CLIPS = cf.ClipSpec(num_frames=4, image_size=(8, 8), sampling=cf.Segments())
OPTIONS = TrainOptions(model="lrcn", epochs=3, batch_size=4, validation_split=0.34, seed=3)
STEPS_PER_EPOCH = 3  # 12 training videos in batches of 4
FIGURES = ("accuracy", "loss", "val_accuracy", "val_loss")


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """18 videos: 6 classes, 3 sources, one clip each."""
    folder = tmp_path_factory.mktemp("data") / "videos"
    write_demo_videos(folder, size=DemoSize(num_sources=3, clips_per_source=1))
    return folder


@pytest.fixture(scope="module")
def index_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="module")
def whole(videos: Path, index_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> cf.learn.TrainedRun:
    """A run that nothing interrupted."""
    return train(videos, tmp_path_factory.mktemp("runs") / "whole", clips=CLIPS, options=OPTIONS, index=index_folder)


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def figures_of(row: cf.learn.EpochRow) -> list[float]:
    return [getattr(row, name) for name in FIGURES]


def weights_of(run: str | Path) -> list[np.ndarray]:
    return keras.models.load_model(Path(run) / "last.keras").get_weights()


# The run folder


def test_a_run_folder_holds_everything_needed_to_repeat_and_judge_the_run(whole: cf.learn.TrainedRun) -> None:
    run = Path(whole.path)
    names = {path.name for path in run.iterdir()}
    assert names == {
        "config.json", "class_names.json", "split.json", "last.keras", "best.keras", "state.json", "history.csv",
        "metrics.json", "predictions.csv", "left_out.csv",
    }  # fmt: skip
    assert json.loads((run / "class_names.json").read_text()) == list(CLASSES)
    config = open_run(run).read_config()
    assert (config.clips, config.options, config.split_source) == (CLIPS, OPTIONS, "split")
    assert {"clipfeed", "keras", "numpy", "av"} <= set(config.versions)


def test_history_has_one_row_an_epoch(whole: cf.learn.TrainedRun) -> None:
    rows = read_csv(Path(whole.path) / "history.csv")
    assert [int(row["epoch"]) for row in rows] == [0, 1, 2]
    for row, kept in zip(rows, whole.history, strict=True):
        assert {name: float(row[name]) for name in FIGURES} == {name: getattr(kept, name) for name in FIGURES}


def test_the_state_says_how_far_the_run_has_come(whole: cf.learn.TrainedRun) -> None:
    state = json.loads((Path(whole.path) / "state.json").read_text())
    assert (state["epochs_done"], state["seed"]) == (3, 3)
    assert {name: part["num_videos"] for name, part in state["split"].items()} == {"train": 12, "val": 6}
    accuracies = [row.val_accuracy for row in whole.history]
    assert state["best_epoch"] == whole.best_epoch == accuracies.index(max(accuracies))


def test_predictions_stand_beside_the_path_and_label_of_the_same_video(whole: cf.learn.TrainedRun) -> None:
    rows = read_csv(Path(whole.path) / "predictions.csv")
    assert len(rows) == 6
    model = keras.models.load_model(Path(whole.path) / "last.keras")
    for row in rows:
        assert row["label"] == Path(row["path"]).parent.name
        clip = cf.load_video(row["path"], num_frames=4, image_size=(8, 8), sampling=cf.Segments())
        probabilities = keras.ops.convert_to_numpy(model(clip[np.newaxis]))[0]
        assert float(row["probability"]) == pytest.approx(probabilities.max(), abs=1e-4)
        assert probabilities[CLASSES.index(row["predicted"])] == pytest.approx(probabilities.max(), abs=1e-6)


def test_metrics_are_those_of_the_last_epoch(whole: cf.learn.TrainedRun) -> None:
    metrics = json.loads((Path(whole.path) / "metrics.json").read_text())
    assert metrics["checkpoint"] == "last"
    assert metrics["top1"] == pytest.approx(whole.history[-1].val_accuracy, abs=1e-6)
    assert metrics["num_videos"] == 6


def test_the_two_parts_share_no_source(whole: cf.learn.TrainedRun) -> None:
    split = open_run(whole.path).read_split()
    sources = {name: {Path(key).name.split("_")[0] for key in part["keys"]} for name, part in split.items()}
    assert len(sources["train"]) == 2
    assert not sources["train"] & sources["val"]


def test_a_folder_that_holds_something_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds something already"):
        train(tmp_path / "nowhere", tmp_path, options=OPTIONS)


def test_a_run_is_not_trained_over(whole: cf.learn.TrainedRun, videos: Path) -> None:
    with pytest.raises(FileExistsError, match=r"holds a run already; resume"):
        train(videos, whole.path, options=OPTIONS)


# Going on


def test_a_run_killed_in_mid_epoch_goes_on_as_if_nothing_had_happened(
    whole: cf.learn.TrainedRun, videos: Path, index_folder: Path, tmp_path: Path
) -> None:
    script = f"""
    import os, signal
    import clipfeed as cf
    from clipfeed.learn import Listener, TrainOptions, train

    def on_step(done, total):
        if done == {STEPS_PER_EPOCH} * 2 + 2:
            os.kill(os.getpid(), signal.SIGKILL)

    train({str(videos)!r}, {str(tmp_path / "run")!r}, index={str(index_folder)!r},
          clips=cf.ClipSpec(num_frames=4, image_size=(8, 8), sampling=cf.Segments()),
          options=TrainOptions(model="lrcn", epochs=3, batch_size=4, validation_split=0.34, seed=3),
          listener=Listener(on_step=on_step))
    """
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=os.environ, capture_output=True, check=False, timeout=240
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]
    killed = json.loads((tmp_path / "run" / "state.json").read_text())
    assert killed["epochs_done"] == 2
    assert not (tmp_path / "run" / "metrics.json").exists()

    epochs: list[float] = []
    done = resume(tmp_path / "run", listener=Listener(on_epoch=lambda row: epochs.append(row.epoch)))

    assert epochs == [2]
    for row, wanted in zip(done.history, whole.history, strict=True):
        assert figures_of(row) == pytest.approx(figures_of(wanted), rel=1e-4)
    for weights, wanted in zip(weights_of(done.path), weights_of(whole.path), strict=True):
        np.testing.assert_allclose(weights, wanted, rtol=1e-3, atol=1e-5)
    assert done.evaluation.paths == whole.evaluation.paths


def test_a_finished_run_can_be_trained_longer(whole: cf.learn.TrainedRun, tmp_path: Path) -> None:
    run = copy_run(whole, tmp_path / "longer")
    longer = resume(run, options=replace(OPTIONS, epochs=4))
    assert [row.epoch for row in longer.history] == [0, 1, 2, 3]
    assert open_run(run).read_config().options.epochs == 4
    assert len(read_csv(run / "history.csv")) == 4


def test_resuming_a_finished_run_only_judges_it_again(whole: cf.learn.TrainedRun, tmp_path: Path) -> None:
    run = copy_run(whole, tmp_path / "again")
    (run / "metrics.json").unlink()
    again = resume(run)
    assert again.history == whole.history
    np.testing.assert_allclose(again.evaluation.probabilities, whole.evaluation.probabilities, atol=1e-5)
    assert (run / "metrics.json").exists()


def test_a_run_with_a_cache_is_the_run_without_one_and_goes_on_without_it(
    whole: cf.learn.TrainedRun, videos: Path, index_folder: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    cache, shorter = cf.Cache(tmp_path / "frames"), replace(OPTIONS, epochs=2)
    listener = Listener(on_cache=lines.append)
    options = {"clips": CLIPS, "options": shorter, "index": index_folder, "cache": cache, "listener": listener}
    run = Path(train(videos, tmp_path / "run", **options).path)
    assert "in " + str(tmp_path / "frames") in lines[0]
    assert sum(pack.num_filled for pack in list_packs(cache.folder)) == 18
    assert "frames" not in (run / "config.json").read_text().replace("num_frames", "")
    shutil.rmtree(tmp_path / "frames")
    done = resume(run, options=OPTIONS)
    for row, wanted in zip(done.history, whole.history, strict=True):
        assert figures_of(row) == pytest.approx(figures_of(wanted), rel=1e-4)


def test_a_run_on_frames_kept_as_jpeg_goes_on_with_such_frames_only(
    whole: cf.learn.TrainedRun, videos: Path, index_folder: Path, tmp_path: Path
) -> None:
    cache, shorter = cf.Cache(where="memory", codec="jpeg"), replace(OPTIONS, epochs=1)
    run = train(videos, tmp_path / "run", clips=CLIPS, options=shorter, index=index_folder, cache=cache).path
    for other in (None, cf.Cache(tmp_path / "frames")):
        with pytest.raises(ValueError, match=r'kept as JPEG.*\n  fix: pass a cache with codec="jpeg"'):
            resume(run, cache=other)
    again = cf.Cache(tmp_path / "frames", codec="jpeg")
    assert len(resume(run, options=replace(OPTIONS, epochs=2), cache=again).history) == 2
    with pytest.raises(ValueError, match=r"as they were decoded.*\n  fix: pass no cache"):
        resume(whole.path, cache=again)


def test_going_on_with_something_else_is_refused_with_both_values(whole: cf.learn.TrainedRun) -> None:
    with pytest.raises(ValueError, match=r"batch_size: 4 when the run began, 8 now\n.*fix:"):
        resume(whole.path, options=replace(OPTIONS, batch_size=8))
    with pytest.raises(ValueError, match="num_frames: 4 when the run began, 5 now"):
        resume(whole.path, clips=replace(CLIPS, num_frames=5))


def test_fewer_epochs_than_are_done_are_refused(whole: cf.learn.TrainedRun) -> None:
    with pytest.raises(ValueError, match="epochs=2: the run has done 3 already"):
        resume(whole.path, options=replace(OPTIONS, epochs=2))


def test_what_cannot_be_trained_leaves_no_run_folder(videos: Path, index_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none of the 12 videos is long enough"):
        train(videos, tmp_path / "run", clips=replace(CLIPS, num_frames=99), options=OPTIONS, index=index_folder)
    assert not (tmp_path / "run").exists()


def test_a_changed_split_is_refused(whole: cf.learn.TrainedRun, tmp_path: Path) -> None:
    run = copy_run(whole, tmp_path / "changed")
    split = json.loads((run / "split.json").read_text())
    for column in split["train"].values():
        column.pop()
    (run / "split.json").write_text(json.dumps(split))
    with pytest.raises(ValueError, match=r"split\.json or the seed is not what last\.keras was trained with"):
        resume(run)


def test_videos_that_are_gone_or_changed_are_named(whole: cf.learn.TrainedRun, videos: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    for path in videos.rglob("*.avi"):
        link = moved / path.relative_to(videos)
        link.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, link)
    key = open_run(whole.path).read_split()["val"]["keys"][0]
    other = open_run(whole.path).read_split()["train"]["keys"][0]
    assert evaluate(whole.path, data=moved, part="val").metrics.num_videos == 6

    (moved / key).unlink()
    (moved / key).write_bytes((videos / other).read_bytes())
    with pytest.raises(cf.StaleIndexError, match=f"1 of the 6 videos.*\n  {key}"):
        evaluate(whole.path, data=moved, part="val")
    (moved / key).unlink()
    with pytest.raises(cf.LayoutError, match=f"1 of the 6 videos of part 'val' are not here.*\n  {key}"):
        resume(whole.path, data=moved)


def test_a_state_that_is_older_than_the_model_is_mended(whole: cf.learn.TrainedRun, tmp_path: Path) -> None:
    """A kill between the renaming of last.keras and the writing of state.json."""
    run = copy_run(whole, tmp_path / "torn")
    state = json.loads((run / "state.json").read_text())
    (run / "state.json").write_text(json.dumps({**state, "epochs_done": 1, "history": state["history"][:1]}))
    (run / "history.csv").unlink()
    done = resume(run)
    assert len(done.history) == 3
    assert json.loads((run / "state.json").read_text())["epochs_done"] == 3
    assert len(read_csv(run / "history.csv")) == 3


def test_what_is_no_run_folder_is_refused(tmp_path: Path, whole: cf.learn.TrainedRun) -> None:
    for use in (resume, evaluate, lambda run: predict([], run)):
        with pytest.raises(cf.LayoutError, match=r"is not a run folder: it has no config\.json"):
            use(tmp_path)
    run = copy_run(whole, tmp_path / "garbled")
    (run / "config.json").write_text("{}")
    with pytest.raises(cf.LayoutError, match="cannot be read"):
        evaluate(run)


@pytest.mark.parametrize(
    "use", [resume, evaluate, open_run, lambda run: predict([], run), lambda run: train("videos", run)]
)
def test_an_empty_path_is_never_the_current_folder(use: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match="run='': an empty path names nothing"):
        use("")


def test_empty_paths_beside_the_run_are_refused(whole: cf.learn.TrainedRun, videos: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="index='': an empty path"):
        train(videos, tmp_path / "run", index="")
    with pytest.raises(ValueError, match="directory='': an empty path"):
        write_evaluation(whole.evaluation, "")
    for use in (
        lambda: train("", tmp_path / "run"),
        lambda: resume(whole.path, data=""),
        lambda: evaluate(whole.path, data=""),
        lambda: predict("", whole.path),
    ):
        with pytest.raises(cf.LayoutError, match="the path is empty"):
            use()
    assert not (tmp_path / "run").exists()


# Judging


def test_evaluation_can_be_repeated_and_other_parts_judged(whole: cf.learn.TrainedRun) -> None:
    again = evaluate(whole.path)
    np.testing.assert_allclose(again.probabilities, whole.evaluation.probabilities, atol=1e-5)
    assert evaluate(whole.path, part="train", checkpoint="best").metrics.num_videos == 12
    with pytest.raises(ValueError, match="part='test': expected one of 'train', 'val'"):
        evaluate(whole.path, part="test")


def test_other_videos_are_judged_by_the_names_of_their_classes(
    whole: cf.learn.TrainedRun, videos: Path, tmp_path: Path
) -> None:
    for name in ("move_up", "circle_right"):  # two of the six: labels 5 and 1 of the run, 1 and 0 of the folder
        (tmp_path / "other" / name).mkdir(parents=True)
        source = sorted((videos / name).iterdir())[0]
        (tmp_path / "other" / name / "clip.avi").write_bytes(source.read_bytes())
    evaluation = evaluate(whole.path, data=tmp_path / "other")
    assert [Path(path).parent.name for path in evaluation.paths] == ["circle_right", "move_up"]
    assert evaluation.labels.tolist() == [CLASSES.index("circle_right"), CLASSES.index("move_up")]

    (tmp_path / "other" / "swim").mkdir()
    (tmp_path / "other" / "swim" / "clip.avi").write_bytes(source.read_bytes())
    with pytest.raises(ValueError, match="classes swim are unknown to the run"):
        evaluate(whole.path, data=tmp_path / "other")


# Predicting


def test_new_files_are_predicted_without_the_training_data_and_bad_ones_are_listed(
    whole: cf.learn.TrainedRun, tmp_path: Path
) -> None:
    run = copy_run(whole, tmp_path / "alone")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "directory": "/nowhere", "index": "/nowhere"}))
    expected = dict(zip(whole.evaluation.paths, whole.evaluation.probabilities, strict=True))
    broken = tmp_path / "broken.avi"
    broken.write_text("no video")
    files = [*list(expected)[:5], str(broken), str(tmp_path / "absent.avi"), list(expected)[5]]

    done: list[tuple[int, int]] = []
    found = predict(files, run, progress=lambda *step: done.append(step))

    assert found.paths == tuple(expected)
    np.testing.assert_allclose(found.probabilities, np.stack(list(expected.values())), atol=1e-5)
    assert [failure.path for failure in found.failures] == [str(broken), str(tmp_path / "absent.avi")]
    assert all(failure.reason for failure in found.failures)
    first = next(iter(found))
    assert first.class_name == CLASSES[int(found.probabilities[0].argmax())]
    assert first.probability == pytest.approx(float(found.probabilities[0].max()))
    assert done == [(number, len(files)) for number in range(1, len(files) + 1)]


def test_a_folder_stands_for_the_videos_in_it(whole: cf.learn.TrainedRun, videos: Path) -> None:
    found = predict(videos / "move_up", whole.path, workers=1)
    assert [Path(path).name for path in found.paths] == sorted(path.name for path in (videos / "move_up").iterdir())


@pytest.mark.parametrize("workers", [0, -1, True, 1.5, "2"])
def test_predicting_with_no_number_of_workers_is_refused(workers: object) -> None:
    with pytest.raises(ValueError, match=f"workers={workers!r}: expected a whole number of at least 1"):
        predict([], "nowhere", workers=workers)


def test_predicting_nothing_usable_gives_no_rows(whole: cf.learn.TrainedRun, tmp_path: Path) -> None:
    found = predict(tmp_path / "absent.avi", whole.path)
    assert len(found) == 0
    assert found.probabilities.shape == (0, 6)
    assert len(found.failures) == 1


# Around it


def test_parts_cut_by_the_caller_are_trained_on_as_they_are(videos: Path, index_folder: Path, tmp_path: Path) -> None:
    index = cf.build_index(videos, index=index_folder)
    parts = {"train": index.select([0, 3, 6, 9, 12, 15], "train"), "val": index.select([17, 1], "val")}
    rates: list[float] = []
    options = TrainOptions(model="conv3d", epochs=2, batch_size=4, decay="cosine", data_format="channels_first")
    done = train(
        parts,
        tmp_path / "run",
        clips=replace(CLIPS, sampling="uniform"),
        options=options,
        index=index_folder,
        listener=Listener(on_epoch=lambda row: rates.append(row.learning_rate)),
    )
    assert done.num_videos == {"train": 6, "val": 2}
    assert [Path(path).name for path in done.evaluation.paths] == [Path(path).name for path in parts["val"].paths]
    assert done.config.split_source == "given"
    assert rates == pytest.approx([0.001, 0.0005])
    with pytest.raises(ValueError, match="epochs=3: the run began with 2"):
        resume(done.path, options=replace(options, epochs=3))


def test_files_that_are_not_used_are_listed(videos: Path, index_folder: Path, tmp_path: Path) -> None:
    index = cf.build_index(videos, index=index_folder)
    short = [path for path, count in zip(index.paths, index.num_frames, strict=True) if count < 30]
    done = train(
        {"train": index, "val": index},
        tmp_path / "run",
        clips=cf.ClipSpec(num_frames=30, image_size=4),
        options=TrainOptions(model="conv3d", epochs=1),
    )
    assert 0 < len(short) < len(index)
    assert [failure.path for failure in done.left_out] == short
    assert [row["path"] for row in read_csv(Path(done.path) / "left_out.csv")] == short


def test_a_damaged_validation_video_ends_training_with_its_name_and_a_training_video_is_left_out(
    tmp_path: Path,
) -> None:
    write_demo_videos(tmp_path / "videos", size=DemoSize(num_sources=3, clips_per_source=1))
    index = cf.build_index(tmp_path / "videos", index=tmp_path / "index")
    damaged = damage(Path(index.paths[3]))
    others = [place for place in range(len(index)) if place != 3]
    options = TrainOptions(model="conv3d", epochs=1, batch_size=4)
    clips = replace(CLIPS, sampling="uniform")
    with pytest.raises(cf.DecodeError, match=re.escape(damaged)):
        train({"train": index.select(others), "val": index.select([3])}, tmp_path / "one", clips=clips, options=options)
    done = train({"train": index, "val": index.select([0])}, tmp_path / "two", clips=clips, options=options)
    assert [failure.path for failure in done.left_out] == [damaged]

    longer = resume(
        done.path,
        data=cf.build_index(tmp_path / "videos", index=tmp_path / "index"),
        options=replace(options, epochs=2),
    )
    assert [failure.path for failure in longer.left_out] == [damaged]
    assert longer.num_videos == {"train": len(index) - 1, "val": 1}


def damage(path: Path) -> str:
    """Overwrite the middle of a file and leave size and time as they were."""
    content, stat = bytearray(path.read_bytes()), path.stat()
    content[3000:-2000] = bytes(len(content) - 5000)
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return str(path)


def test_one_class_is_refused(videos: Path, index_folder: Path, tmp_path: Path) -> None:
    index = cf.build_index(videos, index=index_folder, class_names=["move_up"])
    with pytest.raises(cf.LayoutError, match="only one class: move_up"):
        train(index, tmp_path / "run", options=OPTIONS)


def test_importing_learn_imports_no_framework() -> None:
    script = (
        "import sys, clipfeed.learn, clipfeed.demo\n"
        "print([name for name in ('keras', 'tensorflow', 'jax', 'torch') if name in sys.modules])"
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert child.stdout.strip() == "[]"


def copy_run(run: cf.learn.TrainedRun, path: Path) -> Path:
    path.mkdir()
    for file in Path(run.path).iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    return path
