"""Probe effect: how far the instrumented runs were disturbed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf.model import Comparison
from schedperf_reports._units import format_change, format_interval
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.sections import report_section

Entry = Mapping[str, Any]

MOST_ROWS = 8
# A terminal shows the most disturbed runs; the page has one line for each.
MOST_RUNS = 3

POINT = Column(title="point", priority=1)
COLUMNS = (
    Column(title="side"),
    Column(title="metric"),
    POINT,
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right", priority=1),
    Column(title="runs", align="right", priority=2),
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
    """Show the change that the instruments make, per side and metric, then in each run."""
    section = comparison.sections.get("probe_effect")
    if section is None or section.data is None:
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
        return
    rows = cast("Sequence[Entry]", section.data["rows"])
    runs = cast("Sequence[Entry]", section.data["runs"])
    has_points = any(row["point"] for row in rows)
    yield _table(
        "instrumented against clean runs; verdicts rest on clean runs only",
        COLUMNS,
        [_cells(row) for row in rows],
        MOST_ROWS,
        has_points=has_points,
    )
    yield _table(
        "each instrumented run against the mean of the clean runs of its boot",
        RUN_COLUMNS,
        [_run_cells(run) for run in sorted(runs, key=_disturbance, reverse=True)],
        MOST_RUNS,
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


def _cells(row: Entry) -> tuple[str, ...]:
    return (
        row["side"],
        row["metric"],
        row["point"],
        format_change(row["ratio"]),
        format_interval(row["ci_low"], row["ci_high"]),
        f"{row['n_clean']} + {row['n_instrumented']}",
    )


def _run_cells(run: Entry) -> tuple[str, ...]:
    effects = [f"{one['metric']} {_change(one)}" for one in run["effects"]]
    return (
        run["side"],
        f"{run['boot']}/{run['run']:03d}",
        run["point"],
        ", ".join(effects),
        ", ".join(run["collectors"]) or "no collector is known",
    )


def _change(effect: Entry) -> str:
    if effect["clean"] is None:
        return "(no clean run in this boot)"
    return format_change(effect["ratio"])


def _disturbance(run: Entry) -> float:
    ratios = [one["ratio"] for one in run["effects"] if one["ratio"]]
    return max((abs(math.log(ratio)) for ratio in ratios), default=-1.0)
