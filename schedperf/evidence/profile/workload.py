# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the tasks of the workload in a recording: its command, and all that it started.

The command is the child of the recorder that executed the workload's program last; its earlier
programs are those of its setup. If the recorder is not known, all processes that executed the
program belong to the workload; if perf recorded no such execution, all processes of its name.
Descendants of these processes belong to the workload, also those that became orphans.

In a recording from inside a pid namespace, the idle task and all tasks outside of the namespace
have pid 0.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from schedperf.inputs.bundle.json import Count
from schedperf.inputs.perf_data.recording import (
    MODE_USER,
    NO_PROCESS,
    NO_TASK,
    Integers,
    Recording,
    Task,
)
from schedperf.runs.commands import comm_of

# kthreadd, the parent of all kernel threads; in a pid namespace, pid 2 is an ordinary process.
KTHREADD = 2
# PID_MAX_LIMIT of include/linux/threads.h; an exiting task has no valid pid.
LARGEST_PID = 1 << 22
# Pid of the idle task, and in a pid namespace of every task outside of it (perf_event_pid() of
# kernel/events/core.c).
FOREIGN_PID = 0
# Threads that run softirqs.
_SOFTIRQ_THREAD = "ksoftirqd/"

Flags = NDArray[np.bool_]


class Owner(IntEnum):
    """To whom a task belongs.

    ``NOBODY`` is the idle task, and a task that is exiting; ``SOFTIRQ`` is a thread that runs
    softirqs.
    """

    WORKLOAD, OTHER, NOBODY, SOFTIRQ = range(4)


class StartedProcess(Struct, frozen=True, kw_only=True):
    """A process that began before perf recorded processes."""

    pid: Count
    parent: Count
    command: str


def add_started(recording: Recording, started: Sequence[StartedProcess]) -> Recording:
    """Return a recording with the names and parents of processes that perf did not record."""
    if not started:
        return recording
    by_pid = {each.pid: each for each in started}
    tasks = [
        task._replace(comm=by_pid[task.pid].command)
        if task.pid in by_pid and task.comm == f":{task.pid}"
        else task
        for task in recording.tasks
    ]
    processes = recording.processes
    parent, parent_pid = processes.parent.copy(), processes.parent_pid.copy()
    for number in np.flatnonzero(parent_pid == NO_PROCESS).tolist():
        found = by_pid.get(int(processes.pid[number]))
        if found is not None:
            parent_pid[number] = found.parent
            of_parent = np.flatnonzero(processes.pid == found.parent)
            parent[number] = of_parent[0] if len(of_parent) else NO_PROCESS
    completed = replace(processes, parent=parent, parent_pid=parent_pid)
    return replace(recording, tasks=tasks, processes=completed)


class Family:
    """Decides which tasks of a recording belong to the workload.

    :param command: command line of the workload
    :param recorder: pid of the recorder, whose child the command was; None if unknown
    :ivar is_known: False if the workload cannot be identified
    :ivar is_in_namespace: whether pid 0 is also the pid of tasks outside of the pid namespace
    """

    def __init__(self, recording: Recording, command: Sequence[str], recorder: int | None) -> None:
        self._comm = comm_of(command[0]) if command else ""
        self._recording = recording
        self._processes = processes = recording.processes
        self.is_in_namespace = _is_in_namespace(recording)
        roots = self._executed() & (processes.pid != FOREIGN_PID)
        if recorder is not None:
            commands = self._commands_of(recorder, roots)
            roots = commands if commands.any() else roots
        if not roots.any():
            roots = self._namesakes()
        self.is_known = bool(roots.any())
        self._is_own = processes.descend_from(roots)
        is_kthread = (processes.pid == KTHREADD) | (processes.parent_pid == KTHREADD)
        is_kthread &= not self.is_in_namespace
        self._is_of_kernel = processes.descend_from(is_kthread)

    def owners(self) -> Integers:
        """Return the :class:`Owner` of each of the recording's tasks, shape (tasks,)."""
        return np.array([self._owner(task) for task in self._recording.tasks], dtype=np.int64)

    def _owner(self, task: Task) -> Owner:
        if task.pid == FOREIGN_PID:
            return Owner.OTHER if self.is_in_namespace else Owner.NOBODY
        if task.pid > LARGEST_PID:
            return Owner.NOBODY
        process = task.process
        if process == NO_PROCESS:
            same = np.flatnonzero(self._processes.pid == task.pid)
            process = int(same[-1]) if len(same) else NO_PROCESS
        if process == NO_PROCESS:
            return Owner.OTHER
        if self._is_own[process]:
            return Owner.WORKLOAD
        is_softirq = self._is_of_kernel[process] and task.comm.startswith(_SOFTIRQ_THREAD)
        return Owner.SOFTIRQ if is_softirq else Owner.OTHER

    def _executed(self) -> Flags:
        programs = self._processes.program
        return np.array([bool(self._comm) and p == self._comm for p in programs], dtype=np.bool_)

    def _namesakes(self) -> Flags:
        named = [
            task.pid
            for task in self._recording.tasks
            if task.comm == self._comm and task.pid != FOREIGN_PID
        ]
        return np.isin(self._processes.pid, named)

    def _commands_of(self, recorder: int, roots: Flags) -> Flags:
        """Return a mask of the last of these programs that each child of the recorder executed."""
        processes = self._processes
        # Only a process that executes a program has the pid of its parent.
        is_fork = processes.parent_pid != processes.pid
        parent = np.where(is_fork, NO_PROCESS, processes.parent)
        is_child = is_fork & (processes.parent_pid == recorder)
        of_children = replace(processes, parent=parent).descend_from(is_child)
        has_later = np.zeros(len(processes), dtype=np.bool_)
        for number in np.flatnonzero(of_children & ~is_fork)[::-1].tolist():
            has_later[parent[number]] |= roots[number] | has_later[number]
        return roots & of_children & ~has_later


def _is_in_namespace(recording: Recording) -> bool:
    # The idle task never runs user code and never calls exec.
    samples, processes = recording.samples, recording.processes
    in_user_space = np.unique(samples.task[samples.mode == MODE_USER]).tolist()
    has_executed = [
        processes.program[number] is not None
        for number in np.flatnonzero(processes.pid == FOREIGN_PID).tolist()
    ]
    return any(has_executed) or any(
        task != NO_TASK and recording.tasks[task].pid == FOREIGN_PID for task in in_user_space
    )
