# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the CPUs of each type of core, and of each frequency policy."""

from collections.abc import Mapping

from schedperf.model.host import MOST_CPUS, CoreType, Policy
from schedperf_collectors.contract import Unavailable, parse_cpu_list


def cpus_of(group: CoreType | Policy) -> frozenset[int]:
    """Return the numbers of a group's CPUs; empty if its list is invalid."""
    try:
        return frozenset(cpu for cpu in parse_cpu_list(group.cpus) if cpu < MOST_CPUS)
    except Unavailable:
        return frozenset()


def cpus_by_type(types: Mapping[str, CoreType]) -> dict[str, frozenset[int]]:
    """Return the CPUs of each type of core by its name; {} if fewer than two types have CPUs."""
    cpus = {name: cpus_of(core) for name, core in types.items()}
    found = {name: numbers for name, numbers in cpus.items() if numbers}
    return found if len(found) > 1 else {}


def type_of_cpu(types: Mapping[str, CoreType]) -> dict[int, str]:
    """Return the type of each CPU's core; {} if fewer than two types have CPUs."""
    return {cpu: name for name, cpus in cpus_by_type(types).items() for cpu in sorted(cpus)}
