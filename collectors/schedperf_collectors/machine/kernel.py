# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the groups kernel, sched and cgroup of host.json.

Each function named ``…_finders`` returns a finder for each value of its group: a function that
returns the value, or raises :class:`Unavailable` with the reason why the value is null.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Callable

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.kernel_files import build_id, config_value, find_config
from schedperf_collectors.machine.owner_settings import preempt_models
from schedperf_collectors.machine.system import (
    Finders,
    System,
    attempt,
    bracketed,
    or_none,
    to_integer,
)

SYSCTL = "/proc/sys/kernel"
# debugfs since v5.13 ("sched: Move SCHED_DEBUG sysctl to debugfs").
DEBUG_SCHED = "/sys/kernel/debug/sched"
# Names of the CONFIG_PREEMPT_… options if the model can be selected at boot (preempt=…).
PREEMPT_OPTIONS = {
    "CONFIG_PREEMPT_RT": "rt",
    "CONFIG_PREEMPT_LAZY": "lazy",
    "CONFIG_PREEMPT_VOLUNTARY": "voluntary",
    "CONFIG_PREEMPT_NONE": "none",
    "CONFIG_PREEMPT": "full",
}


def kernel_finders(system: System, options: Mapping[str, str]) -> Finders:
    """Return a function per value of the group ``kernel`` of host.json.

    :param options: ``kernel_files`` may name a directory with the kernel's configuration
    """
    return {
        "release": lambda: system.text(f"{SYSCTL}/osrelease"),
        "version": lambda: system.text(f"{SYSCTL}/version"),
        "machine": lambda: system.machine,
        "build_id": lambda: build_id(system),
        "config_sha256": lambda: hashlib.sha256(
            find_config(system, options)[0].encode()
        ).hexdigest(),
        "cmdline": lambda: system.text("/proc/cmdline"),
        "taint": lambda: system.integer(f"{SYSCTL}/tainted"),
        "lockdown": lambda: bracketed(system.text("/sys/kernel/security/lockdown")),
        "compiler": lambda: _compiler(system),
    }


def _compiler(system: System) -> str:
    # "Linux version 6.1.0 (who@where) (gcc (Debian 12.2.0) 12.2.0, GNU ld 2.40) #1 SMP …"
    match = re.match(r"Linux version \S+ \([^)]*\) \((.*)\) #", system.text("/proc/version"))
    if not match:
        raise Unavailable("/proc/version: does not name the compiler")
    return match.group(1)


def sched_finders(system: System, options: Mapping[str, str]) -> Finders:
    """Return a function per value of the group ``sched`` of host.json.

    :param options: ``kernel_files`` may name a directory with the kernel's configuration
    """

    def tunable(name: str) -> Callable[[], int]:
        return lambda: to_integer(
            _debug_text(system, f"{DEBUG_SCHED}/{name}", f"{SYSCTL}/sched_{name}"), name
        )

    def sysctl(name: str) -> Callable[[], int]:
        return lambda: system.integer(f"{SYSCTL}/{name}")

    return {
        "autogroup": sysctl("sched_autogroup_enabled"),
        "features": lambda: _debug_text(
            system, f"{DEBUG_SCHED}/features", "/sys/kernel/debug/sched_features"
        ),
        "base_slice_ns": tunable("base_slice_ns"),
        "min_granularity_ns": tunable("min_granularity_ns"),
        "latency_ns": tunable("latency_ns"),
        "wakeup_granularity_ns": tunable("wakeup_granularity_ns"),
        "migration_cost_ns": tunable("migration_cost_ns"),
        "preempt": lambda: _preempt(system, options),
        "hz": lambda: to_integer(
            config_value(find_config(system, options)[0], "CONFIG_HZ"), "CONFIG_HZ"
        ),
        "sched_ext": lambda: system.text("/sys/kernel/sched_ext/state"),
        "sched_ext_ops": lambda: system.text("/sys/kernel/sched_ext/root/ops"),
        "schedstats": sysctl("sched_schedstats"),
        "numa_balancing": sysctl("numa_balancing"),
        "rt_runtime_us": sysctl("sched_rt_runtime_us"),
        "cfs_bandwidth_slice_us": sysctl("sched_cfs_bandwidth_slice_us"),
        "uclamp_min": sysctl("sched_util_clamp_min"),
        "uclamp_max": sysctl("sched_util_clamp_max"),
        "uclamp_min_rt_default": sysctl("sched_util_clamp_min_rt_default"),
        "energy_aware": sysctl("sched_energy_aware"),
    }


# Values that users and tuned may write during a recording; each is read within microseconds.
WRITABLE = (
    "autogroup",
    "features",
    "base_slice_ns",
    "min_granularity_ns",
    "latency_ns",
    "wakeup_granularity_ns",
    "migration_cost_ns",
    "numa_balancing",
    "rt_runtime_us",
    "cfs_bandwidth_slice_us",
    "uclamp_min",
    "uclamp_max",
    "uclamp_min_rt_default",
    "energy_aware",
)


def settings_in_force(system: System) -> dict[str, dict[str, object]]:
    """Return the current values of :data:`WRITABLE`, as ``{"sched": {NAME: VALUE}}``.

    Values that are not available are left out.
    """
    finders = sched_finders(system, {})
    values = {name: attempt(finders[name])[0] for name in WRITABLE}
    return {"sched": {name: value for name, value in values.items() if value is not None}}


def _debug_text(system: System, *names: str) -> str:
    try:
        return system.first_text(*names)
    except Unavailable as error:
        if system.exists(DEBUG_SCHED):
            raise
        remedy = "run `mount -t debugfs none /sys/kernel/debug` as root"
        raise Unavailable(f"{error.reason}; {remedy}") from error


def _preempt(system: System, options: Mapping[str, str]) -> str:
    shown = or_none(lambda: system.text(f"{DEBUG_SCHED}/preempt"))
    if shown:
        return bracketed(shown, "()")
    if "PREEMPT_RT" in system.text(f"{SYSCTL}/version"):
        return "rt"
    # Logged by kernels that select the model at boot (CONFIG_PREEMPT_DYNAMIC), and at each change.
    logged = or_none(lambda: preempt_models(system))
    if logged:
        return logged[-1]
    chosen = re.search(r"(?:^|\s)preempt=(\w+)", system.text("/proc/cmdline"))
    if chosen:
        return chosen.group(1)
    config = find_config(system, options)[0].splitlines()
    for option, name in PREEMPT_OPTIONS.items():
        if f"{option}=y" in config:
            return name
    raise Unavailable("preemption model not reported by debugfs, kernel log or configuration")


def cgroup_finders(system: System, pid: int) -> Finders:
    """Return a function per value of the group ``cgroup`` of host.json.

    :param pid: a process in the workload's cgroup and with its CPU mask
    """
    return {
        "version": lambda: cpu_cgroup(system, pid)[0],
        "path": lambda: cpu_cgroup(system, pid)[1],
        "depth": lambda: len(list(filter(None, cpu_cgroup(system, pid)[1].split("/")))),
        "cpu_max": lambda: _cpu_max(system, *cpu_cgroup(system, pid)),
        "uclamp_min": lambda: _uclamp(system, pid, "min"),
        "uclamp_max": lambda: _uclamp(system, pid, "max"),
        "cpus_allowed": lambda: _cpus_allowed(system, pid),
    }


def cpu_cgroup(system: System, pid: int) -> tuple[int, str]:
    """Return the version of the hierarchy with the cpu controller, and a process's path in it.

    If no hierarchy of version 1 has the controller, that of version 2 is returned, whether or not
    the controller is enabled in it.

    :raises Unavailable: /proc/PID/cgroup lacks the hierarchy or cannot be read
    """
    # Lines are "ID:CONTROLLERS:PATH"; the one without controllers is version 2 (cgroups(7)).
    text = system.text(f"/proc/{pid}/cgroup")
    version_1 = re.search(r"^\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:(/.*)$", text, re.MULTILINE)
    if version_1:
        return 1, version_1.group(1)
    version_2 = re.search(r"^0::(/.*)$", text, re.MULTILINE)
    if version_2:
        return 2, version_2.group(1)
    raise Unavailable(f"/proc/{pid}/cgroup: no cgroup hierarchy has the cpu controller")


def _cpu_max(system: System, version: int, path: str) -> str:
    # In version 2's form, "QUOTA PERIOD" in microseconds or "max PERIOD", for both versions.
    folder = cgroup_folder(system, version, path)
    if version == 1:
        quota = system.integer(f"{folder}/cpu.cfs_quota_us")
        period = system.integer(f"{folder}/cpu.cfs_period_us")
        return f"{quota if quota >= 0 else 'max'} {period}"
    if path == "/":
        raise Unavailable("the root cgroup has no file cpu.max")
    return system.text(f"{folder}/cpu.max")


def _uclamp(system: System, pid: int, limit: str) -> str:
    # In percent of the largest capacity, or "max"; the same file in both versions.
    version, path = cpu_cgroup(system, pid)
    if path == "/":
        raise Unavailable(f"the root cgroup has no file cpu.uclamp.{limit}")
    return system.text(f"{cgroup_folder(system, version, path)}/cpu.uclamp.{limit}")


def cgroup_folder(system: System, version: int, path: str) -> str:
    """Return the directory of a cgroup.

    :param version: version of its hierarchy, 1 or 2
    :param path: path in its hierarchy, from :func:`cpu_cgroup`
    :raises Unavailable: the hierarchy is not mounted
    """
    # A line of mountinfo: ID PARENT DEVICE ROOT MOUNT OPTIONS … - TYPE SOURCE SUPER_OPTIONS.
    super_options = r"cgroup \S+ (?:\S*,)?cpu(?:,\S*)?$" if version == 1 else r"cgroup2 "
    mount = re.search(
        rf"^\d+ \d+ \S+ (\S+) (\S+) .* - {super_options}",
        system.text("/proc/self/mountinfo"),
        re.MULTILINE,
    )
    if not mount:
        raise Unavailable(f"cgroup version {version} is not mounted")
    # A mount can show only a part of the hierarchy (containers).
    root = mount.group(1).rstrip("/")
    inside = path[len(root) :] if f"{path}/".startswith(f"{root}/") else path
    return f"{mount.group(2)}/{inside.strip('/')}".rstrip("/")


def _cpus_allowed(system: System, pid: int) -> str:
    status = system.text(f"/proc/{pid}/status")
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    if not match:
        raise Unavailable(f"/proc/{pid}/status: no field Cpus_allowed_list")
    return match.group(1)
