"""Tables of samples as rows: the sort keys, then what was counted and what changed."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from schedperf.evidence.profile.document import (
    BySide,
    ComparedRow,
    Interval,
    ProfileSight,
    SampleCost,
    SampleCounts,
    SampledEvent,
    SampleRow,
    SideName,
    SortKey,
)
from schedperf.evidence.profile.family import is_changed
from schedperf.evidence.profile.independent import column_means
from schedperf.evidence.profile.sampled import BASE, NEW, Floats
from schedperf.evidence.profile.table import SampleTable
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE

if TYPE_CHECKING:
    from schedperf.stats import Columns

SIDES: tuple[SideName, SideName] = ("base", "new")


def describe_event(table: SampleTable, sights: Sequence[ProfileSight]) -> SampledEvent:
    """Return what all rows of an event rest on, by side."""
    runs = table.runs
    return SampledEvent(
        event=runs.event,
        independent=runs.independent,
        n=dict(zip(SIDES, runs.counts, strict=False)),
        samples=_sums(table, table.samples),
        period=_sums(table, table.periods),
        sight=tuple(sights),
    )


def rows_of_one_side(table: SampleTable, keys: Sequence[SortKey]) -> list[SampleRow]:
    """Return the rows of one side alone, the hottest first."""
    rows = [
        SampleRow(**named, samples=counted.samples, period=counted.period, share=counted.share)
        for named, counted in zip(_named_values(table, keys), _count_side(table, BASE), strict=True)
    ]
    return sorted(rows, key=lambda row: -(row.share or 0.0))


def compared_rows(
    table: SampleTable, keys: Sequence[SortKey], *, has_costs: bool
) -> list[ComparedRow]:
    """Return the rows of two sides, those that changed most first.

    :param has_costs: do all runs count the same operations?
    """
    runs = table.runs
    shares = runs.compare(table.periods, "share", is_idle=table.is_idle, is_kernel=table.is_kernel)
    changed = is_changed(shares)
    costs: Sequence[SampleCost | None] = [None] * len(table.keys)
    if has_costs and runs.has_operations:
        costs = list(_costs(table))
    rows = [
        ComparedRow(
            **named,
            base=base,
            new=new,
            change=_number(float(shares.difference[index])),
            interval=_interval(shares, index),
            q=_number(float(shares.q[index])),
            changed=bool(changed[index]),
            cost=costs[index],
        )
        for index, (named, base, new) in enumerate(
            zip(
                _named_values(table, keys),
                _count_side(table, BASE),
                _count_side(table, NEW),
                strict=True,
            )
        )
    ]
    return sorted(rows, key=_rank)


def _rank(row: ComparedRow) -> tuple[bool, float, float]:
    # What changed as much, or not at all, is in the order of its size.
    shares = (row.base.share or 0.0) + (row.new.share or 0.0)
    return not row.changed, -abs(row.change or 0.0), -shares


def _named_values(table: SampleTable, keys: Sequence[SortKey]) -> Iterator[dict[str, Any]]:
    # Which fields a row has is the user's choice.
    for values in table.keys:
        yield dict(zip(keys, values, strict=True))


def _count_side(table: SampleTable, side: int) -> Iterator[SampleCounts]:
    members = table.runs.sides == side
    samples = table.samples[members].sum(axis=0)
    periods = table.periods[members].sum(axis=0)
    shares = column_means(table.runs.scale(table.periods, "share")[side])
    for count, period, share in zip(samples, periods, shares.tolist(), strict=True):
        yield SampleCounts(samples=int(count), period=int(period), share=_number(share))


def _costs(table: SampleTable) -> Iterator[SampleCost]:
    costs = table.runs.compare(
        table.periods, "operation", is_idle=table.is_idle, is_kernel=table.is_kernel
    )
    for index in range(len(costs)):
        yield SampleCost(
            base=float(costs.base[index]),
            new=float(costs.new[index]),
            change=_number(float(costs.difference[index])),
            interval=_interval(costs, index),
            q=_number(float(costs.q[index])),
            changed=bool(costs.q[index] < FALSE_DISCOVERY_RATE),
        )


def _interval(columns: "Columns", index: int) -> Interval:
    low, high = float(columns.ci_low[index]), float(columns.ci_high[index])
    return (low, high) if math.isfinite(low) else None


def _sums(table: SampleTable, values: Floats) -> BySide:
    runs = table.runs
    return {SIDES[side]: int(values[runs.sides == side].sum()) for side in runs.numbers}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
