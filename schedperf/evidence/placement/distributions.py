# SPDX-License-Identifier: GPL-2.0-or-later
"""How what was counted is spread: moves over pairs of nodes and over time, waits over bins of time,
switches over depths of task groups, expiries of timers over their period.
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

# Both edges of a bin of waits are powers of two of nanoseconds; bin 0 also has 0 ns.
_WAITS_S = (0.0, *(2.0**index / NS_PER_S for index in range(1, LATENCY_BINS)))
_PHASES = tuple(index / PHASE_BINS for index in range(PHASE_BINS))

_Pair = tuple[int, int]

# Two timers expire together where their phases are known to be equal: each to a bin of them.
TOGETHER_PART = 2.0 / PHASE_BINS
# Of a run's duration each; a line of this many characters fits beside a caption.
TIME_BINS = 20


class _Point(NamedTuple):
    # The runs of a point that base has; of a side alone there are no others.
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
    """Yield how many tasks went from each node to each, by event, and migrations by cause.

    They are divided by the operations where these are known of all runs, else by the time.

    :param new: None: base is alone
    :param invalid: parts that are shown and not compared"""
    for where in _by_point(base, new):
        runs = (*where.base, *where.new)
        if not any(has_nodes(run.content) for run in runs):
            continue
        per, amounts = _divisors(runs)
        seen = {(move.event, cause) for run in runs for move in run.content.moves
                for cause in ("", move.cause or "")}  # fmt: skip
        for event, cause in sorted(seen, key=lambda one: (PARTS.index(one[0]), one[1])):
            counted = [_count_pairs(run, event, cause, amounts) for run in runs]
            nodes = sorted({node for one in counted for pair in one.content for node in pair})
            pairs = [(start, to) for start in nodes for to in nodes]
            whole = [_with_zeros(one, pairs) for one in counted]
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
    # Of what an operation is, and whether all runs know how many they did.
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
    found: dict[_Pair, float] = {}
    for move in run.content.moves:
        if move.event == event and cause in ("", move.cause):
            pair = (move.from_node, move.to_node)
            found[pair] = found.get(pair, 0.0) + move.count / amount
    return run.having(found)


def _with_zeros(
    counted: Captured[Mapping[_Pair, float]], pairs: Sequence[_Pair]
) -> Captured[Mapping[_Pair, float]]:
    # What was not seen of nodes that were watched did not happen.
    known = {pair: counted.content.get(pair, 0.0) for pair in pairs}
    return counted.having(known)


def waits_of(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture] | None, invalid: Collection[Part]
) -> Iterator[BinsRow]:
    """Yield how long runnable tasks waited for a CPU, in bins of powers of two."""
    for where in _by_point(base, new):
        one, other = ([_waits(run) for run in runs] for runs in (where.base, where.new))
        if all(any(any(run.content) for run in side) for side in (one, other) if side):
            is_comparable = "latency" not in invalid
            bins = compare_bins(one, other, _WAITS_S, is_comparable=is_comparable)
            yield BinsRow(
                side=where.side, workload=where.workload, point=where.point, **bins.as_fields()
            )


def _waits(run: Captured[PlacementCapture]) -> Captured[Sequence[int]]:
    nodes = [one.log2_ns for one in run.content.latency] or [(0,) * LATENCY_BINS]
    counts = [sum(column) for column in zip(*nodes, strict=True)]
    return run.having(counts)


def phases_of_all(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture] | None, invalid: Collection[Part]
) -> Iterator[PhasesRow]:
    """Yield when in their period the bandwidth timers of cgroups expire, against the first one's.

    A period begins whenever its cgroup was made, so in each run all phases are turned until the
    mean of the first cgroup's, by name, is in the middle; a run without a steady one is left out.
    Edges of the bins are parts of the period.
    """
    for where in _by_point(base, new):
        of_sides = (where.base, where.new)
        sides = [[_turned(run) for run in runs] for runs in of_sides]
        groups = {group: period for side in sides for run in side for group, period in run}
        for group, period_s in sorted(groups.items()):
            one, other = (
                [run.having(found[group, period_s])
                 for run, found in zip(runs, side, strict=True) if (group, period_s) in found]
                for runs, side in zip(of_sides, sides, strict=True)
            )  # fmt: skip
            if one and (other or new is None):
                bins = compare_bins(
                    one,
                    other,
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
    first = next((one for one in phases if one.concentration >= CONCENTRATED), None)
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
    """Yield how often tasks left their node over the relative time of the runs, by event."""
    for (workload, point), runs in side.by_point().items():
        for event in EVENTS:
            seeing = [run for run in runs if _sees_crossings(run, event)]
            rates = np.array([_rates(run, event) for run in seeing])
            if rates.any():
                # The parts are equally long, so their mean is the rate of the run.
                found = means_over_runs(
                    np.column_stack([rates.mean(axis=1), rates]), [run.key.boot for run in seeing]
                )
                yield SeriesRow(
                    side=side.name,
                    workload=workload,
                    point=point,
                    event=event,
                    replication=found.replication,
                    n=found.n,
                    mean=found.mean[0],
                    ci_low=found.ci_low[0],
                    ci_high=found.ci_high[0],
                    rates=tuple(found.mean[1:]),
                    rates_low=tuple(found.ci_low[1:]),
                    rates_high=tuple(found.ci_high[1:]),
                )


def _sees_crossings(run: Captured[PlacementCapture], event: Event) -> bool:
    return has_nodes(run.content) and mechanism_of(run.content, event) is not None


def _rates(run: Captured[PlacementCapture], event: Event) -> list[float]:
    found = run.content
    total = np.zeros(TIME_BINS)
    for row in found.series.rows:
        if row.event == event and row.crossing:
            total += rates_over_time(row.counts, found.series.step_s, found.seconds)
    rates: list[float] = total.tolist()
    return rates


def depths_of(side: SideOf[PlacementCapture]) -> Iterator[DepthRow]:
    """Yield how deep the task groups were in which the workload's tasks ran."""
    for (workload, point), runs in side.by_point().items():
        seen = [run for run in runs if any(row.switches for row in run.content.depth)]
        depths = sorted({row.depth for run in seen for row in run.content.depth if row.switches})
        if not depths:
            continue
        shares = np.array([_shares(run.content.switches_by_depth, depths) for run in seen])
        found = means_over_runs(shares, [run.key.boot for run in seen])
        means = zip(depths, found.mean, found.ci_low, found.ci_high, strict=True)
        for depth, share, low, high in means:
            yield DepthRow(
                side=side.name,
                workload=workload,
                point=point,
                depth=depth,
                share=share,
                replication=found.replication,
                n=found.n,
                ci_low=low,
                ci_high=high,
            )


def _shares(switches: Mapping[int, int], depths: Sequence[int]) -> list[float]:
    total = sum(switches.values())
    return [switches.get(depth, 0) / total for depth in depths]


def timers_of(side: SideOf[PlacementCapture]) -> Iterator[TimersRow]:
    """Yield which bandwidth timers expire together, by pair of groups."""
    for (workload, point), runs in side.by_point().items():
        pairs: dict[tuple[str, str], list[tuple[Phase, Phase]]] = {}
        for run in runs:
            for one, other in concurrent_pairs(phases_of(run.content.timers)):
                pairs.setdefault((one.group, other.group), []).append((one, other))
        for groups, phases in pairs.items():
            parts = [distance(one.part, other.part) for one, other in phases]
            periods = [one.period_s for one, _ in phases]
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
    # Of one pair of timers in each run, in parts of their period.
    are_together = [distance <= TOGETHER_PART for distance in distances]
    if all(are_together):
        return "together"
    return "mixed" if any(are_together) else "apart"


def rates_over_time(
    counts: Sequence[int], step_s: float, seconds: float, bins: int = TIME_BINS
) -> npt.NDArray[np.float64]:
    """Return the rate in equal parts of a run: shape (bins,), 1/s.

    Events of a step are taken to be spread evenly over it; the last step ends with the run.

    :param counts: shape (steps,), from the beginning
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
