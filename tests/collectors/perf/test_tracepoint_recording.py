# SPDX-License-Identifier: GPL-2.0-or-later
"""Tracepoints are recorded with buffers of a sensible size, and missing ones have a reason."""

from collections.abc import Callable

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.tracepoint_recording import find_tracepoints, record_options

WANTED = {"sched:sched_waking": ("pid",), "sched:sched_switch": ("prev_pid", "next_pid")}


def test_a_tracepoint_that_is_missing_is_a_program_with_a_reason(
    make_system: Callable[..., System],
) -> None:
    text = "ID: 5\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"
    system = make_system({"sys/kernel/tracing/events/sched/sched_waking/format": text})
    [found], programs = find_tracepoints(system, WANTED)
    assert found.name == "sched:sched_waking"
    assert set(programs) == {name.partition(":")[2] for name in WANTED}
    assert programs["sched_waking"]["mechanism"] == "perf"
    missing = programs["sched_switch"]
    assert missing["mechanism"] is None
    assert "no such file or directory" in (missing["reason"] or "")


@pytest.mark.parametrize(("cpus", "buffer"), [(2, "2048K"), (129, "1024K"), (8192, "32K")])
def test_buffers_of_a_large_machine_stay_small(cpus: int, buffer: str) -> None:
    options = record_options([], cpus, "64M")
    assert options[options.index("-m") + 1] == buffer
