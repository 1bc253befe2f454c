# SPDX-License-Identifier: GPL-2.0-or-later
"""Preemptions and yields, recorded in the kernel that runs here."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from schedperf.evidence.preemption.capture import parse_preemption
from schedperf.evidence.preemption.places import place_of
from schedperf.runs.off_cpu import OffCpu
from schedperf_collectors.bpf.off_cpu import PREEMPTED, TRACEPOINTS
from schedperf_collectors.bpf.workload import CONSTANTS, WorkloadPrograms
from schedperf_collectors.bpf_preemption import bpf_preemption
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture

pytestmark = pytest.mark.system

# Two processes on one CPU.
TWO = """
import os, time
os.sched_setaffinity(0, {{{cpu}}})
child = os.fork()
{body}
if not child:
    os._exit(0)
os.waitpid(child, 0)
"""
LOOP = "while time.process_time() < 0.3: pass"
YIELD = "for _ in range(3000): os.sched_yield()"

Run = Callable[[str], OffCpu]


@pytest.fixture
def run(capture: Capture) -> Run:
    """Return what is recorded of a program."""
    constants = CONSTANTS.pack(os.getpid(), PREEMPTED, 0, 0, 0)
    try:
        WorkloadPrograms("off_cpu", TRACEPOINTS[PREEMPTED], constants).close()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)

    def record(program: str) -> OffCpu:
        running = bpf_preemption(capture)
        assert [next(running), next(running)] == [PREPARED, BEGUN]
        subprocess.run([sys.executable, "-c", program], check=True)
        assert list(running) == []
        content = (capture.folder / "preemption.json").read_bytes()
        return parse_preemption(content, "preemption.json").off_cpu

    return record


def test_tasks_that_share_a_cpu_are_preempted_in_user_code(run: Run) -> None:
    found = run(TWO.format(cpu=min(os.sched_getaffinity(0)), body=LOOP))
    # Each has to wait while the other one runs, for about 0.3 s together.
    assert sum(pause.durations.ns for pause in found.pauses) > 0.1e9
    places = {place_of(pause) for pause in found.pauses}
    assert places & {"user code", "after a system call"}
    assert all(pause.who for pause in found.pauses)


def test_a_yield_is_told_from_a_preemption(run: Run) -> None:
    found = run(TWO.format(cpu=min(os.sched_getaffinity(0)), body=YIELD))
    yields = sum(pause.durations.count for pause in found.pauses if place_of(pause) == "yield")
    assert yields > 100
