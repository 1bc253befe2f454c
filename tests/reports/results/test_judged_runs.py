# SPDX-License-Identifier: GPL-2.0-or-later
"""Results that the engine judged: sweeps, what n counts, what is said once or below a row."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.model.caveats import caveat
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf_reports.blocks import Items, Table, is_note
from schedperf_reports.graphics.chart import Chart
from schedperf_reports.words.remarks import advise
from schedperf_reports.words.sentences import describe_verdict
from tests.reports.comparison_records import overall_of

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]
OfKind = Callable[[Comparison, type[Any]], list[Any]]
Texts = Callable[[Table], list[list[str]]]
Results = Callable[[Comparison], list[list[str]]]
ToldBelow = Callable[[Comparison, str], list[str]]


def sweep(
    shift: Callable[[int], float], *, runs: int = 5, points: Sequence[int] = (1, 4, 16, 64)
) -> pd.DataFrame:
    """Return a sweep with 1% noise whose runs took turns."""
    noise = np.random.default_rng(5)
    table = pd.DataFrame(
        [
            {"side": side, "groups": groups, "run": run}
            for groups in points
            for run in range(runs)
            for side in ("base", "new")
        ]
    )
    moved = np.where(table["side"] == "new", table["groups"].map(shift), 0.0)
    value = 0.5 * table["groups"] * np.exp(moved + noise.normal(0.0, 0.01, len(table)))
    return table.assign(
        value=value, point="groups=" + table["groups"].astype(str),
        workload="hackbench -g {groups}", metric="hackbench time", unit="s", better="lower",
    )  # fmt: skip


def logarithmic(groups: int) -> float:
    return 0.03 * math.log2(groups)


def unchanged(_: int) -> float:
    return 0.0


@pytest.fixture
def results(of_kind: OfKind, cells: Texts) -> Results:
    """Return the texts of the first table."""
    return lambda comparison: cells(of_kind(comparison, Table)[0])


@pytest.fixture
def told_below(results: Results) -> ToldBelow:
    """Return the notes between a point and the next row with numbers."""

    def notes(comparison: Comparison, point: str) -> list[str]:
        rows = results(comparison)
        first = next(place for place, row in enumerate(rows) if row[0] == f"  {point}") + 1
        return [row[0].strip() for row in takewhile(lambda row: not any(row[1:]), rows[first:])]

    return notes


def test_a_sweep_says_how_the_change_goes_with_the_load(
    compare_frame: Make, results: Results
) -> None:
    comparison = compare_frame(sweep(logarithmic))
    label, *rest = results(comparison)[-1]
    found = re.fullmatch(
        r"  all parameter values: (.+); first significant change at (.+); p = (\S+)", label
    )
    assert found is not None
    assert found.groups()[:2] == ("grows with groups", "groups=4")
    assert 0.0 < float(found[3]) < 1e-6
    assert set(rest) == {""}


def test_a_sweep_that_did_not_change_has_no_shape(compare_frame: Make, results: Results) -> None:
    comparison = compare_frame(sweep(unchanged))
    assert re.fullmatch(r"  all parameter values: p = 0\.\d+", results(comparison)[-1][0])


@pytest.mark.parametrize(
    ("columns", "caption", "number"),
    [
        ({}, "n = runs", "6+6"),
        ({"round": lambda table: table["run"]}, "n = pairs", "6"),
        ({"boot": lambda table: table["run"] // 2}, "n = boots", "3+3"),
    ],
)
def test_n_counts_what_is_independent(
    compare_frame: Make,
    *,
    columns: Mapping[str, Any],
    caption: str,
    number: str,
    of_kind: OfKind,
    cells: Texts,
) -> None:
    comparison = compare_frame(sweep(unchanged, runs=6).assign(**columns))
    table = of_kind(comparison, Table)[0]
    assert table.caption.endswith(caption)
    assert {row[6] for row in cells(table) if row[6]} == {number}


def test_published_means_say_that_their_number_is_unknown(
    compare_frame: Make, of_kind: OfKind, results: Results
) -> None:
    published = pd.DataFrame(
        {
            "side": ["base", "new"],
            "workload": "tbench",
            "point": "clients=8",
            "metric": "throughput",
            "unit": "MB/s",
            "better": "higher",
            "mean": [4000.0, 3600.0],
            "cv": [0.02, 0.02],
            "claimed": [None, "-8%"],
        }
    )
    comparison = compare_frame(published)
    assert results(comparison)[0][4:8] == ["-10.0%", "-", "unknown", "inconclusive"]
    assert (
        results(comparison)[1][0]
        == "    the source states a change of -8%, but its numbers yield -10.0%"
    )
    details = of_kind(comparison, Table)[0].details[0]
    assert not any(isinstance(block, Chart) for block in details)
    assert [one.caption for one in details if isinstance(one, Table)] == [
        "throughput at clients=8: inconclusive, n unknown"
    ]


def test_an_open_row_says_what_would_settle_it_and_what_it_could_find(
    compare_frame: Make, of_kind: OfKind, told_below: ToldBelow
) -> None:
    wide = sweep(unchanged).assign(value=lambda table: table["value"] * (1 + table["run"] % 3 / 20))
    comparison = compare_frame(wide)
    row = next(row for row in comparison.rows if row.point == "groups=4")
    assert row.more_runs is not None
    assert row.mde is not None
    [note] = told_below(comparison, "groups=4")
    found = f"smallest detectable change {100 * row.mde:.1f}% (80% power)"
    assert note == f"about {row.more_runs} more runs per side would give a verdict; {found}"
    assert of_kind(comparison, Items) == []  # The headline has the reason, which is one for all.
    headline = describe_verdict(comparison)
    told = next(row for row in comparison.rows if (advise(row) or "nothing") in headline)
    assert told_below(comparison, told.point) == []


def test_a_pair_is_not_a_pair_per_side(make_row: MakeRow) -> None:
    row = make_row(
        verdict="inconclusive", replication="rounds", n_base=6, n_new=6, more_runs=1, mde=None
    )
    assert advise(row) == "about 1 more pair would give a verdict"


@pytest.mark.parametrize(
    "changes",
    [
        {"more_runs": None},
        {"verdict": "invalid"},
        {"n_base": None},
        {"caveats": (caveat("emulated", how="QEMU"),)},
    ],
)
def test_nothing_is_advised_where_more_runs_are_no_help(
    make_row: MakeRow, changes: Mapping[str, Any]
) -> None:
    opened = {"verdict": "inconclusive", "more_runs": 6}
    assert advise(make_row(**opened)) is not None
    assert advise(make_row(**opened | dict(changes))) is None


def test_an_obstacle_of_all_rows_is_said_once(compare_frame: Make, of_kind: OfKind) -> None:
    table = sweep(logarithmic, points=(1, 4, 16))
    blocks = table.assign(order=lambda one: one["run"] + 100 * (one["side"] == "new"))
    comparison = compare_frame(blocks)
    assert {row.verdict for row in comparison.rows} == {"inconclusive"}
    assert "the sides were not interleaved" in comparison.overall.reason
    assert of_kind(comparison, Items) == []
    overall = overall_of("invalid", "cpu.model differs", 4)
    [items] = of_kind(compare_frame(blocks, overall=overall), Items)
    assert len(items.items) == 1
    assert items.items[0].text.startswith(
        "all 3 results: inconclusive: the sides were not interleaved"
    )


def test_what_is_said_of_one_row_stands_below_it(
    compare_frame: Make, of_kind: OfKind, told_below: ToldBelow
) -> None:
    table = sweep(unchanged, runs=8)
    slow = (table["point"] == "groups=4") & (table["run"] % 3 == 0)
    table.loc[slow, "value"] *= 1.3
    comparison = compare_frame(table)
    assert told_below(comparison, "groups=4")[0].startswith("two modes, 1.")
    assert told_below(comparison, "groups=1") == []
    kinds = {is_note(row) for row in of_kind(comparison, Table)[0].rows if row[0].tone == "warning"}
    assert kinds == {True}


def test_what_is_said_of_several_rows_is_said_once_below_the_table(
    make_comparison: Make, make_row: MakeRow, of_kind: OfKind, results: Results
) -> None:
    coarse = caveat("coarse", step=0.1, unit="s", percent=5.0)
    told = caveat("emulated", how="QEMU")
    rows = tuple(make_row(point=f"g={n}", caveats=(coarse, coarse, told)) for n in range(2))
    other = make_row(point="g=9")
    comparison = make_comparison(rows=(*rows, other), caveats=(told,), sweeps=())
    [items] = of_kind(comparison, Items)
    names = ", ".join(f"hackbench time at g={n}" for n in range(2))
    assert [item.text for item in items.items] == [f"{names}: {coarse.text}"]
    assert "    " not in {row[0][:4] for row in results(comparison)}
    [items] = of_kind(make_comparison(rows=rows, caveats=(told,), sweeps=()), Items)
    assert items.items[0].text == f"all 2 results: {coarse.text}"


def test_a_row_without_an_interval_says_once_that_it_has_too_few_runs(
    compare_frame: Make, results: Results
) -> None:
    table = sweep(unchanged, points=(4,))
    comparison = compare_frame(table[(table["side"] == "base") | (table["run"] == 0)])
    assert [one.code for one in comparison.rows[0].caveats] == ["few-runs"]
    assert "new has 1 run; a CI requires at least 2" in comparison.overall.reason
    assert [row[0] for row in results(comparison)] == ["hackbench time at groups=4"]


def test_failed_runs_are_a_row_with_counts_and_no_ratio(
    compare_frame: Make, of_kind: OfKind, results: Results
) -> None:
    table = sweep(unchanged, runs=8, points=(4,)).assign(status="ok")
    table.loc[(table["side"] == "new") & (table["run"] < 7), "status"] = "exit 1"
    comparison = compare_frame(table)
    row = next(row for row in results(comparison) if row[0].startswith("failed runs"))
    assert row[:8] == ["failed runs at groups=4", "", "0", "7", "-", "-", "8+8", "regression"]
    table = of_kind(comparison, Table)[0]
    drawn = [
        line[0]
        for line, details in zip(results(comparison), table.details, strict=True)
        if any(isinstance(block, Chart) for block in details)
    ]
    assert drawn == ["hackbench time at groups=4"]


def test_unchanged_results_are_quiet_and_what_belongs_to_them_is(
    compare_frame: Make, of_kind: OfKind
) -> None:
    table, *_ = of_kind(compare_frame(sweep(logarithmic)), Table)
    quiet = {
        row[0].text.strip(): is_quiet for row, is_quiet in zip(table.rows, table.quiet, strict=True)
    }
    assert quiet["groups=1"]
    assert not quiet["groups=64"]
    assert not quiet["hackbench time"]
    assert not quiet["geomean"]
    unchanged_all, *_ = of_kind(compare_frame(sweep(unchanged)), Table)
    assert set(unchanged_all.quiet) == {True}
    assert unchanged_all.quiet_word == "unchanged"


def test_results_on_one_side_only_are_listed_at_the_end_with_why(
    compare_frame: Make, of_kind: OfKind
) -> None:
    both = sweep(unchanged, points=(4,))
    lost = both[both["side"] == "base"].assign(metric="gone time", point="")
    failed = caveat("failed-runs", failed=2, total=6, side="new")
    comparison = compare_frame(pd.concat([both, lost]), caveats=(failed,))
    table = of_kind(comparison, Table)[-1]
    assert table.caption == "1 result missing in base or new"
    assert [cell.text for cell in table.rows[0]][:2] == ["gone time", "new"]
    assert table.rows[0][3].text == failed.text
    untold = of_kind(compare_frame(pd.concat([both, lost])), Table)[-1]
    assert untold.rows[0][3].text == "no value in the output of any run of new"
