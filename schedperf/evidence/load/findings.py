# SPDX-License-Identifier: GPL-2.0-or-later
"""Report significant changes of the results of the load."""

from collections.abc import Iterator

from schedperf.evidence import finding
from schedperf.evidence.load.record import Load, LoadRow
from schedperf.model.sections import Finding
from schedperf.model.units import format_number
from schedperf.stats.counted.findings import describe_interval, rate_finding, write_change

# Largest number of findings over all points; the section has all rows.
MOST_FINDINGS = 4


@finding("load", Load)
def load(record: Load) -> Iterator[Finding]:
    """Yield the first ``MOST_FINDINGS`` significant changes of results of the load."""
    changed = [row for row in record.rows if row.changed]
    for row in changed[:MOST_FINDINGS]:
        yield _describe(row)


def _describe(row: LoadRow) -> Finding:
    assert row.base is not None
    assert row.new is not None
    values = f"{format_number(row.base)} -> {format_number(row.new)} {row.unit}"
    change = write_change(row.ratio) if row.ratio else values
    return rate_finding(
        row,
        rule="load",
        section="load",
        clause=f"the load beside the workload changed: {row.metric}",
        change=f" {change}",
        details=describe_interval(row, values),
        metric=row.metric,
        better=None if row.better == "unknown" else row.better,
        attribution="result of the load, not used for the verdict",
    )
