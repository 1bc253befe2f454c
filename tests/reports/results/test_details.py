# SPDX-License-Identifier: GPL-2.0-or-later
"""What a result opens to: its reason, runs, test and origin."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, RunValue, Source
from schedperf_reports.blocks import Block, Items, Table, Text
from schedperf_reports.graphics.chart import Chart

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
OfKind = Callable[[Comparison, type[Any]], list[Any]]
Texts = Callable[[Table], list[list[str]]]
DetailsOf = Callable[..., tuple[Block, ...]]


@pytest.fixture
def details_of(of_kind: OfKind) -> DetailsOf:
    """Return what the first row that opens has inside, or the one of a number."""

    def inside(comparison: Comparison, number: int = 0) -> tuple[Block, ...]:
        table: Table = of_kind(comparison, Table)[0]
        return [inner for inner in table.details if inner][number]

    return inside


def test_a_result_opens_to_its_reason_runs_test_and_origin(
    make_comparison: Make, make_row: MakeRow, cells: Texts, details_of: DetailsOf
) -> None:
    source = Source(member="boots/0/runs/003/stdout", line=7, text="Time: 0.612")
    row = make_row(values_base=tuple(replace(run, source=source) for run in make_row().values_base),
                   definition="time of all groups together")  # fmt: skip
    reason, drawn, runs, figures, origin = details_of(make_comparison(rows=(row,), sweeps=()))
    assert isinstance(reason, Text)
    assert reason.text == row.reason
    assert isinstance(drawn, Chart)
    assert isinstance(runs, Table)
    assert cells(runs) == [
        ["base", "0", "612", "607.1 609.6 612 614.4 616.9", "0 to 4"],
        ["new", "0", "839.7", "832.9 836.3 839.7 843 846.4", "0 to 4"],
    ]
    assert isinstance(figures, Table)
    told = dict(cells(figures))
    assert told == {
        "test": "Welch t on logs, 5+5 runs",
        "p": "1.2e-07; q = 3.6e-07, corrected for multiple testing",
        "equivalence margin": "+-3.0%",
        "smallest detectable change (80% power)": "2.4%",
        "rank or permutation test": "p = 0.0079, +37.1% [+34.6%, +39.7%]",
    }
    assert isinstance(origin, Items)
    assert [item.text for item in origin.items] == [
        "hackbench time: time of all groups together; lower is better",
        "command: hackbench -l 1000 -g {groups} at groups=4",
        "output of base: Time: 0.612",
    ]
    assert origin.items[2].detail == "boots/0/runs/003/stdout, line 7"


def test_nobody_orders_runs_whose_place_in_time_is_not_known(
    make_comparison: Make, make_row: MakeRow, details_of: DetailsOf
) -> None:
    ordered = make_row()
    unordered = make_row(values_base=tuple(replace(run, order=None) for run in ordered.values_base))
    captions = [
        table.caption
        for row in (ordered, unordered)
        for table in details_of(make_comparison(rows=(row,)))
        if isinstance(table, Table)
        and table.caption.endswith(("in time order", "time order not recorded"))
    ]
    assert [caption.rpartition(", ")[2] for caption in captions] == [
        "in time order",
        "time order not recorded",
    ]


def test_runs_are_told_boot_by_boot_in_the_order_of_time(
    make_comparison: Make, make_row: MakeRow, cells: Texts, details_of: DetailsOf
) -> None:
    def run(boot: int, order: int, value: float) -> RunValue:
        return RunValue(boot=boot, run=order, order=order, round=None, value=value)

    row = make_row(values_base=(run(1, 6, 0.6), run(0, 2, 0.5), run(0, 0, 0.4)), values_new=())
    tables = [one for one in details_of(make_comparison(rows=(row,))) if isinstance(one, Table)]
    assert cells(tables[0]) == [
        ["base", "0", "447.2", "400 500", "0 2"],
        ["base", "1", "600", "600", "6"],
    ]
    # As the results' own mean, which no reader has to guess.
    assert tables[0].columns[2].explains == "geometric mean of all runs of the side in this boot"


def test_the_mean_of_runs_with_a_zero_is_arithmetic_and_says_so(
    make_comparison: Make, make_row: MakeRow, cells: Texts, details_of: DetailsOf
) -> None:
    runs = tuple(RunValue(boot=0, run=n, order=n, round=None, value=0.4 * n) for n in range(3))
    row = make_row(values_base=runs, values_new=runs[1:])
    tables = [one for one in details_of(make_comparison(rows=(row,))) if isinstance(one, Table)]
    assert [line[2] for line in cells(tables[0])] == ["400", "600"]
    assert tables[0].columns[2].explains == "arithmetic mean of all runs of the side in this boot"


def test_boots_and_more_runs_are_told_where_they_are_known(
    make_comparison: Make, make_row: MakeRow, cells: Texts, details_of: DetailsOf
) -> None:
    row = make_row(icc=0.534, design_effect=2.0, more_runs=3, p=None, p_rank=None, mde=None)
    tables = [one for one in details_of(make_comparison(rows=(row,))) if isinstance(one, Table)]
    told = dict(cells(tables[-1]))
    assert list(told) == [
        "test",
        "equivalence margin",
        "additional values needed for a verdict",
        "boots",
    ]
    assert told["additional values needed for a verdict"] == "3 runs per side"
    assert told["boots"] == "53.4% of the variance is between boots (ICC), design effect 2.00"


def test_a_metric_that_nobody_defines_says_so(make_comparison: Make, details_of: DetailsOf) -> None:
    origin = details_of(make_comparison())[-1]
    assert isinstance(origin, Items)
    assert "no definition recorded" in origin.items[0].text
