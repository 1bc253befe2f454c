# SPDX-License-Identifier: GPL-2.0-or-later
"""Find which tasks belong to the workload: the children of the recorder, and theirs.

A server of the workload was running before; its tasks are those of its processes, and of their
descendants. An orphan of the workload becomes a child of the recorder. A pid may be used again
within a run, so the parent of a process is the next leader (the task whose pid is that of its
process) with this pid whose end was reported later, and which began before the process; if there is
none, the last one before it.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from schedperf_collectors.machine.processes import since_boot_us
from schedperf_collectors.machine.taskstats import Exit

# Messages are read late, by the interval between two readings and more on a busy machine, so a
# parent may seem to begin a little later than its child.
LATE_US = 500_000
Owner = Literal["workload", "server", "others"]
# init and kthreadd, the parent of the kernel's threads.
_FIRST = (1, 2)
# Parent of a process that has none in this pid namespace.
_NOBODY = 0


class _Leader(NamedTuple):
    number: int
    began_us: int
    parent: int


class Tree:
    """Decides for each ended task whether it belongs to the workload, or to its server.

    :param exits: all ended tasks, in the order of their messages
    :param recorder: pid of the recorder, whose children are the workload and the collectors
    :param outside: pids of processes that existed before the command and do not belong to it
    :param parents: parent of each process that is still running, by pid
    :param since_us: when the processes ``outside`` were listed, on the monotonic clock; a process
        that begins later only uses such a pid again
    :param server: pids of the server's processes; those that existed before are in ``outside``, too
    """

    def __init__(
        self,
        exits: Iterable[Exit],
        recorder: int,
        outside: Collection[int],
        parents: Mapping[int, int],
        since_us: int,
        *,
        server: Collection[int] = (),
    ) -> None:
        self._recorder = recorder
        self._server = frozenset(server)
        self._outside = frozenset((*outside, *_FIRST))
        self._parents = parents
        self._since_us = since_us
        self._leaders: dict[int, list[_Leader]] = {}
        self._known: dict[int, Owner | None] = {}
        for number, ended in enumerate(exits):
            if ended.pid == ended.process:
                leader = _Leader(number, _began_us(ended), ended.parent)
                self._leaders.setdefault(ended.pid, []).append(leader)

    def owner(self, number: int, ended: Exit) -> Owner | None:
        """Return to whom a task belongs; None if a parent of it is not known.

        :param number: its position among all ended tasks
        """
        if ended.process == self._recorder:
            return "others"
        if ended.pid == ended.process:
            return self._owner_of(number, ended.pid, ended.parent, _began_us(ended))
        leader = self._leader(ended.process, number, _began_us(ended))
        if leader is None:
            return self._owner_of_running(ended.process)
        return self._owner_of(leader.number, ended.process, leader.parent, leader.began_us)

    def _owner_of(self, number: int, pid: int, parent: int, began_us: int) -> Owner | None:
        path: set[int] = set()
        while number not in self._known:
            path.add(number)
            answer: Owner | None
            if self._is_outside(pid, began_us):
                answer = self._owner_outside(pid)
            elif parent == _NOBODY:
                answer = "others"
            elif parent == self._recorder:
                answer = "workload"
            else:
                leader = self._leader(parent, number, began_us)
                if leader is not None and leader.number not in path:
                    number, pid, (_, began_us, parent) = leader.number, parent, leader
                    continue
                answer = self._owner_of_running(parent)
            self._known[number] = answer
        self._known.update(dict.fromkeys(path, self._known[number]))
        return self._known[number]

    def _is_outside(self, pid: int, began_us: int) -> bool:
        return pid in self._outside and began_us <= self._since_us + LATE_US

    def _owner_outside(self, pid: int) -> Owner:
        return "server" if pid in self._server else "others"

    def _owner_of_running(self, pid: int) -> Owner | None:
        return owner_of_running(
            pid, self._recorder, self._parents, outside=self._outside, server=self._server
        )

    def _leader(self, pid: int, number: int, began_us: int) -> _Leader | None:
        """Return the process that had a pid when a later process or thread of it began."""
        leaders = self._leaders.get(pid, [])
        at = bisect_right(leaders, (number,))
        earlier, later = leaders[:at], leaders[at:]
        for leader in (*later, *reversed(earlier)):
            if leader.began_us <= began_us + LATE_US:
                return leader
        return None


def owner_of_running(
    pid: int,
    recorder: int,
    parents: Mapping[int, int],
    *,
    inside: Collection[int] = (),
    outside: Collection[int],
    server: Collection[int] = (),
) -> Owner | None:
    """Return to whom a running process belongs; None if a parent is not known.

    :param recorder: pid of the recorder, whose children are the workload and the collectors
    :param parents: parent of each running process, by pid
    :param inside: pids of running processes that belong to the workload
    :param outside: pids of running processes that do not, e.g. the collectors
    :param server: pids of processes of the workload's server
    """
    seen: set[int] = set()
    while pid not in seen:
        seen.add(pid)
        if pid in inside:
            return "workload"
        if pid in server:
            return "server"
        if pid in (recorder, _NOBODY) or pid in outside:
            return "others"
        if pid not in parents:
            return None
        parent = parents[pid]
        if parent == recorder:
            return "workload"
        pid = parent
    return None


def began_since_boot_us(ended: Exit) -> int:
    """Return the start of an ended task on the clock of :attr:`Process.began_us`.

    It may be late by :data:`LATE_US`, but not early.
    """
    return _began_us(ended) + since_boot_us() - time.monotonic_ns() // 1000


def is_same(ended: Exit, began_us: int) -> bool:
    """Return whether an ended task is a running one with its id, and not an earlier one.

    :param began_us: start of the running task since boot
    """
    return abs(began_since_boot_us(ended) - began_us) < LATE_US


def _began_us(ended: Exit) -> int:
    """Return the start of an ended task in us on the monotonic clock."""
    return ended.seen_us - ended.lifetime_us
