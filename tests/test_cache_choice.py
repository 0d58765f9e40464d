"""What a user may say about a cache, and what it means."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

import clipfeed as cf
from clipfeed.cache import cache_of


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        (None, None),
        ("disk", cf.Cache()),
        ("memory", cf.Cache(where="memory")),
        ("some/folder", cf.Cache("some/folder")),
        (Path("disk"), cf.Cache(Path("disk"))),
        (cf.Cache(codec="jpeg"), cf.Cache(codec="jpeg")),
    ],
)
def test_a_word_a_folder_or_an_object_says_where_frames_are_kept(choice: object, meant: cf.Cache | None) -> None:
    assert cache_of(choice) == meant  # type: ignore[arg-type]


@pytest.mark.parametrize("choice", ["", True, False, 3, b"folder", ["disk"]])
def test_anything_else_is_refused_by_value(choice: object) -> None:
    with pytest.raises(ValueError, match="cache="):
        cache_of(choice)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"where": "ram"}, "where='ram'"),
        ({"codec": "png"}, "codec='png'"),
        ({"max_bytes": 0}, "max_bytes=0"),
        ({"max_bytes": "many"}, "max_bytes='many'"),
        ({"max_bytes": True}, "max_bytes=True"),
        ({"directory": ""}, "directory=''"),
        ({"directory": "there", "where": "memory"}, "directory='there' with where=\"memory\""),
        ({"max_frames": 0}, "max_frames=0"),
        ({"max_frames": 2.0}, "max_frames=2.0"),
        ({"max_frames": True}, "max_frames=True"),
    ],
)
def test_what_cannot_be_is_refused_by_value(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cf.Cache(**arguments)  # type: ignore[arg-type]


def test_limits_are_numbers_or_texts_with_units() -> None:
    assert cf.Cache().limit is None
    assert cf.Cache(max_bytes=12).limit == 12
    assert cf.Cache(max_bytes="1.5GB").limit == 1_500_000_000


def test_the_folder_is_the_users_cache_folder_or_the_one_that_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert cf.Cache().folder == tmp_path / "cache" / "clipfeed" / "frames"
    assert cf.Cache("~/frames").folder == tmp_path / "home" / "frames"
    assert cf.Cache("frames").folder == tmp_path / "frames"
    assert cf.Cache(Path("/frames")).folder == Path("/frames")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copy_in_another_process_asks_for_the_same_and_holds_nothing(duplicate) -> None:
    cache = cf.Cache(where="memory", max_bytes="1GB", codec="jpeg", max_frames=7)
    cache.held["pack"] = object()
    again = duplicate(cache)
    assert again == cache
    assert not again.held
    assert "pack" in cache.held
