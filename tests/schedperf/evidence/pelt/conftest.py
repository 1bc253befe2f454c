# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs whose calls and durations are known, as the recorder writes them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.pelt.section import pelt
from schedperf.evidence.perf_stat.capture import count_wakeups

Json = dict[str, Any]

MARKERS = {"enqueue": ["enqueue_task_fair"], "dequeue": ["dequeue_task_fair"]}
STEP_NS = 50
LOG2_BINS, LINEAR_BINS = 32, 64
# Wakeups of every generated run that has a count of them.
WAKEUPS = 1000


def histogram(calls: int, ns: int) -> Json:
    """Return the durations of calls that all took ``ns``."""
    log2, linear = [0] * LOG2_BINS, [0] * LINEAR_BINS
    log2[max(ns.bit_length() - 1, 0)] = calls
    linear[min(ns // STEP_NS, LINEAR_BINS - 1)] = calls
    return {"timed": calls, "sum_ns": calls * ns, "log2_ns": log2, "linear_ns": linear}


def make_function(calls: Mapping[int, int], ns: int | None = 200, /, **changes: Any) -> Json:
    """Return what is written of one function: two thirds of its calls enqueue, the rest dequeues.

    :param ns: that each call takes; None: calls are not timed
    """
    durations: Json | None = None
    if ns is not None:
        found = {str(cpu): histogram(count, ns) for cpu, count in calls.items()}
        names = ("timed", "sum_ns", "log2_ns", "linear_ns")
        durations = {name: {cpu: one[name] for cpu, one in found.items()} for name in names}
        durations["linear_step_ns"] = STEP_NS
    enqueues = {str(cpu): count * 2 // 3 for cpu, count in calls.items()}
    return {
        "mechanism": "fentry/fexit",
        "tried": {"fentry/fexit": None},
        "calls": {str(cpu): count for cpu, count in calls.items()},
        "contexts": {
            "enqueue": enqueues,
            "dequeue": {str(cpu): count - enqueues[str(cpu)] for cpu, count in calls.items()},
            "tick": dict.fromkeys(enqueues, 0),
        },
        "durations": durations,
        "lost": {"unpaired": 0, "nested": 0},
        **changes,
    }


def make_capture(functions: Mapping[str, Any], **changes: Any) -> Json:
    """Return a pelt.json of a run of two seconds."""
    return {
        "schema": "schedperf/bpf_pelt/1",
        "seconds": 2.0,
        "sampling": 1,
        "functions": functions,
        "contexts": {"mechanism": "fentry/fexit", "markers": MARKERS, "missing": {}},
        "empty_probe": {
            "mechanism": "fentry/fexit",
            "on": "sched_clock_tick",
            "calls": 1000,
            "empty_ns": 30.0,
            "empty_ci": [28.0, 32.0],
            "pair_ns": 90.0,
            "pair_ci": [85.0, 95.0],
            "reads_ns": 40.0,
            "reads_ci": [0.0, 50.0],
        },
        "breakpoints": None,
        "lost_cpus": [],
        "notes": [],
        **changes,
    }


def make_run(
    functions: Mapping[str, Any], *, wakeups: int | None = WAKEUPS, **changes: Any
) -> Json:
    """Return an instrumented run of a bundle with this capture."""
    files = {"bpf_pelt/pelt.json": json.dumps(make_capture(functions, **changes))}
    if wakeups is not None:
        files["perf_stat/perf_stat.csv"] = "".join(
            f"N{node},2,{wakeups // 2},,sched:sched_wakeup,1000,100.00,,\n" for node in (0, 1)
        )
    return {"kind": "instrumented", "files": files}


def stalled(runs: list[Json], calls: int) -> list[Json]:
    """Let so many timed calls of each CPU take 4 ms, as those of a stalled virtual CPU do."""
    for run in runs:
        capture = json.loads(run["files"]["bpf_pelt/pelt.json"])
        durations = capture["functions"]["update_cfs_group"]["durations"]
        for cpu, log2 in durations["log2_ns"].items():
            linear = durations["linear_ns"][cpu]
            at = max(range(len(log2)), key=log2.__getitem__)
            log2[at] -= calls
            log2[21] += calls
            linear[max(range(len(linear)), key=linear.__getitem__)] -= calls
            linear[-1] += calls
            durations["sum_ns"][cpu] += calls * (4_000_000 - 200)
        run["files"]["bpf_pelt/pelt.json"] = json.dumps(capture)
    return runs


@pytest.fixture(scope="session")
def function() -> Callable[..., Json]:
    """Make what is written of one function: ``function({0: 120, 2: 80}, 200)``."""
    return make_function


@pytest.fixture(scope="session")
def capture() -> Callable[..., Json]:
    """Make a pelt.json: ``capture({"update_cfs_group": function({0: 120})}, seconds=2.0)``."""
    return make_capture


@pytest.fixture(scope="session")
def traced() -> Callable[..., Json]:
    """Make an instrumented run: ``traced({"update_cfs_group": function({0: 120})})``."""
    return make_run


@pytest.fixture(scope="session")
def traced_runs() -> Callable[..., list[Json]]:
    """Make runs, one for each number of calls of update_cfs_group on CPU 0; CPU 2 has half."""

    def make(calls: Sequence[int], ns: Sequence[int] = (200,), **changes: Any) -> list[Json]:
        of_function = changes.pop("of_function", {})
        return [
            make_run(
                {
                    "update_cfs_group": make_function(
                        {0: count, 2: count // 2}, ns[number % len(ns)], **of_function
                    )
                },
                **changes,
            )
            for number, count in enumerate(calls)
        ]

    return make


@pytest.fixture
def analyse(analyse_with: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
    """Analyse bundles given as runs: ``analyse(runs_of_base, runs_of_new)``."""
    return analyse_with(lambda sides: pelt(sides, count_wakeups))
