"""Tables and remarks about the results: what each row says, and what is said once for all."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
import pandas as pd
import pytest

from schedperf.caveats import caveat
from schedperf.model import Comparison, Overall, Row, RunValue, SideSummary, Source
from schedperf_reports._geomean import geomean_of
from schedperf_reports._remarks import advise
from schedperf_reports._sentences import describe_verdict
from schedperf_reports.blocks import Block, Figure, Items, Table, Text, is_note
from schedperf_reports.graphics.intervals import Intervals
from schedperf_reports.sections.benchmarks import benchmarks

Make = Callable[..., Comparison]
MakeRow = Callable[..., Row]


def of_kind(comparison: Comparison, kind: type[Any]) -> list[Any]:
    return [block for block in benchmarks(comparison) if isinstance(block, kind)]


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_each_family_has_its_table(make_comparison: Make) -> None:
    tables = of_kind(make_comparison(), Table)
    assert [table.caption for table in tables] == [
        "primary results; v lower is better; n counts runs",
        "hackbench time over groups with the 95 % interval of each side",
        "secondary results, which decide nothing; ^ higher is better; n counts runs",
    ]
    assert [table.brief for table in tables] == [True, False, False]


def test_where_nothing_is_primary_the_short_text_has_the_first_family(
    make_comparison: Make, make_row: MakeRow
) -> None:
    rows = (make_row(family="diagnostic", point=""), make_row(family="secondary", point=""))
    tables = of_kind(make_comparison(rows=rows, sweeps=()), Table)
    assert [(table.caption[:9], table.brief) for table in tables] == [
        ("secondary", True), ("diagnosti", False),
    ]  # fmt: skip


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
        "geomean of all 4",
    ]
    assert texts(table)[2] == [
        "  groups=4", "v ms", "612", "839.7", "+37.2 %", "+35.0..+39.5", "5+5", "regression",
        "3.6e-07", "Welch t on logs",
    ]  # fmt: skip
    assert texts(table)[6][4:6] == ["+12.9 %", "+9.0..+17.0"]


def test_higher_is_better_is_marked(make_comparison: Make) -> None:
    assert texts(of_kind(make_comparison(), Table)[-1])[0][1] == "^ k/s"


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


def test_a_missing_value_is_a_dash_and_no_line(make_comparison: Make, make_row: MakeRow) -> None:
    row = make_row(ratio=None, base=None, q=None)
    (table,) = of_kind(make_comparison(rows=(row,), sweeps=()), Table)
    assert texts(table)[0][2:6] == ["-"] * 4
    assert {table.rows[0][place].sort for place in (2, 3, 4, 5)} == {None}
    assert of_kind(make_comparison(rows=(row,), sweeps=()), Intervals) == []


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
        "B new: primary results; v lower is better; n counts runs",
        "C new2: primary results; v lower is better; n counts runs",
    ]
    tables = of_kind(comparison, Table)[:2]
    assert [table.columns[3].title for table in tables] == ["B new", "C new2"]
    name = "hackbench time at groups=4"
    assert [table.anchors[0] for table in tables] == [name, f"new2: {name}"]


def test_commands_tell_equal_metrics_apart(make_comparison: Make, make_row: MakeRow) -> None:
    rows = tuple(
        make_row(workload=workload, point=point)
        for workload in ("hackbench -p", "hackbench -T")
        for point in ("groups=1", "groups=2")
    )
    names = [row[0] for row in texts(of_kind(make_comparison(rows=rows, sweeps=()), Table)[0])]
    assert names[:6:3] == ["hackbench time (hackbench -p)", "hackbench time (hackbench -T)"]


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
    details = of_kind(comparison, Table)[0].details[0]
    assert not any(isinstance(block, Figure) for block in details)
    assert [one.caption for one in details if isinstance(one, Table)] == [
        "how sure throughput at clients=8 is"
    ]


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
    headline = describe_verdict(comparison)
    told = next(row for row in comparison.rows if (advise(row) or "nothing") in headline)
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
    overall = Overall(verdict="invalid", reason="cpu.model differs", exit_status=4)
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
    table = of_kind(comparison, Table)[0]
    place = results(comparison).index(row)
    assert not any(isinstance(block, Figure) for block in table.details[place])


def test_unchanged_results_are_quiet_and_what_belongs_to_them_is(compare_frame: Make) -> None:
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


def test_cells_sort_by_the_numbers_of_the_record(make_comparison: Make) -> None:
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
    make_comparison: Make, make_row: MakeRow
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
    assert cells[0].text == "geomean of all 3"
    assert cells[4].sort == pytest.approx(mean)
    assert cells[5].sort == pytest.approx(mean * math.exp(-half))


def test_each_direction_has_a_mean_of_its_own(make_comparison: Make, make_row: MakeRow) -> None:
    rows = tuple(
        make_row(workload=f"bench{n}", point="", better="higher" if n % 2 else "lower")
        for n in range(4)
    )
    names = [row[0] for row in texts(of_kind(make_comparison(rows=rows, sweeps=()), Table)[0])]
    assert names[4:] == ["geomean of all 2, higher is better", "geomean of all 2, lower is better"]


def test_results_of_one_run_do_not_narrow_their_mean(make_row: MakeRow) -> None:
    rows = [make_row(metric=f"m{n}", ratio=1.2, ci_low=1.1, ci_high=1.32) for n in range(9)]
    assert geomean_of(rows) is None
    other = make_row(point="groups=9", ratio=1.2, ci_low=1.2, ci_high=1.2)
    found = geomean_of([*rows, other])
    assert found is not None
    assert math.log(found.ci_high / found.ci_low) == pytest.approx(0.9 * math.log(1.32 / 1.1))


def test_what_cannot_be_compared_is_not_in_a_mean(make_comparison: Make, make_row: MakeRow) -> None:
    rows = (
        *(make_row(workload=f"bench{n}", point="") for n in range(2)),
        make_row(workload="other", point="", verdict="invalid", reason="cpu.model differs"),
    )
    table = of_kind(make_comparison(rows=rows, sweeps=()), Table)[0]
    assert table.rows[-1][0].text == "geomean of 2 of 3"
    assert geomean_of(rows[1:]) is None


def details_of(comparison: Comparison, number: int = 0) -> tuple[Block, ...]:
    table: Table = of_kind(comparison, Table)[0]
    return [inner for inner in table.details if inner][number]


def test_a_result_opens_to_its_reason_runs_test_and_origin(
    make_comparison: Make, make_row: MakeRow
) -> None:
    source = Source(member="boots/0/runs/003/stdout", line=7, text="Time: 0.612")
    row = make_row(values_base=tuple(replace(run, source=source) for run in make_row().values_base),
                   definition="time of all groups together")  # fmt: skip
    reason, drawn, runs, figures, origin = details_of(make_comparison(rows=(row,), sweeps=()))
    assert isinstance(reason, Text)
    assert reason.text == row.reason
    assert isinstance(drawn, Figure)
    assert isinstance(runs, Table)
    assert texts(runs) == [
        ["A base", "0", "612", "607.1 609.6 612 614.4 616.9", "0 to 4"],
        ["B new", "0", "839.7", "832.9 836.3 839.7 843 846.4", "0 to 4"],
    ]
    assert isinstance(figures, Table)
    told = dict(texts(figures))
    assert told == {
        "test": "Welch t on logs, 5+5 runs",
        "p": "1.2e-07; q = 3.6e-07, for all results of the family",
        "counts as equal within": "±3.0 %",
        "as many runs find changes from": "2.4 %",
        "test of ranks": "p = 0.0079, +37.1 %, interval +34.6..+39.7",
    }
    assert isinstance(origin, Items)
    assert [item.text for item in origin.items] == [
        "hackbench time: time of all groups together; lower is better",
        "command: hackbench -l 1000 -g {groups} at groups=4",
        "A base printed: Time: 0.612",
    ]
    assert origin.items[2].detail == "boots/0/runs/003/stdout, line 7"


def test_nobody_orders_runs_whose_place_in_time_is_not_known(
    make_comparison: Make, make_row: MakeRow
) -> None:
    ordered = make_row()
    unordered = make_row(values_base=tuple(replace(run, order=None) for run in ordered.values_base))
    captions = [
        table.caption
        for row in (ordered, unordered)
        for table in details_of(make_comparison(rows=(row,)))
        if isinstance(table, Table) and table.caption.startswith("each run of")
    ]
    assert [caption.rpartition(", ")[2] for caption in captions] == [
        "in the order of time",
        "their order in time is not known",
    ]


def test_runs_are_told_boot_by_boot_in_the_order_of_time(
    make_comparison: Make, make_row: MakeRow
) -> None:
    def run(boot: int, order: int, value: float) -> RunValue:
        return RunValue(boot=boot, run=order, order=order, round=None, value=value)

    row = make_row(values_base=(run(1, 6, 0.6), run(0, 2, 0.5), run(0, 0, 0.4)), values_new=())
    tables = [one for one in details_of(make_comparison(rows=(row,))) if isinstance(one, Table)]
    assert texts(tables[0]) == [
        ["A base", "0", "450", "400 500", "0 2"],
        ["A base", "1", "600", "600", "6"],
    ]


def test_boots_and_more_runs_are_told_where_they_are_known(
    make_comparison: Make, make_row: MakeRow
) -> None:
    row = make_row(icc=0.534, design_effect=2.0, more_runs=3, p=None, p_rank=None, mde=None)
    tables = [one for one in details_of(make_comparison(rows=(row,))) if isinstance(one, Table)]
    told = dict(texts(tables[-1]))
    assert list(told) == ["test", "counts as equal within", "more a side would settle it", "boots"]
    assert told["more a side would settle it"] == "3 runs"
    assert told["boots"] == "53.4 % of the variance is between boots (ICC), design effect 2.00"


def test_a_metric_that_nobody_defines_says_so(make_comparison: Make) -> None:
    origin = details_of(make_comparison())[-1]
    assert isinstance(origin, Items)
    assert "nobody says how it is measured" in origin.items[0].text


def test_results_on_one_side_only_are_listed_at_the_end_with_why(compare_frame: Make) -> None:
    both = sweep(unchanged, points=(4,))
    lost = both[both["side"] == "base"].assign(metric="gone time", point="")
    failed = caveat("failed-runs", failed=2, total=6, side="new")
    comparison = compare_frame(pd.concat([both, lost]), caveats=(failed,))
    table = of_kind(comparison, Table)[-1]
    assert table.caption == "1 result on one side only"
    assert [cell.text for cell in table.rows[0]][:2] == ["gone time", "B new"]
    assert table.rows[0][3].text == failed.text
    untold = of_kind(compare_frame(pd.concat([both, lost])), Table)[-1]
    assert untold.rows[0][3].text == "no run of that side printed it"
