# SPDX-License-Identifier: GPL-2.0-or-later
"""Report significant changes of what a sched_ext scheduler counts about itself.

Counts per operation that only follow from longer or shorter operations are left out
(:mod:`schedperf.stats.counted.findings`).
"""

from collections.abc import Iterator

from schedperf.evidence import finding
from schedperf.evidence.scx_stats.record import ScxRow, ScxStats
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import Paces, describe_interval, rate_finding, write_change
from schedperf.stats.counted.rates import BASES, LEAST_EVENTS_OF_FINDING, distance_of

# Largest number of findings per side; the section's tables have every row.
MOST_FINDINGS = 3


@finding("scx_stats_changes", ScxStats)
def scx_stats_changes(data: ScxStats) -> Iterator[Finding]:
    """Yield the largest significant changes of each side, one per field."""
    paces = Paces(row for row in data.rows if row.basis == "time")
    for side in dict.fromkeys(row.side for row in data.rows):
        fields: dict[tuple[str, str, str], ScxRow] = {}
        rows = [row for row in data.rows if row.side == side]
        for row in sorted(rows, key=lambda row: BASES.index(row.basis)):
            fields.setdefault((row.workload, row.point, row.field), row)
        telling = [row for row in fields.values() if _is_telling(row, paces)]
        largest: dict[str, ScxRow] = {}
        for row in sorted(telling, key=lambda row: -distance_of(row.ratio)):
            largest.setdefault(row.field, row)
        for row in list(largest.values())[:MOST_FINDINGS]:
            yield _describe(row, paces)


def _is_telling(row: ScxRow, paces: Paces) -> bool:
    is_rare = row.events is not None and row.events < LEAST_EVENTS_OF_FINDING
    return bool(row.changed) and not is_rare and paces.is_reason(row)


def _describe(row: ScxRow, paces: Paces) -> Finding:
    base, new = (
        format_measure(value, row.unit, row.base, row.new) for value in (row.base, row.new)
    )
    per = row.unit.partition("/")[2]
    what = f"{row.field} per {'second' if per == 's' else per}" if per else row.field
    where = f"{row.point}: " if row.point else ""
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return rate_finding(
        row,
        rule="scx_stats_changes",
        section="scx_stats",
        clause=f"{where}the scheduler's {what} {base} -> {new}",
        change=f"{change}{describe_interval(row, paces.describe(row))}",
        details=f": {row.meaning}" if row.meaning else "",
        metric=row.field,
        of_machine=True,
    )
