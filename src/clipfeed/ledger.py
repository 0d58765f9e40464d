"""The failures of a run, and when they are too many.

A video that cannot be delivered is left out and written down here, once, however many of its clips fail; beyond a
stated share of all videos the run ends and lists them. This is the only thing about a dataset that changes. It opens no
file and mends nothing.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from clipfeed.errors import ClipfeedError, DecodeError
from clipfeed.records import Failure, check_choice

__all__ = ["ErrorPolicy", "Ledger"]

OnError: TypeAlias = Literal["skip", "raise"]

_NUM_LISTED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """What happens to a clip that cannot be delivered.

    Args:
        on_error: "skip" leaves it out of its batch and lists it; "raise" ends the run.
        max_failures: Share of the videos, 0 to 1, that may fail before the run ends; one video always may.

    Raises:
        ValueError: For another value.
    """

    on_error: OnError = "skip"
    max_failures: float = 0.05

    def __post_init__(self) -> None:
        check_choice("on_error", self.on_error, ("skip", "raise"))
        is_number = isinstance(self.max_failures, int | float) and not isinstance(self.max_failures, bool)
        if not is_number or not 0 <= self.max_failures <= 1:
            raise ValueError(f"max_failures={self.max_failures!r}: expected a share of the videos from 0 to 1")

    def limit(self, num_videos: int) -> int:
        """Videos that may fail: max(1, ceil(max_failures x num_videos)), exact for the decimal as written."""
        return max(1, math.ceil(Fraction(str(self.max_failures)) * num_videos))


class Ledger:
    """The videos of a dataset that could not be delivered so far. Safe to use from several threads.

    Args:
        num_videos: Distinct videos of the dataset.
        policy: How many of them may fail.
    """

    def __init__(self, num_videos: int, policy: ErrorPolicy | None = None) -> None:
        self.num_videos = num_videos
        self.policy = ErrorPolicy() if policy is None else policy
        self._lock = threading.Lock()
        self._failures: dict[str, Failure] = {}
        self._last_error: ClipfeedError | None = None

    def __len__(self) -> int:
        return len(self._failures)

    def __repr__(self) -> str:
        return f"<Ledger: {len(self)} of {self.num_videos} videos failed, {self.limit} may>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen_ledger, (self.num_videos, self.policy, self.failures)

    @property
    def limit(self) -> int:
        """Distinct videos that may fail."""
        return self.policy.limit(self.num_videos)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The first failure of each video, in the order they came."""
        with self._lock:
            return tuple(self._failures.values())

    @property
    def last_error(self) -> ClipfeedError | None:
        """The last error that was kept; None if there was none."""
        return self._last_error

    def keep(self, error: ClipfeedError) -> None:
        """Keep an error that a framework will hand on as one of its own kind, with its message only."""
        self._last_error = error

    def failure_of(self, path: str) -> Failure | None:
        """Give the first failure of a video, None if it had none."""
        return self._failures.get(path)

    def record(self, failure: Failure) -> None:
        """Write a failure down.

        Raises:
            DecodeError: If more videos have failed than may; lists the first ten. Every later call raises too.
        """
        with self._lock:
            self._failures.setdefault(failure.path, failure)
            failures = tuple(self._failures.values())
        if len(failures) > self.limit:
            raise self._too_many(failures)

    def _too_many(self, failures: tuple[Failure, ...]) -> DecodeError:
        lines = [f"{failure.path}: {failure.stage}: {failure.reason}" for failure in failures[:_NUM_LISTED]]
        if len(failures) > _NUM_LISTED:
            lines.append(f"... and {len(failures) - _NUM_LISTED} more")
        return DecodeError(
            f"{len(failures)} of {self.num_videos} videos could not be delivered; "
            f"max_failures={self.policy.max_failures} allows {self.limit}",
            stage="batch",
            expected="\n".join(lines),
            remedy="run `clipfeed check` on the folder and mend or remove these files, or raise max_failures",
        )


def _reopen_ledger(num_videos: int, policy: ErrorPolicy, failures: tuple[Failure, ...]) -> Ledger:
    ledger = Ledger(num_videos, policy)
    ledger._failures.update((failure.path, failure) for failure in failures)
    return ledger
