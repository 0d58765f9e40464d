"""What goes wrong says which file, what was expected and what to do, and survives the way home from another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from clipfeed import errors
from clipfeed.errors import ClipfeedError

KINDS = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
BUILT_IN = {
    errors.LayoutError: ValueError,
    errors.CacheError: OSError,
    errors.LeakError: ValueError,
    errors.BudgetError: MemoryError,
    errors.MissingDependencyError: ImportError,
}


def test_the_tree_in_the_docstring_names_every_error() -> None:
    assert all(name in (errors.__doc__ or "") for name in errors.__all__)


def test_what_is_no_error_is_a_warning() -> None:
    kinds = {getattr(errors, name) for name in errors.__all__}
    assert all(issubclass(kind, UserWarning) for kind in kinds - set(KINDS))
    assert len(kinds - set(KINDS)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_a_clipfeed_error_and_what_python_calls_it(kind: type[ClipfeedError]) -> None:
    assert issubclass(kind, ClipfeedError)
    assert issubclass(kind, BUILT_IN.get(kind, Exception))


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_survives_pickling_and_copying(kind: type[ClipfeedError]) -> None:
    error = kind("no frame 7", path="a/é.avi", stage="decode", expected="16 frames\ngot 11", remedy="re-encode it")
    error.add_note("epoch 3, example 5")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        for name in ("problem", "path", "stage", "expected", "remedy", "args", "__notes__"):
            assert getattr(again, name) == getattr(error, name)


def test_the_message_gives_three_answers_and_starts_short() -> None:
    error = errors.DecodeError("no frame 7", path="a.avi", expected="16 frames\ngot 11", remedy="re-encode it")
    assert str(error).splitlines() == ["a.avi: no frame 7", "  16 frames", "  got 11", "  fix: re-encode it"]


def test_without_a_path_the_message_is_the_problem() -> None:
    assert str(errors.BudgetError("one batch does not fit")) == "one batch does not fit"


def test_an_error_without_notes_gets_none_from_pickling() -> None:
    assert not getattr(pickle.loads(pickle.dumps(errors.LeakError("two sides"))), "__notes__", [])
