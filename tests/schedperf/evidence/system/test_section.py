# SPDX-License-Identifier: GPL-2.0-or-later
"""Which runs and files the counters are read of, and what is said of the others."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.system.compare import MOST_NAMED
from schedperf.evidence.system.record import SystemMissing, SystemSide

Analyse = Callable[..., Any]
Run = dict[str, Any]
RunOf = Callable[..., Run]
RowOf = Callable[..., Any]
Tasks = Callable[[int, int], Run]


SECONDS = 2.0


def instrumented(run: Run) -> Run:
    return {**run, "kind": "instrumented"}


def test_clean_runs_of_one_side_never_meet_instrumented_ones_of_the_other(
    analyse: Analyse,
    run_of: RunOf,
    row_of: RowOf,
) -> None:
    base = [run_of(entries=5), run_of(entries=5), instrumented(run_of(entries=50))]
    data = analyse(base, [instrumented(run_of(entries=60))])
    assert [one.kind for one in data.sides] == ["instrumented"] * 2
    assert row_of(data, "idle C6 usage", "time").n_base == 1
    assert row_of(data, "idle C6 usage", "time").base == pytest.approx(100.0)


def test_sides_without_a_kind_of_run_in_common_are_not_compared(
    analyse: Analyse, run_of: RunOf
) -> None:
    kinds = [[run_of(entries=5)], [instrumented(run_of(entries=60))]]
    said = "new: system_counters was recorded in instrumented runs only, but clean runs are"
    with pytest.raises(Absent, match=said):
        analyse(*kinds)
    with pytest.raises(Absent, match="new: .* clean runs only, but instrumented runs are"):
        analyse(*reversed(kinds))


def test_what_only_one_side_counted_is_said(analyse: Analyse, run_of: RunOf) -> None:
    lines = {f"IRQ {number}": [1] * 4 for number in range(MOST_NAMED + 2)}
    data = analyse([run_of(throttled=3)], [run_of(throttled=3, group="/b", lines=lines)])
    told = {(one.side, one.group): one.what for one in data.not_compared}
    assert told["base", "cgroup"].startswith("/2cg/a nr_periods, /2cg/a nr_throttled")
    assert told["new", "cgroup"].startswith("/b nr_periods")
    assert told["new", "interrupts"].endswith(" and 2 more")
    assert {one.reason for one in data.not_compared} == {
        "not counted in base",
        "not counted in new",
    }


def test_zeros_and_missing_files_have_no_rows(analyse: Analyse, run_of: RunOf) -> None:
    data = analyse([run_of(entries=5)] * 2, [run_of({"cpufreq": "no policies"}, entries=5)] * 2)
    assert "pressure cpu some" in data.zeros
    assert "idle C6 above" in data.zeros
    assert "idle C6 usage" not in data.zeros
    assert all(row.base or row.new for row in data.rows)
    assert data.missing == (SystemMissing(side="new", what="cpufreq", reason="no policies"),)


@pytest.fixture
def tasks(run_of: RunOf) -> Tasks:
    """Return an instrumented run whose only task switched and moved so often."""

    def look_at(switches: int, migrations: int) -> Run:
        sched = (
            "worker (7, #threads: 1)\n"
            f"nr_switches : {switches}\nse.nr_migrations : {migrations}\n"
            "se.statistics.wait_sum : 30.000000\nse.statistics.wait_count : 10\n"
        )
        record = {
            "schema": "schedperf/task_sched/1",
            "looks": 3,
            "left_out": 0,
            "clock_ns": 9,
            "tasks": [{"pid": 7, "tid": 7, "seen_ns": 5, "sched": sched}],
        }
        run = run_of(entries=50)
        files = {**run["files"], "task_sched/tasks.json": json.dumps(record)}
        return {"files": files, "kind": "instrumented"}

    return look_at


def test_tasks_are_of_instrumented_runs_and_all_else_of_clean_ones(
    analyse: Analyse, run_of: RunOf, row_of: RowOf, tasks: Tasks
) -> None:
    sides = [
        [run_of(entries=5), run_of(entries=5), tasks(400, migrations)] for migrations in (8, 9)
    ]
    data = analyse(*sides)
    assert data.sides[0] == SystemSide(
        side="base",
        runs=2,
        kind="clean",
        seconds=2 * SECONDS,
        task_runs=1,
        cpus=4,
        accounted=0.0,
    )
    assert row_of(data, "idle C6 usage", "time").base == pytest.approx(10.0)
    wait = row_of(data, "tasks all tasks wait_mean")
    assert (wait.base, wait.unit, wait.n_base) == (pytest.approx(0.003), "s", 1)
    moved = row_of(data, "tasks all tasks migrations_mean")
    assert (moved.base, moved.new) == pytest.approx((0.02, 0.0225))
    assert moved.unit == "1/switch"


def test_tasks_are_read_of_runs_without_the_other_counters(
    analyse: Analyse, run_of: RunOf, row_of: RowOf, tasks: Tasks
) -> None:
    looked_at = tasks(400, 8)
    looked_at["files"] = {"task_sched/tasks.json": looked_at["files"]["task_sched/tasks.json"]}
    runs = [run_of(entries=5), looked_at]
    data = analyse(runs, runs)
    assert (data.sides[0].task_runs, data.notes) == (1, ())
    assert row_of(data, "tasks all tasks wait_mean").base == pytest.approx(0.003)


def test_where_all_runs_are_instrumented_nothing_is_counted_twice(
    analyse: Analyse, row_of: RowOf, tasks: Tasks
) -> None:
    runs = [tasks(400, 8), tasks(400, 9)]
    data = analyse(runs, runs)
    assert data.sides[0].kind == "instrumented"
    assert row_of(data, "idle C6 usage", "time").n_base == 2
    assert row_of(data, "tasks all tasks wait_mean").n_base == 2
    assert not [row for row in data.rows if row.field == "wait_sum"]


def test_a_run_that_cannot_be_read_is_left_out_and_said(
    analyse: Analyse, run_of: RunOf, row_of: RowOf
) -> None:
    damaged = run_of(entries=5)
    damaged["files"]["system_counters/facts.json"] = "{"
    half = run_of(entries=5)
    half["files"]["system_counters/after/cpuidle"] = "cpu\tstate\n"
    data = analyse([run_of(entries=5), damaged, half], [run_of(entries=5)] * 2)
    assert data.sides[0].runs == 2
    assert row_of(data, "idle C6 usage", "time").n_base == 1
    assert data.notes[0].startswith("base: boots/0/runs/001/system_counters/facts.json")
    assert any("cpuidle" in note for note in data.notes)


def test_without_a_topology_times_of_cpus_stay_rates(
    analyse: Analyse, run_of: RunOf, row_of: RowOf
) -> None:
    runs = [run_of(idle_us=400_000)] * 2
    cpus: Any
    for cpus in ([], {"0": 1}, None, 7):
        data = analyse(runs, runs, host={"topology": {"cpus": cpus}})
        assert row_of(data, "idle C6 time", "time").base == pytest.approx(0.8)


def test_bundles_without_counters_say_why(analyse: Analyse, run_of: RunOf) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with system_counters"):
        analyse([{}], [{}])
    one = {"files": {"system_counters/facts.json": "[]"}}
    with pytest.raises(Absent, match=r"base: .*facts\.json"):
        analyse([one], [one])
    other = {**run_of(entries=1), "point": {"groups": "9"}}
    with pytest.raises(Absent, match="base and new have no counter in common"):
        analyse([{**run_of(entries=1), "point": {"groups": "1"}}], [other])
