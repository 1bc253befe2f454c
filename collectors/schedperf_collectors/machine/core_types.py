# SPDX-License-Identifier: GPL-2.0-or-later
"""Distinguish the types of CPU cores that the kernel reports.

Hybrid Intel CPUs have a PMU per type of core (``cpu_core``, ``cpu_atom``), other x86 CPUs a type in
debugfs, and arm64 has MIDR_EL1 and the capacity of each CPU::

    {"cpu_core": {"cpus": "0-15", "capacities": null, "threads_per_core": 2, "midr": null,
                  "pmu": "cpu_core"},
     "cpu_atom": {"cpus": "16-23", …}}

Each online CPU has one type. The types are in the order of their first CPUs. A value is null if the
kernel does not report it; ``capacities`` and ``midr`` are lists of distinct values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from schedperf_collectors.contract import (
    ARM_CORES,
    Unavailable,
    format_cpu_list,
    parse_cpu_list,
)
from schedperf_collectors.machine.cpu import CPUS, online_cpus
from schedperf_collectors.machine.system import Finders, System, attempt, or_none

# As in perf: a PMU of CPU cores has a file "cpus", others have "cpumask".
PMUS = "/sys/bus/event_source/devices"
# Since v6.13 ("x86/cpu: Add CPU type to struct cpuinfo_topology").
X86_CPUS = "/sys/kernel/debug/x86/topo/cpus"
# Names of the PMUs of hybrid CPUs in intel_pmu_init(); those of Arm are "armv8_cortex_a53" and
# similar.
X86_PMU = re.compile(r"cpu_\w+")
CPU_TYPE = re.compile(r"^cpu_type:\s*(\w+)$", re.MULTILINE)
UNKNOWN_TYPE = "unknown"
# The name if all CPUs are alike and the kernel has no name for them.
ONLY_TYPE = "CPU"
# A larger number indicates broken files.
MOST_TYPES = 32

Value = TypeVar("Value", int, str)


class _Core(NamedTuple):
    # The facts about one CPU.
    pmu: str | None
    cpu_type: str | None
    midr: int | None
    capacity: int | None

    @property
    def name(self) -> str:
        """Return the x86 PMU or CPU type, else the Arm core, else another PMU; "" if none."""
        if self.pmu is not None and X86_PMU.fullmatch(self.pmu):
            return self.pmu
        if self.cpu_type is not None:
            return self.cpu_type
        if self.midr is not None:
            return _name_arm_core(self.midr)
        return self.pmu or ""

    @property
    def key(self) -> tuple[str, int | None]:
        """Return a key that is equal for CPUs of one type: its name and capacity.

        The capacity is None if the CPU has a name and no MIDR: x86 types do not differ by capacity.
        """
        is_named_by_kernel = self.midr is None and self.name
        return self.name, None if is_named_by_kernel else self.capacity


def core_type_finders(system: System) -> Finders:
    """Return a function per value of the group ``topology``: types of cores, and SMT siblings."""
    return {
        "types": lambda: describe_types(system),
        "siblings": lambda: _siblings(system),
    }


def describe_types(system: System) -> dict[str, dict[str, object]]:
    """Return the properties of each type of CPU core, by name.

    If all CPUs are alike, there is one type, called :data:`ONLY_TYPE` if the kernel has no name.

    :raises Unavailable: the kernel reports nothing about types of cores, or more types than
        :data:`MOST_TYPES`, or does not list the online CPUs
    """
    cores = _cores(system)
    return {
        name: {
            "cpus": format_cpu_list(cpus),
            "capacities": _distinct(cores[cpu].capacity for cpu in cpus),
            "threads_per_core": _threads_per_core(system, cpus),
            "midr": _distinct(_hexadecimal(cores[cpu].midr) for cpu in cpus),
            "pmu": " + ".join(_distinct(cores[cpu].pmu for cpu in cpus) or ()) or None,
        }
        for name, cpus in _by_type(cores).items()
    }


def type_of_cpu(system: System) -> dict[int, str]:
    """Return the name of each online CPU's type; empty if there is only one type, or none known."""
    types = or_none(lambda: _by_type(_cores(system))) or {}
    return {cpu: name for name, cpus in types.items() for cpu in cpus} if len(types) > 1 else {}


def core_pmus(system: System) -> dict[str, list[int]]:
    """Return the online CPUs of each PMU of CPU cores, in the order of the first CPUs.

    The result is empty unless there are 2 to :data:`MOST_TYPES` such PMUs.

    >>> core_pmus(System())  # doctest: +SKIP
    {'cpu_core': [0, 1, 2, 3], 'cpu_atom': [4, 5]}
    """
    online = set(or_none(lambda: online_cpus(system)) or ())
    pmus: dict[str, list[int]] = {}
    for folder in or_none(lambda: system.names(PMUS, r"[\w-]+")) or ():
        listed, _ = attempt(_cpu_list, system, f"{folder}/cpus")
        cpus = sorted(online.intersection(listed or ()))
        if cpus:
            pmus[folder.rpartition("/")[2]] = cpus
    in_order = dict(sorted(pmus.items(), key=lambda item: item[1][0]))
    return in_order if 1 < len(pmus) <= MOST_TYPES else {}


def _cores(system: System) -> Mapping[int, _Core]:
    pmu_of_cpu = {cpu: pmu for pmu, cpus in core_pmus(system).items() for cpu in cpus}
    cores = {
        cpu: _Core(
            pmu=pmu_of_cpu.get(cpu),
            cpu_type=attempt(_cpu_type, system, cpu)[0],
            midr=attempt(_midr, system, cpu)[0],
            capacity=attempt(system.integer, f"{CPUS}/cpu{cpu}/cpu_capacity")[0],
        )
        for cpu in online_cpus(system)
    }
    if not any(any(value is not None for value in core) for core in cores.values()):
        raise Unavailable(
            f"no types of cores ({PMUS} has one PMU for all CPUs; no cpu_capacity, MIDR_EL1 or "
            f"{X86_CPUS})"
        )
    return cores


def _by_type(cores: Mapping[int, _Core]) -> dict[str, list[int]]:
    by_key: dict[tuple[str, int | None], list[int]] = {}
    for cpu, core in sorted(cores.items()):
        by_key.setdefault(core.key, []).append(cpu)
    if len(by_key) > MOST_TYPES:
        raise Unavailable(f"{len(by_key)} types of cores (expected at most {MOST_TYPES})")
    if len(by_key) == 1:
        return {name or ONLY_TYPE: cpus for (name, _), cpus in by_key.items()}
    names = [name for name, _ in by_key]
    types: dict[str, list[int]] = {}
    for (name, capacity), cpus in by_key.items():
        of_capacity = "unknown capacity" if capacity is None else f"capacity {capacity}"
        is_enough = name and names.count(name) == 1
        types[name if is_enough else f"{name} {of_capacity}".strip()] = cpus
    return types


def _name_arm_core(midr: int) -> str:
    # Arm Architecture Reference Manual, MIDR_EL1: implementer in bits 31 to 24, part in 15 to 4.
    implementer, part = midr >> 24 & 0xFF, midr >> 4 & 0xFFF
    return ARM_CORES.get((implementer, part), f"0x{implementer:02x}-0x{part:03x}")


def _midr(system: System, cpu: int) -> int:
    name = f"{CPUS}/cpu{cpu}/regs/identification/midr_el1"
    text = system.text(name)
    if not re.fullmatch(r"0x[0-9a-f]{1,16}", text):
        raise Unavailable(f"{name}: not a number: {text[:40]!r}")
    return int(text, 16)


def _cpu_type(system: System, cpu: int) -> str:
    match = CPU_TYPE.search(system.text(f"{X86_CPUS}/{cpu}"))
    if not match or match[1] == UNKNOWN_TYPE:
        raise Unavailable(f"{X86_CPUS}/{cpu}: no cpu_type")
    return match[1]


def _hexadecimal(number: int | None) -> str | None:
    return None if number is None else f"{number:#x}"


def _distinct(values: Iterable[Value | None]) -> list[Value] | None:
    return sorted({value for value in values if value is not None}) or None


def _cpu_list(system: System, name: str) -> list[int]:
    return parse_cpu_list(system.text(name))


def _sibling_list(system: System, cpu: int) -> list[int]:
    return _cpu_list(system, f"{CPUS}/cpu{cpu}/topology/thread_siblings_list")


def _threads_per_core(system: System, cpus: list[int]) -> int | None:
    threads = [attempt(_sibling_list, system, cpu)[0] for cpu in cpus]
    return max(map(len, filter(None, threads)), default=None)


def _siblings(system: System) -> list[str]:
    """Return the CPUs of each core with several hardware threads, as CPU lists: ``0-1``."""
    cores = {tuple(_sibling_list(system, cpu)) for cpu in online_cpus(system)}
    return [format_cpu_list(cpus) for cpus in sorted(cores) if len(cpus) > 1]
