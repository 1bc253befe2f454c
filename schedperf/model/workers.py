# SPDX-License-Identifier: GPL-2.0-or-later
"""Count the CPUs that this process may use: its affinity, and the CPU limits of its cgroups."""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
# The cgroup v1 hierarchy that limits CPU time.
_CONTROLLER = "cpu"


def count_workers(own: Path = _OWN, cgroups: Path = _CGROUPS) -> int:
    """Return the number of CPUs that this process may use, 1 or more.

    :param own: the process's ``/proc/self/cgroup``
    :param cgroups: where cgroups are mounted
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [math.ceil(limit) for limit in _limits(own, cgroups)]
    return max(1, min(cpus, *limits)) if limits else cpus


def _limits(own: Path, cgroups: Path) -> Iterator[float]:
    """Yield the CPU limit of each of the process's cgroups and their ancestors, in CPUs."""
    for line in _text(own).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        folder = PurePosixPath(path.lstrip("/"))
        if not controllers:
            for group in (folder, *folder.parents):
                yield from _quota(_text(cgroups / group / "cpu.max"))
        elif _CONTROLLER in controllers.split(","):
            for group in (folder, *folder.parents):
                files = cgroups / _CONTROLLER / group
                quota = _text(files / "cpu.cfs_quota_us")
                yield from _quota(f"{quota} {_text(files / 'cpu.cfs_period_us')}")


def _quota(text: str) -> Iterator[float]:
    # "max 100000", or -1 in cgroup v1: no limit.
    fields = text.split()
    if len(fields) == 2 and all(field.isdecimal() for field in fields):  # noqa: PLR2004 # as above
        quota, period = map(int, fields)
        if quota and period:
            yield quota / period


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
