# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the tails of real-time latencies: exceedances of fixed thresholds, and maxima.

Means are not reported, because one late sample is a failure of a real-time system.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from schedperf.evidence import Absent, section
from schedperf.evidence.realtime.measure import LADDER_US, count_above, merge
from schedperf.evidence.realtime.record import (
    ExceedanceRow,
    MaximumRow,
    Realtime,
    write_seconds,
)
from schedperf.inputs.benchmarks import MICROSECOND_S, Latencies
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.counted import Basis, Rate
from schedperf.model.run import Captured, SideOf
from schedperf.model.units import format_number
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf.runs.captured import key_of
from schedperf.runs.printed import printed_by
from schedperf.runs.timeline import Moment, place_in_time
from schedperf.stats.counted.extremes import (
    Counted,
    compare_exceedances,
    correct,
    have_equal_samples,
)
from schedperf.stats.counted.rates import Measure, Measures, Question, compare_rates

# Thresholds that a larger share of samples exceeds are left out, since such samples are not late.
LARGEST_SHARE = 0.1
# A maximum is one value per run, without a divisor.
PER_RUN: Basis = "share"

# Workload, point and measured latency.
_Question = tuple[str, str, str]
_Runs = list[tuple[Run, Latencies]]


def is_realtime(side: Side) -> bool:
    """Return whether a successful clean run of a side printed latencies.

    :raises BundleError: the output of a run cannot be read
    """
    return bool(side.once(_read))


@section(Realtime, applies=is_realtime)
def realtime(sides: Sequence[Side]) -> Realtime:
    """Compare exceedances and maxima of each workload, point and measured latency.

    :raises Absent: no run of a side printed latencies, or the sides have no latency in common
    :raises BundleError: the output of a run cannot be read
    """
    base, *others = [side.once(_read) for side in sides]
    moments = place_in_time(sides)
    for side, read in zip(sides, (base, *others), strict=True):
        if not read:
            raise Absent(f"no run of {side.name} printed latencies of cyclictest or rtla")
    exceedances: list[ExceedanceRow] = []
    maxima: list[MaximumRow] = []
    notes: list[str] = []
    for side, new in zip(sides[1:], others, strict=True):
        common = [question for question in base if question in new]
        counted = [
            row
            for question in common
            for row in _exceedances(side.name, question, base[question], new[question])
        ]
        exceedances += _correct_exceedances(counted)
        rates = _compare_maxima((sides[0], base), (side, new), common, moments)
        maxima += [
            _maximum(side.name, question, base[question], new[question], rates[question])
            for question in common
        ]
        notes += [
            note
            for question in common
            for note in _notes(side.name, question, base[question], new[question])
        ]
    if not maxima:
        raise Absent("base and new have no latency in common")
    return Realtime(
        exceedances=tuple(
            replace(row, row=f"{row.side}-{index}") for index, row in enumerate(exceedances)
        ),
        maxima=tuple(
            replace(row, row=f"{row.side}-max-{index}") for index, row in enumerate(maxima)
        ),
        notes=tuple(notes),
    )


def _read(side: Side) -> Mapping[_Question, _Runs]:
    # Like verdicts, these rows use clean runs.
    runs: dict[_Question, _Runs] = {}
    for run in side.bundle.runs_by_point:
        if run.kind != "clean" or not run.succeeded:
            continue
        for name, latencies in _by_name(side, run).items():
            question = (run.workload, run.point_key, name)
            runs.setdefault(question, []).append((run, latencies))
    return runs


def _by_name(side: Side, run: Run) -> dict[str, Latencies]:
    parts: dict[str, list[Latencies]] = {}
    for latencies in printed_by(side, run).latencies:
        if latencies.samples > 0:
            parts.setdefault(latencies.name, []).append(latencies)
    return {name: merge(found) for name, found in parts.items()}


def _exceedances(
    side: str, question: _Question, base: _Runs, new: _Runs
) -> Iterator[ExceedanceRow]:
    thresholds, sides = _known(base, new)
    if not thresholds:
        return
    compared, replication, (n_base, n_new) = compare_exceedances(*sides)
    base_runs, new_runs = sides
    for index, threshold in enumerate(thresholds):
        values_base = tuple(run.above[index] for run in base_runs)
        values_new = tuple(run.above[index] for run in new_runs)
        yield ExceedanceRow(
            row="",
            side=side,
            workload=question[0],
            point=question[1],
            metric=question[2],
            threshold_s=threshold * MICROSECOND_S,
            above_base=sum(values_base),
            above_new=sum(values_new),
            samples_base=sum(run.samples for run in base_runs),
            samples_new=sum(run.samples for run in new_runs),
            share_low_base=_finite(compared.base_low[index]),
            share_high_base=_finite(compared.base_high[index]),
            share_low_new=_finite(compared.new_low[index]),
            share_high_new=_finite(compared.new_high[index]),
            values_base=values_base,
            values_new=values_new,
            n_base=n_base,
            n_new=n_new,
            replication=replication,
            ratio=_finite(compared.ratio[index]),
            ci_low=_finite(compared.ratio_low[index]),
            ci_high=_finite(compared.ratio_high[index]),
            p=_finite(compared.p[index]),
            q=None,
            changed=None,
        )


def _known(base: _Runs, new: _Runs) -> tuple[list[int], tuple[list[Counted], list[Counted]]]:
    # Thresholds for which all runs of both sides have counts, from the first one that few samples
    # exceed to the first one that none exceeds. The selection uses the sum of both sides, which
    # does not favour either.
    runs = [*base, *new]
    total = sum(latencies.samples for _, latencies in runs)
    chosen: list[int] = []
    columns: list[list[int]] = []
    for threshold in LADDER_US:
        above = [count_above(latencies, threshold) for _, latencies in runs]
        known = [count for count in above if count is not None]
        if len(known) < len(above) or sum(known) > LARGEST_SHARE * total:
            continue
        chosen.append(threshold)
        columns.append(known)
        if not any(known):
            break
    counted = [
        Counted(
            boot=run.boot,
            samples=latencies.samples,
            above=tuple(column[index] for column in columns),
        )
        for index, (run, latencies) in enumerate(runs)
    ]
    return chosen, (counted[: len(base)], counted[len(base) :])


def _correct_exceedances(rows: Sequence[ExceedanceRow]) -> list[ExceedanceRow]:
    corrected = zip(rows, correct([row.p for row in rows]), strict=True)
    return [replace(row, q=q, changed=_is_changed(q)) for row, q in corrected]


def _is_changed(q: float | None) -> bool | None:
    return None if q is None else q < FALSE_DISCOVERY_RATE


_Read = tuple[Side, Mapping[_Question, _Runs]]


def _compare_maxima(
    base: _Read,
    new: _Read,
    questions: Sequence[_Question],
    moments: Mapping[tuple[str, str], Moment],
) -> dict[_Question, Rate]:
    """Compare maxima like benchmark results; list maxima of unequal numbers of samples only."""
    rates: dict[_Question, Rate] = {}
    for are_equal in (True, False):
        chosen = [
            question
            for question in questions
            if have_equal_samples(*_mean_samples(base[1][question], new[1][question])) == are_equal
        ]
        compared = compare_rates(*(_measures(*read, chosen, moments) for read in (base, new)))
        for question in chosen:
            rate = compared[Question(*question, PER_RUN)]
            rates[question] = rate if are_equal else rate.without_comparison()
    return rates


def _measures(
    side: Side,
    runs: Mapping[_Question, _Runs],
    questions: Sequence[_Question],
    moments: Mapping[tuple[str, str], Moment],
) -> SideOf[Measures[str]]:
    return SideOf(
        name=side.name,
        kind="clean",
        runs=tuple(
            Captured(
                key=key_of(side, run, moments[side.name, run.folder]),
                content={
                    (question[2], PER_RUN): Measure(latencies.maximum_s, "s", is_maximum=True)
                },
            )
            for question in questions
            for run, latencies in runs[question]
        ),
    )


def _mean_samples(base: _Runs, new: _Runs) -> tuple[float, float]:
    means = [sum(found.samples for _, found in runs) / len(runs) for runs in (base, new)]
    return means[0], means[1]


def _maximum(side: str, question: _Question, base: _Runs, new: _Runs, rate: Rate) -> MaximumRow:
    samples = _mean_samples(base, new)
    return MaximumRow(
        row="",
        side=side,
        workload=question[0],
        point=question[1],
        metric=question[2],
        base=max(rate.values_base),
        new=max(rate.values_new),
        samples_base=samples[0],
        samples_new=samples[1],
        values_base=rate.values_base,
        values_new=rate.values_new,
        why_invalid=None if have_equal_samples(*samples) else _unequal_samples_note(*samples),
        n_base=rate.n_base,
        n_new=rate.n_new,
        replication=rate.replication,
        ratio=rate.ratio,
        ci_low=rate.ci_low,
        ci_high=rate.ci_high,
        p=rate.p,
        q=rate.q,
        changed=rate.changed,
    )


def _unequal_samples_note(base: float, new: float) -> str:
    return (
        f"{format_number(base)} samples per run of base, {format_number(new)} of new: a maximum "
        "grows with the number of samples; record runs of equal duration"
    )


def _notes(side: str, question: _Question, base: _Runs, new: _Runs) -> Iterator[str]:
    _, _, name = question
    for role, runs in (("base", base), (side, new)):
        missing = sum(latencies.counts is None for _, latencies in runs)
        if missing:
            yield (
                f"{role}: {name} has no histogram in {missing} of {len(runs)} runs, so samples "
                "above thresholds cannot be counted (use cyclictest -h or rtla hist)"
            )
        cut = [found for _, found in runs if found.counts and found.above]
        if cut:
            end = min(max(found.counts or ()) * found.unit_s for found in cut)
            above = sum(found.above for found in cut)
            yield (
                f"{role}: {above} samples of {name} are above the histogram, which ends at "
                f"{write_seconds(end)}; record a histogram with more bins to count them above "
                "longer thresholds"
            )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
