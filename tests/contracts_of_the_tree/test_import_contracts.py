"""The floors hold: the contracts of pyproject.toml, checked where every developer runs the tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from importlinter import cli

import clipfeed

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
SOURCE = Path(clipfeed.__file__).parent
CONTRACTS = {contract["id"]: contract for contract in tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]}

# The rooms that may know a framework, by themselves or through `deliver`.
MAY_KNOW_A_FRAMEWORK = {"deliver", "learn", "api", "demo", "cli"}
MAY_KNOW_PYAV = {"_ffmpeg", "probe", "decode", "testing"}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_contract_is_kept(contract: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = cli.lint_imports(config_filename=str(PYPROJECT), limit_to_contracts=(contract,), no_cache=True)
    assert status == cli.EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_the_contracts_on_frameworks_and_pyav_forget_no_module() -> None:
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    rooms -= {"__init__", "__main__"}
    for contract, allowed in (("frameworks", MAY_KNOW_A_FRAMEWORK), ("ffmpeg", MAY_KNOW_PYAV)):
        listed = {name.removeprefix("clipfeed.") for name in CONTRACTS[contract]["source_modules"]}
        assert rooms - allowed <= listed, f"{contract}: {rooms - allowed - listed} may import what it likes"
