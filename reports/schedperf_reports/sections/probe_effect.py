"""Probe effect: how far the instrumented runs were disturbed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf.model import Comparison
from schedperf.verdicts import signed
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.sections import report_section

COLUMNS = (
    Column(title="side"),
    Column(title="metric"),
    Column(title="point", priority=1),
    Column(title="instrumented / clean", align="right"),
    Column(title="95 % interval", align="right", priority=1),
    Column(title="runs", align="right", priority=2),
)
MISSING = "-"


@report_section("probe_effect", title="Probe effect", order=85)
def probe_effect(comparison: Comparison) -> Iterator[Block]:
    """Show the change that the instruments make, per side and metric."""
    section = comparison.sections.get("probe_effect")
    if section is None or section.data is None:
        reason = "not analysed" if section is None else section.reason or section.status
        yield Text(text=f"Probe effect: {reason}.", tone="muted")
        return
    rows = cast("Sequence[Mapping[str, Any]]", section.data["rows"])
    yield Table(
        caption="Instrumented runs against clean runs of the same side; verdicts rest on clean "
        "runs only",
        columns=COLUMNS,
        rows=tuple(_cells(row) for row in rows),
        limit=8,
    )


def _cells(row: Mapping[str, Any]) -> tuple[Cell, ...]:
    ratio, low, high = (row[name] for name in ("ratio", "ci_low", "ci_high"))
    has_interval = low is not None and high is not None
    interval = f"{signed(low - 1.0)} to {signed(high - 1.0)}" if has_interval else MISSING
    texts = (
        row["side"],
        row["metric"],
        row["point"],
        MISSING if ratio is None else signed(ratio - 1.0),
        interval,
        f"{row['n_clean']} + {row['n_instrumented']}",
    )
    return tuple(Cell(text=text) for text in texts)
