# SPDX-License-Identifier: GPL-2.0-or-later
"""Record each cpufreq policy, and the CPUs that the firmware prefers.

CPUs of policies with equal settings are listed together. A setting is null if it cannot be read::

    [{"cpus": "0-3", "driver": "scmi", "governor": "schedutil", "epp": null, "min_khz": 300000,
      "max_khz": 1800000, "hw_min_khz": 300000, "hw_max_khz": 1800000}, …]
"""

from __future__ import annotations

import json

from schedperf_collectors.contract import Unavailable, format_cpu_list, parse_cpu_list
from schedperf_collectors.machine.cpu import CPUS, POLICIES, online_cpus
from schedperf_collectors.machine.system import Finders, System, attempt, or_none

TEXTS = {
    "driver": "scaling_driver",
    "governor": "scaling_governor",
    "epp": "energy_performance_preference",
}
NUMBERS = {
    "min_khz": "scaling_min_freq",
    "max_khz": "scaling_max_freq",
    "hw_min_khz": "cpuinfo_min_freq",
    "hw_max_khz": "cpuinfo_max_freq",
}
# Files of amd-pstate; of any CPU with ACPI CPPC.
RANKINGS = ("cpufreq/amd_pstate_prefcore_ranking", "acpi_cppc/highest_perf")
PREFCORE = (f"{CPUS}/amd_pstate/prefcore", f"{CPUS}/amd-pstate/prefcore")


def policy_finders(system: System) -> Finders:
    """Return a function per value of the group ``cpufreq`` about policies and preferred CPUs."""
    return {
        "policies": lambda: _policies(system),
        "prefcore": lambda: system.first_text(*PREFCORE),
        "rankings": lambda: _rankings(system),
    }


def _policies(system: System) -> list[dict[str, object]]:
    folders = or_none(lambda: system.names(POLICIES, r"policy\d+"))
    if not folders:
        raise Unavailable("no cpufreq on this machine")
    cpus_of: dict[str, list[int]] = {}
    for folder in folders:
        # A policy has no CPUs if all of them are offline.
        text = system.bytes(f"{folder}/affected_cpus").decode("utf-8", "replace")
        cpus = parse_cpu_list(",".join(text.split()))
        if cpus:
            cpus_of.setdefault(json.dumps(_settings(system, folder)), []).extend(cpus)
    return [
        {"cpus": format_cpu_list(sorted(cpus)), **json.loads(settings)}
        for settings, cpus in cpus_of.items()
    ]


def _settings(system: System, folder: str) -> dict[str, object]:
    texts = {key: attempt(system.text, f"{folder}/{name}")[0] for key, name in TEXTS.items()}
    numbers = {key: attempt(system.integer, f"{folder}/{name}")[0] for key, name in NUMBERS.items()}
    return {**texts, **numbers}


def _rankings(system: System) -> dict[str, str]:
    """Return the CPUs of each ranking, the highest first."""
    cpus_of: dict[int, list[int]] = {}
    for cpu in online_cpus(system):
        ranking = system.integer(*(f"{CPUS}/cpu{cpu}/{name}" for name in RANKINGS))
        cpus_of.setdefault(ranking, []).append(cpu)
    return {
        str(ranking): format_cpu_list(cpus)
        for ranking, cpus in sorted(cpus_of.items(), reverse=True)
    }
