# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the node of each CPU and the levels that CPUs share, for the bpf_placement programs.

The levels are the kernel's scheduling domains. debugfs names them for each CPU, and
/proc/schedstat has their CPUs::

    /sys/kernel/debug/sched/domains/cpu0/domain0/name    MC
    cpu0 0 0 0 0 0 0 1206 0 0
    domain0 00000003 0 0 0 …           before version 17 of schedstat
    domain0 MC 00000003 0 0 0 …        since version 17

If the kernel does not report them, the ids in /sys determine which CPUs share a core, a cluster or
a cache.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Callable, NamedTuple, Optional

from schedperf_collectors.bpf.libbpf import BpfObject
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.core_types import type_of_cpu
from schedperf_collectors.machine.cpu import CPUS, online_cpus, possible_cpus, topology_finders
from schedperf_collectors.machine.kernel import DEBUG_SCHED, SYSCTL
from schedperf_collectors.machine.system import System, attempt

_SCHEDSTAT = "/proc/schedstat"
# "sched: Move SCHED_DEBUG sysctl to debugfs" (v5.13).
_NAME_FOLDERS = (f"{DEBUG_SCHED}/domains", f"{SYSCTL}/sched_domain")
# 512 CPUs with five domains each have 1.5 MB.
_SCHEDSTAT_LIMIT_BYTES = 64 << 20
# The levels that a kernel knows of, and the node, are four to six; SHARED_LEVELS of placement.h.
MOST_LEVELS = 7
# CPUs of one node that share nothing else; the kernel's name since v6.6 (before: DIE).
_WHOLE_NODE = "PKG"

_CPU = re.compile(r"cpu([0-9]{1,5}) ", re.ASCII)
# Names are in upper case, masks in lower case.
_DOMAIN = re.compile(
    r"domain([0-9]{1,2}) (?:([A-Z][A-Z0-9_-]{0,14}) )?([0-9a-f]+(?:,[0-9a-f]+)*) ", re.ASCII
)
# The levels for CPUs of two nodes, and for a CPU with itself.
NUMA, SAME_CPU = "NUMA", "CPU"
# struct place: node, ids of levels.
PLACE = struct.Struct(f"={1 + MOST_LEVELS}H")
# struct settings: recorder, slot_mask, nodes, rows.
SETTINGS = struct.Struct("=4I")
U32 = struct.Struct("=I")

# Direct-mapped slots for tasks, 64 bytes each: 4 MiB on small machines, at most 64 MiB.
LEAST_SLOTS, MOST_SLOTS = 1 << 16, 1 << 20
SLOTS_PER_CPU = 512


class CpuGroup(NamedTuple):
    """CPUs of one node and one type of core.

    :param core_type: "" if all CPUs have one type
    """

    node: int
    core_type: str

    def as_row(self) -> dict[str, object]:
        """Return the group's keys in placement.json, without the type if all CPUs have one type."""
        of_type = {"core_type": self.core_type} if self.core_type else {}
        return {"node": self.node, **of_type}


@dataclass(frozen=True)
class Place:
    """The node and levels of one CPU.

    :param shares: an id for each level of the machine, equal for CPUs that share it
    :param core_type: "" if all CPUs have one type
    """

    node: int
    shares: tuple[int, ...]
    core_type: str = ""

    @property
    def group(self) -> CpuGroup:
        """Return the group of CPUs whose moves are counted together."""
        return CpuGroup(self.node, self.core_type)


@dataclass(frozen=True)
class Machine:
    """The CPUs of this machine.

    :param places: node and levels of each CPU that was online
    :param possible: number of possible CPUs
    :param recorder: process id of the recorder in the initial pid namespace; 0 if unknown
    :param levels: levels that CPUs of one node may share, smallest first; the last is the node
    :param levels_from: "domains" (of the kernel's scheduler) or "topology" (of the hardware)
    """

    places: dict[int, Place]
    possible: int
    recorder: int
    levels: tuple[str, ...]
    levels_from: str

    @property
    def nodes(self) -> dict[int, int]:
        """Return the node of each CPU that was online."""
        return {cpu: location.node for cpu, location in self.places.items()}

    @property
    def types(self) -> dict[int, str]:
        """Return the type of core of each CPU; empty if all CPUs have one type."""
        types = {cpu: location.core_type for cpu, location in self.places.items()}
        return types if any(types.values()) else {}

    @property
    def groups(self) -> list[CpuGroup]:
        """Return the groups that have CPUs; BPF programs use the index of a group as its node."""
        return sorted({location.group for location in self.places.values()})

    def group_at(self, index: int) -> CpuGroup | None:
        """Return a group by its index; None for CPUs that came online later."""
        groups = self.groups
        return groups[index] if index < len(groups) else None

    def node_at(self, index: int) -> int | None:
        """Return the node of a group by its index; None for CPUs that came online later."""
        group = self.group_at(index)
        return None if group is None else group.node

    def level_between(self, first: CpuGroup, second: CpuGroup) -> str | None:
        """Return the smallest level that CPUs of two groups of one node share.

        The result is None if it depends on the CPUs.
        """
        for index, level in enumerate(self.levels):
            ids = [
                {
                    location.shares[index]
                    for location in self.places.values()
                    if location.group == group
                }
                for group in (first, second)
            ]
            if ids[0] & ids[1]:
                return level if len(ids[0] | ids[1]) == 1 else None
        return None

    @property
    def slots(self) -> int:
        """Return the number of slots of the table of tasks, a power of two."""
        needed = 1 << (self.possible * SLOTS_PER_CPU - 1).bit_length()
        return min(max(needed, LEAST_SLOTS), MOST_SLOTS)

    def level_of(self, first: Place, second: Place) -> str:
        """Return the smallest level that two CPUs share, as the BPF programs do.

        It is :data:`SAME_CPU` for one CPU (the same object), and :data:`NUMA` for two nodes.
        """
        if first is second:
            return SAME_CPU
        if first.node != second.node:
            return NUMA
        pairs = zip(self.levels, first.shares, second.shares)
        return next(level for level, mine, its in pairs if mine == its)

    def prepare(self, loading: BpfObject, rows: int = 0) -> None:
        """Set the sizes and constants that all objects have, before loading.

        :param rows: number of move counters of each CPU; 0 for objects without them
        :raises Unavailable: the object is not one of schedperf's
        """
        loading.resize("places", self.possible)
        nodes = len(self.groups) + 1
        loading.set_constants(SETTINGS.pack(self.recorder, self.slots - 1, nodes, rows))

    def publish(self, loaded: BpfObject) -> None:
        """Write the groups and levels of the CPUs to a map of a loaded object.

        :raises Unavailable: the kernel refuses
        """
        places = loaded.map("places")
        groups = {group: index for index, group in enumerate(self.groups)}
        unknown = PLACE.pack(len(groups), *[0] * MOST_LEVELS)
        packed = {
            cpu: PLACE.pack(groups[location.group], *_padded(location.shares))
            for cpu, location in self.places.items()
        }
        for cpu in range(self.possible):
            places.write(U32.pack(cpu), packed.get(cpu, unknown))


def _padded(shares: tuple[int, ...]) -> list[int]:
    """Return ids for the :data:`MOST_LEVELS` levels of the BPF programs.

    Unused levels have the id of the node.
    """
    return [*shares, *[shares[-1]] * (MOST_LEVELS - len(shares))]


def read_machine(system: System, recorder: int = 0) -> Machine:
    """Return the CPUs of a machine.

    :param recorder: process id of the recorder in the initial pid namespace; 0 if unknown
    :raises Unavailable: /sys does not list the CPUs
    """
    finders = topology_finders(system)
    rows = finders["cpus"]()
    assert isinstance(rows, list)
    possible, _ = attempt(possible_cpus, system)
    last = max(possible or online_cpus(system), default=-1)
    if not rows or last < 0:
        raise Unavailable(f"{CPUS}: no cpus")
    levels = read_levels(system, rows)
    places = {row["cpu"]: Place(row["node"] or 0, levels.shares[row["cpu"]]) for row in rows}
    machine = Machine(places, last + 1, recorder, levels.names, levels.source)
    return _with_types(machine, type_of_cpu(system))


def _with_types(machine: Machine, types: Mapping[int, str]) -> Machine:
    """Return the machine with the type of each core, if moves between types have one level.

    The programs count a move between two groups without its level. CPUs of two types share
    neither a core nor a cluster, so it is the same for all of them on known machines.
    """
    places = {
        cpu: replace(location, core_type=types.get(cpu, ""))
        for cpu, location in machine.places.items()
    }
    typed = replace(machine, places=places)
    pairs = combinations(typed.groups, 2)
    same_node = (pair for pair in pairs if pair[0].node == pair[1].node)
    is_known = all(typed.level_between(*pair) is not None for pair in same_node)
    return typed if is_known else machine


@dataclass(frozen=True)
class Levels:
    """The levels that CPUs share within their nodes.

    :param names: names of the levels, smallest first; the last is the node
    :param source: "domains" or "topology"
    :param shares: for each CPU, an id for each level, equal for CPUs that share the level
    """

    names: tuple[str, ...]
    source: str
    shares: Mapping[int, tuple[int, ...]]


class _Domain(NamedTuple):
    """One scheduling domain of one CPU.

    :param span: bit mask of the domain's CPUs
    """

    name: str
    span: int


# The position of a CPU in the topology; see topology_finders().
_Row = Mapping[str, Optional[int]]
_Rows = Sequence[_Row]


def read_levels(system: System, rows: _Rows) -> Levels:
    """Return the levels of a machine: its scheduling domains, else those of its topology.

    :param rows: topology of each CPU, as in host.json
    """
    domains, _ = attempt(_read_domains, system)
    if domains:
        names = _order_names(domains)
        spans = {cpu: {each.name: each.span for each in reversed(domains[cpu])} for cpu in domains}
        if len(names) < MOST_LEVELS:
            return _levels("domains", names, rows, lambda row: spans.get(row["cpu"] or 0, {}))
    return _levels("topology", ("SMT", "CLS", "MC"), rows, _topology)


def _read_domains(system: System) -> dict[int, list[_Domain]]:
    """Return the domains of each CPU, the smallest first; CPUs without domains are omitted.

    :raises Unavailable: the kernel does not report all domains, or they changed meanwhile
    """
    domains: dict[int, list[_Domain]] = {}
    for cpu, number, name, span in _spans(system):
        of_cpu = domains.setdefault(cpu, [])
        if number != len(of_cpu):
            raise Unavailable(
                f"{_SCHEDSTAT}: unexpected domain{number} of cpu{cpu} "
                f"(expected domain{len(of_cpu)})"
            )
        of_cpu.append(_Domain(name or _name(system, cpu, number), span))
    return domains


def _spans(system: System) -> Iterator[tuple[int, int, str | None, int]]:
    cpu = None
    text = system.bytes(_SCHEDSTAT, _SCHEDSTAT_LIMIT_BYTES).decode("ascii", "replace")
    for line in text.splitlines():
        head = _CPU.match(line)
        domain = _DOMAIN.match(line)
        if head:
            cpu = int(head[1])
        elif domain and cpu is not None:
            yield cpu, int(domain[1]), domain[2], int(domain[3].replace(",", ""), 16)
        elif line.startswith("domain"):
            raise Unavailable(
                f"{_SCHEDSTAT}: invalid domain line {line[:40]!r} (expected e.g. 'domain0 MC 0f')"
            )


def _name(system: System, cpu: int, number: int) -> str:
    return system.first_text(
        *(f"{folder}/cpu{cpu}/domain{number}/name" for folder in _NAME_FOLDERS)
    )


def _order_names(domains: Mapping[int, Sequence[_Domain]]) -> tuple[str, ...]:
    """Return the names of all levels within a node, the smallest first.

    Some CPUs lack a level, because the kernel removes redundant ones. A level is sorted by the
    highest index that it has on any CPU, and levels with the same index by size.
    """
    places: dict[str, tuple[int, int]] = {}
    for of_cpu in domains.values():
        for index, (name, span) in enumerate(of_cpu):
            size = bin(span).count("1")
            places[name] = max(places.get(name, (0, 0)), (index, size))
    return tuple(sorted((name for name in places if name != NUMA), key=lambda name: places[name]))


def _levels(
    source: str, names: Sequence[str], rows: _Rows, shared: Callable[[_Row], Mapping[str, object]]
) -> Levels:
    # Each level has its own ids from 0, so that they fit into 16 bits.
    ids: list[dict[object, int]] = [{} for _ in (*names, _WHOLE_NODE)]
    shares = {}
    for row in rows:
        cpu = row["cpu"]
        assert cpu is not None
        keys = shared(row)
        # A CPU without this level does not share it.
        of_levels = [*(keys.get(name, f"cpu {cpu}") for name in names), row["node"]]
        shares[cpu] = tuple(
            numbering.setdefault(key, len(numbering)) for numbering, key in zip(ids, of_levels)
        )
    return Levels((*names, _WHOLE_NODE), source, shares)


def _topology(row: _Row) -> dict[str, object]:
    """Return a key for each level of a CPU, equal for CPUs that share the level.

    Keys of cores and clusters contain the socket, because their numbers are unique per socket only.
    """
    cpu, socket = row["cpu"], row["socket"]
    # A CPU without a reported core, cluster or cache shares none, except that the kernel treats
    # the socket as the cache if no cache is reported (many virtual machines).
    core = ("core", cpu) if row["core"] is None else ("core", socket, row["core"])
    cluster = core if row["cluster"] is None else ("cluster", socket, row["cluster"])
    llc = cluster if socket is None else ("socket", socket)
    llc = llc if row["llc"] is None else ("llc", row["llc"])
    return {"SMT": core, "CLS": cluster, "MC": llc}
