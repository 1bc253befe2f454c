# SPDX-License-Identifier: GPL-2.0-or-later
"""Generators of wakeups.json: a machine of two nodes with two CPUs each, seen by BPF."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.wakeup_latency.capture import parse_wakeups
from schedperf.evidence.wakeup_latency.histogram import bin_of
from schedperf.evidence.wakeup_latency.record import WakeupLatency
from schedperf.evidence.wakeup_latency.section import analyse_sides
from schedperf.model.run import Captured, RunKey, SideOf

Json = dict[str, Any]
US = 1000

WAKEUPS: Json = {
    "schema": "schedperf/wakeup_latency/1",
    "mechanism": "bpf",
    "seconds": 2.0,
    "programs": {
        name: {"mechanism": "tp_btf", "function": name, "reason": None}
        for name in ("sched_wakeup", "sched_wakeup_new", "sched_switch")
    },
    "nodes": {"0": 0, "1": 0, "2": 1, "3": 1},
    "rows": [],
    "lost": {},
    "notes": [],
}


def waits_row(command: str, cpu: int, waits_ns: Mapping[int, int]) -> Json:
    """Return a row of wakeups.json.

    :param waits_ns: number of waits by their duration
    """
    bins: dict[int, int] = {}
    for ns, count in waits_ns.items():
        bins[bin_of(ns)] = bins.get(bin_of(ns), 0) + count
    return {
        "command": command,
        "cpu": cpu,
        "bins": sorted(bins.items()),
        "sum_ns": sum(ns * count for ns, count in waits_ns.items()),
        "max_ns": max(waits_ns),
    }


def with_tail(tail_us: int, step: int = 0) -> Json:
    """Return a run in which 2% of hackbench's waits are in the tail; ``step`` is its noise."""
    body = {(20 + step) * US: 900 - step, (30 + step) * US: 80, (tail_us + step) * US: 20 + step}
    return {
        **WAKEUPS,
        "rows": [
            waits_row("hackbench", 0, body),
            waits_row("hackbench", 2, body),
            waits_row("kworker", 1, {5 * US + 100 * step: 50}),
            waits_row("cron", 1, {5 * US: 1}),
        ],
    }


def side_of(
    name: str, documents: Sequence[Json], boots: Sequence[int] = (), points: Sequence[str] = ("",)
) -> SideOf[Any]:
    """Return the runs of a side, at each of the points."""
    runs = [
        Captured(
            key=RunKey(
                side=name,
                workload="hackbench",
                point=point,
                boot=boots[run] if boots else 0,
                run=run,
            ),
            content=parse_wakeups(json.dumps(document).encode(), f"{name}/{run}"),
        )
        for point in points
        for run, document in enumerate(documents)
    ]
    return SideOf(name=name, kind="instrumented", runs=tuple(runs))


@pytest.fixture
def compare() -> Callable[..., WakeupLatency]:
    """Compare the wakeups.json of two sides."""

    def analyse(base: Sequence[Json], *others: Sequence[Json]) -> WakeupLatency:
        names = ("new", "new2")
        sides = [side_of("base", base)]
        sides += [side_of(name, other) for name, other in zip(names, others, strict=False)]
        return analyse_sides(sides)

    return analyse
