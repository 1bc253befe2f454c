"""What is shown and not tested: moves over time, histograms of depth, phases of timers."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Literal

import numpy as np

from schedperf.evidence.placement.counts import Phase, concurrent_pairs, has_nodes, phases_of
from schedperf.evidence.placement.model import PlacedRun, PlacedSide
from schedperf.evidence.placement.over_runs import means_over_runs
from schedperf.evidence.placement.over_time import TIME_BINS, rates_over_time
from schedperf.evidence.placement.phases import distance
from schedperf.evidence.placement.placement_records import PHASE_BINS
from schedperf.evidence.placement.record import (
    EVENTS,
    DepthRow,
    Event,
    SeriesRow,
    TimersRow,
)
from schedperf.evidence.placement.sight import mechanism_of

# Two timers expire together where their phases are known to be equal: each to a bin of them.
TOGETHER_PART = 2.0 / PHASE_BINS

_Place = tuple[str, str]


def _by_place(side: PlacedSide) -> dict[_Place, list[PlacedRun]]:
    found: dict[_Place, list[PlacedRun]] = {}
    for run in side.runs:
        found.setdefault((run.workload, run.point), []).append(run)
    return found


def series_of(side: PlacedSide) -> Iterator[SeriesRow]:
    """Yield how often tasks left their node over the relative time of the runs, by event."""
    for (workload, point), runs in _by_place(side).items():
        for event in EVENTS:
            seeing = [run for run in runs if _sees_crossings(run, event)]
            rates = np.array([_rates(run, event) for run in seeing])
            if rates.any():
                # The parts are equally long, so their mean is the rate of the run.
                found = means_over_runs(
                    np.column_stack([rates.mean(axis=1), rates]), [run.boot for run in seeing]
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


def _sees_crossings(run: PlacedRun, event: Event) -> bool:
    return has_nodes(run.placement) and mechanism_of(run.placement, event) is not None


def _rates(run: PlacedRun, event: Event) -> list[float]:
    found = run.placement
    total = np.zeros(TIME_BINS)
    for row in found.series:
        if row.event == event and row.crossing:
            total += rates_over_time(row.counts, found.step_s, found.seconds)
    rates: list[float] = total.tolist()
    return rates


def depths_of(side: PlacedSide) -> Iterator[DepthRow]:
    """Yield how deep the task groups were in which the workload's tasks ran."""
    for (workload, point), runs in _by_place(side).items():
        seen = [run for run in runs if sum(run.placement.depth.values())]
        depths = sorted({depth for run in seen for depth, n in run.placement.depth.items() if n})
        if not depths:
            continue
        shares = np.array([_shares(run.placement.depth, depths) for run in seen])
        found = means_over_runs(shares, [run.boot for run in seen])
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


def timers_of(side: PlacedSide) -> Iterator[TimersRow]:
    """Yield which bandwidth timers expire together, by pair of groups."""
    for (workload, point), runs in _by_place(side).items():
        pairs: dict[tuple[str, str], list[tuple[Phase, Phase]]] = {}
        for run in runs:
            for one, other in concurrent_pairs(phases_of(run.placement.timers)):
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
