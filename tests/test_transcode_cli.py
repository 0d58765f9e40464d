"""The command is a thin layer: what it prints is what the call says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from clipfeed.cli._app import app
from clipfeed.testing import make_tree


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["transcode", *(str(word) for word in words)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_tree(tmp_path / "data", classes=("run", "walk"), sources_per_class=2, clips_per_source=1, num_frames=12)
    return tmp_path / "data"


def test_sizes_frames_and_speed_are_said(root: Path, tmp_path: Path) -> None:
    done = call(root, tmp_path / "out", "--short-side", 32, "--gop", 4)
    assert done.exit_code == 0
    assert "4 videos, 4 made now and 0 before; 48 frames" in done.output
    assert "shorter side at most 32, a key frame every 4 frames" in done.output
    assert "size: " in done.output
    assert "clips/s" in done.output
    assert "measured on 4 of the videos: 20 frames" in done.output


def test_json_is_all_that_stands_on_stdout(root: Path, tmp_path: Path) -> None:
    (root / "run" / "empty.mp4").touch()
    done = call(root, tmp_path / "out", "--json")
    facts = json.loads(done.stdout)
    assert done.exit_code == 1
    assert (facts["num_made"], facts["num_kept"], facts["num_frames"]) == (4, 0, 48)
    assert (facts["settings"]["short_side"], facts["settings"]["gop"]) == (256, 16)
    assert facts["bytes_after"] == sum(path.stat().st_size for path in (tmp_path / "out").glob("*/*.mp4"))
    assert facts["speed"]["clips_per_second_after"] > 0
    assert [Path(row["path"]).name for row in facts["left_out"]] == ["empty.mp4"]
    assert json.loads(call(root, tmp_path / "out", "--json").stdout)["num_kept"] == 4


def test_what_is_left_out_gone_or_lost_is_listed(root: Path, tmp_path: Path) -> None:
    call(root, tmp_path / "out")
    for path in (root / "walk").iterdir():
        path.write_text("no video")
    done = call(root, tmp_path / "out")
    assert done.exit_code == 1
    assert "left out: 2" in done.output
    assert "in place: 2" in done.output
    assert "numbered otherwise: 1\n  walk" in done.output
    assert str(tmp_path / "out" / "walk" / "source00_clip0.mp4") in done.output


def test_folders_that_are_not_fit_and_numbers_that_cannot_be_give_one_message(root: Path, tmp_path: Path) -> None:
    for words in ((root, root), (root, root / "out"), (tmp_path / "nowhere", tmp_path / "out"), (root, "")):
        done = call(*words)
        assert done.exit_code == 2
        assert "Traceback" not in done.output
    done = call(root, tmp_path / "out", "--crf", 99)
    assert done.exit_code == 2
    assert done.stderr == "error: crf=99: expected a whole number from 0 to 51\n"


def test_a_set_without_a_usable_video_is_a_problem_and_not_wrong_use(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "walk")
    for path in (root / "run").iterdir():
        path.write_text("no video")
    done = call(root, tmp_path / "out")
    assert done.exit_code == 1
    assert "none of the 2 files found can be used" in done.stderr
