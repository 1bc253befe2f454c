# SPDX-License-Identifier: GPL-2.0-or-later
"""What the scheduler did more or less often, as the rules of schedstat read it."""

from collections.abc import Iterator

from schedperf.evidence import finding
from schedperf.evidence.schedstat.record import ReadingRow, Schedstat, SchedstatRow
from schedperf.model.comparison import Finding
from schedperf.stats.counted.findings import Paces, describe_interval, rate_finding

# Of one side; the section has every reading.
MOST_FINDINGS = 4


@finding("scheduler_counts", Schedstat)
def scheduler_counts(data: Schedstat) -> Iterator[Finding]:
    """Yield the largest change that points to each function of the kernel.

    Counts of one function rise and fall together, and points of a sweep likewise, so
    the largest of them stands for the others. Readings are in falling order of change. What
    comes more often only as the run takes longer is left out.
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
        claim=f"{where}{reading.text}{describe_interval(row, pace)}; {reading.meaning}",
        metric=f"{row.level} {row.idle} {row.field}{per}".strip(),
    )
