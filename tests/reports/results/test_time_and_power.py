# SPDX-License-Identifier: GPL-2.0-or-later
"""Time and power of a sweep are one table: of results in W, and of energy counters."""

from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from schedperf.compare.tables import compare_tables
from schedperf.evidence.energy.record import Energy, EnergyRow, EnergySide
from schedperf.inputs.tables.read import open_table
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Table
from schedperf_reports.formats import Options
from schedperf_reports.formats.lkml import WIDTH, lkml
from schedperf_reports.graphics.chart import Chart
from schedperf_reports.results.time_and_power import time_and_power
from tests.energy_records import energy_row

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]

WORKLOAD = "hackbench -g {groups}"
SEED = Path(__file__).parents[2] / "data" / "seeds" / "stress-ng-cfs-bandwidth.csv"


def cells(block: Block) -> list[list[str]]:
    assert isinstance(block, Table)
    return [[cell.text for cell in row if cell.text] for row in block.rows]


def test_the_published_table_of_the_fifth_seed_is_reproduced() -> None:
    """The numbers of commit 41abdba9: 1CG 27.6 s, 80.4 W; 2CG 40.1 s, 91 W -> 33 s, 103 W."""
    comparison = compare_tables([open_table(SEED)])
    table, chart = time_and_power(comparison)
    assert cells(table) == [
        ["1", "27.6", "27.5", "-0.4%", "80.42", "80.75", "+0.4%"],
        ["  95% CI: time [-1.2%, +0.5%], power [-1.4%, +2.2%]; n = 4+4 runs"],
        ["2", "40.15", "32.88", "-18.1%", "90.98", "102.7", "*+12.8%"],
        ["  95% CI: time [-31.7%, -1.8%], power [+5.4%, +20.8%]; n = 4+4 runs"],
    ]
    seconds = (40.0, 40.2, 40.1, 40.3), (32.3, 38.7, 29.7, 31.5)
    watts = (90, 91, 89, 94), (104, 96, 106, 105)
    for columns, sides in (((1, 2), seconds), ((4, 5), watts)):
        means = [f"{geometric_mean(side):.4g}" for side in sides]
        assert [cells(table)[2][column] for column in columns] == means
    assert isinstance(chart, Chart)
    assert len(chart.panels) == 2
    assert "  2           40.15    32.88  -18.1%     90.98    102.7  *+12.8%\n" in lkml(
        comparison, Options(width=80, colour=False)
    )


@pytest.fixture
def sweep(make_comparison: Make, make_row: MakeRow) -> Callable[..., Comparison]:
    """Make a comparison with a time and energy rows at several points."""

    def make(
        rows: tuple[EnergyRow, ...], points: tuple[str, ...] = ("groups=1", "groups=4")
    ) -> Any:
        results = tuple(
            make_row(workload=WORKLOAD, metric="hackbench time", unit="s", point=point)
            for point in points
        )
        sides = tuple(EnergySide(side=side, runs=5, kind="clean") for side in ("base", "new"))
        data = Energy(sides=sides, rows=rows, zeros=(), missing=(), notes=())
        return make_comparison(rows=results, sections={"energy": Section.of(data)})

    return make


def power(point: str, **changes: Any) -> EnergyRow:
    fields = {"basis": "time", "unit": "W", "base": 90.0, "new": 101.5, **changes}
    return energy_row(workload=WORKLOAD, point=point, **fields)


def test_mean_power_of_each_package_stands_beside_the_time(
    sweep: Callable[..., Comparison],
) -> None:
    rows = [
        power(point, domain=domain)
        for domain in ("package-0", "package-1")
        for point in ("groups=1", "groups=4")
    ]
    tables = [block for block in time_and_power(sweep(tuple(rows))) if isinstance(block, Table)]
    assert [table.caption.partition(": ")[2] for table in tables] == [
        "hackbench time in ms and power of package-0 in W; *: significant",
        "hackbench time in ms and power of package-1 in W; *: significant",
    ]
    assert tables[0].columns[0].title == "groups"
    assert cells(tables[0])[0][-3:] == ["90", "101.5", "*+12.8%"]
    # Nobody asked for it on the first screen.
    assert not tables[0].brief


def test_parts_of_packages_and_energy_are_no_power(sweep: Callable[..., Comparison]) -> None:
    points = ("groups=1", "groups=4")
    rows = [power(point) for point in points]
    rows += [power(point, domain="package-0 core", kind="core") for point in points]
    rows += [power(point, basis="operation", unit="J/message") for point in points]
    assert len([*time_and_power(sweep(tuple(rows)))]) == 2


def test_points_without_power_or_a_mean_are_left_out(sweep: Callable[..., Comparison]) -> None:
    points = ("groups=1", "groups=4", "groups=16")
    rows = [power("groups=1"), power("groups=4", new=None), power("groups=16")]
    [table, _] = time_and_power(sweep(tuple(rows), points))
    assert [row[0] for row in cells(table)[::2]] == ["1", "16"]


def test_one_point_or_none_is_no_table(sweep: Callable[..., Comparison]) -> None:
    assert not [*time_and_power(sweep((power("groups=1"),)))]
    assert not [*time_and_power(sweep((), ()))]


def test_a_hostile_name_does_not_break_a_mail(sweep: Callable[..., Comparison]) -> None:
    names = [power(point, domain="\u202e\x1b[31m" + "w" * 99) for point in ("groups=1", "groups=4")]
    text = lkml(sweep(tuple(names)), Options(width=80, colour=False))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= WIDTH
