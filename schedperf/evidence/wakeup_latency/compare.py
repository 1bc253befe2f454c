# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare percentiles and distributions of waits of two sides, with intervals over runs or boots.

A percentile of a run is one value, because waits within a run are not independent.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

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
    own_of_points,
)
from schedperf.model.counted import CpuRow, Rate
from schedperf.model.run import Captured, RunKey, SideOf
from schedperf.model.units import NANOSECOND_S
from schedperf.stats.counted.distributions import CpuMeasure, compare_cpus, compare_places
from schedperf.stats.counted.rates import (
    LEAST_EVENTS_OF_FINDING,
    Measure,
    Measures,
    Question,
    compare_rates,
)
from schedperf.stats.one_side import (
    Interval,
    compared_runs,
    interval_of_mean,
    interval_of_median,
)

# Largest number of commands per point with a distribution: those of the first rows.
MOST_DISTRIBUTIONS = 4
# Largest number of edges of a distribution; with more, bins are joined.
MOST_EDGES = 64
# Largest acceptable share of lost waits; a larger loss could change a percentile.
LARGEST_LOSS = 0.001
CPU_MEASURES = {
    CpuMeasure(
        f"wakeup latency {name}", "s", f"{name} of the time from wakeup to running on this CPU"
    ): QUANTILES[name]
    for name in ("p50", "p99")
}  # fmt: skip

_Key = tuple[Subject, Statistic]
# A percentile of each run.
_Values = Mapping[RunKey, float]


class PooledSide:
    """The runs of a side, with the waits of each subject summed.

    :ivar captured: the runs as they were captured
    :ivar pooled: the same runs, with the waits of each subject summed
    """

    def __init__(self, side: SideOf[WakeupCapture]) -> None:
        self.captured = side
        self.pooled: SideOf[PooledRun] = side.having(lambda run: pool(run.content))

    def measures(self, subjects: Subjects) -> SideOf[Measures[_Key]]:
        """Return the percentiles and maxima of the subjects in each run, in s."""
        return self.pooled.having(
            lambda run: {
                ((subject, name), "share"): Measure(value, "s", is_maximum=name == "max")
                for subject in subjects.get(run.key.at, ())
                if subject in run.content
                for name, value in statistics(run.content[subject])
            }
        )


def compare_rows(base: PooledSide, new: PooledSide | None) -> tuple[list[WakeupRow], list[str]]:
    """Return the rows of each point, and a note if commands have no rows.

    :param new: None if there is only base
    :return: the rows; and a list with the note, or an empty list
    """
    sides = [base] if new is None else [base, new]
    waits = [count_waits(side.pooled) for side in sides]
    own = own_of_points([side.captured for side in sides])
    subjects, dropped = choose_subjects([side.pooled for side in sides], own)
    measured = [side.measures(subjects) for side in sides]
    rates = compare_rates(measured[0], None if new is None else measured[1])
    values = [_by_question(measured[0]), {} if new is None else _by_question(measured[1])]
    reason = None if new is None else why_not(base.captured, new.captured)
    name = sides[-1].captured.name
    rows: list[WakeupRow] = []
    points = list(subjects)
    for question in sorted(rates, key=lambda question: _position(question, points, subjects)):
        subject, statistic = question.key
        rate = rates[question] if reason is None else rates[question].without_comparison()
        base_values, new_values = (of_side.get(question, {}) for of_side in values)
        of_base, of_new = _intervals(
            rates[question], base_values, new_values, is_maximum=statistic == "max"
        )
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
            of_workload=subject.command in own[question.workload, question.point],
            node=subject.node,
            quantile=statistic,
            base_low=of_base[0],
            base_high=of_base[1],
            new_low=of_new[0],
            new_high=of_new[1],
            waits_base=counts[0],
            waits_new=counts[1] if new else 0.0,
            reason=reason,
            **rate.as_fields(),
        )
        rows.append(row)
    return rows, [_dropped_note(dropped)] if dropped else []


def _position(
    question: Question[_Key], points: Sequence[tuple[str, str]], subjects: Subjects
) -> tuple[int, int, int]:
    subject, statistic = question.key
    at = question.workload, question.point
    return points.index(at), subjects[at].index(subject), STATISTICS.index(statistic)


def _dropped_note(dropped: int) -> str:
    return (
        f"commands not listed: {dropped} (at most {MOST_COMMANDS} with at least "
        f"{LEAST_EVENTS_OF_FINDING:g} waits in each run are listed, the workload's first); "
        "`all commands` includes them"
    )


def _by_question(side: SideOf[Measures[_Key]]) -> Mapping[Question[_Key], _Values]:
    values: dict[Question[_Key], dict[RunKey, float]] = {}
    for run in side.runs:
        for (key, basis), measure in run.content.items():
            question = Question(*run.key.at, key, basis)
            values.setdefault(question, {})[run.key] = measure.value
    return values


def _intervals(
    rate: Rate, base: _Values, new: _Values, *, is_maximum: bool
) -> tuple[Interval, Interval]:
    """Return the 95% CIs of the mean of base and of new (of the median, for maxima).

    Their sample is that of the compared rate: pairs, boots or runs.
    """
    if is_maximum:
        interval_of = interval_of_median
    else:
        is_log = all(value > 0.0 for value in (*base.values(), *new.values()))
        interval_of = partial(interval_of_mean, is_log=is_log)
    runs = compared_runs([*base], [*new], rate.replication) if new else ([*base], [])
    first, second = (
        interval_of([values[run] for run in of_side], of_side, rate.replication)
        for values, of_side in zip((base, new), runs, strict=True)
    )
    return first, second


def why_not(base: SideOf[WakeupCapture], new: SideOf[WakeupCapture]) -> str | None:
    """Return why two sides cannot be compared; None if they can."""
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
    """Yield distribution functions of the first commands that have rows, for each point."""
    reason = None if new is None else why_not(base.captured, new.captured)
    compared = [side for side in (base, new) if side is not None]
    own = own_of_points([side.captured for side in compared])
    subjects, _ = choose_subjects([side.pooled for side in compared], own)
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
    return [
        run.having(histogram)
        for run, histogram in found
        # A distribution of no waits has no shares.
        if histogram is not None and histogram.total > 0
    ]


def choose_edges(histograms: Sequence[Histogram]) -> list[int]:
    """Return the numbers of the bins at whose lower edges distribution functions are compared.

    These are every n-th bin from that of the shortest wait on, and the bin after that of the
    longest wait: at most ``MOST_EDGES`` + 1.
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
