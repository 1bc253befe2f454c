# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse task placement in a run: ``placement.json`` of the collector ``bpf_placement``.

::

    {"schema": "schedperf/bpf_placement/1", "mechanism": "bpf", "seconds": 1.2,
     "programs": {"migrate": {"mechanism": "tp_btf", "function": "sched_migrate_task",
                              "reason": null}},
     "nodes": {"0": 0, "1": 0, "2": 1, "3": 1}, "levels_from": "domains",
     "moves": [{"event": "migration", "cause": "load_balance", "from_node": 0, "to_node": 1,
                "level": "NUMA", "count": 17}],
     …}

Numbers are counts per run or nanoseconds. ``None``: not measured; 0: measured, no events.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

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
# Of CPU cores; machines have two or three.
MOST_TYPES = 32
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
# A PMU, or the model of a core with its capacity.
CoreType = Annotated[str, Meta(min_length=1, max_length=64)]
Bins = Annotated[tuple[Count, ...], Meta(min_length=LATENCY_BINS, max_length=LATENCY_BINS)]
Phases = Annotated[tuple[Count, ...], Meta(min_length=PHASE_BINS, max_length=PHASE_BINS)]


class Program(Struct, frozen=True, kw_only=True):
    """One probe program, or why it could not be attached.

    :param mechanism: "tp_btf", "raw_tp", "fentry", "fexit", "kprobe", "kretprobe" or "perf"; None:
        no mechanism works on this machine
    :param function: kernel function or tracepoint; None if not found
    :param reason: why no mechanism works
    """

    mechanism: str | None = None
    function: str | None = None
    reason: str | None = None


class Move(Struct, frozen=True, kw_only=True):
    """Number of moves of tasks between the CPUs of two nodes (or of one node).

    A fork moves from the parent's CPU to the child's first CPU, a wakeup from the waker's CPU to
    the CPU of the woken task, a migration from the task's previous CPU to its next.

    :param cause: of a migration; None: unknown
    :param level: the smallest scheduling domain that contains both CPUs; "CPU" for the same CPU
    :param from_type: type of the CPU core; None: all CPUs have one type
    """

    event: Event
    cause: Cause | None = None
    from_node: Node
    to_node: Node
    level: Text
    count: Count
    from_type: CoreType | None = None
    to_type: CoreType | None = None

    @property
    def is_crossing(self) -> bool:
        """Whether source and destination node differ."""
        return self.from_node != self.to_node


class Series(Struct, frozen=True, kw_only=True):
    """Moves over time.

    :param crossing: moves between nodes, otherwise moves within a node
    :param counts: shape (steps,)
    """

    event: Event
    cause: Cause | None = None
    crossing: bool
    counts: Annotated[tuple[Count, ...], Meta(max_length=MOST_STEPS)]


class OverTime(Struct, frozen=True, kw_only=True):
    """All series of a run; their steps have the same length."""

    step_s: Seconds
    rows: tuple[Series, ...] = ()


class Latency(Struct, frozen=True, kw_only=True):
    """Waits of runnable tasks for a CPU of a node and type of core.

    :param log2_ns: shape (40,); bin i counts 2^i <= ns < 2^(i+1), bin 0 also 0 ns
    """

    node: Node
    log2_ns: Bins
    sum_ns: Count
    count: Count
    max_ns: Count
    core_type: CoreType | None = None


class Depth(Struct, frozen=True, kw_only=True):
    """Switches to tasks of the workload in task groups of one depth.

    :param depth: 0 is the root group
    """

    depth: Annotated[int, Meta(ge=0, lt=DEEPEST)]
    switches: Count


class Destination(Struct, frozen=True, kw_only=True):
    """Answers of find_idlest_group(), which sends a new task to a group of CPUs.

    :param to_node: None: the local group was chosen
    :param imbalanced: answers while ``sgc->imbalance`` of a group was set; None: not measured
    """

    level: Text
    from_node: Node
    to_node: Node | None = None
    fork: bool
    count: Count
    imbalanced: Count | None = None


class Source(Struct, frozen=True, kw_only=True):
    """Answers of find_busiest_group(), which looks for a group to pull from."""

    level: Text
    idle: Idle
    answer: Answer
    count: Count


class Attempts(Struct, frozen=True, kw_only=True):
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


class Migratable(Struct, frozen=True, kw_only=True):
    """Answers of can_migrate_task().

    :param some_pinned: how many of the calls set LBF_SOME_PINNED
    """

    level: Text
    idle: Idle
    answer: bool
    some_pinned: Count
    count: Count


class Imbalance(Struct, frozen=True, kw_only=True):
    """Attempts that found ``sgc->imbalance`` set, or set it."""

    level: Text
    count: Count


class Balance(Struct, frozen=True, kw_only=True):
    """Decisions of the load balancer; None: not observable on this kernel."""

    destination: tuple[Destination, ...] | None = None
    source: tuple[Source, ...] | None = None
    attempts: tuple[Attempts, ...] | None = None
    migratable: tuple[Migratable, ...] | None = None
    group_imbalance: tuple[Imbalance, ...] | None = None


NOTHING_SEEN = Balance()


class Timer(Struct, frozen=True, kw_only=True):
    """The bandwidth timer of a cgroup.

    :param group: path of the cgroup, or its number
    :param phases: shape (64,); expiries by their time modulo the period
    :param first_ns: of the first expiry, CLOCK_MONOTONIC; None: no expiry
    :param overruns: expiries that came more than a period late
    """

    group: Text
    period_ns: Annotated[int, Meta(ge=1, le=LONGEST_PERIOD_NS)]
    expiries: Count
    phases: Phases
    first_ns: Count | None = None
    overruns: Count


class Invisible(Struct, frozen=True, kw_only=True):
    """A function, or a part of the file, that is not observable on this kernel."""

    what: Text
    reason: Text


class PlacementCapture(Struct, frozen=True, kw_only=True):
    """Contents of one run's placement.json.

    :param mechanism: "bpf" or "perf"
    :param seconds: duration of counting
    :param nodes: NUMA node by CPU
    :param types: type of core by CPU; empty if all CPUs have one type
    :param levels_from: source of the level names of moves: the scheduler's domains or the hardware
        topology; None: not recorded
    :param balance: None: no program could observe the load balancer
    :param invisible: functions and parts that are not observable on this kernel, with the reason
    :param lost: events that were lost, by buffer or map
    """

    schema: Literal["schedperf/bpf_placement/1"]
    mechanism: Literal["bpf", "perf"]
    seconds: Seconds
    programs: Annotated[Mapping[str, Program], Meta(max_length=MOST_PROGRAMS)]
    nodes: Annotated[Mapping[Cpu, Node], Meta(max_length=MOST_CPUS)]
    types: Annotated[Mapping[Cpu, CoreType], Meta(max_length=MOST_CPUS)] = field(
        default_factory=dict
    )
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
        """Limit the number of levels and types, which add rows to what an untrusted file names."""
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
            raise ValueError(
                f"{len(levels)} scheduling-domain levels (expected at most {MOST_LEVELS})"
            )
        types = {row.to_type for row in self.moves} | {row.from_type for row in self.moves}
        types |= {*self.types.values(), *(row.core_type for row in self.latency)}
        if len(types) > MOST_TYPES:
            raise ValueError(f"{len(types)} types of CPU cores (expected at most {MOST_TYPES})")

    @property
    def answers(self) -> Balance:
        """Decisions of the load balancer; empty if no program could observe it."""
        return self.balance or NOTHING_SEEN

    @property
    def switches_by_depth(self) -> dict[int, int]:
        """Switches to tasks of the workload, by the depth of the task group."""
        switches: Counter[int] = Counter()
        for row in self.depth:
            switches[row.depth] += row.switches
        return dict(switches)


def parse_placement(content: bytes, label: str) -> PlacementCapture:
    """Parse placement.json.

    :param label: bundle and member, for messages
    :raises BundleError: invalid content
    """
    return decode(content, PlacementCapture, label)
