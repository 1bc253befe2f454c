# SPDX-License-Identifier: GPL-2.0-or-later
"""Probe effect: whether the instrumented runs show the change, and how far they were disturbed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedperf.evidence.probe_effect.record import (
    ProbeCostRow,
    ProbedRun,
    ProbedValue,
    ProbeEffect,
)
from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Cell, Column, Items, Table, Text
from schedperf_reports.sections import record_of, report_section
from schedperf_reports.words.instruments import (
    Pair,
    count_kinds,
    describe_ratio,
    list_costs,
    list_doubts,
    pairs_of,
    say_agreement,
)
from schedperf_reports.words.rows import count_units, count_values
from schedperf_reports.words.units import format_change, format_interval

MOST_ROWS = 8
# A terminal shows the most disturbed runs; the page has one line for each.
MOST_RUNS = 3
# Nearer to 1 than any ratio is.
NOT_COMPARED = -1.0

POINT = Column(title="point", priority=1)
PAIR_COLUMNS = (
    Column(title="side"),
    Column(title="metric"),
    POINT,
    Column(title="clean", align="right"),
    Column(title="instrumented", align="right"),
    Column(title="95% CI", align="right", priority=1),
    Column(title="n", align="right", priority=2),
)
COLUMNS = (
    Column(title="side"),
    Column(title="metric"),
    POINT,
    Column(title="change", align="right"),
    Column(title="95% CI", align="right", priority=1),
    Column(title="n", align="right", priority=2),
)
RUN_COLUMNS = (
    Column(title="side"),
    Column(title="boot/run", code=True),
    POINT,
    Column(title="change"),
    Column(title="with", code=True),
)


@report_section(
    "probe_effect", title="Probe effect", chapter="environment", order=20, is_analysis=True
)
def probe_effect(comparison: Comparison) -> Iterator[Block]:
    """Show what both kinds of runs say of the change, then what the instruments changed."""
    data = record_of(comparison, ProbeEffect)
    if isinstance(data, Text):
        yield data
        return
    rows, runs = data.rows, data.runs
    has_points = any(row.point for row in rows)
    yield from _compare_sides(comparison, has_points=has_points)
    yield _table(
        f"instrumented against clean runs{_farthest_of(rows)}; verdicts use clean runs only",
        COLUMNS,
        [_cells(row) for row in rows],
        MOST_ROWS,
        has_points=has_points,
    )
    yield _table(
        "each instrumented run against the mean of the clean runs of its boot"
        f"{_farthest_run_of(runs)}",
        RUN_COLUMNS,
        [_run_cells(run) for run in sorted(runs, key=_disturbance, reverse=True)],
        MOST_RUNS,
        has_points=has_points,
    )


def _compare_sides(comparison: Comparison, *, has_points: bool) -> Iterator[Block]:
    pairs = pairs_of(comparison)
    agreement = say_agreement(pairs)
    if agreement:
        yield Text(text=agreement)
    doubts = (*list_doubts(comparison), *list_costs(comparison))
    if doubts:
        # They are proved right below.
        yield Items(items=tuple(replace(item, evidence=()) for item in doubts))
    if pairs:
        yield _table(
            f"new vs base{_farthest_pair_of(pairs)}",
            PAIR_COLUMNS,
            [_pair_cells(pair) for pair in pairs],
            MOST_ROWS,
            has_points=has_points,
        )


def _table(
    caption: str,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    limit: int,
    *,
    has_points: bool,
) -> Table:
    shown = [place for place, column in enumerate(columns) if has_points or column is not POINT]
    return Table(
        caption=caption,
        columns=tuple(columns[place] for place in shown),
        rows=tuple(tuple(Cell(text=row[place]) for place in shown) for row in rows),
        limit=limit,
    )


def _pair_cells(pair: Pair) -> tuple[str, ...]:
    clean, probed = pair.clean, pair.probed
    return (
        clean.side,
        clean.metric,
        clean.point,
        format_change(clean.ratio),
        format_change(probed.ratio),
        format_interval(probed.ci_low, probed.ci_high),
        _count_both(pair),
    )


def _count_both(pair: Pair) -> str:
    # "8 and 5 rounds": of the clean runs, then of the instrumented ones.
    counted = pair.probed
    probed = replace(
        pair.clean,
        n_base=counted.n_base,
        n_new=counted.n_new,
        replication=counted.replication,
    )
    is_alike = pair.clean.replication == probed.replication
    first = (count_values if is_alike else count_units)(pair.clean)
    return f"{first} and {count_units(probed)}"


def _cells(row: ProbeCostRow) -> tuple[str, ...]:
    return (
        row.side,
        row.metric,
        row.point,
        format_change(row.ratio),
        format_interval(row.ci_low, row.ci_high),
        count_kinds(row),
    )


def _run_cells(run: ProbedRun) -> tuple[str, ...]:
    effects = [f"{one.metric} {_change(one)}" for one in run.effects]
    return (
        run.side,
        f"{run.boot}/{run.run:03d}",
        run.point,
        ", ".join(effects),
        ", ".join(run.collectors) or "no collector is known",
    )


def _change(effect: ProbedValue) -> str:
    if effect.clean is None:
        return "(no clean run in this boot)"
    return format_change(effect.ratio)


def _disturbance(run: ProbedRun) -> float:
    return max((_distance(one.ratio) for one in run.effects), default=NOT_COMPARED)


def _distance(ratio: float | None) -> float:
    # Twice and half are equally far from 1.
    return abs(math.log(ratio)) if ratio else NOT_COMPARED


def _farthest_pair_of(pairs: Sequence[Pair]) -> str:
    pair = max(pairs, key=lambda one: one.distance)
    of = f" of {pair.name}, where they differ most" if len(pairs) > 1 else ""
    return (
        f": clean {format_change(pair.clean.ratio)}, instrumented {describe_ratio(pair.probed)}{of}"
    )


def _farthest_of(rows: Sequence[ProbeCostRow]) -> str:
    row = max(rows, key=lambda one: _distance(one.ratio))
    if not row.ratio:
        return ""
    return f": the largest measured is {describe_ratio(row)}, {row.metric} of {row.side}"


def _farthest_run_of(runs: Sequence[ProbedRun]) -> str:
    effects = [(run, one) for run in runs for one in run.effects if one.ratio]
    if not effects:
        return ""
    run, one = max(effects, key=lambda found: _distance(found[1].ratio))
    where = f"{run.side} {run.boot}/{run.run:03d}"
    return f": the largest is {format_change(one.ratio)}, {one.metric} of {where}"
