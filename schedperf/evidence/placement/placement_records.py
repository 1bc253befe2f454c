"""Records of where tasks went in a run; :mod:`schedperf.evidence.placement.capture` reads them.

Every number is a count of a run, or of nanoseconds. ``None`` is what could not be seen; a count
of 0 was looked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from schedperf.evidence.placement.record import Event, Idle

Cause = Literal["fork", "exec", "wakeup", "load_balance", "numa", "affinity", "other"]
Answer = Literal["found", "balanced"]
LevelSource = Literal["domains", "topology"]
CAUSES: tuple[Cause, ...] = get_args(Cause)
ANSWERS: tuple[Answer, ...] = get_args(Answer)
LEVEL_SOURCES: tuple[LevelSource, ...] = get_args(LevelSource)

# From 1 ns to 9 minutes; the last bin is open.
LATENCY_BINS = 40
# Of the period of a bandwidth timer.
PHASE_BINS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """One program that looked, or why it could not.

    :param mechanism: "tp_btf", "raw_tp", "fentry", "fexit", "kprobe", "kretprobe" or "perf"; None:
        nothing works here
    :param function: of the kernel, or the tracepoint; None where none was found
    :param reason: why there is no mechanism
    """

    name: str
    mechanism: str | None
    function: str | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """How often a task went from a CPU of one node to a CPU of one node.

    A fork goes from the parent's CPU to the child's first one, a wakeup from the waker's CPU to
    that on which the woken task runs, a migration from the task's last CPU to its next.

    :param cause: of a migration; None where it cannot be told
    :param level: the smallest scheduling domain that holds both CPUs; "CPU" for the same CPU
    """

    event: Event
    cause: Cause | None
    from_node: int
    to_node: int
    level: str
    count: int

    @property
    def is_crossing(self) -> bool:
        """Did it leave its node?"""
        return self.from_node != self.to_node


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Moves over time.

    :param crossing: those from one node to another, or those within a node
    :param counts: shape (steps,)
    """

    event: Event
    cause: Cause | None
    crossing: bool
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """How long runnable tasks waited for a CPU of a node.

    :param log2_ns: shape (40,); bin i holds 2^i <= ns < 2^(i+1), bin 0 also 0 ns
    """

    node: int
    log2_ns: tuple[int, ...]
    sum_ns: int
    count: int
    max_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """Answers of find_idlest_group(), which sends a new task to a group of CPUs.

    :param to_node: None: the local group was kept
    :param imbalanced: answers while ``sgc->imbalance`` of a group was set; None where that was
        not looked at
    """

    level: str
    from_node: int
    to_node: int | None
    fork: bool
    count: int
    imbalanced: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Answers of find_busiest_group(), which looks for a group to pull from."""

    level: str
    idle: Idle
    answer: Answer
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempts:
    """Calls of load_balance().

    :param pulled: tasks that were moved
    :param some_pinned: calls in which LBF_SOME_PINNED was set at some moment
    :param all_pinned: likewise LBF_ALL_PINNED
    """

    level: str
    idle: Idle
    node: int
    count: int
    pulled: int
    some_pinned: int
    all_pinned: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Migratable:
    """Answers of can_migrate_task().

    :param some_pinned: how many of the calls set LBF_SOME_PINNED
    """

    level: str
    idle: Idle
    answer: bool
    some_pinned: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Imbalance:
    """Attempts that saw ``sgc->imbalance`` set, or set it."""

    level: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """What the balancer was asked and answered; None is invisible on this kernel."""

    destination: tuple[Destination, ...] | None
    source: tuple[Source, ...] | None
    attempts: tuple[Attempts, ...] | None
    migratable: tuple[Migratable, ...] | None
    group_imbalance: tuple[Imbalance, ...] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Timer:
    """The bandwidth timer of a cgroup.

    :param group: path of the cgroup, or its number
    :param phases: shape (64,); expiries by their time modulo the period
    :param first_ns: of the first expiry, CLOCK_MONOTONIC; None where none was seen
    :param overruns: expiries that came more than a period late
    """

    group: str
    period_ns: int
    expiries: int
    phases: tuple[int, ...]
    first_ns: int | None
    overruns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementCapture:
    """All that was seen of one run.

    :param mechanism: "bpf" or "perf"
    :param seconds: from the first moment to the last in which events were counted
    :param nodes: by CPU
    :param levels_from: what names the levels of moves: the scheduler's domains or the hardware's
        topology; None where the capture does not say
    :param step_s: of the series
    :param depth: times that a task of the workload got a CPU, by the depth of its task group; 0 is
        the root group
    :param balance: None where no program could look
    :param invisible: what cannot be seen on this kernel, with the reason
    :param lost: events that were not counted, by what lost them
    """

    mechanism: Literal["bpf", "perf"]
    seconds: float
    programs: tuple[Program, ...]
    nodes: Mapping[int, int]
    levels_from: LevelSource | None
    moves: tuple[Move, ...]
    step_s: float
    series: tuple[Series, ...]
    latency: tuple[Latency, ...]
    depth: Mapping[int, int]
    balance: Balance
    timers: tuple[Timer, ...]
    invisible: tuple[tuple[str, str], ...]
    lost: Mapping[str, int]
    notes: tuple[str, ...]
