# SPDX-License-Identifier: GPL-2.0-or-later
"""As many workers as CPUs that the process may use."""

import os
from pathlib import Path
from typing import Any

import pytest

from schedperf.model.workers import count_workers

CPUS = len(os.sched_getaffinity(0))


@pytest.fixture
def cgroup(tmp_path: Path) -> Any:
    """Write the files of a cgroup: ``cgroup("0::/a/b", {"a/cpu.max": …}) -> count_workers``."""

    def make(own: str, files: dict[str, str]) -> int:
        (tmp_path / "own").write_text(f"{own}\n", encoding="ascii")
        for name, text in files.items():
            path = tmp_path / "mounted" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n", encoding="ascii")
        return count_workers(tmp_path / "own", tmp_path / "mounted")

    return make


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/", {}, None),
        ("0::/a/b", {"a/b/cpu.max": "max 100000"}, None),
        ("0::/a/b", {"a/b/cpu.max": "50000 100000"}, 1),
        ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ("0::/a", {"a/cpu.max": "damaged"}, None),
        (
            "4:cpu,cpuacct:/a",
            {"cpu/a/cpu.cfs_quota_us": "100000", "cpu/a/cpu.cfs_period_us": "100000"},
            1,
        ),
        (
            "4:cpu,cpuacct:/a",
            {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"},
            None,
        ),
    ],
)
def test_the_limits_of_cgroups_count(
    cgroup: Any, own: str, files: dict[str, str], limit: int | None
) -> None:
    assert cgroup(own, files) == min(CPUS, limit or CPUS)


def test_the_affinity_counts() -> None:
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(own)})
    try:
        assert count_workers(Path("/none"), Path("/none")) == 1
    finally:
        os.sched_setaffinity(0, own)
