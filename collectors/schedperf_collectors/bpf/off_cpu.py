# SPDX-License-Identifier: GPL-2.0-or-later
"""Record where the workload's tasks leave their CPU, by stack (``off_cpu.bpf.c``).

The document of a run::

    {"seconds": 1.2, "programs": {…},
     "frames": [["futex_wait_queue", null], ["__lll_lock_wait", "/usr/lib/…/libc.so.6"], …],
     "stacks": [[0, 3, 7], …],
     "rows": [{"kernel": 0, "user": 1, "call": 202, "who": "postgres", "count": 17, "ns": 185000,
               "max_ns": 97310, "bins": [[40, 17]], "runnable_ns": 9200, "slice_left_ns": null},
              …],
     "least_ns": 1000, "shorter": {"count": 12, "ns": 9300}, "lost": {}, "notes": []}

The stacks are those at the moment when a task left its CPU, as indexes of frames (function, and
file, null for the kernel and if unknown, "[JIT]" for code that the process generated), innermost
first; null if the stack was not stored.
``call`` is the number of the system call that the task is in, null for interrupts and faults.
``who`` is the command of the task that ran instead of a preempted task, or that woke a blocked
task; null if the waker is unknown. A wakeup by an interrupt has the task that was interrupted, e.g.
the idle task ``swapper/0``. ``runnable_ns`` is the part of ``ns`` after the wakeup.
``slice_left_ns`` is what preempted tasks had left of their slices, null if the kernel does not
say. Pauses that began before the run or ended after it do not count. Bins as in locks.json.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Generator
from typing import Any

from schedperf_collectors.bpf.stacks import Stacks
from schedperf_collectors.bpf.workload import (
    CONSTANTS,
    DURATIONS,
    Row,
    WorkloadPrograms,
    capture_workload,
    describe_durations,
    lost_of,
    merge_rows,
)
from schedperf_collectors.perf_header import text_until_nul
from schedperf_collectors.plugin import Capture

# What off_cpu.bpf.c counts.
PREEMPTED, BLOCKED = 1, 2
TRACEPOINTS = {
    PREEMPTED: ("sched_switch", "sched_process_exec", "sched_process_exit"),
    BLOCKED: ("sched_switch", "sched_waking", "sched_process_exec", "sched_process_exit"),
}
# struct off_key and the numbers before struct durations in struct off_cpu.
KEY, BEFORE = struct.Struct("=iiiI16s"), struct.Struct("=QQ")
FACTS = ("full", "no_kernel_stack", "no_user_stack", "shorter", "shorter_ns", "knows_slice")
LOST = {
    "full": "pauses for which the maps had no room",
    "no_kernel_stack": "kernel stacks that were not stored",
    "no_user_stack": "user stacks that were not stored",
}


def capture_off_cpu(
    capture: Capture, counted: int, least_ns: int
) -> Generator[str, None, dict[str, Any]]:
    """Record during a run, and return the document.

    :param counted: ``PREEMPTED`` or ``BLOCKED``
    :param least_ns: shorter pauses are only counted in total
    :raises Skipped: BPF is not available, or this is a pid namespace
    """

    def describe(programs: WorkloadPrograms, stacks: Stacks) -> dict[str, Any]:
        return {**_describe(programs, stacks, counted), "least_ns": least_ns}

    return (
        yield from capture_workload(
            capture,
            lambda _, recorder: WorkloadPrograms(
                "off_cpu",
                TRACEPOINTS[counted],
                CONSTANTS.pack(recorder, counted, least_ns, 0, 0),
            ),
            describe,
        )
    )


def _describe(programs: WorkloadPrograms, stacks: Stacks, counted: int) -> dict[str, Any]:
    facts = programs.facts(FACTS)
    executed = (path.partition(b"\0")[0] for path, _ in programs.map("executed").items())
    stacks.add_files(map(os.fsdecode, executed))
    rows: list[Row] = []
    for key, content in programs.map("places").items():
        kernel, user, call, has_waker, who = KEY.unpack(key)
        runnable_ns, slice_left_ns = BEFORE.unpack_from(content)
        knows_who = has_waker or counted == PREEMPTED
        rows.append(
            {
                "kernel": stacks.kernel(kernel),
                "user": stacks.user(user),
                "call": call if call >= 0 else None,
                "who": text_until_nul(who) if knows_who else None,
                **describe_durations(content[BEFORE.size : BEFORE.size + DURATIONS.size]),
                "runnable_ns": runnable_ns,
                "slice_left_ns": slice_left_ns if facts["knows_slice"] else None,
            }
        )
    return {
        "rows": merge_rows(rows, ("runnable_ns", "slice_left_ns")),
        "shorter": {"count": facts["shorter"], "ns": facts["shorter_ns"]},
        "lost": {**lost_of(facts, LOST), **programs.misses()},
    }
