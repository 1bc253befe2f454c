# SPDX-License-Identifier: GPL-2.0-or-later
"""Count samples by event, CPU, node, task, file and function, like ``perf report --sort``.

::

    tabulate(sides, event, ("dso", "symbol")).periods
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from msgspec import Struct

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
    Value,
)
from schedperf.evidence.profile.family import is_changed, is_charged, is_idle_time
from schedperf.evidence.profile.independent import column_means
from schedperf.evidence.profile.samples import (
    BASE,
    NEW,
    Flags,
    Floats,
    Profiles,
    ProfileSamples,
    Runs,
    collect_runs,
)
from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.inputs.perf_data.recording import NO_CPU, NO_TASK, Integers
from schedperf.model.perf_event import PerfEvent
from schedperf.model.place import Place
from schedperf.model.verdict import FALSE_DISCOVERY_RATE

if TYPE_CHECKING:
    from schedperf.stats import Columns

SIDES: tuple[SideName, SideName] = ("base", "new")
# In the default order of columns.
SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)


class SampleTable(Struct, frozen=True, kw_only=True):
    """Counted samples of one event; runs of base come first.

    :param keys: the values of each row, in the order of the requested keys
    :param samples: shape (runs, rows)
    :param periods: in the unit of the event, shape (runs, rows)
    :param is_idle: True for rows with idle time only, shape (rows,)
    :param is_hidden: True for rows by symbol to which time with interrupts off is attributed, shape
        (rows,)
    """

    runs: Runs
    keys: tuple[tuple[Value, ...], ...]
    samples: Floats
    periods: Floats
    is_idle: Flags
    is_hidden: Flags


def tabulate(
    sides: Sequence[Profiles], event: EventIdentity, keys: Sequence[SortKey]
) -> SampleTable:
    """Count the selected samples of one event.

    :param keys: some of :data:`SORT_KEYS`
    """
    counted = [_count(run.content, event, keys) for side in sides for run in side.runs]
    numbers: dict[tuple[Value, ...], int] = {}
    for rows in counted:
        for row in rows:
            numbers.setdefault(row, len(numbers))
    # For each run and row: samples, periods, and numbers of samples in idle time and in functions
    # to which other time is attributed.
    sums = np.zeros((_COUNTS, len(counted), len(numbers)))
    for run, rows in enumerate(counted):
        for row, values in rows.items():
            sums[:, run, numbers[row]] = values
    samples, periods, idle, hidden = sums
    return SampleTable(
        runs=collect_runs(sides, event),
        keys=tuple(numbers),
        samples=samples,
        periods=periods,
        is_idle=(idle == samples).all(axis=0),
        is_hidden=np.asarray((hidden > 0.0).any(axis=0) & ("symbol" in keys)),
    )


_COUNTS = 4


def _count(
    run: ProfileSamples, event: EventIdentity, keys: Sequence[SortKey]
) -> dict[tuple[Value, ...], Sequence[float]]:
    samples = run.recording.samples
    rows = np.flatnonzero(run.rows_of(event) & run.rows)
    coded = [
        # All runs use the label of the first one, because versions of perf print events
        # differently.
        _code(np.zeros(len(rows), np.int64), lambda _: event.label)
        if key == "event"
        else _CODERS[key](run, rows)
        for key in keys
    ]
    codes = np.column_stack([codes for codes, _ in coded])
    distinct, group = np.unique(codes, axis=0, return_inverse=True)
    counts, where = samples.count[rows], run.placed.of_row[rows]
    sums = [
        np.bincount(group.ravel(), weights, len(distinct)).tolist()
        for weights in (
            counts,
            samples.period[rows],
            counts * _flags(run.placed.places, is_idle_time)[where],
            counts * _flags(run.placed.places, is_charged)[where],
        )
    ]
    return {
        tuple(values[code] for code, (_, values) in zip(row, coded, strict=True)): counted
        for row, counted in zip(distinct.tolist(), zip(*sums, strict=True), strict=True)
    }


def _flags(places: Sequence[Place], is_one: Callable[[Place], bool]) -> Flags:
    return np.array([is_one(location) for location in places], dtype=np.bool_)


# A number for each row, and the value of each number.
_Coded = tuple[Integers, Mapping[int, Value]]


def _code_cpu(run: ProfileSamples, rows: Integers) -> _Coded:
    return _code(run.recording.samples.cpu[rows], lambda cpu: None if cpu == NO_CPU else cpu)


def _code_node(run: ProfileSamples, rows: Integers) -> _Coded:
    return _code(run.recording.samples.cpu[rows], run.node_of_cpu.get)


def _code_comm(run: ProfileSamples, rows: Integers) -> _Coded:
    tasks = run.recording.tasks
    return _code(
        run.recording.samples.task[rows],
        lambda task: None if task == NO_TASK else tasks[task].comm,
    )


def _code_dso(run: ProfileSamples, rows: Integers) -> _Coded:
    return _code(run.placed.of_row[rows], lambda index: run.placed.places[index].dso)


def _code_symbol(run: ProfileSamples, rows: Integers) -> _Coded:
    return _code(run.placed.of_row[rows], lambda index: run.placed.places[index].symbol)


def _code(numbers: Integers, name: Callable[[int], Value]) -> _Coded:
    # Merge numbers with the same name.
    used, where = np.unique(numbers, return_inverse=True)
    codes: dict[Value, int] = {}
    own = [codes.setdefault(name(number), len(codes)) for number in used.tolist()]
    return np.array(own, dtype=np.int64)[where], {code: value for value, code in codes.items()}


_CODERS: Mapping[SortKey, Callable[[ProfileSamples, Integers], _Coded]] = {
    "cpu": _code_cpu,
    "node": _code_node,
    "comm": _code_comm,
    "dso": _code_dso,
    "symbol": _code_symbol,
}


def describe_event(
    table: SampleTable,
    sights: Sequence[ProfileSight],
    perf_events: Mapping[SideName, PerfEvent],
    lost: Mapping[SideName, int | None],
) -> SampledEvent:
    """Return an event with the number of its runs and samples on each side.

    :param lost: number of lost samples per side; None if unknown
    """
    runs = table.runs
    return SampledEvent(
        event=runs.event,
        perf_event=perf_events,
        independent=runs.independent,
        n=dict(zip(SIDES, runs.counts, strict=False)),
        samples=_sums(table, table.samples),
        period=_sums(table, table.periods),
        lost=lost,
        sight=tuple(sights),
    )


def rows_of_one_side(table: SampleTable, keys: Sequence[SortKey]) -> list[SampleRow]:
    """Return the rows of a single side, largest share first."""
    rows = [
        SampleRow(**named, samples=counted.samples, period=counted.period, share=counted.share)
        for named, counted in zip(_named_values(table, keys), _count_side(table, BASE), strict=True)
    ]
    return sorted(rows, key=lambda row: -(row.share or 0.0))


def compared_rows(
    table: SampleTable, keys: Sequence[SortKey], *, has_costs: bool
) -> list[ComparedRow]:
    """Return the rows of two sides: rows with a significant change first, then by size of change.

    :param has_costs: whether all runs count the same operations
    """
    runs = table.runs
    shares = runs.compare(table.periods, "share", is_idle=table.is_idle, is_hidden=table.is_hidden)
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
    # Rows with equal changes are sorted by size.
    shares = (row.base.share or 0.0) + (row.new.share or 0.0)
    return not row.changed, -abs(row.change or 0.0), -shares


def _named_values(table: SampleTable, keys: Sequence[SortKey]) -> Iterator[dict[str, Any]]:
    # The user selects the fields of rows.
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
        table.periods, "operation", is_idle=table.is_idle, is_hidden=table.is_hidden
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
