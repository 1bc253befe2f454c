# SPDX-License-Identifier: GPL-2.0-or-later
"""Record scheduler settings that only debugfs has: ``/sys/kernel/debug/sched``.

``sched_debug.json`` has the settings that are not in host.json, and those of each CPU (scheduling
domains, fair server), grouped by CPUs with equal settings. Values that the kernel measures
(:data:`MEASURED`) are left out::

    {"source": "/sys/kernel/debug/sched",
     "settings": {"nr_migrate": "32", "numa_balancing/scan_size_mb": "256"},
     "per_cpu": {"domains": [{"cpus": "0-3", "settings": {"domain0/name": "MC", …}}]},
     "missing": {"domains/cpu2/domain0/flags": "/sys/…/domains/cpu2/domain0/flags: empty"}}

Before v5.13 ("sched: Move SCHED_DEBUG sysctl to debugfs") they were below /proc/sys/kernel, which
is then the source; the record has their debugfs names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from schedperf_collectors.contract import format_cpu_list
from schedperf_collectors.machine.kernel import DEBUG_SCHED, SYSCTL
from schedperf_collectors.machine.system import System, attempt
from schedperf_collectors.machine.value_files import ValueFiles
from schedperf_collectors.plugin import Capture, Skipped, collector

# Settings in host.json, and ``debug``, which is a dump of all run queues.
NOT_HERE = frozenset(
    {
        "debug",
        "features",
        "preempt",
        "base_slice_ns",
        "latency_ns",
        "min_granularity_ns",
        "wakeup_granularity_ns",
        "migration_cost_ns",
        "autogroup_enabled",
        "schedstats",
        "rt_runtime_us",
        "cfs_bandwidth_slice_us",
    }
)
# Values that the kernel itself changes all the time (update_newidle_cost()).
MEASURED = re.compile(r"max_newidle_lb_cost|newidle_(?:call|success|ratio|stamp)")
# Names as sysctls, and in debugfs.
RENAMED = (("sched_", ""), ("numa_balancing_", "numa_balancing/"))
# Directory of the domains as sysctls.
OLD_DOMAINS = "sched_domain"
# Linux 6.18 has 20 settings and 9 for each domain.
MOST_SETTINGS = 256
# Six levels of domains below the directory of a CPU below ``domains``.
DEEPEST = 4
MOST_CPUS = 8192
# More different settings than this mean that settings changed while they were read.
MOST_KINDS = 64

_CPU = re.compile(r"cpu([0-9]{1,5})")


@collector(scope="boot", cost="0.3 ms per CPU (one read per setting of each scheduling domain)")
def sched_debug(capture: Capture) -> None:
    """Read the scheduler's settings from debugfs: domains, NUMA balancing, tunables."""
    capture_sched_debug(System(), capture)


def capture_sched_debug(system: System, capture: Capture) -> None:
    """Implement :func:`sched_debug` for any system.

    :raises Skipped: the settings do not exist in this kernel, or none is readable
    """
    settings = _Settings(system)
    if system.exists(DEBUG_SCHED):
        record = settings.of_debugfs()
    elif system.exists(f"{SYSCTL}/sched_nr_migrate"):
        record = settings.of_sysctls()
    else:
        remedy = "run `mount -t debugfs none /sys/kernel/debug` as root"
        raise Skipped(f"{DEBUG_SCHED} does not exist", remedy)
    record["missing"] = settings.missing
    if not settings.is_any and settings.missing:
        # Kernel lockdown hides debugfs even from root.
        remedy = "run as root" if os.geteuid() else "boot without kernel lockdown"
        reason = next(iter(settings.missing.values()))
        raise Skipped(f"no setting is readable: {reason}", remedy)
    (capture.folder / "sched_debug.json").write_text(json.dumps(record, indent=1) + "\n")


class _Settings:
    """The settings of one machine, and why some could not be read.

    :ivar is_any: whether at least one was read
    :ivar missing: the reasons, by name of the setting
    """

    def __init__(self, system: System) -> None:
        self.is_any = False
        self.missing: dict[str, str] = {}
        self._system = system
        self._files = ValueFiles(system)

    def of_debugfs(self) -> dict[str, object]:
        """Read the settings from debugfs; return sched_debug.json without ``missing``."""
        below = {name: f"{DEBUG_SCHED}/{name}" for name in sorted(self._files.names(DEBUG_SCHED))}
        folders = {name: path for name, path in below.items() if self._cpus(path)}
        settings = self._read({name: path for name, path in below.items() if name not in folders})
        return {
            "source": DEBUG_SCHED,
            "settings": settings,
            "per_cpu": {name: self._kinds(name, path) for name, path in folders.items()},
        }

    def of_sysctls(self) -> dict[str, object]:
        """Read the settings from the older sysctls; return sched_debug.json without ``missing``."""
        paths = {
            now + name[len(before) :]: f"{SYSCTL}/{name}"
            for before, now in RENAMED
            for name in sorted(self._files.names(SYSCTL))
            if name.startswith(before) and name != OLD_DOMAINS
        }
        return {
            "source": SYSCTL,
            "settings": self._read(paths),
            "per_cpu": {"domains": self._kinds("domains", f"{SYSCTL}/{OLD_DOMAINS}")},
        }

    def _cpus(self, folder: str) -> list[int]:
        """Return the CPUs that have a directory ``cpuN`` in this directory."""
        matches = map(_CPU.fullmatch, self._files.names(folder))
        return sorted(int(cpu[1]) for cpu in matches if cpu)[:MOST_CPUS]

    def _kinds(self, name: str, folder: str) -> list[dict[str, object]]:
        """Return the settings of CPUs, grouped by CPUs with equal settings.

        :param name: prefix of names in ``missing``
        :param folder: directory with a directory ``cpuN`` per CPU
        """
        kinds: dict[str, list[int]] = {}
        for cpu in self._cpus(folder):
            settings = self._read({"": f"{folder}/cpu{cpu}"}, f"{name}/cpu{cpu}")
            kinds.setdefault(json.dumps(settings), []).append(cpu)
        if len(kinds) > MOST_KINDS:
            self.missing[name] = (
                f"CPUs have {len(kinds)} different combinations of settings; only the first "
                f"{MOST_KINDS} are stored"
            )
        return [
            {"cpus": format_cpu_list(cpus), "settings": json.loads(settings)}
            for settings, cpus in list(kinds.items())[:MOST_KINDS]
        ]

    def _read(self, paths: Mapping[str, str], where: str = "") -> dict[str, str]:
        """Return the values of files, and of all files in directories, by name.

        :param paths: path of each file or directory, by the name to store; files in a directory get
            its name as a prefix
        :param where: prefix of names in ``missing``
        """
        settings: dict[str, str] = {}
        waiting = list(paths.items())
        while waiting:
            name, path = waiting.pop(0)
            if name in NOT_HERE or MEASURED.fullmatch(name.rpartition("/")[2]):
                continue
            if name.count("/") < DEEPEST and self._system.path(path).is_dir():
                inside = sorted(self._files.names(path))
                waiting += [(f"{name}/{child}".lstrip("/"), f"{path}/{child}") for child in inside]
            elif len(settings) == MOST_SETTINGS:
                self.missing[where or "settings"] = (
                    f"settings beyond the first {MOST_SETTINGS} are not stored"
                )
                break
            else:
                value, reason = attempt(self._files.text, path)
                if value is None:
                    self.missing[f"{where}/{name}".strip("/")] = reason
                else:
                    settings[name] = value
        self.is_any |= bool(settings)
        return settings
