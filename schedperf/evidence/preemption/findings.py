# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the functions whose tasks wait longer or shorter after preemptions, else the places."""

from collections.abc import Iterator, Sequence

from schedperf.evidence import finding
from schedperf.evidence.preemption.record import By, Preemption, PreemptionRow
from schedperf.model.sections import Finding
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import describe_interval, rate_finding, write_change

# Largest number of findings per side and point; the section's table has all rows.
MOST_FINDINGS = 3
# A smaller part of the change of all waits is not reported.
LEAST_PART = 0.1
# The most specific kind with a significant row is reported.
KINDS: Sequence[By] = ("function", "place", "all")


@finding("preemption", Preemption)
def preemption(record: Preemption) -> Iterator[Finding]:
    """Yield the functions whose waits after preemption changed, the largest differences first."""
    points: dict[tuple[str, str, str], list[PreemptionRow]] = {}
    for row in record.rows:
        points.setdefault((row.side, row.workload, row.point), []).append(row)
    for rows in points.values():
        bases = {row.basis for row in rows}
        basis = "operation" if "operation" in bases else "time"
        used = [row for row in rows if row.basis == basis]
        for row in _largest(used):
            yield _describe(row, used)


def _largest(rows: Sequence[PreemptionRow]) -> Sequence[PreemptionRow]:
    for by in KINDS:
        waits = [row for row in rows if row.by == by and row.field == "wait"]
        whole = sum(map(difference, waits))
        changed = [row for row in waits if row.changed and difference(row) >= LEAST_PART * whole]
        if changed:
            return sorted(changed, key=difference, reverse=True)[:MOST_FINDINGS]
    return ()


def difference(row: PreemptionRow) -> float:
    """Return the absolute difference of the sides, in the unit of the row."""
    return abs((row.new or 0.0) - (row.base or 0.0))


def _describe(row: PreemptionRow, rows: Sequence[PreemptionRow]) -> Finding:
    seconds, _, per = row.unit.partition("/")
    per = "second" if per == "s" else per
    base, new = (format_measure(value, seconds, row.base, row.new) for value in (row.base, row.new))
    at = f" at {row.point}" if row.point else ""
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return rate_finding(
        row,
        rule="preemption",
        section="preemption",
        clause=f"wait after preemption {name_of(row)}: {base} -> {new} per {per}{at}",
        change=f"{change}{describe_interval(row)}",
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
