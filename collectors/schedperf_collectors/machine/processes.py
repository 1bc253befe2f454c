# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the processes of this machine from /proc/PID/stat, see proc_pid_stat(5)."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
# Unit of the times of a process.
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Index of the start time among the fields after the name.
_START = 19


@dataclass(frozen=True)
class Used:
    """What a process has used since its start: CPU time in s, and page faults."""

    user_s: float
    system_s: float
    minor_faults: int
    major_faults: int


@dataclass(frozen=True)
class Process:
    """One process.

    :param name: its command, at most 15 bytes
    :param state: one letter, e.g. "Z" for a zombie
    :param began_ticks: its start in clock ticks since boot
    :param used: of all its threads, those that have ended included
    :param used_by_children: of the children that it has waited for, and theirs
    """

    pid: int
    name: str
    state: str
    parent: int
    group: int
    began_ticks: int
    used: Used
    used_by_children: Used

    @property
    def began_us(self) -> int:
        """Return its start in us since boot, rounded down to a tick."""
        return self.began_ticks * 1_000_000 // TICKS_PER_S


def since_boot_us() -> int:
    """Return the current time in us since boot, on the clock of :attr:`Process.began_us`."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def pids(proc: Path = PROC) -> list[int]:
    """Return the ids of all processes."""
    return [int(name) for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208


def read_process(pid: int, proc: Path = PROC) -> Process:
    """Read one process.

    :raises OSError: it has ended, or may not be read
    :raises ValueError: its file is damaged
    """
    return parse_stat(pid, (proc / str(pid) / "stat").read_text(errors="replace"))


def parse_stat(pid: int, stat: str) -> Process:
    """Parse /proc/PID/stat, or /proc/PID/task/TID/stat with the times and faults of one task.

    :raises ValueError: it is damaged
    """
    # The name is in parentheses and may contain any character.
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    if len(fields) <= _START:
        raise ValueError(f"{len(fields)} fields after the name (expected more than {_START})")
    minor, minor_of_children, major, major_of_children = map(int, fields[7:11])
    user, system, user_of_children, system_of_children = (
        int(ticks) / TICKS_PER_S for ticks in fields[11:15]
    )
    return Process(
        pid=pid,
        name=head.partition(" (")[2],
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        began_ticks=int(fields[_START]),
        used=Used(user, system, minor, major),
        used_by_children=Used(
            user_of_children, system_of_children, minor_of_children, major_of_children
        ),
    )


class ScheduledTimes(NamedTuple):
    """What a task has used since its start, as the scheduler counts it.

    :param exec_ns: CPU time
    :param waiting_ns: time that it was runnable but not running
    """

    exec_ns: int
    waiting_ns: int


def parse_schedstat(schedstat: str) -> ScheduledTimes:
    """Parse /proc/PID/task/TID/schedstat, see Documentation/scheduler/sched-stats.rst.

    :raises ValueError: it is damaged
    """
    execution, waiting, *_ = schedstat.split()
    return ScheduledTimes(int(execution), int(waiting))


def all_processes(proc: Path = PROC) -> Iterator[Process]:
    """Yield every process that can be read."""
    for pid in pids(proc):
        with contextlib.suppress(OSError, ValueError):
            yield read_process(pid, proc)
