# SPDX-License-Identifier: GPL-2.0-or-later
"""Report latency: the statistics that benchmarks print of each distribution, and its tail."""

from collections.abc import Iterator, Sequence

from schedperf.evidence.wakeup_latency.record import WakeupLatency
from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.results.mean_lines import interval_cell, mean_of
from schedperf_reports.results.tails import Distribution, Tail, draw_tail, find_distributions
from schedperf_reports.sections import report_section
from schedperf_reports.words.quantities import MISSING, format_change, format_interval, scale_for
from schedperf_reports.words.remarks import Line
from schedperf_reports.words.rows import (
    VERDICT_TONES,
    count_of,
    count_values,
    name_rows,
    size_of_change,
)

# Rows that a terminal lists, and distributions that are drawn: the table has all of them.
MOST_ROWS = 20
MOST_DRAWN = 24

NOTHING = (
    "the recorded benchmarks report no latencies; record a latency benchmark, e.g. "
    "`schedperf record -o new.tar -- schbench -r 30`"
)
ONLY_TRACED = "the recorded benchmarks report no latencies; wakeup latencies were traced, see below"


@report_section("latency", title="Latency", chapter="latency", order=10)
def latency(comparison: Comparison) -> Iterator[Block]:
    """Yield a table of latencies for each side, and a chart for each of its first distributions.

    Only distributions with at least two percentiles on both sides have a chart.
    """
    names = name_rows(comparison.rows)
    sides = dict.fromkeys(row.side for row in comparison.rows)
    is_empty = True
    for side in sides:
        lines = [(names[at], row) for at, row in enumerate(comparison.rows) if row.side == side]
        distributions = find_distributions(lines)
        if distributions:
            is_empty = False
            yield from _describe_side(side, distributions)
    traced = comparison.sections.get(WakeupLatency.section)
    if is_empty and traced is not None and traced.status == "ok":
        yield Text(text=ONLY_TRACED, tone="muted")
    elif is_empty:
        yield Text(text=NOTHING, tone="muted")


def _describe_side(side: str, distributions: Sequence[Distribution]) -> Iterator[Block]:
    yield _tails_table(side, distributions)
    # Some benchmarks print only a mean and a maximum.
    drawn = [
        figure
        for distribution in distributions
        if distribution.percentiles
        and (figure := draw_tail(distribution, _caption(side, distribution))) is not None
    ]
    yield from drawn[:MOST_DRAWN]
    if len(drawn) > MOST_DRAWN:
        yield Text(
            text=f"only the first {MOST_DRAWN} of {len(drawn)} distributions are plotted",
            tone="muted",
        )


def _caption(side: str, distribution: Distribution) -> str:
    rows = [(tail.label, row) for tail, (_, row) in distribution.members if tail.quantile]
    label, farthest = max(rows, key=lambda line: size_of_change(line[1]))
    change = format_change(farthest.ratio)
    interval = format_interval(farthest.ci_low, farthest.ci_high)
    ci = "" if interval == MISSING else f" {interval}"
    return (
        f"{distribution.name}, {side} vs base: largest change {change}{ci} at {label} "
        f"({farthest.verdict}); bars are the 95% CI of each side"
    )


def _tails_table(side: str, distributions: Sequence[Distribution]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    quiet: list[bool] = []
    anchors: list[str] = []
    for distribution in distributions:
        is_quiet = all(row.verdict == "no-change" for _, (_, row) in distribution.members)
        heading = (
            Cell(text=distribution.name, tone="strong"),
            *(Cell(text=""),) * (len(_columns("")) - 1),
        )
        rows.append(heading)
        quiet.append(is_quiet)
        anchors.append("")
        for tail, (name, row) in distribution.members:
            rows.append(_tail_row(tail, row))
            quiet.append(row.verdict == "no-change")
            anchors.append(name if side == "new" else f"{side}: {name}")
    results = [line for distribution in distributions for _, line in distribution.members]
    return Table(
        caption=f"{count_of(len(distributions), 'latency distribution')}, {side} vs base: "
        f"{_count(results)}; lower is better",
        columns=_columns(side),
        rows=tuple(rows),
        limit=MOST_ROWS,
        anchors=tuple(anchors),
        quiet=tuple(quiet),
    )


def _count(lines: Sequence[Line]) -> str:
    verdicts = [row.verdict for _, row in lines]
    worse, better = verdicts.count("regression"), verdicts.count("improvement")
    return f"{worse} of {count_of(len(lines), 'result')} regressed, {better} improved"


def _columns(side: str) -> tuple[Column, ...]:
    mean = "geometric mean over the runs"
    interval = (
        "95% CI of the side's mean over its runs or boots, in the row's unit; of maxima, of the "
        "median"
    )
    return (
        Column(title="percentile"),
        Column(title="unit", priority=1),
        Column(title="base", align="right", priority=1, explains=mean),
        Column(title="CI of base", align="right", priority=4, explains=interval),
        Column(title=side, align="right", priority=1, explains=mean),
        Column(title=f"CI of {side}", align="right", priority=4, explains=interval),
        Column(title="change", align="right"),
        Column(title="95% CI", align="right", priority=2, explains="95% CI of the change"),
        Column(title="n", align="right", priority=3, explains="sample size, base+new"),
        Column(title="verdict"),
    )


def _tail_row(tail: Tail, row: Row) -> tuple[Cell, ...]:
    scale = scale_for(row.unit, row.base, row.new)
    tone = VERDICT_TONES[row.verdict]
    return (
        Cell(text=f"  {tail.label or 'single value'}", sort=tail.quantile),
        Cell(text=scale.unit),
        Cell(text=scale.format(row.base), sort=row.base),
        interval_cell(mean_of(row, is_base=True), scale),
        Cell(text=scale.format(row.new), sort=row.new),
        interval_cell(mean_of(row, is_base=False), scale),
        Cell(text=format_change(row.ratio), tone=tone, sort=row.ratio),
        Cell(text=format_interval(row.ci_low, row.ci_high), sort=row.ci_low),
        Cell(text=count_values(row), sort=row.n_new),
        Cell(text=row.verdict, tone=tone),
    )
