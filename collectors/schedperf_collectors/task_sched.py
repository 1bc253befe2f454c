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
from collections.abc import Iterator

from schedperf_collectors.machine.before_command import Before, children_of
from schedperf_collectors.machine.running_tasks import RunningTasks
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
    earlier = children_of(system, capture.workload_pid)
    yield PREPARED
    before = Before.now(system, capture.workload_pid, earlier)
    tasks = _Tasks(system, RunningTasks(system, capture.workload_pid, before.outside))
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
    """The texts of the workload's tasks.

    :ivar seen: the rows of tasks.json, by thread id
    :ivar left_out: thread ids of tasks beyond the first :data:`MOST_TASKS`
    :ivar looks: number of readings
    """

    def __init__(self, system: System, running: RunningTasks) -> None:
        self.seen: dict[int, dict[str, object]] = {}
        self.left_out: set[int] = set()
        self.looks = 0
        self._files = ValueFiles(system)
        self._running = running

    def look(self) -> None:
        """Read all current tasks."""
        self.looks += 1
        for pid, tid in self._running.look():
            self._look_at(pid, tid)

    def _look_at(self, pid: int, tid: int) -> None:
        if tid not in self.seen and len(self.seen) >= MOST_TASKS:
            if len(self.left_out) < MOST_COUNTED:
                self.left_out.add(tid)
            return
        sched = self._files.value(f"/proc/{pid}/task/{tid}/sched", SCHED_LIMIT_BYTES)
        if sched is not None:
            seen_ns = time.monotonic_ns()
            self.seen[tid] = {"pid": pid, "tid": tid, "seen_ns": seen_ns, "sched": sched}
