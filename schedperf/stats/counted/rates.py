# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare counts of runs as rates: per second, per operation and as shares.

A count of a run grows with its length and its work, so it is divided by both. Each rate is one
value per run, and runs are compared like benchmark results (:func:`schedperf.stats.compare_runs`):
``stats._estimates`` computes the standard errors, and ``stats._judge`` the intervals. The family is
"informational": more is neither better nor worse. Rates per second, rates per operation and shares
are three families of tests.

Unlike benchmark results, counts are often 0. A value of 0 has no logarithm, so such a rate has no
ratio and is compared by differences: 0 before and 27 to 64 after is a change.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf, log
from statistics import fmean, median
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from schedperf.model.counted import Basis, Rate
from schedperf.model.frame import Frame, column
from schedperf.model.rows import Replication
from schedperf.model.run import Operations, RunKey, SideOf
from schedperf.model.verdict import CHANGED, FALSE_DISCOVERY_RATE
from schedperf.stats import JudgedRow, compare_runs, one_side, welch_difference
from schedperf.stats._correction import false_discovery
from schedperf.stats.one_side import gather_units, replication_of

# Best first. Work is a better measure than time: a slower kernel does less of everything in a
# second.
BASES: tuple[Basis, ...] = ("share", "operation", "time")
# A rate from fewer events per run is not reported as changed, whatever its interval.
LEAST_EVENTS_OF_FINDING = 10.0

Key = TypeVar("Key", bound=Hashable)


class Measure(NamedTuple):
    """A quantity measured in one run.

    :param unit: "1", "s", "J", "1/s", "s/message", "" for a share
    :param is_maximum: True for the maximum of a run; maxima are compared by ranks
    """

    value: float
    unit: str
    is_maximum: bool = False


# The rates of one run, by counted event and divisor.
Measures = Mapping[tuple[Key, Basis], Measure]


class Question(Struct, Generic[Key], frozen=True):
    """A quantity to compare between the sides.

    :param key: what is counted
    :param basis: its denominator: "time", "operation", or "share" for another count
    """

    workload: str
    point: str
    key: Key
    basis: Basis


def distance_of(ratio: float | None) -> float:
    """Return the absolute logarithm of a ratio, the same for 2 and 1/2; infinity for None and 0.

    >>> distance_of(2.0) == distance_of(0.5) < distance_of(None)
    True
    """
    return abs(log(ratio)) if ratio else inf


def mean_of(values: Sequence[float], *others: Sequence[float]) -> float:
    """Return the geometric mean of the values, or the arithmetic mean if one is not positive.

    :param values: one or more
    :param others: values of other sides; if one is not positive, the mean is arithmetic as well
    """
    is_log = all(value > 0.0 for group in (values, *others) for value in group)
    return one_side.mean_of(values, is_log=is_log)


def mean_totals(side: SideOf[Mapping[Key, float]]) -> dict[tuple[str, str, Key], float]:
    """Return the arithmetic mean of each amount over the runs that have it.

    :return: means by workload, point and key
    """
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
    """Yield the counts of a run divided by its duration, and divided by its number of operations.

    A divisor that is None or 0 is skipped.

    :param seconds: duration of counting, in units of ``tick``
    :param tick: unit of the clock
    """
    for key, amount in amounts.items():
        if seconds:
            yield (key, "time"), Measure(amount.value / seconds, f"{amount.unit}/{tick}")
        if ops is not None and ops.count:
            yield (key, "operation"), Measure(amount.value / ops.count, f"{amount.unit}/{ops.unit}")


def compare_rates(
    base: SideOf[Measures[Key]], new: SideOf[Measures[Key]] | None
) -> dict[Question[Key], Rate]:
    """Compare every rate that both sides have, or describe those of base.

    Rates with different units, such as messages and transactions, are left out.

    :param new: None if there is only base
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
        workload, point = run.key.at
        for (key, basis), measure in run.content.items():
            question = Question(workload, point, key, basis)
            questions.setdefault(question, []).append((run.key, measure))
    return questions


class _Confirmed(Struct, frozen=True, kw_only=True):
    # A row with its p and q after the checks for zeros and for boots.
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
    # Correct again: a p that was not confirmed must not lower the q of other rows with the same
    # basis.
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
        # Rank tests need no second test, and maxima have no mean for one.
        return row.p
    if row.p is None:
        # A t test needs variance; without it, ranks can still show that all runs of new differ. If
        # they do not, the row is not tested and does not count in the correction.
        return None if row.base == row.new else row.p_rank
    confirming: list[float | None] = [row.p]
    if row.replication == "boots":
        # Two boots whose means agree by chance underestimate the scatter of runs.
        confirming.append(_plain_p(map(_numbers, values)))
    if row.ratio is None:
        # Zeros among other values look like a separate mode without variance, which makes the
        # variance too small: without this check, rows that are 0 in every other run have 9% false
        # positives at the 5% level. The plain difference of means and the ranks must be
        # significant, too.
        units = (_units(side_values, row.replication) for side_values in values)
        confirming += [row.p_rank, _plain_p(units)]
    return max(p for p in confirming if p is not None)


def _plain_p(sides: Iterable[Sequence[float]]) -> float | None:
    # Uses logarithms if there are any, since ratios are compared.
    base, new = sides
    if min(*base, *new) > 0.0:
        base, new = (list(map(log, side)) for side in (base, new))
    return welch_difference(base, new).p


def _units(values: _Values, replication: Replication) -> list[float]:
    # The independent values; pairs are treated as unpaired, which is conservative.
    runs = (run for run, _ in values)
    return list(map(fmean, gather_units(_numbers(values), runs, replication)))


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
    # With few runs of sides that were not interleaved, drift may explain a significant change.
    may_be_drift = confirmed.row.verdict == "inconclusive" and is_beyond_chance
    return None if may_be_drift else confirmed.row.verdict in CHANGED and is_beyond_chance


def _alone(values: _Values) -> Rate:
    numbers, runs = _numbers(values), [run for run, _ in values]
    replication = replication_of(runs)
    units = gather_units(numbers, runs, replication)
    return Rate(
        unit=values[0][1].unit,
        n_base=len(units),
        n_new=0,
        base=(
            median(map(max, units))
            if values[0][1].is_maximum
            else mean_of([mean_of(unit, numbers) for unit in units], numbers)
        ),
        **dict.fromkeys(("new", "ratio", "ci_low", "ci_high", "p", "q", "changed")),
        replication=replication,
        values_base=numbers,
        values_new=(),
    )
