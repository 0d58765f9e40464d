"""Under which name each result stands: the source's own, ending in .mp4, wherever that says which source is meant.

    run/a.avi      run/a.mp4
    run/b.avi      run/b.avi.mp4      since there is
    run/b.mp4      run/b.mp4          this one as well

Folders are kept, so classes and parts are. Nothing here looks at a disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clipfeed.errors import LayoutError

__all__ = ["name_results"]

_SUFFIX = ".mp4"


def name_results(keys: Iterable[str], root: str) -> dict[str, str]:
    """Give the key of each source's result.

    Args:
        keys: Relative POSIX key of every video of the folder, usable or not: names shall not depend on that.
        root: The folder, for the message.

    Returns:
        Key of the result for each key, no two alike.

    Raises:
        LayoutError: Two sources would have the same name all the same.
    """
    short = {key: _replace_ending(key) for key in keys}
    counts = Counter(short.values())
    named = {key: name if counts[name] == 1 or name == key else key + _SUFFIX for key, name in short.items()}
    counts = Counter(named.values())
    for name, number in counts.items():
        if number > 1:
            sources = [repr(key) for key in named if named[key] == name]
            raise LayoutError(
                f"{' and '.join(sources)} would both become {name!r}",
                path=root,
                stage="transcode",
                expected="expected names that differ in more than their endings",
                remedy="rename one of them",
            )
    return named


def _replace_ending(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    stem, _, _ = name.rpartition(".")
    return f"{folder}{slash}{stem or name}{_SUFFIX}"
