"""Probe effect: how far the instrumented runs were disturbed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf.model import Comparison
from schedperf_reports._units import format_change, format_interval
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.sections import report_section

POINT = Column(title="point", priority=1)
COLUMNS = (
    Column(title="side"),
    Column(title="metric"),
    POINT,
    Column(title="change", align="right"),
    Column(title="95 % CI", align="right", priority=1),
    Column(title="runs", align="right", priority=2),
)


@report_section("probe_effect", title="Probe effect", order=85)
def probe_effect(comparison: Comparison) -> Iterator[Block]:
    """Show the change that the instruments make, per side and metric."""
    section = comparison.sections.get("probe_effect")
    if section is None or section.data is None:
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
        return
    rows = cast("Sequence[Mapping[str, Any]]", section.data["rows"])
    has_points = any(row["point"] for row in rows)
    shown = [place for place, column in enumerate(COLUMNS) if has_points or column is not POINT]
    yield Table(
        caption="instrumented against clean runs; verdicts rest on clean runs only",
        columns=tuple(COLUMNS[place] for place in shown),
        rows=tuple(tuple(_cells(row)[place] for place in shown) for row in rows),
        limit=8,
    )


def _cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    texts = (
        row["side"],
        row["metric"],
        row["point"],
        format_change(row["ratio"]),
        format_interval(row["ci_low"], row["ci_high"]),
        f"{row['n_clean']} + {row['n_instrumented']}",
    )
    return tuple(Cell(text=text) for text in texts)
