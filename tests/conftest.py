"""What every test lives under: nothing may be left behind, and nothing random may leak from one test to the next."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Its classes hold the asserts of contracts: rewritten, a failure shows both sides.
pytest.register_assert_rewrite("clipfeed.testing.contracts")


# A busy machine is no failure: no test here is a timed one.
hypothesis.settings.register_profile("clipfeed", deadline=None)
hypothesis.settings.load_profile("clipfeed")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shared: needs the genuine clips in the folder that CLIPFEED_SHARED names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get("CLIPFEED_SHARED"):
        kept = [item for item in items if item.get_closest_marker("shared") is None]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """A process that was started in the background ignores SIGINT, and Python then installs no handler."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of genuine clips."""
    return Path(os.environ["CLIPFEED_SHARED"])


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes go to a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def no_thread_left(request: pytest.FixtureRequest) -> object:
    """A test that leaves a thread of ours behind fails."""
    before = set(threading.enumerate())
    yield
    left = [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("clipfeed")]
    assert not left, f"threads left behind: {left}"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach (tmp_path is private)."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(folder)
