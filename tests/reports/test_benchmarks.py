"""Tables and remarks about the results: what each row says, and what is said once for all."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.caveats import caveat
from schedperf.model import Comparison, Overall, Row, SideSummary
from schedperf_reports._remarks import advise
from schedperf_reports.blocks import Block, Figure, Items, Table, Text, is_note
from schedperf_reports.sections.benchmarks import benchmarks

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]


def of_kind(comparison: Comparison, kind: type[Any]) -> list[Any]:
    return [block for block in benchmarks(comparison) if isinstance(block, kind)]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_each_family_has_its_table(make_comparison: Make) -> None:
    captions = [table.caption for table in of_kind(make_comparison(), Table)]
    assert captions == [
        "primary results; v lower is better; n counts runs",
        "secondary results, which decide nothing; ^ higher is better; n counts runs",
        "how sure each result is, 5 results",
        "each run's value, 5 results",
    ]


def test_points_of_a_metric_stand_below_its_name_and_their_mean_below_them(
    make_comparison: Make,
) -> None:
    table = of_kind(make_comparison(), Table)[0]
    assert [row[0] for row in texts(table)] == [
        "hackbench time",
        "  groups=1",
        "  groups=4",
        "  groups=16",
        "    new is noisier than base by a factor of 3.4 (p = 0.008)",
        "    needs about 6 more runs a side; these find changes from 7.2 %",
        "  geomean",
        "  all points: grows with groups; first at groups=4; p = 2.3e-06",
        "sched/pipe time per operation",
    ]
    assert texts(table)[2] == [
        "  groups=4", "v ms", "612", "839.7", "+37.2 %", "+35.0..+39.5", "5+5", "regression",
        "3.6e-07", "Welch t on logs",
    ]  # fmt: skip
    assert texts(table)[6][4:6] == ["+12.9 %", "+9.0..+17.0"]


def test_higher_is_better_is_marked(make_comparison: Make) -> None:
    assert texts(of_kind(make_comparison(), Table)[1])[0][1] == "^ k/s"


def test_only_undecided_rows_need_a_reason(make_comparison: Make, make_row: MakeRow) -> None:
    (items,) = of_kind(make_comparison(), Items)
    assert len(items.items) == 1
    assert items.items[0].text == (
        "hackbench time at groups=16: inconclusive: no significant change, and not shown equal "
        "within ±3 %"
    )
    invalid = make_row(verdict="invalid", reason="no value in new", ratio=None, base=None)
    (items,) = of_kind(make_comparison(rows=(invalid,)), Items)
    assert items.items[0].text == "hackbench time at groups=4: invalid: no value in new"


def test_a_missing_value_is_a_dash_and_no_figure(make_comparison: Make, make_row: MakeRow) -> None:
    row = make_row(ratio=None, base=None, q=None)
    comparison = make_comparison(rows=(row,))
    assert texts(of_kind(comparison, Table)[0])[0][2:6] == ["-"] * 4
    assert of_kind(comparison, Figure) == []


def test_without_results_the_section_says_so(make_comparison: Make) -> None:
    blocks: list[Block] = list(benchmarks(make_comparison(rows=())))
    assert blocks == [Text(text="no benchmark result to compare", tone="warning")]


def test_each_new_side_has_its_table(
    make_comparison: Make, make_row: MakeRow, make_side: Callable[..., SideSummary]
) -> None:
    comparison = make_comparison(
        sides=tuple(make_side(name) for name in ("base", "new", "new2")),
        rows=(make_row(side="new"), make_row(side="new2")),
    )
    captions = [table.caption for table in of_kind(comparison, Table)][:2]
    assert captions == [
        "new: primary results; v lower is better; n counts runs",
        "new2: primary results; v lower is better; n counts runs",
    ]


def test_commands_tell_equal_metrics_apart(make_comparison: Make, make_row: MakeRow) -> None:
    rows = tuple(
        make_row(workload=workload, point=point)
        for workload in ("hackbench -p", "hackbench -T")
        for point in ("groups=1", "groups=2")
    )
    names = [row[0] for row in texts(of_kind(make_comparison(rows=rows, sweeps=()), Table)[0])]
    assert names[::3] == ["hackbench time (hackbench -p)", "hackbench time (hackbench -T)"]


def test_a_reason_that_is_the_headline_is_not_said_again(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = make_row(verdict="inconclusive", reason="too noisy")
    overall = Overall(verdict="inconclusive", reason=f"{row.metric}: too noisy", exit_status=0)
    assert not of_kind(make_comparison(rows=(row,), overall=overall), Items)
    other = make_row(verdict="inconclusive", reason="too few runs")
    [items] = of_kind(make_comparison(rows=(row, other), overall=overall), Items)
    assert len(items.items) == 2


def sweep(
    shift: Callable[[int], float], *, runs: int = 5, points: Sequence[int] = (1, 4, 16, 64)
) -> pd.DataFrame:
    """Return a sweep with 1 % noise whose runs took turns."""
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


def results(comparison: Comparison) -> list[list[str]]:
    return texts(of_kind(comparison, Table)[0])


def told_below(comparison: Comparison, point: str) -> list[str]:
    """Return the notes between a point and the next row with numbers."""
    rows = results(comparison)
    first = next(place for place, row in enumerate(rows) if row[0] == f"  {point}") + 1
    return [row[0].strip() for row in takewhile(lambda row: not any(row[1:]), rows[first:])]


def test_a_sweep_says_how_the_change_goes_with_the_load(compare_frame: Make) -> None:
    comparison = compare_frame(sweep(logarithmic))
    label, *rest = results(comparison)[-1]
    found = re.fullmatch(r"  all points: (.+); first at (.+); p = (\S+)", label)
    assert found is not None
    assert found.groups()[:2] == ("grows with groups", "groups=4")
    assert 0.0 < float(found[3]) < 1e-6
    assert set(rest) == {""}


def test_a_sweep_that_did_not_change_has_no_shape(compare_frame: Make) -> None:
    comparison = compare_frame(sweep(unchanged))
    assert re.fullmatch(r"  all points: p = 0\.\d+", results(comparison)[-1][0])


def test_rows_tested_together_are_counted_with_what_chance_may_add(compare_frame: Make) -> None:
    changed = [block.text for block in of_kind(compare_frame(sweep(logarithmic)), Text)]
    assert changed == ["4 results tested together, 3 changed, at most 0.15 of them by chance"]
    same = [block.text for block in of_kind(compare_frame(sweep(unchanged)), Text)]
    assert same == ["4 results tested together, none changed"]


@pytest.mark.parametrize(
    ("columns", "caption", "number"),
    [
        ({}, "n counts runs", "6+6"),
        ({"round": lambda table: table["run"]}, "n counts rounds", "6"),
        ({"boot": lambda table: table["run"] // 2}, "n counts boots", "3+3"),
    ],
)
def test_n_counts_what_is_independent(
    compare_frame: Make, columns: Mapping[str, Any], caption: str, number: str
) -> None:
    comparison = compare_frame(sweep(unchanged, runs=6).assign(**columns))
    table = of_kind(comparison, Table)[0]
    assert table.caption.endswith(caption)
    assert {row[6] for row in texts(table) if row[6]} == {number}


def test_units_that_differ_stand_in_the_cells(make_comparison: Make, make_row: MakeRow) -> None:
    rows = (make_row(point="groups=1"), make_row(replication="rounds", n_base=6, n_new=6))
    table = of_kind(make_comparison(rows=rows), Table)[0]
    assert "n counts" not in table.caption
    assert [row[6] for row in texts(table) if row[6]] == ["5+5 runs", "6 rounds"]


def test_published_means_say_that_their_number_is_unknown(compare_frame: Make) -> None:
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
    assert results(comparison)[0][4:8] == ["-10.0 %", "-", "?+?", "inconclusive"]
    assert results(comparison)[1][0] == "    the source claims -8%, its own numbers give -10.0 %"
    assert not any(one.caption.startswith("each run") for one in of_kind(comparison, Table))


def test_an_open_row_says_what_would_settle_it_and_what_it_could_find(compare_frame: Make) -> None:
    wide = sweep(unchanged).assign(value=lambda table: table["value"] * (1 + table["run"] % 3 / 20))
    comparison = compare_frame(wide)
    row = next(row for row in comparison.rows if row.point == "groups=4")
    assert row.more_runs is not None
    assert row.mde is not None
    [note] = told_below(comparison, "groups=4")
    found = f"these find changes from {100 * row.mde:.1f} %"
    assert note == f"needs about {row.more_runs} more runs a side; {found}"
    assert of_kind(comparison, Items) == []  # The headline has the reason, which is one for all.
    told = next(row for row in comparison.rows if row.reason in comparison.overall.reason)
    assert told_below(comparison, told.point) == []


def test_a_round_is_not_a_round_a_side(make_row: MakeRow) -> None:
    row = make_row(
        verdict="inconclusive", replication="rounds", n_base=6, n_new=6, more_runs=1, mde=None
    )
    assert advise(row) == "needs about 1 more round"


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


def test_an_obstacle_of_all_rows_is_said_once(compare_frame: Make) -> None:
    table = sweep(logarithmic, points=(1, 4, 16))
    blocks = table.assign(order=lambda one: one["run"] + 100 * (one["side"] == "new"))
    comparison = compare_frame(blocks)
    assert {row.verdict for row in comparison.rows} == {"inconclusive"}
    assert "recorded wholly after base" in comparison.overall.reason
    assert of_kind(comparison, Items) == []
    overall = Overall(verdict="inconclusive", reason="no result can decide", exit_status=0)
    [items] = of_kind(compare_frame(blocks, overall=overall), Items)
    assert len(items.items) == 1
    assert items.items[0].text.startswith("all 3 results: inconclusive: new was recorded wholly")


def test_what_is_said_of_one_row_stands_below_it(compare_frame: Make) -> None:
    table = sweep(unchanged, runs=8)
    slow = (table["point"] == "groups=4") & (table["run"] % 3 == 0)
    table.loc[slow, "value"] *= 1.3
    comparison = compare_frame(table)
    assert told_below(comparison, "groups=4")[0].startswith("two modes: 3 of 8 runs were in the")
    assert told_below(comparison, "groups=1") == []
    kinds = {is_note(row) for row in of_kind(comparison, Table)[0].rows if row[0].tone == "warning"}
    assert kinds == {True}


def test_what_is_said_of_several_rows_is_said_once_below_the_table(
    make_comparison: Make, make_row: MakeRow
) -> None:
    coarse = caveat("coarse", step=0.1, unit="s", percent=5.0)
    told = caveat("emulated", how="QEMU")
    rows = tuple(make_row(point=f"g={n}", caveats=(coarse, coarse, told)) for n in range(3))
    other = make_row(point="g=9")
    comparison = make_comparison(rows=(*rows, other), caveats=(told,), sweeps=())
    [items] = of_kind(comparison, Items)
    names = ", ".join(f"hackbench time at g={n}" for n in range(3))
    assert [item.text for item in items.items] == [f"{names}: {coarse.text}"]
    assert "    " not in {row[0][:4] for row in results(comparison)}
    [items] = of_kind(make_comparison(rows=rows, caveats=(told,), sweeps=()), Items)
    assert items.items[0].text == f"all 3 results: {coarse.text}"


def test_a_row_without_an_interval_says_once_that_it_has_too_few_runs(compare_frame: Make) -> None:
    table = sweep(unchanged, points=(4,))
    comparison = compare_frame(table[(table["side"] == "base") | (table["run"] == 0)])
    assert [one.code for one in comparison.rows[0].caveats] == ["few-runs"]
    assert "new has 1 run; at least 2 are needed" in comparison.overall.reason
    assert [row[0] for row in results(comparison)] == ["hackbench time at groups=4"]


def test_failed_runs_are_a_row_with_counts_and_no_ratio(compare_frame: Make) -> None:
    table = sweep(unchanged, runs=8, points=(4,)).assign(status="ok")
    table.loc[(table["side"] == "new") & (table["run"] < 7), "status"] = "exit 1"
    comparison = compare_frame(table)
    row = next(row for row in results(comparison) if row[0].startswith("failed runs"))
    assert row[:8] == ["failed runs at groups=4", "v", "0", "7", "-", "-", "8+8", "regression"]
    runs = of_kind(comparison, Table)[-1]
    assert [line[0] for line in texts(runs)] == ["hackbench time at groups=4"]


def test_details_have_a_column_for_what_is_known_and_no_other(compare_frame: Make) -> None:
    def columns(table: pd.DataFrame) -> list[str]:
        return [column.title for column in of_kind(compare_frame(table), Table)[-2].columns]

    always = ["result", "finds changes from"]
    ranks = ["p", "p of ranks", "change by ranks", "its 95 % interval"]
    runs = sweep(logarithmic, points=(4, 16, 64))
    assert columns(runs) == [*always, *ranks]
    boots = sweep(logarithmic, runs=8, points=(4, 16, 64)).assign(boot=lambda one: one["run"] // 2)
    assert columns(boots) == [*always, "p", "ICC", "design effect"]


def test_details_repeat_the_record(make_comparison: Make, make_row: MakeRow) -> None:
    row = make_row(
        p=0.0, p_rank=0.0079, rank_ratio=1.371, rank_low=1.346, rank_high=1.397, mde=0.024,
        more_runs=3, icc=0.534, design_effect=2.0,
    )  # fmt: skip
    details = of_kind(make_comparison(rows=(row,)), Table)[-2]
    assert details.limit == 0
    assert texts(details) == [
        [
            "hackbench time at groups=4", "2.4 %", "3", "<1e-99", "0.0079", "+37.1 %",
            "+34.6..+39.7", "0.53", "2.00",
        ]
    ]  # fmt: skip
