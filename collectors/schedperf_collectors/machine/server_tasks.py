# SPDX-License-Identifier: GPL-2.0-or-later
"""Add up what the tasks of a server use during a run; the server was started before the run.

The values of tasks that are running before and after the run are those of /proc/PID/task/TID/stat
and schedstat, see proc(5). Those of tasks that end meanwhile are in the messages of the kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from schedperf_collectors.machine.processes import (
    TICKS_PER_S,
    Process,
    parse_schedstat,
    parse_stat,
    since_boot_us,
)
from schedperf_collectors.machine.task_tree import LATE_US, began_since_boot_us, is_same
from schedperf_collectors.machine.taskstats import Exit
from schedperf_collectors.machine.value_files import ValueFiles

_TICK_US = 1_000_000 // TICKS_PER_S
_FIELDS = (
    "lifetime_us", "exec_ns", "waiting_ns", "user_us", "system_us", "minor_faults", "major_faults",
)  # fmt: skip
_PROCS = "cgroup.procs"
# A cgroup with 10,000 processes.
_PROCS_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class Server:
    """Where the processes of a server are found.

    :param pids: processes that belong to it with their descendants: the start of each in ticks
        since boot, by pid
    :param cgroups: directories of cgroups whose processes belong to it, with all groups below
    """

    pids: Mapping[int, int]
    cgroups: tuple[str, ...]

    def processes(
        self, files: ValueFiles, running: Mapping[int, Process], more: Collection[int] = ()
    ) -> frozenset[int]:
        """Return the pids of its processes.

        :param running: all processes, by pid
        :param more: pids of processes that belong to it with their descendants
        """
        found = {
            pid
            for pid, began in self.pids.items()
            if pid in running and running[pid].began_ticks == began
        }
        found.update(pid for pid in (*more, *self._in_cgroups(files)) if pid in running)
        children: dict[int, list[int]] = {}
        for process in running.values():
            children.setdefault(process.parent, []).append(process.pid)
        unseen = list(found)
        while unseen:
            new = [pid for pid in children.get(unseen.pop(), ()) if pid not in found]
            found.update(new)
            unseen += new
        return frozenset(found)

    def _in_cgroups(self, files: ValueFiles) -> Iterator[int]:
        for cgroup in self.cgroups:
            for folder, names in files.folders(cgroup):
                if _PROCS in names:
                    pids = files.value(f"{folder}/{_PROCS}", _PROCS_LIMIT_BYTES) or ""
                    yield from map(int, pids.split())


def read_server(options: Mapping[str, str]) -> Server | None:
    """Return the server that the settings of a collector name; None if they name none.

    :param options: lines of ``pids``, each a pid and its start in ticks, and of ``cgroups``
    """
    pids = [line.split() for line in options.get("pids", "").splitlines()]
    cgroups = tuple(options.get("cgroups", "").splitlines())
    if not pids and not cgroups:
        return None
    return Server({int(pid): int(began) for pid, began in pids}, cgroups)


def to_options(server: Server) -> dict[str, str]:
    """Return the settings for :func:`read_server`."""
    pids = "\n".join(f"{pid} {began}" for pid, began in server.pids.items())
    return {"pids": pids, "cgroups": "\n".join(server.cgroups)}


class RunningTask(NamedTuple):
    """A running task.

    :param began_us: its start since boot, rounded down to a tick
    :param seen_us: when it was read, since boot
    :param used: what it has used since its start, with the names of :class:`Exit`
    """

    began_us: int
    seen_us: int
    used: Mapping[str, int]


def read_tasks(files: ValueFiles, pids: Iterable[int]) -> dict[int, RunningTask]:
    """Return the tasks of processes, by tid; those that end meanwhile are left out."""
    tasks = {}
    for pid in pids:
        for name in files.names(f"/proc/{pid}/task"):
            task = _read_task(files, f"/proc/{pid}/task/{name}")
            if task is not None:
                tasks[int(name)] = task
    return tasks


def _read_task(files: ValueFiles, folder: str) -> RunningTask | None:
    schedstat, stat = files.value(f"{folder}/schedstat"), files.value(f"{folder}/stat")
    if schedstat is None or stat is None:
        return None
    times = parse_schedstat(schedstat)
    process = parse_stat(0, stat)
    began_us, seen_us = process.began_us, since_boot_us()
    used = {
        "lifetime_us": seen_us - began_us,
        "exec_ns": times.exec_ns,
        "waiting_ns": times.waiting_ns,
        "user_us": round(process.used.user_s * 1e6),
        "system_us": round(process.used.system_s * 1e6),
        "minor_faults": process.used.minor_faults,
        "major_faults": process.used.major_faults,
    }
    return RunningTask(began_us, seen_us, used)


def server_use(
    before: Mapping[int, RunningTask],
    after: Mapping[int, RunningTask],
    ended: Iterable[Exit],
    *,
    since_us: int,
) -> Counter[str]:
    """Return what a server's tasks used between two readings, with the names of :class:`Exit`.

    ``tasks`` is their number. A task that began before ``since_us``, but is not in ``before``, has
    joined the server later, e.g. with a process that was moved to its cgroup, and is left out.

    :param before: tasks of the first reading, by tid
    :param after: tasks of the second reading
    :param ended: tasks that ended since the first reading, in the order of their messages
    :param since_us: time since boot, not later than the listing of the tasks for the first reading
    """
    # The start of a running task is known in ticks.
    first_us = since_us - _TICK_US
    earlier, still = dict(before), dict(after)
    sums = Counter[str]()
    for task in ended:
        begun = earlier.pop(task.pid, None)
        # A pid is used again at most after its task has ended.
        if begun is not None and task.lifetime_us + LATE_US < begun.used["lifetime_us"]:
            begun = None
        if begun is not None or began_since_boot_us(task) >= first_us:
            sums.update(use_of_ended(task, None if begun is None else begun.used))
        # It may also have ended after the second reading.
        if task.pid in still and is_same(task, still[task.pid].began_us):
            del still[task.pid]
    for tid, running in still.items():
        begun = earlier.get(tid)
        if begun is None or begun.began_us != running.began_us:
            if running.began_us < first_us:
                continue
            begun = None
        sums.update(_used(running.used, None if begun is None else begun.used))
    return sums


def use_of_ended(task: Exit, before: Mapping[str, int] | None) -> dict[str, int]:
    """Return what a task that has ended used, with the names of :class:`Exit`; ``tasks`` is 1.

    :param before: what it had used before, as /proc had it; None for all since its start
    """
    total = task if before is None else task.scaled()
    return _used({name: getattr(total, name) for name in _FIELDS}, before)


def _used(total: Mapping[str, int], before: Mapping[str, int] | None) -> dict[str, int]:
    before = before or {}
    return {"tasks": 1, **{name: max(0, total[name] - before.get(name, 0)) for name in _FIELDS}}
