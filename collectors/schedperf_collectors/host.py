# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the machine, its kernel and their settings in host.json.

``host.json`` contains values in groups, and ``missing``: the reason for each null value of a group,
and for each topology level that no CPU has (``topology.cpus.cluster``)::

    {"kernel": {"release": "6.1.0", "build_id": null, …}, …,
     "missing": {"kernel.build_id": "/sys/kernel/notes: no such file or directory"}}

Nothing here changes the machine's state or mounts anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Callable

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.asymmetry import asymmetry_finders
from schedperf_collectors.machine.core_types import core_type_finders
from schedperf_collectors.machine.cpu import (
    cpu_finders,
    cpufreq_finders,
    cpuidle_finders,
    missing_levels,
    topology_finders,
)
from schedperf_collectors.machine.kernel import cgroup_finders, kernel_finders, sched_finders
from schedperf_collectors.machine.owner_settings import settings_finders
from schedperf_collectors.machine.policies import policy_finders
from schedperf_collectors.machine.system import (
    Finders,
    System,
    attempt,
    bracketed,
    or_none,
    run,
    to_float,
    to_integer,
)
from schedperf_collectors.machine.virtualisation import (
    Virtualisation,
    detect_virtualisation,
    dmi_text,
)
from schedperf_collectors.plugin import Capture, collector

CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0"
THERMAL = "/sys/class/thermal"
# The option with which each tool prints its version. hackbench has no such option, but prints it
# with its help.
TOOLS = {
    "perf": ("perf", "--version"),
    "hackbench": ("hackbench", "--help"),
    "stress-ng": ("stress-ng", "--version"),
    "sysbench": ("sysbench", "--version"),
    "pgbench": ("pgbench", "--version"),
    "dbench": ("dbench", "--version"),
    "netperf": ("netperf", "-V"),
    "pahole": ("pahole", "--version"),
    "bpftool": ("bpftool", "version"),
}
# Time limit for printing a version. sysbench and stress-ng answer in 0.02 s; under emulation, 2 s
# were too short for both.
TOOL_TIMEOUT_S = 5.0
EMULATED_TOOL_TIMEOUT_S = 20.0


@collector(scope="boot", place="", cost="20 kB, 0.2 s", options=("kernel_files", "boot"))
def host(capture: Capture) -> None:
    """Record the machine, the kernel and their settings."""
    facts = describe_host(System(), capture)
    (capture.folder / "host.json").write_text(json.dumps(facts, indent=1) + "\n")


def describe_host(system: System, capture: Capture) -> dict[str, dict[str, object]]:
    """Return the contents of host.json for any system: values by group and key, and ``missing``."""
    described: dict[str, dict[str, object]] = {}
    missing: dict[str, object] = {}
    for group, finders in _groups(system, capture).items():
        described[group] = {}
        for key, find in finders.items():
            described[group][key], reason = attempt(find)
            if reason:
                missing[f"{group}.{key}"] = reason
    missing.update(missing_levels(described["topology"]["cpus"]))
    return {**described, "missing": missing}


def _groups(system: System, capture: Capture) -> dict[str, Finders]:
    virtualisation = detect_virtualisation(system)
    # Unknown counts as emulated.
    patience_s = TOOL_TIMEOUT_S if virtualisation.emulated is False else EMULATED_TOOL_TIMEOUT_S
    return {
        "kernel": kernel_finders(system, capture.options),
        "cpu": cpu_finders(system),
        "topology": {**topology_finders(system), **core_type_finders(system)},
        "cpufreq": {**cpufreq_finders(system), **policy_finders(system)},
        "cpuidle": cpuidle_finders(system),
        "sched": {**sched_finders(system, capture.options), **asymmetry_finders(system)},
        "settings": settings_finders(system),
        "cgroup": cgroup_finders(system, capture.workload_pid),
        "memory": _memory_finders(system),
        "virtualisation": _virtualisation_finders(system, virtualisation),
        "clock": {
            "source": lambda: system.text(f"{CLOCKSOURCE}/current_clocksource"),
            "available": lambda: system.text(f"{CLOCKSOURCE}/available_clocksource"),
        },
        "system": _system_finders(system, capture.options),
        "tools": {name: _tool_finder(command, patience_s) for name, command in TOOLS.items()},
        "state": _state_finders(system),
    }


def _memory_finders(system: System) -> Finders:
    return {
        "total_bytes": lambda: _meminfo(system, "MemTotal") * 1024,
        "page_bytes": lambda: os.sysconf("SC_PAGE_SIZE"),
        "thp": lambda: bracketed(system.text("/sys/kernel/mm/transparent_hugepage/enabled")),
        "swap_bytes": lambda: _meminfo(system, "SwapTotal") * 1024,
        "hugepages": lambda: _meminfo(system, "HugePages_Total"),
    }


def _meminfo(system: System, name: str) -> int:
    # In kB, HugePages_Total in pages.
    match = re.search(rf"^{name}:\s*(\d+)", system.text("/proc/meminfo"), re.MULTILINE)
    if not match:
        raise Unavailable(f"/proc/meminfo: no field {name!r}")
    return to_integer(match.group(1), f"/proc/meminfo: {name}")


def _virtualisation_finders(system: System, virtualisation: Virtualisation) -> Finders:
    def known(value: object) -> object:
        if value is None:
            raise Unavailable(virtualisation.grounds)
        return value

    return {
        "kind": lambda: known(virtualisation.kind),
        "emulated": lambda: known(virtualisation.emulated),
        "grounds": lambda: virtualisation.grounds,
        "dmi": lambda: dmi_text(system),
    }


def _system_finders(system: System, options: Mapping[str, str]) -> Finders:
    # The kernel does not know how it was booted, but the program that booted it does.
    method = options.get("boot")
    known: Finders = {} if method is None else {"boot_method": lambda: method}
    return {
        **known,
        "hostname": lambda: system.text("/proc/sys/kernel/hostname"),
        "distro": lambda: _distro(system),
        "libc": _libc,
        "boot_id": lambda: system.text("/proc/sys/kernel/random/boot_id"),
        # machine-id(5): the id itself must stay private.
        "machine_id_sha256": lambda: hashlib.sha256(
            system.text("/etc/machine-id").encode()
        ).hexdigest(),
    }


def _distro(system: System) -> str:
    text = system.first_text("/etc/os-release", "/usr/lib/os-release")
    match = re.search(r"^PRETTY_NAME=[\"']?([^\"'\n]+)", text, re.MULTILINE)
    if not match:
        raise Unavailable("/etc/os-release: PRETTY_NAME is missing")
    return match.group(1)


def _libc() -> str:
    name = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    if not name:
        raise Unavailable("the C library does not report its version")
    return name


def _tool_finder(command: tuple[str, ...], timeout_s: float) -> Callable[[], str]:
    def find() -> str:
        output = run(command, timeout_s)
        with_number = (line.strip() for line in output.splitlines() if re.search(r"\d", line))
        version = next(with_number, "")
        if not version:
            raise Unavailable(f"{command[0]} does not print its version")
        # stress-ng appends the running kernel, which is not a property of the tool.
        return version.partition(" (")[0]

    return find


def _state_finders(system: System) -> Finders:
    return {
        "loadavg": lambda: [to_float(word, "/proc/loadavg") for word in _loadavg(system)[:3]],
        "throttle_counts": lambda: {
            level: sum(_throttle_counts(system, level)) for level in ("core", "package")
        },
        "uptime_s": lambda: to_float(system.text("/proc/uptime").partition(" ")[0], "/proc/uptime"),
        "memory_available_bytes": lambda: _meminfo(system, "MemAvailable") * 1024,
        "thermal": lambda: _temperatures(system),
        "processes": lambda: to_integer(_loadavg(system)[3], "/proc/loadavg"),
    }


def _loadavg(system: System) -> list[str]:
    # Load averages over 1, 5 and 15 minutes, and the number of tasks: proc(5).
    text = system.text("/proc/loadavg")
    match = re.fullmatch(r"(\S+) (\S+) (\S+) \d+/(\d+) \d+", text)
    if not match:
        raise Unavailable(f"/proc/loadavg: unexpected format {text[:40]!r}")
    return list(match.groups())


def _throttle_counts(system: System, level: str) -> list[int]:
    cpus = "/sys/devices/system/cpu"
    names = [f"{cpu}/thermal_throttle" for cpu in system.names(cpus, r"cpu\d+")]
    counted = [f"{name}/{level}_throttle_count" for name in names if system.exists(name)]
    if not counted:
        raise Unavailable("no CPU counts thermal throttling events")
    return [system.integer(name) for name in counted]


def _temperatures(system: System) -> dict[str, float]:
    # Degrees Celsius by zone and type; several zones may have one type.
    zones = or_none(lambda: system.names(THERMAL, r"thermal_zone\d+"))
    if not zones:
        raise Unavailable("no thermal zones")
    temperatures: dict[str, float] = {}
    for zone in zones:
        # A zone whose sensor is powered down returns an error.
        with suppress(Unavailable):
            name = f"{zone.rpartition('/')[2]} {system.text(f'{zone}/type')}"
            temperatures[name] = system.integer(f"{zone}/temp") / 1000
    return temperatures
