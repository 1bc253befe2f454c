"""Which samples are of commands that are not the workload: what else ran while it was sampled.

The workload's processes are those that executed the workload's program while it was recorded, and
whatever they started from then on, whichever names these have (``perf record`` writes who started
whom and when). A process that had that name before is somebody else's, and what the same process
did before it became the workload, a set-up's shell and the commands of that, is no part of it.
Threads of the kernel are neither: they may work for the workload. Where perf did not see the
program start, names have to do: any process of that name is the workload's.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from schedperf.evidence.profile.family import is_idle_time
from schedperf.evidence.profile.sampled import rows_of_event
from schedperf.evidence.profile.stacks import command_of
from schedperf.perf_data.recording import NO_TASK, Recording, Task
from schedperf.symbols.places import Placed

# TASK_COMM_LEN of include/linux/sched.h, less its NUL.
COMM_BYTES = 15
# Every thread of the kernel is a child of kthreadd.
KTHREADD = 2
# PID_MAX_LIMIT of include/linux/threads.h; a task that is about to end has no number.
LARGEST_PID = 1 << 22
# Parents, from a process up to the workload.
DEEPEST_TREE = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Bystanders:
    """What one run's samples of one event say of other commands.

    :param busy: sum of the periods of all samples without idle routines and the idle task
    :param commands: the part of it that each other command has, by name
    """

    busy: float
    commands: Mapping[str, float]

    @property
    def shares(self) -> Mapping[str, float]:
        """Return the commands in per cent of the busy time."""
        return {name: 100.0 * part / self.busy for name, part in self.commands.items()}


def find_bystanders(
    recording: Recording, placed: Placed, event: str, command: Sequence[str]
) -> Bystanders | None:
    """Add up the samples of one event that are of other commands than the workload.

    :param command: the workload's, with its arguments
    :return: None where the workload cannot be told: nothing of its name was sampled or started,
        samples have no task, or nothing was busy
    """
    samples = recording.samples
    family = _Family(recording, command)
    if not family.roots or np.any(samples.task == NO_TASK):
        return None
    # Without the kernel's symbols its idle routines have no names, but are still the idle task's.
    is_idle = np.array([is_idle_time(place) for place in placed.places], dtype=np.bool_)
    is_of_idle_task = np.array([task.pid == 0 for task in recording.tasks], dtype=np.bool_)
    is_busy = ~is_idle[placed.of_row] & ~is_of_idle_task[samples.task]
    rows = np.flatnonzero(rows_of_event(recording, event) & is_busy)
    period = np.maximum(samples.period[rows], 0).astype(np.float64)
    busy = float(period.sum())
    if busy <= 0.0:
        return None
    weights = np.bincount(samples.task[rows], period, len(recording.tasks))
    commands: Counter[str] = Counter()
    for task, weight in enumerate(weights.tolist()):
        if weight > 0.0 and family.is_stranger(recording.tasks[task]):
            commands[command_of(recording, task)] += weight
    return Bystanders(busy=busy, commands=dict(commands))


class _Family:
    # The workload's processes.

    def __init__(self, recording: Recording, command: Sequence[str]) -> None:
        name = PurePosixPath(command[0]).name if command else ""
        comm = name.encode()[:COMM_BYTES].decode(errors="replace")
        self.processes = recording.processes
        by_name = {task.pid: 0 for task in recording.tasks if task.comm == comm}
        # When each became the workload, in ns.
        self.roots = self.processes.executed.get(comm) or by_name

    def is_stranger(self, task: Task) -> bool:
        line = tuple(self.line_of(task.pid))
        is_process = 0 < task.pid <= LARGEST_PID and KTHREADD not in line
        return is_process and (self.is_too_early(task) or not self.is_of_workload(line))

    def is_too_early(self, task: Task) -> bool:
        # Whether a process that became the workload still ran the program that it had before.
        executed = self.processes.executed.get(task.comm, {}).get(task.pid)
        began = self.roots.get(task.pid)
        return executed is not None and began is not None and executed < began

    def is_of_workload(self, line: Sequence[int]) -> bool:
        children = (None, *line)
        return any(
            pid in self.roots and (child is None or self.is_born_after(child, self.roots[pid]))
            for child, pid in zip(children, line, strict=False)
        )

    def is_born_after(self, pid: int, time: int) -> bool:
        return self.processes.born.get(pid, 0) >= time

    def line_of(self, pid: int) -> Iterator[int]:
        for _ in range(DEEPEST_TREE):
            yield pid
            if pid not in self.processes.parents:
                return
            pid = self.processes.parents[pid]
