# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the times whose change is largest, and describe them in findings."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from schedperf.model.counted import RateRow
from schedperf.model.units import format_measure
from schedperf.stats.counted.findings import describe_interval, write_change

# Largest number of findings per side and point; the section's table has all rows.
MOST_FINDINGS = 3

Row = TypeVar("Row", bound=RateRow)


def of_points(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each side and point: per operation, or per time where those are unknown."""
    points: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        points.setdefault((row.side, row.workload, row.point), []).append(row)
    for of_point in points.values():
        bases = {row.basis for row in of_point}
        basis = "operation" if "operation" in bases else "time"
        yield [row for row in of_point if row.basis == basis]


def largest_changes(rows: Sequence[Row], least_part: float) -> Sequence[Row]:
    """Return the significant rows with the largest differences; () if there is none.

    :param least_part: smallest part of the sum of all differences
    """
    whole = sum(map(difference, rows))
    changed = [row for row in rows if row.changed and difference(row) >= least_part * whole]
    return sorted(changed, key=difference, reverse=True)[:MOST_FINDINGS]


def difference(row: RateRow) -> float:
    """Return the absolute difference of the sides, in the unit of the row."""
    return abs((row.new or 0.0) - (row.base or 0.0))


def describe_times(row: RateRow) -> str:
    """Return both times: ``25.3 ms -> 343 ms per operation at groups=4``."""
    seconds, _, per = row.unit.partition("/")
    per = "second" if per == "s" else per
    base, new = (format_measure(value, seconds, row.base, row.new) for value in (row.base, row.new))
    at = f" at {row.point}" if row.point else ""
    return f"{base} -> {new} per {per}{at}"


def describe_change(row: RateRow) -> str:
    """Return the change and its interval: ``, +265% (95% CI [+188%, +363%])``."""
    change = "" if row.ratio is None else f", {write_change(row.ratio)}"
    return f"{change}{describe_interval(row)}"
