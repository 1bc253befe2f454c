# SPDX-License-Identifier: GPL-2.0-or-later
"""Percentiles and distributions of two sides, with CIs over runs, and what is not compared."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence import Absent
from schedperf.evidence.account.capture import commands_of_tasks
from schedperf.evidence.wakeup_latency.findings import wakeup_latency as findings_of
from schedperf.evidence.wakeup_latency.record import WakeupLatency, WakeupRow
from schedperf.evidence.wakeup_latency.section import analyse_sides, wakeup_latency
from tests.schedperf.evidence.wakeup_latency.conftest import (
    US,
    WAKEUPS,
    Json,
    side_of,
    waits_row,
    with_tail,
)

Compare = Callable[..., WakeupLatency]
STEPS = (0, 2, -1, 1, -2)


def runs_of(tail_us: int, **changed: Any) -> list[Json]:
    return [{**with_tail(tail_us, step), **changed} for step in STEPS]


def rows_of(data: WakeupLatency, command: str, node: int | None = None) -> dict[str, WakeupRow]:
    return {row.quantile: row for row in data.rows if (row.command, row.node) == (command, node)}


def test_a_change_of_the_tail_is_not_one_of_the_median(compare: Compare) -> None:
    rows = rows_of(compare(runs_of(200), runs_of(900)), "hackbench")
    assert rows["p99"].changed
    assert rows["p99"].base == pytest.approx(200e-6, rel=1 / 16)
    assert rows["p99"].new == pytest.approx(900e-6, rel=1 / 16)
    assert rows["p50"].changed is False
    assert rows["p50"].ratio == pytest.approx(1.0)
    assert rows["max"].base == pytest.approx(200e-6, rel=0.02)


def test_points_are_in_the_order_of_the_runs() -> None:
    points = ("slice=1ms", "slice=10ms")
    data = analyse_sides([side_of(name, runs_of(200), points=points) for name in ("base", "new")])
    for rows in (data.rows, data.distributions):
        assert tuple(dict.fromkeys(row.point for row in rows)) == points


def test_the_interval_of_a_side_is_over_runs_and_not_over_waits(compare: Compare) -> None:
    p99 = rows_of(compare(runs_of(200), runs_of(900)), "hackbench")["p99"]
    assert (p99.n_base, p99.n_new, p99.replication) == (5, 5, "runs")
    assert p99.base_low is not None
    assert p99.base_high is not None
    assert p99.base is not None
    assert p99.base_low < p99.base < p99.base_high
    assert (p99.waits_base, p99.waits_new) == (2000.0, 2000.0)


def test_a_command_without_rows_has_no_distribution(compare: Compare) -> None:
    sides = [runs_of(200), runs_of(900)]
    for runs in sides:
        runs[0]["rows"] = [*runs[0]["rows"], waits_row("background", 0, {100 * US: 500})]
    data = compare(*sides)
    assert {row.command for row in data.distributions} <= {row.command for row in data.rows}


def test_maxima_of_runs_are_medians_and_compared_by_ranks(compare: Compare) -> None:
    new = runs_of(900)
    new[0]["rows"][0]["max_ns"] = 10**9
    rows = rows_of(compare(runs_of(200), new), "hackbench")
    assert rows["max"].new == pytest.approx(900e-6, rel=0.02)
    assert rows["max"].ratio == pytest.approx(4.5, rel=0.05)
    # Two of the 252 arrangements of 5 and 5 runs are as extreme.
    assert rows["max"].p == pytest.approx(2 / 252)
    assert (rows["max"].base_low, rows["p99"].base_low is None) == (None, False)


def test_the_rows_are_of_all_commands_of_each_and_of_each_node(compare: Compare) -> None:
    data = compare(runs_of(200), runs_of(900))
    subjects = list(dict.fromkeys((row.command, row.node) for row in data.rows))
    assert subjects == [
        ("", None), ("", 0), ("", 1), ("hackbench", None), ("hackbench", 0), ("hackbench", 1),
        ("kworker", None), ("kworker", 0),
    ]  # fmt: skip
    # 50 waits leave less than one beyond p99.
    assert [*rows_of(data, "kworker")] == ["p50", "p90", "max"]
    assert any("commands not listed: 1 (" in note for note in data.notes)


def test_a_command_of_some_runs_only_is_background_load(compare: Compare) -> None:
    base = runs_of(200)
    base[0]["rows"].append(waits_row("make", 0, {1000: 500}))
    data = compare(base, runs_of(900))
    assert not rows_of(data, "make")


def test_distributions_are_shares_below_common_edges(compare: Compare) -> None:
    data = compare(runs_of(200), runs_of(900))
    [distribution] = [each for each in data.distributions if each.command == "hackbench"]
    assert len(distribution.edges) <= 65
    assert list(distribution.edges) == sorted(set(distribution.edges))
    assert distribution.base[0] == 0.0
    assert distribution.base[-1] == distribution.new[-1] == pytest.approx(1.0)
    index = next(i for i, edge in enumerate(distribution.edges) if edge > 400e-6)
    assert distribution.base[index] == pytest.approx(1.0)
    assert distribution.new[index] == pytest.approx(0.98)


def test_runs_whose_counts_are_all_zero_have_no_distribution(compare: Compare) -> None:
    empty = with_tail(200)
    for row in empty["rows"]:
        row["bins"] = [[number, 0] for number, _ in row["bins"]]
    data = compare([empty, *runs_of(200)], [empty] * 5)
    assert not data.distributions
    data = compare([empty, *runs_of(200)], runs_of(900))
    [distribution] = [each for each in data.distributions if each.command == "hackbench"]
    assert distribution.base[-1] == pytest.approx(1.0)


def test_cpus_have_percentiles_of_all_commands(compare: Compare) -> None:
    data = compare(runs_of(200), runs_of(900))
    [p99] = [row for row in data.cpus if row.measure == "wakeup latency p99"]
    assert (p99.cpus, p99.unit) == ((0, 2), "s")
    assert p99.changed == (True, True)


def test_sides_measured_in_different_ways_are_listed_and_not_compared(compare: Compare) -> None:
    data = compare(runs_of(200), runs_of(900, mechanism="perf"))
    assert data.rows
    assert all(row.changed is None and row.ratio is None for row in data.rows)
    assert {row.reason for row in data.rows} == {"base was measured with bpf, new with perf"}
    assert all(changed is None for each in data.distributions for changed in each.changed)
    assert not [*findings_of(data)]


def test_lost_events_are_stated_and_many_forbid_a_comparison(compare: Compare) -> None:
    few = compare(runs_of(200), runs_of(900, lost={"perf records": 1}))
    assert rows_of(few, "hackbench")["p99"].changed
    assert "new: events lost: 5 (perf records)" in few.notes
    many = compare(runs_of(200), runs_of(900, lost={"perf records": 400}))
    reason = rows_of(many, "hackbench")["p99"].reason
    assert reason is not None
    assert reason.startswith("too many events lost on new: 400, with 2051 waits counted, in run 0")


def test_one_side_alone_has_percentiles() -> None:
    data = analyse_sides([side_of("base", runs_of(200))])
    rows = rows_of(data, "hackbench")
    assert rows["p99"].side == "base"
    assert rows["p99"].n_new == 0
    assert rows["p99"].new_low is None


def test_findings_name_the_command_and_say_what_the_median_did(compare: Compare) -> None:
    found = [*findings_of(compare(runs_of(200), runs_of(900)))]
    # The row of all commands changed because hackbench did.
    [tail] = [each for each in found if "hackbench" in each.clause]
    assert not any("all commands" in each.clause for each in found)
    assert tail.metric == "wakeup latency p99 of hackbench"
    assert tail.better == "lower"
    assert tail.clause.startswith("wakeup latency p99 of hackbench: ")
    assert tail.details == ": the median +0.0%, not significant"
    assert tail.replication == "5+5 runs"
    assert tail.evidence == (f"wakeup_latency#{tail.id.partition('#')[2]}",)


def test_no_change_is_no_finding(compare: Compare) -> None:
    assert not [*findings_of(compare(runs_of(200), runs_of(200)))]


@pytest.fixture
def analyse(analyse_with: Callable[..., Any]) -> Any:
    return analyse_with(lambda sides: wakeup_latency(sides, commands_of_tasks))


def bundle_runs(name: str, *contents: str) -> list[Json]:
    return [
        {"kind": "instrumented", "files": {f"wakeup_latency/{name}": content}}
        for content in contents
    ]


def test_bundles_are_compared(analyse: Any) -> None:
    base, new = (
        bundle_runs("wakeups.json", *map(json.dumps, runs_of(tail))) for tail in (200, 900)
    )
    data = analyse(base, new)
    assert [(side.side, side.runs, side.sources, side.waits) for side in data.sides] == [
        ("base", 5, ("bpf",), 10255), ("new", 5, ("bpf",), 10255),
    ]  # fmt: skip
    assert any(row.changed for row in data.rows)


def test_a_damaged_capture_costs_its_run(analyse: Any) -> None:
    documents = [json.dumps(each) for each in runs_of(200)]
    data = analyse(
        bundle_runs("wakeups.json", *documents), bundle_runs("wakeups.json", "{", *documents)
    )
    assert data.sides[1].runs == 5
    assert any(note.startswith("new: ") and "wakeups.json" in note for note in data.notes)


def test_without_captures_the_section_is_absent(analyse: Any) -> None:
    with pytest.raises(Absent, match="no run of base was recorded with wakeup_latency"):
        analyse([{}], [{}])


def test_without_a_wakeup_the_section_is_absent(analyse: Any) -> None:
    runs = bundle_runs("wakeups.json", json.dumps(WAKEUPS))
    with pytest.raises(Absent, match="no command with wakeups in common"):
        analyse(runs, runs)


def test_waits_are_written_in_seconds(compare: Compare) -> None:
    documents = [
        {**WAKEUPS, "rows": [waits_row("sh", 0, {(50 + step) * US: 100})]} for step in STEPS
    ]
    row = rows_of(compare(documents, documents), "sh")["p50"]
    assert row.unit == "s"
    assert row.base == pytest.approx(50e-6, rel=1 / 16)
