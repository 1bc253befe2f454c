"""The rows of two sides: what compares is compared, the rest is shown beside each other."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import get_args

from schedperf.evidence.pelt.measures import (
    Found,
    Key,
    PeltRun,
    call_measures,
    duration_measures,
    shown_beside,
)
from schedperf.evidence.pelt.record import PeltRow, Per, What
from schedperf.evidence.pelt.sight import Comparability, TracedSide, functions_of, is_seen, judge
from schedperf.model.counted import Basis, Rate
from schedperf.stats.counted.rates import CountedSide, Question, compare_rates

# What calls are divided by; a share of wakeups is a quotient of two counts of the run.
PER: Mapping[Basis, Per] = {"share": "wakeup", "operation": "operation", "time": "second"}

EMULATED = "measured under emulation: times say nothing about real hardware"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Family:
    # Measures that are corrected for together, and by function why they cannot be compared.
    measure: Callable[[PeltRun], Found]
    reasons: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    question: Question[Key]
    rate: Rate
    reason: str | None


# By workload, point, key and name of what stands beside.
_Means = Mapping[tuple[str, str, Key, str], float]


def rows_of(base: TracedSide, new: TracedSide) -> list[PeltRow]:
    """Return the rows of a side against base.

    Calls, calls by context, and durations are corrected for as families of tests of their own.
    """
    sides = (base, new)
    judged = {
        function: judge(function, sides)
        for function in functions_of(sides)
        if any(is_seen(function, side) for side in sides)
    }
    answers = [answer for family in _families(judged) for answer in _compare(family, base, new)]
    place = {function: number for number, function in enumerate(judged)}
    answers.sort(key=lambda answer: _order(answer.question, place))
    beside = (_means(base), _means(new))
    is_emulated = any(run.emulated for side in sides for run in side.runs)
    return [
        _row(
            f"{new.name}-{index}",
            new.name,
            answer,
            _remarks(answer.question.key, judged, is_emulated=is_emulated),
            beside,
        )
        for index, answer in enumerate(answers)
    ]


def _families(judged: Mapping[str, Comparability]) -> Iterator[_Family]:
    net = {function for function, found in judged.items() if found.as_read is None}

    def calls(run: PeltRun, *, split: bool) -> Found:
        measures = call_measures(run)
        return {at: one for at, one in measures.items() if (at[0].context != "") == split}

    yield _Family(
        measure=lambda run: calls(run, split=False),
        reasons={function: found.calls for function, found in judged.items()},
    )
    yield _Family(
        measure=lambda run: calls(run, split=True),
        reasons={function: found.calls or found.contexts for function, found in judged.items()},
    )
    yield _Family(
        measure=lambda run: duration_measures(run, net),
        reasons={function: found.calls or found.durations for function, found in judged.items()},
    )


def _compare(family: _Family, base: TracedSide, new: TracedSide) -> Iterator[_Answer]:
    def comparable(run: PeltRun) -> Found:
        measures = family.measure(run)
        return {at: one for at, one in measures.items() if family.reasons[at[0].function] is None}

    for question, rate in compare_rates(
        *(_counted(one, comparable) for one in (base, new))
    ).items():
        # What was never called from a context on either side is no row.
        if not question.key.context or rate.base or rate.new:
            yield _Answer(question=question, rate=rate, reason=None)
    yield from _set_beside(family, base, new)


def _set_beside(family: _Family, base: TracedSide, new: TracedSide) -> Iterator[_Answer]:
    # What must not be compared: of the whole machine alone, and without a ratio.
    def others(run: PeltRun) -> Found:
        return {
            at: one
            for at, one in family.measure(run).items()
            if family.reasons[at[0].function] is not None
            and at[0].node is None
            and not at[0].context
        }

    before, after = (compare_rates(_counted(side, others), None) for side in (base, new))
    for question in dict.fromkeys((*before, *after)):
        one, other = before.get(question), after.get(question)
        rate = replace(
            before[question] if question in before else after[question],
            base=None if one is None else one.base,
            n_base=0 if one is None else one.n_base,
            new=None if other is None else other.base,
            n_new=0 if other is None else other.n_base,
            values_base=() if one is None else one.values_base,
            values_new=() if other is None else other.values_base,
        )
        reason = family.reasons[question.key.function]
        yield _Answer(question=question, rate=rate, reason=reason)


def _counted(side: TracedSide, measure: Callable[[PeltRun], Found]) -> CountedSide[Key]:
    runs = tuple(replace(run.counted, measures=measure(run)) for run in side.runs)
    return CountedSide(name=side.name, runs=runs)


def _remarks(
    key: Key, judged: Mapping[str, Comparability], *, is_emulated: bool
) -> tuple[str, ...]:
    comparability = judged[key.function]
    remarks = [*comparability.remarks]
    if key.what in {"mean", "share"} and comparability.as_read is not None:
        remarks.append(comparability.as_read)
    if key.what != "calls" and is_emulated:
        remarks.append(EMULATED)
    return tuple(remarks)


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


def _order(question: Question[Key], place: Mapping[str, int]) -> tuple[object, ...]:
    key = question.key
    return (
        question.workload,
        question.point,
        place[key.function],
        get_args(What).index(key.what),
        [*PER].index(question.basis),
        key.context,
        -1 if key.node is None else key.node,
    )


def _means(side: TracedSide) -> _Means:
    values: dict[tuple[str, str, Key, str], list[float]] = {}
    for run in side.runs:
        for key, name, value in shown_beside(run):
            place = (run.counted.workload, run.counted.point, key, name)
            values.setdefault(place, []).append(value)
    return {place: fmean(of_runs) for place, of_runs in values.items()}
