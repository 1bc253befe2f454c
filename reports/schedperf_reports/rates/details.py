"""What a row of compared rates opens to: its meaning, gaps, runs, and the same in other units."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE, SMALLEST_EFFECT, percent
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.rates.cells import (
    COMPARED,
    OPERATIONS,
    PER_COLUMN,
    RUNS_COLUMN,
    WIDE,
    ZERO,
    change_of,
    compared_cells,
    describe_rate,
    is_compared,
    is_invalid,
    is_plain_rate,
    is_wide_row,
    per_cell,
    runs_cell,
)
from schedperf_reports.words.units import format_p

Row = Mapping[str, Any]

_TWINS = (
    Column(title="per"),
    *(replace(column, explains="", priority=0) for column in (*COMPARED, RUNS_COLUMN)),
)


# Rows are tested together with those of the same basis.
_TESTED = {
    "time": "rates over time",
    "operation": "rates per operation",
    "share": "shares, means and rates per wakeup",
}


def opened(
    row: Row,
    twins: Sequence[Row],
    about: str = "",
    *,
    kind: str = "rows of this section",
    small: str = "",
) -> tuple[Block, ...]:
    """Return what a row opens to: what it means, and the same per something else.

    :param about: in plain words, with the kernel's function that counts it; "" where the row says
    :param kind: rows that are tested together, if their basis is the same
    :param small: why the row is no change however sure it is; "" where it may be one
    """
    blocks: list[Block] = [Text(text=about)] if about else []
    if is_invalid(row):
        blocks.append(Text(text=f"not compared: {row['reason']}", tone="warning"))
    blocks += [*_chance_of(row, kind, small), *_gaps_of(row), *_values_of(row)]
    if twins:
        blocks.append(
            Table(
                caption=_say_twins(twins),
                columns=_TWINS,
                rows=tuple((per_cell(one), *compared_cells(one), runs_cell(one)) for one in twins),
                anchors=tuple(one["row"] for one in twins),
            )
        )
    return tuple(blocks)


def _chance_of(row: Row, kind: str, small: str) -> Iterator[Text]:
    if not is_compared(row) or row["q"] is None:
        return
    told = f"p = {format_p(row['p'])}, corrected for all {kind} that are {_TESTED[row['basis']]}"
    yield Text(text=f"q = {format_p(row['q'])} ({told})", tone="muted")
    is_sure = row["q"] < FALSE_DISCOVERY_RATE and row["changed"] is False
    is_slight = row["ratio"] and abs(math.log(row["ratio"])) < math.log1p(SMALLEST_EFFECT)
    why = f"the change is below {percent(SMALLEST_EFFECT)}" if is_slight else small
    if is_sure and why:
        yield Text(text=f"not marked as changed: {why}", tone="muted")


def _gaps_of(row: Row) -> Iterator[Text]:
    if not is_compared(row):
        return
    if row["ratio"] is None:
        yield Text(text=f"no change and no interval, since {ZERO}", tone="muted")
    elif row["ci_low"] is None:
        yield Text(
            text="no interval: one run, boot or round of a side has no scatter", tone="muted"
        )
    elif is_wide_row(row):
        yield Text(text=f"no interval is shown: it is one {WIDE}", tone="muted")


def _say_twins(twins: Sequence[Row]) -> str:
    told = (f"{change_of(one)} per {describe_rate(one)[0]}" for one in twins)
    return f"the same counted otherwise: {', '.join(told)}"


def _values_of(row: Row) -> Iterator[Table]:
    # As they were recorded, so that a drift or one run that is far off is seen.
    sides = {
        side: values for side in ("base", "new") if (values := row.get(f"values_{side}") or ())
    }
    if not sides:
        return
    shown = {**row, "is_rare": is_rare} if (is_rare := _is_scaled(row)) else row
    yield Table(
        caption=f"{_say_ranges(shown, sides)}, in the order of the bundle",
        columns=(
            Column(title="side"),
            PER_COLUMN,
            Column(title="values of the runs"),
        ),
        rows=tuple(
            (Cell(text=side), per_cell(row), Cell(text=_write_values(shown, values)))
            for side, values in sides.items()
        ),
    )


def _say_ranges(row: Row, sides: Mapping[str, Sequence[float]]) -> str:
    # How far the runs of a side lie apart, and whether those of the two overlap.
    told = []
    for side, values in sides.items():
        ends = dict.fromkeys(_write_values(row, [end]) for end in (min(values), max(values)))
        told.append(f"{side} {' to '.join(ends)}")
    per = f" per {describe_rate(row)[0]}" if "/" in row["unit"] else ""
    return f"{', '.join(told)}{per}"


def _is_scaled(row: Row) -> bool:
    # A single run may be above the limit where their mean is not.
    return is_plain_rate(row) and describe_rate(row)[0].startswith(f"{OPERATIONS} ")


def _write_values(row: Row, values: Sequence[float]) -> str:
    return ", ".join(describe_rate({**row, "base": one, "new": None})[1] for one in values)
