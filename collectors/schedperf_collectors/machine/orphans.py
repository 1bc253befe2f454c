# SPDX-License-Identifier: GPL-2.0-or-later
"""Find and kill processes that a command leaves running in sessions of their own.

The recorder is their *subreaper*: what a command leaves behind becomes the recorder's child, where
it can be found. No cgroup is made, because one with the controller ``cpu`` is a task group:
its tasks would be scheduled differently.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# From prctl(2).
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# A killed process may sleep in the kernel for some time.
_END_LIMIT_S = 5.0
_POLL_S = 0.005


@dataclass(frozen=True)
class Moment:
    """The processes right before a command runs; what began later may be the command's.

    :param pids: of the whole machine
    :param ticks: since boot
    """

    pids: frozenset[int]
    ticks: int

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
        return cls(frozenset(_pids()), ticks)

    def precedes(self, process: _Process) -> bool:
        """Return whether a process began later; its number may have been another's before."""
        return process.pid not in self.pids or process.began_ticks > self.ticks


@dataclass(frozen=True)
class _Process:
    pid: int
    name: str
    state: str
    parent: int
    group: int
    began_ticks: int


def adopt_orphans(*, adopts: bool = True) -> None:
    """Become the parent of all descendants whose parent ends; or no longer."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def end_with_parent(parent: int, signum: int = signal.SIGTERM) -> None:
    """Ask for a signal when the parent dies; called in a new child.

    :param parent: its process number; the child is ended if the parent is already gone
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signum)


def end_orphans(
    began: Moment, group: int | None = None, until: Moment | None = None
) -> tuple[str, ...]:
    """Kill and reap this process's children that began after a moment, and theirs in turn.

    :param group: process group that is killed already; its members are reaped, and not named
    :param until: children that began after this moment stay
    :return: names of the others that were still running, in the order of their numbers; with
        "(still running)" if they could not be killed, e.g. those of another user
    """
    named: dict[int, str] = {}
    deadline = time.monotonic() + _END_LIMIT_S
    while True:
        orphans = [
            each
            for each in _children()
            if began.precedes(each) and not (until is not None and until.precedes(each))
        ]
        if not orphans or time.monotonic() > deadline:
            left = {orphan.pid for orphan in orphans if orphan.state != "Z"}
            marks = {pid: " (still running)" if pid in left else "" for pid in named}
            return tuple(f"{named[pid]}{marks[pid]}" for pid in sorted(named))
        for orphan in orphans:
            if orphan.state != "Z" and orphan.group != group:
                named[orphan.pid] = orphan.name
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan.pid, signal.SIGKILL)
        time.sleep(_POLL_S)
        for orphan in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan.pid, os.WNOHANG)


def kill_descendants(pid: int) -> None:
    """Kill all descendants of a process, which is to be killed next.

    Those that have left its process group would survive it otherwise.
    """
    deadline = time.monotonic() + _END_LIMIT_S
    while descendants := _descendants(pid):
        for descendant in descendants:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(descendant, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(_POLL_S)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[_Process]] = {}
    for process in _processes():
        children.setdefault(process.parent, []).append(process)
    found = [pid]
    alive = []
    while found:
        for child in children.get(found.pop(), []):
            found.append(child.pid)
            if child.state != "Z":
                alive.append(child.pid)
    return alive


def _children() -> Iterator[_Process]:
    return (process for process in _processes() if process.parent == os.getpid())


def _processes() -> Iterator[_Process]:
    for pid in _pids():
        with contextlib.suppress(OSError):
            yield _parse(Path(f"/proc/{pid}/stat").read_text(errors="replace"))


def _parse(stat: str) -> _Process:
    # The name is in parentheses and may contain any character.
    head, _, tail = stat.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    return _Process(int(pid), name, fields[0], int(fields[1]), int(fields[2]), int(fields[19]))


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
