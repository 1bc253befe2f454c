"""What is shown and not tested: moves over time, histograms of depth, phases of timers."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from schedperf.evidence.placement.counts import Phase, concurrent_pairs, has_nodes, phases_of
from schedperf.evidence.placement.model import PlacedRun, PlacedSide
from schedperf.evidence.placement.over_runs import Floats, means_over_runs
from schedperf.evidence.placement.over_time import TIME_BINS, rates_over_time
from schedperf.evidence.placement.phases import distance
from schedperf.evidence.placement.placement_records import EVENTS, PHASE_BINS, Event
from schedperf.evidence.placement.sight import mechanism_of

# Two timers expire together where their phases are known to be equal: each to a bin of them.
TOGETHER_PART = 2.0 / PHASE_BINS

_Place = tuple[str, str]


def _by_place(side: PlacedSide) -> dict[_Place, list[PlacedRun]]:
    found: dict[_Place, list[PlacedRun]] = {}
    for run in side.runs:
        found.setdefault((run.workload, run.point), []).append(run)
    return found


def _of(side: PlacedSide, place: _Place) -> dict[str, Any]:
    return {"side": side.name, "workload": place[0], "point": place[1]}


def series_of(side: PlacedSide) -> Iterator[dict[str, Any]]:
    """Yield how often tasks left their node over the relative time of the runs, by event.

    :return: ``side, workload, point, event, replication, n, mean, ci_low, ci_high`` of the whole
        runs and ``rates, rates_low, rates_high`` of ``TIME_BINS`` parts of them, all in 1/s
    """
    for place, runs in _by_place(side).items():
        for event in EVENTS:
            seeing = [run for run in runs if _sees_crossings(run, event)]
            rates = np.array([_rates(run, event) for run in seeing])
            if rates.any():
                boots = [run.boot for run in seeing]
                yield {**_of(side, place), "event": event, **_describe_rates(rates, boots)}


def _describe_rates(rates: Floats, boots: Sequence[int]) -> dict[str, Any]:
    # The parts are equally long, so their mean is the rate of the run.
    found = means_over_runs(np.column_stack([rates.mean(axis=1), rates]), boots)
    (mean, *bins), (low, *lows), (high, *highs) = found.mean, found.ci_low, found.ci_high
    return {
        "replication": found.replication, "n": found.n, "mean": mean, "ci_low": low,
        "ci_high": high, "rates": bins, "rates_low": lows, "rates_high": highs,
    }  # fmt: skip


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


def depths_of(side: PlacedSide) -> Iterator[dict[str, Any]]:
    """Yield how deep the task groups were in which the workload's tasks ran.

    :return: ``side, workload, point, depth, share, replication, n, ci_low, ci_high``; share: of
        the switches to its tasks
    """
    for place, runs in _by_place(side).items():
        seen = [run for run in runs if sum(run.placement.depth.values())]
        depths = sorted({depth for run in seen for depth, n in run.placement.depth.items() if n})
        if not depths:
            continue
        shares = np.array([_shares(run.placement.depth, depths) for run in seen])
        found = means_over_runs(shares, [run.boot for run in seen])
        told = {"replication": found.replication, "n": found.n}
        for depth, *numbers in zip(depths, found.mean, found.ci_low, found.ci_high, strict=True):
            named = dict(zip(("share", "ci_low", "ci_high"), numbers, strict=True))
            yield {**_of(side, place), "depth": depth, **told, **named}


def _shares(switches: Mapping[int, int], depths: Sequence[int]) -> list[float]:
    total = sum(switches.values())
    return [switches.get(depth, 0) / total for depth in depths]


def timers_of(side: PlacedSide) -> Iterator[dict[str, Any]]:
    """Yield which bandwidth timers expire together, by pair of groups.

    :return: ``side, workload, point, groups, period_s, distance_s, resolution_s, runs, word``;
        distance_s: mean over runs; word: "together", "apart", or "mixed" where runs differ
    """
    for place, runs in _by_place(side).items():
        pairs: dict[tuple[str, str], list[tuple[Phase, Phase]]] = {}
        for run in runs:
            for one, other in concurrent_pairs(phases_of(run.placement.timers)):
                pairs.setdefault((one.group, other.group), []).append((one, other))
        for groups, phases in pairs.items():
            yield {**_of(side, place), "groups": list(groups), **_describe(phases)}


def _describe(pairs: Sequence[tuple[Phase, Phase]]) -> dict[str, Any]:
    parts = [distance(one.part, other.part) for one, other in pairs]
    periods = [one.period_s for one, _ in pairs]
    are_together = {part <= TOGETHER_PART for part in parts}
    words = {frozenset((True,)): "together", frozenset((False,)): "apart"}
    return {
        "period_s": fmean(periods),
        "distance_s": fmean(part * period for part, period in zip(parts, periods, strict=True)),
        "resolution_s": max(periods) / PHASE_BINS,
        "runs": len(pairs),
        "word": words.get(frozenset(are_together), "mixed"),
    }
