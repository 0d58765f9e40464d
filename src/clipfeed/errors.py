"""What can go wrong, as a tree.

    ClipfeedError
    ├── LayoutError (ValueError)              the folder is not laid out as expected
    ├── ProbeError                            a file cannot be used, and why
    ├── DecodeError                           a wanted frame could not be had
    ├── StaleIndexError                       a file or the index changed under a dataset
    ├── LeakError (ValueError)                a group stands on two sides of a split
    ├── CacheError (OSError)                  the folder for decoded frames cannot be used
    ├── BudgetError (MemoryError)             the work does not fit the memory it was given
    └── MissingDependencyError (ImportError)  an extra is not installed

`CacheWarning` (UserWarning) is no error: frames are no longer kept, and work goes on.

Each message gives three answers: which file and where; what was expected; what to do now. Arguments that no call
accepts are plain ValueError and TypeError. Every error survives pickling, so it can come home from another process.
"""

from __future__ import annotations

from typing import Any, Self

from clipfeed._types import Stage

__all__ = [
    "BudgetError",
    "CacheError",
    "CacheWarning",
    "ClipfeedError",
    "DecodeError",
    "LayoutError",
    "LeakError",
    "MissingDependencyError",
    "ProbeError",
    "StaleIndexError",
]


class ClipfeedError(Exception):
    """Something that clipfeed noticed and can explain.

    Args:
        problem: What happened, in one short line, with values and units.
        path: The file or folder, as the user gave it; None where there is none.
        stage: The step of the journey that noticed.
        expected: What was expected or wanted; may have several lines.
        remedy: What to do now.
    """

    def __init__(
        self,
        problem: str,
        *,
        path: str | None = None,
        stage: Stage | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path
        self.stage = stage
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        first = f"{self.path}: {self.problem}" if self.path is not None else self.problem
        rest = [f"\n  {line}" for line in (self.expected or "").splitlines()]
        if self.remedy:
            rest.append(f"\n  fix: {self.remedy}")
        return first + "".join(rest)

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {"path": self.path, "stage": self.stage, "expected": self.expected, "remedy": self.remedy}
        return _rebuild, (type(self), self.problem, facts), {"__notes__": list(getattr(self, "__notes__", []))}

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        for note in (state or {}).get("__notes__", []):
            self.add_note(note)

    @classmethod
    def rebuild(cls, problem: str, facts: dict[str, Any]) -> Self:
        """Make the error again from its parts (used by pickle)."""
        return cls(problem, **facts)


def _rebuild(kind: type[ClipfeedError], problem: str, facts: dict[str, Any]) -> ClipfeedError:
    return kind.rebuild(problem, facts)


class LayoutError(ClipfeedError, ValueError):
    """A folder is not laid out as expected; the message draws the expected tree."""


class ProbeError(ClipfeedError):
    """A file cannot be used as a video."""


class DecodeError(ClipfeedError):
    """A frame that a plan asks for could not be decoded."""


class StaleIndexError(ClipfeedError):
    """A file, or the index itself, changed after the dataset was made."""


class LeakError(ClipfeedError, ValueError):
    """A group of videos stands on two sides of a split."""


class CacheError(ClipfeedError, OSError):
    """The folder in which decoded frames are kept cannot be used."""


class CacheWarning(UserWarning):
    """Frames are no longer kept, and work goes on without; says where and why."""


class BudgetError(ClipfeedError, MemoryError):
    """The work does not fit the memory it was given; the message shows the arithmetic."""


class MissingDependencyError(ClipfeedError, ImportError):
    """An optional part is not installed; the message gives the pip line."""
