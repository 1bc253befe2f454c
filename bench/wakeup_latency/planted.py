# SPDX-License-Identifier: GPL-2.0-or-later
"""Run two processes, "sleeper" and "burner", on one CPU: ``planted.py nice|fifo VALUE``.

VALUE is the nice value or the SCHED_FIFO priority of the burner. The sleeper (nice 0, or SCHED_FIFO
2) wakes up every millisecond. The burner uses 20 ms of CPU time in each 60 ms. If it has a lower
priority than the sleeper (nice 19, or SCHED_FIFO 1), each wakeup preempts it. If it has a higher
priority (nice -20, or SCHED_FIFO 3), the sleeper waits until the burner sleeps: one wakeup in forty
takes up to 20 ms, and all others take as long as before. SCHED_FIFO is for machines with other
load.
"""

import os
import pathlib
import sys
import time
from collections.abc import Callable

SECONDS = 4.0
SLEEPER = {"nice": 0, "fifo": 2}
BURST_S, PERIOD_S = 0.02, 0.06


def fork(name: str, value: int, work: Callable[[], object]) -> int:
    """Call a function repeatedly for SECONDS in a new process, and return its pid at once.

    :param name: name of the process
    :param value: its nice value or SCHED_FIFO priority
    :param work: the function
    """
    pid = os.fork()
    if not pid:
        pathlib.Path("/proc/self/comm").write_text(name)
        if policy == "nice":
            os.setpriority(os.PRIO_PROCESS, 0, value)
        else:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(value))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            work()
        os._exit(0)
    return pid


def burn() -> None:
    """Use 20 ms of CPU time, then sleep until 60 ms after the start, at least 1 ms."""
    began, until = time.monotonic(), time.process_time() + BURST_S
    while time.process_time() < until:
        pass
    time.sleep(max(0.001, began + PERIOD_S - time.monotonic()))


policy = sys.argv[1]
os.sched_setaffinity(0, {0})
sleeper = fork("sleeper", SLEEPER[policy], lambda: time.sleep(0.001))
for child in (sleeper, fork("burner", int(sys.argv[2]), burn)):
    os.waitpid(child, 0)
