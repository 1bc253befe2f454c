# SPDX-License-Identifier: GPL-2.0-or-later
"""Find which tasks belong to the workload: the children of the recorder, and theirs.

An orphan becomes a child of the recorder. A pid may be used again within a run, so the parent of a
process is the next leader (the task whose pid is that of its process) with this pid whose end was
reported later, and which began before the process; if there is none, the last one before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from schedperf_collectors.machine.taskstats import Exit

# Messages are read late, by the interval between two readings and more on a busy machine, so a
# parent may seem to begin a little later than its child.
LATE_US = 500_000
# init and kthreadd, the parent of the kernel's threads.
_FIRST = (1, 2)
# Parent of a process that has none in this pid namespace.
_NOBODY = 0


class _Leader(NamedTuple):
    number: int
    began_us: int
    parent: int


class Tree:
    """Decides for each ended task whether it belongs to the workload.

    :param exits: all ended tasks, in the order of their messages
    :param recorder: pid of the recorder, whose children are the workload and the collectors
    :param outside: pids of processes that existed before the command and do not belong to it
    :param parents: parent of each process that is still running, by pid
    :param since_us: when the processes ``outside`` were listed, on the monotonic clock; a process
        that begins later only uses such a pid again
    """

    def __init__(
        self,
        exits: Iterable[Exit],
        recorder: int,
        outside: Collection[int],
        parents: Mapping[int, int],
        since_us: int,
    ) -> None:
        self._recorder = recorder
        self._outside = frozenset((*outside, *_FIRST))
        self._parents = parents
        self._since_us = since_us
        self._leaders: dict[int, list[_Leader]] = {}
        self._known: dict[int, bool | None] = {}
        for number, ended in enumerate(exits):
            if ended.pid == ended.process:
                leader = _Leader(number, _began_us(ended), ended.parent)
                self._leaders.setdefault(ended.pid, []).append(leader)

    def has(self, number: int, ended: Exit) -> bool | None:
        """Return whether a task belongs to the workload; None if a parent of it is not known.

        :param number: its position among all ended tasks
        """
        if ended.process == self._recorder:
            return False
        if ended.pid == ended.process:
            return self._has_process(number, ended.pid, ended.parent, _began_us(ended))
        leader = self._leader(ended.process, number, _began_us(ended))
        if leader is None:
            return self._has_running(ended.process)
        return self._has_process(leader.number, ended.process, leader.parent, leader.began_us)

    def _has_process(self, number: int, pid: int, parent: int, began_us: int) -> bool | None:
        path: set[int] = set()
        while number not in self._known:
            path.add(number)
            answer: bool | None
            if self._is_outside(pid, began_us) or parent == _NOBODY:
                answer = False
            elif parent == self._recorder:
                answer = True
            else:
                leader = self._leader(parent, number, began_us)
                if leader is not None and leader.number not in path:
                    number, pid, (_, began_us, parent) = leader.number, parent, leader
                    continue
                answer = self._has_running(parent)
            self._known[number] = answer
        self._known.update(dict.fromkeys(path, self._known[number]))
        return self._known[number]

    def _is_outside(self, pid: int, began_us: int) -> bool:
        return pid in self._outside and began_us <= self._since_us + LATE_US

    def _has_running(self, pid: int) -> bool | None:
        return has_running(pid, self._recorder, self._parents, outside=self._outside)

    def _leader(self, pid: int, number: int, began_us: int) -> _Leader | None:
        """Return the process that had a pid when a later process or thread of it began."""
        leaders = self._leaders.get(pid, [])
        at = bisect_right(leaders, (number,))
        earlier, later = leaders[:at], leaders[at:]
        for leader in (*later, *reversed(earlier)):
            if leader.began_us <= began_us + LATE_US:
                return leader
        return None


def has_running(
    pid: int,
    recorder: int,
    parents: Mapping[int, int],
    *,
    inside: Collection[int] = (),
    outside: Collection[int],
) -> bool | None:
    """Return whether a running process belongs to the workload; None if a parent is not known.

    :param recorder: pid of the recorder, whose children are the workload and the collectors
    :param parents: parent of each running process, by pid
    :param inside: pids of running processes that belong to the workload
    :param outside: pids of running processes that do not, e.g. the collectors
    """
    seen: set[int] = set()
    while pid not in seen:
        seen.add(pid)
        if pid in inside:
            return True
        if pid in (recorder, _NOBODY) or pid in outside:
            return False
        if pid not in parents:
            return None
        parent = parents[pid]
        if parent == recorder:
            return True
        pid = parent
    return None


def _began_us(ended: Exit) -> int:
    return ended.seen_us - ended.lifetime_us
