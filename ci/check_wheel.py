"""Does the wheel work where there is nothing else? Builds it, installs it beside nothing, and uses it.

    python ci/check_wheel.py        exit code 0: it does; anything else: the failing step is the last one named

An editable install hides what a wheel forgets: a package without its files, a dependency that is not declared, a marker
that is not shipped. So this script

1. builds the wheel of the folder above into a temporary folder, with `pip wheel --no-deps`;
2. installs it there with `pip install --target`, together with the dependencies that it declares and no extra;
3. starts Python without site-packages (`-S`) and without the sources, from another folder, and lets it import every
   public name, find `py.typed`, make a few videos, index, split and load them, and be told which extra TensorFlow is;
4. runs `python -m clipfeed --help`.

It needs pip and its package index; it writes nothing outside the temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Runs inside the clean interpreter; `installed` is the only folder beside the standard library.
SMOKE = """
import importlib.resources
import sys
from pathlib import Path

installed = Path(sys.argv[1])

import clipfeed as cf

assert Path(cf.__file__).is_relative_to(installed), cf.__file__
assert importlib.resources.files("clipfeed").joinpath("py.typed").is_file(), "py.typed is not in the wheel"

for name in cf.__all__:
    try:
        getattr(cf, name)
    except cf.MissingDependencyError:
        assert name == "EpochSync", name  # a subclass of Keras's

from clipfeed.testing import make_tree, read_frame_numbers

make_tree("data", classes=("run", "walk"), sources_per_class=3, clips_per_source=2, naming="ucf101", num_frames=12)
train_ds, val_ds = cf.video_dataset_from_directory(
    "data", num_frames=4, image_size=(48, 64), batch_size=4, validation_split=0.34, subset="both", seed=1,
    format="numpy", index="index", verbose=False)
clips, labels = next(iter(train_ds))
assert clips.shape == (4, 4, 48, 64, 3) and str(clips.dtype) == "float32", (clips.shape, clips.dtype)
assert labels.shape == (4,), labels.shape
assert read_frame_numbers(train_ds.clipfeed.batch(0, 0).clips)[0].tolist() == [1, 4, 7, 10]
assert not set(train_ds.clipfeed.index.groups) & set(val_ds.clipfeed.index.groups)

try:
    cf.to_tensorflow(train_ds.clipfeed)
except cf.MissingDependencyError as error:
    assert "clipfeed[tensorflow]" in str(error), error
else:
    raise AssertionError("TensorFlow is no dependency of the wheel, yet it was found")
print("clipfeed", cf.__version__, "from", installed)
"""


def main() -> int:
    """Build, install, use; give an exit code."""
    with tempfile.TemporaryDirectory(prefix="clipfeed-wheel-") as name:
        work = Path(name)
        step("build", pip("wheel", "--no-deps", "--wheel-dir", str(work / "wheel"), str(ROOT)), work)
        wheels = list((work / "wheel").glob("clipfeed-*.whl"))
        if len(wheels) != 1:
            sys.stderr.write(f"expected one wheel, found {[wheel.name for wheel in wheels]}\n")
            return 1
        installed = work / "installed"
        step("install", pip("install", "--target", str(installed), str(wheels[0])), work)
        step("use", clean_python("-c", textwrap.dedent(SMOKE), str(installed)), work, installed)
        step("command line", clean_python("-m", "clipfeed", "--help"), work, installed)
    sys.stdout.write("the wheel works by itself\n")
    return 0


def pip(*arguments: str) -> list[str]:
    """Give the command that runs pip."""
    return [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]


def clean_python(*arguments: str) -> list[str]:
    """Give the command that runs Python without site-packages, and so without an editable install's path to src/."""
    return [sys.executable, "-S", *arguments]


def step(name: str, command: list[str], work: Path, installed: Path | None = None) -> None:
    """Run one step in the temporary folder; end the script if it fails.

    Args:
        name: What is done, for the reader of the log.
        command: What to run.
        work: The folder to run it in.
        installed: The only folder that Python may import from beside its own; None leaves the environment as it is.
    """
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()
    environment = dict(os.environ)
    if installed is not None:
        environment |= {"PYTHONPATH": str(installed), "XDG_CACHE_HOME": str(work / "cache")}
    is_quiet = installed is not None  # pip may speak
    done = subprocess.run(command, cwd=work, env=environment, capture_output=is_quiet, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(f"{name} failed with exit code {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
        raise SystemExit(1)


if __name__ == "__main__":
    raise SystemExit(main())
