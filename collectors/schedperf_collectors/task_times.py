# SPDX-License-Identifier: GPL-2.0-or-later
"""Sample CPU time and waiting time of the workload's tasks, for users without taskstats.

``/proc/PID/task/TID/schedstat`` of all running tasks is read ten times per second, or as often as
:data:`LARGEST_SHARE` allows. A task is gone when it has ended, so what it did after it was last
read is missing, as is a task that lived between two readings::

    task_times.json  {"schema": "schedperf/task_times/1", "looks": 58, "tasks": 401,
                      "exec_s": 4.81, "waiting_s": 545.1}

``tasks`` is the number of tasks that were seen. ``exec_s`` is their CPU time and ``waiting_s`` the
time that they were runnable but not running, without those of the setup. Both are smaller than
the true values; ``exec_s``, divided by the CPU time of the resource usage, is the share that was
seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

from schedperf_collectors.machine.before_command import Before, Setup, children_of
from schedperf_collectors.machine.processes import ScheduledTimes, parse_schedstat
from schedperf_collectors.machine.running_tasks import RunningTasks
from schedperf_collectors.machine.sampling import FIRST_LOOK_S, repeated
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.value_files import ValueFiles
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

SCHEMA = "schedperf/task_times/1"
PAUSES_S = (FIRST_LOOK_S, 0.1)
# Share of one CPU.
LARGEST_SHARE = 0.05


@collector(
    scope="run",
    intrusive=True,
    instead_of="account",
    cost="30 us of CPU time per task, ten times per second (at most 5% of one CPU)",
)
def task_times(capture: Capture) -> Iterator[str]:
    """Sample CPU time and waiting time of the workload's tasks while they run."""
    return capture_task_times(System(), capture)


def capture_task_times(system: System, capture: Capture) -> Iterator[str]:
    """Implement :func:`task_times` for any system.

    :raises Skipped: the kernel does not count these times
    """
    # Reading this clock makes the scheduler account for this thread's CPU time until now.
    time.thread_time()
    own = _read(ValueFiles(system), "/proc/self/schedstat")
    # Kernels that do not count write only zeros; this process has used CPU time.
    if own is None or not own.exec_ns:
        raise Skipped(
            "no times in /proc/PID/schedstat of this kernel",
            "boot a kernel with CONFIG_TASK_DELAY_ACCT=y",
        )
    earlier = children_of(system, capture.workload_pid)
    yield PREPARED
    before = Before.now(system, capture.workload_pid, earlier)
    running = RunningTasks(system, capture.workload_pid, before.outside)
    times = _Times(system, running, before.setup)
    with repeated(times.look, LARGEST_SHARE, pauses_s=PAUSES_S):
        yield BEGUN
    record = {
        "schema": SCHEMA,
        "looks": times.looks,
        "tasks": times.tasks,
        "exec_s": times.exec_ns / 1e9,
        "waiting_s": times.waiting_ns / 1e9,
    }
    (capture.folder / "task_times.json").write_text(json.dumps(record, indent=1) + "\n")


_NOTHING = ScheduledTimes(0, 0)


class _Times:
    """The sums over the workload's tasks.

    :param setup: the setup's process, whose times until the command do not count
    :ivar looks: number of readings
    :ivar tasks: number of tasks that were seen
    """

    def __init__(self, system: System, running: RunningTasks, setup: Setup | None) -> None:
        self.looks = self.tasks = self.exec_ns = self.waiting_ns = 0
        self._files = ValueFiles(system)
        self._running = running
        self._of_setup = (
            {}
            if setup is None
            else {setup.process.pid: ScheduledTimes(setup.exec_ns, setup.waiting_ns)}
        )
        # What the tasks that were there at the last look had used.
        self._last: Mapping[int, ScheduledTimes] = {}

    def look(self) -> None:
        """Add what all current tasks have used since the last look."""
        self.looks += 1
        current: dict[int, ScheduledTimes] = {}
        for pid, tid in self._running.look():
            last = self._last.get(tid)
            now = _read(self._files, f"/proc/{pid}/task/{tid}/schedstat") or last
            if now is not None:
                current[tid] = now
                self._add(now, self._earlier(tid, now, last))
        self._last = current

    def _earlier(
        self, tid: int, now: ScheduledTimes, last: ScheduledTimes | None
    ) -> ScheduledTimes:
        # A task that has used less is another one with the same id.
        if last is not None and last.exec_ns <= now.exec_ns and last.waiting_ns <= now.waiting_ns:
            return last
        self.tasks += 1
        return self._of_setup.pop(tid, _NOTHING)

    def _add(self, now: ScheduledTimes, earlier: ScheduledTimes) -> None:
        self.exec_ns += max(0, now.exec_ns - earlier.exec_ns)
        self.waiting_ns += max(0, now.waiting_ns - earlier.waiting_ns)


def _read(files: ValueFiles, name: str) -> ScheduledTimes | None:
    """Return the times of a schedstat file; None if it cannot be read."""
    text = files.value(name)
    return None if text is None else parse_schedstat(text)
