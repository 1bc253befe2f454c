"""The levels at which CPUs of one node belong together, for the bpf_placement collector.

The kernel's own scheduling domains are what counts. debugfs names them for each CPU, and
/proc/schedstat has their CPUs::

    /sys/kernel/debug/sched/domains/cpu0/domain0/name    MC
    cpu0 0 0 0 0 0 0 1206 0 0
    domain0 00000003 0 0 0 …           before version 17
    domain0 MC 00000003 0 0 0 …        since

Where they cannot be known the ids of /sys tell who shares a core, a cluster, a cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, NamedTuple, Optional

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel import DEBUG_SCHED, SYSCTL
from schedperf_collectors.machine.system import System, attempt

SCHEDSTAT = "/proc/schedstat"
# "sched: Move SCHED_DEBUG sysctl to debugfs" (v5.13).
NAME_FOLDERS = (f"{DEBUG_SCHED}/domains", f"{SYSCTL}/sched_domain")
# 512 CPUs with five domains each have 1.5 MB.
SCHEDSTAT_LIMIT_BYTES = 64 << 20
# The levels that a kernel knows of, and the node, are four to six; SHARED_LEVELS of placement.h.
MOST_LEVELS = 7
# What the kernel calls the domains of several nodes.
NUMA = "NUMA"
# CPUs of one node that share nothing else; the kernel's name since v6.6, before it was DIE.
WHOLE_NODE = "PKG"

_CPU = re.compile(r"cpu([0-9]{1,5}) ", re.ASCII)
# Names are in capitals, masks in small letters.
_DOMAIN = re.compile(
    r"domain([0-9]{1,2}) (?:([A-Z][A-Z0-9_-]{0,14}) )?([0-9a-f]+(?:,[0-9a-f]+)*) ", re.ASCII
)


@dataclass(frozen=True)
class Levels:
    """What CPUs share within their nodes.

    :param names: of the levels, the smallest first; the last is the node
    :param source: "domains" or "topology"
    :param shares: of each CPU an id for each level, equal for CPUs that share it
    """

    names: tuple[str, ...]
    source: str
    shares: Mapping[int, tuple[int, ...]]


class Domain(NamedTuple):
    """One scheduling domain of one CPU."""

    name: str
    span: int


# Where a CPU is; see topology_finders().
Row = Mapping[str, Optional[int]]
Rows = Sequence[Row]


def read_levels(system: System, rows: Rows) -> Levels:
    """Return the levels of a machine.

    :param rows: where each CPU is, as host.json has it
    """
    domains, _ = attempt(read_domains, system)
    if domains:
        names = order_names(domains)
        found = {cpu: {each.name: each.span for each in reversed(domains[cpu])} for cpu in domains}
        if len(names) < MOST_LEVELS:
            return _levels("domains", names, rows, lambda row: found.get(row["cpu"] or 0, {}))
    return _levels("topology", ("SMT", "CLS", "MC"), rows, _topology)


def read_domains(system: System) -> dict[int, list[Domain]]:
    """Return the domains of each CPU, the smallest first; a CPU without any is left out.

    :raises Unavailable: the kernel does not tell all of them, or tells it while they change
    """
    domains: dict[int, list[Domain]] = {}
    for cpu, number, name, span in _spans(system):
        of_cpu = domains.setdefault(cpu, [])
        if number != len(of_cpu):
            raise Unavailable(f"{SCHEDSTAT}: domain{number} of cpu{cpu} after {len(of_cpu)}")
        of_cpu.append(Domain(name or _name(system, cpu, number), span))
    return domains


def _spans(system: System) -> Iterator[tuple[int, int, str | None, int]]:
    cpu = None
    text = system.bytes(SCHEDSTAT, SCHEDSTAT_LIMIT_BYTES).decode("ascii", "replace")
    for line in text.splitlines():
        head = _CPU.match(line)
        domain = _DOMAIN.match(line)
        if head:
            cpu = int(head[1])
        elif domain and cpu is not None:
            yield cpu, int(domain[1]), domain[2], int(domain[3].replace(",", ""), 16)
        elif line.startswith("domain"):
            raise Unavailable(f"{SCHEDSTAT}: no domain: {line[:40]!r}")


def _name(system: System, cpu: int, number: int) -> str:
    return system.first_text(*(f"{folder}/cpu{cpu}/domain{number}/name" for folder in NAME_FOLDERS))


def order_names(domains: Mapping[int, Sequence[Domain]]) -> tuple[str, ...]:
    """Return the names of all levels but those of several nodes, the smallest first.

    Not each CPU has each level, since the kernel removes those that add nothing: the place of a
    level is the highest that any CPU has it at, and of two at one place the smaller comes first.
    """
    places: dict[str, tuple[int, int]] = {}
    for of_cpu in domains.values():
        for place, (name, span) in enumerate(of_cpu):
            size = bin(span).count("1")
            places[name] = max(places.get(name, (0, 0)), (place, size))
    return tuple(sorted((name for name in places if name != NUMA), key=lambda name: places[name]))


def _levels(
    source: str, names: Sequence[str], rows: Rows, shared: Callable[[Row], Mapping[str, object]]
) -> Levels:
    # Ids begin anew at each level, so that they fit into 16 bits.
    ids: list[dict[object, int]] = [{} for _ in (*names, WHOLE_NODE)]
    shares = {}
    for row in rows:
        cpu = row["cpu"]
        assert cpu is not None
        keys = shared(row)
        # Who has no such level shares it with nobody.
        of_levels = [*(keys.get(name, f"cpu {cpu}") for name in names), row["node"]]
        shares[cpu] = tuple(known.setdefault(key, len(known)) for known, key in zip(ids, of_levels))
    return Levels((*names, WHOLE_NODE), source, shares)


def _topology(row: Row) -> dict[str, object]:
    """Return what a CPU shares; numbers of cores and clusters are unique in their socket only."""
    cpu, socket = row["cpu"], row["socket"]
    # A CPU that does not say which core, cluster or cache it has shares none; but the kernel
    # takes the socket for the cache where it is told of none (many virtual machines).
    core = ("core", cpu) if row["core"] is None else ("core", socket, row["core"])
    cluster = core if row["cluster"] is None else ("cluster", socket, row["cluster"])
    llc = cluster if socket is None else ("socket", socket)
    llc = llc if row["llc"] is None else ("llc", row["llc"])
    return {"SMT": core, "CLS": cluster, "MC": llc}
