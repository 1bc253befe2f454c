# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for changed scheduler counters, interpreted by the rules of schedstat."""

from collections.abc import Iterator

from schedperf.evidence import finding
from schedperf.evidence.schedstat.record import ReadingRow, Schedstat, SchedstatRow
from schedperf.model.comparison import Finding
from schedperf.stats.counted.findings import Paces, describe_interval, rate_finding

# Per side; the section has every reading.
MOST_FINDINGS = 4


@finding("scheduler_counts", Schedstat)
def scheduler_counts(data: Schedstat) -> Iterator[Finding]:
    """Yield the largest change that points to each function of the kernel.

    Counters of one function change together, and so do the points of a sweep, so the largest change
    represents the others. Readings are in descending order of change. Changes that only follow from
    a longer or shorter run are left out.
    """
    rows = {row.row: row for row in data.rows}
    paces = Paces(row for row in data.rows if row.basis == "time")
    described: dict[str, set[str]] = {}
    for reading in data.readings:
        row, functions = rows[reading.row], described.setdefault(reading.side, set())
        is_new = len(functions) < MOST_FINDINGS and reading.look_at not in functions
        if is_new and paces.is_reason(row):
            functions.add(reading.look_at)
            yield _describe(reading, row, pace=paces.describe(row))


def _describe(reading: ReadingRow, row: SchedstatRow, *, pace: str) -> Finding:
    where = f"{row.point}: " if row.point else ""
    per = "" if row.basis == "share" else f" per {row.unit.partition('/')[2]}"
    return rate_finding(
        row,
        rule="scheduler_counts",
        section="schedstat",
        clause=f"{where}{reading.text}",
        change=describe_interval(row, pace),
        details=f": {reading.meaning}; look at {reading.look_at}",
        metric=f"{row.level} {row.idle} {row.field}{per}".strip(),
    )
