# SPDX-License-Identifier: GPL-2.0-or-later
"""perf stat counts a known workload, names what it cannot count, and stops with the run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.perf_stat.capture import Counter, parse_perf_stat
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf_stat import (
    HARDWARE_EVENTS,
    SOFTWARE_EVENTS,
    TRACEPOINTS,
    hardware_events,
    perf_stat,
    unreadable_tracepoints,
)
from schedperf_collectors.plugin import ATTACHED, BEGUN, PREPARED, Capture
from schedperf_generators.asymmetric_machines import homogeneous, intel_hybrid

# A prime number, so that no multiple of something else can be taken for it.
FORKS = 97
# Counted by the kernel and not by the tracepoint yet, at one moment.
UNDER_WAY = 8


def fork_often() -> int:
    """Run a shell that forks ``FORKS`` times; return its page faults as the kernel counts them."""
    loop = f"i=0; while [ $i -lt {FORKS} ]; do /bin/true; i=$((i+1)); done"
    _, status, usage = os.wait4(os.posix_spawnp("sh", ["sh", "-c", loop], os.environ), 0)
    assert status == 0
    return usage.ru_minflt + usage.ru_majflt


def count(capture: Capture) -> tuple[Any, list[Counter], int]:
    """Capture around a shell; return perf_stat.json, the counts, and the shell's page faults."""
    running = perf_stat(capture)
    assert [next(running), next(running), next(running)] == [PREPARED, ATTACHED, BEGUN]
    faults = fork_often()
    assert list(running) == []
    facts = json.loads((capture.folder / "perf_stat.json").read_text())
    return facts, read_counters(capture, "perf_stat.csv"), faults


def read_counters(capture: Capture, name: str) -> list[Counter]:
    lines = (capture.folder / name).read_text().splitlines()
    parsed = list(parse_perf_stat(lines, name))
    counters = [counter for counter in parsed if isinstance(counter, Counter)]
    assert len(counters) == len(parsed), "a line of perf's own output is not understood"
    return counters


@pytest.mark.usefixtures("needs_perf")
def test_a_known_number_of_forks_is_counted(
    capture: Capture, forks_since_boot: Callable[[], int]
) -> None:
    before = forks_since_boot()
    facts, counters, _ = count(capture)
    on_this_machine = forks_since_boot() - before
    forks = [each.value or 0 for each in counters if each.event == "sched:sched_process_fork"]
    if not forks:
        pytest.skip(f"no tracepoints here: {facts['not_counted']}")
    # Others may fork on this machine too.
    assert FORKS <= sum(forks) <= on_this_machine + UNDER_WAY


@pytest.mark.usefixtures("needs_perf")
def test_each_event_is_counted_or_has_a_reason(capture: Capture) -> None:
    facts, counters, _ = count(capture)
    wanted = {*SOFTWARE_EVENTS, *TRACEPOINTS, *HARDWARE_EVENTS}
    assert {*facts["events"], *facts["not_counted"]} == wanted
    assert not {*facts["events"]} & {*facts["not_counted"]}
    assert {counter.event for counter in counters} == {*facts["events"]}
    assert all(counter.value is not None for counter in counters)
    assert facts["started"] == "acknowledged"


@pytest.mark.usefixtures("needs_perf")
def test_each_event_of_the_workload_is_counted_or_has_a_reason(capture: Capture) -> None:
    facts, _, faults = count(capture)
    counters = {each.event: each for each in read_counters(capture, "workload.csv")}
    own = facts["workload"]
    assert {*own["events"], *own["not_counted"]} == {
        *HARDWARE_EVENTS, *SOFTWARE_EVENTS, "task-clock",
    } - {"cpu-clock"}  # fmt: skip
    assert [*counters] == own["events"]
    assert facts["no_workload"] is None
    assert all(each.node is None and each.value is not None for each in counters.values())
    # perf also counts faults of exiting tasks, and not those before the shell's exec.
    assert counters["page-faults"].value == pytest.approx(faults, rel=0.1)
    assert counters["task-clock"].unit == "s"


@pytest.mark.usefixtures("needs_perf")
def test_a_perf_that_cannot_count_tasks_counts_the_machine(
    capture: Capture, tmp_path: Path
) -> None:
    perf = tmp_path / "perf"
    refusal = "Error: No such process"
    perf.write_text(
        f'#!/bin/sh\n[ "$2" != -p ] || {{ echo "{refusal}" >&2; exit 255; }}\nexec perf "$@"\n'
    )
    perf.chmod(0o755)
    facts, counters, _ = count(replace(capture, options={"perf": str(perf)}))
    assert facts["workload"] is None
    assert "No such process" in facts["no_workload"]
    assert not (capture.folder / "workload.csv").exists()
    assert {counter.event for counter in counters} == {*facts["events"]}


# Two processes that wake each other through pipes, until this many switches.
SWITCHES = 20_000
BESIDE = f"""
import os
ours, theirs = os.pipe(), os.pipe()
if os.fork():
    for _ in range({SWITCHES} // 2):
        os.write(ours[1], b".")
        os.read(theirs[0], 1)
    os.wait()
else:
    for _ in range({SWITCHES} // 2):
        os.read(ours[0], 1)
        os.write(theirs[1], b".")
"""


@pytest.mark.usefixtures("needs_perf")
@pytest.mark.parametrize("setup", [(), ("--setup", "true")], ids=["without a setup", "setup"])
def test_a_load_beside_the_workload_is_counted_for_the_machine_only(
    recorder: Any, read_bundle: Any, setup: tuple[str, ...]
) -> None:
    # The workload waits for the load, once in the clean and once in the instrumented run.
    (recorder.folder / "load.py").write_text(BESIDE)
    load = (
        "for n in 1 2; do while [ ! -e begin ]; do sleep 0.1; done; rm begin; "
        f"{sys.executable} load.py; touch over; done"
    )
    workload = "touch begin; while [ ! -e over ]; do sleep 0.2; done; rm over"
    with subprocess.Popen(["sh", "-c", load], cwd=recorder.folder) as beside:
        done = recorder(
            *("record", "-o", "a.tar", "-n", "1", "--instrumented", "1", "--warmup", "0"),
            *("--with", "perf_stat", *setup, "--", "sh", "-c", workload),
        )
        beside.kill()
    assert done.returncode == 0, done.stderr
    members = read_bundle(recorder.folder / "a.tar").members
    [folder] = {name.rpartition("/")[0] for name in members if name.endswith("/workload.csv")}
    of_workload, of_machine = (
        sum(
            counter.value or 0
            for counter in parse_perf_stat(members[f"{folder}/{name}"].decode().splitlines(), name)
            if isinstance(counter, Counter) and counter.event == "context-switches"
        )
        for name in ("workload.csv", "perf_stat.csv")
    )
    assert 0 < of_workload < SWITCHES / 4 < of_machine - of_workload


@pytest.mark.usefixtures("needs_perf")
def test_events_are_counted_per_node(capture: Capture) -> None:
    facts, counters, _ = count(capture)
    assert facts["per_node"]
    assert all(counter.node is not None for counter in counters)


@pytest.mark.usefixtures("needs_perf")
def test_a_perf_that_knows_no_nodes_counts_the_whole_machine(
    capture: Capture, old_perf: Callable[[str], str]
) -> None:
    facts, counters, _ = count(replace(capture, options={"perf": old_perf("--per-node")}))
    assert not facts["per_node"]
    assert [counter.event for counter in counters if counter.node is None] == facts["events"]


@pytest.mark.usefixtures("needs_perf")
def test_a_user_without_rights_is_told_what_mends_it(run_as_nobody: Callable[[str], str]) -> None:
    assert run_as_nobody("perf_stat") == (
        "Skipped perf is not permitted for this user "
        "run as root, or set kernel.perf_event_paranoid to -1 with sysctl\n"
    )


def test_tracepoints_that_cannot_be_read_are_left_out(
    make_system: Callable[..., System],
) -> None:
    older_place = "sys/kernel/debug/tracing/events/sched/sched_switch/id"
    reasons = unreadable_tracepoints(make_system({older_place: "316\n"}))
    assert {*TRACEPOINTS} - {*reasons} == {"sched:sched_switch"}
    assert reasons["sched:sched_wakeup"] == (
        "/sys/kernel/tracing/events/sched/sched_wakeup/id: no such file or directory"
    )


def test_hybrid_machines_count_each_type_of_core(make_system: Callable[..., System]) -> None:
    system = make_system(intel_hybrid().files())
    # A perf that accepts the names, and one that does not.
    events = hardware_events("true", system)
    assert events[:2] == ("cpu_core/cycles/", "cpu_atom/cycles/")
    assert len(events) == 2 * len(HARDWARE_EVENTS)
    assert hardware_events("false", system) == HARDWARE_EVENTS


def test_other_machines_count_each_event_once(make_system: Callable[..., System]) -> None:
    assert hardware_events("true", make_system(homogeneous().files())) == HARDWARE_EVENTS
