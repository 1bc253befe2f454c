# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the causes, functions and wakers whose blocked time changed most."""

from collections.abc import Iterator, Sequence

from schedperf.evidence import finding
from schedperf.evidence.blocking.record import Blocking, BlockingRow, By
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import describe_interval, rate_finding, write_change

# Largest number of findings per side and point; the section's table has all rows.
MOST_FINDINGS = 3
# A smaller part of the change of all blocked time is not reported.
LEAST_PART = 0.1
# The most specific kind with a significant row is reported.
KINDS: Sequence[By] = ("function", "cause", "all")


@finding("blocking", Blocking)
def blocking(record: Blocking) -> Iterator[Finding]:
    """Yield the functions whose blocked time changed, the largest differences first."""
    points: dict[tuple[str, str, str], list[BlockingRow]] = {}
    for row in record.rows:
        points.setdefault((row.side, row.workload, row.point), []).append(row)
    for rows in points.values():
        bases = {row.basis for row in rows}
        basis = "operation" if "operation" in bases else "time"
        used = [row for row in rows if row.basis == basis]
        for row in _largest(used):
            yield _describe(row, used)


def _largest(rows: Sequence[BlockingRow]) -> Sequence[BlockingRow]:
    for by in KINDS:
        blocked = [row for row in rows if row.by == by and row.field == "blocked"]
        whole = sum(map(difference, blocked))
        changed = [row for row in blocked if row.changed and difference(row) >= LEAST_PART * whole]
        if changed:
            return sorted(changed, key=difference, reverse=True)[:MOST_FINDINGS]
    return ()


def difference(row: BlockingRow) -> float:
    """Return the absolute difference of the sides, in the unit of the row."""
    return abs((row.new or 0.0) - (row.base or 0.0))


def _describe(row: BlockingRow, rows: Sequence[BlockingRow]) -> Finding:
    seconds, _, per = row.unit.partition("/")
    per = "second" if per == "s" else per
    base, new = (format_measure(value, seconds, row.base, row.new) for value in (row.base, row.new))
    at = f" at {row.point}" if row.point else ""
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return rate_finding(
        row,
        rule="blocking",
        section="blocking",
        clause=f"blocked {name_of(row)}: {base} -> {new} per {per}{at}",
        change=f"{change}{describe_interval(row)}",
        details=_describe_waker(row, rows),
        metric=f"time blocked {name_of(row)}",
        better="lower",
    )


def name_of(row: BlockingRow) -> str:
    """Return what a row selects: ``on a pipe in read_all of planted``."""
    if row.by == "all":
        return "in total"
    if row.by == "waker":
        return f"until woken by {row.waker}"
    if row.by == "cause":
        return f"on {row.cause}"
    program = f" of {row.program}" if row.program else ""
    return f"on {row.cause} in {row.function}{program}"


def _describe_waker(row: BlockingRow, rows: Sequence[BlockingRow]) -> str:
    wakers = [
        each for each in rows if each.by == "waker" and each.field == "blocked" and each.changed
    ]
    if not wakers:
        return ""
    most = max(wakers, key=difference)
    rises = (row.new or 0.0) > (row.base or 0.0)
    if rises != ((most.new or 0.0) > (most.base or 0.0)) or most.ratio is None:
        return ""
    return f"; largest change by waker: {most.waker} {write_change(most.ratio)}"
