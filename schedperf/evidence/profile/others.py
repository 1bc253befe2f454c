# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure background load: samples of commands other than the workload.

The workload's processes are those that executed the workload's program during the recording, and
all their later children (``perf record`` records forks with their times). Processes that had the
same name before, and samples of a process before it executed the program (e.g. a setup shell and
its commands), do not belong to the workload. Kernel threads belong to neither group, since they may
work for the workload. If perf did not record the start of the program, all processes of its name
count as the workload.

In a recording from inside a pid namespace, the idle task and all tasks outside of the namespace
have pid 0. Samples of pid 0 that are not in an idle routine count as outside.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import numpy as np
from msgspec import Struct

from schedperf.evidence.profile.family import Flags, is_idle_time
from schedperf.evidence.profile.record import OtherCommand, OtherCommands, Profile
from schedperf.evidence.profile.stacks import command_of
from schedperf.inputs.perf_data.recording import MODE_USER, NO_TASK, Recording, Task
from schedperf.inputs.symbols.places import KERNEL, Placed
from schedperf.model.base_new import BASE, BaseNew
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.text import join_names

# Reported from this percentage of the busy time. perf and the recorder take 1% to 2% on a machine
# with two CPUs; a larger load changes the share of every function by a similar fraction.
SAID_PERCENT = 5.0
WEAKENS_PERCENT = 10.0
# Largest number of commands that are listed, and their smallest share.
MOST_COMMANDS = 5
NAMED_PERCENT = 0.5
NAMED_COMMANDS = 4

# TASK_COMM_LEN of include/linux/sched.h without the NUL.
COMM_BYTES = 15
# kthreadd, the parent of all kernel threads; in a pid namespace, pid 2 is an ordinary process.
KTHREADD = 2
# PID_MAX_LIMIT of include/linux/threads.h; an exiting task has no valid pid.
LARGEST_PID = 1 << 22
# Pid of the idle task, and in a pid namespace of every task outside of it (perf_event_pid() of
# kernel/events/core.c).
FOREIGN_PID = 0
OUTSIDE = "other pid namespaces"
# Limit on ancestors between a process and the workload.
DEEPEST_TREE = 64


class Bystanders(Struct, frozen=True, kw_only=True):
    """One run's samples of one event in commands other than the workload.

    :param busy: sum of the periods of all samples without idle routines and the idle task
    :param commands: busy time of each other command, by name
    """

    busy: float
    commands: Mapping[str, float]

    @property
    def shares(self) -> Mapping[str, float]:
        """Return the share of each command, in percent of the busy time."""
        return {name: 100.0 * part / self.busy for name, part in self.commands.items()}


def find_bystanders(
    recording: Recording, placed: Placed, event: int, command: Sequence[str]
) -> Bystanders | None:
    """Sum the periods of one event in commands other than the workload.

    :param event: index into ``recording.events``
    :param command: command line of the workload
    :return: None if the workload cannot be identified: no process of its name was sampled or
        started, a sample has no task, all samples of the event are idle, or the idle task cannot be
        separated from tasks outside of the pid namespace because idle routines are unresolved
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
    rows = np.flatnonzero((samples.event == event) & ~is_idle)
    period = np.maximum(samples.period[rows], 0).astype(np.float64)
    busy = float(period.sum())
    if busy <= 0.0:
        return None
    weights = np.bincount(samples.task[rows], period, len(recording.tasks))
    commands: Counter[str] = Counter()
    for task, weight in enumerate(weights.tolist()):
        if weight > 0.0 and family.is_stranger(recording.tasks[task]):
            # Tasks outside of the namespace all have the name of the last such task.
            is_outside = recording.tasks[task].pid == FOREIGN_PID
            commands[OUTSIDE if is_outside else command_of(recording, task)] += weight
    return Bystanders(busy=busy, commands=dict(commands))


def other_commands(runs: Sequence[tuple[Recording, Sequence[str]]]) -> frozenset[str]:
    """Return the names of commands without any process of the workload or kernel thread.

    :param runs: recordings with the command line of the workload
    :return: empty if the workload cannot be identified in a run
    """
    others: set[str] = set()
    own: set[str] = set()
    for recording, command in runs:
        family = _Family(recording, command)
        if not family.roots:
            return frozenset()
        used = np.unique(recording.samples.task)
        for task in used[used != NO_TASK].tolist():
            sampled = recording.tasks[task]
            # Pid 0 is also the idle task.
            is_other = sampled.pid != FOREIGN_PID and family.is_stranger(sampled)
            (others if is_other else own).add(command_of(recording, task))
    return frozenset(others - own)


def describe_others(runs: Sequence[Bystanders | None]) -> OtherCommands | None:
    """Return the share of other commands in the busy time, mean over the runs.

    :param runs: runs of one side; None for a run whose workload cannot be identified
    :return: with the ``MOST_COMMANDS`` largest commands; None if the workload of a run cannot be
        identified, or there are no runs
    """
    shares_per_run = [run.shares for run in runs if run is not None]
    if len(shares_per_run) < len(runs) or not runs:
        return None
    # In a fixed order, because the last digit of the sum depends on it.
    names = dict.fromkeys(name for shares in shares_per_run for name in shares)
    means = {
        name: sum(shares.get(name, 0.0) for shares in shares_per_run) / len(shares_per_run)
        for name in names
    }
    largest = sorted(means, key=lambda name: (-means[name], name))[:MOST_COMMANDS]
    return OtherCommands(
        share=sum(means.values()),
        commands=tuple(OtherCommand(command=name, share=means[name]) for name in largest),
    )


# The denominator is stated for the first share only.
_WHOLE = " of the event count (idle excluded)"


def caution_of(others: BaseNew[OtherCommands | None]) -> str | None:
    """Return a sentence about other commands; None if no side has a known, large share of them.

    ::

        commands other than the workload account for 13% of the event count (idle excluded) in base
        (schedperf 12%, perf 1%) and 21% in new (schedperf 20%)
    """
    said = {side: commands for side, commands in others.items() if commands is not None}
    if not any(commands.share >= SAID_PERCENT for commands in said.values()):
        return None
    parts = [
        f"{commands.share:.0f}%{'' if number else _WHOLE} in {side}"
        + (f" ({names})" if (names := _names(commands)) else "")
        for number, (side, commands) in enumerate(said.items())
    ]
    return f"commands other than the workload account for {join_names(parts)}"


def load_of(others: BaseNew[OtherCommands | None]) -> str | None:
    """Return why CPU utilization may not be due to the workload; None if background load is small.

    Background load that is large on a side, or unknown, is such a reason.
    """
    shares = [commands.share for commands in others if commands is not None]
    if None in tuple(others):
        return "background load is unknown, because the workload's processes are not identified"
    if max(shares) >= SAID_PERCENT:
        return f"background load takes up to {max(shares):.0f}% of the busy time"
    return None


def others_caveats(profile: Profile) -> Iterator[Caveat]:
    """Yield a caveat for each side with a large share of other commands."""
    worst: dict[str, OtherCommands] = {}
    for compared in profile.comparisons:
        for point in (point for event in compared.events for point in event.points):
            for role, commands in point.others.items():
                side = BASE if role == "base" else compared.side
                if commands is not None and (
                    side not in worst or commands.share > worst[side].share
                ):
                    worst[side] = commands
    for side, commands in worst.items():
        if commands.share >= WEAKENS_PERCENT:
            yield caveat(
                "other-commands", side=side, percent=commands.share, names=_names(commands)
            )


def _names(others: OtherCommands) -> str:
    named = [command for command in others.commands if command.share >= NAMED_PERCENT]
    return ", ".join(
        f"{command.command} {command.share:.0f}%" for command in named[:NAMED_COMMANDS]
    )


def _find_idle(recording: Recording, placed: Placed, *, is_in_namespace: bool) -> Flags | None:
    # Mask of the rows in idle time; None if unknown.
    samples = recording.samples
    is_foreign = np.array([task.pid == FOREIGN_PID for task in recording.tasks], dtype=np.bool_)
    is_foreign = is_foreign[samples.task]
    is_idle = np.array([is_idle_time(location) for location in placed.places], dtype=np.bool_)
    is_idle = is_idle[placed.of_row]
    if not is_in_namespace:
        # Without the kernel's symbols, idle routines have no names, but the idle task is known.
        return np.asarray(is_idle | is_foreign)
    if KERNEL in placed.unnamed and np.any(is_foreign & (samples.mode != MODE_USER)):
        return None
    return is_idle


def _is_in_namespace(recording: Recording) -> bool:
    # The idle task never runs user code and never calls exec.
    samples = recording.samples
    in_user_space = np.unique(samples.task[samples.mode == MODE_USER]).tolist()
    executed = recording.processes.executed.values()
    return any(recording.tasks[task].pid == FOREIGN_PID for task in in_user_space) or any(
        FOREIGN_PID in processes for processes in executed
    )


class _Family:
    # Processes of the workload.

    def __init__(self, recording: Recording, command: Sequence[str]) -> None:
        name = PurePosixPath(command[0]).name if command else ""
        comm = name.encode()[:COMM_BYTES].decode(errors="replace")
        self.processes = recording.processes
        self.is_in_namespace = _is_in_namespace(recording)
        by_name = {task.pid: 0 for task in recording.tasks if task.comm == comm}
        # Time at which each process became part of the workload, in ns.
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
        # Whether a process of the workload still ran its previous program.
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
