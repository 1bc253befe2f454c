# SPDX-License-Identifier: GPL-2.0-or-later
"""The latency chapter: which results are latencies, their tails as table and figure."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf_reports.blocks import Table, Text
from schedperf_reports.graphics.chart import Chart
from schedperf_reports.results.latency import MOST_DRAWN, latency
from schedperf_reports.results.tails import find_distributions, read_tail

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]

WAKEUP = "schbench wakeup latency"


def blocks_of(comparison: Comparison, kind: type[Any]) -> list[Any]:
    return [block for block in latency(comparison) if isinstance(block, kind)]


@pytest.fixture
def tail_rows(make_row: MakeRow) -> list[Row]:
    """Return a tail whose names are in no order, beside a time that is no latency."""
    values = {"max": 2e-2, "p99": 1e-3, "p50": 6e-6, "p99.9": 4e-3, "average": 2e-5}
    rows = [
        make_row(
            workload="schbench -r 30", point="", metric=f"{WAKEUP} {label}", base=base,
            ratio=1.5 if label == "p99.9" else 1.01, ci_low=None, ci_high=None,
            verdict="regression" if label == "p99.9" else "no-change",
        )
        for label, base in values.items()
    ]  # fmt: skip
    return [*rows, make_row()]


@pytest.mark.parametrize(
    ("metric", "of", "label", "quantile"),
    [
        ("schbench wakeup latency p99", WAKEUP, "p99", 0.99),
        ("schbench wakeup latency p99.99", WAKEUP, "p99.99", 0.9999),
        ("netperf TCP_RR latency p50", "netperf TCP_RR latency", "p50", 0.5),
        ("sysbench cpu latency max", "sysbench cpu latency", "max", None),
        ("pgbench latency average", "pgbench latency", "average", None),
        ("cyclictest latency", "cyclictest latency", "", None),
        ("oslat Max latency", "oslat Max latency", "", None),
        ("request_p99", "request", "p99", 0.99),
    ],
)
def test_latencies_are_known_by_unit_and_name(
    metric: str, of: str, label: str, quantile: float | None
) -> None:
    tail = read_tail(metric, "s")
    assert tail is not None
    assert (tail.of, tail.label, tail.quantile) == (of, label, quantile)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("hackbench time", "s"),
        ("schbench rps p50", "1/s"),
        ("pgbench latency average", "count"),
        ("dilatency max", "s"),
        ("pgbench initial connection time", "s"),
    ],
)
def test_other_results_are_no_latencies(metric: str, unit: str) -> None:
    assert read_tail(metric, unit) is None


def test_a_tail_goes_from_its_low_end_to_its_high_end(tail_rows: list[Row]) -> None:
    [found] = find_distributions([(row.metric, row) for row in tail_rows])
    assert found.name == WAKEUP
    labels = [tail.label for tail, _ in found.members]
    assert labels == ["p50", "p99", "p99.9", "max", "average"]


def test_the_table_has_each_side_with_its_interval_and_says_what_changed(
    make_comparison: Make, tail_rows: list[Row]
) -> None:
    comparison = make_comparison(rows=tuple(tail_rows))
    [table] = blocks_of(comparison, Table)
    assert table.caption == (
        "1 latency distribution, new vs base: 1 of 5 results regressed, 0 improved; lower is better"
    )
    texts = [[cell.text for cell in row] for row in table.rows]
    assert texts[0] == [WAKEUP, *[""] * 9]
    assert texts[1][:3] == ["  p50", "us", "6"]
    assert re.fullmatch(r"\[5\.9\d+, 6\.0\d+\]", texts[1][3])
    assert table.quiet == (False, True, True, False, True, True)
    assert table.anchors[1] == f"{WAKEUP} p50"


def test_the_figure_has_both_sides_over_the_share_that_took_longer(
    make_comparison: Make, tail_rows: list[Row]
) -> None:
    [figure] = blocks_of(make_comparison(rows=tuple(tail_rows)), Chart)
    [panel] = figure.panels
    base, new = panel.series
    rarities = [point.x for point in base.points]
    assert rarities == [point.x for point in new.points] == pytest.approx([2, 100, 1000])
    assert [point.y for point in base.points] == pytest.approx([0.006, 1.0, 4.0])
    assert all(point.low < point.y < point.high for point in base.points)
    assert (base.place, new.place) == (0, 1)
    assert [panel.x.is_log, *(text for _, text in panel.x.ticks)] == [True, "p50", "p99", "p99.9"]
    assert "largest change +50.0% at p99.9 (regression)" in figure.caption


def test_one_percentile_is_no_tail(make_comparison: Make, tail_rows: list[Row]) -> None:
    assert blocks_of(make_comparison(rows=tuple(tail_rows[:2])), Chart) == []


def test_a_percentile_that_one_side_lacks_is_in_the_table_only(
    make_comparison: Make, make_row: MakeRow, tail_rows: list[Row]
) -> None:
    lost = make_row(
        workload="schbench -r 30", point="", metric=f"{WAKEUP} p90", base=None, ratio=None,
        verdict="invalid", n_new=0,
    )  # fmt: skip
    comparison = make_comparison(rows=(*tail_rows, lost))
    [figure] = blocks_of(comparison, Chart)
    assert "p90" not in [text for _, text in figure.panels[0].x.ticks]
    [table] = blocks_of(comparison, Table)
    [row] = [row for row in table.rows if row[0].text == "  p90"]
    assert [cell.text for cell in row][2:8] == ["-"] * 6


def test_each_new_side_has_its_own_table(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    rows = tuple(make_row(side=side, metric="x latency p99") for side in ("new", "new2"))
    sides = tuple(make_side(name) for name in ("base", "new", "new2"))
    tables = blocks_of(make_comparison(rows=rows, sides=sides), Table)
    assert [table.columns[4].title for table in tables] == ["new", "new2"]


def test_points_and_commands_tell_distributions_apart(make_row: MakeRow) -> None:
    rows = [
        make_row(workload=workload, point=point, metric="x latency p99")
        for workload in ("one", "two")
        for point in ("t=1", "t=2")
    ]
    names = [one.name for one in find_distributions([("", row) for row in rows])]
    assert names == [
        f"x latency at {point} ({workload})"
        for workload in ("one", "two")
        for point in ("t=1", "t=2")
    ]


def test_many_tails_are_cut_and_the_cut_is_said(make_comparison: Make, make_row: MakeRow) -> None:
    rows = tuple(
        make_row(workload=f"w{n}", point=f"n={n}", metric=f"x latency p{percent}")
        for n in range(MOST_DRAWN + 2)
        for percent in (50, 99)
    )
    comparison = make_comparison(rows=rows)
    assert len(blocks_of(comparison, Chart)) == MOST_DRAWN
    [text] = blocks_of(comparison, Text)
    assert text.text == (
        f"only the first {MOST_DRAWN} of {MOST_DRAWN + 2} distributions are plotted"
    )


def test_without_latencies_one_line_says_what_records_some(make_comparison: Make) -> None:
    [only] = latency(make_comparison())
    assert isinstance(only, Text)
    assert only.text.startswith(
        "the recorded benchmarks report no latencies; record a latency benchmark, e.g."
    )
