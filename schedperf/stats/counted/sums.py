# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare sums that a run has by name, e.g. by lock or by stack: what is not there is 0.

The collector saw all events of a run, so a name without events has the sum 0 there.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct

from schedperf.model.counted import Rate
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.rates import Measure, Measures, Question, compare_rates, divide

Key = TypeVar("Key", bound=Hashable)


class Sums(Struct, Generic[Key], frozen=True, kw_only=True):
    """The sums of one run.

    :param seconds: duration of counting
    :param sums: sums by name; a missing one is 0
    :param statistics: percentiles and maxima, which are not divided; a missing one is unknown
    """

    seconds: float
    sums: Mapping[Key, Measure]
    statistics: Mapping[Key, Measure] = {}


class ComparedSum(Struct, Generic[Key], frozen=True, kw_only=True):
    """A row of a comparison.

    :param row: its name, of the side and its place
    :param side: name of the new side, or of a single one
    """

    row: str
    side: str
    question: Question[Key]
    rate: Rate

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a row that are the same in all kinds of evidence."""
        return {
            "row": self.row,
            "side": self.side,
            "workload": self.question.workload,
            "point": self.question.point,
            "basis": self.question.basis,
            **self.rate.as_fields(),
        }


def compare_sums(
    base: SideOf[Sums[Key]], new: SideOf[Sums[Key]] | None
) -> dict[Question[Key], Rate]:
    """Compare every sum per operation and per second, or describe those of base.

    :param new: None if there is only base
    """
    zeros: dict[tuple[str, str], dict[Key, Measure]] = {}
    for side in (base, new) if new is not None else (base,):
        for run in side.runs:
            nothing = zeros.setdefault(run.key.at, {})
            for key, measure in run.content.sums.items():
                nothing.setdefault(key, Measure(0.0, measure.unit))

    def measures(run: Captured[Sums[Key]]) -> Measures[Key]:
        content = run.content
        sums = {**zeros[run.key.at], **content.sums}
        return {
            **dict(divide(sums, seconds=content.seconds, ops=run.ops)),
            **{(key, "share"): measure for key, measure in content.statistics.items()},
        }

    return compare_rates(base.having(measures), None if new is None else new.having(measures))


def compare_with_first(
    sides: Iterable[SideOf[Sums[Key]]], order: Callable[[Key, float], tuple[Any, ...]]
) -> Iterator[ComparedSum[Key]]:
    """Yield what is not 0 on both sides: each side compared with the first, or a single side.

    :param order: returns the place of a key among those of a side; it is given the larger value
    """
    base, *others = sides
    against: Sequence[SideOf[Sums[Key]] | None] = others or [None]
    for new in against:
        name = base.name if new is None else new.name
        rates = compare_sums(base, new).items()
        # Rows of one size are in the order of their texts.
        ordered = sorted(
            ((question, rate) for question, rate in rates if rate.base or rate.new),
            key=lambda item: (*order(item[0].key, _size(item[1])), str(item[0])),
        )
        for index, (question, rate) in enumerate(ordered):
            yield ComparedSum(row=f"{name}-{index}", side=name, question=question, rate=rate)


def _size(rate: Rate) -> float:
    return max(rate.base or 0.0, rate.new or 0.0)


def largest_of_kinds(
    sides: Iterable[SideOf[Mapping[Key, float]]],
    kind_of: Callable[[Key], str],
    most: Iterable[tuple[str, int]],
    least_part: float = 0.0,
) -> dict[tuple[str, str], frozenset[Key]]:
    """Return the keys of each point with the largest sums of each kind.

    :param most: kinds, each with its number of keys per point
    :param least_part: smallest part of the sum of all keys of the kind
    """
    chosen: dict[tuple[str, str], frozenset[Key]] = {}
    for kind, number in most:

        def of_kind(run: Captured[Mapping[Key, float]], kind: str = kind) -> Mapping[Key, float]:
            return {key: value for key, value in run.content.items() if kind_of(key) == kind}

        for point, keys in largest(
            tuple(side.having(of_kind) for side in sides), number, least_part
        ).items():
            chosen[point] = chosen.get(point, frozenset()) | frozenset(keys)
    return chosen


def largest(
    sides: tuple[SideOf[Mapping[Key, float]], ...], most: int, least_part: float = 0.0
) -> dict[tuple[str, str], list[Key]]:
    """Return the keys of each point with the largest sums per run, added over the sides.

    :param most: number of keys per point
    :param least_part: smallest part of the sum of all keys of the point
    """
    totals: dict[tuple[str, str], dict[Key, float]] = {}
    for side in sides:
        for run in side.runs:
            of_point = totals.setdefault(run.key.at, {})
            for key, amount in run.content.items():
                # Sides may have different numbers of runs.
                of_point[key] = of_point.get(key, 0.0) + amount / len(side.runs)
    return {
        point: sorted(
            (key for key in amounts if amounts[key] >= least_part * sum(amounts.values())),
            key=lambda key: -amounts[key],
        )[:most]
        for point, amounts in totals.items()
    }
