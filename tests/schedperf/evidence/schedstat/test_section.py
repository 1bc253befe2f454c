# SPDX-License-Identifier: GPL-2.0-or-later
"""The section on bundles: what the recorder kept, by the operations of each run."""

from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.schedstat.record import SchedstatSide
from schedperf.evidence.schedstat.section import schedstat

Analyse = Callable[..., Any]
Runs = Callable[..., list[dict[str, Any]]]

BASE = (9000, 9100, 8900, 9050)
NEW = (810, 820, 800, 815)


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(schedstat)


def row_of(data: Any, field: str, basis: str) -> Any:
    return next(row for row in data.rows if (row.field, row.basis) == (field, basis))


def test_runs_of_a_benchmark_are_compared_a_second_and_a_message(
    analyse: Analyse, stat_runs: Runs
) -> None:
    data = analyse(stat_runs(BASE), stat_runs(NEW))
    # 250 ticks of 4 ms; 4 groups of 20 senders and receivers pass 100 messages each.
    assert row_of(data, "lb_gained", "time").total_base == pytest.approx(18025.0)
    assert row_of(data, "lb_gained", "time").base == pytest.approx(18025.0, rel=0.001)
    assert row_of(data, "lb_gained", "operation").unit == "1/message"
    assert row_of(data, "sched_count", "operation").base == pytest.approx(2000 / 160_000)
    reading = next(one for one in data.readings if one.rule == "newidle-pulls")
    assert reading.text == "newidle pulls at MC -91% per message"
    assert data.sides[1] == SchedstatSide(side="new", runs=4, versions=(17,), seconds=4.0)


def test_numbered_domains_are_named_after_the_topology(analyse: Analyse, stat_runs: Runs) -> None:
    # The generated machine has two nodes of two CPUs, each with its cache.
    data = analyse(stat_runs(BASE, version=15), stat_runs(NEW, version=17))
    assert {row.level for row in data.rows} == {"", "MC"}
    assert {one.what.split(",")[0] for one in data.not_compared} == {
        "lb_imbalance",
        "lb_imbalance_load",
    }


def test_a_run_that_cannot_be_read_is_left_out_and_said(analyse: Analyse, stat_runs: Runs) -> None:
    damaged = stat_runs(BASE[:1], files={"schedstat/after": "version 17\ntimestamp 4\ncpu0 1\n"})
    data = analyse([*stat_runs(BASE), *damaged], stat_runs(NEW))
    assert row_of(data, "lb_gained", "time").n_base == 4
    [note] = data.notes
    assert note.startswith(
        "base: boots/0/runs/004/schedstat/after:3: 1 counts (expected 9 in schedstat version 17)"
    )


def test_clean_runs_are_not_mixed_with_instrumented_ones(analyse: Analyse, stat_runs: Runs) -> None:
    instrumented = [{**run, "kind": "instrumented"} for run in stat_runs((5, 5, 5))]
    both = [*stat_runs(BASE), *instrumented]
    for sides, n_base, n_new in (((both, both), 4, 4), ((both, instrumented), 3, 3)):
        row = row_of(analyse(*sides), "lb_gained", "time")
        assert (row.n_base, row.n_new) == (n_base, n_new)


def test_what_the_recorder_said_of_the_switch_is_believed(
    analyse: Analyse, stat_runs: Runs
) -> None:
    files = {"schedstat/schedstat.json": '{"enabled": false}'}
    data = analyse(stat_runs(BASE, files=files), stat_runs(NEW, files=files))
    assert {row.field for row in data.rows} == {"run_delay", "pcount", "wait_mean"}
    assert "kernel.sched_schedstats was 0 in 4 of 4 runs of base" in data.notes[0]


def test_bundles_without_schedstat_say_why(analyse: Analyse, stat_runs: Runs) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with schedstat"):
        analyse([{}], [{}])
    skipped = {
        "collector": "schedstat",
        "path": "boots/0/runs/000/schedstat",
        "status": "skipped",
        "reason": "no /proc/schedstat in this kernel",
    }
    with pytest.raises(Absent, match="schedstat of base: no /proc/schedstat in this kernel"):
        analyse([{}], [{}], captures=[skipped])
    broken = stat_runs((1,), files={"schedstat/before": ""})
    with pytest.raises(
        Absent, match="schedstat/before: empty file; pass a copy of /proc/schedstat"
    ):
        analyse(broken, broken)
