# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of runs of one workload and point are compared; what could not be counted is said."""

import json
from collections.abc import Callable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

import numpy as np
import pytest

from schedperf.evidence import Absent
from schedperf.evidence.perf_stat.record import (
    Counters,
    CounterSide,
    NotCounted,
)
from schedperf.evidence.perf_stat.section import counters
from schedperf.model.sections import MissingSide

# One run: counts by event, per node.
Counts = Mapping[str, Sequence[float | str]]
Analyse = Callable[..., Any]

BASE = (100.0, 104.0, 96.0)
# A change is one of geometric means, so what stands beside it is one too.
MEAN = geometric_mean(BASE)
NEW = (150.0, 156.0, 144.0)


def csv(counts: Counts, *, per_node: bool = True, percent: float = 100.0) -> str:
    return "".join(
        f"{f'N{node},2,' if per_node else ''}{value},,{event},1000,{percent:.2f},,\n"
        for event, values in counts.items()
        for node, value in enumerate(values)
    )


def run(text: str, **chosen: object) -> dict[str, object]:
    files = {"perf_stat/perf_stat.csv": text}
    return {"kind": "instrumented", "time_s": 1.99, "files": files, **chosen}


def switches(values: Sequence[float]) -> list[dict[str, object]]:
    return [run(csv({"sched:sched_switch": [value]})) for value in values]


@pytest.fixture
def analyse(analyse_with: Callable[..., Analyse]) -> Analyse:
    return analyse_with(counters)


def by_basis(data: Counters) -> dict[str, Any]:
    return {row.basis: row for row in data.rows}


def test_rates_stand_beside_the_totals_of_a_run(analyse: Analyse) -> None:
    # The runs take 1.99 s and 0.01 s more from fork to exit.
    row = by_basis(analyse(switches(BASE), switches(NEW)))["time"]
    assert (row.row, row.side, row.event, row.node) == (
        "new-0", "new", "sched:sched_switch", None,
    )  # fmt: skip
    assert row.total_new / row.total_base == pytest.approx(row.ratio)
    assert row.total_base == pytest.approx(MEAN)
    assert [len(row.values_base), len(row.values_new)] == [3, 3]
    assert row.unit == "1/s"
    assert row.base == pytest.approx(50.0, rel=0.001)
    assert row.ratio == pytest.approx(1.5)
    assert row.ci_low < 1.5 < row.ci_high
    assert (row.n_base, row.n_new, row.replication) == (3, 3, "runs")


@pytest.mark.parametrize(("counted_s", "rate"), [(2.5, 40.0), (0.5, 50.0)])
def test_rates_are_a_second_of_the_time_that_perf_counted(
    analyse: Analyse, counted_s: float, rate: float
) -> None:
    # perf counts longer than the run of 2 s; a shorter time would not be of the whole run.
    line = f"N0,2,100,,sched:sched_switch,{2e9 * counted_s:.0f},100.00,,\n"
    row = by_basis(analyse([run(line)] * 3, [run(line)] * 3))["time"]
    assert row.base == pytest.approx(rate, rel=0.001)


def test_a_benchmark_that_says_what_it_did_has_rates_an_operation(analyse: Analyse) -> None:
    rows = by_basis(analyse(switches(BASE), switches(NEW)))
    assert set(rows) == {"time", "operation"}
    per_operation = rows["operation"]
    counted, _, operation = per_operation.unit.partition("/")
    assert (counted, bool(operation)) == ("1", True)
    assert per_operation.ratio == pytest.approx(1.5)


def test_a_clock_of_all_cpus_has_no_rate_an_operation(analyse: Analyse) -> None:
    def clock(values: Sequence[float]) -> list[dict[str, object]]:
        lines = [f"N0,2,{value},msec,cpu-clock,{value * 1e6:.0f},100.00,,\n" for value in values]
        return [run(line) for line in lines]

    rows = by_basis(analyse(clock([2000.0, 2010.0, 1990.0]), clock([2000.0, 2020.0, 1980.0])))
    assert set(rows) == {"time"}
    assert rows["time"].unit == "s/s"


def test_boots_are_what_is_independent(analyse: Analyse) -> None:
    # Runs of one boot are alike and boots are not, so that runs alone would show a change.
    def of_boots(*values: float) -> list[dict[str, object]]:
        return [
            run(csv({"page-faults": [value + number]}), boot=boot)
            for boot, value in enumerate(values)
            for number in range(4)
        ]

    data = analyse(of_boots(1000.0, 2000.0), of_boots(1100.0, 2900.0))
    row = by_basis(data)["time"]
    assert (row.n_base, row.n_new, row.replication) == (2, 2, "boots")
    assert not row.changed
    assert 0.0 < row.ci_low < 1.0 < row.ci_high


def test_a_difference_beyond_chance_has_a_small_q_and_equal_sides_none(analyse: Analyse) -> None:
    base, new = ([mean + number for number in range(10)] for mean in (1000.0, 1500.0))
    row = by_basis(analyse(switches(base), switches(new)))["time"]
    assert row.q < 0.001
    same = by_basis(analyse(switches(base), switches(base)))["time"]
    assert same.changed is False


def test_nodes_are_shown_beside_their_sum(analyse: Analyse) -> None:
    text = csv({"sched:sched_switch": [60, 40], "cpu-migrations": [3, 4]})
    rows = analyse([run(text)] * 2, [run(text)] * 2).rows
    found = {(row.event, row.node): row.total_base for row in rows}
    assert found == {
        ("sched:sched_switch", None): 100.0,
        ("sched:sched_switch", 0): 60.0,
        ("sched:sched_switch", 1): 40.0,
        ("cpu-migrations", None): 7.0,
        ("cpu-migrations", 0): 3.0,
        ("cpu-migrations", 1): 4.0,
    }


def test_many_nodes_do_not_hide_what_changed_on_the_machine(analyse: Analyse) -> None:
    def noisy(seed: int, mean: float) -> list[dict[str, object]]:
        rng = np.random.default_rng(seed)
        return [
            run(csv({"alone": [mean + value], "noise": rng.normal(100.0, 9.0, 64).tolist()}))
            for value in rng.normal(0.0, 3.0, 5)
        ]

    rows = analyse(noisy(1, 100.0), noisy(2, 107.0)).rows
    [row] = [row for row in rows if (row.event, row.node, row.basis) == ("alone", None, "time")]
    # Among the 66 places in which something was counted it would cost ten times as much.
    assert row.q < 3.0 * row.p


def test_one_node_alone_says_the_same_as_the_sum(analyse: Analyse) -> None:
    rows = analyse(switches(BASE), switches(NEW)).rows
    assert {row.node for row in rows} == {None}


def test_a_sum_without_one_node_is_no_sum(analyse: Analyse) -> None:
    text = csv({"cycles": [60, "<not counted>"], "page-faults": [1, 2]})
    rows = analyse([run(text)] * 2, [run(text)] * 2).rows
    assert {row.node for row in rows if row.event == "cycles"} == {0}


def test_with_a_damaged_line_nothing_is_a_sum(analyse: Analyse) -> None:
    whole = csv({"cycles": [60, 40], "page-faults": [1, 2]})
    damaged = whole.replace("N1,2,40,,cycles", "N1,2,x,,cycles")
    rows = analyse([run(damaged)] * 2, [run(damaged)] * 2).rows
    assert {(row.event, row.node) for row in rows} == {
        ("cycles", 0), ("page-faults", 0), ("page-faults", 1),
    }  # fmt: skip


def test_one_run_a_side_has_a_ratio_and_no_interval(analyse: Analyse) -> None:
    row = by_basis(analyse(switches(BASE[:1]), switches(NEW[:1])))["time"]
    assert row.ratio == pytest.approx(1.5)
    assert row.ci_low is row.p is row.changed is None


def test_an_event_of_one_side_alone_is_named_and_no_row(analyse: Analyse) -> None:
    base = [run(csv({"context-switches": [5]}))] * 2
    new = [run(csv({"context-switches": [5], "cycles": [10**9]}))] * 2
    data = analyse(base, new)
    assert {row.event for row in data.rows} == {"context-switches"}
    assert data.not_counted == (
        NotCounted(
            side="base",
            scope="machine",
            event="cycles",
            reason="the event was counted on one side only (new)",
        ),
    )


def test_an_event_in_different_units_is_named_and_no_row(analyse: Analyse) -> None:
    text = csv({"context-switches": [5], "energy": [7]})
    joules = text.replace("7,,energy", "7,Joules,energy")
    data = analyse([run(text)] * 2, [run(joules)] * 2)
    assert {row.event for row in data.rows} == {"context-switches"}
    [energy] = data.not_counted
    assert (energy.event, energy.reason) == (
        "energy",
        "the runs report the event in different units: J, count",
    )


def test_a_count_from_zero_has_no_ratio(analyse: Analyse) -> None:
    row = by_basis(analyse(switches([0.0] * 5), switches([3.0, 5.0, 4.0, 3.0, 6.0])))["time"]
    assert row.ratio is row.ci_low is None
    assert (row.base, row.total_new) == (0.0, 4.2)
    assert row.p < 0.05


def test_what_was_zero_in_all_runs_is_named_and_no_row(analyse: Analyse) -> None:
    text = csv({"alignment-faults": [0, 0], "page-faults": [0, 3]})
    data = analyse([run(text)] * 2, [run(text)] * 2)
    assert data.zeros == ("alignment-faults",)
    assert {(row.event, row.node) for row in data.rows} == {
        ("page-faults", None),
        ("page-faults", 1),
    }


def test_points_are_compared_each_with_itself(analyse: Analyse) -> None:
    def at(groups: str, value: int) -> dict[str, object]:
        return run(csv({"sched:sched_switch": [value]}), point={"groups": groups})

    rows = analyse([at("1", 10), at("4", 40)], [at("1", 11), at("4", 80)]).rows
    assert {row.point: row.ratio for row in rows if row.basis == "time"} == {
        "groups=1": pytest.approx(1.1),
        "groups=4": pytest.approx(2.0),
    }


def test_warm_up_and_failed_runs_do_not_count(analyse: Analyse) -> None:
    text = csv({"sched:sched_switch": [10**6]})
    others = [run(text, warmup=True), run(text, exit_status=1)]
    row = analyse([*switches(BASE), *others], switches(NEW)).rows[0]
    assert (row.n_base, row.total_base) == (3, pytest.approx(MEAN))


def test_one_kind_of_run_is_compared_and_said(analyse: Analyse) -> None:
    text = csv({"sched:sched_switch": [10**6]})
    data = analyse([*switches(BASE), run(text, kind="clean")], switches(NEW))
    assert data.sides == tuple(
        CounterSide(
            side=side,
            runs=3,
            kind="instrumented",
            workload_runs=0,
            no_workload="recorded by an earlier version",
        )
        for side in ("base", "new")
    )
    assert data.rows[0].total_base == pytest.approx(MEAN)


def test_extrapolated_counts_are_marked(analyse: Analyse) -> None:
    text = csv({"cycles": [10**9]}, per_node=False, percent=49.99)
    rows = analyse([run(text)], [run(text)]).rows
    assert rows
    assert all(row.scaled for row in rows)


def test_each_new_side_is_compared_with_base(analyse: Analyse) -> None:
    rows = analyse(switches(BASE), switches(NEW), switches(BASE)).rows
    assert {row.side: row.ratio for row in rows} == {
        "new": pytest.approx(1.5),
        "new2": pytest.approx(1.0),
    }


def test_a_new_side_without_counts_costs_the_others_nothing(analyse: Analyse) -> None:
    data = analyse(switches(BASE), switches(NEW), [{}])
    assert {row.side for row in data.rows} == {"new"}
    assert data.missing == (
        MissingSide(side="new2", reason="no run of new2 was recorded with perf_stat"),
    )


def test_what_was_not_counted_has_its_reason(analyse: Analyse) -> None:
    facts = json.dumps({"not_counted": {"cycles": "perf says: not supported"}})
    text = csv({"sched:sched_switch": [100]})
    files = {"perf_stat/perf_stat.csv": text, "perf_stat/perf_stat.json": facts}
    data = analyse([run(text, files=files)] * 2, switches(NEW))
    assert data.not_counted == (
        NotCounted(side="base", scope="machine", event="cycles", reason="perf says: not supported"),
    )


@pytest.mark.parametrize("facts", ["", "[]", '{"not_counted": 3}', '{"not_counted": {"x": []}}'])
def test_a_damaged_run_is_a_note_and_costs_nothing_else(analyse: Analyse, facts: str) -> None:
    text = csv({"sched:sched_switch": [10**6]})
    files = {"perf_stat/perf_stat.csv": text, "perf_stat/perf_stat.json": facts}
    data = analyse([run(text, files=files), *switches(BASE)], switches(NEW))
    assert {row.n_base for row in data.rows} == {3}
    assert [row.total_base for row in data.rows] == pytest.approx([MEAN] * len(data.rows))
    [note] = data.notes
    assert note.startswith("base: boots/0/runs/000/perf_stat/perf_stat.json")


def test_without_counts_the_recorders_reason_is_given(analyse: Analyse) -> None:
    skipped = {
        "collector": "perf_stat",
        "path": "boots/0/runs/000/perf_stat",
        "status": "skipped",
        "reason": "perf is not permitted to this user",
    }
    with pytest.raises(Absent, match="perf_stat of base: perf is not permitted"):
        analyse([{}], [{}], captures=[skipped])


def test_bundles_without_counted_runs_are_absent(analyse: Analyse) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with perf_stat"):
        analyse([{}], [{}])
