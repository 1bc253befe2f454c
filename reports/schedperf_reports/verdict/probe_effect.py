# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the probe effect: how instrumented runs differ from clean runs, which have no probes."""

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

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
    describe_agreement,
    describe_ratio,
    list_costs,
    list_doubts,
    pairs_of,
)
from schedperf_reports.words.quantities import format_change, format_interval
from schedperf_reports.words.rows import count_units, count_values

MOST_ROWS = 8
# A terminal shows the most disturbed runs; the page has one line for each.
MOST_RUNS = 3
# Distance of a missing ratio: smaller than that of any ratio.
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
    Column(title="collectors", code=True),
)


@report_section(
    "probe_effect", title="Probe effect", chapter="environment", order=20, is_analysis=True
)
def probe_effect(comparison: Comparison) -> Iterator[Block]:
    """Yield new vs base in clean and in instrumented runs, then instrumented vs clean runs."""
    data = record_of(comparison, ProbeEffect)
    if isinstance(data, Text):
        yield data
        return
    rows, runs = data.rows, data.runs
    has_points = any(row.point for row in rows)
    yield from _compare_sides(comparison, has_points=has_points)
    yield _table(
        f"instrumented vs clean runs{_farthest_of(rows)}; verdicts use clean runs only",
        COLUMNS,
        [_cells(row) for row in rows],
        MOST_ROWS,
        has_points=has_points,
    )
    yield _table(
        f"each instrumented run vs the mean of clean runs in the same boot{_farthest_run_of(runs)}",
        RUN_COLUMNS,
        [_run_cells(run) for run in sorted(runs, key=_disturbance, reverse=True)],
        MOST_RUNS,
        has_points=has_points,
    )


def _compare_sides(comparison: Comparison, *, has_points: bool) -> Iterator[Block]:
    pairs = pairs_of(comparison)
    agreement = describe_agreement(pairs)
    if agreement:
        yield Text(text=agreement)
    doubts = (*list_doubts(comparison), *list_costs(comparison))
    if doubts:
        # The following tables are their evidence.
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
    shown = [index for index, column in enumerate(columns) if has_points or column is not POINT]
    return Table(
        caption=caption,
        columns=tuple(columns[index] for index in shown),
        rows=tuple(tuple(Cell(text=row[index]) for index in shown) for row in rows),
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
    effects = [f"{effect.metric} {_change(effect)}" for effect in run.effects]
    return (
        run.side,
        f"{run.boot}/{run.run:03d}",
        run.point,
        ", ".join(effects),
        ", ".join(run.collectors) or "not recorded",
    )


def _change(effect: ProbedValue) -> str:
    if effect.clean is None:
        return "(no clean run in this boot)"
    return format_change(effect.ratio)


def _disturbance(run: ProbedRun) -> float:
    return max((_distance(effect.ratio) for effect in run.effects), default=NOT_COMPARED)


def _distance(ratio: float | None) -> float:
    # Ratios of 2 and 1/2 are equally far from 1.
    return abs(math.log(ratio)) if ratio else NOT_COMPARED


def _farthest_pair_of(pairs: Sequence[Pair]) -> str:
    pair = max(pairs, key=lambda candidate: candidate.distance)
    of = f" ({pair.name}, largest disagreement)" if len(pairs) > 1 else ""
    return (
        f": clean {format_change(pair.clean.ratio)}, instrumented {describe_ratio(pair.probed)}{of}"
    )


def _farthest_of(rows: Sequence[ProbeCostRow]) -> str:
    row = max(rows, key=lambda candidate: _distance(candidate.ratio))
    if not row.ratio:
        return ""
    return f": largest change {describe_ratio(row)}, {row.metric} of {row.side}"


def _farthest_run_of(runs: Sequence[ProbedRun]) -> str:
    effects = [(run, effect) for run in runs for effect in run.effects if effect.ratio]
    if not effects:
        return ""
    run, effect = max(effects, key=lambda pair: _distance(pair[1].ratio))
    where = f"{run.side} {run.boot}/{run.run:03d}"
    return f": largest change {format_change(effect.ratio)}, {effect.metric} of {where}"
