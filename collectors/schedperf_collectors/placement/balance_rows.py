"""What the programs of ``balance.bpf.c`` counted, and what placement.json makes of it."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

from schedperf_collectors.placement.machine import Machine

# struct balance_key and struct balance_value of balance.bpf.c.
KEY = struct.Struct("=QHHBBBx")
VALUE = struct.Struct("=5Q16s")
KEPT_LOCAL = 0xFFFE
IDLENESS = ("busy", "idle", "newidle")

Row = dict[str, object]


@dataclass(frozen=True)
class Decision:
    """One function of the balancer.

    :param name: of the programs that watch it, and the place among ``enum decision``
    :param functions: its names, the newest kernel's first
    :param arguments: how many it has; with another number it is another function
    :param part: the part of placement.json's "balance" that it fills
    """

    name: str
    functions: tuple[str, ...]
    arguments: int
    part: str


# In the order of enum decision of balance.bpf.c. "sched/balancing: Rename ..." (v6.10).
DECISIONS = (
    Decision(
        "destination", ("sched_balance_find_dst_group", "find_idlest_group"), 3, "destination"
    ),
    Decision("source", ("sched_balance_find_src_group", "find_busiest_group"), 1, "source"),
    Decision("attempt", ("sched_balance_rq", "load_balance"), 5, "attempts"),
    Decision("migratable", ("can_migrate_task",), 2, "migratable"),
)


@dataclass(frozen=True)
class Counts:
    """What was counted of one kind of decision."""

    count: int
    pulled: int
    some_pinned: int
    all_pinned: int
    imbalance: int

    def plus(self, other: Counts) -> Counts:
        """Return the sums of both."""
        return Counts(*(mine + its for mine, its in zip(astuple(self), astuple(other))))


@dataclass(frozen=True)
class Key:
    """What was decided where; see balance.bpf.c.

    :param from_node: None: the CPU was not there when the run began
    :param to_node: None: likewise, or the local group was kept
    """

    decision: str
    level: str
    from_node: int | None
    to_node: int | None
    is_local: bool
    idle: str
    yes: bool


def is_nowhere(key: Key) -> bool:
    """Say whether a decision concerned a CPU that was not there when the run began."""
    if key.decision == "destination" and key.to_node is None and not key.is_local:
        return True
    return key.decision in {"destination", "attempt"} and key.from_node is None


def describe_balance(counts: Mapping[Key, Counts], seen: set[str]) -> dict[str, list[Row] | None]:
    """Return counts as placement.json has them under "balance".

    :param seen: names of the decisions that are watched; the parts of the others are None
    """
    makers = {
        "destination": _destination_row,
        "source": _source_row,
        "attempt": _attempt_row,
        "migratable": _migratable_row,
    }
    parts: dict[str, list[Row] | None] = {
        decision.part: [
            makers[decision.name](key, found)
            for key, found in sorted(counts.items(), key=repr)
            if key.decision == decision.name
        ]
        if decision.name in seen
        else None
        for decision in DECISIONS
    }
    imbalance: Counter[str] = Counter()
    for key, found in counts.items():
        if key.decision == "attempt" and found.imbalance:
            imbalance[key.level] += found.imbalance
    parts["group_imbalance"] = (
        [{"level": level, "count": count} for level, count in sorted(imbalance.items())]
        if "attempt" in seen
        else None
    )
    return parts


def _destination_row(key: Key, found: Counts) -> Row:
    return {
        "level": key.level,
        "from_node": key.from_node,
        "to_node": key.to_node,
        "fork": key.yes,
        "count": found.count,
        "imbalanced": found.imbalance,
    }


def _source_row(key: Key, found: Counts) -> Row:
    answer = "found" if key.yes else "balanced"
    return {"level": key.level, "idle": key.idle, "answer": answer, "count": found.count}


def _attempt_row(key: Key, found: Counts) -> Row:
    return {
        "level": key.level,
        "idle": key.idle,
        "node": key.from_node,
        "count": found.count,
        "pulled": found.pulled,
        "some_pinned": found.some_pinned,
        "all_pinned": found.all_pinned,
    }


def _migratable_row(key: Key, found: Counts) -> Row:
    return {
        "level": key.level,
        "idle": key.idle,
        "answer": key.yes,
        "some_pinned": found.some_pinned,
        "count": found.count,
    }


def read_counts(items: Iterable[tuple[bytes, bytes]], machine: Machine) -> dict[Key, Counts]:
    """Return what the map holds, summed over CPUs and over domains of one name."""
    found: dict[Key, Counts] = {}
    for packed, values in items:
        level, from_node, to_node, decision, idle, yes = KEY.unpack(packed)
        *columns, names = zip(*VALUE.iter_unpack(values))
        # Only the CPU that made the entry wrote the name.
        name = max(names).partition(b"\0")[0].decode("utf-8", "replace")
        key = Key(
            decision=DECISIONS[decision].name,
            level=name or f"level {level}",
            from_node=machine.node_at(from_node),
            to_node=None if to_node == KEPT_LOCAL else machine.node_at(to_node),
            is_local=to_node == KEPT_LOCAL,
            idle=IDLENESS[idle],
            yes=bool(yes),
        )
        counts = Counts(*map(sum, columns))
        found[key] = found[key].plus(counts) if key in found else counts
    return found
