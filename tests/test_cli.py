"""The command line: thin, scriptable, and clear when something is wrong."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
from typer.testing import CliRunner, Result

from clipfeed.cli import check
from clipfeed.cli._app import app
from clipfeed.cli._say import path_of
from clipfeed.testing import damage_file, make_tree

COMMANDS = ("demo", "index", "check", "split", "forecast", "train", "evaluate", "predict", "bench")


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def call_apart(*words: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own, where frameworks may warn and log as they like."""
    command = [sys.executable, "-m", "clipfeed", *(str(word) for word in words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "videos"
    make_tree(folder, classes=("run", "walk"), sources_per_class=5, clips_per_source=2, num_frames=12)
    return folder


def test_help_lists_the_commands_in_the_order_a_newcomer_meets_them() -> None:
    shown = call("--help").output
    places = [shown.index(f"  {name} ") for name in COMMANDS]
    assert places == sorted(places)
    for name in COMMANDS:
        assert call(name, "--help").exit_code == 0


def test_index_says_what_is_there(root: Path) -> None:
    done = call("index", root)
    assert done.exit_code == 0
    assert "20 videos" in done.output
    assert "walk" in done.output


def test_json_is_all_that_stands_on_stdout(root: Path) -> None:
    facts = json.loads(call("index", root, "--json").stdout)
    assert facts["num_videos"] == 20
    assert [row["class"] for row in facts["classes"]] == ["run", "walk"]
    assert facts["left_out"] == []
    assert json.loads(call("check", root, "--json").stdout)["num_fine"] == 20
    assert len(json.loads(call("split", root, "--k", 5, "--json").stdout)) == 5


def test_problems_found_give_exit_code_1_and_are_all_listed(tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("run",), sources_per_class=2, clips_per_source=2, num_frames=12)
    for number in range(12):
        (tmp_path / "run" / f"broken{number}.mp4").write_text("no video")
    for command in ("index", "check"):
        done = call(command, tmp_path)
        assert done.exit_code == 1
        assert sum(f"broken{number}.mp4" in done.output for number in range(12)) == 12


def test_damaged_files_are_odd_and_not_unusable(tmp_path: Path) -> None:
    for video in make_tree(tmp_path, classes=("run",), sources_per_class=1, clips_per_source=1, num_frames=61):
        damage_file(video.path)
    done = call("check", tmp_path)
    assert done.exit_code == 0
    assert "1 odd" in done.output


@pytest.mark.parametrize("command", ["index", "check", "split", "forecast", "train"])
@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_a_bad_path_and_an_empty_folder_get_one_message_and_exit_code_2(
    command: str, kind: str, tmp_path: Path
) -> None:
    folder = tmp_path if kind == "empty" else tmp_path / "nowhere"
    done = call(command, folder, *(("--run", tmp_path / "run") if command == "train" else ()))
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.output
    assert str(folder) in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("demo", ""), ("index", ""), ("index", ".", "--index", ""), ("check", ""), ("split", ""),
        ("split", ".", "--index", ""), ("split", ".", "--output", ""), ("train", ""), ("train", ".", "--run", ""),
        ("train", "--resume", "--run", ""), ("train", ".", "--index", ""), ("evaluate", ""),
        ("evaluate", ".", "--data", ""), ("evaluate", ".", "--output", ""), ("predict", "", "a.avi"),
        ("predict", ".", "a.avi", ""),
    ],
)  # fmt: skip
def test_an_empty_path_is_never_the_current_folder(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call(*words)
    assert done.exit_code == 2
    assert "an empty path names nothing" in done.stderr
    assert not list(tmp_path.iterdir())


def test_every_path_of_every_command_is_read_alike() -> None:
    for command in app.registered_commands:
        hints = get_type_hints(command.callback, include_extras=True)
        paths = {name: hint for name, hint in hints.items() if "pathlib.Path" in str(hint)}
        assert paths
        for name, hint in paths.items():
            (option,) = hint.__metadata__
            assert option.parser is path_of, f"{command.name}: {name}"


def test_a_seed_of_either_sign_is_a_seed_for_every_command(root: Path, tmp_path: Path) -> None:
    assert call("split", root, "--seed", -5).exit_code == 0
    done = call("train", root, "--run", tmp_path / "run", "--seed", -5, "--num-frames", 100)
    assert "is long enough for num_frames=100" in done.stderr  # the seed was taken, and nothing is trained


def test_a_single_class_cannot_be_trained_on(tmp_path: Path) -> None:
    make_tree(tmp_path / "data", classes=("run",), sources_per_class=4, clips_per_source=1, num_frames=22)
    done = call("train", tmp_path / "data", "--run", tmp_path / "run")
    assert done.exit_code == 2
    assert "class" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_missing_extra_gets_the_pip_line(root: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['keras'] = None\n"
        f"sys.argv = ['clipfeed', 'train', {str(root)!r}, '--run', {str(tmp_path / 'run')!r}]\n"
        "from clipfeed.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 2
    assert 'pip install "clipfeed[tensorflow]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", [("--validation-split", "1.5"), ("--groups", "person"), ("--k", "1"), ("--no-such-option",)]
)
def test_wrong_use_gives_exit_code_2_and_names_what_is_wrong(root: Path, words: tuple[str, ...]) -> None:
    done = call("split", root, *words)
    assert done.exit_code == 2
    assert any(word.lstrip("-").replace("-", "_") in done.stderr.replace("-", "_") for word in words)


def test_split_shows_both_leak_rates_and_writes_one_row_a_video(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "split.csv"
    done = call("split", root, "--seed", 3, "--output", output)
    assert done.exit_code == 0
    assert "leak: 0.0%" in done.output
    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len({row["key"] for row in rows}) == 20
    parts = {part: {row["group"] for row in rows if row["part"] == part} for part in ("train", "val")}
    assert parts["train"]
    assert parts["val"]
    assert not parts["train"] & parts["val"]


def test_a_name_with_a_leading_dash_and_brackets_works(tmp_path: Path) -> None:
    data = tmp_path / "-data [1]"
    make_tree(data, classes=("[b]run", "100%d"), sources_per_class=1, clips_per_source=1, num_frames=8)
    done = subprocess.run(
        [sys.executable, "-m", "clipfeed", "index", "--", data.name], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "[b]run" in done.stdout


def test_names_that_no_terminal_shows_are_printed_as_escapes(tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("run",), sources_per_class=2, clips_per_source=1, num_frames=8)
    (tmp_path / "run").rename(tmp_path / "läuft")
    (tmp_path / "läuft" / os.fsdecode(b"br\xe9ken.avi")).write_bytes(b"no video")
    for encoding, class_name in (("utf-8:strict", "läuft"), ("ascii:strict", "l\\xe4uft")):
        for command, code in (("index", 1), ("check", 1), ("split", 0)):
            done = subprocess.run(
                [sys.executable, "-m", "clipfeed", command, str(tmp_path)],
                capture_output=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
            )
            assert (done.returncode, done.stderr) == (code, "")
            assert class_name in done.stdout or command == "check"
            assert "br\\udce9ken.avi" in done.stdout or command == "split"


def test_a_warning_is_one_message_without_a_line_of_code(root: Path, tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    done = call_apart("index", root, "--index", in_the_way)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: the index of ")
    assert done.stderr.count("\n") == 1


def test_folds_and_a_share_for_validation_contradict_each_other(root: Path) -> None:
    done = call("split", root, "--k", 2, "--validation-split", 0.3)
    assert done.exit_code == 2
    assert "--validation-split with --k 2" in done.stderr


def test_split_follows_links_on_request(root: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for folder in root.iterdir():
        (tmp_path / "data" / folder.name).symlink_to(folder)
    assert call("split", tmp_path / "data").exit_code == 2
    assert call("split", tmp_path / "data", "--follow-links").exit_code == 0


def test_a_long_path_is_never_broken_where_another_program_reads_it(tmp_path: Path) -> None:
    name = "a" * 150 + ".avi"
    for video in make_tree(tmp_path, classes=("run",), sources_per_class=1, clips_per_source=1, num_frames=61):
        damage_file(video.path)
        video.path.rename(video.path.with_name(name))
    assert name in call("check", tmp_path).stdout


def test_ctrl_c_gives_one_line_and_exit_code_130(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "check_videos", interrupted)
    done = call("check", root)
    assert done.exit_code == 130
    assert done.stderr == "error: interrupted; what was done is kept\n"


def test_train_resume_evaluate_and_predict_go_through(root: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    short = ("--num-frames", 4, "--image-size", 32, 32, "--batch-size", 8)
    done = call_apart("train", root, "--run", run, "--model", "conv3d", "--epochs", 1, *short)
    assert done.returncode == 0, done.stderr
    assert "val_accuracy" in done.stdout
    files = {"config.json", "class_names.json", "history.csv", "best.keras", "last.keras", "state.json",
             "metrics.json", "predictions.csv"}  # fmt: skip
    assert files <= {path.name for path in run.iterdir()}
    assert call_apart("train", root, "--run", run, *short).returncode == 2  # the folder is taken
    changed = call_apart("train", "--resume", "--run", run, "--model", "lrcn", "--epochs", 2)
    assert changed.returncode == 2
    assert "conv3d" in changed.stderr
    assert "lrcn" in changed.stderr
    assert call_apart("train", "--resume", "--run", run, "--epochs", 2).returncode == 0
    assert len((run / "history.csv").read_text().splitlines()) == 3
    judged = json.loads(call_apart("evaluate", run, "--json").stdout)
    assert judged["num_videos"] == json.loads((run / "metrics.json").read_text())["num_videos"]
    video = next((root / "run").iterdir())
    (tmp_path / "broken.mp4").write_text("no video")
    predicted = call_apart("predict", run, video, tmp_path / "broken.mp4", "--json")
    assert predicted.returncode == 1
    facts = json.loads(predicted.stdout)
    assert facts["predictions"][0]["path"] == str(video)
    assert sum(facts["predictions"][0]["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert facts["failures"][0]["path"].endswith("broken.mp4")


def test_bench_prints_bars_and_a_document(root: Path) -> None:
    options = ("--num-videos", 4, "--num-passes", 1, "--no-fit", "--num-frames", 4, "--image-size", 16, 16)
    done = call("bench", root, *options, "--format", "numpy")
    assert done.exit_code == 0, done.output
    assert "4 of 20 videos" in done.output
    assert "decode" in done.output
    assert "█" in done.output
    assert "fit: not measured" in done.output
    facts = json.loads(call("bench", root, *options, "--format", "numpy", "--json").stdout)
    assert sum(stage["share"] for stage in facts["stages"]) == pytest.approx(1)
    assert facts["num_clips"] == 4
    assert call("bench", root, "--num-videos", 0).exit_code == 2


def test_forecast_answers_in_a_table_and_in_a_document(root: Path) -> None:
    options = ("--num-frames", 4, "--image-size", 16, 16, "--gpu-memory", "none")
    done = call("forecast", root, *options)
    assert done.exit_code == 0, done.output
    for question in ("in one array", "cache", "first epoch", "later epochs", "shuffle buffer", "batch size"):
        assert question in done.output
    assert "cf.video_dataset_from_directory(" in done.output
    facts = json.loads(call("forecast", root, *options, "--json").stdout)
    assert facts["num_clips"] == 20
    assert facts["naive_clips_bytes"] == 20 * 4 * 16 * 16 * 3 * 4
    assert facts["training"] is None


def test_forecast_counts_a_model_and_says_nothing_else_on_stdout(root: Path) -> None:
    pytest.importorskip("keras", reason="the batch size is counted from a built model")
    done = call_apart("forecast", root, "--model", "convlstm", "--num-frames", 8, "--gpu-memory", "8GB", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["training"]
    assert (told["model"], told["batch_size_low"], told["batch_size_high"]) == ("convlstm", 8, 16)


def test_forecast_lists_what_gives_no_clip_and_ends_with_1(tmp_path: Path) -> None:
    make_tree(tmp_path, classes=("run", "walk"), sources_per_class=3, clips_per_source=1, num_frames=12)
    (tmp_path / "run" / "broken.mp4").write_text("no video")
    done = call("forecast", tmp_path, "--num-frames", 4, "--image-size", 16, 16, "--gpu-memory", "none")
    assert done.exit_code == 1
    assert "broken.mp4" in done.output


@pytest.mark.parametrize(
    "words", [("--gpu-memory", "8 apples"), ("--model", "resnet"), ("--memory-budget", "1KB"), ("--num-frames", 400)]
)
def test_forecast_refuses_what_cannot_be_with_one_message(root: Path, words: tuple[object, ...]) -> None:
    done = call("forecast", root, "--num-frames", 4, *words)
    assert done.exit_code in (1, 2)
    assert "Traceback" not in done.output
    assert words[0][2:].replace("-", "_") in done.stderr.replace("-", "_")
