"""Tables of samples as JSON rows: the sort keys, then what was counted and what changed."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schedperf.evidence.profile.family import Flags, is_changed
from schedperf.evidence.profile.independent import column_means
from schedperf.evidence.profile.record import Measure
from schedperf.evidence.profile.sampled import BASE, NEW
from schedperf.evidence.profile.table import SampleTable
from schedperf.stats.verdicts import FALSE_DISCOVERY_RATE

if TYPE_CHECKING:
    from schedperf.stats import Columns

SIDES = ("base", "new")


def describe_table(table: SampleTable) -> dict[str, Any]:
    """Return what all rows of an event rest on, by side."""
    runs = table.runs
    return {
        "event": runs.event,
        "independent": runs.independent,
        "n": dict(zip(SIDES, runs.counts, strict=False)),
        "samples": {SIDES[side]: _sum(table, table.samples, side) for side in runs.numbers},
        "period": {SIDES[side]: _sum(table, table.periods, side) for side in runs.numbers},
    }


def describe_rows(
    table: SampleTable, keys: Sequence[str], *, has_costs: bool
) -> Iterator[dict[str, Any]]:
    """Yield the rows: of one side the hottest first, of two those that changed most.

    ``samples`` and ``period`` are sums over the runs of a side, ``share`` is the mean of the runs'
    shares in per cent of the event's count (its periods), ``change`` and its ``interval`` are in
    percentage points, ``cost`` is the same in units of the event per operation.

    :param has_costs: do all runs count the same operations?
    """
    counted = [_describe_side(table, side) for side in table.runs.numbers]
    named = [dict(zip(keys, values, strict=True)) for values in table.keys]
    if len(counted) == 1:
        rows = [{**key, **own} for key, own in zip(named, counted[BASE], strict=True)]
        yield from sorted(rows, key=lambda row: -(row["share"] or 0.0))
        return
    shares, compared = (
        table.runs.compare(table.periods, measure, is_idle=table.is_idle, is_kernel=table.is_kernel)
        for measure in _MEASURES
    )
    changes = _describe_changes(shares, is_changed(shares))
    costs: Sequence[dict[str, Any] | None] = [None] * len(named)
    if has_costs and table.runs.has_operations:
        costs = [
            {"base": float(base), "new": float(new), **change}
            for base, new, change in zip(
                compared.base,
                compared.new,
                _describe_changes(compared, compared.q < FALSE_DISCOVERY_RATE),
                strict=True,
            )
        ]
    rows = [
        {**key, "base": base, "new": new, **change, "cost": cost}
        for key, base, new, change, cost in zip(
            named, counted[BASE], counted[NEW], changes, costs, strict=True
        )
    ]
    yield from sorted(rows, key=_rank)


def _rank(row: Mapping[str, Any]) -> tuple[bool, float, float]:
    # What changed as much, or not at all, is in the order of its size.
    shares = [row[side]["share"] or 0.0 for side in SIDES]
    return not row["changed"], -abs(row["change"] or 0.0), -sum(shares)


_MEASURES: tuple[Measure, Measure] = ("share", "operation")


def _describe_side(table: SampleTable, side: int) -> list[dict[str, Any]]:
    members = table.runs.sides == side
    samples = table.samples[members].sum(axis=0)
    periods = table.periods[members].sum(axis=0)
    shares = column_means(table.runs.scale(table.periods, "share")[side])
    return [
        {"samples": int(count), "period": int(period), "share": _number(share)}
        for count, period, share in zip(samples, periods, shares.tolist(), strict=True)
    ]


def _describe_changes(columns: "Columns", changed: Flags) -> list[dict[str, Any]]:
    return [
        {
            "change": _number(change),
            "interval": [low, high] if math.isfinite(low) else None,
            "q": _number(q),
            "changed": bool(is_one),
        }
        for change, low, high, q, is_one in zip(
            columns.difference.tolist(),
            columns.ci_low.tolist(),
            columns.ci_high.tolist(),
            columns.q.tolist(),
            changed,
            strict=True,
        )
    ]


def _sum(table: SampleTable, values: Any, side: int) -> int:
    return int(values[table.runs.sides == side].sum())


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
