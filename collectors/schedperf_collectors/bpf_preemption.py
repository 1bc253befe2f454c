# SPDX-License-Identifier: GPL-2.0-or-later
"""Record where the workload's tasks are preempted or yield, by stack, and how long they then wait.

``preemption.json`` has the schema "schedperf/bpf_preemption/1", the fields that
:mod:`schedperf_collectors.bpf.off_cpu` describes, and ``model``, the preemption model of the kernel
during the run: "none", "voluntary", "lazy", "full" or "rt", null if unknown.
"""

from __future__ import annotations

import json
from collections.abc import Generator

from schedperf_collectors.bpf.off_cpu import PREEMPTED, capture_off_cpu
from schedperf_collectors.machine.kernel import sched_finders
from schedperf_collectors.machine.system import System, or_none
from schedperf_collectors.plugin import Capture, collector

SCHEMA = "schedperf/bpf_preemption/1"
FILE_NAME = "preemption.json"


@collector(
    scope="run",
    intrusive=True,
    default=False,
    cost="1.1 us per context switch on average, with the stacks of preemptions (1% of hackbench's "
    "CPU time); 0.3 to 3 s to load; 42 MiB of kernel memory",
)
def bpf_preemption(capture: Capture) -> Generator[str, None, None]:
    """Record where the workload's tasks are preempted, and how long they then wait."""
    document = yield from capture_off_cpu(capture, PREEMPTED, 0)
    system = System()
    model = or_none(sched_finders(system, {})["preempt"])
    text = json.dumps({"schema": SCHEMA, "model": model, **document})
    (capture.folder / FILE_NAME).write_text(f"{text}\n")
