"""What `clipfeed cache info` says of packs, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clipfeed.cache import PackFacts, VerifiedPack, free_bytes
from clipfeed.cli._say import print_failures, print_line, print_table
from clipfeed.records import Failure
from clipfeed.sizes import show_bytes

_SHOWN_DIGITS = 12  # of a pack's name: no two packs of a folder begin alike for so long


def count_packs(number: int) -> str:
    """Say how many packs there are."""
    return "1 pack" if number == 1 else f"{number} packs"


def describe_pack(pack: PackFacts, verified: VerifiedPack | None) -> dict[str, Any]:
    """A pack in figures, ready for JSON."""
    facts: dict[str, Any] = {
        "pack": pack.folder,
        "of": None if pack.key is None else {**_shape_of(pack), **dict(pack.key.fields)},
        "num_entries": pack.num_entries,
        "num_filled": pack.num_filled,
        "num_bytes": pack.num_bytes,
        "last_used": _time_of(pack).isoformat(),
        "is_in_use": pack.is_in_use,
        "problems": list(pack.problems),
    }
    if verified is not None:
        facts["num_sound"] = verified.num_sound
        facts["num_not_filled"] = verified.num_not_filled
        facts["damaged"] = [asdict(entry) for entry in verified.damaged]
    return facts


def _shape_of(pack: PackFacts) -> dict[str, Any]:
    return {} if pack.key is None else {"clip_length": pack.key.clip_length, "frame_shape": pack.key.frame_shape}


def show_packs(folder: Path, packs: tuple[PackFacts, ...], verified: dict[str, VerifiedPack]) -> None:
    """Print the packs, and what is wrong with them."""
    total = show_bytes(sum(pack.num_bytes for pack in packs))
    head = ["pack", "entries", "frames", "sampling", "codec", "there", "of", "size", "last used", "in use"]
    rows: list[list[object]] = [_row_of(pack) for pack in packs]
    if verified:
        head += ["sound", "damaged"]
        for row, pack in zip(rows, verified.values(), strict=True):
            row += [pack.num_sound, len(pack.damaged)]
    print_line(f"{folder}: {count_packs(len(packs))}, {total}; free: {show_bytes(free_bytes(folder))}")
    if packs:
        print_table("", head, rows)
    wrong = [Failure(path=pack.folder, stage="cache", reason=text) for pack in packs for text in pack.problems]
    wrong += [
        Failure(
            path=f"{pack.facts.folder}, {entry.place}",
            stage="cache",
            reason=f"{entry.key or 'unknown video'}: {entry.reason}",
        )
        for pack in verified.values()
        for entry in pack.damaged
    ]
    print_failures("damaged; a dataset that meets it decodes it again", wrong)


def _row_of(pack: PackFacts) -> list[object]:
    fields = {} if pack.key is None else dict(pack.key.fields)
    shape = "?" if pack.key is None else " x ".join(str(side) for side in pack.key.frame_shape)
    length = None if pack.key is None else pack.key.clip_length
    entries = "?" if pack.key is None else "all frames" if length is None else f"clips of {length}"
    return [
        pack.name[:_SHOWN_DIGITS],
        entries,
        shape,
        fields.get("sampling", "?" if pack.key is None else "any"),
        fields.get("codec", "?"),
        pack.num_filled,
        pack.num_entries,
        show_bytes(pack.num_bytes),
        f"{_time_of(pack):%Y-%m-%d %H:%M}",
        "yes" if pack.is_in_use else "",
    ]


def _time_of(pack: PackFacts) -> datetime:
    return datetime.fromtimestamp(pack.last_used, tz=UTC).astimezone()
