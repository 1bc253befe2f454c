# SPDX-License-Identifier: GPL-2.0-or-later
"""Record what the workload's tasks did with their time, and who else used the CPUs.

The kernel sends a message for each task that ends (taskstats); the messages are read every 50 ms.
Those of the workload's tasks are added up: the tasks of the command, of what it started, and of
what became an orphan. Other tasks are added up by command, together with those that were running
before and after the run (``/proc/PID/stat``)::

    account.json  {"schema": "schedperf/account/1", "exits": 523, "lost": 0, "left_out": 0,
                   "unresolved": 0, "commands": ["hackbench"], "tasks": 401,
                   "lifetime_s": 1034.1, "exec_s": 5.175, "waiting_s": 610.9, "user_s": 0.35,
                   "system_s": 4.9, "minor_faults": …, "major_faults": …,
                   "recorder_cpu_s": 0.31, "others_cpu_s": 2.2,
                   "others": [{"command": "stress-ng", "cpu_s": 2.1}, …],
                   "server": {"tasks": 9, "lifetime_s": 12.1, "exec_s": 1.4, …}}

With ``--workload-pid`` and its siblings, the tasks of a server that was started before the
recording are added up, too, under ``server``: from /proc before and after the run, and from the
messages of those that end.

``others`` are commands with at least 0.1% of ``others_cpu_s``, at most :data:`MOST_OTHERS`.
``commands`` are the names of the workload's tasks when they ended, at most :data:`MOST_COMMANDS`,
those with the most CPU time first. ``exec_s`` is CPU time as the scheduler counts it, ``user_s``
and ``system_s`` are by ticks. ``exits`` is the number of messages, which are about all tasks of the
machine that ended. ``lost`` ones were dropped by the kernel (null if unknown), ``left_out`` tasks
were too many to store, and the parent of ``unresolved`` tasks was not found; none of these tasks is
in the sums.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.before_command import (
    Before,
    Setup,
    children_of,
    processes_by_pid,
)
from schedperf_collectors.machine.processes import Process
from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.server_tasks import (
    RunningTask,
    Server,
    read_server,
    read_tasks,
    server_use,
    use_of_ended,
)
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.task_tree import Tree, is_same
from schedperf_collectors.machine.taskstats import Exit, Exits
from schedperf_collectors.machine.value_files import ValueFiles
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, InvalidRun, Skipped, collector

SCHEMA = "schedperf/account/1"
READ_EVERY_S = (0.05, 0.05)
LARGEST_SHARE = 0.05
# Commands of the list of others, and of the workload.
MOST_OTHERS = 100
MOST_COMMANDS = 100
# Share of the others' CPU time that a command in their list has.
LEAST_SHARE = 0.001


@collector(
    scope="run",
    cost="5 us of CPU time per task that ends on the machine",
    options=("pids", "cgroups"),
)
def account(capture: Capture) -> Iterator[str]:
    """Add up CPU time and waiting time of the workload's tasks, and CPU time of others."""
    return capture_account(System(), capture)


def capture_account(system: System, capture: Capture) -> Iterator[str]:
    """Implement :func:`account` for any system.

    :raises Skipped: the kernel has no taskstats with CPU and waiting times, or this user may not
        read them, or the times of the server
    :raises InvalidRun: the server has ended before the run
    """
    server = read_server(capture.options)
    try:
        exits = Exits(system)
    except Unavailable as unavailable:
        raise Skipped(unavailable.reason, unavailable.remedy) from unavailable
    recorder = capture.workload_pid
    try:
        earlier = children_of(system, recorder)
        yield PREPARED
        before = Before.now(system, recorder, earlier)
        first = None if server is None else _server_before(system, server, before)
        exits.forget()
        with repeated(exits.read, LARGEST_SHARE, pauses_s=READ_EVERY_S):
            yield BEGUN
        # Each task that is still running now is listed, or its message is read afterwards.
        after = processes_by_pid(system)
        last = _NO_SERVER
        if server is not None and first is not None:
            last = _server_after(system, server, first, before, after)
        exits.read()
        parents = {process.pid: process.parent for process in after.values()}
        tree = Tree(exits, recorder, before.outside, parents, before.since_us, server=last.pids)
        ended = _sort(exits, tree)
        running = {pid: each for pid, each in after.items() if pid not in last.pids}
        record = {
            "schema": SCHEMA,
            "exits": len(exits) + exits.left_out,
            "lost": exits.lost(),
            "left_out": exits.left_out,
            **_account(ended, before, running, exits.commands, recorder),
        }
        if first is not None:
            used = server_use(first.running, last.running, ended.server, since_us=before.listing_us)
            record["server"] = _in_seconds(used)
    finally:
        exits.close()
    (capture.folder / "account.json").write_text(json.dumps(record, indent=1) + "\n")


class _ServerTasks(NamedTuple):
    """The server of the workload at one moment.

    :param pids: its processes; at the end of a run, those that have ended, too
    :param running: its running tasks, by tid
    """

    pids: frozenset[int]
    running: Mapping[int, RunningTask]


_NO_SERVER = _ServerTasks(frozenset(), {})


def _server_before(system: System, server: Server, before: Before) -> _ServerTasks:
    """Return the server right before the command.

    :raises InvalidRun: the server has ended
    :raises Skipped: the times of its tasks cannot be read
    """
    files = ValueFiles(system)
    pids = server.processes(files, before.processes)
    tasks = read_tasks(files, pids)
    if tasks:
        return _ServerTasks(pids, tasks)
    if any(files.names(f"/proc/{pid}/task") for pid in pids):
        raise Skipped("the server's /proc/PID/task/TID/schedstat cannot be read")
    raise InvalidRun("the server has ended", "start it again, and give its new pid")


def _server_after(
    system: System,
    server: Server,
    first: _ServerTasks,
    before: Before,
    processes: Mapping[int, Process],
) -> _ServerTasks:
    """Return the server right after the command.

    :param first: the server right before the command
    """
    files = ValueFiles(system)
    same = [
        pid
        for pid in first.pids
        if pid in processes and processes[pid].began_ticks == before.processes[pid].began_ticks
    ]
    pids = server.processes(files, processes, same)
    return _ServerTasks(pids | first.pids, read_tasks(files, pids))


@dataclass(frozen=True)
class _Ended:
    """The tasks that ended during the run, and whose they were.

    :param workload: tasks of the workload
    :param server: tasks of its server
    :param others: all other tasks, by pid of their process
    :param unresolved: number of tasks whose parent is not known
    """

    workload: list[Exit]
    server: list[Exit]
    others: dict[int, list[Exit]]
    unresolved: int


def _sort(exits: Exits, tree: Tree) -> _Ended:
    ended = _Ended([], [], {}, 0)
    unresolved = 0
    for number, task in enumerate(exits):
        owner = tree.owner(number, task)
        if owner == "workload":
            ended.workload.append(task)
        elif owner == "server":
            ended.server.append(task)
        elif owner is None:
            unresolved += 1
        else:
            ended.others.setdefault(task.process, []).append(task)
    return replace(ended, unresolved=unresolved)


def _account(
    ended: _Ended,
    before: Before,
    after: Mapping[int, Process],
    commands: Sequence[str],
    recorder: int,
) -> dict[str, object]:
    """Return the times of the workload and of other commands.

    :param after: processes right after the command, without those of the server
    :param commands: names of commands, by their number
    """
    sums = Counter[str]()
    used_by = Counter[str]()
    for task in ended.workload:
        used = _used(task, before.setup)
        sums.update(used)
        used_by[commands[task.command]] += used["exec_ns"]
    own_s, others_s = 0.0, defaultdict[str, float](float)
    for command, is_own, used_s in _others(commands, ended.others, before, after, recorder):
        if is_own:
            own_s += used_s
        elif used_s > 0.0:
            others_s[command] += used_s
    return {
        "unresolved": ended.unresolved,
        "commands": [command for command, _ in used_by.most_common(MOST_COMMANDS)],
        **_in_seconds(sums),
        "recorder_cpu_s": own_s,
        "others_cpu_s": sum(others_s.values()),
        "others": list_others(others_s),
    }


def list_others(used_s: Mapping[str, float]) -> list[dict[str, object]]:
    """Return the rows of commands with at least :data:`LEAST_SHARE` of the CPU time, most first.

    There are at most :data:`MOST_OTHERS` rows.

    :param used_s: CPU time in s by command
    """
    least_s = LEAST_SHARE * sum(used_s.values())
    most = sorted(used_s.items(), key=lambda each: -each[1])[:MOST_OTHERS]
    return [{"command": command, "cpu_s": each} for command, each in most if each >= least_s]


def _in_seconds(sums: Counter[str]) -> dict[str, float]:
    return {
        "tasks": sums["tasks"],
        "lifetime_s": sums["lifetime_us"] / 1e6,
        "exec_s": sums["exec_ns"] / 1e9,
        "waiting_s": sums["waiting_ns"] / 1e9,
        "user_s": sums["user_us"] / 1e6,
        "system_s": sums["system_us"] / 1e6,
        "minor_faults": sums["minor_faults"],
        "major_faults": sums["major_faults"],
    }


def _used(task: Exit, setup: Setup | None) -> dict[str, int]:
    """Return what a task used during the run; for the setup's process, without the setup.

    The keys are those of :func:`_in_seconds`.
    """
    if setup is None or task.pid != setup.process.pid or task.lifetime_us < setup.lifetime_us:
        return use_of_ended(task, None)
    of_setup = {
        "lifetime_us": setup.lifetime_us,
        "exec_ns": setup.exec_ns,
        "waiting_ns": setup.waiting_ns,
        "user_us": round(setup.process.used.user_s * 1e6),
        "system_us": round(setup.process.used.system_s * 1e6),
        "minor_faults": setup.process.used.minor_faults,
        "major_faults": setup.process.used.major_faults,
    }
    return use_of_ended(task, of_setup)


def _others(
    commands: Sequence[str],
    ended: Mapping[int, Sequence[Exit]],
    before: Before,
    after: Mapping[int, Process],
    recorder: int,
) -> Iterator[tuple[str, bool, float]]:
    """Yield command, ownership and CPU time in s of each process that is not of the workload.

    The second value is True for the recorder, its collectors, and the programs that collectors
    have started, but not for a service.

    :param ended: the tasks that have ended, by pid of their process
    """
    own = {recorder, *before.collectors}
    for pid, process in after.items():
        used_s = _cpu_s(process)
        earlier = before.processes.get(pid)
        if earlier is not None and earlier.began_ticks == process.began_ticks:
            used_s -= _cpu_s(earlier)
        is_own = pid in own or process.parent in before.collectors
        yield process.name, is_own, used_s
    for pid, tasks in ended.items():
        leaders = [task for task in tasks if task.pid == pid]
        # The time of a process that still exists includes that of its tasks that have ended.
        if pid in after and (not leaders or is_same(leaders[-1], after[pid].began_us)):
            continue
        used_s = sum(task.exec_ns for task in tasks) / 1e9
        if pid in before.processes:
            used_s = max(0.0, used_s - _cpu_s(before.processes[pid]))
        is_own = pid in own or tasks[-1].parent in before.collectors
        yield commands[tasks[-1].command], is_own, used_s


def _cpu_s(process: Process) -> float:
    return process.used.user_s + process.used.system_s
