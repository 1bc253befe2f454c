# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two sides: rates and durations, histograms per bin, calls per CPU.

Rows that are not comparable have both values and no change. `stats.counted` computes the confidence
intervals: `rates` those of rates and durations, `distributions` those of bins and CPUs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.pelt.capture import Counts, Durations
from schedperf.evidence.pelt.comparability import (
    Comparability,
    functions_of,
    is_seen,
    judge,
)
from schedperf.evidence.pelt.measure import (
    NET,
    NS_PER_S,
    QUANTILES,
    TRIMMED,
    Found,
    Histogram,
    Key,
    Traced,
    call_measures,
    duration_measures,
    merge,
    quantile,
    shown_beside,
    slowest_share,
)
from schedperf.evidence.pelt.record import PeltBinsRow, PeltRow, Per, What
from schedperf.model.counted import Basis, CpuRow, Rate
from schedperf.model.run import Captured, SideOf
from schedperf.model.units import percent
from schedperf.stats.counted.distributions import CpuMeasure, CpuValues, compare_bins, compare_cpus
from schedperf.stats.counted.rates import Measures, Question, compare_rates

# Divisors of calls; calls per wakeup is a quotient of two counts of the run.
PER: Mapping[Basis, Per] = {"share": "wakeup", "operation": "operation", "time": "second"}

# Share of the time in the slowest 1% of the calls above which few calls dominate the mean.
LEAST_OF_FEW = 0.5
FEW_CALLS = (
    "{side}: the slowest {few} of the calls take {part} of the total duration of all calls; the "
    "trimmed mean excludes these slowest calls"
)
EMULATED = "timings come from an emulator and do not predict real hardware"
# Additional numbers by workload, point, key and name.
_Means = Mapping[tuple[str, str, Key, str], float]
# If more than this share of calls exceeds the linear bins, log2 bins are shown.
MOST_BEYOND = 0.01
_Runs = list[tuple[Captured[Traced], Histogram]]


class _Family(Struct, frozen=True, kw_only=True):
    # One family of the multiple-testing correction, and the reasons why functions are not
    # comparable.
    measure: Callable[[Captured[Traced]], Found]
    reasons: Mapping[str, str | None]


class _Answer(Struct, frozen=True, kw_only=True):
    question: Question[Key]
    rate: Rate
    reason: str | None


def rows_of(base: SideOf[Traced], new: SideOf[Traced]) -> list[PeltRow]:
    """Return the rows of a side against base.

    Functions that no run observed have no rows. Calls, calls by context, and durations with shares
    of CPU time are corrected separately for multiple testing, each basis on its own.
    """
    sides = (base, new)
    judged = {
        function: judge(function, sides)
        for function in functions_of(sides)
        if any(is_seen(function, side) for side in sides)
    }
    answers = [answer for family in _families(judged) for answer in _compare(family, base, new)]
    rank = {function: index for index, function in enumerate(judged)}
    answers.sort(key=lambda answer: _order(answer.question, rank))
    beside = (_means(base), _means(new))
    is_emulated = any(run.content.emulated for side in sides for run in side.runs)
    rows = [
        _row(
            f"{new.name}-{index}",
            new.name,
            answer,
            _remarks(answer.question.key, judged, is_emulated=is_emulated),
            beside,
        )
        for index, answer in enumerate(answers)
    ]
    few = [(row, tuple(_few_calls(row, sides))) for row in rows]
    return [
        replace(row, remarks=(*row.remarks, *remarks), few_calls=True) if remarks else row
        for row, remarks in few
    ]


def _families(judged: Mapping[str, Comparability]) -> Iterator[_Family]:
    net = {function for function, comparability in judged.items() if comparability.as_read is None}

    def calls(run: Captured[Traced], *, split: bool) -> Found:
        measures = call_measures(run)
        return {at: measure for at, measure in measures.items() if (at[0].context != "") == split}

    yield _Family(
        measure=lambda run: calls(run, split=False),
        reasons={function: comparability.calls for function, comparability in judged.items()},
    )
    yield _Family(
        measure=lambda run: calls(run, split=True),
        reasons={
            function: comparability.calls or comparability.contexts
            for function, comparability in judged.items()
        },
    )
    yield _Family(
        measure=lambda run: duration_measures(run, net),
        reasons={
            function: comparability.calls or comparability.durations
            for function, comparability in judged.items()
        },
    )


def _compare(family: _Family, base: SideOf[Traced], new: SideOf[Traced]) -> Iterator[_Answer]:
    def comparable(run: Captured[Found]) -> Found:
        return {
            at: measure
            for at, measure in run.content.items()
            if family.reasons[at[0].function] is None
        }

    measured = [side.having(family.measure) for side in (base, new)]
    for question, rate in compare_rates(*(_counted(side, comparable) for side in measured)).items():
        # A context without calls on both sides has no row.
        if not question.key.context or rate.base or rate.new:
            yield _Answer(question=question, rate=rate, reason=None)
    yield from _set_beside(family, measured)


def _set_beside(family: _Family, sides: Sequence[SideOf[Found]]) -> Iterator[_Answer]:
    # Rows that are not comparable, for the whole machine only and without a ratio.
    def others(run: Captured[Found]) -> Found:
        return {
            at: measure
            for at, measure in run.content.items()
            if family.reasons[at[0].function] is not None
            and at[0].node is None
            and not at[0].context
        }

    before, after = (compare_rates(_counted(side, others), None) for side in sides)
    for question in dict.fromkeys((*before, *after)):
        rate_base, rate_new = before.get(question), after.get(question)
        rate = replace(
            before[question] if question in before else after[question],
            base=None if rate_base is None else rate_base.base,
            n_base=0 if rate_base is None else rate_base.n_base,
            new=None if rate_new is None else rate_new.base,
            n_new=0 if rate_new is None else rate_new.n_base,
            values_base=() if rate_base is None else rate_base.values_base,
            values_new=() if rate_new is None else rate_new.values_base,
        )
        reason = family.reasons[question.key.function]
        yield _Answer(question=question, rate=rate, reason=reason)


def _counted(
    side: SideOf[Found], choose: Callable[[Captured[Found]], Found]
) -> SideOf[Measures[Key]]:
    return side.having(choose)


def _remarks(
    key: Key, judged: Mapping[str, Comparability], *, is_emulated: bool
) -> tuple[str, ...]:
    comparability = judged[key.function]
    remarks = [*comparability.remarks]
    if key.what in NET and comparability.as_read is not None:
        remarks.append(comparability.as_read)
    if key.what != "calls" and is_emulated:
        remarks.append(EMULATED)
    return tuple(remarks)


def _few_calls(row: PeltRow, sides: Sequence[SideOf[Traced]]) -> Iterator[str]:
    # If the mean is above the p99, few calls dominate it and the share of CPU time.
    if row.what not in {"mean", "share"}:
        return
    for side in sides:
        timed = [
            seen.durations
            for run in side.by_point().get((row.workload, row.point), [])
            if (seen := run.content.capture.functions.get(row.function)) is not None
            and seen.durations is not None
        ]
        histogram = merge(timed)
        if histogram is None:
            continue
        sum_ns = float(sum(sum(durations.sum_ns.values()) for durations in timed))
        p99, part = quantile(histogram, QUANTILES["p99"]), slowest_share(histogram, sum_ns)
        is_above = p99 is not None and sum_ns / histogram.timed / NS_PER_S > p99.value
        if part is not None and (is_above or part >= LEAST_OF_FEW):
            few, most = percent(1.0 - TRIMMED), percent(part)
            yield FEW_CALLS.format(side=side.name, few=few, part=most)


def _row(
    name: str, side: str, answer: _Answer, remarks: tuple[str, ...], beside: tuple[_Means, _Means]
) -> PeltRow:
    question, key = answer.question, answer.question.key

    def of_sides(name: str) -> tuple[float | None, float | None]:
        base, new = (means.get((question.workload, question.point, key, name)) for means in beside)
        return base, new

    total, read, resolution = map(of_sides, ("total", "read", "resolution"))
    return PeltRow(
        row=name,
        side=side,
        workload=question.workload,
        point=question.point,
        basis=question.basis,
        function=key.function,
        what=key.what,
        per=PER[question.basis] if key.what == "calls" else "",
        node=key.node,
        context=key.context,
        status="ok" if answer.reason is None else "invalid",
        reason=answer.reason,
        remarks=remarks,
        total_base=total[0],
        total_new=total[1],
        read_base=read[0],
        read_new=read[1],
        resolution_base=resolution[0],
        resolution_new=resolution[1],
        **answer.rate.as_fields(),
    )


def _order(question: Question[Key], rank: Mapping[str, int]) -> tuple[object, ...]:
    key = question.key
    return (
        question.workload,
        question.point,
        rank[key.function],
        get_args(What).index(key.what),
        [*PER].index(question.basis),
        key.context,
        -1 if key.node is None else key.node,
    )


def _means(side: SideOf[Traced]) -> _Means:
    values: dict[tuple[str, str, Key, str], list[float]] = {}
    for run in side.runs:
        for key, name, value in shown_beside(run):
            measured = (*run.key.at, key, name)
            values.setdefault(measured, []).append(value)
    return {measured: fmean(of_runs) for measured, of_runs in values.items()}


def bins_of(base: SideOf[Traced], new: SideOf[Traced]) -> Iterator[PeltBinsRow]:
    """Yield the histogram of durations of each function at each point.

    A point is left out unless both sides have timed calls and all their runs have the same bins.
    """
    for function in functions_of((base, new)):
        reason = judge(function, (base, new)).durations
        for workload, point in base.by_point():
            runs = [_histograms(side, (workload, point), function) for side in (base, new)]
            edges = _edges(runs)
            if edges:
                kind, lows = edges
                before, after = (
                    [run.having(getattr(histogram, kind)) for run, histogram in side]
                    for side in runs
                )
                bins = compare_bins(before, after, lows, is_comparable=reason is None)
                yield PeltBinsRow(
                    side=new.name,
                    workload=workload,
                    point=point,
                    function=function,
                    **bins.as_fields(),
                )


def _histograms(side: SideOf[Traced], point: tuple[str, str], function: str) -> _Runs:
    histograms: _Runs = []
    for run in side.runs:
        seen = run.content.capture.functions.get(function)
        durations = None if seen is None or run.key.at != point else seen.durations
        histogram = None if durations is None else merge([durations])
        if histogram is not None:
            histograms.append((run, histogram))
    return histograms


def _edges(runs: Sequence[_Runs]) -> tuple[str, list[float]] | None:
    # The better kind of bins, and their lower edges in s; None without equal bins.
    every = [histogram for side in runs for _, histogram in side]
    kinds = [
        kind
        for kind in ("linear_ns", "log2_ns")
        if all(any(any(getattr(histogram, kind)) for _, histogram in side) for side in runs)
        and len({len(getattr(histogram, kind)) for histogram in every}) == 1
        and (kind == "log2_ns" or len({histogram.linear_step_ns for histogram in every}) == 1)
    ]
    if not kinds:
        return None
    beyond = max(
        sum(histogram.linear_ns[-1] for _, histogram in side)
        / sum(histogram.timed for _, histogram in side)
        for side in runs
    )
    kind = kinds[0 if beyond <= MOST_BEYOND else -1]
    number = len(getattr(every[0], kind))
    if kind == "linear_ns":
        return kind, [index * every[0].linear_step_ns / NS_PER_S for index in range(number)]
    return kind, [0.0, *(2.0**index / NS_PER_S for index in range(1, number))]


def cpus_of(base: SideOf[Traced], new: SideOf[Traced]) -> Iterator[CpuRow]:
    """Yield the calls per second of each function on each CPU, and their share of the CPU's time.

    Points that only one side has are left out, and so are measures that are 0 on all CPUs.
    """
    judged = {function: judge(function, (base, new)) for function in functions_of((base, new))}
    invalid = {
        _calls(function) for function, comparability in judged.items() if comparability.calls
    }
    invalid |= {
        _time(function) for function, comparability in judged.items() if comparability.durations
    }
    yield from compare_cpus(
        *(side.having(_cpu_values) for side in (base, new)),
        invalid=frozenset(measure.name for measure in invalid),
    )


def _calls(function: str) -> CpuMeasure:
    return CpuMeasure(f"{function} calls", "1/s", f"calls of {function}()")


def _time(function: str) -> CpuMeasure:
    return CpuMeasure(
        f"{function} time",
        "",
        f"share of the CPU's time spent in {function}(), including probe overhead",
    )


def _cpu_values(run: Captured[Traced]) -> CpuValues:
    values: dict[CpuMeasure, Mapping[int, float]] = {}
    for function, seen in run.content.capture.functions.items():
        if seen.calls is not None:
            seconds = run.content.capture.seconds
            values[_calls(function)] = {cpu: count / seconds for cpu, count in seen.calls.items()}
            if seen.durations is not None:
                values[_time(function)] = _spent(seen.calls, seen.durations, seconds)
    return values


def _spent(calls: Counts, durations: Durations, seconds: float) -> dict[int, float]:
    # Untimed calls are assumed to take as long as timed calls. A CPU without calls has a share of
    # 0; a CPU with only untimed calls has no value.
    shares: dict[int, float] = {}
    for cpu, count in calls.items():
        timed = durations.timed.get(cpu, 0)
        if timed:
            shares[cpu] = count * durations.sum_ns.get(cpu, 0) / timed / NS_PER_S / seconds
        elif not count:
            shares[cpu] = 0.0
    return shares
