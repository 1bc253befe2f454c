# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the groups cpu, topology, cpufreq and cpuidle of host.json.

Each function named ``…_finders`` returns a finder for each value of its group: a function that
returns the value, or raises :class:`Unavailable` with the reason why the value is null.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from schedperf_collectors.contract import Unavailable, parse_cpu_list
from schedperf_collectors.machine.system import Finders, System, getconf, or_none, to_integer

CPUS = "/sys/devices/system/cpu"
NODES = "/sys/devices/system/node"
POLICIES = f"{CPUS}/cpufreq"
# Values of /sys for a missing level: -1, or its 16-bit form.
NO_LEVEL = (-1, 65535)
LEVELS = ("core", "cluster", "llc", "socket", "node")


def cpu_finders(system: System) -> Finders:
    """Return a function per value of the group ``cpu`` of host.json."""
    return {
        "model": lambda: _cpu_model(system),
        "vendor": lambda: cpuinfo_field(system, "vendor_id", "CPU implementer", "vendor"),
        "family_model_stepping": lambda: _family_model_stepping(system),
        "microcode": lambda: cpuinfo_field(system, "microcode"),
        "count_online": lambda: len(online_cpus(system)),
        "smt": lambda: system.text(f"{CPUS}/smt/control"),
        "flags_sha256": lambda: _flags_sha256(system),
        "mitigations": lambda: {
            name.rpartition("/")[2]: system.text(name)
            for name in system.names(f"{CPUS}/vulnerabilities", r"\w+")
        },
        "l1_line_bytes": lambda: _l1_line_bytes(system),
    }


def cpuinfo_field(system: System, *names: str) -> str:
    """Return a field of /proc/cpuinfo; different values of different CPUs are joined by " + ".

    :param names: its names on different architectures; the first existing one is used
    :raises Unavailable: /proc/cpuinfo lacks the field or cannot be read
    """
    text = system.text("/proc/cpuinfo")
    for name in names:
        values = re.findall(rf"^{re.escape(name)}[ \t]*:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE)
        if values:
            return " + ".join(dict.fromkeys(values))
    raise Unavailable(f"/proc/cpuinfo: no field {names[0]!r}")


def online_cpus(system: System) -> list[int]:
    """Return the numbers of the online CPUs, in ascending order.

    :raises Unavailable: /sys does not list them
    """
    return parse_cpu_list(system.text(f"{CPUS}/online"))


def possible_cpus(system: System) -> list[int]:
    """Return the numbers of the possible CPUs of this kernel, in ascending order.

    :raises Unavailable: /sys does not list them
    """
    return parse_cpu_list(system.text(f"{CPUS}/possible"))


def _cpu_model(system: System) -> str:
    try:
        return cpuinfo_field(system, "model name", "cpu model", "cpu", "uarch", "Model Name")
    except Unavailable:
        # arm64 has no model name, only the numbers of MIDR_EL1.
        implementer = cpuinfo_field(system, "CPU implementer")
        return f"implementer {implementer} part {cpuinfo_field(system, 'CPU part')}"


def _family_model_stepping(system: System) -> str:
    try:
        names = ("cpu family", "model", "stepping")
        return "-".join(cpuinfo_field(system, name) for name in names)
    except Unavailable:
        part, variant = (cpuinfo_field(system, f"CPU {name}") for name in ("part", "variant"))
        # In Arm's notation: r1p2 is variant 1, revision 2.
        return f"{part} r{variant}p{cpuinfo_field(system, 'CPU revision')}"


def _flags_sha256(system: System) -> str:
    flags = sorted(set(cpuinfo_field(system, "flags", "Features", "isa", "features").split()))
    return hashlib.sha256(" ".join(flags).encode()).hexdigest()


def _l1_line_bytes(system: System) -> int:
    try:
        for index in system.names(f"{CPUS}/cpu0/cache", r"index\d+"):
            if (
                system.integer(f"{index}/level") == 1
                and system.text(f"{index}/type") != "Instruction"
            ):
                return system.integer(f"{index}/coherency_line_size")
    except Unavailable:
        pass  # On a machine without cache directories, the C library may know the size.
    return getconf("LEVEL1_DCACHE_LINESIZE")


def topology_finders(system: System) -> Finders:
    """Return a function per value of the group ``topology`` of host.json."""
    return {
        "cpus": lambda: [_cpu_place(system, cpu) for cpu in online_cpus(system)],
        "nodes": lambda: {
            name.rpartition("node")[2]: system.text(f"{name}/cpulist")
            for name in system.names(NODES, r"node\d+")
            # Memory-only nodes have an empty list.
            if system.bytes(f"{name}/cpulist").strip()
        },
        "distances": lambda: [
            [
                to_integer(number, f"{name}/distance")
                for number in system.text(f"{name}/distance").split()
            ]
            for name in system.names(NODES, r"node\d+")
        ],
    }


def _cpu_place(system: System, cpu: int) -> dict[str, int | None]:
    folder = f"{CPUS}/cpu{cpu}"
    nodes = or_none(lambda: system.names(folder, r"node\d+")) or []
    return {
        "cpu": cpu,
        "core": _level(system, f"{folder}/topology/core_id"),
        "cluster": _level(system, f"{folder}/topology/cluster_id"),
        "llc": or_none(lambda: _last_level_cache(system, f"{folder}/cache")),
        "socket": _level(system, f"{folder}/topology/physical_package_id"),
        "node": int(nodes[0].rpartition("node")[2]) if nodes else None,
    }


def _level(system: System, name: str) -> int | None:
    number = or_none(lambda: system.integer(name))
    return None if number in NO_LEVEL else number


def _last_level_cache(system: System, folder: str) -> int:
    # The cache's id, or without one in the firmware the first CPU that shares it.
    indexes = system.names(folder, r"index\d+")
    if not indexes:
        raise Unavailable(f"{folder}: no caches")
    last = max(indexes, key=lambda index: system.integer(f"{index}/level"))
    number = or_none(lambda: system.integer(f"{last}/id"))
    return parse_cpu_list(system.text(f"{last}/shared_cpu_list"))[0] if number is None else number


def missing_levels(cpus: object) -> Iterator[tuple[str, str]]:
    """Yield ``topology.cpus.LEVEL`` and the reason for each level that no CPU has.

    :param cpus: the value "cpus" of the group ``topology``; nothing is yielded if it is unknown
    """
    for level in LEVELS:
        if isinstance(cpus, list) and cpus and all(cpu[level] is None for cpu in cpus):
            yield f"topology.cpus.{level}", f"{CPUS}/cpu*: no CPU reports its {level}"


def cpufreq_finders(system: System) -> Finders:
    """Return the functions that read the ``cpufreq`` values of host.json, by name.

    Those of :mod:`schedperf_collectors.machine.policies` belong to the same group.
    """
    return {
        "driver": lambda: _of_policies(system, "scaling_driver"),
        "governor": lambda: _of_policies(system, "scaling_governor"),
        "epp": lambda: _of_policies(system, "energy_performance_preference"),
        "boost": lambda: _boost(system),
        "min_khz": lambda: min(_khz(system, "scaling_min_freq")),
        "max_khz": lambda: max(_khz(system, "scaling_max_freq")),
    }


def _policies(system: System) -> list[str]:
    policies = or_none(lambda: system.names(POLICIES, r"policy\d+"))
    if not policies:
        raise Unavailable("no cpufreq on this machine")
    return policies


def _of_policies(system: System, name: str) -> str:
    values = [system.text(f"{policy}/{name}") for policy in _policies(system)]
    return " + ".join(dict.fromkeys(values))


def _khz(system: System, name: str) -> list[int]:
    return [system.integer(f"{policy}/{name}") for policy in _policies(system)]


def _boost(system: System) -> bool:
    _policies(system)
    no_turbo = or_none(lambda: system.integer(f"{CPUS}/intel_pstate/no_turbo"))
    if no_turbo is not None:
        return no_turbo == 0
    return system.integer(f"{POLICIES}/boost") != 0


def cpuidle_finders(system: System) -> Finders:
    """Return a function per value of the group ``cpuidle`` of host.json."""
    return {
        "driver": lambda: system.text(f"{CPUS}/cpuidle/current_driver"),
        "governor": lambda: system.first_text(
            f"{CPUS}/cpuidle/current_governor", f"{CPUS}/cpuidle/current_governor_ro"
        ),
        "states": lambda: [
            {
                "name": system.text(f"{state}/name"),
                "latency_us": system.integer(f"{state}/latency"),
                "disabled": system.integer(f"{state}/disable") != 0,
            }
            for state in system.names(f"{CPUS}/cpu0/cpuidle", r"state\d+")
        ],
    }
