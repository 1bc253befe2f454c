# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare percentiles and distributions of waits of two sides, with intervals over runs or boots.

A percentile of a run is one value, however many waits it is taken of: waits of one run are not
independent of each other.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np
import scipy

from schedperf.evidence.wakeup_latency.capture import WakeupCapture
from schedperf.evidence.wakeup_latency.histogram import BINS, Histogram, edges
from schedperf.evidence.wakeup_latency.measure import (
    Pooled,
    PooledRun,
    Subject,
    of_cpus,
    pool,
    statistics,
)
from schedperf.evidence.wakeup_latency.record import (
    QUANTILES,
    STATISTICS,
    Statistic,
    WaitsBelow,
    WakeupRow,
)
from schedperf.evidence.wakeup_latency.subjects import (
    MOST_COMMANDS,
    Subjects,
    choose_subjects,
    count_waits,
)
from schedperf.model.counted import CpuRow
from schedperf.model.run import Captured, SideOf
from schedperf.model.units import NANOSECOND_S
from schedperf.model.verdict import CONFIDENCE, FEWEST_RUNS
from schedperf.stats.counted.distributions import CpuMeasure, compare_cpus, compare_places
from schedperf.stats.counted.rates import (
    LEAST_EVENTS_OF_FINDING,
    Measure,
    Measures,
    Question,
    compare_rates,
)

# Commands of a point with a distribution, those with the most waits.
MOST_DISTRIBUTIONS = 4
# Edges of a distribution; more bins are joined.
MOST_EDGES = 64
# Natural logarithm of the largest number.
LARGEST_LOG = 709.0
# Of the waits; a larger loss could change a percentile.
LARGEST_LOSS = 0.001
CPU_MEASURES = {
    CpuMeasure(
        f"wakeup latency {name}", "s", f"{name} of the time from wakeup to running on this CPU"
    ): QUANTILES[name]
    for name in ("p50", "p99")
}  # fmt: skip

_Key = tuple[Subject, Statistic]
# Percentiles by row and side, each with its boot.
_Values = Mapping[Question[_Key], Sequence[tuple[int, float]]]


class PooledSide:
    """The runs of a side, with the waits of each subject summed.

    :ivar captured: the runs as they were captured
    :ivar pooled: the same runs
    """

    def __init__(self, side: SideOf[WakeupCapture]) -> None:
        self.captured = side
        self.pooled: SideOf[PooledRun] = side.having(lambda run: pool(run.content))

    def measures(self, subjects: Subjects) -> SideOf[Measures[_Key]]:
        """Return the statistics of the subjects in each run."""
        return self.pooled.having(
            lambda run: {
                ((subject, name), "share"): Measure(value, "s", is_maximum=name == "max")
                for subject in subjects.get(run.key.at, ())
                if subject in run.content
                for name, value in statistics(run.content[subject])
            }
        )


def compare_rows(base: PooledSide, new: PooledSide | None) -> tuple[list[WakeupRow], list[str]]:
    """Return the rows of each point, and a note of commands without rows.

    :param new: None: base is the only side
    """
    sides = [base] if new is None else [base, new]
    waits = [count_waits(side.pooled) for side in sides]
    subjects, dropped = choose_subjects([side.pooled for side in sides])
    measured = [side.measures(subjects) for side in sides]
    rates = compare_rates(measured[0], None if new is None else measured[1])
    values = [_by_question(side) for side in measured]
    reason = None if new is None else why_not(base.captured, new.captured)
    name = sides[-1].captured.name
    rows: list[WakeupRow] = []
    points = list(subjects)
    for question in sorted(rates, key=lambda question: _position(question, points, subjects)):
        subject, statistic = question.key
        rate = rates[question] if reason is None else rates[question].without_comparison()
        interval_of = interval_of_median if statistic == "max" else interval_of_mean
        bounds = [interval_of(of_side.get(question, ())) for of_side in values]
        counts = [
            of_side.get((question.workload, question.point, subject), 0.0) for of_side in waits
        ]
        row = WakeupRow(
            row=f"{name}-{len(rows)}",
            side=name,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            event=subject.event,
            command=subject.command,
            node=subject.node,
            quantile=statistic,
            base_low=bounds[0][0],
            base_high=bounds[0][1],
            new_low=bounds[1][0] if new else None,
            new_high=bounds[1][1] if new else None,
            waits_base=counts[0],
            waits_new=counts[1] if new else 0.0,
            reason=reason,
            **rate.as_fields(),
        )
        rows.append(row)
    return rows, [_say_dropped(dropped)] if dropped else []


def _position(
    question: Question[_Key], points: Sequence[tuple[str, str]], subjects: Subjects
) -> tuple[int, int, int]:
    subject, statistic = question.key
    at = question.workload, question.point
    return points.index(at), subjects[at].index(subject), STATISTICS.index(statistic)


def _say_dropped(dropped: int) -> str:
    return (
        f"commands not listed: {dropped} (at most {MOST_COMMANDS} with at least "
        f"{LEAST_EVENTS_OF_FINDING:g} waits in each run are listed); `all commands` includes them"
    )


def _by_question(side: SideOf[Measures[_Key]]) -> _Values:
    values: dict[Question[_Key], list[tuple[int, float]]] = {}
    for run in side.runs:
        for (key, basis), measure in run.content.items():
            question = Question(*run.key.at, key, basis)
            values.setdefault(question, []).append((run.key.boot, measure.value))
    return values


def interval_of_mean(
    values: Sequence[tuple[int, float]],
) -> tuple[float | None, float | None]:
    """Return Student's 95% CI of the geometric mean; (None, None) of fewer than two values.

    Runs of one boot are not independent of it: with several boots, the wider of the intervals over
    runs and over boots counts. If a value is 0, the interval is that of the arithmetic mean.

    :param values: boot and value of each run
    """
    is_log = all(value > 0.0 for _, value in values)
    write = math.log if is_log else float
    boots: dict[int, list[float]] = {}
    for boot, value in values:
        boots.setdefault(boot, []).append(write(value))
    runs = [value for of_boot in boots.values() for value in of_boot]
    units = [fmean(of_boot) for of_boot in boots.values()]
    halves = [_half_width(some) for some in (runs, units) if len(some) >= FEWEST_RUNS]
    if not halves:
        return None, None
    centre = fmean(units if len(units) >= FEWEST_RUNS else runs)
    low, high = centre - max(halves), centre + max(halves)
    if not is_log:
        return max(0.0, low), high
    # Of two runs that are far apart the upper bound may be too large for a float.
    return math.exp(low), math.exp(high) if high < LARGEST_LOG else None


def interval_of_median(
    values: Sequence[tuple[int, float]],
) -> tuple[float | None, float | None]:
    """Return the exact 95% CI of the median of maxima; (None, None) of fewer than six.

    It lies between two of the values, by the binomial distribution (Hollander, Wolfe & Chicken,
    "Nonparametric Statistical Methods", 3rd ed., section 3.6). Of several boots, the maximum of
    each counts.

    :param values: boot and maximum of each run
    """
    boots: dict[int, float] = {}
    for boot, value in values:
        boots[boot] = max(value, boots.get(boot, value))
    ordered = sorted(boots.values() if len(boots) > 1 else (value for _, value in values))
    n = len(ordered)
    # How many of n coins show heads in at most 2.5% of all cases: so many values lie outside.
    heads = scipy.special.bdtr(range(n), n, 0.5)
    outside = int((heads <= (1.0 - CONFIDENCE) / 2.0).sum())
    return (ordered[outside - 1], ordered[-outside]) if outside else (None, None)


def _half_width(values: Sequence[float]) -> float:
    quantile = float(scipy.special.stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2.0))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def why_not(base: SideOf[WakeupCapture], new: SideOf[WakeupCapture]) -> str | None:
    """Return why two sides cannot be compared; None: they can."""
    sources = [
        " or ".join(sorted({run.content.source for run in side.runs})) for side in (base, new)
    ]
    if sources[0] != sources[1]:
        return f"base was measured with {sources[0]}, {new.name} with {sources[1]}"
    for side in (base, new):
        for run in side.runs:
            lost = sum(run.content.lost.values())
            seen = sum(waits.count for waits in run.content.waits)
            if lost > LARGEST_LOSS * (lost + seen):
                return (
                    f"too many events lost on {side.name}: {lost}, with {seen} waits counted, in "
                    f"run {run.key.run} of boot {run.key.boot}"
                )
    return None


def compare_distributions(base: PooledSide, new: PooledSide | None) -> Iterator[WaitsBelow]:
    """Yield the distribution functions of the first commands with rows."""
    reason = None if new is None else why_not(base.captured, new.captured)
    subjects, _ = choose_subjects([side.pooled for side in (base, new) if side is not None])
    others = {} if new is None else new.pooled.by_point()
    for (workload, point), before in base.pooled.by_point().items():
        after = others.get((workload, point), [])
        if new is not None and not after:
            continue
        commands = [
            subject
            for subject in subjects[workload, point]
            if subject.command and subject.node is None
        ]
        for subject in commands[:MOST_DISTRIBUTIONS]:
            sides = [_histograms(runs, subject) for runs in (before, after)]
            if not sides[0] or (new is not None and not sides[1]):
                continue
            numbers = choose_edges([run.content for side in sides for run in side])
            before_edges, after_edges = (
                [run.having(dict(enumerate(run.content.shares_below(numbers)))) for run in side]
                for side in sides
            )
            grid = compare_places(
                before_edges, after_edges, range(len(numbers)), is_comparable=reason is None
            )
            yield WaitsBelow(
                side=(new or base).captured.name,
                workload=workload,
                point=point,
                event=subject.event,
                command=subject.command,
                edges=tuple(edges(number)[0] * NANOSECOND_S for number in numbers),
                **grid.as_fields(),
            )


def _histograms(runs: Sequence[Captured[PooledRun]], subject: Subject) -> list[Captured[Histogram]]:
    nothing = Pooled(None, 0, 0)
    found = [(run, run.content.get(subject, nothing).histogram) for run in runs]
    return [run.having(histogram) for run, histogram in found if histogram is not None]


def choose_edges(histograms: Sequence[Histogram]) -> list[int]:
    """Return bins at whose lower edges distribution functions are compared.

    From below the shortest wait to above the longest, in steps of equal ratio.
    """
    used = np.flatnonzero(np.sum([each.counts for each in histograms], axis=0))
    first, last = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
    step = -(-(last - first) // MOST_EDGES)
    numbers = list(range(first, last, step))
    return [*numbers, min(last, BINS - 1)]


def compare_all_cpus(base: PooledSide, new: PooledSide | None) -> Iterator[CpuRow]:
    """Yield percentiles of the wakeup latency of all commands, CPU by CPU."""
    reason = None if new is None else why_not(base.captured, new.captured)
    invalid = frozenset() if reason is None else frozenset(each.name for each in CPU_MEASURES)
    sides = [
        None
        if side is None
        else side.captured.having(
            lambda run: {
                measure: of_cpus(run.content, part) for measure, part in CPU_MEASURES.items()
            }
        )
        for side in (base, new)
    ]
    assert sides[0] is not None
    yield from compare_cpus(sides[0], sides[1], invalid=invalid)
