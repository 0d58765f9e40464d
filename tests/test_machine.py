"""Memory that may still be taken: the system's account, and whatever control groups leave of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clipfeed.machine import available_memory

GIB = 1 << 30


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    file = tmp_path / "meminfo"
    file.write_text(f"MemTotal:       {32 << 20} kB\nMemAvailable:   {16 << 20} kB\nHugePages_Total:       0\n")
    return file


def membership(folder: Path, *lines: str) -> Path:
    file = folder / "cgroup"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def limit(group: Path, name: str, **files: int | str) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for key, value in files.items():
        (group / f"memory.{key}").write_text(f"{value}\n")
    (group / "memory.stat").write_text(f"anon 7\n{name} {GIB}\n")


def test_without_control_groups_it_is_what_the_system_says(meminfo: Path, tmp_path: Path) -> None:
    assert available_memory(meminfo, tmp_path / "none", tmp_path / "nowhere") == 16 * GIB


def test_where_nobody_says_there_is_no_figure(tmp_path: Path) -> None:
    assert available_memory(tmp_path / "none", tmp_path / "none", tmp_path / "nowhere") is None


def test_a_group_leaves_its_limit_less_what_is_used_and_cannot_be_dropped(meminfo: Path, tmp_path: Path) -> None:
    limit(tmp_path / "fs" / "jobs" / "mine", "inactive_file", max=4 * GIB, current=3 * GIB)
    groups = membership(tmp_path, "0::/jobs/mine")
    assert available_memory(meminfo, groups, tmp_path / "fs") == 2 * GIB


def test_the_tightest_of_nested_groups_counts(meminfo: Path, tmp_path: Path) -> None:
    limit(tmp_path / "fs" / "jobs" / "mine", "inactive_file", max="max", current=3 * GIB)
    limit(tmp_path / "fs" / "jobs", "inactive_file", max=6 * GIB, current=5 * GIB)
    groups = membership(tmp_path, "0::/jobs/mine")
    assert available_memory(meminfo, groups, tmp_path / "fs") == 2 * GIB


def test_version_1_has_its_own_files_below_the_controller(meminfo: Path, tmp_path: Path) -> None:
    limit(
        tmp_path / "fs" / "memory" / "docker",
        "total_inactive_file",
        limit_in_bytes=5 * GIB,
        usage_in_bytes=4 * GIB,
    )
    groups = membership(tmp_path, "3:cpu,cpuacct:/docker", "2:memory:/docker")
    assert available_memory(meminfo, groups, tmp_path / "fs") == 2 * GIB


def test_a_group_path_that_leads_nowhere_falls_back_to_the_mount(meminfo: Path, tmp_path: Path) -> None:
    limit(tmp_path / "fs", "inactive_file", max=2 * GIB, current=GIB)
    groups = membership(tmp_path, "0::/host/path/of/the/container")
    assert available_memory(meminfo, groups, tmp_path / "fs") == 2 * GIB


def test_a_group_that_is_over_its_limit_leaves_nothing(meminfo: Path, tmp_path: Path) -> None:
    limit(tmp_path / "fs", "inactive_file", max=GIB, current=9 * GIB)
    assert available_memory(meminfo, membership(tmp_path, "0::/"), tmp_path / "fs") == 0


def test_a_huge_limit_of_version_1_means_no_limit(meminfo: Path, tmp_path: Path) -> None:
    limit(tmp_path / "fs" / "memory", "total_inactive_file", limit_in_bytes=2**63 - 4096, usage_in_bytes=GIB)
    assert available_memory(meminfo, membership(tmp_path, "2:memory:/"), tmp_path / "fs") == 16 * GIB


def test_this_machine_says_something() -> None:
    available = available_memory()
    assert available is None or available > 0
