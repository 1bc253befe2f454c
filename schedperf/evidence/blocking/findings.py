# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the causes, functions and wakers whose blocked time changed most."""

from collections.abc import Iterator, Sequence

from schedperf.evidence import caveat_rule, finding
from schedperf.evidence.blocking.record import Blocking, BlockingRow, By
from schedperf.model.caveats import Caveat
from schedperf.model.probes import lost_caveats
from schedperf.model.sections import Finding
from schedperf.stats.counted.findings import rate_finding, write_change
from schedperf.stats.counted.largest import (
    describe_change,
    describe_times,
    difference,
    largest_changes,
    of_points,
)

# A smaller part of the change of all blocked time is not reported.
LEAST_PART = 0.1
# The most specific kind with a significant row is reported.
KINDS: Sequence[By] = ("function", "cause", "all")


@caveat_rule("lost_blocking", Blocking)
def lost(record: Blocking) -> Iterator[Caveat]:
    """Yield a caveat for each side that lost many events."""
    return lost_caveats(record.sides, Blocking.collector)


@finding("blocking", Blocking)
def blocking(record: Blocking) -> Iterator[Finding]:
    """Yield the functions whose blocked time changed, the largest differences first."""
    for rows in of_points(record.rows):
        for row in _largest(rows):
            yield _describe(row, rows)


def _largest(rows: Sequence[BlockingRow]) -> Sequence[BlockingRow]:
    for by in KINDS:
        blocked = [row for row in rows if row.by == by and row.field == "blocked"]
        if changed := largest_changes(blocked, LEAST_PART):
            return changed
    return ()


def _describe(row: BlockingRow, rows: Sequence[BlockingRow]) -> Finding:
    return rate_finding(
        row,
        rule="blocking",
        section="blocking",
        clause=f"blocked {name_of(row)}: {describe_times(row)}",
        change=describe_change(row),
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
