# SPDX-License-Identifier: GPL-2.0-or-later
"""Load the tracepoint programs of bpf_placement and read their maps.

The programs are in ``placement.bpf.c``; they count task placements and wait times.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from schedperf_collectors.bpf.libbpf import BpfObject, Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.placement.machine import (
    MOST_LEVELS,
    NUMA,
    SAME_CPU,
    U32,
    CpuGroup,
    Machine,
)

TRACEPOINTS = (
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_exec",
    "sched_move_numa",
    "sched_swap_numa",
    "sched_migrate_task",
    "sched_switch",
)
# Both run at every event; programs at BTF tracepoints can read kernel memory with plain loads.
MECHANISMS = {"tp_btf": "btf", "raw_tp": "raw"}

# In the order of enum kind of placement.bpf.c.
KINDS = (
    ("fork", None),
    ("exec", None),
    ("wakeup", None),
    ("migration", "fork"),
    ("migration", "exec"),
    ("migration", "wakeup"),
    ("migration", "load_balance"),
    ("migration", "numa"),
    ("migration", "affinity"),
    ("migration", "other"),
)
# The same CPU, and the levels that two CPUs of one node may share.
LEVELS = 1 + MOST_LEVELS

# struct cpu_counts of placement.bpf.c.
LATENCY_BINS, DEPTH_BINS = 40, 34
CPU_COUNTS = struct.Struct(f"={LATENCY_BINS + 2 + DEPTH_BINS + 3}Q8x")

COUNT_BYTES = 8
# Counters of two CPUs never share a cache line.
COUNTS_OF_A_LINE = 8
# 2 nodes and 224 CPUs need 0.6 MB. 64 nodes and 8192 CPUs would need 3 GB and get this limit, 4096
# counters per CPU; moves without a counter are counted as lost.
MOVES_BUDGET_BYTES = 256 << 20


class Move(NamedTuple):
    """A move between CPUs; the keys of a row of placement.json's "moves".

    :param event: "fork", "exec", "wakeup" or "migration"
    :param cause: cause of a migration, see :data:`KINDS`; None for other events, or if unknown
    :param from_node: None for a CPU that came online later
    :param to_node: None for a CPU that came online later
    :param level: smallest level that both CPUs share: "CPU" for the same CPU, "NUMA" for two nodes
    :param from_type: type of the CPU core; None if all have one type, or for a CPU that came online
        later
    :param to_type: as ``from_type``, of the other CPU
    """

    event: str
    cause: str | None
    from_node: int | None
    to_node: int | None
    level: str
    from_type: str | None = None
    to_type: str | None = None

    def as_row(self) -> dict[str, object]:
        """Return the row as a dict, without core types if ``from_type`` is None."""
        row = self._asdict()
        if self.from_type is None:
            del row["from_type"], row["to_type"]
        return row


@dataclass(frozen=True)
class CpuCounts:
    """The counts of one CPU.

    :param latency_log2: waits of tasks for this CPU of 2^i <= ns < 2^(i+1), by i; bin 0 also has
        waits of 0 ns, and the last bin is open
    :param latency_sum_ns: sum of these waits
    :param latency_max_ns: longest of these waits
    :param depth: switches to tasks of the workload by depth of their task group; last bin open
    :param without_groups: switches to tasks of the workload in a kernel without task groups
    :param lost_moves: moves for which there was no counter
    :param lost_slots: waits that were lost because another task took the slot of the waiting task
    """

    latency_log2: tuple[int, ...]
    latency_sum_ns: int
    latency_max_ns: int
    depth: tuple[int, ...]
    without_groups: int
    lost_moves: int
    lost_slots: int


class Tracepoints:
    """The attached programs, which count nothing until :meth:`open_gate`.

    :param machine: the CPUs
    :ivar programs: "programs" of placement.json: mechanism, function and reason of each
    :raises Unavailable: libbpf or the compiled BPF object is missing, the kernel rejects all
        programs, or a map cannot be written or mapped
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        candidates = [
            Candidate(name, f"{name}_{suffix}", mechanism, name)
            for name in TRACEPOINTS
            for mechanism, suffix in MECHANISMS.items()
        ]
        loaded = load_what_works(read_object("placement"), "placement", candidates, self._prepare)
        self._object = loaded.object
        self.programs = loaded.programs
        machine.publish(self._object)
        self._counts = self._object.map("moves").mapped()

    def _prepare(self, loading: BpfObject) -> None:
        rows = moves_rows(len(self._machine.groups), self._machine.possible)
        self._machine.prepare(loading, rows)
        loading.resize("slots", self._machine.slots)
        loading.resize("cpus", self._machine.possible)
        loading.resize("moves", self._machine.possible * rows)

    def open_gate(self) -> None:
        """Start counting.

        :raises Unavailable: the kernel refuses
        """
        self._object.set_gate(is_open=True)

    def close_gate(self) -> None:
        """Stop counting.

        :raises Unavailable: the kernel refuses
        """
        self._object.set_gate(is_open=False)

    def close(self) -> None:
        """Detach the programs."""
        self._counts.close()
        self._object.close()

    def moves(self) -> Counter[Move]:
        """Return the number of each move so far, summed over CPUs."""
        counts = array("Q", self._counts[:])
        rows = moves_rows(len(self._machine.groups), self._machine.possible)
        sums = (sum(counts[row : rows * self._machine.possible : rows]) for row in range(rows))
        moves: Counter[Move] = Counter()
        for row, count in enumerate(sums):
            if count:
                moves[move_of(self._machine, row)] += count
        return moves

    def cpus(self) -> Iterator[tuple[int, CpuCounts]]:
        """Yield the number and the counts of each possible CPU.

        :raises Unavailable: the kernel refuses to read the map
        """
        table = self._object.map("cpus")
        for cpu in range(self._machine.possible):
            value = table.read(U32.pack(cpu))
            if value is not None:
                yield cpu, _parse_counts(value)

    def misses(self) -> dict[str, int]:
        """Return by program how often the kernel skipped it to avoid recursion, without zeros."""
        return self._object.misses()


def moves_rows(nodes: int, possible: int) -> int:
    """Return the number of move counters per CPU, in whole cache lines (at least one).

    They are as many as are needed, or as :data:`MOVES_BUDGET_BYTES` allows.

    :param nodes: number of groups of CPUs, see :attr:`Machine.groups`
    :param possible: number of possible CPUs
    """
    # The node of CPUs that come online later is unknown.
    node_count = nodes + 1
    needed = len(KINDS) * node_count * (LEVELS + node_count)
    affordable = MOVES_BUDGET_BYTES // (COUNT_BYTES * possible)
    lines = min(-(-needed // COUNTS_OF_A_LINE), affordable // COUNTS_OF_A_LINE)
    return max(lines, 1) * COUNTS_OF_A_LINE


def move_of(machine: Machine, row: int) -> Move:
    """Return the move that a counter counts; see count_move() of placement.bpf.c.

    :param row: index among the counters of one CPU
    """
    groups = len(machine.groups) + 1
    position, kind = divmod(row, len(KINDS))
    event, cause = KINDS[kind]
    if position < groups * LEVELS:
        index, level = divmod(position, LEVELS)
        group = machine.group_at(index)
        return _move(event, cause, group, group, (SAME_CPU, *machine.levels)[level])
    start, end = map(machine.group_at, divmod(position - groups * LEVELS, groups))
    level_name = NUMA
    if start is not None and end is not None and start.node == end.node:
        # CPUs of two types; the machine has no types if this is unknown.
        level_name = machine.level_between(start, end) or NUMA
    return _move(event, cause, start, end, level_name)


def _move(
    event: str, cause: str | None, start: CpuGroup | None, end: CpuGroup | None, level: str
) -> Move:
    nodes = [None if group is None else group.node for group in (start, end)]
    types = [None if group is None else group.core_type or None for group in (start, end)]
    return Move(event, cause, nodes[0], nodes[1], level, types[0], types[1])


def is_placed(move: Move) -> bool:
    """Return whether both nodes of a move are known."""
    return None not in (move.from_node, move.to_node)


def _parse_counts(value: bytes) -> CpuCounts:
    numbers = CPU_COUNTS.unpack(value)
    latency, rest = numbers[:LATENCY_BINS], numbers[LATENCY_BINS:]
    depth, tail = rest[2 : 2 + DEPTH_BINS], rest[2 + DEPTH_BINS :]
    return CpuCounts(latency, rest[0], rest[1], depth, *tail)
