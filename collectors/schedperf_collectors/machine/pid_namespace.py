# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell whether process ids are those that the kernel itself uses."""

from __future__ import annotations

from schedperf_collectors.machine.system import System

# PROC_PID_INIT_INO of include/linux/proc_ns.h: the first namespace of process ids.
INITIAL_PID_NAMESPACE = 0xEFFFFFFC


def global_pid(system: System, pid: int) -> int:
    """Return a process id in the initial pid namespace; 0 in any other pid namespace."""
    try:
        namespace = system.path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
    return pid if namespace == INITIAL_PID_NAMESPACE else 0
