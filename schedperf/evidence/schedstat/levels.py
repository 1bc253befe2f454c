# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the level of the topology that a scheduling domain is: by its name, else by its CPUs.

/proc/schedstat of versions 15 and 16 numbers the domains. ``domain0`` is the pair of hardware
threads on one machine and the last-level cache on the next, so a number names nothing. debugfs has
a folder for each domain, counted as show_schedstat() counts them, with a file ``name``: a boot's
copy of it names the levels exactly. What host.json knows of the CPUs names only those domains whose
CPUs are those of a cache or a node; so do the same CPUs on a side that has names.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedperf.bundle.open import Boot, Bundle
from schedperf.evidence.schedstat.capture import Domain
from schedperf.kernel.sched_debug import read_sched_debug
from schedperf.model.host import Cpu, Topology
from schedperf_collectors.contract import Unavailable, parse_cpu_list

# Levels of the kernel in the order in which one that has the CPUs of another is kept: a cluster
# that is all of the cache is left out, a package (in truth the CPUs of one NUMA node, as
# cpu_cpu_mask() has it) likewise.
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
# By CPU, the smallest domain first.
Names = Mapping[int, Sequence[str]]
# By level.
Flags = Mapping[str, tuple[str, ...]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """One level of a run.

    :param label: "MC"; "domain0" where nothing names it
    :param is_named: does a name of the kernel or of the topology stand behind it?
    :param rows: places of its domains in the change
    :param spans: (CPU, its domain's CPUs as a mask); None where the source does not say
    """

    label: str
    is_named: bool
    rows: tuple[int, ...]
    spans: Signature | None

    @property
    def widest(self) -> int | None:
        """How many CPUs its largest domain has."""
        if self.spans is None:
            return None
        return max((span.bit_count() for _, span in self.spans), default=None)


class CpuGroups:
    """Which CPUs share what, each group of them as a mask."""

    def __init__(self, topology: Topology) -> None:
        self._masks: dict[tuple[object, ...], int] = {}
        self._cpus = {one.cpu: one for one in topology.cpus}
        for cpu in self._cpus.values():
            for _, keys in LEVELS:
                group = _group(cpu, keys)
                if None not in group:
                    self._masks[group] = self._masks.get(group, 0) | 1 << cpu.cpu

    def name(self, domain: Domain) -> str | None:
        """Return the level of a domain; None where the topology does not tell."""
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
    """Group the domains of a run by level; a CPU's second level of one name is ``NUMA2``.

    A domain with neither a name nor CPUs has a place alone, which says nothing: it is left out.
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
            rows=tuple(places),
            spans=_signature([domains[place] for place in places]),
        )
        for (label, is_named), places in rows.items()
    )


def _signature(domains: Sequence[Domain]) -> Signature | None:
    if any(domain.span is None for domain in domains):
        return None
    return frozenset((domain.cpu, domain.span or 0) for domain in domains)


def match_levels(runs: Sequence[Sequence[Level]]) -> dict[tuple[str, Signature | None], str]:
    """Return the label of each level that nothing names, over the runs of all sides.

    One that has the CPUs of a named level gets its name. Where the CPUs are those of nothing
    else they become part of the label, so that it meets no other side's.
    """
    named = {
        level.spans: level.label
        for levels in runs
        for level in levels
        if level.is_named and level.spans is not None
    }
    found: dict[tuple[str, Signature | None], str] = {}
    numbers: dict[str, int] = {}
    for levels in runs:
        for level in levels:
            key = (level.label, level.spans)
            if level.is_named or key in found:
                continue
            if level.spans in named:
                found[key] = named[level.spans]
                continue
            numbers[level.label] = numbers.get(level.label, 0) + 1
            other = f" ({numbers[level.label]})" if numbers[level.label] > 1 else ""
            found[key] = f"{level.label}{other}"
    return found


def read_domain_names(bundle: Bundle, boot: Boot) -> Names:
    """Return the names of each CPU's domains; {} where the boot has no copy of debugfs.

    :raises InputError: the copy is damaged
    """
    debug = read_sched_debug(bundle, boot)
    if debug is None:
        return {}
    found: dict[int, Sequence[str]] = {}
    for kind in debug.per_cpu.get("domains", ()):
        names = _names_of(kind.settings)
        found |= dict.fromkeys(_cpus_of(kind.cpus), names)
    return found


def read_domain_flags(bundle: Bundle, boot: Boot) -> Flags:
    """Return the flags of each level's domains, all that any of them has: ``SD_SHARE_LLC``.

    :return: {} where the boot has no copy of debugfs
    :raises InputError: the copy is damaged
    """
    debug = read_sched_debug(bundle, boot)
    found: dict[str, dict[str, None]] = {}
    for kind in () if debug is None else debug.per_cpu.get("domains", ()):
        for number, name in enumerate(_names_of(kind.settings)):
            flags = kind.settings.get(f"domain{number}/flags", "").split()
            found.setdefault(FORMER_NAMES.get(name, name), {}).update(dict.fromkeys(flags))
    return {level: tuple(flags) for level, flags in found.items() if flags}


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
    """Return the domains with the names that they lack.

    A CPU with another number of domains than at the start of the boot has other domains now:
    a CPU came or went, or a cpuset changed. Its domains are left without names.
    """
    counts = Counter(domain.cpu for domain in domains)
    known = {cpu: found for cpu, found in names.items() if len(found) == counts[cpu]}
    return tuple(
        replace(domain, name=known[domain.cpu][domain.number])
        if domain.name is None and domain.number < len(known.get(domain.cpu, ()))
        else domain
        for domain in domains
    )
