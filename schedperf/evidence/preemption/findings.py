# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the functions whose tasks wait longer or shorter after preemptions, else the places."""

from collections.abc import Iterator, Sequence

from schedperf.evidence import caveat_rule, finding
from schedperf.evidence.preemption.record import By, Preemption, PreemptionRow
from schedperf.model.caveats import Caveat
from schedperf.model.probes import lost_caveats
from schedperf.model.sections import Finding
from schedperf.stats.counted.findings import rate_finding, write_change
from schedperf.stats.counted.largest import (
    describe_change,
    describe_times,
    largest_changes,
    of_points,
)

# A smaller part of the change of all waits is not reported.
LEAST_PART = 0.1
# The most specific kind with a significant row is reported.
KINDS: Sequence[By] = ("function", "place", "all")


@caveat_rule("lost_preemption", Preemption)
def lost(record: Preemption) -> Iterator[Caveat]:
    """Yield a caveat for each side that lost many events."""
    return lost_caveats(record.sides, Preemption.collector)


@finding("preemption", Preemption)
def preemption(record: Preemption) -> Iterator[Finding]:
    """Yield the functions whose waits after preemption changed, the largest differences first."""
    for rows in of_points(record.rows):
        for row in _largest(rows):
            yield _describe(row, rows)


def _largest(rows: Sequence[PreemptionRow]) -> Sequence[PreemptionRow]:
    for by in KINDS:
        waits = [row for row in rows if row.by == by and row.field == "wait"]
        if changed := largest_changes(waits, LEAST_PART):
            return changed
    return ()


def _describe(row: PreemptionRow, rows: Sequence[PreemptionRow]) -> Finding:
    return rate_finding(
        row,
        rule="preemption",
        section="preemption",
        clause=f"wait after preemption {name_of(row)}: {describe_times(row)}",
        change=describe_change(row),
        details=_describe_count(row, rows),
        metric=f"wait after preemption {name_of(row)}",
        better="lower",
    )


def name_of(row: PreemptionRow) -> str:
    """Return what a row selects: ``in s_lock of postgres, in user code``."""
    if row.by == "all":
        return "of all tasks"
    if row.by == "preemptor":
        return f"by {row.preemptor}"
    place = f"({row.place})"
    if row.by == "place":
        return place
    program = f" of {row.program}" if row.program else ""
    kernel = f" in {row.kernel_function}()" if row.kernel_function else ""
    return f"in {row.function}{program}{kernel} {place}"


def _describe_count(row: PreemptionRow, rows: Sequence[PreemptionRow]) -> str:
    counts = [each for each in rows if each.subject == row.subject and each.field == "preemptions"]
    if not counts or not counts[0].ratio:
        return ""
    significance = "" if counts[0].changed else ", not significant"
    return f"; number of preemptions {write_change(counts[0].ratio)}{significance}"
