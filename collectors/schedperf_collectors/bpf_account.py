# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure why the workload's tasks wait for a CPU, and how long they are blocked.

BPF programs at the scheduler's tracepoints follow the tasks that the recorder starts after the
collector has begun, and what these start. ``waits.json`` contains sums over these tasks::

    {"schema": "schedperf/bpf_account/1", "seconds": 1.2,
     "programs": {"sched_switch": {"mechanism": "tp_btf", "function": "sched_switch",
                                   "reason": null}, …},
     "tasks": 401, "left_out": 0, "unfinished": 0, "missed": 3, "migrations": 1234,
     "parts": {"woken": {"seconds": 12.3, "count": 50000}, "preempted": {…}, "yielded": {…},
               "throttled": null, "io": {…}, "other": {…}}}

A task that waits for a CPU is runnable: ``woken`` from its wakeup or its start until it runs;
``preempted``, ``yielded`` or ``throttled`` after it left a CPU in the state "running". It yielded
if it was in sched_yield(2), and CFS bandwidth throttled it if task_struct.throttled is set (Linux
6.18; before, such a wait is among the others). The duration of a wait is that of the kernel's
accounting (run_delay), as in taskstats. A task in another state is blocked until its next wakeup:
by ``io`` if the kernel counts it in iowait, by ``other`` if not. A part that the kernel does
not report is null. ``unfinished`` tasks still existed at the end; the sums lack their last waits,
and all waits of tasks ``left_out`` for lack of memory. ``missed`` is the number of events of a task
whose preceding event was not reported to BPF, so that the reason of a wait may be wrong (a switch
is an event of both of its tasks), plus the number of events that the kernel counts as missed by a
program. One missed event may be in both numbers.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Generator, Mapping
from typing import Any

from schedperf_collectors.bpf.libbpf import BpfObject, Candidate, load_what_works
from schedperf_collectors.bpf.objects import read_object
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.before_command import children_of, find_setup
from schedperf_collectors.machine.pid_namespace import global_pid
from schedperf_collectors.machine.system import System
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped, collector

SCHEMA = "schedperf/bpf_account/1"
FILE_NAME = "waits.json"
TRACEPOINTS = (
    "sched_switch",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "sched_migrate_task",
)

# In the order of enum part of account.bpf.c.
PARTS = ("woken", "preempted", "yielded", "throttled", "io", "other")
BLOCKED = ("io", "other")
# struct sums and struct control of account.bpf.c.
FACTS = (
    "tasks",
    "ended",
    "migrations",
    "without_slot",
    "unmatched",
    "knows_waiting",
    "knows_yielded",
    "knows_throttled",
)
SUMS = struct.Struct(f"={2 * len(PARTS) + len(FACTS)}Q")
U32, CONTROL = struct.Struct("=I"), struct.Struct("=II")


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="0.4 us per context switch and 0.3 us per wakeup of the workload's tasks (2% of "
    "hackbench's CPU time); 0.3 to 3 s to load; 9 MiB of kernel memory",
)
def bpf_account(capture: Capture) -> Generator[str, None, None]:
    """Measure why the workload's tasks wait for a CPU, and how long they are blocked."""
    return capture_waits(System(), capture)


def capture_waits(system: System, capture: Capture) -> Generator[str, None, None]:
    """Implement :func:`bpf_account` for any system.

    :raises Skipped: BPF is not available, or this is a pid namespace
    """
    recorder = global_pid(system, capture.workload_pid)
    if not recorder:
        raise Skipped("the workload's tasks cannot be identified inside a pid namespace")
    try:
        programs = Programs(recorder)
    except Unavailable as error:
        remedy = error.remedy or ("" if os.geteuid() == 0 else "run as root")
        raise Skipped(error.reason, remedy) from error
    try:
        earlier = children_of(system, recorder)
        yield PREPARED
        setup = find_setup(system, recorder, earlier)
        programs.open_gate(0 if setup is None else setup.pid)
        began_s = time.monotonic()
        yield BEGUN
        programs.close_gate()
        document = {
            "schema": SCHEMA,
            "seconds": time.monotonic() - began_s,
            "programs": programs.attached,
            **programs.read(),
        }
    finally:
        programs.close()
    (capture.folder / FILE_NAME).write_text(json.dumps(document) + "\n")


class Programs:
    """The loaded BPF programs, which count nothing until :meth:`open_gate`.

    :param recorder: pid of the process that starts the workload, in the initial pid namespace
    :ivar attached: by tracepoint, the "mechanism" and the "function" of its program; the "reason"
        why there is none is always None here
    :raises Unavailable: libbpf or the compiled BPF object is missing, or the kernel rejects a
        program
    """

    def __init__(self, recorder: int) -> None:
        self._recorder = recorder
        candidates = [Candidate(name, f"{name}_btf", "tp_btf", name) for name in TRACEPOINTS]
        loaded = load_what_works(read_object("account"), "account", candidates, self._prepare)
        self._object = loaded.object
        self.attached = loaded.programs
        for name, program in self.attached.items():
            if program["reason"] is not None:
                # With only some of them, begins or ends of waits would be missed.
                self.close()
                raise Unavailable(f"{name}: {program['reason']}")

    def _prepare(self, loading: BpfObject) -> None:
        loading.set_constants(U32.pack(self._recorder))

    def open_gate(self, setup: int) -> None:
        """Start counting.

        :param setup: pid of the process that becomes the command; 0 if it does not exist yet
        :raises Unavailable: the kernel refuses
        """
        self._object.map(".bss").write(U32.pack(0), CONTROL.pack(1, setup))

    def close_gate(self) -> None:
        """Stop counting.

        :raises Unavailable: the kernel refuses
        """
        self._object.map(".bss").write(U32.pack(0), CONTROL.pack(0, 0))

    def close(self) -> None:
        """Detach the programs."""
        self._object.close()

    def read(self) -> dict[str, Any]:
        """Return the sums and counts of waits.json.

        :raises Unavailable: the kernel refuses to read the map, or it is empty
        """
        content = self._object.map("sums").read(U32.pack(0))
        if not content:
            raise Unavailable("the map sums is empty")
        per_cpu = SUMS.iter_unpack(content)
        numbers = [sum(column) for column in zip(*per_cpu)]
        ns, counts = numbers[: len(PARTS)], numbers[len(PARTS) : 2 * len(PARTS)]
        facts = dict(zip(FACTS, numbers[2 * len(PARTS) :]))
        return {
            "tasks": facts["tasks"],
            "left_out": facts["without_slot"],
            "unfinished": facts["tasks"] - facts["without_slot"] - facts["ended"],
            "missed": facts["unmatched"] + sum(self._object.misses().values()),
            "migrations": facts["migrations"],
            "parts": {
                part: {"seconds": ns[index] / 1e9, "count": counts[index]}
                if _is_known(part, facts)
                else None
                for index, part in enumerate(PARTS)
            },
        }


def _is_known(part: str, facts: Mapping[str, int]) -> bool:
    """Return whether the kernel shows how long tasks were in a part."""
    is_shown = part in BLOCKED or facts["knows_waiting"] > 0
    return is_shown and facts.get(f"knows_{part}", 1) > 0
