"""The scripts in `benchmarks/` run from a folder to a table and JSON, whichever peers are there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clipfeed.testing import make_tree

SCRIPTS = Path(__file__).parents[1] / "benchmarks"


def run_script(name: str, *words: object) -> str:
    """Run one in a process of its own; give what it printed."""
    command = [sys.executable, str(SCRIPTS / name), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "videos"
    make_tree(folder, classes=("run", "walk"), sources_per_class=1, clips_per_source=2, num_frames=24)
    return folder


def test_clipfeed_is_compared_with_whoever_is_there_and_the_others_are_named(root: Path, tmp_path: Path) -> None:
    printed = run_script(
        "peers.py", root, "--clips", 2, "--runs", 1, "--epoch-clips", 0, "--output", tmp_path / "peers.json"
    )
    clip = json.loads((tmp_path / "peers.json").read_text())["clip"]
    for name in ("clipfeed", 'clipfeed, decoder="plain"', "PyAV, frame.to_ndarray"):
        assert clip["readers"][name]["right_frames"] == 1
        assert clip["readers"][name]["ms_per_clip"] > 0
        assert f"| {name} " in printed
    named = " ".join([*clip["readers"], *clip["absent"]])
    assert all(peer in named for peer in ("OpenCV", "decord", "TorchCodec", "SPDL"))
    assert clip["readers"]["clipfeed"]["times_as_long"] == 1


def test_a_target_is_printed_beside_what_was_measured(root: Path, tmp_path: Path) -> None:
    printed = run_script(
        "targets.py", "--hmdb51", root, "--quick", "--only", "import,bare_decode", "--output", tmp_path / "targets.json"
    )
    rows = json.loads((tmp_path / "targets.json").read_text())["rows"]
    assert {row["at_least"] for row in rows.values()} == {0.2, 0.85}
    assert all(row["measured"] > 0 for row in rows.values())
    assert "| import clipfeed " in printed
