"""What this machine leaves to a process: memory that may still be taken.

Reads what the system says of itself; takes nothing and measures no speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory"]

_MEMINFO = Path("/proc/meminfo")
_MEMBERSHIP = Path("/proc/self/cgroup")
_HIERARCHY = Path("/sys/fs/cgroup")

# Of a control group: its limit, what is charged to it, and the line of memory.stat that says what of that is page cache
# which goes first, for version 2 and version 1.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory(
    meminfo: Path = _MEMINFO, membership: Path = _MEMBERSHIP, hierarchy: Path = _HIERARCHY
) -> int | None:
    """Give the bytes that this process may still take without swapping or being killed; None where nobody says.

    The least of what the system has left and what each control group above this process has left.

    Args:
        meminfo: The system's own account.
        membership: The file that says which groups a process is in, one line each: "id:controllers:/path".
        hierarchy: The folder under which groups are mounted; version 1 has a folder a controller below it.

    Source: proc(5), MemAvailable; Linux kernel, admin-guide/cgroup-v2 (memory.max) and cgroup-v1/memory.
    """
    facts = _numbers(meminfo, ":")
    left = [facts["MemAvailable"] * 1024] if "MemAvailable" in facts else []
    left += [room for group in _groups(membership, hierarchy) for room in _room(group)]
    return min(left, default=None)


def _groups(membership: Path, hierarchy: Path) -> Iterator[Path]:
    """Give the folders of all groups that may limit the memory of a process."""
    for line in _read(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = hierarchy / "memory" if controllers else hierarchy
        # Inside a container the path may lead nowhere: the mount itself is then the process's group.
        group = mount / path.strip("/")
        yield from [group, *group.parents][: len(group.relative_to(mount).parts) + 1]


def _room(group: Path) -> Iterator[int]:
    for limit_file, used_file, reclaimable in _FILES:
        limit, used = (_read(group / name).strip() for name in (limit_file, used_file))
        if limit.isdecimal() and used.isdecimal():  # not "max"
            freed = _numbers(group / "memory.stat", " ").get(reclaimable, 0)
            yield max(0, int(limit) - int(used) + freed)


def _numbers(file: Path, mark: str) -> dict[str, int]:
    """Read lines of a name, a mark and a number."""
    pairs = (line.partition(mark)[::2] for line in _read(file).splitlines())
    return {name: int(value.split()[0]) for name, value in pairs if value.split()[:1] and value.split()[0].isdecimal()}


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
