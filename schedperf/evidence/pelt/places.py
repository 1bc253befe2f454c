"""PELT updates by place: durations bin by bin, calls and the time they took CPU by CPU."""

from collections.abc import Iterator, Mapping, Sequence

from schedperf.evidence.pelt.capture import Counts, Durations
from schedperf.evidence.pelt.histograms import NS_PER_S, Histogram, merge
from schedperf.evidence.pelt.measures import PeltRun
from schedperf.evidence.pelt.record import PeltBinsRow
from schedperf.evidence.pelt.sight import TracedSide, functions_of, judge
from schedperf.model.counted import CpuRow
from schedperf.stats.counted.histograms import RunBins, compare_bins
from schedperf.stats.counted.per_cpu import CpuMeasure, CpuRun, compare_cpus

# Of the calls of a side, beyond the linear bins: then log2 bins show more.
MOST_BEYOND = 0.01

_Runs = list[tuple[PeltRun, Histogram]]


def bins_of(base: TracedSide, new: TracedSide) -> Iterator[PeltBinsRow]:
    """Yield the durations of each function at each point, where both sides have equal bins."""
    for function in functions_of((base, new)):
        reason = judge(function, (base, new)).durations
        for workload, point in dict.fromkeys(map(_place, base.runs)):
            runs = [_histograms(side, (workload, point), function) for side in (base, new)]
            edges = _edges(runs)
            if edges:
                kind, lows = edges
                before, after = (
                    [
                        RunBins(
                            boot=run.counted.boot,
                            round=run.counted.round,
                            counts=getattr(one, kind),
                        )
                        for run, one in side
                    ]
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


def _place(run: PeltRun) -> tuple[str, str]:
    return run.counted.workload, run.counted.point


def _histograms(side: TracedSide, place: tuple[str, str], function: str) -> _Runs:
    found: _Runs = []
    for run in side.runs:
        seen = run.capture.functions.get(function)
        durations = None if seen is None or _place(run) != place else seen.durations
        histogram = None if durations is None else merge([durations])
        if histogram is not None:
            found.append((run, histogram))
    return found


def _edges(runs: Sequence[_Runs]) -> tuple[str, list[float]] | None:
    # The kind of bins that shows more, and the lower edges in s; None without equal bins.
    every = [one for side in runs for _, one in side]
    kinds = [
        kind
        for kind in ("linear_ns", "log2_ns")
        if all(any(any(getattr(one, kind)) for _, one in side) for side in runs)
        and len({len(getattr(one, kind)) for one in every}) == 1
        and (kind == "log2_ns" or len({one.linear_step_ns for one in every}) == 1)
    ]
    if not kinds:
        return None
    beyond = max(
        sum(one.linear_ns[-1] for _, one in side) / sum(one.timed for _, one in side)
        for side in runs
    )
    kind = kinds[0 if beyond <= MOST_BEYOND else -1]
    number = len(getattr(every[0], kind))
    if kind == "linear_ns":
        return kind, [place * every[0].linear_step_ns / NS_PER_S for place in range(number)]
    return kind, [0.0, *(2.0**place / NS_PER_S for place in range(1, number))]


def cpus_of(base: TracedSide, new: TracedSide) -> Iterator[CpuRow]:
    """Yield the calls of each function on each CPU, and the share of its time that they took."""
    judged = {function: judge(function, (base, new)) for function in functions_of((base, new))}
    invalid = {_calls(function) for function, found in judged.items() if found.calls}
    invalid |= {_time(function) for function, found in judged.items() if found.durations}
    yield from compare_cpus(
        (base.name, [_cpu_run(run) for run in base.runs]),
        (new.name, [_cpu_run(run) for run in new.runs]),
        invalid=frozenset(measure.name for measure in invalid),
    )


def _calls(function: str) -> CpuMeasure:
    return CpuMeasure(f"{function} calls", "1/s", f"calls of {function}()")


def _time(function: str) -> CpuMeasure:
    return CpuMeasure(
        f"{function} time", "", f"share of the CPU's time in {function}(), as the probe read it"
    )


def _cpu_run(run: PeltRun) -> CpuRun:
    values: dict[CpuMeasure, Mapping[int, float]] = {}
    for function, seen in run.capture.functions.items():
        if seen.calls is not None:
            seconds = run.capture.seconds
            values[_calls(function)] = {cpu: count / seconds for cpu, count in seen.calls.items()}
            if seen.durations is not None:
                values[_time(function)] = _spent(seen.calls, seen.durations, seconds)
    workload, point = _place(run)
    return CpuRun(
        workload=workload,
        point=point,
        boot=run.counted.boot,
        round=run.counted.round,
        values=values,
    )


def _spent(calls: Counts, durations: Durations, seconds: float) -> dict[int, float]:
    # Calls that were not sampled took as long as the others; a CPU without calls spent nothing,
    # and of one with calls of which none was timed the time is not known.
    found: dict[int, float] = {}
    for cpu, count in calls.items():
        timed = durations.timed.get(cpu, 0)
        if timed:
            found[cpu] = count * durations.sum_ns.get(cpu, 0) / timed / NS_PER_S / seconds
        elif not count:
            found[cpu] = 0.0
    return found
