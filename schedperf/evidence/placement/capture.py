"""Where tasks went in a run: ``placement.json`` of the collector ``bpf_placement``.

::

    {"schema": "schedperf/bpf_placement/1", "mechanism": "bpf", "seconds": 1.2,
     "programs": {"migrate": {"mechanism": "tp_btf", "function": "sched_migrate_task",
                              "reason": null}},
     "nodes": {"0": 0, "1": 0, "2": 1, "3": 1}, "levels_from": "domains",
     "moves": [{"event": "migration", "cause": "load_balance", "from_node": 0, "to_node": 1,
                "level": "NUMA", "count": 17}],
     …}

Every number is a count of a run, or of nanoseconds. ``None`` is what could not be seen; a count
of 0 was looked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast, get_args

from schedperf.bundle.json import JsonObject, parse_object
from schedperf.evidence.placement.record import EVENTS, IDLE_TYPES, Event, Idle
from schedperf.model.errors import BundleError

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

SCHEMA = "schedperf/bpf_placement/1"
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
# Lists of which each entry is a row or a sentence of its own.
_LONGEST = {"timers": MOST_TIMERS, "invisible": MOST_PROGRAMS, "notes": MOST_NOTES}

Value = TypeVar("Value")
Word = TypeVar("Word", bound=str)


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


def parse_placement(content: bytes, label: str) -> PlacementCapture:
    """Read a placement.json.

    :param label: bundle and member, for messages
    :raises BundleError: it is none, or it holds what cannot be
    """
    values = parse_object(content, label)
    if values.text("schema") != SCHEMA:
        raise values.wrong("schema", f'"{SCHEMA}"')
    series = values.child("series")
    found = PlacementCapture(
        mechanism=_word(values, "mechanism", ("bpf", "perf")),
        seconds=_seconds(values, "seconds"),
        programs=_programs(values),
        nodes=_nodes(values),
        levels_from=values.optional(lambda key: _word(values, key, LEVEL_SOURCES), "levels_from"),
        moves=_rows(values, "moves", _move),
        step_s=_seconds(series, "step_s"),
        series=_rows(series, "rows", _series),
        latency=_rows(values, "latency", _latency),
        depth=_depth(values),
        balance=_balance(values),
        timers=_rows(values, "timers", _timer),
        invisible=_rows(
            values, "invisible", lambda row: (_text(row, "what"), _text(row, "reason"))
        ),
        lost=_lost(values),
        notes=values.texts("notes"),
    )
    for key, most in _LONGEST.items():
        if len(getattr(found, key)) > most:
            raise values.wrong(key, f"at most {most} of them")
    _check_levels(found, values)
    return found


def _rows(values: JsonObject, key: str, parse: Callable[[JsonObject], Value]) -> tuple[Value, ...]:
    return tuple(parse(row) for row in values.optional(values.children, key) or ())


def _word(values: JsonObject, key: str, choices: Sequence[Word]) -> Word:
    word = values.text(key)
    if word not in choices:
        raise values.wrong(key, f"one of {', '.join(choices)}")
    return cast("Word", word)


def _text(values: JsonObject, key: str) -> str:
    text = values.text(key)
    if not 0 < len(text) <= LONGEST_TEXT:
        raise values.wrong(key, f"a text of 1 to {LONGEST_TEXT} characters")
    return text


def _seconds(values: JsonObject, key: str) -> float:
    seconds = values.quantity(key)
    if not 0.0 < seconds <= MOST_SECONDS:
        raise values.wrong(key, f"above 0 and at most {MOST_SECONDS:g} seconds")
    return seconds


def _below(values: JsonObject, key: str, limit: int) -> int:
    number = values.count(key)
    if number >= limit:
        raise values.wrong(key, f"below {limit}")
    return number


def _bins(values: JsonObject, key: str, length: int) -> tuple[int, ...]:
    counts = values.counts(key)
    if len(counts) != length:
        raise values.wrong(key, f"a list of {length} counts")
    return counts


def _programs(values: JsonObject) -> tuple[Program, ...]:
    child = values.child("programs")
    if len(child.values) > MOST_PROGRAMS:
        raise values.wrong("programs", f"at most {MOST_PROGRAMS} programs")
    return tuple(_program(name, child.child(name)) for name in child.values)


def _program(name: str, values: JsonObject) -> Program:
    return Program(
        name=name,
        mechanism=values.optional(values.text, "mechanism"),
        function=values.optional(values.text, "function"),
        reason=values.optional(values.text, "reason"),
    )


def _nodes(values: JsonObject) -> dict[int, int]:
    child = values.child("nodes")
    if len(child.values) > MOST_CPUS or not all(map(_is_cpu, child.values)):
        raise values.wrong("nodes", f"nodes by the number of a CPU, below {MOST_CPUS}")
    return {int(cpu): _node(child, cpu) for cpu in child.values}


def _is_cpu(text: str) -> bool:
    return (
        text.isascii()
        and text.isdigit()
        and len(text) <= len(str(MOST_CPUS))
        and int(text) < MOST_CPUS
    )


def _node(values: JsonObject, key: str) -> int:
    return _below(values, key, MOST_NODES)


def _move(values: JsonObject) -> Move:
    return Move(
        event=_word(values, "event", EVENTS),
        cause=_cause(values),
        from_node=_node(values, "from_node"),
        to_node=_node(values, "to_node"),
        level=_text(values, "level"),
        count=values.count("count"),
    )


def _cause(values: JsonObject) -> Cause | None:
    return values.optional(lambda key: _word(values, key, CAUSES), "cause")


def _series(values: JsonObject) -> Series:
    counts = values.counts("counts")
    if len(counts) > MOST_STEPS:
        raise values.wrong("counts", f"at most {MOST_STEPS} counts")
    return Series(
        event=_word(values, "event", EVENTS),
        cause=_cause(values),
        crossing=values.flag("crossing"),
        counts=counts,
    )


def _latency(values: JsonObject) -> Latency:
    return Latency(
        node=_node(values, "node"),
        log2_ns=_bins(values, "log2_ns", LATENCY_BINS),
        sum_ns=values.count("sum_ns"),
        count=values.count("count"),
        max_ns=values.count("max_ns"),
    )


def _depth(values: JsonObject) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in values.optional(values.children, "depth") or ():
        depth = _below(row, "depth", DEEPEST)
        found[depth] = found.get(depth, 0) + row.count("switches")
    return found


def _balance(values: JsonObject) -> Balance:
    child = values.optional(values.child, "balance") or JsonObject({}, values.where)

    def part(key: str, parse: Callable[[JsonObject], Value]) -> tuple[Value, ...] | None:
        return None if child.values.get(key) is None else _rows(child, key, parse)

    return Balance(
        destination=part("destination", _destination),
        source=part("source", _source),
        attempts=part("attempts", _attempts),
        migratable=part("migratable", _migratable),
        group_imbalance=part(
            "group_imbalance",
            lambda row: Imbalance(level=_text(row, "level"), count=row.count("count")),
        ),
    )


def _destination(values: JsonObject) -> Destination:
    return Destination(
        level=_text(values, "level"),
        from_node=_node(values, "from_node"),
        to_node=values.optional(lambda key: _node(values, key), "to_node"),
        fork=values.flag("fork"),
        count=values.count("count"),
        imbalanced=values.optional(values.count, "imbalanced"),
    )


def _source(values: JsonObject) -> Source:
    return Source(
        level=_text(values, "level"),
        idle=_word(values, "idle", IDLE_TYPES),
        answer=_word(values, "answer", ANSWERS),
        count=values.count("count"),
    )


def _attempts(values: JsonObject) -> Attempts:
    return Attempts(
        level=_text(values, "level"),
        idle=_word(values, "idle", IDLE_TYPES),
        node=_node(values, "node"),
        **{name: values.count(name) for name in ("count", "pulled", "some_pinned", "all_pinned")},
    )


def _migratable(values: JsonObject) -> Migratable:
    return Migratable(
        level=_text(values, "level"),
        idle=_word(values, "idle", IDLE_TYPES),
        answer=values.flag("answer"),
        some_pinned=values.count("some_pinned"),
        count=values.count("count"),
    )


def _timer(values: JsonObject) -> Timer:
    period_ns = values.count("period_ns")
    if not 0 < period_ns <= LONGEST_PERIOD_NS:
        raise values.wrong("period_ns", f"from 1 to {LONGEST_PERIOD_NS}")
    return Timer(
        group=_text(values, "group"),
        period_ns=period_ns,
        expiries=values.count("expiries"),
        phases=_bins(values, "phases", PHASE_BINS),
        first_ns=values.optional(values.count, "first_ns"),
        overruns=values.count("overruns"),
    )


def _lost(values: JsonObject) -> dict[str, int]:
    child = values.child("lost")
    if len(child.values) > MOST_PROGRAMS:
        raise values.wrong("lost", f"at most {MOST_PROGRAMS} counts")
    return {name: child.count(name) for name in child.values}


def _check_levels(found: PlacementCapture, values: JsonObject) -> None:
    # Each level is a group of rows, so a made-up file could ask for any number of them.
    parts = (
        found.moves,
        found.balance.destination or (),
        found.balance.source or (),
        found.balance.attempts or (),
        found.balance.migratable or (),
        found.balance.group_imbalance or (),
    )
    levels = {row.level for part in parts for row in part}
    if len(levels) > MOST_LEVELS:
        raise BundleError(
            f"{values.where}: {len(levels)} levels, more than {MOST_LEVELS}; record it again"
        )
