# SPDX-License-Identifier: GPL-2.0-or-later
"""Draw the details of a compared rate: meaning, gaps, runs, and the rate in other units."""

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from schedperf.model.counted import Basis, RateRow
from schedperf.model.units import percent
from schedperf.model.verdict import FALSE_DISCOVERY_RATE, SMALLEST_EFFECT
from schedperf_reports.blocks import Block, Cell, Column, Table, Text
from schedperf_reports.rates.cells import (
    COMPARED,
    FEW_MAXIMA,
    OPERATIONS,
    PER_COLUMN,
    RUNS_COLUMN,
    WIDE,
    ZERO,
    Shown,
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
from schedperf_reports.words.quantities import format_p

_TWINS = (
    Column(title="per"),
    *(replace(column, explains="", priority=0) for column in (*COMPARED, RUNS_COLUMN)),
)


# Rows are tested together with those of the same basis.
_TESTED: Mapping[Basis, str] = {
    "time": "rates over time",
    "operation": "rates per operation",
    "share": "shares, means and rates per run or wakeup",
}


SINGLE = "no CI, because base or new has a value in only one run, boot or pair (minimum 2)"


def opened(
    shown: Shown[RateRow],
    about: str = "",
    *,
    kind: str = "rows of this section",
    small: str = "",
) -> tuple[Block, ...]:
    """Return the details of a row, which a page shows when the reader opens it.

    They are its meaning, its p and q, why a number is missing, the values of the runs, and the
    change with other denominators.

    :param about: what the count means and which kernel function counts it; "" if its name says so
    :param kind: names the rows that are tested together with this one, if their basis is the same
    :param small: why the row is too small to count as a change; "" if it is not
    """
    row = shown.row
    blocks: list[Block] = [Text(text=about)] if about else []
    if is_invalid(row):
        blocks.append(Text(text=f"not compared: {row.why_invalid}", tone="warning"))
    blocks += [*_chance_of(row, kind, small), *_gaps_of(row), *_values_of(shown)]
    if shown.twins:
        blocks.append(
            Table(
                caption=_twins_text(shown.twins),
                columns=_TWINS,
                rows=tuple(
                    (per_cell(twin), *compared_cells(twin), runs_cell(twin.row))
                    for twin in shown.twins
                ),
                anchors=tuple(twin.row.row for twin in shown.twins),
            )
        )
    return tuple(blocks)


def _chance_of(row: RateRow, kind: str, small: str) -> Iterator[Text]:
    if not is_compared(row) or row.q is None:
        return
    p_value = f"p = {format_p(row.p)}; q is corrected over all {kind} with {_TESTED[row.basis]}"
    yield Text(text=f"q = {format_p(row.q)} ({p_value})", tone="muted")
    is_sure = row.q < FALSE_DISCOVERY_RATE and row.changed is False
    is_slight = row.ratio and abs(math.log(row.ratio)) < math.log1p(SMALLEST_EFFECT)
    why = f"the change is below {percent(SMALLEST_EFFECT)}" if is_slight else small
    if is_sure and why:
        yield Text(text=f"not marked as significant: {why}", tone="muted")


def _gaps_of(row: RateRow) -> Iterator[Text]:
    if not is_compared(row):
        return
    if row.ratio is None:
        yield Text(text=f"change and CI unknown: {ZERO}", tone="muted")
    elif row.ci_low is None:
        yield Text(text=FEW_MAXIMA if row.statistic == "max" else SINGLE, tone="muted")
    elif is_wide_row(row):
        yield Text(text=f"CI not shown: {WIDE}", tone="muted")


def _twins_text(twins: Sequence[Shown[RateRow]]) -> str:
    changes = (f"{change_of(twin.row)} per {describe_rate(twin)[0]}" for twin in twins)
    return f"change with other denominators: {', '.join(changes)}"


def _values_of(shown: Shown[RateRow]) -> Iterator[Table]:
    # In the order of recording, which shows drift and outliers.
    row = shown.row
    by_side = (("base", row.values_base), ("new", row.values_new))
    sides = {side: values for side, values in by_side if values}
    if not sides:
        return
    # A single run may be above the limit where their mean is not.
    scaled = replace(shown, is_rare=_is_scaled(shown))
    yield Table(
        caption=f"range: {_ranges_text(scaled, sides)}; runs in the order of the bundle",
        columns=(
            Column(title="side"),
            PER_COLUMN,
            Column(title="value of each run"),
        ),
        rows=tuple(
            (Cell(text=side), per_cell(shown), Cell(text=_write_values(scaled, values)))
            for side, values in sides.items()
        ),
    )


def _is_scaled(shown: Shown[RateRow]) -> bool:
    return is_plain_rate(shown.row) and describe_rate(shown)[0].startswith(f"{OPERATIONS} ")


def _ranges_text(shown: Shown[RateRow], sides: Mapping[str, Sequence[float]]) -> str:
    # The range of each side shows its spread, and whether the sides overlap.
    ranges = []
    for side, values in sides.items():
        ends = dict.fromkeys(_write_values(shown, [end]) for end in (min(values), max(values)))
        ranges.append(f"{side} {' to '.join(ends)}")
    per = f" per {describe_rate(shown)[0]}" if "/" in shown.row.unit else ""
    return f"{', '.join(ranges)}{per}"


def _write_values(shown: Shown[RateRow], values: Sequence[float]) -> str:
    single = (replace(shown, row=replace(shown.row, base=value, new=None)) for value in values)
    return ", ".join(describe_rate(value)[1] for value in single)
