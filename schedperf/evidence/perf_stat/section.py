# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters: what ``perf stat`` counted on the machine during the runs, new vs base.

Software events, tracepoints of the scheduler, hardware events: rates a second and an operation,
with intervals over runs. They say what happened more often, never whether it was worse, so
they get no verdict.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schedperf.bundle.json import decode
from schedperf.bundle.open import Bundle, Run
from schedperf.evidence import Absent, section
from schedperf.evidence.perf_stat.capture import (
    Counter,
    counted_everywhere,
    parse_perf_stat,
)
from schedperf.evidence.perf_stat.record import (
    CounterRow,
    Counters,
    CounterSide,
    NotCounted,
)
from schedperf.model.comparison import MissingSide
from schedperf.model.counted import Rate
from schedperf.model.errors import BadLine
from schedperf.model.perf_event import parse_event
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.runs.side import Side
from schedperf.stats.counted.rates import (
    Measure,
    Question,
    compare_rates,
    divide,
    mean_of,
)

FOLDER = "perf_stat"
# perf stat writes a hundred bytes an event and node; 64 nodes and 100 events make 0.6 MB.
LARGEST_CSV_BYTES = 4 << 20
LARGEST_JSON_BYTES = 1 << 20


class _Key(NamedTuple):
    # Node None is all nodes together.
    event: str
    node: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Count:
    value: float
    unit: str
    scaled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    # :param not_counted: reason by event
    counts: Mapping[_Key, _Count]
    not_counted: Mapping[str, str]
    notes: tuple[str, ...]


_Captured = SideOf[_Counted]


@section(Counters)
def counters(sides: Sequence[Side]) -> Counters:
    """Compare each event's count of the runs of one workload and point, side by side."""
    base, *others = load_captured(sides, FOLDER, _read_run)
    missing = [
        MissingSide(side=one.name, reason=_why_nothing(side, one))
        for side, one in zip(sides, (base, *others), strict=True)
        if not _has_counts(one)
    ]
    found = [one for one in others if _has_counts(one)]
    if not _has_counts(base) or not found:
        raise Absent(missing[0].reason if missing else "no new side")
    compared = [(new, _compare(base, new)) for new in found]
    rows = [row for _, of_side in compared for row in of_side]
    shown = tuple(row for row in rows if row.base or row.new)
    happened = {row.event for row in shown}
    not_counted = [
        *(entry for one in (base, *found) for entry in _not_counted(one)),
        *(entry for new, of_side in compared for entry in _not_compared(base, new, of_side)),
    ]
    return Counters(
        sides=tuple(_describe(one) for one in (base, *found)),
        rows=shown,
        zeros=tuple(dict.fromkeys(row.event for row in rows if row.event not in happened)),
        not_counted=_once_an_event(not_counted),
        missing=tuple(missing),
        notes=tuple(note for one in (base, *others) for note in _notes(one)),
    )


def _has_counts(captured: _Captured) -> bool:
    return any(run.content.counts for run in captured.runs)


def _why_nothing(side: Side, captured: _Captured) -> str:
    notes = [*_notes(captured)]
    return notes[0] if notes else why_nothing(side, FOLDER)


def _notes(captured: _Captured) -> Iterator[str]:
    yield from captured.notes
    for run in captured.runs:
        yield from (f"{captured.name}: {note}" for note in run.content.notes)


def _describe(captured: _Captured) -> CounterSide:
    return CounterSide(side=captured.name, runs=len(captured.runs), kind=captured.kind)


def _read_run(bundle: Bundle, run: Run) -> _Counted:
    name = f"{run.folder}/{FOLDER}/perf_stat.csv"
    # A run in which perf failed has its reasons only.
    lines = (
        bundle.read_text(name, LARGEST_CSV_BYTES).splitlines()
        if bundle.size(name) is not None
        else []
    )
    read = list(parse_perf_stat(lines, name))
    return _Counted(
        counts=_add_up(read),
        not_counted=_reasons(bundle, run),
        notes=tuple(_describe_bad([one.problem for one in read if isinstance(one, BadLine)])),
    )


def _describe_bad(problems: Sequence[str]) -> Iterator[str]:
    # The first one tells what is wrong; a damaged file has as many as it has lines.
    if problems:
        more = f" (and {len(problems) - 1} more lines)" if len(problems) > 1 else ""
        yield f"{problems[0]}{more}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Facts:
    """What perf_stat.json holds.

    :param not_counted: the reason by event
    """

    not_counted: Mapping[str, str]


def _reasons(bundle: Bundle, run: Run) -> Mapping[str, str]:
    name = f"{run.folder}/{FOLDER}/perf_stat.json"
    if bundle.size(name) is None:
        return {}
    return decode(bundle.read(name, LARGEST_JSON_BYTES), _Facts, name).not_counted


def _add_up(read: Sequence[Counter | BadLine]) -> dict[_Key, _Count]:
    # The whole machine is the sum over its nodes, where all of them were counted.
    whole = counted_everywhere(read)
    places: defaultdict[_Key, list[Counter]] = defaultdict(list)
    for counter in read:
        if not isinstance(counter, Counter):
            continue
        if counter.event in whole:
            places[_Key(counter.event, None)].append(counter)
        if counter.node is not None:
            places[_Key(counter.event, counter.node)].append(counter)
    return {
        key: _Count(
            value=sum(one.value for one in found if one.value is not None),
            unit=found[0].unit,
            scaled=any(one.scaled for one in found),
        )
        for key, found in places.items()
        if all(one.value is not None for one in found) and len({one.unit for one in found}) == 1
    }


def _compare(base: _Captured, new: _Captured) -> list[CounterRow]:
    # Hundreds of nodes must not hide what changed on the machine as a whole.
    nodes = {
        key.node
        for side in (base, new)
        for run in side.runs
        for key in run.content.counts
        if key.node is not None
    }
    answers = _answer(base, new, [None])
    # One node alone says the same as the sum.
    if len(nodes) > 1:
        answers |= _answer(base, new, nodes)
    totals = [_totals(side) for side in (base, new)]
    return [
        _row(new.name, index, question, rate, totals)
        for index, (question, rate) in enumerate(answers.items())
    ]


def _answer(
    base: _Captured, new: _Captured, nodes: Collection[int | None]
) -> dict[Question[_Key], Rate]:
    sides = (side.having(lambda run: _measure(run, nodes)) for side in (base, new))
    return compare_rates(*sides)


def _measure(
    run: Captured[_Counted], nodes: Collection[int | None]
) -> dict[tuple[_Key, Any], Measure]:
    return dict(
        divide(
            {
                key: Measure(count.value, "1" if count.unit == "count" else count.unit)
                for key, count in run.content.counts.items()
                if key.node in nodes
            },
            seconds=run.wall_s,
            ops=run.ops,
        )
    )


_Totals = Mapping[tuple[str, str, _Key], Sequence[_Count]]


def _totals(captured: _Captured) -> _Totals:
    totals: defaultdict[tuple[str, str, _Key], list[_Count]] = defaultdict(list)
    for run in captured.runs:
        for key, count in run.content.counts.items():
            totals[*run.key.at, key].append(count)
    return totals


def _row(
    side: str, index: int, question: Question[_Key], rate: Rate, totals: Sequence[_Totals]
) -> CounterRow:
    base, new = (of_side[question.workload, question.point, question.key] for of_side in totals)
    counted = [[count.value for count in of_side] for of_side in (base, new)]
    return CounterRow(
        row=f"{side}-{index}",
        side=side,
        workload=question.workload,
        point=question.point,
        basis=question.basis,
        event=question.key.event,
        perf_event=parse_event(question.key.event),
        node=question.key.node,
        scaled=any(count.scaled for count in (*base, *new)),
        total_base=mean_of(*counted),
        total_new=mean_of(*reversed(counted)),
        **rate.as_fields(),
    )


def _not_counted(captured: _Captured) -> Iterator[NotCounted]:
    for run in captured.runs:
        for event, reason in run.content.not_counted.items():
            yield NotCounted(side=captured.name, event=event, reason=reason)


def _not_compared(
    base: _Captured, new: _Captured, rows: Sequence[CounterRow]
) -> Iterator[NotCounted]:
    # Events without a row, of the points that both sides have.
    compared = {row.event for row in rows}
    points = [{run.key.at for run in one.runs} for one in (base, new)]
    of_base, of_new = (_events(one, points[0] & points[1]) for one in (base, new))
    for event in dict.fromkeys((*of_base, *of_new)):
        if event in compared:
            continue
        lacks, has = (new, base) if event in of_base else (base, new)
        reason = f"counted in {has.name} only"
        if event in of_base and event in of_new:
            reason = "its units differ, or time and operations of the runs are unknown"
        yield NotCounted(side=lacks.name, event=event, reason=reason)


def _events(captured: _Captured, points: Collection[tuple[str, str]]) -> dict[str, None]:
    return {
        key.event: None
        for run in captured.runs
        if run.key.at in points
        for key in run.content.counts
    }


def _once_an_event(entries: Iterable[NotCounted]) -> tuple[NotCounted, ...]:
    # What perf said comes first, and tells more than that the other side has it.
    first: dict[tuple[str, str], NotCounted] = {}
    for entry in entries:
        first.setdefault((entry.side, entry.event), entry)
    return tuple(first.values())
