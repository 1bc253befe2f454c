# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the rates of two sides; list incomparable rows with both values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from schedperf.evidence.placement.capture import PlacementCapture
from schedperf.evidence.placement.comparability import (
    has_named_level,
    mechanism_of,
    refusals,
    why_levels_differ,
)
from schedperf.evidence.placement.fields import FIELDS, function_of, meaning_of, name_of
from schedperf.evidence.placement.measure import (
    Amounts,
    Key,
    Quotients,
    amounts_of,
    has_nodes,
    quotients_of,
)
from schedperf.evidence.placement.record import (
    PARTS,
    Part,
    PlacementRow,
)
from schedperf.model.counted import Rate
from schedperf.model.run import Captured, SideOf
from schedperf.stats.counted.rates import (
    Measure,
    Measures,
    Question,
    compare_rates,
    divide,
    mean_of,
)

# Largest number of rows of one part by node, pair of nodes, type of core or cgroup: enough for a
# machine with 8 nodes. Rows with the largest counts are kept.
MOST_PLACES = 128

Universe = Mapping[tuple[str, str], frozenset[Key]]


class _Refusals(NamedTuple):
    # Reasons why rows are not compared: all rows of a part, or its moves by level.
    parts: Mapping[Part, str]
    levels: str | None

    def reason_of(self, key: Key) -> str | None:
        if key.part in self.parts:
            return self.parts[key.part]
        return self.levels if has_named_level(key) else None


class _Numbers:
    # The counters of each run of a side, with the number of underlying events.

    def __init__(self, side: SideOf[PlacementCapture], universe: Universe) -> None:
        self.side = side
        self._events: dict[tuple[str, str, Key, bool], list[float]] = {}
        self.counted = side.having(lambda run: self._count(run, universe[run.key.at]))

    def _count(self, run: Captured[PlacementCapture], keys: frozenset[Key]) -> Measures[Key]:
        amounts = _with_zeros(run, keys)
        quotients = quotients_of(run.content, amounts)
        self._note_events(run, amounts, quotients)
        rates = divide(
            {key: Measure(amount, _unit(key)) for key, amount in amounts.items()},
            seconds=run.content.seconds,
            ops=run.ops,
        )
        shares: Measures[Key] = {
            (key, "share"): Measure(
                quotient.value,
                quotient.unit,
                is_maximum=key.part == "latency" and key.field == "max",
            )
            for key, quotient in quotients.items()
        }
        return {**dict(rates), **shares}

    def _note_events(
        self, run: Captured[PlacementCapture], amounts: Amounts, quotients: Quotients
    ) -> None:
        events = [((key, False), amount) for key, amount in amounts.items()]
        events += [((key, True), quotient.events) for key, quotient in quotients.items()]
        for (key, is_share), count in events:
            self._events.setdefault((*run.key.at, key, is_share), []).append(count)

    def events(self, question: Question[Key]) -> Sequence[float]:
        """Return the number of underlying events of each run."""
        is_share = question.basis == "share"
        what = question.workload, question.point, question.key, is_share
        return self._events.get(what, ())

    def only(self, refused: "_Refusals", *, are_refused: bool) -> SideOf[Measures[Key]]:
        """Return the side with only the refused rows, or without them."""
        return self.counted.having(
            lambda run: {
                (key, basis): measure
                for (key, basis), measure in run.content.items()
                if (refused.reason_of(key) is not None) == are_refused
            }
        )


def compare_counts(
    sides: Sequence[SideOf[PlacementCapture]],
) -> tuple[list[PlacementRow], list[str]]:
    """Return the rows of each side against the first, and notes on omitted rows.

    Counts are divided by the time of counting, and by the operations of the run if these are known
    (:mod:`schedperf.stats.counted.rates`). Parts that the sides observed with different mechanisms,
    that a side did not measure, or that lost events, are listed but not compared.

    :param sides: sides with at least one run; for a single side, its rates are returned
    """
    universe, cut = _universe(sides)
    base, *others = [_Numbers(side, universe) for side in sides]
    if not others:
        return [*_rows(base, None)], cut
    return [row for new in others for row in _rows(base, new)], cut


def _universe(sides: Sequence[SideOf[PlacementCapture]]) -> tuple[Universe, list[str]]:
    # A counter of any run of a point is 0 in the other runs, not missing.
    totals: dict[tuple[str, str], Amounts] = {}
    for side in sides:
        for run in side.runs:
            sums = totals.setdefault(run.key.at, {})
            for key, amount in amounts_of(run.content).items():
                sums[key] = sums.get(key, 0.0) + amount
    kept = {point: frozenset(_keep(amounts)) for point, amounts in totals.items()}
    dropped = sum(len(amounts) - len(kept[point]) for point, amounts in totals.items())
    limit = f"at most {MOST_PLACES} per part of the section are kept"
    notes = [f"the {dropped} lowest per-node or per-cgroup counts are left out ({limit})"]
    return kept, notes if dropped else []


def _keep(amounts: Amounts) -> Iterator[Key]:
    placed: dict[Part, list[Key]] = {}
    for key in amounts:
        if key.nodes or key.groups or key.types:
            placed.setdefault(key.part, []).append(key)
        else:
            yield key
    for keys in placed.values():
        yield from sorted(keys, key=lambda key: -amounts[key])[:MOST_PLACES]


def _with_zeros(run: Captured[PlacementCapture], keys: Iterable[Key]) -> Amounts:
    amounts = amounts_of(run.content)
    seen = {part for part in PARTS if mechanism_of(run.content, part) is not None}
    is_numa = has_nodes(run.content)
    return {
        key: amounts.get(key, 0.0)
        for key in keys
        if key in amounts
        or (
            key.part in seen
            and not key.groups
            and (is_numa or key.field != "crossing")
            and (run.content.types or not key.types)
        )
    }


def _unit(key: Key) -> str:
    return "task" if key.field == "pulled" else "1"


def _rows(base: _Numbers, new: _Numbers | None) -> Iterator[PlacementRow]:
    refused = _Refusals({}, None)
    if new is not None:
        refused = _Refusals(refusals(base.side, new.side), why_levels_differ(base.side, new.side))
    rates = _answers(base, new, refused)
    side = (new or base).side.name
    for index, question in enumerate(sorted(rates, key=_order)):
        key = question.key
        reason = refused.reason_of(key)
        yield PlacementRow(
            row=f"{side}-{index}",
            side=side,
            workload=question.workload,
            point=question.point,
            name=name_of(key),
            part=key.part,
            field=key.field,
            cause=key.cause,
            level=key.level,
            idle=key.idle,
            nodes=key.nodes,
            groups=key.groups,
            types=key.types,
            basis=question.basis,
            meaning=meaning_of(key, question.basis),
            function=function_of(key),
            status="ok" if reason is None else "invalid",
            reason=reason,
            events_base=_mean_events(base, question, new),
            events_new=None if new is None else _mean_events(new, question, base),
            **rates[question].as_fields(),
        )


def _mean_events(
    side: _Numbers, question: Question[Key], opposite: _Numbers | None
) -> float | None:
    # The same kind of mean as for the rates, so that counts and rates are consistent.
    events = side.events(question)
    return (
        mean_of(events, () if opposite is None else opposite.events(question)) if events else None
    )


def _answers(base: _Numbers, new: _Numbers | None, refused: _Refusals) -> dict[Question[Key], Rate]:
    if new is None:
        return compare_rates(base.counted, None)
    compared = compare_rates(
        base.only(refused, are_refused=False), new.only(refused, are_refused=False)
    )
    alone = [
        compare_rates(numbers.only(refused, are_refused=True), None) for numbers in (base, new)
    ]
    for question in {**alone[0], **alone[1]}:
        compared[question] = _beside(alone[0].get(question), alone[1].get(question))
    return compared


def _beside(base: Rate | None, new: Rate | None) -> Rate:
    # Both values, without a comparison.
    measured = base or new
    assert measured is not None
    return replace(
        measured,
        n_base=base.n_base if base else 0,
        n_new=new.n_base if new else 0,
        base=base.base if base else None,
        new=new.base if new else None,
        values_base=base.values_base if base else (),
        values_new=new.values_base if new else (),
    )


def _order(question: Question[Key]) -> tuple[object, ...]:
    key = question.key
    fields = list(FIELDS.get(key.part, FIELDS["move"]))
    return (
        question.workload, question.point, PARTS.index(key.part), key.groups, key.cause,
        fields.index(key.field) if key.part == "timers" else 0, key.level, key.idle, key.nodes,
        key.types, fields.index(key.field), question.basis,
    )  # fmt: skip
