"""Placement of several sides: rates of each count, how sure a change is, what was not seen."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from schedperf.evidence.placement.counts import (
    Amounts,
    Quotients,
    amounts_of,
    has_nodes,
    quotients_of,
)
from schedperf.evidence.placement.fields import FIELDS, function_of, meaning_of, name_of
from schedperf.evidence.placement.grids import moves_of, phases_of_all, waits_of
from schedperf.evidence.placement.model import Key, PlacedRun, PlacedSide
from schedperf.evidence.placement.pictures import depths_of, series_of, timers_of
from schedperf.evidence.placement.record import (
    PARTS,
    NotComparedPart,
    Part,
    Placement,
    PlacementProgram,
    PlacementRow,
    PlacementSide,
)
from schedperf.evidence.placement.sight import (
    has_named_level,
    invisible_elsewhere,
    loss_of,
    mechanism_of,
    refusals,
    why_levels_differ,
    why_unseen,
)
from schedperf.model.counted import Rate
from schedperf.stats.counted.rates import (
    CountedRun,
    CountedSide,
    Measure,
    Question,
    compare_rates,
    divide,
    mean_of,
)

# Numbers of one part by node, by pair of nodes or by cgroup: all of a machine with 8 nodes. Where
# there are more, those that counted most are kept.
MOST_PLACES = 128

Universe = Mapping[tuple[str, str], frozenset[Key]]


class _Refusals(NamedTuple):
    # Why numbers are shown and not compared: all of a part, or its moves by level.
    parts: Mapping[Part, str]
    levels: str | None

    def reason_of(self, key: Key) -> str | None:
        if key.part in self.parts:
            return self.parts[key.part]
        return self.levels if has_named_level(key) else None


class _Numbers:
    # What the runs of a side counted, with the events behind each number.

    def __init__(self, side: PlacedSide, universe: Universe) -> None:
        self.side = side
        self._events: dict[tuple[str, str, Key, bool], list[float]] = {}
        self.counted = CountedSide(
            name=side.name,
            runs=tuple(self._count(run, universe[run.workload, run.point]) for run in side.runs),
        )

    def _count(self, run: PlacedRun, keys: frozenset[Key]) -> CountedRun[Key]:
        amounts = _with_zeros(run, keys)
        quotients = quotients_of(run.placement, amounts)
        self._note_events(run, amounts, quotients)
        rates = divide(
            {key: Measure(amount, _unit(key)) for key, amount in amounts.items()},
            seconds=run.placement.seconds,
            operations=run.operations,
            operation=run.operation,
        )
        return CountedRun(
            workload=run.workload,
            point=run.point,
            boot=run.boot,
            run=run.run,
            order=run.order,
            round=run.round,
            measures={
                **dict(rates),
                **{(key, "share"): Measure(one.value, one.unit) for key, one in quotients.items()},
            },
        )

    def _note_events(self, run: PlacedRun, amounts: Amounts, quotients: Quotients) -> None:
        events = [((key, False), amount) for key, amount in amounts.items()]
        events += [((key, True), one.events) for key, one in quotients.items()]
        for (key, is_share), count in events:
            self._events.setdefault((run.workload, run.point, key, is_share), []).append(count)

    def events(self, question: Question[Key]) -> Sequence[float]:
        """Return the number of events of each run behind the answer of a question."""
        is_share = question.basis == "share"
        place = question.workload, question.point, question.key, is_share
        return self._events.get(place, ())

    def only(self, refused: "_Refusals", *, are_refused: bool) -> CountedSide[Key]:
        """Return the side with those numbers only that are, or are not, refused."""
        return CountedSide(
            name=self.side.name,
            runs=tuple(
                replace(
                    run,
                    measures={
                        (key, basis): measure
                        for (key, basis), measure in run.measures.items()
                        if (refused.reason_of(key) is not None) == are_refused
                    },
                )
                for run in self.counted.runs
            ),
        )


def analyse_sides(sides: Sequence[PlacedSide]) -> Placement:
    """Compare each side with the first; one side alone gets its rates.

    Counts are divided by the time in which they were counted, and by the operations of the run
    where they are known (:mod:`schedperf.stats.counted.rates`). Numbers of a part that the sides
    saw in different ways, or of which events were lost, are shown and not compared.

    :param sides: each with a run
    """
    universe, cut = _universe(sides)
    base, *others = [_Numbers(side, universe) for side in sides]
    rows = [row for other in others for row in _rows(base, other)] or [*_rows(base, None)]
    shown = [row for row in rows if row.base or row.new]
    zeros = {row.name for row in rows} - {row.name for row in shown}
    pairs = [(new, frozenset(refusals(sides[0], new))) for new in sides[1:]]
    # Place by place; what must not be compared is shown only.
    places: Sequence[tuple[PlacedSide | None, frozenset[Part]]] = pairs or [(None, frozenset())]
    return Placement(
        sides=tuple(map(_describe, sides)),
        rows=tuple(shown),
        zeros=tuple(sorted(zeros)),
        programs=tuple(program for side in sides for program in _programs(side)),
        not_compared=tuple(part for new in sides[1:] for part in _refused(sides[0], new)),
        series=tuple(row for side in sides for row in series_of(side)),
        depths=tuple(row for side in sides for row in depths_of(side)),
        timers=tuple(row for side in sides for row in timers_of(side)),
        moves=tuple(row for new, invalid in places for row in moves_of(sides[0], new, invalid)),
        waits=tuple(row for new, invalid in places for row in waits_of(sides[0], new, invalid)),
        phases=tuple(
            row for new, invalid in places for row in phases_of_all(sides[0], new, invalid)
        ),
        notes=(
            *(note for side in sides for note in _notes(side)),
            *filter(None, (why_levels_differ(sides[0], new) for new in sides[1:])),
            *cut,
        ),
    )


def _describe(side: PlacedSide) -> PlacementSide:
    return PlacementSide(
        side=side.name,
        runs=len(side.runs),
        mechanisms=tuple(sorted({run.placement.mechanism for run in side.runs})),
        nodes=max(len(set(run.placement.nodes.values())) for run in side.runs),
        seconds=sum(run.placement.seconds for run in side.runs),
    )


def _universe(sides: Sequence[PlacedSide]) -> tuple[Universe, list[str]]:
    # What was seen in any run of a point was looked for in all of them.
    totals: dict[tuple[str, str], Amounts] = {}
    for side in sides:
        for run in side.runs:
            found = totals.setdefault((run.workload, run.point), {})
            for key, amount in amounts_of(run.placement).items():
                found[key] = found.get(key, 0.0) + amount
    kept = {place: frozenset(_keep(amounts)) for place, amounts in totals.items()}
    dropped = sum(len(amounts) - len(kept[place]) for place, amounts in totals.items())
    notes = [f"{dropped} counts by node or by cgroup, the lowest ones, are left out"]
    return kept, notes if dropped else []


def _keep(amounts: Amounts) -> Iterator[Key]:
    placed: dict[Part, list[Key]] = {}
    for key in amounts:
        if key.nodes or key.groups:
            placed.setdefault(key.part, []).append(key)
        else:
            yield key
    for keys in placed.values():
        yield from sorted(keys, key=lambda key: -amounts[key])[:MOST_PLACES]


def _with_zeros(run: PlacedRun, keys: Iterable[Key]) -> Amounts:
    amounts = amounts_of(run.placement)
    seen = {part for part in PARTS if mechanism_of(run.placement, part) is not None}
    is_numa = has_nodes(run.placement)
    return {
        key: amounts.get(key, 0.0)
        for key in keys
        if key in amounts
        or (key.part in seen and not key.groups and (is_numa or key.field != "crossing"))
    }


def _unit(key: Key) -> str:
    return "task" if key.field == "pulled" else "1"


def _rows(base: _Numbers, new: _Numbers | None) -> Iterator[PlacementRow]:
    refused = _Refusals({}, None)
    if new is not None:
        refused = _Refusals(refusals(base.side, new.side), why_levels_differ(base.side, new.side))
    found = _answers(base, new, refused)
    side = (new or base).side.name
    for index, question in enumerate(sorted(found, key=_place)):
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
            basis=question.basis,
            meaning=meaning_of(key, question.basis),
            function=function_of(key),
            status="ok" if reason is None else "invalid",
            reason=reason,
            events_base=_mean_events(base, question, new),
            events_new=None if new is None else _mean_events(new, question, base),
            **found[question].as_fields(),
        )


def _mean_events(side: _Numbers, question: Question[Key], other: _Numbers | None) -> float | None:
    # The same mean as that of the rates, or a change would contradict the counts beside it.
    events = side.events(question)
    return mean_of(events, () if other is None else other.events(question)) if events else None


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
    # Both values are known, and nothing is said of their difference.
    known = base or new
    assert known is not None
    return replace(
        known,
        n_base=base.n_base if base else 0,
        n_new=new.n_base if new else 0,
        base=base.base if base else None,
        new=new.base if new else None,
        values_base=base.values_base if base else (),
        values_new=new.values_base if new else (),
    )


def _place(question: Question[Key]) -> tuple[object, ...]:
    key = question.key
    fields = list(FIELDS.get(key.part, FIELDS["move"]))
    return (
        question.workload, question.point, PARTS.index(key.part), key.groups, key.cause,
        fields.index(key.field) if key.part == "timers" else 0, key.level, key.idle, key.nodes,
        fields.index(key.field), question.basis,
    )  # fmt: skip


def _programs(side: PlacedSide) -> Iterator[PlacementProgram]:
    for part in PARTS:
        seen = {mechanism_of(run.placement, part) for run in side.runs} - {None}
        mechanism = " or ".join(sorted(one for one in seen if one)) or None
        unseen = None if mechanism else why_unseen(side.runs[0].placement, part)
        yield PlacementProgram(
            side=side.name,
            part=part,
            mechanism=mechanism,
            function=None if unseen is None else unseen.what,
            reason=None if unseen is None else unseen.reason,
        )


def _refused(base: PlacedSide, new: PlacedSide) -> Iterator[NotComparedPart]:
    unseen = {
        program.part
        for side in (base, new)
        for program in _programs(side)
        if program.mechanism is None
    }
    for part, reason in refusals(base, new).items():
        # Why a side did not see it stands with its programs.
        if part not in unseen:
            yield NotComparedPart(side=new.name, what=part, reason=reason)


def _notes(side: PlacedSide) -> Iterator[str]:
    yield from side.notes
    told = [note for run in side.runs for note in run.placement.notes]
    told += [
        f"{what} is invisible: {reason}"
        for run in side.runs
        for what, reason in invisible_elsewhere(run.placement)
    ]
    lost = Counter[str]()
    for run in side.runs:
        lost.update(run.placement.lost)
    told += [f"{count} lost: {name}" for name, count in lost.items() if count]
    told += [reason for run in side.runs if (reason := loss_of(run.placement)) is not None]
    for note, runs in Counter(told).items():
        yield f"{side.name}: {note}{f' ({runs} runs)' if runs > 1 else ''}"
    if not any(has_nodes(run.placement) for run in side.runs):
        yield f"{side.name}: one node, so no move leaves it"
