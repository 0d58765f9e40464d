"""What the benchmarks share: files, turns, medians, memory, tables, JSON.

Rules: what competitors hand out is compared before any time is taken; a run to warm up is thrown away, so all files lie
in the page cache; competitors take turns; medians are quoted, and ratios of one run rather than times of one machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

VIDEO_ENDINGS = {".avi", ".mkv", ".mov", ".mp4", ".mpg", ".webm"}


def videos_in(folder: Path, at_most: int | None = None) -> list[str]:
    """List the videos below a folder; of more than `at_most`, some spread evenly."""
    paths = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in VIDEO_ENDINGS)
    if not paths:
        raise SystemExit(f"{folder}: no videos")
    if at_most is None or len(paths) <= at_most:
        return paths
    return [paths[round(place * (len(paths) - 1) / max(1, at_most - 1))] for place in range(at_most)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds of each timed run of one competitor.

    Wall time is what counts; the CPU time of all threads stands beside it, because on a busy machine the two part.
    """

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def middle(self) -> float:
        """Median wall time."""
        return statistics.median(self.wall)

    @property
    def middle_cpu(self) -> float:
        """Median CPU time."""
        return statistics.median(self.cpu)

    def __add__(self, other: Times) -> Times:
        """Add run to run, for work that is measured in pieces."""
        return Times(
            wall=tuple(map(sum, zip(self.wall, other.wall, strict=True))),
            cpu=tuple(map(sum, zip(self.cpu, other.cpu, strict=True))),
        )


def take_turns(work: Mapping[str, Callable[[], object]], num_runs: int) -> dict[str, Times]:
    """Time each piece of work `num_runs` times, one after the other in every round; the first round is thrown away.

    Each round begins with another one, for whoever follows a competitor that left threads behind pays for it.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in work}
    names = list(work)
    for run in range(num_runs + 1):
        first = run % len(names)
        for name in names[first:] + names[:first]:
            wall, cpu = time.perf_counter(), time.process_time()
            work[name]()
            if run > 0:
                taken[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: Times(wall=tuple(wall for wall, _ in runs), cpu=tuple(cpu for _, cpu in runs))
        for name, runs in taken.items()
    }


def anonymous_bytes() -> int:
    """RssAnon + RssShmem of this process and its children, after freed memory has gone back.

    Touched pages of a mapped file belong to the page cache. glibc keeps freed batches unless it is told to return them.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return sum(map(_anonymous_bytes_of, _family(os.getpid())))


def _anonymous_bytes_of(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has ended meanwhile
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "RssShmem")))


def _family(pid: int) -> list[int]:
    members = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # the thread has ended meanwhile
            continue
        for child in children:
            members += _family(int(child))
    return members


def machine_facts(*packages: str) -> dict[str, Any]:
    """What figures depend on: cores, load, versions."""
    versions = {}
    for name in ("clipfeed", "av", "numpy", *packages):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": versions,
    }


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a Markdown table, which a terminal shows as well; numbers stand to the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in [list(heads), *texts]) for place in range(len(heads))]
    is_left = [not all(row[place][:1] in "-0123456789" for row in texts) for place in range(len(heads))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(cells, widths, is_left, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * width) if left else ("-" * (width - 1) + ":") for width, left in zip(widths, is_left, strict=True)]
    return "\n".join([line(heads), line(rule), *map(line, texts)])


def write_json(path: Path | None, facts: object) -> None:
    """Write facts as JSON, if somebody wants them."""
    if path is not None:
        path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
