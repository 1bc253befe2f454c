# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables as mmtests writes them: its means, its signs, and no star but a verdict."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, RunValue
from schedperf.model.sides import SideSummary
from schedperf_reports.formats import Options
from schedperf_reports.formats.benchfmt import benchfmt
from schedperf_reports.formats.mmtests import mmtests
from tests.schedperf.evidence.realtime.conftest import tail_runs

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]

OPTIONS = Options(width=78, colour=False)


def runs(values: Sequence[float]) -> tuple[RunValue, ...]:
    return tuple(
        RunValue(boot=0, run=run, order=None, round=None, value=value)
        for run, value in enumerate(values)
    )


def row_of(make_row: MakeRow, base: Sequence[float], new: Sequence[float], **changes: str) -> Row:
    return replace(
        make_row(),
        **{
            "unit": "", "point": "clients=8", "better": "higher", "verdict": "no-change",
            "values_base": runs(base), "values_new": runs(new), **changes,
        },
    )  # fmt: skip


def lines(comparison: Comparison) -> dict[str, str]:
    """Return the lines of the first table by statistic."""
    table = mmtests(comparison, OPTIONS).partition("\n\n")[0].splitlines()
    return {line.split()[0]: line for line in table if "%" in line}


def test_higher_is_better_with_the_numbers_that_mmtests_prints(
    make_comparison: Make, make_row: MakeRow
) -> None:
    # Expected values are from calc_hmean, calc_stddev and pdiff of mmtests.
    row = row_of(make_row, (100.0, 110.0, 90.0), (80.0, 80.0, 80.0), verdict="regression")
    assert lines(make_comparison(rows=(row,))) == {
        "Min": "Min       clients=8      90.000 (   0.00%)      80.000 ( -11.11%)",
        "Hmean": "Hmean     clients=8      99.331 (   0.00%)      80.000 * -19.46%*",
        "Stddev": "Stddev    clients=8       8.151 (   0.00%)       0.000 ( 100.00%)",
        "CoeffVar": "CoeffVar  clients=8        8.21 (   0.00%)        0.00 ( 100.00%)",
        "Max": "Max       clients=8     110.000 (   0.00%)      80.000 ( -27.27%)",
    }


def test_lower_is_better_so_a_smaller_value_is_a_positive_change(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = row_of(make_row, (4.0, 5.0, 6.0), (3.0, 4.0, 5.0), better="lower")
    table = lines(make_comparison(rows=(row,)))
    assert table["Amean"] == "Amean     clients=8      5.0000 (   0.00%)      4.0000 (  20.00%)"
    assert table["Stddev"] == "Stddev    clients=8      1.0000 (   0.00%)      1.0000 (   0.00%)"
    assert "Hmean" not in table


def test_without_a_direction_a_larger_value_is_a_positive_change(
    make_comparison: Make, make_row: MakeRow
) -> None:
    comparison = make_comparison(
        rows=(row_of(make_row, (4.0, 5.0), (8.0, 10.0), better="unknown"),)
    )
    table = lines(comparison)
    assert table["Amean"] == "Amean     clients=8      4.5000 (   0.00%)      9.0000 ( 100.00%)"
    assert "better direction unknown" in mmtests(comparison, OPTIONS)


@pytest.mark.parametrize("verdict", ["no-change", "inconclusive", "invalid"])
def test_only_a_change_has_stars(make_comparison: Make, make_row: MakeRow, verdict: str) -> None:
    row = row_of(make_row, (1.0, 1.0), (9.0, 9.0), verdict=verdict)
    tables = mmtests(make_comparison(rows=(row,)), OPTIONS).partition("\n\n")[0]
    assert "*" not in tables
    improved = replace(row, verdict="improvement")
    assert "* 800.00%*" in mmtests(make_comparison(rows=(improved,)), OPTIONS)


def test_a_published_mean_is_no_mean_of_runs(make_comparison: Make, make_row: MakeRow) -> None:
    row = replace(row_of(make_row, (), ()), base=2.0, new=0.0)
    table = lines(make_comparison(rows=(row,)))
    assert table == {"Mean": "Mean      clients=8      2.0000 (   0.00%)      0.0000 (-100.00%)"}


def test_values_that_have_no_harmonic_mean_or_no_change(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = row_of(make_row, (0.0, 0.0), (1.0,))
    table = lines(make_comparison(rows=(row,)))
    assert table["Amean"] == "Amean     clients=8      0.0000 (      -%)      1.0000 (      -%)"
    assert "1.0000" not in table["Stddev"]


def test_points_of_a_metric_share_a_table_and_sides_are_columns(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    row = row_of(make_row, (1.0, 2.0), (2.0, 3.0))
    rows = tuple(
        replace(row, point=point, side=side) for point in ("n=1", "n=2") for side in ("new", "new2")
    )
    sides = tuple(make_side(name) for name in ("base", "new", "new2"))
    text = mmtests(make_comparison(rows=rows, sides=sides), OPTIONS)
    assert text.count("higher is better") == 1
    assert [line.split()[:2] for line in text.splitlines() if line.startswith("Hmean")] == [
        ["Hmean", "n=1"],
        ["Hmean", "n=2"],
    ]
    assert text.splitlines()[2].split() == ["base", "new", "new2"]


def test_large_and_hostile_texts_stay_lines(
    make_comparison: Make, replace_texts: Callable[[Comparison, str], Comparison]
) -> None:
    expected = len(mmtests(make_comparison(), OPTIONS).splitlines())
    for text in ("x\ny", "\r* 9.00%*\n", "m" * 1_000_000):
        printed = mmtests(replace_texts(make_comparison(), text), OPTIONS)
        assert len(printed.splitlines()) <= expected
        assert len(printed) < 100_000


def test_late_samples_and_maxima_of_real_time_benchmarks(
    make_bundle: Callable[..., Path], tmp_path: Path
) -> None:
    sides = {"base": (3, 5, 4, 2, 6, 4), "new": (30, 36, 28, 33, 35, 31)}
    paths = [
        make_bundle(tmp_path / f"{name}.tar", runs=tail_runs(counts))
        for name, counts in sides.items()
    ]
    comparison = compare_bundles([open_bundle(path) for path in paths])
    tables = mmtests(comparison, OPTIONS).split("\n\n")
    [maxima] = [table for table in tables if "latency max (us, lower is better)" in table]
    assert [line.split()[0] for line in maxima.splitlines() if "%" in line] == [
        "Min",
        "Median",
        "Max",
    ]
    [late] = [table for table in tables if "latency >= 100 us (samples, lower is bet" in table]
    [mean] = [line for line in late.splitlines() if line.startswith("Amean")]
    assert "5.0000 (   0.00%)     33.1667 *-563.33%*" in mean
    lines = benchfmt(comparison, OPTIONS).splitlines()
    assert sum("cyclictest_latency_>=_100_us-samples" in line for line in lines) == 1 + 2 * 6
