# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the topology level of a scheduling domain, by its name or by its CPUs.

/proc/schedstat of versions 15 and 16 numbers the domains. ``domain0`` is SMT on one machine and the
last-level cache on another, so the number does not identify the level. debugfs has a directory for
each domain, in the order of show_schedstat(), with a file ``name``: a boot's copy of it names the
levels exactly. Without it, a domain is named if its CPUs are those of a cache or a node in
host.json, or those of a named level on another side.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.schedstat.capture import Domain
from schedperf.model.host import Cpu, Topology
from schedperf.runs.sched_debug import SchedDebug
from schedperf_collectors.contract import Unavailable, parse_cpu_list

# Levels of the kernel in order of precedence: if several levels have the same CPUs, the first is
# kept, e.g. a cluster that is the whole cache is left out. A package is the CPUs of one NUMA node,
# as in cpu_cpu_mask().
LEVELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("SMT", ("socket", "core")),
    ("MC", ("llc",)),
    ("CLS", ("socket", "cluster")),
    ("PKG", ("node",)),
)
BEYOND_NODE = "NUMA"
# The package level's name until Linux 6.6.
FORMER_NAMES = {"DIE": "PKG"}

Signature = frozenset[tuple[int, int]]
# Names by CPU, smallest domain first.
Names = Mapping[int, Sequence[str]]
# Flags by level.
Flags = Mapping[str, tuple[str, ...]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)


class Level(Struct, frozen=True, kw_only=True):
    """One level of the scheduling domains in a run.

    :param label: "MC"; "domain0" for an unnamed level
    :param is_named: True if the label is a name of the kernel or of the topology
    :param rows: indices of its domains in the change
    :param spans: (CPU, mask of its domain's CPUs); None if not recorded
    """

    label: str
    is_named: bool
    rows: tuple[int, ...]
    spans: Signature | None

    @property
    def widest(self) -> int | None:
        """Number of CPUs of its largest domain; None if its CPUs are not recorded."""
        if self.spans is None:
            return None
        return max((span.bit_count() for _, span in self.spans), default=None)


class CpuGroups:
    """Masks of the CPUs that share a core, a cache, a cluster or a node."""

    def __init__(self, topology: Topology) -> None:
        self._masks: dict[tuple[object, ...], int] = {}
        self._cpus = {info.cpu: info for info in topology.cpus}
        for cpu in self._cpus.values():
            for _, keys in LEVELS:
                group = _group(cpu, keys)
                if None not in group:
                    self._masks[group] = self._masks.get(group, 0) | 1 << cpu.cpu

    def name(self, domain: Domain) -> str | None:
        """Return the level of a domain: one of ``LEVELS``, or "NUMA" if it contains a whole node.

        None if the topology has no such group of CPUs, or the domain's CPUs are not recorded.
        """
        cpu = self._cpus.get(domain.cpu)
        if cpu is None or domain.span is None:
            return None
        masks = {name: self._masks.get(_group(cpu, keys)) for name, keys in LEVELS}
        for name, mask in masks.items():
            if mask == domain.span:
                return name
        node = masks["PKG"]
        is_larger = node is not None and node & domain.span == node
        return BEYOND_NODE if is_larger else None


def _group(cpu: Cpu, keys: tuple[str, ...]) -> tuple[object, ...]:
    return (keys, *(getattr(cpu, key) for key in keys))


def levels_of(domains: Sequence[Domain], groups: CpuGroups) -> tuple[Level, ...]:
    """Group the domains of a run by level; a CPU's second level with the same name is ``NUMA2``.

    A domain without a name and a CPU mask is left out: its number does not identify a level.
    """
    rows: dict[tuple[str, bool], list[int]] = {}
    seen: dict[tuple[int, str], int] = {}
    for row, domain in enumerate(domains):
        name = domain.name or groups.name(domain)
        if name is None and domain.span is None:
            continue
        label = f"domain{domain.number}" if name is None else FORMER_NAMES.get(name, name)
        count = seen[domain.cpu, label] = seen.get((domain.cpu, label), 0) + 1
        if count > 1:
            label = f"{label}{count}"
        rows.setdefault((label, name is not None), []).append(row)
    return tuple(
        Level(
            label=label,
            is_named=is_named,
            rows=tuple(indices),
            spans=_signature([domains[index] for index in indices]),
        )
        for (label, is_named), indices in rows.items()
    )


def _signature(domains: Sequence[Domain]) -> Signature | None:
    if any(domain.span is None for domain in domains):
        return None
    return frozenset((domain.cpu, domain.span or 0) for domain in domains)


def match_levels(runs: Sequence[Sequence[Level]]) -> dict[tuple[str, Signature | None], str]:
    """Return the common label of each unnamed level of all runs, by its own label and its spans.

    A level with the CPUs of a named level gets that name. Other levels get a label that is unique
    for their CPUs, so that they are not compared with another level.
    """
    named = {
        level.spans: level.label
        for levels in runs
        for level in levels
        if level.is_named and level.spans is not None
    }
    labels: dict[tuple[str, Signature | None], str] = {}
    numbers: dict[str, int] = {}
    for levels in runs:
        for level in levels:
            key = (level.label, level.spans)
            if level.is_named or key in labels:
                continue
            if level.spans in named:
                labels[key] = named[level.spans]
                continue
            numbers[level.label] = numbers.get(level.label, 0) + 1
            suffix = f" ({numbers[level.label]})" if numbers[level.label] > 1 else ""
            labels[key] = f"{level.label}{suffix}"
    return labels


def domain_names(debug: SchedDebug) -> Names:
    """Return the names of each CPU's domains, by CPU, smallest domain first."""
    names: dict[int, Sequence[str]] = {}
    for kind in debug.per_cpu.get("domains", ()):
        names |= dict.fromkeys(_cpus_of(kind.cpus), _names_of(kind.settings))
    return names


def domain_flags(debug: SchedDebug) -> Flags:
    """Return the flags that any domain of a level has, by level: ``SD_SHARE_LLC``."""
    by_level: dict[str, dict[str, None]] = {}
    for kind in debug.per_cpu.get("domains", ()):
        for number, name in enumerate(_names_of(kind.settings)):
            flags = kind.settings.get(f"domain{number}/flags", "").split()
            by_level.setdefault(FORMER_NAMES.get(name, name), {}).update(dict.fromkeys(flags))
    return {level: tuple(flags) for level, flags in by_level.items() if flags}


def _cpus_of(text: str) -> Sequence[int]:
    try:
        return parse_cpu_list(text)
    except Unavailable:
        return ()


def _names_of(settings: Mapping[str, str]) -> Sequence[str]:
    names: list[str] = []
    while _NAME.fullmatch(name := settings.get(f"domain{len(names)}/name", "")):
        names.append(name)
    return names


def name_domains(domains: Sequence[Domain], names: Names) -> tuple[Domain, ...]:
    """Return the domains with missing names filled in.

    If the number of a CPU's domains changed since boot (a CPU went online or offline, or a cpuset
    changed), its domains are left without names.
    """
    counts = Counter(domain.cpu for domain in domains)
    usable = {cpu: cpu_names for cpu, cpu_names in names.items() if len(cpu_names) == counts[cpu]}
    return tuple(
        replace(domain, name=usable[domain.cpu][domain.number])
        if domain.name is None and domain.number < len(usable.get(domain.cpu, ()))
        else domain
        for domain in domains
    )
