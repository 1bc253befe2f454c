# SPDX-License-Identifier: GPL-2.0-or-later
"""Record ``/proc/PID/task/TID/sched`` of the workload's tasks, as last read.

Tasks are gone after the run, so all are read twice per second (more often in the first second), or
as often as :data:`LARGEST_SHARE` allows, and the last contents are stored. ``left_out`` is the
number of tasks beyond the first :data:`MOST_TASKS`, which are not read::

    tasks.json  {"schema": "schedperf/task_sched/1", "looks": 7, "left_out": 0, "clock_ns": …,
                 "tasks": [{"pid": 41, "tid": 42, "seen_ns": …, "sched": "hackbench (42, …"}]}

``seen_ns`` and ``clock_ns`` (of the end of the run) are CLOCK_MONOTONIC: what a task did after it
was last read is not included, and a task that lived between two readings is missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

from schedperf_collectors.machine.sampling import repeated
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import ValueFiles
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

SCHEMA = "schedperf/task_sched/1"
MOST_TASKS = 500
# Further distinct tasks are counted up to this number.
MOST_COUNTED = 65536
# 4 kB with statistics and four nodes, and 80 bytes per further node.
SCHED_LIMIT_BYTES = 1 << 16
# Parents from a process up to the command; shells and make have about ten.
DEEPEST_TREE = 64
# Share of one CPU: 500 tasks take 2% of a fast one at two readings per second.
LARGEST_SHARE = 0.05


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="20 us of CPU time per task, twice per second (at most 500 tasks and 5% of one CPU)",
)
def task_sched(capture: Capture) -> Iterator[str]:
    """Read /proc/PID/sched of the workload's tasks while they run."""
    return capture_task_sched(System(), capture)


def capture_task_sched(system: System, capture: Capture) -> Iterator[str]:
    """Implement :func:`task_sched` for any system.

    :raises Skipped: the kernel has no /proc/PID/sched
    """
    if not system.exists("/proc/self/sched"):
        raise Skipped("no /proc/PID/sched in this kernel", "rebuild with CONFIG_SCHED_DEBUG=y")
    tasks = _Tasks(system, capture.workload_pid)
    yield PREPARED
    with repeated(tasks.look, LARGEST_SHARE):
        yield BEGUN
    record = {
        "schema": SCHEMA,
        "looks": tasks.looks,
        "left_out": len(tasks.left_out),
        "clock_ns": time.monotonic_ns(),
        "tasks": list(tasks.seen.values()),
    }
    (capture.folder / "tasks.json").write_text(json.dumps(record, indent=1) + "\n")


class _Tasks:
    """The tasks of the workload: the command that the recorder starts, and its descendants.

    :param recorder: pid of the recorder, whose children are the command and the collectors
    :ivar seen: the rows of tasks.json, by thread id
    :ivar left_out: thread ids of tasks beyond the first :data:`MOST_TASKS`
    :ivar looks: number of readings
    """

    def __init__(self, system: System, recorder: int) -> None:
        self.seen: dict[int, dict[str, object]] = {}
        self.left_out: set[int] = set()
        self.looks = 0
        self._files = ValueFiles(system)
        self._recorder = recorder
        self._recorder_command = self._files.value(f"/proc/{recorder}/cmdline")
        # Processes before the workload are not part of it.
        self._others = self._processes()

    def look(self) -> None:
        """Read all current tasks."""
        self.looks += 1
        for pid in self._workload():
            for name in self._files.names(f"/proc/{pid}/task"):
                self._look_at(pid, int(name))

    def _look_at(self, pid: int, tid: int) -> None:
        if tid not in self.seen and len(self.seen) >= MOST_TASKS:
            if len(self.left_out) < MOST_COUNTED:
                self.left_out.add(tid)
            return
        sched = self._files.value(f"/proc/{pid}/task/{tid}/sched", SCHED_LIMIT_BYTES)
        if sched is not None:
            seen_ns = time.monotonic_ns()
            self.seen[tid] = {"pid": pid, "tid": tid, "seen_ns": seen_ns, "sched": sched}

    def _workload(self) -> list[int]:
        processes = self._processes()
        # The pid may have been reused by the workload.
        self._others &= processes
        origins = {pid: self._origin(pid) for pid in processes - self._others}
        roots = {pid for pid, (parent, _) in origins.items() if self._is_command(pid, parent)}
        return sorted(pid for pid in origins if _descends(pid, roots, origins))

    def _processes(self) -> set[int]:
        return {int(name) for name in self._files.names("/proc") if name.isdigit()}

    def _origin(self, pid: int) -> tuple[int, int]:
        """Return the ids of a process's parent and session; 0 and 0 if the process has ended."""
        # proc_pid_stat(5): PID (COMM) STATE PPID PGRP SESSION …; COMM may contain anything.
        text = self._files.value(f"/proc/{pid}/stat")
        if text is None:
            return 0, 0
        _, parent, _, session = text.rpartition(")")[2].split()[:4]
        return int(parent), int(session)

    def _is_command(self, pid: int, parent: int) -> bool:
        # Collectors are copies of the recorder; a program that it executes has its own command
        # line.
        is_child = parent == self._recorder
        return is_child and self._files.value(f"/proc/{pid}/cmdline") != self._recorder_command


def _descends(pid: int, roots: set[int], origins: Mapping[int, tuple[int, int]]) -> bool:
    for _ in range(DEEPEST_TREE):
        if pid in roots:
            return True
        pid, session = origins.get(pid, (0, 0))
        if session in roots:
            return True
    return False
