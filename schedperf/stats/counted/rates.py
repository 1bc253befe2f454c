# SPDX-License-Identifier: GPL-2.0-or-later
"""Rates of what runs counted: by time, by operation and as shares, with how sure a change is.

A count of a run grows with its length and its work, so it is divided by both. Each rate is
one value a run, and runs are compared as results of benchmarks are
(:func:`schedperf.stats.compare_runs`): ``stats._estimates`` has the standard errors, and
``stats._judge`` makes the intervals of them. The family is "informational": more is neither better
nor worse. Rates by time, by operation and shares are three families of tests.

Counts are often 0, which benchmarks' results are not. A value of 0 has no logarithm, so such a rate
has no ratio and its values are compared as they are: 0 before and 27 to 64 after is a change.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf, log
from statistics import fmean, geometric_mean, median
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from schedperf.model.counted import Basis, Rate
from schedperf.model.frame import Frame, column
from schedperf.model.run import Operations, RunKey, SideOf
from schedperf.model.verdict import CHANGED, FALSE_DISCOVERY_RATE
from schedperf.stats import JudgedRow, compare_runs, welch_difference
from schedperf.stats._correction import false_discovery

# Work is a better measure than time: a slower kernel does less of everything in a second.
BASES: tuple[Basis, ...] = ("share", "operation", "time")
# A rate of fewer events in a run says little, whatever its interval is.
LEAST_EVENTS_OF_FINDING = 10.0

Key = TypeVar("Key", bound=Hashable)


class Measure(NamedTuple):
    """A number of one run.

    :param unit: "1", "s", "J", "1/s", "s/message", "" for a share
    :param is_maximum: is it the maximum of the run? Maxima are compared by ranks
    """

    value: float
    unit: str
    is_maximum: bool = False


# What one run counted, by what was counted and what it was divided by.
Measures = Mapping[tuple[Key, Basis], Measure]


class Question(Struct, Generic[Key], frozen=True):
    """What is asked of both sides."""

    workload: str
    point: str
    key: Key
    basis: Basis


def distance_of(ratio: float | None) -> float:
    """Return how far new is from base, the same for 2 and 1/2; infinity without a ratio.

    >>> distance_of(2.0) == distance_of(0.5) < distance_of(None)
    True
    """
    return abs(log(ratio)) if ratio else inf


def mean_of(values: Sequence[float], *others: Sequence[float]) -> float:
    """Return the mean that a change is taken of: geometric, or arithmetic where there is a 0.

    :param others: values that the mean is compared with: a 0 among them decides as well
    """
    is_positive = all(value > 0.0 for group in (values, *others) for value in group)
    if not is_positive or min(values) == max(values):
        # Logarithms would spoil the mean of equal values.
        return fmean(values)
    return geometric_mean(values)


def mean_totals(side: SideOf[Mapping[Key, float]]) -> dict[tuple[str, str, Key], float]:
    """Return the mean over the runs that have it of each amount, by workload, point and key."""
    amounts_of: dict[tuple[str, str, Key], list[float]] = {}
    for run in side.runs:
        for key, amount in run.content.items():
            amounts_of.setdefault((*run.key.at, key), []).append(amount)
    return {key: fmean(amounts) for key, amounts in amounts_of.items()}


def divide(
    amounts: Mapping[Key, Measure],
    *,
    seconds: float | None,
    ops: Operations | None,
    tick: str = "s",
) -> Iterator[tuple[tuple[Key, Basis], Measure]]:
    """Divide what a run counted by its time and by its operations, where they are known.

    :param seconds: in which it was counted; of another clock with ``tick`` as its unit
    """
    for key, amount in amounts.items():
        if seconds:
            yield (key, "time"), Measure(amount.value / seconds, f"{amount.unit}/{tick}")
        if ops is not None and ops.count:
            yield (key, "operation"), Measure(amount.value / ops.count, f"{amount.unit}/{ops.unit}")


def compare_rates(
    base: SideOf[Measures[Key]], new: SideOf[Measures[Key]] | None
) -> dict[Question[Key], Rate]:
    """Answer every question that can be asked of both sides, or of one alone.

    Where units differ nothing is compared: messages and transactions have nothing in common
    to divide by.
    """
    measured = _by_question(base)
    if new is None:
        return {question: _alone(values) for question, values in measured.items()}
    others = _by_question(new)
    asked = [
        question
        for question, values in measured.items()
        if len({measure.unit for _, measure in (*values, *others.get(question, ()))}) == 1
        and question in others
    ]
    confirmed = _compare(asked, {base.name: measured, new.name: others}, base.name, new.name)
    return {
        question: _answer(measured[question], others[question], confirmed[number])
        for number, question in enumerate(asked)
    }


_Values = list[tuple[RunKey, Measure]]


def _by_question(side: SideOf[Measures[Key]]) -> dict[Question[Key], _Values]:
    questions: dict[Question[Key], _Values] = {}
    for run in side.runs:
        for (key, basis), measure in run.content.items():
            question = Question(*run.key.at, key, basis)
            questions.setdefault(question, []).append((run.key, measure))
    return questions


class _Confirmed(Struct, frozen=True, kw_only=True):
    # A row with the p and q that its zeros and boots leave it.
    row: JudgedRow
    p: float | None
    q: float | None


def _compare(
    asked: Sequence[Question[Key]],
    sides: Mapping[str, Mapping[Question[Key], _Values]],
    base: str,
    new: str,
) -> dict[int, _Confirmed]:
    runs = [
        (side, number, measure, run, question.basis)
        for number, question in enumerate(asked)
        for side, measured in sides.items()
        for run, measure in measured[question]
    ]
    if not runs:
        return {}
    names, numbers, measures, keys, bases = (list(column) for column in zip(*runs, strict=True))
    table = Frame({"side": column(names)}).assign(
        workload=list(map(str, numbers)),
        point="",
        metric="count",
        unit=[measure.unit for measure in measures],
        better="lower",
        family="informational",
        value=[measure.value for measure in measures],
        is_maximum=[measure.is_maximum for measure in measures],
        boot=[run.boot for run in keys],
        run=[run.run for run in keys],
        order=[run.order for run in keys],
        round=[run.round for run in keys],
        comparison=bases,
    )
    rows = compare_runs(table, base=base, new=[new]).rows
    return _correct(asked, sides, {int(row.workload): row for row in rows})


def _correct(
    asked: Sequence[Question[Key]],
    sides: Mapping[str, Mapping[Question[Key], _Values]],
    rows: Mapping[int, JudgedRow],
) -> dict[int, _Confirmed]:
    # Once more, since what was not confirmed must not make the other rows of its basis cheaper.
    confirmed = [
        _confirm(rows[number], [measured[question] for measured in sides.values()])
        for number, question in enumerate(asked)
    ]
    bases = np.array([BASES.index(question.basis) for question in asked], dtype=np.intp)
    corrected = false_discovery(np.array(confirmed, dtype=np.float64), bases).tolist()
    return {
        number: _Confirmed(row=rows[number], p=p, q=None if p is None else q)
        for number, (p, q) in enumerate(zip(confirmed, corrected, strict=True))
    }


def _confirm(row: JudgedRow, values: Sequence[_Values]) -> float | None:
    if any(measure.is_maximum for _, measure in values[0]):
        # Ranks need no second test, and maxima have no mean for one.
        return row.p
    if row.p is None:
        # Runs that never vary leave a t test nothing; that all of new differ is for ranks to show.
        # Where they do not, there is nothing to test, and the other rows shall not pay for it.
        return None if row.base == row.new else row.p_rank
    confirming: list[float | None] = [row.p]
    if row.replication == "boots":
        # Two boots whose means happen to agree do not show how much runs scatter.
        confirming.append(_plain_p(map(_numbers, values)))
    if row.ratio is None:
        # Zeros among other values look like a mode of their own that never varies, so the rest
        # seems to vary less than it does: without this 9% of rows that are 0 in every other run
        # would differ by chance at 5%. A plain difference of the means has to show it too, and so
        # have the ranks.
        units = (_units(side_values, row.replication) for side_values in values)
        confirming += [row.p_rank, _plain_p(units)]
    return max(p for p in confirming if p is not None)


def _plain_p(sides: Iterable[Sequence[float]]) -> float | None:
    # Of logarithms, as ratios are compared, wherever there are any.
    base, new = sides
    if min(*base, *new) > 0.0:
        base, new = (list(map(log, side)) for side in (base, new))
    return welch_difference(base, new).p


def _units(values: _Values, replication: str) -> list[float]:
    # What is independent; pairs are taken apart, which errs on the safe side.
    units: dict[object, list[float]] = {}
    for number, (run, measure) in enumerate(values):
        unit = {"boots": run.boot, "rounds": run.round}.get(replication, number)
        units.setdefault(unit, []).append(measure.value)
    return [fmean(unit_values) for unit_values in units.values()]


def _answer(base: _Values, new: _Values, confirmed: _Confirmed) -> Rate:
    row = confirmed.row
    assert row.n_base is not None
    assert row.n_new is not None
    return Rate(
        unit=base[0][1].unit,
        n_base=row.n_base,
        n_new=row.n_new,
        base=row.base,
        new=row.new,
        ratio=row.ratio,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
        p=confirmed.p,
        q=confirmed.q,
        changed=_is_changed(confirmed),
        replication=row.replication,
        values_base=_numbers(base),
        values_new=_numbers(new),
    )


def _numbers(values: _Values) -> tuple[float, ...]:
    return tuple(measure.value for _, measure in values)


def _is_changed(confirmed: _Confirmed) -> bool | None:
    if confirmed.q is None:
        return None
    is_beyond_chance = confirmed.q < FALSE_DISCOVERY_RATE
    # Too few runs of sides that were not interleaved: drift may explain what chance does not.
    may_be_drift = confirmed.row.verdict == "inconclusive" and is_beyond_chance
    return None if may_be_drift else confirmed.row.verdict in CHANGED and is_beyond_chance


def _alone(values: _Values) -> Rate:
    return Rate(
        unit=values[0][1].unit,
        n_base=len(values),
        n_new=0,
        base=(median if values[0][1].is_maximum else mean_of)(_numbers(values)),
        **dict.fromkeys(("new", "ratio", "ci_low", "ci_high", "p", "q", "changed")),
        replication="runs",
        values_base=_numbers(values),
        values_new=(),
    )
