"""The tests lie as the modules do: whoever reads `sample.py` knows where its tests are."""

from __future__ import annotations

from pathlib import Path

import clipfeed

TESTS = Path(__file__).parents[1]
SOURCE = Path(clipfeed.__file__).parent

# Modules without tests of their own, and where they are tested instead.
ELSEWHERE = {
    "__init__": "contracts_of_the_tree/test_imports.py: it holds names and nothing else",
    "__main__": "ci/check_wheel.py runs `python -m clipfeed`; it is one call",
    "_types": "mypy: it holds names of types and nothing else",
}

# Tests of several modules together.
TOGETHER = {
    "exact_frames": "probe and decode on genuine clips, against a bare loop",
}


def modules() -> list[str]:
    files = [entry.stem for entry in SOURCE.iterdir() if entry.suffix == ".py"]
    packages = [entry.name for entry in SOURCE.iterdir() if (entry / "__init__.py").is_file()]
    return sorted({*files, *packages} - set(ELSEWHERE))


def test_every_module_has_tests_of_its_name() -> None:
    without = [name for name in modules() if not list(TESTS.glob(f"test_{name.lstrip('_')}*.py"))]
    assert not without, f"no tests/test_<module>.py for: {', '.join(without)}"


def test_every_test_file_is_named_after_a_module() -> None:
    names = [name.lstrip("_") for name in (*modules(), *ELSEWHERE, *TOGETHER)]
    stems = [path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")]
    strays = [stem for stem in stems if not any(stem == name or stem.startswith(f"{name}_") for name in names)]
    assert not strays, f"tests of no module: {', '.join(strays)}"


def test_every_exception_from_the_mirror_still_exists() -> None:
    gone = [name for name in ELSEWHERE if not (SOURCE / f"{name}.py").is_file() and not (SOURCE / name).is_dir()]
    assert not gone
