# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute how task moves, waits, switches and timer expiries are distributed.

Moves by pair of nodes and over time, waits by duration, switches by depth of the task group, timer
expiries by phase.
"""

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from schedperf.evidence.placement.capture import LATENCY_BINS, PHASE_BINS, PlacementCapture
from schedperf.evidence.placement.comparability import mechanism_of
from schedperf.evidence.placement.measure import (
    CONCENTRATED,
    NS_PER_S,
    Phase,
    concurrent_pairs,
    has_nodes,
    phases_of,
)
from schedperf.evidence.placement.record import (
    EVENTS,
    PARTS,
    DepthRow,
    Event,
    MovesRow,
    Part,
    PhasesRow,
    SeriesRow,
    TimersRow,
)
from schedperf.model.counted import BinsRow
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.circular import distance
from schedperf.stats.counted.distributions import compare_bins, compare_places, means_over_runs

# Edges of the bins of waits are powers of two in ns; bin 0 also has 0 ns.
_WAITS_S = (0.0, *(2.0**index / NS_PER_S for index in range(1, LATENCY_BINS)))
_PHASES = tuple(index / PHASE_BINS for index in range(PHASE_BINS))

_Pair = tuple[int, int]

# Two timers expire together if their phases differ by at most the resolution: one bin each.
TOGETHER_PART = 2.0 / PHASE_BINS
# Number of equal parts of a run; a line of this many characters fits beside a caption.
TIME_BINS = 20


class _Point(NamedTuple):
    # The runs of one point of base, and those of the new side, if any.
    side: str
    workload: str
    point: str
    base: list[Captured[PlacementCapture]]
    new: list[Captured[PlacementCapture]]


def _by_point(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture] | None
) -> Iterator[_Point]:
    others = {} if new is None else new.by_point()
    for (workload, point), before in base.by_point().items():
        after = others.get((workload, point), [])
        if after or new is None:
            yield _Point((new or base).name, workload, point, before, after)


def moves_of(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture] | None, invalid: Collection[Part]
) -> Iterator[MovesRow]:
    """Yield moves by source and destination node, by event, and migrations by cause.

    Moves are divided by the operations if these are known for all runs, in one unit; otherwise by
    the time in s. Machines with one node, and events without moves, have no row.

    :param new: None if there is only base
    :param invalid: parts that are listed but not compared
    """
    for where in _by_point(base, new):
        runs = (*where.base, *where.new)
        if not any(has_nodes(run.content) for run in runs):
            continue
        per, amounts = _divisors(runs)
        seen = {(move.event, cause) for run in runs for move in run.content.moves
                for cause in ("", move.cause or "")}  # fmt: skip
        for event, cause in sorted(seen, key=lambda kind: (PARTS.index(kind[0]), kind[1])):
            counted = [_count_pairs(run, event, cause, amounts) for run in runs]
            nodes = sorted({node for run in counted for pair in run.content for node in pair})
            pairs = [(start, to) for start in nodes for to in nodes]
            whole = [_with_zeros(run, pairs) for run in counted]
            part: Part = "cause" if cause else event
            grid = compare_places(
                whole[: len(where.base)],
                whole[len(where.base) :],
                pairs,
                is_comparable=part not in invalid,
            )
            if any((*grid.base, *grid.new)):
                yield MovesRow(
                    side=where.side,
                    workload=where.workload,
                    point=where.point,
                    event=event,
                    cause=cause,
                    unit=f"1/{per}",
                    pairs=tuple(pairs),
                    **grid.as_fields(),
                )


def _divisors(runs: Sequence[Captured[PlacementCapture]]) -> tuple[str, bool]:
    # The unit of an operation, and whether the operations of all runs are known.
    units = {None if run.ops is None else run.ops.unit for run in runs}
    unit = units.pop() if len(units) == 1 else None
    return ("s", False) if unit is None else (unit, True)


def _count_pairs(
    run: Captured[PlacementCapture],
    event: Event,
    cause: str,
    by_operations: bool,  # noqa: FBT001 # of the table
) -> Captured[Mapping[_Pair, float]]:
    amount = run.ops.count if by_operations and run.ops is not None else run.content.seconds
    rates: dict[_Pair, float] = {}
    for move in run.content.moves:
        if move.event == event and cause in ("", move.cause):
            pair = (move.from_node, move.to_node)
            rates[pair] = rates.get(pair, 0.0) + move.count / amount
    return run.having(rates)


def _with_zeros(
    counted: Captured[Mapping[_Pair, float]], pairs: Sequence[_Pair]
) -> Captured[Mapping[_Pair, float]]:
    # All nodes were observed, so missing pairs are 0.
    complete = {pair: counted.content.get(pair, 0.0) for pair in pairs}
    return counted.having(complete)


def waits_of(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture] | None, invalid: Collection[Part]
) -> Iterator[BinsRow]:
    """Yield histograms of the waits of runnable tasks for a CPU, over all nodes.

    The edges of the bins are powers of two in ns, given in s. A point at which a side counted no
    waits has no row.

    :param new: None if there is only base
    :param invalid: parts that are listed but not compared
    """
    for where in _by_point(base, new):
        base_waits, new_waits = ([_waits(run) for run in runs] for runs in (where.base, where.new))
        if all(any(any(run.content) for run in side) for side in (base_waits, new_waits) if side):
            is_comparable = "latency" not in invalid
            bins = compare_bins(base_waits, new_waits, _WAITS_S, is_comparable=is_comparable)
            yield BinsRow(
                side=where.side, workload=where.workload, point=where.point, **bins.as_fields()
            )


def _waits(run: Captured[PlacementCapture]) -> Captured[Sequence[int]]:
    nodes = [waits.log2_ns for waits in run.content.latency] or [(0,) * LATENCY_BINS]
    counts = [sum(column) for column in zip(*nodes, strict=True)]
    return run.having(counts)


def phases_of_all(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture] | None, invalid: Collection[Part]
) -> Iterator[PhasesRow]:
    """Yield the phases of the bandwidth timers of cgroups, relative to a reference cgroup.

    The reference of a run is its first cgroup, by name, with a constant phase. A period starts when
    its cgroup is created, so in each run all phases are rotated until the mean phase of the
    reference is in the middle. Runs without a reference, and timers with another period, are left
    out. Edges of the bins are fractions of the period.

    :param new: None if there is only base
    :param invalid: parts that are listed but not compared
    """
    for where in _by_point(base, new):
        of_sides = (where.base, where.new)
        sides = [[_turned(run) for run in runs] for runs in of_sides]
        groups = {group: period for side in sides for run in side for group, period in run}
        for group, period_s in sorted(groups.items()):
            base_phases, new_phases = (
                [run.having(phases[group, period_s])
                 for run, phases in zip(runs, side, strict=True) if (group, period_s) in phases]
                for runs, side in zip(of_sides, sides, strict=True)
            )  # fmt: skip
            if base_phases and (new_phases or new is None):
                bins = compare_bins(
                    base_phases,
                    new_phases,
                    _PHASES,
                    is_comparable="timers" not in invalid,
                    is_trimmed=False,
                )
                yield PhasesRow(
                    side=where.side,
                    workload=where.workload,
                    point=where.point,
                    group=group,
                    period_s=period_s,
                    **bins.as_fields(),
                )


def _turned(run: Captured[PlacementCapture]) -> Mapping[tuple[str, float], Sequence[int]]:
    phases = phases_of(run.content.timers)
    first = next((phase for phase in phases if phase.concentration >= CONCENTRATED), None)
    if first is None:
        return {}
    shift = int(first.part * PHASE_BINS) - PHASE_BINS // 2
    return {
        (timer.group, first.period_s): _turn(timer.phases, shift)
        for timer in run.content.timers
        if timer.period_ns / NS_PER_S == first.period_s and any(timer.phases)
    }


def _turn(phases: Sequence[int], shift: int) -> list[int]:
    return [phases[(index + shift) % PHASE_BINS] for index in range(PHASE_BINS)]


def series_of(side: SideOf[PlacementCapture]) -> Iterator[SeriesRow]:
    """Yield the rate of moves between nodes in ``TIME_BINS`` equal parts of the runs, by event."""
    for (workload, point), runs in side.by_point().items():
        for event in EVENTS:
            seeing = [run for run in runs if _sees_crossings(run, event)]
            rates = np.array([_rates(run, event) for run in seeing])
            if rates.any():
                # The parts have equal length, so their mean is the rate of the run.
                estimate = means_over_runs(
                    np.column_stack([rates.mean(axis=1), rates]), [run.key for run in seeing]
                )
                whole, *parts = estimate.means
                yield SeriesRow(
                    side=side.name,
                    workload=workload,
                    point=point,
                    event=event,
                    replication=estimate.replication,
                    n=estimate.n,
                    mean=whole.mean,
                    ci_low=whole.ci_low,
                    ci_high=whole.ci_high,
                    rates=tuple(part.mean for part in parts),
                    rates_low=tuple(part.ci_low for part in parts),
                    rates_high=tuple(part.ci_high for part in parts),
                )


def _sees_crossings(run: Captured[PlacementCapture], event: Event) -> bool:
    return has_nodes(run.content) and mechanism_of(run.content, event) is not None


def _rates(run: Captured[PlacementCapture], event: Event) -> list[float]:
    capture = run.content
    total = np.zeros(TIME_BINS)
    for row in capture.series.rows:
        if row.event == event and row.crossing:
            total += rates_over_time(row.counts, capture.series.step_s, capture.seconds)
    rates: list[float] = total.tolist()
    return rates


def depths_of(side: SideOf[PlacementCapture]) -> Iterator[DepthRow]:
    """Yield, per depth of task groups, the share of the switches to the workload's tasks."""
    for (workload, point), runs in side.by_point().items():
        seen = [run for run in runs if any(row.switches for row in run.content.depth)]
        depths = sorted({row.depth for run in seen for row in run.content.depth if row.switches})
        if not depths:
            continue
        shares = np.array([_shares(run.content.switches_by_depth, depths) for run in seen])
        estimate = means_over_runs(shares, [run.key for run in seen])
        for depth, share in zip(depths, estimate.means, strict=True):
            yield DepthRow(
                side=side.name,
                workload=workload,
                point=point,
                depth=depth,
                share=share.mean,
                replication=estimate.replication,
                n=estimate.n,
                ci_low=share.ci_low,
                ci_high=share.ci_high,
            )


def _shares(switches: Mapping[int, int], depths: Sequence[int]) -> list[float]:
    total = sum(switches.values())
    return [switches.get(depth, 0) / total for depth in depths]


def timers_of(side: SideOf[PlacementCapture]) -> Iterator[TimersRow]:
    """Yield for each pair of cgroups whether their bandwidth timers expire together.

    Only pairs with the same period and constant phases have a row.
    """
    for (workload, point), runs in side.by_point().items():
        pairs: dict[tuple[str, str], list[tuple[Phase, Phase]]] = {}
        for run in runs:
            for first, second in concurrent_pairs(phases_of(run.content.timers)):
                pairs.setdefault((first.group, second.group), []).append((first, second))
        for groups, phases in pairs.items():
            parts = [distance(first.part, second.part) for first, second in phases]
            periods = [first.period_s for first, _ in phases]
            yield TimersRow(
                side=side.name,
                workload=workload,
                point=point,
                groups=groups,
                period_s=fmean(periods),
                distance_s=fmean(map(operator.mul, parts, periods)),
                resolution_s=max(periods) / PHASE_BINS,
                runs=len(phases),
                word=_word_of(parts),
            )


def _word_of(distances: Sequence[float]) -> Literal["together", "apart", "mixed"]:
    # Phase distance of one pair of timers in each run, as a fraction of the period.
    are_together = [distance <= TOGETHER_PART for distance in distances]
    if all(are_together):
        return "together"
    return "mixed" if any(are_together) else "apart"


def rates_over_time(
    counts: Sequence[int], step_s: float, seconds: float, bins: int = TIME_BINS
) -> npt.NDArray[np.float64]:
    """Return the rate in equal parts of a run: shape (bins,), 1/s.

    Events are assumed to be spread evenly over a step; the last step ends with the run.

    :param counts: shape (steps,), in time order
    :param step_s: length of a step
    :param seconds: length of the run
    """
    if not counts:
        return np.zeros(bins)
    ends = np.minimum(step_s * np.arange(len(counts) + 1), seconds)
    ends[-1] = seconds
    total = np.concatenate(([0.0], np.cumsum(np.asarray(counts, dtype=np.float64))))
    edges = np.linspace(0.0, seconds, bins + 1)
    rates: npt.NDArray[np.float64] = np.diff(np.interp(edges, ends, total)) / (seconds / bins)
    return rates
