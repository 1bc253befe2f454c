# SPDX-License-Identifier: GPL-2.0-or-later
"""List the running tasks of the workload again and again while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from schedperf_collectors.machine.processes import pids, read_process
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.task_tree import owner_of_running
from schedperf_collectors.machine.value_files import ValueFiles


class RunningTasks:
    """The tasks of the command that the recorder starts, and of its descendants.

    Only processes that began since the last look are examined; the others remain inside or outside
    of the workload, even if their parent ends.

    :param recorder: pid of the recorder, whose children are the command and the collectors
    :param outside: pids of processes that do not belong to the workload
    """

    def __init__(self, system: System, recorder: int, outside: Collection[int]) -> None:
        self._proc = system.path("/proc")
        self._files = ValueFiles(system)
        self._recorder = recorder
        self._outside = set(outside)
        self._inside: set[int] = set()

    def look(self) -> Iterator[tuple[int, int]]:
        """Yield process id and thread id of each task that runs now."""
        self._examine(set(pids(self._proc)))
        for pid in sorted(self._inside):
            for name in self._files.names(f"/proc/{pid}/task"):
                yield pid, int(name)

    def _examine(self, running: set[int]) -> None:
        # The pid of a process that has ended may be used again.
        self._inside &= running
        self._outside &= running
        parents: dict[int, int] = {}
        for pid in running - self._inside - self._outside:
            # Otherwise it has ended, or is examined at the next look.
            with contextlib.suppress(OSError, ValueError):
                parents[pid] = read_process(pid, self._proc).parent
        for pid in parents:
            owner = owner_of_running(
                pid, self._recorder, parents, inside=self._inside, outside=self._outside
            )
            # Without an answer a parent has just ended; the next look finds the new one.
            if owner is not None:
                (self._inside if owner == "workload" else self._outside).add(pid)
