# SPDX-License-Identifier: GPL-2.0-or-later
"""Find and kill processes that a command leaves running in their own sessions.

The recorder is their *subreaper*: orphans of a command become children of the recorder, which can
find them. No cgroup is created, because a cgroup with the controller ``cpu`` is a task group, in
which tasks would be scheduled differently.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from schedperf_collectors.machine.changed import GUARD
from schedperf_collectors.machine.processes import TICKS_PER_S, Process, all_processes, pids

# From prctl(2).
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# A killed process may stay in an uninterruptible sleep for some time.
_END_LIMIT_S = 5.0
# On a busy machine each look takes long, and children of killed processes appear one by one; but a
# process that forks faster than it can be killed must not hold the recorder for ever.
_LONGEST_S = 60.0
_POLL_S = 0.005


@dataclass(frozen=True)
class Moment:
    """The processes right before a command runs; later processes may belong to the command.

    :param pids: process ids of the whole machine
    :param ticks: time since boot in clock ticks (SC_CLK_TCK per second)
    """

    pids: frozenset[int]
    ticks: int

    @classmethod
    def now(cls) -> Moment:
        """Return the current moment."""
        ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_S)
        return cls(frozenset(pids()), ticks)

    def precedes(self, process: Process) -> bool:
        """Return whether a process began after this moment, also if it reuses an earlier pid."""
        return process.pid not in self.pids or process.began_ticks > self.ticks


def adopt_orphans(*, adopts: bool = True) -> None:
    """Make this process the new parent of descendants whose own parent ends (subreaper).

    :param adopts: False to stop being a subreaper
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def end_with_parent(parent: int, signum: int = signal.SIGTERM) -> None:
    """Make the kernel send this process a signal when its parent ends; call it in a new child.

    :param parent: pid of the parent; if it has already ended, this process exits with status 128
        plus ``signum``
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signum)


def end_orphans(
    began: Moment,
    group: int | None = None,
    until: Moment | None = None,
    reaped: Callable[[Any], None] = lambda _: None,
) -> tuple[str, ...]:
    """Kill and reap the children of this process that began after a moment, and their descendants.

    Reaping them requires :func:`adopt_orphans`. Descendants are killed at once, since a process
    that gets no CPU, e.g. beside one with a real-time priority, does not end and keeps its
    children. The function gives up 5 s after the last new child, and after 60 s.

    :param group: process group that was already killed; its members are reaped, but not returned;
        None for no group
    :param until: children that began after this moment are not killed; None to kill them too
    :param reaped: called with the struct_rusage of each child that was reaped
    :return: names of the processes outside of ``group`` that were still running, in the order of
        their pids; with "(still running)" if they did not end, e.g. those of another user
    """
    named: dict[int, str] = {}
    killed: set[int] = set()
    end = time.monotonic() + _LONGEST_S
    deadline = 0.0
    while True:
        processes = [*_processes()]
        orphans = [
            each
            for each in processes
            if each.parent == os.getpid()
            and began.precedes(each)
            and not (until is not None and until.precedes(each))
        ]
        family = [*orphans, *_descend(processes, [orphan.pid for orphan in orphans])]
        now = time.monotonic()
        if not killed.issuperset(each.pid for each in family) and now < end:
            deadline = now + _END_LIMIT_S
        elif not orphans or now > deadline:
            left = {each.pid for each in family if each.state != "Z"}
            marks = {pid: " (still running)" if pid in left else "" for pid in named}
            return tuple(f"{named[pid]}{marks[pid]}" for pid in sorted(named))
        for each in family:
            if each.state != "Z" and each.group != group:
                named[each.pid] = each.name
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, signal.SIGKILL)
            killed.add(each.pid)
        time.sleep(_POLL_S)
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                pid, _, usage = os.wait4(orphan.pid, os.WNOHANG)
                if pid:
                    reaped(usage)


def kill_descendants(pid: int) -> None:
    """Kill all descendants of a process that is about to be killed, except guards.

    Otherwise, descendants that have left its process group would survive. The function gives up on
    the remaining ones after 5 s.
    """
    deadline = time.monotonic() + _END_LIMIT_S
    while descendants := [each for each in _descend([*_processes()], [pid]) if each.state != "Z"]:
        for descendant in descendants:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(_POLL_S)


def _descend(processes: Sequence[Process], pids: Sequence[int]) -> Iterator[Process]:
    """Yield the descendants of processes."""
    children: dict[int, list[Process]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process)
    found = [*pids]
    while found:
        for child in children.get(found.pop(), []):
            found.append(child.pid)
            yield child


def _processes() -> Iterator[Process]:
    """Yield all processes but guards."""
    return (process for process in all_processes() if process.name != GUARD)
