# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's wakeup latency: percentiles of each command, and both distribution functions."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.evidence.wakeup_latency.section import analyse_sides
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Section
from schedperf_reports.blocks import Block, Table, Text
from schedperf_reports.evidence.wakeup_latency import wakeup_latency
from schedperf_reports.graphics.chart import Chart
from schedperf_reports.text.terminal import draw_section, write_text
from tests.schedperf.evidence.wakeup_latency.conftest import Json, side_of, waits_row, with_tail

Describe = Callable[..., list[Block]]
STEPS = (0, 2, -1, 1, -2)


def runs_of(tail_us: int, **changed: Any) -> list[Json]:
    return [{**with_tail(tail_us, step), **changed} for step in STEPS]


@pytest.fixture
def describe(make_comparison: Callable[..., Comparison]) -> Describe:
    """Return the blocks of a comparison of wakeups.json."""

    def run(base: list[Json], *new: list[Json]) -> list[Block]:
        sides = [side_of("base", base), *(side_of("new", runs) for runs in new)]
        data = analyse_sides(sides)
        comparison = make_comparison(sections={data.section: Section.of(data)})
        return list(wakeup_latency(comparison))

    return run


def texts(blocks: list[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


def tables_of(blocks: list[Block]) -> list[Table]:
    return [block for block in blocks if isinstance(block, Table)]


def charts_of(blocks: list[Block]) -> list[Chart]:
    return [block for block in blocks if isinstance(block, Chart)]


def test_the_table_has_each_percentile_with_the_interval_of_each_side(describe: Describe) -> None:
    table, by_node = tables_of(describe(runs_of(200), runs_of(900)))
    titles = [column.title for column in table.columns]
    rows = {(row[0].text, row[1].text): dict(zip(titles, row, strict=True)) for row in table.rows}
    p99 = rows["hackbench", "p99"]
    assert p99["base"].text.endswith(" us")
    assert p99["CI of base"].text.startswith("[")
    assert p99["change"].text.startswith("* +3")
    assert p99["waits per run"].text == "2000 -> 2000"
    assert rows["hackbench", "p50"]["change"].text == "+0.0%"
    assert ("hackbench, node 1") in [row[0].text for row in by_node.rows]
    assert by_node.caption.startswith("by NUMA node: ")
    assert "n = 5+5 runs" in table.caption


def test_percentiles_of_fewer_runs_are_named(describe: Describe) -> None:
    few = {**runs_of(900)[0], "rows": [waits_row("hackbench", 0, {20_000: 200})]}
    said = " ".join(texts(describe(runs_of(200), [few, *runs_of(900)[1:]])))
    assert "of 5+5 runs fewer have enough waits for " in said
    assert "p99.9 (5+4)" in said


def test_the_distributions_are_drawn_with_their_difference_below(describe: Describe) -> None:
    charts = charts_of(describe(runs_of(200), runs_of(900)))
    assert len(charts) == 2
    both, difference = charts[0].panels
    assert [series.side for series in both.series] == ["base", "new"]
    assert [point.y for point in both.series[0].points][-1] == pytest.approx(100.0)
    [series] = difference.series
    assert min(point.y for point in series.points) == pytest.approx(-2.0)
    assert "98.0% of new are shorter than" in charts[0].caption


def test_a_side_alone_has_values_and_one_curve(describe: Describe) -> None:
    blocks = describe(runs_of(200))
    table, _ = tables_of(blocks)
    assert [column.title for column in table.columns][:4] == ["command", "wait", "value", "95% CI"]
    [panel] = charts_of(blocks)[0].panels
    assert [series.side for series in panel.series] == ["base"]


def test_how_it_was_measured_and_what_was_lost_are_said(describe: Describe) -> None:
    said = texts(describe(runs_of(200), runs_of(900, lost={"perf records": 1})))
    assert "base and new: 5 runs measured with BPF, 10255 waits" in said
    assert "new: events lost: 5 (perf records)" in said
    assert any("from the wakeup until the task runs" in text for text in said)


def test_why_sides_are_not_compared_is_said_once(describe: Describe) -> None:
    blocks = describe(runs_of(200), runs_of(900, mechanism="perf"))
    said = [text for text in texts(blocks) if text.startswith("not compared")]
    assert said == ["not compared: base was measured with bpf, new with perf"]
    assert {row[4].text for row in tables_of(blocks)[0].rows} != {"-"}


def test_a_chart_can_be_drawn_when_nothing_changed(describe: Describe) -> None:
    charts = charts_of(describe(runs_of(200), runs_of(200)))
    assert charts[0].caption.endswith(": no percentile changed significantly")


@pytest.mark.parametrize("is_changed", [True, False])
def test_captions_of_charts_state_what_their_table_states(
    make_comparison: Callable[..., Comparison], *, is_changed: bool
) -> None:
    data = analyse_sides([side_of("base", runs_of(200)), side_of("new", runs_of(900))])
    rows = tuple(
        replace(row, changed=is_changed and row.command == "hackbench" and row.quantile == "p90")
        for row in data.rows
    )
    distributions = tuple(
        replace(each, changed=tuple(not is_changed for _ in each.changed))
        for each in data.distributions
    )
    data = replace(data, rows=rows, distributions=distributions)
    comparison = make_comparison(sections={data.section: Section.of(data)})
    captions = [chart.caption for chart in charts_of(list(wakeup_latency(comparison)))]
    said = "the largest difference" if is_changed else "no percentile changed significantly"
    assert said in captions[0]
    assert "no percentile changed significantly" in captions[1]


def test_a_terminal_states_that_different_numbers_of_runs_are_not_shown(
    describe: Describe,
) -> None:
    few = {**runs_of(900)[0], "rows": [waits_row("hackbench", 0, {20_000: 200})]}
    table = tables_of(describe(runs_of(200), [few, *runs_of(900)[1:]]))[0]
    missed = next(
        line
        for line in write_text(draw_section([table], None, 80, see=""), 80, colour=False).split(
            "\n"
        )
        if "columns not shown at this width" in line
    )
    assert missed.split(": ")[1].split(", ")[-2:] == ["n", "waits per run"]


def test_the_changes_of_one_point_are_counted_once(describe: Describe) -> None:
    blocks = describe(runs_of(200), runs_of(900))
    captions = [block.caption for block in blocks if isinstance(block, Table)]
    assert captions[0] == "percentiles and maxima; n = 5+5 runs"
    assert sum("of 13 rows changed" in text for text in [*texts(blocks), *captions]) == 1


def test_a_short_report_has_waits_where_nothing_else_was_compared(
    make_comparison: Callable[..., Comparison],
) -> None:
    data = analyse_sides([side_of("base", runs_of(200)), side_of("new", runs_of(900))])
    found = make_comparison(sections={data.section: Section.of(data)})
    brief = [
        [table.brief for table in tables_of(list(wakeup_latency(comparison)))]
        for comparison in (found, replace(found, rows=()))
    ]
    assert brief == [[False, False], [True, False]]


def test_maxima_of_few_runs_have_no_interval(describe: Describe) -> None:
    blocks = describe(runs_of(200)[:4], runs_of(900)[:4])
    rows = [row for row in tables_of(blocks)[0].rows if row[1].text == "max"]
    assert {row[7].text for row in rows} == {"-"}
    assert any(text.startswith("no CI of maxima: they are compared by") for text in texts(blocks))
