# SPDX-License-Identifier: GPL-2.0-or-later
"""Task placement in a run: ``placement.json`` of the collector ``bpf_placement``.

::

    {"schema": "schedperf/bpf_placement/1", "mechanism": "bpf", "seconds": 1.2,
     "programs": {"migrate": {"mechanism": "tp_btf", "function": "sched_migrate_task",
                              "reason": null}},
     "nodes": {"0": 0, "1": 0, "2": 1, "3": 1}, "levels_from": "domains",
     "moves": [{"event": "migration", "cause": "load_balance", "from_node": 0, "to_node": 1,
                "level": "NUMA", "count": 17}],
     …}

Every number is a count of a run, or of nanoseconds. ``None`` was not measured; a count of 0 was.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from schedperf.bundle.json import Count, decode
from schedperf.evidence.placement.record import Event, Idle

Cause = Literal["fork", "exec", "wakeup", "load_balance", "numa", "affinity", "other"]
Answer = Literal["found", "balanced"]
LevelSource = Literal["domains", "topology"]

# From 1 ns to 9 minutes; the last bin is open.
LATENCY_BINS = 40
# Of the period of a bandwidth timer.
PHASE_BINS = 64

# The collector's steps grow with the run, so that there are at most 2000.
MOST_STEPS = 4096
# MAX_NUMNODES is 1 << CONFIG_NODES_SHIFT, which is at most 10.
MOST_NODES = 1024
# NR_CPUS of the largest configuration.
MOST_CPUS = 8192
# Three for what shares a cache or a package, and one for each distance between nodes.
MOST_LEVELS = 32
# cgroup.max.depth has no bound by default; people nest a dozen cgroups.
DEEPEST = 4096
MOST_PROGRAMS = 256
MOST_NOTES = 256
# Cgroups with a bandwidth limit; a machine full of containers has hundreds.
MOST_TIMERS = 4096
# The longest path of a cgroup that a file system can name.
LONGEST_TEXT = 4096
# A period of the bandwidth controller is at most one second.
LONGEST_PERIOD_NS = 10**9
# Longer than any run.
MOST_SECONDS = 1e8

Cpu = Annotated[int, Meta(ge=0, lt=MOST_CPUS)]
Node = Annotated[int, Meta(ge=0, lt=MOST_NODES)]
Seconds = Annotated[float, Meta(gt=0.0, le=MOST_SECONDS)]
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
Bins = Annotated[tuple[Count, ...], Meta(min_length=LATENCY_BINS, max_length=LATENCY_BINS)]
Phases = Annotated[tuple[Count, ...], Meta(min_length=PHASE_BINS, max_length=PHASE_BINS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """One program that looked, or why it could not.

    :param mechanism: "tp_btf", "raw_tp", "fentry", "fexit", "kprobe", "kretprobe" or "perf"; None:
        nothing works here
    :param function: of the kernel, or the tracepoint; None where none was found
    :param reason: why there is no mechanism
    """

    mechanism: str | None = None
    function: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """How often a task went from a CPU of one node to a CPU of one node.

    A fork goes from the parent's CPU to the child's first one, a wakeup from the waker's CPU to
    that on which the woken task runs, a migration from the task's last CPU to its next.

    :param cause: of a migration; None where it cannot be told
    :param level: the smallest scheduling domain that holds both CPUs; "CPU" for the same CPU
    """

    event: Event
    cause: Cause | None = None
    from_node: Node
    to_node: Node
    level: Text
    count: Count

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
    cause: Cause | None = None
    crossing: bool
    counts: Annotated[tuple[Count, ...], Meta(max_length=MOST_STEPS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class OverTime:
    """All series of a run, whose steps are of one length."""

    step_s: Seconds
    rows: tuple[Series, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """How long runnable tasks waited for a CPU of a node.

    :param log2_ns: shape (40,); bin i holds 2^i <= ns < 2^(i+1), bin 0 also 0 ns
    """

    node: Node
    log2_ns: Bins
    sum_ns: Count
    count: Count
    max_ns: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Depth:
    """How often a task of the workload got a CPU while its task group was so deep.

    :param depth: 0 is the root group
    """

    depth: Annotated[int, Meta(ge=0, lt=DEEPEST)]
    switches: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """Answers of find_idlest_group(), which sends a new task to a group of CPUs.

    :param to_node: None: the local group was kept
    :param imbalanced: answers while ``sgc->imbalance`` of a group was set; None where that was
        not looked at
    """

    level: Text
    from_node: Node
    to_node: Node | None = None
    fork: bool
    count: Count
    imbalanced: Count | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Answers of find_busiest_group(), which looks for a group to pull from."""

    level: Text
    idle: Idle
    answer: Answer
    count: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempts:
    """Calls of load_balance().

    :param pulled: tasks that were moved
    :param some_pinned: calls in which LBF_SOME_PINNED was set at some moment
    :param all_pinned: likewise LBF_ALL_PINNED
    """

    level: Text
    idle: Idle
    node: Node
    count: Count
    pulled: Count
    some_pinned: Count
    all_pinned: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Migratable:
    """Answers of can_migrate_task().

    :param some_pinned: how many of the calls set LBF_SOME_PINNED
    """

    level: Text
    idle: Idle
    answer: bool
    some_pinned: Count
    count: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Imbalance:
    """Attempts that saw ``sgc->imbalance`` set, or set it."""

    level: Text
    count: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """What the balancer was asked and answered; None is invisible on this kernel."""

    destination: tuple[Destination, ...] | None = None
    source: tuple[Source, ...] | None = None
    attempts: tuple[Attempts, ...] | None = None
    migratable: tuple[Migratable, ...] | None = None
    group_imbalance: tuple[Imbalance, ...] | None = None


NOTHING_SEEN = Balance()


@dataclass(frozen=True, kw_only=True, slots=True)
class Timer:
    """The bandwidth timer of a cgroup.

    :param group: path of the cgroup, or its number
    :param phases: shape (64,); expiries by their time modulo the period
    :param first_ns: of the first expiry, CLOCK_MONOTONIC; None where none was seen
    :param overruns: expiries that came more than a period late
    """

    group: Text
    period_ns: Annotated[int, Meta(ge=1, le=LONGEST_PERIOD_NS)]
    expiries: Count
    phases: Phases
    first_ns: Count | None = None
    overruns: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class Invisible:
    """What cannot be seen on this kernel: a function or a part of the file."""

    what: Text
    reason: Text


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementCapture:
    """All that was seen of one run.

    :param mechanism: "bpf" or "perf"
    :param seconds: from the first moment to the last in which events were counted
    :param nodes: by CPU
    :param levels_from: what names the levels of moves: the scheduler's domains or the hardware's
        topology; None where the capture does not say
    :param balance: None where no program could look
    :param invisible: what cannot be seen on this kernel, with the reason
    :param lost: events that were not counted, by what lost them
    """

    schema: Literal["schedperf/bpf_placement/1"]
    mechanism: Literal["bpf", "perf"]
    seconds: Seconds
    programs: Annotated[Mapping[str, Program], Meta(max_length=MOST_PROGRAMS)]
    nodes: Annotated[Mapping[Cpu, Node], Meta(max_length=MOST_CPUS)]
    levels_from: LevelSource | None = None
    moves: tuple[Move, ...] = ()
    series: OverTime
    latency: tuple[Latency, ...] = ()
    depth: tuple[Depth, ...] = ()
    balance: Balance | None = None
    timers: Annotated[tuple[Timer, ...], Meta(max_length=MOST_TIMERS)] = ()
    invisible: Annotated[tuple[Invisible, ...], Meta(max_length=MOST_PROGRAMS)] = ()
    lost: Annotated[Mapping[str, Count], Meta(max_length=MOST_PROGRAMS)]
    notes: Annotated[tuple[str, ...], Meta(max_length=MOST_NOTES)]

    def __post_init__(self) -> None:
        """Limit the levels: each is a group of rows, and a file could name any number of them."""
        parts = (
            self.moves,
            self.answers.destination or (),
            self.answers.source or (),
            self.answers.attempts or (),
            self.answers.migratable or (),
            self.answers.group_imbalance or (),
        )
        levels = {row.level for part in parts for row in part}
        if len(levels) > MOST_LEVELS:
            raise ValueError(f"{len(levels)} levels (expected at most {MOST_LEVELS})")

    @property
    def answers(self) -> Balance:
        """What the balancer was asked and answered, also where no program could look."""
        return self.balance or NOTHING_SEEN

    @property
    def switches_by_depth(self) -> dict[int, int]:
        """How often a task of the workload got a CPU, by the depth of its task group."""
        switches: Counter[int] = Counter()
        for row in self.depth:
            switches[row.depth] += row.switches
        return dict(switches)


def parse_placement(content: bytes, label: str) -> PlacementCapture:
    """Read a placement.json.

    :param label: bundle and member, for messages
    :raises BundleError: it is none, or it holds what cannot be
    """
    return decode(content, PlacementCapture, label)
