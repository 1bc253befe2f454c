# SPDX-License-Identifier: GPL-2.0-or-later
"""Generators of placement.json: a machine of two nodes with two CPUs each, seen by BPF."""

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import pytest

from schedperf.evidence.placement.capture import PlacementCapture, parse_placement
from schedperf.evidence.placement.record import Placement
from schedperf.evidence.placement.section import analyse_sides
from schedperf.model.run import Captured, Operations, RunKey, SideOf

Json = dict[str, Any]

TRACEPOINTS = (
    "sched_wakeup_new", "sched_process_exec", "sched_wakeup", "sched_migrate_task",
    "sched_switch", "hrtimer_expire_entry",
)  # fmt: skip
BALANCER = ("find_idlest_group", "find_busiest_group", "load_balance", "can_migrate_task")


def program(mechanism: str | None, function: str, reason: str | None = None) -> Json:
    return {"mechanism": mechanism, "function": function, "reason": reason}


def log2_of(counts: Mapping[int, int]) -> list[int]:
    return [counts.get(place, 0) for place in range(40)]


def phases_of(*bins: int, each: int = 10) -> list[int]:
    return [each * bins.count(place) for place in range(64)]


def move(event: str, count: int, nodes: tuple[int, int] = (0, 0), **chosen: Any) -> Json:
    level = "NUMA" if nodes[0] != nodes[1] else "MC"
    return {
        "event": event, "cause": None, "from_node": nodes[0], "to_node": nodes[1], "level": level,
        "count": count, **chosen,
    }  # fmt: skip


def timer(group: str, phases: Sequence[int], **chosen: Any) -> Json:
    return {
        "group": group, "period_ns": 100_000_000, "expiries": sum(phases), "phases": phases,
        "first_ns": 5_000_000_000, "overruns": 0, **chosen,
    }  # fmt: skip


PLACEMENT: Json = {
    "schema": "schedperf/bpf_placement/1",
    "mechanism": "bpf",
    "seconds": 2.0,
    "programs": {
        **{name: program("tp_btf", name) for name in TRACEPOINTS},
        **{f"{name}_exit": program("fexit", name) for name in BALANCER},
        "select_marker": program("fentry", "select_task_rq_fair"),
    },
    "nodes": {"0": 0, "1": 0, "2": 1, "3": 1},
    "moves": [
        move("fork", 900),
        move("fork", 100, (0, 1)),
        move("wakeup", 8000),
        move("migration", 300, (0, 1), cause="load_balance"),
        move("migration", 100, cause="wakeup"),
    ],
    "series": {
        "step_s": 0.1,
        "rows": [
            {"event": "migration", "cause": "load_balance", "crossing": True, "counts": [15] * 20},
            {"event": "migration", "cause": "wakeup", "crossing": False, "counts": [5] * 20},
        ],
    },
    "latency": [
        {"node": 0, "log2_ns": log2_of({10: 5000}), "sum_ns": 7_500_000, "count": 5000,
         "max_ns": 2000},
        {"node": 1, "log2_ns": log2_of({12: 5000}), "sum_ns": 30_000_000, "count": 5000,
         "max_ns": 8000},
    ],
    "depth": [{"depth": 0, "switches": 100}, {"depth": 2, "switches": 300}],
    "balance": {
        "destination": [
            {"level": "NUMA", "from_node": 0, "to_node": None, "fork": True, "count": 900},
            {"level": "NUMA", "from_node": 0, "to_node": 1, "fork": True, "count": 100},
        ],
        "source": [
            {"level": "MC", "idle": "newidle", "answer": "found", "count": 40},
            {"level": "MC", "idle": "newidle", "answer": "balanced", "count": 160},
        ],
        "attempts": [
            {"level": "MC", "idle": "newidle", "node": 0, "count": 200, "pulled": 30,
             "some_pinned": 20, "all_pinned": 5},
        ],
        "migratable": [
            {"level": "MC", "idle": "newidle", "answer": True, "some_pinned": 0, "count": 30},
            {"level": "MC", "idle": "newidle", "answer": False, "some_pinned": 25, "count": 90},
        ],
        "group_imbalance": [{"level": "MC", "count": 10}],
    },
    "timers": [timer("/a", phases_of(0)), timer("/b", phases_of(16))],
    "invisible": [{"what": "find_idlest_cpu", "reason": "inlined"}],
    "lost": {"moves": 0},
    "notes": [],
}  # fmt: skip


def _make_placement(**chosen: Any) -> Json:
    return deepcopy(PLACEMENT) | chosen


@pytest.fixture(scope="session")
def make_placement() -> Callable[..., Json]:
    """Return what a placement.json holds; top-level keys can be replaced."""
    return _make_placement


@pytest.fixture(scope="session")
def make_move() -> Callable[..., Json]:
    """Return one entry of moves: ``make_move("fork", 100, (0, 1), cause=None)``."""
    return move


@pytest.fixture(scope="session")
def make_timer() -> Callable[..., Json]:
    """Return one timer whose expiries are in these bins: ``make_timer("/a", 0, 1, each=10)``."""
    return lambda group, *bins, each=10, **chosen: timer(
        group, phases_of(*bins, each=each), **chosen
    )


@pytest.fixture(scope="session")
def make_program() -> Callable[..., Json]:
    """Return one entry of programs: ``make_program(None, "load_balance", "EPERM")``."""
    return program


def _place_side(
    name: str, contents: Sequence[Json], operations: float | None = 1000.0
) -> SideOf[PlacementCapture]:
    return SideOf(
        name=name,
        kind="instrumented",
        runs=tuple(
            Captured(
                key=RunKey(side=name, workload="hackbench", point="groups=4", boot=0, run=run),
                ops=None if operations is None
                else Operations(count=operations, unit="message", exact=True),
                content=parse_placement(json.dumps(content).encode(), f"{name}:{run}"),
            )
            for run, content in enumerate(contents)
        ),
        notes=(),
    )  # fmt: skip


@pytest.fixture(scope="session")
def place_side() -> Callable[..., SideOf[PlacementCapture]]:
    """Parse the runs of a side: ``place_side("base", [make_placement()], operations=1000.0)``."""
    return _place_side


@pytest.fixture(scope="session")
def analyse_runs() -> Callable[..., Placement]:
    """Analyse sides that are given as lists of contents, base first."""
    names = ("base", "new", "new2")
    return lambda *sides: analyse_sides([_place_side(*one) for one in zip(names, sides)])  # noqa: B905 # fewer sides than names
