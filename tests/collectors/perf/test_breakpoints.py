# SPDX-License-Identifier: GPL-2.0-or-later
"""Execution breakpoints count a known number of calls, and a perf that fails costs nothing else."""

import ctypes
import os
import signal
from pathlib import Path

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.perf.breakpoints import (
    BreakpointCounts,
    breakpoints_counting,
    read_counts,
    try_breakpoints,
)
from tests.programs import lives

# A prime number, so that no multiple of something else can be taken for it.
CALLS = 97
LIBC = ctypes.CDLL(None)
# Nobody but this process calls a function at this address: the C library lies elsewhere in each.
OWN = {"getppid": ctypes.cast(LIBC.getppid, ctypes.c_void_p).value or 0}
TWO = {"update_cfs_group": 0xFFFFFFFF810DECE0, "update_load_avg": 0xFFFFFFFF810DAFC0}
WRITTEN = """\
# started on Fri Nov 21 11:00:00 2025

CPU0,120,,mem:0xffffffff810dece0:x,9953921,100.00,,
CPU2,90,,mem:0xffffffff810dece0:x,9953921,100.00,,
CPU3,<not counted>,,mem:0xffffffff810dece0:x,0,0.00,,
CPU0,7,,mem:0xffffffff810dafc0:x,9953921,100.00,,
CPU2,0,,mem:0xffffffff810dafc0:x,9953921,100.00,,
CPU3,<not counted>,,mem:0xffffffff810dafc0:x,0,0.00,,
CPU0,1,,mem:0xffffffff81000000:x,9953921,100.00,,
CPU0,1,,cpu-clock,9953921,100.00,,
"""


@pytest.fixture
def needs_breakpoints() -> None:
    """Skip where not even user space can be counted by breakpoints."""
    try:
        try_breakpoints("perf", OWN)
    except Unavailable as error:
        pytest.skip(f"no breakpoints here: {error.reason}")


@pytest.mark.usefixtures("needs_perf", "needs_breakpoints")
def test_a_known_number_of_calls_is_counted_exactly() -> None:
    with breakpoints_counting("perf", OWN) as counts:
        counts.begin()
        for _ in range(CALLS):
            LIBC.getppid()
    LIBC.getppid()
    assert counts.reason == ""
    assert sum(counts.calls["getppid"].values()) == CALLS
    assert set(counts.calls["getppid"]) >= os.sched_getaffinity(0)


@pytest.mark.usefixtures("needs_perf")
def test_more_breakpoints_than_a_cpu_has_are_refused() -> None:
    many = {f"function{number}": OWN["getppid"] + 64 * number for number in range(32)}
    with pytest.raises(Unavailable) as refused:
        try_breakpoints("perf", many)
    assert refused.value.reason
    assert "\n" not in refused.value.reason


def test_a_perf_that_is_missing_is_a_reason() -> None:
    with pytest.raises(Unavailable, match="no-such-perf is not on PATH"):
        try_breakpoints("no-such-perf", OWN)


def test_a_perf_that_prints_nothing_is_no_success() -> None:
    with pytest.raises(Unavailable, match="perf reported no counts"):
        try_breakpoints("true", OWN)


def test_a_perf_that_ends_at_once_is_a_reason() -> None:
    with breakpoints_counting("false", OWN) as counts:
        pass
    assert counts.reason.startswith("perf: exit status 1")
    assert counts.calls == {}


@pytest.mark.usefixtures("needs_perf", "needs_breakpoints")
def test_a_perf_that_is_killed_meanwhile_is_a_reason(tmp_path: Path) -> None:
    program = tmp_path / "perf"
    program.write_text(f'#!/bin/sh\necho $$ >{tmp_path}/pid\nexec perf "$@"\n')
    program.chmod(0o755)
    with breakpoints_counting(str(program), OWN) as counts:
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        assert not lives(pid)
    assert counts.reason.startswith("perf was killed by SIGKILL")
    assert counts.calls == {}


def test_nothing_to_count_needs_no_perf() -> None:
    with breakpoints_counting("no-such-perf", {}) as counts:
        pass
    assert counts == BreakpointCounts()


def test_what_perf_writes_is_read_by_cpu() -> None:
    counts = BreakpointCounts()
    read_counts(WRITTEN, TWO, counts)
    assert counts.calls == {"update_cfs_group": {0: 120, 2: 90}, "update_load_avg": {0: 7, 2: 0}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 1000,
        WRITTEN.replace("810dafc0", "810dafc1"),
        WRITTEN[:100],
        "CPU0,1,,mem:0x:x,\n",
    ],
)
def test_what_lacks_a_function_is_no_count(text: str) -> None:
    with pytest.raises(Unavailable, match="perf reported no counts"):
        read_counts(text, TWO, BreakpointCounts())
