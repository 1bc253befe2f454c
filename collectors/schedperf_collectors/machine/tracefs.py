# SPDX-License-Identifier: GPL-2.0-or-later
"""Read tracefs: the kernel's tracepoints, their numbers and fields."""

from __future__ import annotations

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System, or_none

# Mounted on its own, or below debugfs.
FOLDERS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")


def read_event_file(system: System, event: str, name: str) -> str:
    """Read a file of a tracepoint.

    :param event: "sched:sched_switch"
    :param name: "id" or "format"
    :raises Unavailable: tracefs is not mounted or not readable by this user, or the kernel has no
        such tracepoint
    """
    path = "/events/{}/{}/{}".format(*event.split(":"), name)
    try:
        return system.first_text(*(folder + path for folder in FOLDERS))
    except Unavailable:
        if _is_mounted(system):
            raise
        remedy = f"mount -t tracefs nodev {FOLDERS[0]}"
        raise Unavailable("tracefs is not mounted", remedy) from None


def _is_mounted(system: System) -> bool:
    mounts = or_none(lambda: system.text("/proc/self/mounts"))
    # Where mounts cannot be read, the error about the file itself is all there is.
    return mounts is None or any(line.split()[2:3] == ["tracefs"] for line in mounts.splitlines())
