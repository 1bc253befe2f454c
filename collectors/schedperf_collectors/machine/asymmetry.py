# SPDX-License-Identifier: GPL-2.0-or-later
"""Record what makes the scheduler treat CPUs differently: energy model and asymmetric domains.

These are the energy model of the kernel, and the domains in which the scheduler packs tasks on
preferred CPUs or accounts for different capacities::

    {"energy_model": {"cpu0": {"cpus": "0-3", "states": [[300000, 9000, 1200], …]}, …},
     "asym_domains": {"SD_ASYM_PACKING": ["MC"], "SD_ASYM_CPUCAPACITY": [], …}}
"""

from __future__ import annotations

from schedperf_collectors.contract import Unavailable, format_cpu_list, parse_cpu_list
from schedperf_collectors.machine.core_types import type_of_cpu
from schedperf_collectors.machine.cpu import online_cpus
from schedperf_collectors.machine.kernel import DEBUG_SCHED, SYSCTL
from schedperf_collectors.machine.system import Finders, System, or_none

ENERGY_MODEL = "/sys/kernel/debug/energy_model"
# A domain has a state per frequency; large ones have some dozens.
MOST_STATES = 1024
ASYM_FLAGS = ("SD_ASYM_PACKING", "SD_ASYM_CPUCAPACITY", "SD_ASYM_CPUCAPACITY_FULL")
# A sysctl until v6.13, then in debugfs.
ITMT = (f"{SYSCTL}/sched_itmt_enabled", "/sys/kernel/debug/x86/sched_itmt_enabled")
MOUNT_DEBUGFS = "run `mount -t debugfs none /sys/kernel/debug` as root"


def asymmetry_finders(system: System) -> Finders:
    """Return a function per value about unequal CPUs in the group ``sched`` of host.json."""
    return {
        "itmt": lambda: _flag(system.first_text(*ITMT), ITMT[0]),
        "energy_model": lambda: _energy_model(system),
        "asym_domains": lambda: _asym_domains(system),
    }


def _flag(text: str, where: str) -> int:
    # debugfs_create_bool() prints Y and N.
    flags = {"0": 0, "1": 1, "N": 0, "Y": 1}
    if text not in flags:
        raise Unavailable(f"{where}: unexpected value {text[:40]!r} (expected 0 or 1)")
    return flags[text]


def _energy_model(system: System) -> dict[str, dict[str, object]]:
    try:
        domains = system.names(ENERGY_MODEL, r"[\w-]+")
    except Unavailable as error:
        is_mounted = system.exists(DEBUG_SCHED)
        remedy = "" if is_mounted else MOUNT_DEBUGFS
        raise Unavailable(error.reason, remedy) from error
    # Other devices have an energy model as well, but no file "cpus".
    return {
        domain.rpartition("/")[2]: {
            "cpus": format_cpu_list(parse_cpu_list(system.text(f"{domain}/cpus"))),
            "states": _states(system, domain),
        }
        for domain in domains
        if system.exists(f"{domain}/cpus")
    }


def _states(system: System, domain: str) -> list[list[int]]:
    """Return frequency, power and cost of each performance state, as the kernel prints them.

    :raises Unavailable: there are more than :data:`MOST_STATES`, or a value cannot be read
    """
    folders = system.names(domain, r"ps:\d+")
    if len(folders) > MOST_STATES:
        raise Unavailable(f"{domain}: {len(folders)} states (expected at most {MOST_STATES})")
    return [
        [system.integer(f"{folder}/{name}") for name in ("frequency", "power", "cost")]
        for folder in folders
    ]


def _asym_domains(system: System) -> dict[str, list[str]]:
    """Return by flag the levels of the scheduling domains that have it, the smallest first.

    Only the first CPU of each type is examined.

    :raises Unavailable: the scheduling domains in debugfs cannot be read
    """
    folder = f"{DEBUG_SCHED}/domains"
    levels: dict[str, dict[str, None]] = {flag: {} for flag in ASYM_FLAGS}
    for cpu in _examples(system):
        for domain in system.names(f"{folder}/cpu{cpu}", r"domain\d+"):
            name, flags = (system.text(f"{domain}/{file}") for file in ("name", "flags"))
            for flag in set(flags.split()).intersection(ASYM_FLAGS):
                levels[flag][name] = None
    return {flag: list(names) for flag, names in levels.items()}


def _examples(system: System) -> list[int]:
    """Return the first online CPU of each type.

    :raises Unavailable: the scheduling domains in debugfs cannot be read
    """
    type_of = type_of_cpu(system)
    first: dict[str, int] = {}
    for cpu in online_cpus(system):
        first.setdefault(type_of.get(cpu, ""), cpu)
    cpus = list(first.values())
    if or_none(lambda: system.names(f"{DEBUG_SCHED}/domains", r"cpu\d+")) is None:
        reason = "the scheduling domains and their flags are in debugfs, which cannot be read"
        raise Unavailable(reason, MOUNT_DEBUGFS)
    return cpus
