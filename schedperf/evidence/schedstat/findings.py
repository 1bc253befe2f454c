# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for changed scheduler counters, interpreted by the rules of schedstat."""

from collections.abc import Iterator

from schedperf.evidence import finding
from schedperf.evidence.schedstat.record import CoreTypeRow, ReadingRow, Schedstat, SchedstatRow
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import Paces, describe_interval, rate_finding, write_change

# Largest number of findings per side; the section has every interpretation.
MOST_FINDINGS = 4
# Field whose row per type of CPU core is the share of the run time of all tasks.
RUN_TIME = "rq_cpu_time"


@finding("scheduler_counts", Schedstat)
def scheduler_counts(data: Schedstat) -> Iterator[Finding]:
    """Yield, for each kernel function, the largest change of its counters.

    Counters of one function change together, and so do the points of a sweep, so the largest change
    represents the others. Changes that only follow from a longer or shorter run are left out. Each
    side has at most ``MOST_FINDINGS`` findings, largest change first.
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


@finding("core_types", Schedstat)
def core_types(data: Schedstat) -> Iterator[Finding]:
    """Yield, per side, the type of CPU core whose share of the run time grew most."""
    grown = [
        row
        for row in data.core_types
        if row.field == RUN_TIME and row.changed and _growth(row) > 0.0
    ]
    for side in dict.fromkeys(row.side for row in grown):
        yield _describe_type(max((row for row in grown if row.side == side), key=_growth))


def _growth(row: CoreTypeRow) -> float:
    return (row.new or 0.0) - (row.base or 0.0)


def _describe_type(row: CoreTypeRow) -> Finding:
    where = f"{row.point}: " if row.point else ""
    base, new = (format_measure(value, "") for value in (row.base, row.new))
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return rate_finding(
        row,
        rule="core_types",
        section="schedstat",
        clause=f"{where}tasks spend {new} of their run time on {row.core_type} instead of {base}",
        change=f"{change}{describe_interval(row)}",
        details="",
        metric=f"share of run time on {row.core_type}",
        of_machine=True,
    )


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
        of_machine=True,
    )
