# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of results: families, order and names of rows, their numbers, and their means."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf_reports.blocks import Items, Table
from schedperf_reports.graphics.intervals import Intervals
from tests.reports.comparison_records import overall_of

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
OfKind = Callable[[Comparison, type[Any]], list[Any]]
Texts = Callable[[Table], list[list[str]]]


def test_each_family_has_its_table(make_comparison: Make, of_kind: OfKind) -> None:
    tables = of_kind(make_comparison(), Table)
    assert [table.caption for table in tables] == [
        (
            "4 results: 1 regression, 1 improvement, 1 no-change, 1 inconclusive; lower is better; "
            "n = runs"
        ),
        "hackbench time over groups with the 95% CI of each side",
        ("1 secondary result, not used for the verdict (higher is better; n = runs)"),
    ]
    assert [table.brief for table in tables] == [True, False, False]


def test_where_nothing_is_primary_the_short_text_has_the_first_family(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind
) -> None:
    rows = (make_row(family="informational", point=""), make_row(family="secondary", point=""))
    tables = of_kind(make_comparison(rows=rows, sweeps=()), Table)
    assert [(table.caption[:9], table.brief) for table in tables] == [
        ("1 seconda", True), ("1 informa", False),
    ]  # fmt: skip


def test_points_of_a_metric_stand_below_its_name_and_their_mean_below_them(
    make_comparison: Make,
    of_kind: OfKind,
    cells: Texts,
) -> None:
    table = of_kind(make_comparison(), Table)[0]
    assert [row[0] for row in cells(table)] == [
        "hackbench time",
        "  groups=1",
        "  groups=4",
        "  groups=16",
        "    new is noisier than base by a factor of 3.4 (p = 0.008)",
        (
            "    about 6 more runs per side would give a verdict; "
            "smallest detectable change 7.2% (80% power)"
        ),
        "  geomean",
        (
            "  all parameter values: grows with groups; "
            "first significant change at groups=4; p = 2.3e-06"
        ),
        "sched/pipe time per operation",
        "geomean of all 4 results",
    ]
    assert cells(table)[2] == [
        "  groups=4", "ms", "612", "839.7", "+37.2%", "[+35.0%, +39.5%]", "5+5", "regression",
        "3.6e-07", "Welch t on logs",
    ]  # fmt: skip
    assert cells(table)[6][4:6] == ["+12.9%", "[+9.0%, +17.0%]"]


@pytest.fixture
def build(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind
) -> tuple[Make, MakeRow, OfKind]:
    """Return what builds a comparison and its rows, and what picks its blocks."""
    return make_comparison, make_row, of_kind


@pytest.mark.parametrize(
    ("least", "values"),
    [(0.05, [("ms", "50"), ("ms", "4000")]), (1e-6, [("us", "1"), ("s", "4")])],
)
def test_numbers_below_each_other_share_a_unit_unless_one_is_tiny(
    build: tuple[Make, MakeRow, OfKind], cells: Texts, least: float, values: list[tuple[str, str]]
) -> None:
    make_comparison, make_row, of_kind = build
    rows = tuple(
        make_row(point=f"groups={n}", unit="s", base=base, new=base)
        for n, base in ((1, least), (64, 4.0))
    )
    table = of_kind(make_comparison(rows=rows, sweeps=()), Table)[0]
    assert [(row[1], row[2]) for row in cells(table) if row[0].startswith("  groups")] == values


def test_where_directions_differ_a_few_metrics_are_named_and_of_more_each_row_says_it(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind, cells: Texts
) -> None:
    def table_of(higher: int) -> Table:
        several = [make_row(metric=f"rate {n}", better="higher") for n in range(higher)]
        rows = (*(make_row(metric=f"time {n}") for n in range(4)), *several)
        found: Table = of_kind(make_comparison(rows=rows, sweeps=()), Table)[0]
        return found

    few, many = table_of(2), table_of(4)
    assert "; lower is better (higher for rate 0, rate 1); " in few.caption
    assert cells(few)[4][0] == "rate 0 at groups=4"
    assert "is better" not in many.caption
    assert cells(many)[0][0] == "time 0 at groups=4 (lower is better)"
    assert cells(many)[4][0] == "rate 0 at groups=4 (higher is better)"


def test_only_undecided_rows_need_a_reason(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind
) -> None:
    (items,) = of_kind(make_comparison(), Items)
    assert len(items.items) == 1
    assert items.items[0].text == (
        "hackbench time at groups=16: inconclusive: not significant, and equivalence within +-3% "
        "is not shown"
    )
    invalid = make_row(verdict="invalid", reason="no value in new", ratio=None, base=None)
    (items,) = of_kind(make_comparison(rows=(invalid,)), Items)
    assert items.items[0].text == "hackbench time at groups=4: invalid: no value in new"


def test_a_missing_value_is_a_dash_and_no_line(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind, cells: Texts
) -> None:
    row = make_row(ratio=None, base=None, q=None)
    (table,) = of_kind(make_comparison(rows=(row,), sweeps=()), Table)
    assert cells(table)[0][2:6] == ["-"] * 4
    assert {table.rows[0][place].sort for place in (2, 3, 4, 5)} == {None}
    assert of_kind(make_comparison(rows=(row,), sweeps=()), Intervals) == []


def test_each_new_side_has_its_table(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary], of_kind: OfKind
) -> None:
    comparison = make_comparison(
        sides=tuple(make_side(name) for name in ("base", "new", "new2")),
        rows=(make_row(side="new"), make_row(side="new2")),
    )
    captions = [table.caption for table in of_kind(comparison, Table)][:2]
    assert captions == [
        "new: 1 result (lower is better; n = runs)",
        "new2: 1 result (lower is better; n = runs)",
    ]
    tables = of_kind(comparison, Table)[:2]
    assert [table.columns[3].title for table in tables] == ["new", "new2"]
    name = "hackbench time at groups=4"
    assert [table.anchors[0] for table in tables] == [name, f"new2: {name}"]


def test_commands_tell_equal_metrics_apart(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind, cells: Texts
) -> None:
    rows = tuple(
        make_row(workload=workload, point=point)
        for workload in ("hackbench -p", "hackbench -T")
        for point in ("groups=1", "groups=2")
    )
    names = [row[0] for row in cells(of_kind(make_comparison(rows=rows, sweeps=()), Table)[0])]
    assert names[::3] == [
        "hackbench time (hackbench -p)",
        "hackbench time (hackbench -T)",
        "geomean of all 4 results",
    ]


def test_a_reason_that_is_the_headline_is_not_said_again(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind
) -> None:
    row = make_row(verdict="inconclusive", reason="too noisy")
    overall = overall_of("inconclusive", f"{row.metric}: too noisy", 0)
    assert not of_kind(make_comparison(rows=(row,), overall=overall), Items)
    other = make_row(verdict="inconclusive", reason="too few runs")
    [items] = of_kind(make_comparison(rows=(row, other), overall=overall), Items)
    assert len(items.items) == 2


def test_units_that_differ_stand_in_the_cells(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind, cells: Texts
) -> None:
    rows = (make_row(point="groups=1"), make_row(replication="rounds", n_base=6, n_new=6))
    table = of_kind(make_comparison(rows=rows), Table)[0]
    assert "n = " not in table.caption
    assert [row[6] for row in cells(table) if row[6]] == ["5+5 runs", "6 pairs"]


def test_cells_sort_by_the_numbers_of_the_record(make_comparison: Make, of_kind: OfKind) -> None:
    comparison = make_comparison()
    table = of_kind(comparison, Table)[0]
    row = comparison.rows[1]
    [cells] = [cells for cells in table.rows if cells[0].text == "  groups=4"]
    assert [cells[place].sort for place in (2, 3, 4, 5, 6, 8)] == [
        row.base, row.new, row.ratio, row.ci_low, row.n_new, row.q,
    ]  # fmt: skip
    verdicts = {cells[7].text: cells[7].sort for cells in table.rows if cells[7].text}
    assert min(verdicts, key=lambda word: verdicts[word] or 0.0) == "regression"
    assert all(column.explains for column in table.columns[1:])


def test_results_of_many_commands_have_a_mean_with_an_interval(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind
) -> None:
    rows = tuple(
        make_row(
            workload=f"bench{n}", point="", ratio=ratio, ci_low=ratio / 1.1, ci_high=1.1 * ratio
        )
        for n, ratio in enumerate((1.2, 0.9, 1.05))
    )
    table = of_kind(make_comparison(rows=rows, sweeps=()), Table)[0]
    mean = math.prod(row.ratio or 0.0 for row in rows) ** (1 / 3)
    half = math.log(1.1) / math.sqrt(3)
    cells = table.rows[-1]
    assert cells[0].text == "geomean of all 3 results"
    assert cells[4].sort == pytest.approx(mean)
    assert cells[5].sort == pytest.approx(mean * math.exp(-half))


def test_each_direction_has_a_mean_of_its_own(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind, cells: Texts
) -> None:
    rows = tuple(
        make_row(workload=f"bench{n}", point="", better="higher" if n % 2 else "lower")
        for n in range(4)
    )
    names = [row[0] for row in cells(of_kind(make_comparison(rows=rows, sweeps=()), Table)[0])]
    assert names[4:] == [
        "geomean of all 2 results, higher is better",
        "geomean of all 2 results, lower is better",
    ]


def test_what_cannot_be_compared_is_not_in_a_mean(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind
) -> None:
    rows = (
        *(make_row(workload=f"bench{n}", point="") for n in range(2)),
        make_row(workload="other", point="", verdict="invalid", reason="cpu.model differs"),
    )
    table = of_kind(make_comparison(rows=rows, sweeps=()), Table)[0]
    assert table.rows[-1][0].text == "geomean of 2 of 3 results"
