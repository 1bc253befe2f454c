# SPDX-License-Identifier: GPL-2.0-or-later
"""Follow the tasks of a trace through its scheduler events, and sum what they did with their time.

A task runs from the switch to it until the switch from it. If it leaves its CPU in the state
"running", it was preempted (or yielded, or was throttled) and waits until it runs again; otherwise
it is blocked until its wakeup, and then waits, too. Intervals that begin before the trace or end
after it do not count. Memory is bounded by the number of tasks, not by that of events.
"""

from collections import Counter
from typing import Literal

from schedperf_collectors.wakeup_latency import Waits, bin_of, command_of

# Programs that record traces, and what perf calls its child until that executes the command.
PERF_CHILD = b"perf-exec"
TRACERS = frozenset((b"trace-cmd", b"perf", PERF_CHILD))
# A command that only determines how long the machine is traced.
SLEEP = "sleep"
COMM_BYTES = 15
# Limits: tasks that are followed at once, and different names.
MOST_TASKS = 1 << 18
MOST_NAMES = 4096
OTHER_COMMANDS = "(other commands)"
# Of the histograms of blocked times: bins of 64 ns, then 8 in each power of two.
UNIT_SHIFT, STEP_SHIFT, BINS = 6, 3, 256

UNKNOWN, RUNNING, RUNNABLE, BLOCKED = range(4)
Reason = Literal["woken", "preempted"]
# The pid and the comm of a task.
Named = tuple[int, bytes]
# Letters of states: of ended tasks, and of those that leave a CPU without being blocked.
DEAD = frozenset("XZ")
RUNS_ON = "R"


class Interval:
    """Number and sum of durations."""

    __slots__ = ("count", "ns")

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0

    def add(self, ns: int) -> None:
        """Count one duration."""
        self.count += 1
        self.ns += ns

    def merge(self, more: "Interval") -> None:
        """Add other durations."""
        self.count += more.count
        self.ns += more.ns


class Pauses(Interval):
    """Durations with a histogram, and the part of them after the wakeup."""

    __slots__ = ("bins", "max_ns", "runnable_ns")

    def __init__(self) -> None:
        super().__init__()
        self.bins: Counter[int] = Counter()
        self.max_ns = 0
        self.runnable_ns = 0

    def pause(self, blocked_ns: int, runnable_ns: int) -> None:
        """Count one pause."""
        ns = blocked_ns + runnable_ns
        self.add(ns)
        self.bins[bin_of(ns, UNIT_SHIFT, STEP_SHIFT, BINS)] += 1
        self.max_ns = max(self.max_ns, ns)
        self.runnable_ns += runnable_ns

    def merge_pauses(self, more: "Pauses") -> None:
        """Add other pauses."""
        self.merge(more)
        self.bins.update(more.bins)
        self.max_ns = max(self.max_ns, more.max_ns)
        self.runnable_ns += more.runnable_ns


class Sums:
    """What some tasks did.

    :ivar cpu_of: CPU time in ns by command
    :ivar pauses: blocked times with the waits after them, by the letter of the state and the
        command that woke the task; None if unknown
    :ivar commands: names of the tasks, in the order of their appearance
    """

    def __init__(self) -> None:
        self.cpu_of: Counter[str] = Counter()
        self.waits: dict[Reason, Interval] = {"woken": Interval(), "preempted": Interval()}
        self.blocked = Interval()
        self.pauses: dict[tuple[str, str | None], Pauses] = {}
        self.commands: dict[str, None] = {}
        self.voluntary = self.involuntary = self.migrations = self.tasks = self.ended = 0

    @property
    def cpu_ns(self) -> int:
        """CPU time of all commands."""
        return sum(self.cpu_of.values())

    @property
    def waiting_ns(self) -> int:
        """Time of waiting for a CPU."""
        return sum(interval.ns for interval in self.waits.values())

    def merge(self, more: "Sums") -> None:
        """Add what other tasks did."""
        self.cpu_of.update(more.cpu_of)
        for reason, interval in more.waits.items():
            self.waits[reason].merge(interval)
        self.blocked.merge(more.blocked)
        for key, pauses in more.pauses.items():
            self.pauses.setdefault(key, Pauses()).merge_pauses(pauses)
        self.commands.update(more.commands)
        for name in ("voluntary", "involuntary", "migrations", "tasks", "ended"):
            setattr(self, name, getattr(self, name) + getattr(more, name))


class _Task:
    """A task, and what it does.

    :ivar sums: where its time is counted
    :ivar since_ns: when its state began
    :ivar reason: why it waits, if it is runnable
    :ivar letter: the state in which it was blocked last
    :ivar blocked_ns: how long; None if it was not blocked before it waits, or if this is unknown
    :ivar woken_ns: when it was put on a run queue; None if it was not since it last left its CPU
    :ivar waking_ns: when the wakeup began; None as above
    :ivar cpu: where it ran last; None if unknown
    :ivar is_forked: whether the trace has the start of the task
    :ivar has_left: whether the trace has a switch from the task
    """

    __slots__ = (
        "blocked_ns", "comm", "cpu", "has_left", "is_forked", "letter", "reason", "since_ns",
        "state", "sums", "waker", "waking_ns", "woken_ns",
    )  # fmt: skip

    def __init__(self, sums: Sums, comm: bytes) -> None:
        self.sums = sums
        self.comm = comm
        self.state = UNKNOWN
        self.since_ns = 0
        self.reason: Reason = "woken"
        self.letter = ""
        self.blocked_ns: int | None = None
        self.woken_ns: int | None = None
        self.waking_ns: int | None = None
        self.waker: str | None = None
        self.cpu: int | None = None
        self.is_forked = False
        self.has_left = False


class Command:
    """The command that the tracer started.

    :ivar name: the name of its task; the last one, because a shell or a wrapper may execute another
        program in the same task
    :ivar end_ns: None if the trace does not have its end
    """

    def __init__(self, pid: int, name: str, start_ns: int) -> None:
        self.pid = pid
        self.name = name
        self.start_ns = start_ns
        self.end_ns: int | None = None


class Flow:
    """Reconstruct what tasks do from events ordered by time.

    :ivar own: what the command and its descendants did
    :ivar others: what all others did, without the tracer and the idle tasks
    :ivar tracer: what the tracer did
    :ivar waits: waits from the wakeup until the task runs, by command and CPU
    :ivar command: None if the trace does not show which command the tracer started
    :ivar gaps: switches from another task than the one that the CPU had switched to
    :ivar missed: other events of a task that do not fit its preceding event
    :ivar reordered: durations below 0, which count as 0: the clocks of the CPUs differ
    :ivar forgotten: tasks that were forgotten, because too many existed at once
    :ivar from_waking: waits that begin at sched_waking, because the trace has no sched_wakeup
    :ivar moved: number of times that a task ran on another CPU than before
    """

    def __init__(self) -> None:
        self.own, self.others, self.tracer = Sums(), Sums(), Sums()
        self.waits: dict[tuple[str, int], Waits] = {}
        self.command: Command | None = None
        self.gaps = self.missed = self.reordered = self.forgotten = 0
        self.from_waking = self.moved = 0
        self._tasks: dict[int, _Task] = {}
        # The task that each CPU switched to last.
        self._current: dict[int, int] = {}
        self._names: dict[bytes, str] = {}

    def switch(self, ns: int, cpu: int, prev: Named, state: str, coming: Named) -> None:
        """Switch a CPU from one task to another.

        :param state: the letter of the state of the leaving task: "R", "S", "D" …
        """
        pid, comm = prev
        if self._current.get(cpu, pid) != pid:
            self.gaps += 1
            self.forget_cpu(cpu)
        # Every idle task has the pid 0.
        if pid:
            self._leave(ns, pid, comm, state)
        pid, comm = coming
        if pid:
            self._run(ns, cpu, pid, comm)
        self._current[cpu] = pid

    @property
    def never_left(self) -> float:
        """Share of the tasks that ran and never left their CPU, without those that still run."""
        running = {*self._current.values()}
        stayed = sum(
            task.cpu is not None and not task.has_left
            for pid, task in self._tasks.items()
            if pid not in running
        )
        return stayed / max(1, sum(sums.tasks for sums in (self.own, self.others, self.tracer)))

    def forget_cpu(self, cpu: int) -> None:
        """Forget which task runs on a CPU, because events of this CPU are missing."""
        task = self._tasks.get(self._current.pop(cpu, 0))
        if task is not None and task.state == RUNNING:
            task.state = UNKNOWN

    def waking(self, ns: int, cpu: int, pid: int, comm: bytes) -> None:
        """Begin the wakeup of a task.

        :param cpu: the CPU whose current task, or an interrupt of it, wakes the task
        """
        task = self._task(pid, comm)
        task.waking_ns = ns
        task.waker = self._name_of_current(cpu)

    def wakeup(self, ns: int, pid: int, comm: bytes) -> None:
        """Put a task on a run queue."""
        task = self._task(pid, comm)
        task.woken_ns = ns
        if task.state in (BLOCKED, UNKNOWN):
            self._wake(task, ns)

    def migrate(self, pid: int, comm: bytes) -> None:
        """Move a task to the run queue of another CPU."""
        self._task(pid, comm).sums.migrations += 1

    def fork(self, ns: int, parent: Named, child: int, comm: bytes) -> None:
        """Start a task."""
        above = self._named(*parent, ns)
        is_own = above.sums is self.own
        # A number can be used again.
        self._tasks.pop(child, None)
        task = self._add(child, comm, self.own if is_own else self._sums_of(comm))
        task.is_forked = True

    def execute(self, ns: int, pid: int, program: bytes) -> None:
        """Execute a program in a task.

        :param program: its path
        """
        task = self._tasks.get(pid) or self._add(pid, b"", self.others)
        comm = program.rpartition(b"/")[2][:COMM_BYTES]
        # Tracers start the command before they record, and let it wait until they do.
        is_waiting = not task.is_forked and (not task.comm or task.comm in TRACERS)
        if self.command is not None and self.command.pid == pid:
            self._rename(pid, task, comm, ns)
        elif self.command is None and is_waiting:
            if task.state == RUNNING:
                self._count_cpu(task, ns)
            self._begin(ns, pid, task, comm)

    def end(self, ns: int, pid: int) -> None:
        """End a task."""
        if self.command is not None and pid == self.command.pid and self.command.end_ns is None:
            self.command.end_ns = ns

    def _leave(self, ns: int, pid: int, comm: bytes, state: str) -> None:
        task = self._named(pid, comm, ns)
        if task.state == RUNNING:
            self._count_cpu(task, ns)
        task.since_ns, task.has_left = ns, True
        task.blocked_ns = task.woken_ns = task.waking_ns = task.waker = None
        if state == RUNS_ON:
            task.state, task.reason = RUNNABLE, "preempted"
            task.sums.involuntary += 1
            return
        task.state, task.letter = BLOCKED, state
        task.sums.voluntary += 1
        if state in DEAD:
            self.end(ns, pid)
            task.sums.ended += 1
            del self._tasks[pid]

    def _run(self, ns: int, cpu: int, pid: int, comm: bytes) -> None:
        task = self._named(pid, comm, ns)
        if task.waking_ns is not None and task.woken_ns is None:
            self.from_waking += 1
            task.woken_ns = task.waking_ns
            if task.state in (BLOCKED, UNKNOWN):
                self._wake(task, task.waking_ns)
        if task.state == RUNNABLE:
            self._end_wait(task, ns)
        elif task.state != UNKNOWN:
            self.missed += 1
        if task.woken_ns is not None:
            self._waits_of(comm, cpu).add(max(0, ns - task.woken_ns))
        self.moved += task.cpu is not None and task.cpu != cpu
        task.state, task.since_ns, task.cpu = RUNNING, ns, cpu

    def _wake(self, task: _Task, ns: int) -> None:
        if task.state == BLOCKED:
            task.blocked_ns = self._since(task, ns)
            task.sums.blocked.add(task.blocked_ns)
        task.state, task.reason, task.since_ns = RUNNABLE, "woken", ns

    def _end_wait(self, task: _Task, ns: int) -> None:
        waited_ns = self._since(task, ns)
        task.sums.waits[task.reason].add(waited_ns)
        if task.blocked_ns is not None:
            key = task.letter, task.waker
            task.sums.pauses.setdefault(key, Pauses()).pause(task.blocked_ns, waited_ns)

    def _count_cpu(self, task: _Task, ns: int) -> None:
        task.sums.cpu_of[self._name(task.comm)] += self._since(task, ns)
        task.since_ns = ns

    def _since(self, task: _Task, ns: int) -> int:
        self.reordered += ns < task.since_ns
        return max(0, ns - task.since_ns)

    def _waits_of(self, comm: bytes, cpu: int) -> Waits:
        key = command_of(comm), cpu
        if key not in self.waits and len(self.waits) >= MOST_NAMES:
            key = "", cpu
        return self.waits.setdefault(key, Waits(*key))

    def _task(self, pid: int, comm: bytes) -> _Task:
        return self._tasks.get(pid) or self._add(pid, comm, self._sums_of(comm))

    def _named(self, pid: int, comm: bytes, ns: int) -> _Task:
        """Return a task that has this name at this time."""
        task = self._task(pid, comm)
        if task.comm != comm:
            self._rename(pid, task, comm, task.since_ns if task.state == RUNNING else ns)
        return task

    def _add(self, pid: int, comm: bytes, sums: Sums) -> _Task:
        if len(self._tasks) >= MOST_TASKS:
            del self._tasks[next(iter(self._tasks))]
            self.forgotten += 1
        sums.tasks += 1
        self._tasks[pid] = task = _Task(sums, comm)
        if comm:
            sums.commands.setdefault(self._name(comm))
        return task

    def _sums_of(self, comm: bytes) -> Sums:
        return self.tracer if comm in TRACERS else self.others

    def _rename(self, pid: int, task: _Task, comm: bytes, since_ns: int) -> None:
        """Give a task another name.

        :param since_ns: when the task got it, at the earliest
        """
        if self.command is None and task.comm == PERF_CHILD:
            self._begin(since_ns, pid, task, comm)
            return
        task.comm = comm
        if task.sums is not self.own:
            task.sums = self._sums_of(comm)
        elif self.command is not None and self.command.pid == pid:
            self.command.name = self._name(comm)
        task.sums.commands.setdefault(self._name(comm))

    def _begin(self, ns: int, pid: int, task: _Task, comm: bytes) -> None:
        """Make a task the command."""
        self.command = Command(pid, self._name(comm), ns)
        task.sums.tasks -= 1
        task.sums, task.comm = self.own, comm
        self.own.tasks += 1
        self.own.commands.setdefault(self._name(comm))

    def _name_of_current(self, cpu: int) -> str | None:
        pid = self._current.get(cpu)
        if pid == 0:
            return f"swapper/{cpu}"
        task = None if pid is None else self._tasks.get(pid)
        return None if task is None else self._name(task.comm)

    def _name(self, comm: bytes) -> str:
        if comm not in self._names:
            if len(self._names) >= MOST_NAMES:
                return OTHER_COMMANDS
            self._names[comm] = comm.decode("utf-8", "replace")
        return self._names[comm]
