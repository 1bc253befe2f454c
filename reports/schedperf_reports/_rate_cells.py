"""Cells of compared rates: what a rate is per, its values, and why a change or interval is missing.

Rows are those that :data:`schedperf.sections._counted.RATE_FIELDS` describes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from schedperf.quantities import format_measure
from schedperf_reports._units import MISSING, format_change, format_interval
from schedperf_reports._words import count_of
from schedperf_reports.blocks import Cell, Column, Table, Text

Row = Mapping[str, Any]

# Counts an operation below this are written for so many operations, as nobody reads 0.0001375.
SMALLEST_COUNT = 0.1
OPERATIONS = 1000
# Ends of an interval that are further apart say no more than that the runs are too few.
WIDEST_INTERVAL = 100.0

# Units that are plain numbers.
PLAIN_UNITS = ("task", "level")
QUANTILES = ("p50", "p99", "p99.9")

# What tells the subject of a row, whichever section it is of.
_SUBJECT = (
    "side", "workload", "point", "name", "level", "idle", "group", "subject", "field", "node",
)  # fmt: skip


def split_twins(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that say most, and the same counts a second.

    A rate an operation says more than the same a second, which a slower kernel lowers for
    everything; where no operations are known, the rate a second is all there is.
    """
    known = list(rows)
    counted = {_subject(row) for row in known if row["basis"] == "operation"}
    twins = [row["basis"] == "time" and _subject(row) in counted for row in known]
    return (
        [row for row, is_twin in zip(known, twins, strict=True) if not is_twin],
        [row for row, is_twin in zip(known, twins, strict=True) if is_twin],
    )


def _subject(row: Row) -> tuple[Any, ...]:
    # Joules an operation and watts are two things.
    return (*(row.get(name) for name in _SUBJECT), str(row["unit"]).partition("/")[0])


def describe_rate(row: Row) -> tuple[str, str, str]:
    """Return what a rate is per, and its values of both sides in one scale.

    :return: ``("1000 messages", "1.375", "0.719")``
    """
    counted, per = str(row["unit"]).partition("/")[0], divisor_of(row)
    unit = "1" if counted in PLAIN_UNITS else counted
    base, new = row["base"], row["new"]
    if row["basis"] == "share" and not per:
        per = _kind(row)
    elif row["basis"] == "operation" and unit == "1" and _is_small(base, new):
        per = f"{OPERATIONS} {per}s"
        base, new = (None if one is None else OPERATIONS * one for one in (base, new))
    return per, format_measure(base, unit, new), format_measure(new, unit, base)


def divisor_of(row: Row) -> str:
    """Return what a count was divided by: "message", "second"; "" for a share or a mean."""
    per = str(row["unit"]).partition("/")[2]
    return {"s": "second"}.get(per, per)


def _kind(row: Row) -> str:
    if not row["unit"]:
        return "share"
    if row["field"] in QUANTILES:
        return "quantile"
    return "longest" if row["field"] == "max" else "mean"


def _is_small(*values: float | None) -> bool:
    return max((abs(value) for value in values if value is not None), default=0.0) < SMALLEST_COUNT


def change_of(row: Row) -> str:
    """Write the change; of a row that is not to be compared, that it is invalid."""
    return "invalid" if row.get("status") == "invalid" else format_change(row["ratio"])


def interval_of(row: Row) -> str:
    """Write the interval of the change; one that spans everything is no number."""
    return MISSING if _is_wide(row) else format_interval(row["ci_low"], row["ci_high"])


def _is_wide(row: Row) -> bool:
    low, high = row["ci_low"], row["ci_high"]
    return low is not None and high is not None and high > WIDEST_INTERVAL * low


def explain_gaps(rows: Iterable[Row]) -> Iterator[Text]:
    """Say why a change or an interval of the rows that are shown is not there."""
    compared = [
        row
        for row in rows
        if row.get("status") != "invalid" and None not in (row["base"], row["new"])
    ]
    if any(row["ratio"] is None for row in compared):
        text = "no change where a run or a boot has 0: there is nothing to divide by"
        yield Text(text=text, tone="muted")
    if any(map(_is_wide, compared)):
        text = (
            f"no interval where its ends are more than a factor of {WIDEST_INTERVAL:g} apart: "
            "too few runs or boots"
        )
        yield Text(text=text, tone="muted")


def zeros_table(zeros: Sequence[str]) -> Iterator[Table]:
    """Yield what was 0 in all runs: a number on a terminal, the names on the page."""
    if zeros:
        yield Table(
            caption=f"0 in all runs: {count_of(len(zeros), 'count')}",
            columns=(Column(title="count", code=True),),
            rows=tuple((Cell(text=name),) for name in zeros),
            limit=0,
        )
