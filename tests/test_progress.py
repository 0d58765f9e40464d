"""A bar for what takes long, silence for what does not."""

from __future__ import annotations

import pytest

from clipfeed import progress


def test_what_is_over_soon_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.track("indexing") as update:
        update(1, 2)
        update(2, 2)
    assert capsys.readouterr() == ("", "")


def test_what_takes_long_shows_a_bar_on_stderr_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 3.0, 4.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock, 5.0))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws bars only on what it takes for a terminal
    with progress.track("indexing") as update:
        update(1, 3)
        update(2, 3)
        update(3, 3)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "indexing" in captured.err
    assert "3/3" in captured.err


def test_switched_off_it_shows_nothing_however_long_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock, 30.0))
    with progress.track("indexing", enabled=False) as update:
        update(1, 2)
    assert capsys.readouterr() == ("", "")
