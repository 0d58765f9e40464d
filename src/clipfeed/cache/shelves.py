"""What lies in a cache folder: list its packs, verify them, clear them away.

The data set is not needed for any of it. Nothing here decodes or fills; what is no pack of ours is neither shown nor
touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clipfeed._types import StrPath
from clipfeed.cache.contents import Contents, open_contents
from clipfeed.cache.key import PackKey
from clipfeed.cache.room import find_packs, is_held, last_used, remove_pack, used_bytes
from clipfeed.records import Failure

__all__ = [
    "ClearedPacks",
    "DamagedEntry",
    "PackFacts",
    "VerifiedPack",
    "choose_pack",
    "clear_packs",
    "list_packs",
    "verify_packs",
]

_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFacts:
    """One pack, as it lies there.

    Attributes:
        folder: Its folder.
        key: What it is of; None where its own description, pack.json, is damaged.
        num_entries: Clips, or videos, that it has a place for.
        num_filled: Of these, how many say that they are there; `verify_packs` looks whether they are.
        num_bytes: Bytes that its files take on the disk.
        last_used: When a dataset opened it last, in seconds since the epoch.
        is_in_use: Whether a process has it open now.
        problems: Files that are missing or cut, one line each.
    """

    folder: str
    key: PackKey | None
    num_entries: int
    num_filled: int
    num_bytes: int
    last_used: float
    is_in_use: bool
    problems: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """32 hexadecimal digits."""
        return Path(self.folder).name


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedEntry:
    """An entry that is not what was written; a dataset that meets it decodes the video again.

    Attributes:
        place: Part and row, or file, in the pack.
        key: Relative POSIX key of its video; "" where nothing says it.
        reason: What is wrong.
    """

    place: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPack:
    """One pack, every entry compared with its checksum.

    Attributes:
        facts: The pack.
        num_sound: Entries that are what was written.
        num_not_filled: Entries that were never written.
        damaged: Entries that are something else.
    """

    facts: PackFacts
    num_sound: int
    num_not_filled: int
    damaged: tuple[DamagedEntry, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damaged and not self.facts.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedPacks:
    """What became of packs that were to go.

    Attributes:
        removed: Packs that are gone.
        left: Packs that are still there, and why.
    """

    removed: tuple[PackFacts, ...]
    left: tuple[Failure, ...]


def list_packs(folder: StrPath) -> tuple[PackFacts, ...]:
    """Give the packs of a cache folder, the one used longest ago first; () where there is no such folder."""
    return tuple(_facts_of(pack, *open_contents(pack)) for pack in find_packs(Path(folder)))


def choose_pack(folder: StrPath, name: str | None = None) -> PackFacts:
    """Give one pack of a cache folder.

    Args:
        folder: The cache folder.
        name: How the pack's name begins; None for the only one.

    Raises:
        ValueError: If there is none, or more than one.
    """
    packs = list_packs(folder)
    found = [pack for pack in packs if pack.name.startswith(name or "")]
    if len(found) != 1:
        which = "are in it" if name is None else f"have a name that begins with {name!r}"
        names = ", ".join(pack.name for pack in packs) or "none"
        raise ValueError(f"{folder}: {len(found)} packs {which}; expected the beginning of one name of: {names}")
    return found[0]


def verify_packs(folder: StrPath, *, progress: Callable[[int, int], None] | None = None) -> tuple[VerifiedPack, ...]:
    """Compare every entry of every pack with its checksum, and change nothing.

    Args:
        folder: The cache folder.
        progress: Called with (entries done, entries in all).

    Returns:
        The packs, in the order of `list_packs`.
    """
    opened = [(pack, *open_contents(pack)) for pack in find_packs(Path(folder))]
    total, done, verified = sum(len(contents.entries) for _, _, contents in opened), 0, []
    for pack, key, contents in opened:
        damaged, counts = [], {"sound": 0, "damaged": 0, "not filled": 0}
        for entry in contents.entries:
            state, reason = entry.check()
            counts[state] += 1
            if state == "damaged":
                damaged.append(DamagedEntry(place=entry.place, key=entry.key, reason=reason))
            done += 1
            if progress is not None:
                progress(done, total)
        verified.append(
            VerifiedPack(
                facts=_facts_of(pack, key, contents),
                num_sound=counts["sound"],
                num_not_filled=counts["not filled"],
                damaged=tuple(damaged),
            )
        )
    return tuple(verified)


def clear_packs(folder: StrPath, *, name: str | None = None, unused_days: float | None = None) -> ClearedPacks:
    """Remove packs, never one that a process has open, and nothing else that lies in the folder.

    Args:
        folder: The cache folder.
        name: How the name of the one pack begins that is to go; None for all of them.
        unused_days: Only packs that no dataset has opened for so many days; None whenever it was.

    Raises:
        ValueError: If no pack, or more than one, has a name that begins so.
    """
    packs = list_packs(folder) if name is None else (choose_pack(folder, name),)
    if unused_days is not None:
        before = time.time() - unused_days * _SECONDS_A_DAY
        packs = tuple(pack for pack in packs if pack.last_used <= before and not pack.is_in_use)
    removed, left = [], []
    for pack in packs:
        try:
            reason = "" if remove_pack(Path(pack.folder)) else "a process has it open"
        except OSError as error:
            reason = f"cannot be removed: {error.strerror or error}"
        if reason:
            left.append(Failure(path=pack.folder, stage="cache", reason=reason))
        else:
            removed.append(pack)
    return ClearedPacks(removed=tuple(removed), left=tuple(left))


def _facts_of(pack: Path, key: PackKey | None, contents: Contents) -> PackFacts:
    return PackFacts(
        folder=str(pack),
        key=key,
        num_entries=len(contents.entries),
        num_filled=contents.num_filled,
        num_bytes=used_bytes(pack),
        last_used=last_used(pack),
        is_in_use=is_held(pack),
        problems=contents.problems,
    )
