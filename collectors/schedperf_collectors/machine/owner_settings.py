# SPDX-License-Identifier: GPL-2.0-or-later
"""Record the group ``settings`` of host.json: settings made by an administrator.

At run time, a setting cannot be distinguished from a kernel default. So this module reads what sets
it: the files that are applied at boot (sysctl.d(5) and tmpfiles.d(5)), the active profile of tuned,
and the kernel's log::

    {"sysctl": {"kernel.sched_autogroup_enabled": "0"},
     "tmpfiles": {"/sys/kernel/debug/sched/features": "NO_PLACE_LAG"},
     "tuned": "none",
     "written": {"sched.preempt": "voluntary"}}

``written`` has the values at boot of fields of host.json that were changed after boot. Only
settings of the scheduler (with NUMA balancing and timer migration), CPUs (with idle states and
frequencies), clocksources and transparent huge pages are stored.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from schedperf_collectors.machine.system import Finders, System, attempt

# A file in a directory overrides files of the same name in the later directories.
SYSCTL_FOLDERS = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
TMPFILES_FOLDERS = (
    "/etc/tmpfiles.d",
    "/run/tmpfiles.d",
    "/usr/local/lib/tmpfiles.d",
    "/usr/lib/tmpfiles.d",
)
# `sysctl --system` of procps reads it last.
SYSCTL_CONF = "/etc/sysctl.conf"
TUNED = "/etc/tuned/active_profile"
NO_PROFILE = "none"

SYSCTL_KEYS = re.compile(r"kernel\.(?:sched_|numa_balancing|timer_migration)[\w.]*")
WRITTEN_FILES = re.compile(
    r"/sys/(?:kernel/(?:debug/sched|mm/transparent_hugepage)|devices/system/(?:cpu|clocksource))"
    r"/.*|/proc/sys/kernel/(?:sched_|numa_balancing).*"
)
# "-kernel.x = 1" ignores errors; "kernel/x" is the same key.
ASSIGNMENT = re.compile(r"-?\s*([\w./*?-]+?)\s*=\s*(.*)")
# Type, path, mode, user, group, age, argument; types that write start with w ("w", "w+", "w!").
TMPFILES_FIELDS = 7
# Printed when the kernel chooses its model at boot, and again whenever it is written.
PREEMPT_MESSAGE = re.compile(r"^Dynamic Preempt: (\w+)$", re.MULTILINE)


def settings_finders(system: System) -> Finders:
    """Return a function per value of the group ``settings`` of host.json."""
    return {
        "sysctl": lambda: _sysctls(system),
        "tmpfiles": lambda: _tmpfiles(system),
        "tuned": lambda: system.text(TUNED) if system.exists(TUNED) else NO_PROFILE,
        "written": lambda: _written(system),
    }


def preempt_models(system: System) -> list[str]:
    """Return the preemption models of this boot as the kernel logged them, the latest last.

    The list is empty if the kernel logged none, or its messages were overwritten.

    :raises Unavailable: the kernel log cannot be read
    """
    return PREEMPT_MESSAGE.findall(system.kernel_log())


def _sysctls(system: System) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in _lines(system, SYSCTL_FOLDERS, SYSCTL_CONF):
        match = ASSIGNMENT.fullmatch(line)
        key = match.group(1).replace("/", ".") if match else ""
        if match and SYSCTL_KEYS.fullmatch(key) and _exists(system, key):
            values[key] = " ".join(match.group(2).split())
    return values


def _exists(system: System, key: str) -> bool:
    # A key that the kernel does not have has no effect.
    return system.exists(f"/proc/sys/{key.replace('.', '/')}")


def _tmpfiles(system: System) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in _lines(system, TMPFILES_FOLDERS):
        try:
            kind, path, *others = shlex.split(line, comments=True)
        except ValueError:
            continue
        is_written = kind.startswith("w") and WRITTEN_FILES.fullmatch(path)
        if is_written and len(others) + 2 >= TMPFILES_FIELDS:
            values[path] = " ".join(others[TMPFILES_FIELDS - 3 :])
    return values


def _lines(system: System, folders: tuple[str, ...], last: str = "") -> Iterator[str]:
    """Yield the lines of all files in the order in which they are applied.

    Comments and empty lines are left out.

    :param folders: directories of ``.conf`` files, by decreasing priority
    :param last: a file that is applied after them, if it exists; "" for none
    :raises Unavailable: one of the files cannot be read
    """
    files: dict[str, str] = {}
    for folder in folders:
        for path in attempt(system.names, folder, r".+\.conf")[0] or []:
            files.setdefault(path.rpartition("/")[2], path)
    paths = [path for _, path in sorted(files.items())]
    for path in [*paths, *([last] if last and system.exists(last) else [])]:
        text = system.bytes(path).decode("utf-8", "replace")
        lines = map(str.strip, text.splitlines())
        yield from (line for line in lines if line and line[0] not in "#;")


def _written(system: System) -> dict[str, str]:
    """Return fields of host.json that were written after boot, with their values at boot."""
    models = preempt_models(system)
    return {"sched.preempt": models[0]} if models and models[-1] != models[0] else {}
