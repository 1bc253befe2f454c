# SPDX-License-Identifier: GPL-2.0-or-later
"""Without BPF the same placement.json comes of what perf records; what it misses is said."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.running import PerfFailed
from schedperf_collectors.perf.tracepoint_samples import Sample
from schedperf_collectors.placement.machine import Machine, Place, read_machine
from schedperf_collectors.placement.perf import (
    LATENCY_BINS,
    WAITING_LIMIT,
    Flow,
    capture_with_perf,
)
from schedperf_collectors.plugin import BEGUN, PREPARED, Capture, Skipped

# CPUs 0 and 1 are one core; 2 shares their cache, 3 their node; 4 is on another node.
MACHINE = Machine(
    {
        0: Place(0, (1, 1, 1, 0)),
        1: Place(0, (1, 1, 1, 0)),
        2: Place(0, (2, 2, 1, 0)),
        3: Place(0, (3, 3, 2, 0)),
        4: Place(1, (4, 4, 4, 1)),
        5: Place(1, (5, 4, 4, 1)),
    },
    possible=8,
    recorder=0,
    levels=("SMT", "CLS", "MC", "PKG"),
    levels_from="topology",
)
MS = 1_000_000
# Two processes that hand one byte to and fro, a prime number of times.
ROUNDS = 307
PING_PONG = f"""
import os
(a, b), (c, d) = os.pipe(), os.pipe()
if os.fork():
    for _ in range({ROUNDS}):
        os.write(b, b"x"), os.read(c, 1)
    os.wait()
else:
    for _ in range({ROUNDS}):
        os.read(a, 1), os.write(d, b"x")
"""


@pytest.fixture
def flow() -> Flow:
    return Flow(MACHINE, start_ns=1000 * MS, end_ns=2000 * MS)


@pytest.fixture
def capture_around(
    capture: Capture,
    needs_perf: None,  # noqa: ARG001 # it skips
    needs_tracefs: None,  # noqa: ARG001 # it skips
) -> Callable[..., Any]:
    """Record a command with perf and return placement.json."""

    def run(*command: str, **options: str) -> Any:
        recording = replace(capture, options=options)
        running = capture_with_perf(recording, read_machine(System()), "BPF is refused")
        try:
            assert [next(running), next(running)] == [PREPARED, BEGUN]
        except Skipped as skipped:
            pytest.skip(skipped.reason)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        assert list(running) == []
        assert [path.name for path in capture.folder.iterdir()] == ["placement.json"]
        return json.loads((capture.folder / "placement.json").read_text())

    return run


def moves_of(document: Any, event: str, *levels: str) -> int:
    return sum(
        each["count"]
        for each in document["moves"]
        if each["event"] == event and each["level"] in (levels or [each["level"]])
    )


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_a_known_number_of_wakeups_and_forks_is_seen(capture_around: Callable[..., Any]) -> None:
    # On one CPU who hands over the byte must sleep before the other can answer.
    cpu = str(min(os.sched_getaffinity(0)))
    document = capture_around("taskset", "-c", cpu, sys.executable, "-c", PING_PONG)
    assert (document["schema"], document["mechanism"]) == ("schedperf/bpf_placement/1", "perf")
    assert document["lost"] == {}
    # A reader that was preempted before it slept needs no wakeup, but then the other one did.
    assert moves_of(document, "wakeup", "CPU") >= ROUNDS - 2
    assert moves_of(document, "fork") >= 2
    assert sum(node["count"] for node in document["latency"]) >= ROUNDS - 2
    for node in document["latency"]:
        assert len(node["log2_ns"]) == LATENCY_BINS
        assert sum(node["log2_ns"]) == node["count"]
        assert node["max_ns"] <= node["sum_ns"]
    in_series = sum(sum(row["counts"]) for row in document["series"]["rows"])
    assert in_series == sum(move["count"] for move in document["moves"])
    assert all(program["mechanism"] == "perf" for program in document["programs"].values())
    assert document["notes"] == ["recorded with perf, because BPF is not available: BPF is refused"]
    assert (document["balance"], document["timers"], document["depth"]) == (None, [], [])
    assert {each["what"] for each in document["invisible"]} == {
        "balance", "timers", "depth", "exec",
    }  # fmt: skip


@pytest.mark.system
@pytest.mark.xdist_group("machine")
def test_a_recording_that_reaches_its_limit_says_that_the_end_is_missing(
    capture_around: Callable[..., Any],
) -> None:
    many = PING_PONG.replace(str(ROUNDS), "30000")
    document = capture_around(sys.executable, "-c", many, perf_limit="1M")
    assert document["lost"]["end of the run"] == 1
    assert document["notes"][-1].startswith("perf stopped at the size limit of 1M")
    assert 0 < moves_of(document, "wakeup") < 60_000
    assert document["seconds"] > 0


@pytest.mark.usefixtures("needs_perf", "needs_tracefs")
def test_a_perf_that_fails_leaves_no_file_behind(capture: Capture) -> None:
    recording = replace(capture, options={"perf_limit": "nonsense"})
    with pytest.raises(PerfFailed):
        list(capture_with_perf(recording, MACHINE, "BPF is refused"))
    assert list(capture.folder.iterdir()) == []


def test_without_perf_both_reasons_are_said(capture: Capture) -> None:
    recording = replace(capture, options={"perf": "/nowhere/perf"})
    with pytest.raises(Skipped, match="BPF is refused; perf is not on PATH") as skipped:
        next(capture_with_perf(recording, MACHINE, "BPF is refused"))
    assert skipped.value.remedy == "run `apt-get install linux-perf`"
    # What mends BPF is better than its replacement.
    with pytest.raises(Skipped) as skipped:
        next(capture_with_perf(recording, MACHINE, "no clang", "apt-get install clang"))
    assert skipped.value.remedy == "apt-get install clang"


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [(0, 0, "CPU"), (0, 1, "SMT"), (4, 5, "CLS"), (0, 2, "MC"), (0, 3, "PKG"), (0, 4, "NUMA")],
)
def test_the_level_of_a_move_is_the_smallest_that_holds_both(
    one: int, other: int, level: str
) -> None:
    assert MACHINE.level_of(MACHINE.places[one], MACHINE.places[other]) == level
    assert MACHINE.level_of(MACHINE.places[other], MACHINE.places[one]) == level


def sched(name: str, at_ms: float, cpu: int, *values: int) -> Sample:
    return Sample(round(at_ms * MS), cpu, f"sched:sched_{name}", values)


def results_of(flow: Flow, *samples: Sample) -> Any:
    for sample in samples:
        flow.see(sample)
    return flow.results()


def move(event: str, cause: str | None, old: int, new: int, level: str) -> dict[str, object]:
    return {
        "event": event, "cause": cause, "from_node": old, "to_node": new, "level": level,
        "count": 1,
    }  # fmt: skip


def test_a_wakeup_goes_from_its_waker_and_a_fork_from_its_parent(flow: Flow) -> None:
    found = results_of(
        flow,
        sched("waking", 1100, 0, 7),
        sched("migrate_task", 1100, 0, 7, 2, 4),
        # The wakeup is reported by the CPU that was sent an interrupt.
        sched("wakeup", 1101, 4, 7, 4),
        sched("wakeup_new", 1102, 3, 8, 3),
        sched("migrate_task", 1103, 1, 7, 4, 1),
    )
    assert found["moves"] == [
        move("migration", "wakeup", 0, 1, "NUMA"),
        move("wakeup", None, 0, 1, "NUMA"),
        move("fork", None, 0, 0, "CPU"),
        move("migration", None, 1, 0, "NUMA"),
    ]


def test_waits_count_on_the_node_that_ended_them(flow: Flow) -> None:
    found = results_of(
        flow,
        sched("wakeup", 1100, 0, 7, 4),
        sched("switch", 1103, 4, 9, 0, 7),
        # 9 was preempted (and runs elsewhere), then 7 sleeps and the CPU idles.
        sched("switch", 1108, 0, 0, 0, 9),
        sched("switch", 1109, 4, 7, 1, 0),
        # Nobody saw since when 11 waited.
        sched("switch", 1110, 4, 0, 0, 11),
        # "R+": the flag of a preempted task is above the states of sleep.
        sched("switch", 1111, 4, 11, 0x100, 12),
        sched("switch", 1112, 4, 12, 1, 11),
    )
    node0, node1 = found["latency"]
    assert (node0["node"], node0["count"], node0["sum_ns"], node0["max_ns"]) == (
        0, 1, 5 * MS, 5 * MS,
    )  # fmt: skip
    assert (node1["node"], node1["count"], node1["sum_ns"], node1["max_ns"]) == (
        1, 2, 4 * MS, 3 * MS,
    )  # fmt: skip
    # 3 ms are between 2^21 and 2^22 ns, 1 ms between 2^19 and 2^20.
    assert {at: count for at, count in enumerate(node1["log2_ns"]) if count} == {19: 1, 21: 1}


def test_only_the_run_itself_is_counted(flow: Flow) -> None:
    found = results_of(
        flow,
        sched("wakeup", 999, 0, 7, 0),
        sched("switch", 1001, 0, 0, 0, 7),
        sched("wakeup", 2001, 0, 8, 0),
    )
    assert found["moves"] == []
    # It waited in the run, and before it.
    assert found["latency"][0]["count"] == 1


def test_steps_grow_so_that_there_are_not_too_many(flow: Flow) -> None:
    found = results_of(flow, sched("wakeup", 1250, 0, 7, 0), sched("wakeup", 1999, 0, 7, 4))
    assert found["series"]["step_s"] == 0.1
    assert [(row["crossing"], row["counts"]) for row in found["series"]["rows"]] == [
        (False, [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]),
        (True, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    ]
    long = Flow(MACHINE, 0, 201_000 * MS)
    found = results_of(long, sched("wakeup", 200_950, 0, 7, 0))
    assert found["series"]["step_s"] == 0.2
    assert len(found["series"]["rows"][0]["counts"]) == 1005


def test_cpus_that_came_later_and_tasks_that_never_ran_are_counted_as_lost(flow: Flow) -> None:
    wake = partial(sched, "wakeup", 1100, 0)
    found = results_of(flow, *(wake(pid, 0) for pid in range(WAITING_LIMIT + 3)), wake(1, 99))
    assert flow.lost == {"waiting tasks": 4, "moves from or to CPUs without a NUMA node": 1}
    assert found["moves"][0]["count"] == WAITING_LIMIT + 3
