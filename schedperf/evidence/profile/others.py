# SPDX-License-Identifier: GPL-2.0-or-later
"""What other commands than the workload did while it was sampled.

The workload's processes are those that executed the workload's program while it was recorded, and
whatever they started from then on, whichever names these have (``perf record`` writes who started
whom and when). A process that had that name before is somebody else's, and what the same process
did before it became the workload, a set-up's shell and the commands of that, is not part of it.
Threads of the kernel are neither: they may work for the workload. Where perf did not see the
program start, names have to do: any process of that name is the workload's.

A recording from inside a pid namespace has one number, 0, for the idle task and for every task
outside of the namespace. Whatever of it is not in an idle routine is then counted as outside.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from schedperf.evidence.profile.family import Flags, is_idle_time
from schedperf.evidence.profile.record import OtherCommand, OtherCommands, Profile
from schedperf.evidence.profile.samples import rows_of_event
from schedperf.evidence.profile.stacks import command_of
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.comparison import BaseNew, Section, data_of
from schedperf.perf_data.recording import MODE_USER, NO_TASK, Recording, Task
from schedperf.runs.side import BASE
from schedperf.symbols.places import KERNEL, Placed

# Per cent of the busy time. perf and the recorder take one or two on a machine of two CPUs; what
# takes more than these moves the share of every function by as much.
SAID_PERCENT = 5.0
WEAKENS_PERCENT = 10.0
# Commands that have a name of their own, and the least of them.
MOST_COMMANDS = 5
NAMED_PERCENT = 0.5
NAMED_COMMANDS = 4

# TASK_COMM_LEN of include/linux/sched.h, less its NUL.
COMM_BYTES = 15
# Every thread of the kernel is a child of kthreadd; in a pid namespace 2 is any process.
KTHREADD = 2
# PID_MAX_LIMIT of include/linux/threads.h; a task that is about to end has no number.
LARGEST_PID = 1 << 22
# The idle task, and in a pid namespace every task outside of it: perf_event_pid() of
# kernel/events/core.c has no other number for these.
FOREIGN_PID = 0
OUTSIDE = "other pid namespaces"
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
        samples have no task, nothing was busy, or the idle task looks like tasks outside of the
        pid namespace, because idle routines have no names
    """
    samples = recording.samples
    if np.any(samples.task == NO_TASK):
        return None
    family = _Family(recording, command)
    if not family.roots:
        return None
    is_idle = _find_idle(recording, placed, is_in_namespace=family.is_in_namespace)
    if is_idle is None:
        return None
    rows = np.flatnonzero(rows_of_event(recording, event) & ~is_idle)
    period = np.maximum(samples.period[rows], 0).astype(np.float64)
    busy = float(period.sum())
    if busy <= 0.0:
        return None
    weights = np.bincount(samples.task[rows], period, len(recording.tasks))
    commands: Counter[str] = Counter()
    for task, weight in enumerate(weights.tolist()):
        if weight > 0.0 and family.is_stranger(recording.tasks[task]):
            # What is outside of the namespace has the last name of any task there.
            is_outside = recording.tasks[task].pid == FOREIGN_PID
            commands[OUTSIDE if is_outside else command_of(recording, task)] += weight
    return Bystanders(busy=busy, commands=dict(commands))


def describe_others(runs: Sequence[Bystanders | None]) -> OtherCommands | None:
    """Return what part of the busy time other commands took, mean of the runs.

    :param runs: of one side; None where the workload cannot be told
    """
    known = [one.shares for one in runs if one is not None]
    if len(known) < len(runs) or not runs:
        return None
    # In an order that is the same each time: their sum rests on it in its last digit.
    names = dict.fromkeys(name for shares in known for name in shares)
    means = {name: sum(one.get(name, 0.0) for one in known) / len(known) for name in names}
    largest = sorted(means, key=lambda name: (-means[name], name))[:MOST_COMMANDS]
    return OtherCommands(
        share=sum(means.values()),
        commands=tuple(OtherCommand(command=name, share=means[name]) for name in largest),
    )


# What the first share is of, which is said once.
_WHOLE = " of the event's count without idle"


def caution_of(others: BaseNew[OtherCommands | None]) -> str | None:
    """Say it in one sentence; None where it is little, or not known.

    ::

        other commands than the workload have 13% of the event's count without idle in base
        (schedperf 12%, perf 1%) and 21% in new (schedperf 20%)
    """
    said = {side: found for side, found in others.items() if found is not None}
    if not any(found.share >= SAID_PERCENT for found in said.values()):
        return None
    parts = [
        f"{found.share:.0f}%{'' if number else _WHOLE} in {side}"
        + (f" ({names})" if (names := _names(found)) else "")
        for number, (side, found) in enumerate(said.items())
    ]
    return f"other commands than the workload have {' and '.join(parts)}"


def others_caveats(sections: Mapping[str, Section]) -> Iterator[Caveat]:
    """Yield a caveat for each side whose profile is of other commands for a good part."""
    data = data_of(sections, Profile)
    worst: dict[str, OtherCommands] = {}
    for compared in () if data is None else data.comparisons:
        for point in (point for event in compared.events for point in event.points):
            for role, found in point.others.items():
                side = BASE if role == "base" else compared.side
                if found is not None and (side not in worst or found.share > worst[side].share):
                    worst[side] = found
    for side, found in worst.items():
        if found.share >= WEAKENS_PERCENT:
            yield caveat("other-commands", side=side, percent=found.share, names=_names(found))


def _names(found: OtherCommands) -> str:
    named = [one for one in found.commands if one.share >= NAMED_PERCENT][:NAMED_COMMANDS]
    return ", ".join(f"{one.command} {one.share:.0f}%" for one in named)


def _find_idle(recording: Recording, placed: Placed, *, is_in_namespace: bool) -> Flags | None:
    # Which rows are idle time; None where that is unknown.
    samples = recording.samples
    is_foreign = np.array([task.pid == FOREIGN_PID for task in recording.tasks], dtype=np.bool_)
    is_foreign = is_foreign[samples.task]
    is_idle = np.array([is_idle_time(place) for place in placed.places], dtype=np.bool_)
    is_idle = is_idle[placed.of_row]
    if not is_in_namespace:
        # Without the kernel's symbols its idle routines have no names, but are still the idle
        # task's.
        return np.asarray(is_idle | is_foreign)
    if KERNEL in placed.unnamed and np.any(is_foreign & (samples.mode != MODE_USER)):
        return None
    return is_idle


def _is_in_namespace(recording: Recording) -> bool:
    # The idle task never leaves the kernel, and executes nothing.
    samples = recording.samples
    in_user_space = np.unique(samples.task[samples.mode == MODE_USER]).tolist()
    executed = recording.processes.executed.values()
    return any(recording.tasks[task].pid == FOREIGN_PID for task in in_user_space) or any(
        FOREIGN_PID in processes for processes in executed
    )


class _Family:
    # The workload's processes.

    def __init__(self, recording: Recording, command: Sequence[str]) -> None:
        name = PurePosixPath(command[0]).name if command else ""
        comm = name.encode()[:COMM_BYTES].decode(errors="replace")
        self.processes = recording.processes
        self.is_in_namespace = _is_in_namespace(recording)
        by_name = {task.pid: 0 for task in recording.tasks if task.comm == comm}
        # When each became the workload, in ns.
        roots = self.processes.executed.get(comm) or by_name
        self.roots = {pid: time for pid, time in roots.items() if pid != FOREIGN_PID}

    def is_stranger(self, task: Task) -> bool:
        if task.pid == FOREIGN_PID:
            return True
        line = tuple(self.line_of(task.pid))
        is_of_kernel = KTHREADD in line and not self.is_in_namespace
        is_process = task.pid <= LARGEST_PID and not is_of_kernel
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
