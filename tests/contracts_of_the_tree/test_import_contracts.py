"""The floors hold: the contracts of pyproject.toml, checked where every developer runs the tests."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import clipfeed

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
SOURCE = Path(clipfeed.__file__).parent
CONTRACTS = {
    contract["id"]: contract for contract in tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
}

# The rooms that may know a framework, by themselves or through `deliver`.
MAY_KNOW_A_FRAMEWORK = {"deliver", "learn", "api", "forecast", "bench", "demo", "cli"}
MAY_KNOW_PYAV = {"_ffmpeg", "_jpeg", "probe", "decode", "testing"}


def test_every_contract_is_kept() -> None:
    # In a process of its own: import-linter keeps the streams that it first wrote to.
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=PYPROJECT.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


def test_the_contracts_on_frameworks_and_pyav_forget_no_module() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    rooms -= {"__init__", "__main__"}
    for contract, allowed in (("frameworks", MAY_KNOW_A_FRAMEWORK), ("ffmpeg", MAY_KNOW_PYAV)):
        listed = {name.removeprefix("clipfeed.") for name in CONTRACTS[contract]["source_modules"]}
        assert rooms - allowed <= listed, f"{contract}: {rooms - allowed - listed} may import what it likes"
