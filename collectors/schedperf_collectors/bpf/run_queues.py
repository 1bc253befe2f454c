"""Where each CPU's run queue is, as a BPF program sees it at a tracepoint.

The kernel hands over a run queue whenever a task is queued there: moving ourselves once over all
CPUs makes each of them queue a task. No symbols are needed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Sequence

from schedperf_collectors.bpf.libbpf import Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object

NAME = "run_queues"
WATCH = Candidate(NAME, "remember", "raw_tp", "sched_update_nr_running_tp")
# A moment on each CPU after we moved there, so that what is queued there is counted.
STAY_S = 0.001


def run_queue_addresses(cpus: Sequence[int]) -> dict[int, int]:
    """Return the address of the run queue of each CPU that queued a task.

    :param cpus: those that are online; this process moves over all that it may use
    :raises Unavailable: no libbpf or no object, or the kernel refuses the program
    """
    size = max(cpus) + 1
    loaded = load_what_works(read_object(NAME), NAME, [WATCH], lambda it: it.resize(NAME, size))
    with loaded.object:
        _visit(cpus)
        queues = loaded.object.map(NAME)
        found = {cpu: queues.read(struct.pack("=I", cpu)) or bytes(8) for cpu in cpus}
    addresses = {cpu: int(struct.unpack("=Q", value)[0]) for cpu, value in found.items()}
    return {cpu: address for cpu, address in addresses.items() if address}


def _visit(cpus: Sequence[int]) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        for cpu in cpus:
            # A cpuset may keep us off some; their own tasks are queued there anyway.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, {cpu})
                time.sleep(STAY_S)
    finally:
        os.sched_setaffinity(0, allowed)
