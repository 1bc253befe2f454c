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

Numbers are counts per run, nanoseconds (``…_ns``) or seconds (``seconds``, ``step_s``). ``None``:
not measured; 0: measured, no events.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from schedperf.evidence.placement.record import Event, Idle
from schedperf.inputs.bundle.json import MOST_HISTOGRAM_VALUES, Count, decode

Cause = Literal["fork", "exec", "wakeup", "load_balance", "numa", "affinity", "other"]
Answer = Literal["found", "balanced"]
LevelSource = Literal["domains", "topology"]

# Number of bins for waits: from 1 ns to 9 minutes; the last bin is open.
LATENCY_BINS = 40
# Number of bins for the phase in a bandwidth timer's period.
PHASE_BINS = 64

# Limit on steps; their length grows with the run, so that there are at most 2000.
MOST_STEPS = 4096
# MAX_NUMNODES is 1 << CONFIG_NODES_SHIFT, which is at most 10.
MOST_NODES = 1024
# NR_CPUS of the largest configuration.
MOST_CPUS = 8192
# Limit on levels: three within a package, and one for each distance between nodes.
MOST_LEVELS = 32
# Limit on types of CPU cores; machines have two or three.
MOST_TYPES = 32
# Limit on nested cgroups; cgroup.max.depth is unlimited by default, but a dozen levels are typical.
DEEPEST = 4096
MOST_PROGRAMS = 256
MOST_NOTES = 256
# Limit on cgroups with a bandwidth limit; a machine full of containers has hundreds.
MOST_TIMERS = 4096
# Longest path of a cgroup.
LONGEST_TEXT = 4096
# A period of the bandwidth controller is at most one second.
LONGEST_PERIOD_NS = 10**9
# Upper limit on durations; no run takes longer.
MOST_SECONDS = 1e8

Cpu = Annotated[int, Meta(ge=0, lt=MOST_CPUS)]
Node = Annotated[int, Meta(ge=0, lt=MOST_NODES)]
Seconds = Annotated[float, Meta(gt=0.0, le=MOST_SECONDS)]
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_TEXT)]
# A type of core: the name of a PMU, or the model with its capacity.
CoreType = Annotated[str, Meta(min_length=1, max_length=64)]
Bins = Annotated[tuple[Count, ...], Meta(min_length=LATENCY_BINS, max_length=LATENCY_BINS)]
Phases = Annotated[tuple[Count, ...], Meta(min_length=PHASE_BINS, max_length=PHASE_BINS)]


class Program(Struct, frozen=True, kw_only=True):
    """One probe program, or why it could not be attached.

    :param mechanism: "tp_btf", "raw_tp", "fentry", "fexit", "kprobe", "kretprobe" or "perf"; None
        if no mechanism works on this machine
    :param function: kernel function or tracepoint; None if not found
    :param reason: why no mechanism works
    """

    mechanism: str | None = None
    function: str | None = None
    reason: str | None = None


class Move(Struct, frozen=True, kw_only=True):
    """Number of moves of tasks between the CPUs of two nodes (or of one node).

    A fork moves from the parent's CPU to the child's first CPU, an exec from the CPU that the task
    left in sched_exec() to the CPU on which it executes the program, a wakeup from the waker's CPU
    to the CPU of the woken task, a migration from the task's previous CPU to its next.

    :param cause: cause of a migration; None if unknown
    :param level: the smallest scheduling domain that contains both CPUs; "CPU" for the same CPU
    :param from_type: type of the CPU core; None if all CPUs have the same type
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

    :param crossing: True for moves between nodes, False for moves within a node
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
    """Wait times of runnable tasks for a CPU, by node and type of core.

    :param log2_ns: shape (40,); bin i counts 2^i <= ns < 2^(i+1), bin 0 also 0 ns, the last bin
        also longer waits
    :param core_type: None if all CPUs have the same type
    """

    node: Node
    log2_ns: Bins
    sum_ns: Count
    count: Count
    max_ns: Count
    core_type: CoreType | None = None


class Depth(Struct, frozen=True, kw_only=True):
    """Switches to tasks of the workload in task groups of one depth.

    :param depth: 0 for the root group
    """

    depth: Annotated[int, Meta(ge=0, lt=DEEPEST)]
    switches: Count


class Destination(Struct, frozen=True, kw_only=True):
    """Results of find_idlest_group(), which selects a group of CPUs for a task.

    :param to_node: None if the local group was chosen
    :param fork: True if the task is new; False for execs and wakeups
    :param imbalanced: results while ``sgc->imbalance`` of a group was set; None if not measured
    """

    level: Text
    from_node: Node
    to_node: Node | None = None
    fork: bool
    count: Count
    imbalanced: Count | None = None


class Source(Struct, frozen=True, kw_only=True):
    """Results of find_busiest_group(), which selects a group to pull tasks from."""

    level: Text
    idle: Idle
    answer: Answer
    count: Count


class Attempts(Struct, frozen=True, kw_only=True):
    """Calls of load_balance().

    :param pulled: tasks that were moved
    :param some_pinned: calls during which LBF_SOME_PINNED was set
    :param all_pinned: calls during which LBF_ALL_PINNED was set
    """

    level: Text
    idle: Idle
    node: Node
    count: Count
    pulled: Count
    some_pinned: Count
    all_pinned: Count


class Migratable(Struct, frozen=True, kw_only=True):
    """Results of can_migrate_task().

    :param some_pinned: number of calls that set LBF_SOME_PINNED
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
    """Decisions of the load balancer; None if not observable on this kernel."""

    destination: tuple[Destination, ...] | None = None
    source: tuple[Source, ...] | None = None
    attempts: tuple[Attempts, ...] | None = None
    migratable: tuple[Migratable, ...] | None = None
    group_imbalance: tuple[Imbalance, ...] | None = None


NOTHING_SEEN = Balance()


class Timer(Struct, frozen=True, kw_only=True):
    """The bandwidth timer of a cgroup.

    :param group: path of the cgroup, or its id
    :param phases: shape (64,); number of expiries by time modulo the period
    :param first_ns: time of the first expiry, CLOCK_MONOTONIC; None if there was none
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
    :param seconds: duration of counting, in s
    :param nodes: NUMA node by CPU
    :param types: type of core by CPU; empty if all CPUs have one type
    :param levels_from: source of the level names of moves: the scheduler's domains or the hardware
        topology; None if not recorded
    :param balance: None if no program could observe the load balancer
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
        """Limit the number of levels and types, since each adds rows and the file is untrusted.

        :raises ValueError: there are more levels or types than any machine has
        """
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
    return decode(content, PlacementCapture, label, MOST_HISTOGRAM_VALUES)
