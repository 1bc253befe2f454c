# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits from wakeup to running, counted in the kernel that runs here, with BPF and with perf."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.wakeup_latency.checks import independent, print_samples
from schedperf.evidence.wakeup_latency.capture import parse_wakeups
from schedperf.evidence.wakeup_latency.histogram import bin_of as bin_of_analysis
from schedperf.evidence.wakeup_latency.histogram import edges
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.tracepoint_recording import Traced
from schedperf_collectors.perf.tracepoint_samples import Sample
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped
from schedperf_collectors.wakeup_latency import (
    BINS,
    NAMES_LIMIT,
    WAITING_LIMIT,
    Flow,
    Programs,
    _capture_with_perf,
    bin_of,
    wakeup_latency,
)

TRIES = 5
# A process that sleeps a prime number of times.
SLEEPER_NAME = "snooze"
# Prints how often it gave up its CPU; each time it was woken before it ran on.
SLEEPER = f"""
import pathlib, resource, time
def switches():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
pathlib.Path("/proc/self/comm").write_text("{SLEEPER_NAME}/r")
before = switches()
for _ in range(307):
    time.sleep(0.0001)
print(switches() - before)
"""


def woken(pid: int, time_ns: int) -> Sample:
    return Sample(time_ns, 0, "sched:sched_wakeup", (pid,))


def switched(leaving: int, coming: int, comm: bytes, time_ns: int, cpu: int = 0) -> Sample:
    return Sample(time_ns, cpu, "sched:sched_switch", (leaving, coming, comm.ljust(16, b"\0")))


def follow(*samples: Sample) -> list[tuple[str, int, dict[int, int], int]]:
    flow = Flow(1000, 9000)
    for sample in samples:
        flow.see(sample)
    return [(row.command, row.cpu, dict(row.bins), row.max_ns) for row in flow.rows]


def test_a_wait_is_from_the_wakeup_to_the_switch_on_whichever_cpu() -> None:
    assert follow(
        woken(7, 1100),
        switched(0, 8, b"other", 1150, cpu=1),
        switched(0, 7, b"sh", 1200, cpu=3),
    ) == [("sh", 3, {bin_of(100): 1}, 100)]


def test_a_preempted_task_waits_but_was_not_woken() -> None:
    assert follow(
        woken(7, 1100),
        switched(0, 7, b"sh", 1200),
        switched(7, 8, b"other", 1300),
        switched(8, 7, b"sh", 1900),
    ) == [("sh", 0, {bin_of(100): 1}, 100)]


def test_a_task_that_is_woken_while_it_runs_does_not_wait() -> None:
    # Its next switch comes after a preemption, or after another wakeup.
    assert (
        follow(
            switched(0, 7, b"sh", 1100),
            woken(7, 1150),
            switched(7, 8, b"other", 1200),
            switched(8, 7, b"sh", 1900),
        )
        == []
    )


def test_wakeups_before_the_run_and_switches_after_it_are_not_counted() -> None:
    assert (
        follow(
            woken(7, 999),
            switched(0, 7, b"sh", 1200),
            woken(8, 8000),
            switched(0, 8, b"sh", 9001),
        )
        == []
    )


def test_idle_tasks_never_wait() -> None:
    assert follow(woken(0, 1100), switched(7, 0, b"swapper/0", 1200)) == []


def test_waiting_tasks_and_commands_are_limited() -> None:
    flow = Flow(0, 10**9)
    for pid in range(1, WAITING_LIMIT + 3):
        flow.see(woken(pid, pid))
    assert flow.lost == 2
    flow = Flow(0, 10**9)
    for pid in range(1, NAMES_LIMIT + 3):
        flow.see(woken(pid, pid))
        flow.see(switched(0, pid, b"c%d" % pid, pid))
    assert [row.command for row in flow.rows][-1] == ""
    assert len([*flow.rows]) == NAMES_LIMIT + 1


@given(st.integers(0, 1 << 40))
def test_bins_are_those_of_the_analysis(ns: int) -> None:
    number = bin_of(ns)
    assert number == bin_of_analysis(ns)
    low, high = edges(number)
    assert low <= ns
    assert ns < high or number == BINS - 1
    assert high - low <= max(4, low / 16)


def read_waits(capture: Capture) -> tuple[Any, Counter[str]]:
    """Return wakeups.json, and how many waits of each command it has."""
    content = (capture.folder / "wakeups.json").read_bytes()
    document = json.loads(content)
    assert all(program["reason"] is None for program in document["programs"].values())
    waits = Counter[str]()
    for each in parse_wakeups(content, "wakeups.json").waits:
        waits[each.command] += each.count
    return document, waits


def run_sleeper() -> int:
    command = [sys.executable, "-c", SLEEPER]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def capture_sleeper(capture: Capture) -> tuple[Any, int, int]:
    """Return wakeups.json, how often the sleeper slept, and how many waits were counted."""
    running = wakeup_latency(capture)
    assert [next(running), next(running)] == [PREPARED, BEGUN]
    sleeps = run_sleeper()
    assert list(running) == []
    document, waits = read_waits(capture)
    return document, sleeps, waits[SLEEPER_NAME]


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_bpf_counts_each_wakeup(capture: Capture) -> None:
    try:
        Programs(System()).close()
    except Unavailable as unavailable:
        pytest.skip(unavailable.reason)
    # The kernel drops some switches, without counting them, while another process traces, too.
    for _ in range(TRIES):
        document, sleeps, waits = capture_sleeper(capture)
        # It also waits before it counts and after that.
        if sleeps <= waits <= sleeps + 20:
            break
    assert sleeps <= waits <= sleeps + 20
    assert document["mechanism"] == "bpf"
    assert {row["cpu"] for row in document["rows"]} <= {int(cpu) for cpu in document["nodes"]}


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_without_bpf_perf_counts_them(
    capture: Capture,
    monkeypatch: pytest.MonkeyPatch,
    needs_perf: None,  # noqa: ARG001 # it skips
    needs_tracefs: None,  # noqa: ARG001 # it skips
) -> None:
    printed: list[dict[str, int]] = []

    def print_waits(traced: Traced) -> None:
        waits = independent(print_samples(traced), traced.start_ns, traced.end_ns)["wakeup"]
        printed.append({command: len(each) for command, each in waits.items()})
        traced.path.unlink()

    monkeypatch.setattr(Traced, "remove", print_waits)
    running = _capture_with_perf(System(), capture, Unavailable("BPF is refused"))
    try:
        assert [next(running), next(running)] == [PREPARED, BEGUN]
    except Skipped as skipped:
        pytest.skip(skipped.reason)
    run_sleeper()
    assert list(running) == []
    assert [path.name for path in capture.folder.iterdir()] == ["wakeups.json"]
    document, waits = read_waits(capture)
    # Those that perf recorded, which may lack even all of one command.
    assert printed == [waits]
    assert document["mechanism"] == "perf"
    assert document["notes"] == [
        "recorded with perf, because BPF is not available: BPF is refused",
        "perf may miss wakeups without reporting it",
    ]


def test_an_ordinary_user_is_told_what_to_do(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_system: System) -> None:
        raise Unavailable("bpf: operation not permitted")

    monkeypatch.setattr("schedperf_collectors.wakeup_latency.Programs", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Skipped, match="bpf: operation not permitted") as skipped:
        next(wakeup_latency(capture))
    assert skipped.value.remedy == "run as root"


def test_a_tracepoint_that_is_missing_is_named(
    capture: Capture, make_system: Callable[..., System], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "schedperf_collectors.perf.tracepoint_recording.System", lambda: make_system({})
    )
    running = _capture_with_perf(System(), capture, Unavailable("BPF is refused"))
    with pytest.raises(Skipped, match="BPF is refused; perf"):
        next(running)
