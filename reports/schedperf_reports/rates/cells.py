# SPDX-License-Identifier: GPL-2.0-or-later
"""Format compared rates: denominator, values, and why a change or an interval is missing.

Rows are those of :class:`schedperf.model.counted.RateRow`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.counted import Basis, RateRow
from schedperf.model.units import RATE_DIGITS, format_measure, percent
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, SMALLEST_EFFECT, count_units
from schedperf_reports.blocks import (
    REFERENCE_PRIORITY,
    Cell,
    Column,
    Table,
    Text,
    Tone,
)
from schedperf_reports.words.quantities import (
    MISSING,
    TOO_WIDE,
    WIDEST_INTERVAL,
    format_change,
    format_interval,
    is_wide,
)
from schedperf_reports.words.remarks import explain_correction
from schedperf_reports.words.rows import count_changes, count_of
from schedperf_reports.words.states import Noted, State

Row = TypeVar("Row", bound=RateRow)
Row_co = TypeVar("Row_co", bound=RateRow, covariant=True)

# Counts per operation below this are printed per many operations, because 0.0001375 is hard to
# read.
SMALLEST_COUNT = 0.1
OPERATIONS = 1000

# Units that are plain numbers.
PLAIN_UNITS = ("task", "level")
QUANTILES = ("p50", "p90", "p99", "p99.9")

# Denominators of counts, best first: wakeups (a share of two counts), operations, time.
BASES: tuple[Basis, ...] = ("share", "operation", "time")
# A page shows some rows that are not significant, for scale, and hides the others.
QUIET_WORD = "not significant"

# How base and new are averaged.
MEANS = "means over runs are geometric (arithmetic if a run has the value 0)"
_MEAN = (
    "geometric mean over the runs; if a run has the value 0, arithmetic mean and no relative "
    "change; of maxima the median"
)

# Printed before a change, to keep the numbers aligned; screen readers and copies drop bold type.
CHANGED = "*"
DRIFTED = "?"

# Legend, printed when a row of any section gets the first mark.
RULE = f"q < {FALSE_DISCOVERY_RATE:g} and a change of {percent(SMALLEST_EFFECT)} or more"

# The caption states a common n; a different n is marked as missing runs.
RUNS_PRIORITY = REFERENCE_PRIORITY - 2
# The denominator is the first column, the CI the last.
PER_COLUMN = Column(
    title="per",
    priority=2,
    as_heading=True,
    explains="denominator of the values in the columns `base` and `new`",
)


def compared_columns(direction: str) -> tuple[Column, ...]:
    """Return the columns base, new, change and CI.

    :param direction: which direction is better, in words
    """
    return (
        Column(title="base", align="right", explains=f"base: {_MEAN}"),
        Column(title="new", align="right", explains=f"new: {_MEAN}"),
        Column(
            title="change",
            align="right",
            explains=f"change of new vs base; {direction}. "
            f"{CHANGED}: significant, {RULE}; {DRIFTED}: significant, but may be drift",
        ),
        Column(
            title="95% CI",
            align="right",
            priority=1,
            explains="95% CI of the change; the column n contains the sample size",
        ),
    )


NO_DIRECTION = "neither an increase nor a decrease is better"
COMPARED = compared_columns(NO_DIRECTION)
RUNS_COLUMN = Column(
    title="n",
    align="right",
    priority=RUNS_PRIORITY,
    explains="sample size, base+new: runs, boots or interleaved pairs",
)
ZERO = "the ratio is undefined, because the value is 0 in at least one run or boot"
# The rank test (schedperf.stats._ranks) has no smaller sample with a 95% CI.
FEW_MAXIMA = (
    "no CI of maxima: they are compared by ranks (record at least 5 runs or boots per side, or 6 "
    "pairs)"
)
WIDE = f"the ends differ by more than a factor of {WIDEST_INTERVAL:g} (record more runs or boots)"


class Shown(Struct, Generic[Row_co], frozen=True):
    """A row in the form in which it is printed.

    :param is_rare: whether its counts are printed per 1000 operations, whatever their size
    :param twins: rows of the same count with another denominator
    """

    row: Row_co
    is_rare: bool = False
    twins: "tuple[Shown[Row_co], ...]" = ()


def gather_twins(rows: Iterable[Row]) -> list[Shown[Row]]:
    """Group rows of the same count: the most informative denominator, and the others.

    A rate per wakeup is more informative than one per operation. A rate per second is the least
    informative, because a slower kernel lowers all of them; it is used if it is the only one.
    """
    listed = list(rows)
    rare = _rare_units(listed)
    groups: dict[object, list[Shown[Row]]] = {}
    for index, row in enumerate(listed):
        shown = Shown(row, is_rare=is_plain_rate(row) and row.unit in rare)
        # Joules per operation and watts are different quantities, and so are shares.
        counted, has_divisor, _ = row.unit.partition("/")
        groups.setdefault((row.identity, counted) if has_divisor else index, []).append(shown)
    first = {id(row): index for index, row in enumerate(listed)}
    gathered = []
    for group in groups.values():
        best, *twins = sorted(group, key=lambda shown: BASES.index(shown.row.basis))
        gathered.append(replace(best, twins=tuple(twins)))
    return sorted(gathered, key=lambda shown: first[id(shown.row)])


def _rare_units(rows: Iterable[RateRow]) -> set[str]:
    # Rows in a column are compared by eye: if one count is rare, all are printed per 1000
    # operations.
    return {
        row.unit
        for row in rows
        if is_plain_rate(row) and 0.0 < _largest(row.base, row.new) < SMALLEST_COUNT
    }


def is_plain_rate(row: RateRow) -> bool:
    counted = row.unit.partition("/")[0]
    return row.basis == "operation" and counted in ("1", *PLAIN_UNITS)


def main_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the most informative row of each count, without its other denominators."""
    return [shown.row for shown in gather_twins(rows)]


def describe_rate(shown: Shown[RateRow]) -> tuple[str, str, str]:
    """Return the denominator of a rate, and its values on both sides in one scale.

    Shares, means, quantiles and maxima have no denominator; the first text then is what they are.

    :return: denominator, base, new: ``("1000 messages", "1.375", "0.719")``,
        ``("share", "84.0%", "-")``
    """
    row = shown.row
    counted, per = row.unit.partition("/")[0], divisor_of(row)
    unit = "1" if counted in PLAIN_UNITS else counted
    base, new = row.base, row.new
    if row.basis == "share" and not per:
        per = _kind(row)
    elif is_plain_rate(row) and (shown.is_rare or _largest(base, new) < SMALLEST_COUNT):
        per = f"{OPERATIONS} {per}s"
        base, new = (None if value is None else OPERATIONS * value for value in (base, new))
    write = partial(format_measure, digits=RATE_DIGITS)
    return per, write(base, unit, new), write(new, unit, base)


def divisor_of(row: RateRow) -> str:
    """Return the denominator of a count: "message", "second"; "" for a share or a mean."""
    per = row.unit.partition("/")[2]
    return {"s": "second"}.get(per, per)


def _kind(row: RateRow) -> str:
    if not row.unit:
        return "share"
    if row.statistic in QUANTILES:
        return "quantile"
    return "longest" if row.statistic == "max" else "mean"


def _largest(*values: float | None) -> float:
    return max((abs(value) for value in values if value is not None), default=0.0)


def is_invalid(row: RateRow) -> bool:
    return row.why_invalid is not None


def is_compared(row: RateRow) -> bool:
    # Both sides have a value, and they may be compared.
    return not is_invalid(row) and None not in (row.base, row.new)


def change_of(row: RateRow) -> str:
    """Format the change in percent; "invalid" if the row must not be compared."""
    return "invalid" if is_invalid(row) else format_change(row.ratio)


def interval_of(row: RateRow) -> str:
    """Format the CI of the change; "-" if a bound is missing, "too wide" if it is useless."""
    return format_interval(row.ci_low, row.ci_high)


def is_wide_row(row: RateRow) -> bool:
    return is_wide(row.ci_low, row.ci_high)


def explain_gaps(rows: Iterable[RateRow]) -> Iterator[Text]:
    """Yield why a change or an interval of the shown rows is missing."""
    compared = list(filter(is_compared, rows))
    if any(row.ratio is None for row in compared):
        yield Text(text=f"change not available: {ZERO}", tone="muted")
    if any(row.statistic == "max" and row.ratio and row.ci_low is None for row in compared):
        yield Text(text=FEW_MAXIMA, tone="muted")
    if any(map(is_wide_row, compared)):
        yield Text(text=f"CI too wide: {WIDE}", tone="muted")


def compared_cells(shown: Shown[RateRow], texts: tuple[str, str] | None = None) -> tuple[Cell, ...]:
    """Return the cells of :data:`COMPARED`: base, new, change and CI.

    A page sorts them by the numbers of the record. Changed and drifted rows have marks.

    :param texts: texts for base and new; None for those of :func:`describe_rate`
    """
    row = shown.row
    base, new = texts or describe_rate(shown)[1:]
    tone = tone_of(row)
    return (
        Cell(text=base, tone=tone, sort=row.base),
        Cell(text=new, tone=tone, sort=row.new),
        Cell(text=f"{_mark_of(row)}{change_of(row)}", tone=tone, sort=row.ratio),
        Cell(text=interval_of(row), tone=tone, sort=row.ci_low),
    )


def _mark_of(row: RateRow) -> str:
    if row.changed:
        return f"{CHANGED} "
    has_drifted = row.changed is None and row.p is not None
    return f"{DRIFTED} " if has_drifted and not is_invalid(row) else ""


def per_cell(shown: Shown[RateRow]) -> Cell:
    """Return the cell of :data:`PER_COLUMN`."""
    return Cell(text=describe_rate(shown)[0], tone=tone_of(shown.row))


def runs_cell(row: RateRow) -> Cell:
    """Return the cell of :data:`RUNS_COLUMN`."""
    return Cell(text=_count_runs(row), tone=tone_of(row), sort=row.n_base + row.n_new)


def _count_runs(row: RateRow) -> str:
    return count_units(row.n_base, row.n_new, row.replication)


def tone_of(row: RateRow) -> Tone:
    """Return the text style of a row: strong if it changed, muted if it is invalid."""
    if row.changed:
        return "strong"
    return "muted" if is_invalid(row) else "plain"


def move_n_to_caption(table: Table) -> Table:
    """Move :data:`RUNS_COLUMN` into the caption if all rows have the same n.

    A table of one row, or without this column, is returned unchanged.
    """
    if RUNS_COLUMN not in table.columns or len(table.rows) < 2:  # noqa: PLR2004 # a repetition
        return table
    index = table.columns.index(RUNS_COLUMN)
    # A note below a row has no number.
    counts = {row[index].text for row in table.rows} - {""}
    if len(counts) != 1:
        return table
    return replace(
        table,
        caption=f"{table.caption}; n = {counts.pop()}",
        columns=(*table.columns[:index], *table.columns[index + 1 :]),
        rows=tuple((*row[:index], *row[index + 1 :]) for row in table.rows),
    )


def quiet_rows(rows: Sequence[RateRow], shown: int) -> tuple[bool, ...]:
    """Return, for each row, whether a page hides it: if it is not significant.

    :param shown: number of first rows that a page always shows, for scale
    """
    return tuple(index >= shown and not row.changed for index, row in enumerate(rows))


def lead(rows: Iterable[Row], name: Callable[[Row], str]) -> Iterator[Text]:
    """Yield how many rows changed and which changed most, then which are worth a look.

    Rows with another denominator are not counted again.

    :param rows: rows of a section; invalid ones are ignored, and without values of a new side,
        nothing is yielded
    """
    valid = [shown for shown in gather_twins(rows) if not is_invalid(shown.row)]
    valid_rows = [shown.row for shown in valid]
    if not any(row.n_new for row in valid_rows):
        return
    yield _count_and_largest(valid, name)
    yield from explain_correction(
        [(f"{name(shown.row)} {change_of(shown.row)}", shown.row) for shown in valid]
    )


def state_of(
    rows: Iterable[Row],
    name: Callable[[Row], str],
    can_explain: Callable[[Row], bool] = lambda _: True,
) -> State:
    """Return the number of changed rows, counted as in :func:`lead`, and the noted rows.

    :param can_explain: returns False for rows that only restate the result, such as CPU time; they
        are counted, but not noted
    """
    valid = [row for row in main_rows(rows) if not is_invalid(row)]
    is_known = any(row.changed is not None for row in valid)
    changed = sum(bool(row.changed) for row in valid)
    noted = tuple(_note_rows(filter(can_explain, valid), name))
    return State(changed=changed if is_known else None, total=len(valid), noted=noted)


def _note_rows(rows: Iterable[Row], name: Callable[[Row], str]) -> Iterator[Noted]:
    # Significant changes first, then those of the workload, then the largest.
    for row in sorted(rows, key=lambda row: (not row.changed, *rank(row))):
        if row.ratio is None or row.ci_low is None or row.ci_high is None:
            continue
        if row.changed or (row.q is not None and not row.ci_low <= 1.0 <= row.ci_high):
            yield Noted(
                name=name(row),
                anchor=row.row,
                ratio=row.ratio,
                ci_low=row.ci_low,
                ci_high=row.ci_high,
                is_significant=bool(row.changed),
            )


def _count_and_largest(valid: Sequence[Shown[Row]], name: Callable[[Row], str]) -> Text:
    valid_rows = [shown.row for shown in valid]
    changed = [shown for shown in valid if shown.row.changed]
    if not changed:
        return Text(text=count_changes(valid_rows))
    largest = min(changed, key=lambda shown: rank(shown.row))
    most = largest.row
    per, base, new = describe_rate(largest)
    each = f" per {per}" if "/" in most.unit else ""
    if len({(row.side, row.workload, row.point) for row in valid_rows}) > 1:
        each += f" in {most.side}, {most.point or most.workload}"
    interval = interval_of(most)
    ends = "" if interval in (MISSING, TOO_WIDE) else f" {interval}"
    size = "" if most.ratio is None else f"{change_of(most)}{ends}, "
    text = f"{name(most)}: {size}{base} -> {new}{each} (n = {_count_runs(most)})"
    whose = " of the workload" if most.is_own and not all(row.is_own for row in valid_rows) else ""
    return Text(text=f"{count_changes(valid_rows)}; largest{whose}: {text}", tone="strong")


def rank(row: RateRow) -> tuple[bool, float]:
    """Return a sort key: rows of the workload come first, then the largest change."""
    return not row.is_own, distance(row)


def distance(row: RateRow) -> float:
    """Return a sort key: the largest change comes first, after rows without a ratio."""
    return -abs(math.log(row.ratio)) if row.ratio else -math.inf


def zeros_table(zeros: Sequence[str]) -> Iterator[Table]:
    """Yield a table of the counts that are 0 in all runs; nothing if there are none.

    A terminal shows their number only.
    """
    if zeros:
        yield Table(
            caption=f"{count_of(len(zeros), 'count')} with the value 0 in all runs",
            columns=(Column(title="count", code=True),),
            rows=tuple((Cell(text=name),) for name in zeros),
            limit=0,
        )
