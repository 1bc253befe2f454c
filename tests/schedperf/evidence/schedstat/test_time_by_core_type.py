# SPDX-License-Identifier: GPL-2.0-or-later
"""Run time and waits of hybrid machines are compared per type of CPU core."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from schedperf.evidence.schedstat.compare import analyse_sides
from schedperf.evidence.schedstat.findings import core_types
from schedperf.evidence.schedstat.levels import CpuGroups, levels_of
from schedperf.evidence.schedstat.measure import SchedCounts
from schedperf.evidence.schedstat.perf_sched import parse_sched_stats_report
from schedperf.evidence.schedstat.record import Schedstat
from schedperf.evidence.schedstat.section import schedstat
from schedperf.model.host import Topology
from schedperf.model.run import Captured, RunKey, SideOf

TYPES = {"cpu_core": frozenset({0, 1}), "cpu_atom": frozenset({2})}
MS = 10**6

Cpus = Sequence[Mapping[str, int]]


def cpus(core_ms: int, atom_ms: int, atom_wait_ms: int) -> Cpus:
    """Return the counts of two P-cores, which share the run time, and an E-core."""
    core = {"rq_cpu_time": core_ms * MS // 2, "run_delay": 5 * MS, "pcount": 500}
    atom = {"rq_cpu_time": atom_ms * MS, "run_delay": atom_wait_ms * MS, "pcount": 1000}
    return [core, core, atom]


@pytest.fixture
def make_side(make_report: Callable[..., str]) -> Callable[..., SideOf[SchedCounts]]:
    def make(
        name: str, runs: Sequence[Cpus], types: Mapping[str, frozenset[int]] = TYPES
    ) -> SideOf[SchedCounts]:
        made = []
        for number, of_run in enumerate(runs):
            text = make_report(17, dict(enumerate(of_run)), name="MC", jiffies=500)
            change = parse_sched_stats_report(text.splitlines(), name)
            content = SchedCounts(
                seconds=2.0,
                is_enabled=None,
                change=change,
                levels=levels_of(change.domains, CpuGroups(Topology())),
                cpus_of_types=types,
            )
            key = RunKey(side=name, workload="w", point="", boot=0, run=number, order=number)
            made.append(Captured(key=key, content=content))
        return SideOf(name=name, kind="clean", runs=tuple(made))

    return make


def values(data: Schedstat) -> dict[tuple[str, str], tuple[float | None, float | None]]:
    return {(row.core_type, row.field): (row.base, row.new) for row in data.core_types}


def test_shares_and_waits_of_each_type(make_side: Callable[..., Any]) -> None:
    base = make_side("base", [cpus(300, 100 + run, 2) for run in range(3)])
    new = make_side("new", [cpus(100, 300 + run, 20) for run in range(3)])
    data = analyse_sides([base, new])
    found = values(data)
    assert found["cpu_core", "rq_cpu_time"] == pytest.approx((0.75, 0.25), rel=0.02)
    assert found["cpu_atom", "rq_cpu_time"] == pytest.approx((0.25, 0.75), rel=0.02)
    # 500 timeslices on each P-core, 1000 on the E-core.
    assert found["cpu_atom", "pcount"] == pytest.approx((0.5, 0.5))
    assert found["cpu_core", "wait_mean"] == pytest.approx((1e-5, 1e-5))
    assert found["cpu_atom", "wait_mean"] == pytest.approx((2e-6, 2e-5))
    [finding] = core_types(data)
    assert finding.clause == (
        "whole machine: tasks spend 75.1% of their run time on cpu_atom instead of 25.2%"
    )


def test_one_side_has_its_shares(make_side: Callable[..., Any]) -> None:
    data = analyse_sides([make_side("base", [cpus(300, 100, 2)])])
    assert values(data)["cpu_atom", "rq_cpu_time"] == (0.25, None)
    assert not list(core_types(data))


def test_chosen_cpus_alone_are_counted(make_side: Callable[..., Any]) -> None:
    data = analyse_sides([make_side("base", [cpus(300, 100, 2)])], [0, 2])
    assert values(data)["cpu_atom", "rq_cpu_time"] == (0.4, None)


def test_types_without_counted_cpus_have_no_shares(make_side: Callable[..., Any]) -> None:
    data = analyse_sides([make_side("base", [cpus(300, 100, 2)])], [0, 1])
    assert {field for _, field in values(data)} == {"wait_mean", "slice_mean"}


def test_machines_with_one_type_have_no_rows(make_side: Callable[..., Any]) -> None:
    assert analyse_sides([make_side("base", [cpus(300, 100, 2)], {})]).core_types == ()


def test_the_types_are_those_of_host_json(
    analyse_with: Callable[..., Any], stat_runs: Callable[..., Any]
) -> None:
    types = {"cpu_core": {"cpus": "0"}, "cpu_atom": {"cpus": "1"}}
    runs = stat_runs((9000, 9100, 8900))
    data = analyse_with(schedstat)(runs, runs, host={"topology": {"types": types}})
    assert {row.core_type for row in data.core_types} == {"cpu_core", "cpu_atom"}
    assert all(row.n_base == row.n_new == 3 for row in data.core_types)


def test_a_type_without_counted_cpus_leaves_no_shares(
    analyse_with: Callable[..., Any], stat_runs: Callable[..., Any]
) -> None:
    types = {"cpu_core": {"cpus": "0-1"}, "cpu_atom": {"cpus": "2-3"}}
    runs = stat_runs((9000, 9100, 8900))
    data = analyse_with(schedstat)(runs, runs, host={"topology": {"types": types}})
    assert {row.field for row in data.core_types} == {"wait_mean", "slice_mean"}
