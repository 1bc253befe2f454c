# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the counts of ``perf stat`` during the runs of base and new.

Rates of software events, scheduler tracepoints and hardware events, per second and per operation,
and shares by type of CPU core, with intervals over runs. More is neither better nor worse, so they
get no verdict.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from schedperf.evidence import Absent, section
from schedperf.evidence.perf_stat.capture import (
    FACTS,
    FOLDER,
    Counter,
    counted_everywhere,
    counting_seconds,
    read_perf_stat,
)
from schedperf.evidence.perf_stat.record import (
    CounterRow,
    Counters,
    CounterSide,
    NotCounted,
)
from schedperf.evidence.perf_stat.shares_by_core_type import (
    pmus_of_types,
    shares_by_type,
    why_not_counted,
)
from schedperf.inputs.bundle.json import decode
from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.inputs.side import Side
from schedperf.model.counted import Rate
from schedperf.model.errors import BadLine
from schedperf.model.perf_event import parse_event
from schedperf.model.run import Captured, Operations, SideOf
from schedperf.model.sections import MissingSide
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.stats.counted.rates import (
    Measure,
    Question,
    compare_rates,
    divide,
    mean_of,
)

LARGEST_JSON_BYTES = 1 << 20
# Events that advance on all CPUs, idle or not, if the whole machine is counted.
CLOCKS = ("cpu-clock", "task-clock", "duration_time")
# Event with the duration that perf measured, if the user requested it.
ELAPSED = "duration_time"
# For imported results of perf stat, only the counts are known.
ONE_RUN = Operations(count=1.0, unit="run", exact=True)


class _Key(NamedTuple):
    # Node None is all nodes together.
    event: str
    node: int | None


class _Count(Struct, frozen=True, kw_only=True):
    value: float
    unit: str
    scaled: bool


class _Counted(Struct, frozen=True, kw_only=True):
    # :param not_counted: reason by event
    # :param seconds: how long perf counted; None if unknown
    # :param ops: operations to use if the benchmark reports none; None if unknown
    # :param pmus: PMUs of the types of CPU cores, if there are several
    counts: Mapping[_Key, _Count]
    seconds: float | None
    not_counted: Mapping[str, str]
    notes: tuple[str, ...]
    ops: Operations | None = None
    pmus: frozenset[str] = frozenset()


_Captured = SideOf[_Counted]


@section(Counters)
def counters(sides: Sequence[Side]) -> Counters:
    """Compare the count of each event between the sides, for each workload and point.

    :raises Absent: base has no counts, or no new side has
    """
    base, *others = load_captured(sides, FOLDER, _read_run)
    missing = [
        MissingSide(side=captured.name, reason=_why_nothing(side, captured))
        for side, captured in zip(sides, (base, *others), strict=True)
        if not _has_counts(captured)
    ]
    counted = [captured for captured in others if _has_counts(captured)]
    if not _has_counts(base) or not counted:
        raise Absent(missing[0].reason if missing else "no new side")
    compared = [(new, _compare(base, new)) for new in counted]
    rows = [row for _, of_side in compared for row in of_side]
    shown = tuple(row for row in rows if row.base or row.new)
    happened = {row.event for row in shown}
    not_counted = [
        *(entry for captured in (base, *counted) for entry in _not_counted(captured)),
        *(entry for new, of_side in compared for entry in _not_compared(base, new, of_side)),
    ]
    return Counters(
        sides=tuple(_describe(captured) for captured in (base, *counted)),
        rows=shown,
        zeros=tuple(dict.fromkeys(row.event for row in rows if row.event not in happened)),
        not_counted=_once_an_event(not_counted),
        missing=tuple(missing),
        notes=tuple(note for captured in (base, *others) for note in _notes(captured)),
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


def _read_run(side: Side, run: Run) -> _Counted:
    read = read_perf_stat(side, run)
    counters = [line for line in read if isinstance(line, Counter)]
    missing = {
        line.event: why_not_counted(line.event, line.missing) for line in counters if line.missing
    }
    types = next(
        (boot.host.topology.types for boot in side.bundle.boots if boot.number == run.boot), {}
    )
    return _Counted(
        counts=_add_up(read),
        seconds=counting_seconds(read),
        not_counted={**missing, **_reasons(side.bundle, run)},
        notes=tuple(_describe_bad([line.problem for line in read if isinstance(line, BadLine)])),
        ops=None if side.bundle.imported is None else ONE_RUN,
        pmus=pmus_of_types(types, [counter.event for counter in counters]),
    )


def _describe_bad(problems: Sequence[str]) -> Iterator[str]:
    # Only the first problem is reported; a damaged file can have one per line.
    if problems:
        more = f" (and {len(problems) - 1} more invalid lines)" if len(problems) > 1 else ""
        yield f"{problems[0]}{more}"


class _Facts(Struct, frozen=True, kw_only=True):
    """Contents of perf_stat.json.

    :param not_counted: reason by event
    """

    not_counted: Mapping[str, str]


def _reasons(bundle: Bundle, run: Run) -> Mapping[str, str]:
    name = f"{run.folder}/{FOLDER}/{FACTS}"
    if bundle.size(name) is None:
        return {}
    return decode(bundle.read(name, LARGEST_JSON_BYTES), _Facts, name).not_counted


def _add_up(read: Sequence[Counter | BadLine]) -> dict[_Key, _Count]:
    # The value of the whole machine is the sum over its nodes, if all were counted.
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
            value=sum(count.value for count in counted if count.value is not None),
            unit=counted[0].unit,
            scaled=any(count.scaled for count in counted),
        )
        for key, counted in places.items()
        if all(count.value is not None for count in counted)
        and len({count.unit for count in counted}) == 1
    }


def _compare(base: _Captured, new: _Captured) -> list[CounterRow]:
    # Rows of the whole machine have precedence over those of hundreds of nodes.
    nodes = {
        key.node
        for side in (base, new)
        for run in side.runs
        for key in run.content.counts
        if key.node is not None
    }
    answers = _answer(base, new, [None])
    # With one node, its row equals the sum.
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
    # Per operation, a clock of all CPUs only shows the duration of the run.
    ops, seconds = run.ops or run.content.ops, _window(run)
    rates = {
        identity: measure
        for key, count in run.content.counts.items()
        if key.node in nodes
        for identity, measure in divide(
            {key: Measure(count.value, "1" if count.unit == "count" else count.unit)},
            seconds=seconds,
            ops=None if ops is not ONE_RUN and key.event.partition(":")[0] in CLOCKS else ops,
        )
    }
    return {**rates, **dict(_shares(run.content, nodes))}


def _shares(
    counted: _Counted, nodes: Collection[int | None]
) -> Iterator[tuple[tuple[_Key, Any], Measure]]:
    for node in nodes:
        counts = {
            key.event: count.value for key, count in counted.counts.items() if key.node == node
        }
        for event, share in shares_by_type(counts, counted.pmus).items():
            yield (_Key(event, node), "share"), Measure(share, "")


def _window(run: Captured[_Counted]) -> float | None:
    # perf counts from before the command starts until after its end. If its counting time is
    # shorter than the run, the counts do not cover the run.
    seconds, wall_s = run.content.seconds, run.wall_s
    if seconds is None and wall_s is None:
        elapsed = run.content.counts.get(_Key(ELAPSED, None))
        return elapsed.value if elapsed is not None and elapsed.unit == "s" else None
    return wall_s if seconds is None or (wall_s is not None and seconds < wall_s) else seconds


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
    # Events without a row, at points that both sides have.
    compared = {row.event for row in rows}
    points = [{run.key.at for run in captured.runs} for captured in (base, new)]
    of_base, of_new = (_events(captured, points[0] & points[1]) for captured in (base, new))
    for event in dict.fromkeys((*of_base, *of_new)):
        if event in compared:
            continue
        lacks, has = (new, base) if event in of_base else (base, new)
        reason = f"the event was counted on one side only ({has.name})"
        if event in of_base and event in of_new:
            units = sorted(_units_of(event, base) | _units_of(event, new))
            reason = (
                f"the runs report the event in different units: {', '.join(units)}"
                if len(units) > 1
                else "the rate is unknown, because neither the run time nor the number of "
                "operations was recorded"
            )
        yield NotCounted(side=lacks.name, event=event, reason=reason)


def _units_of(event: str, captured: _Captured) -> set[str]:
    return {
        count.unit
        for run in captured.runs
        for key, count in run.content.counts.items()
        if key.event == event
    }


def _events(captured: _Captured, points: Collection[tuple[str, str]]) -> dict[str, None]:
    return {
        key.event: None
        for run in captured.runs
        if run.key.at in points
        for key in run.content.counts
    }


def _once_an_event(entries: Iterable[NotCounted]) -> tuple[NotCounted, ...]:
    # The reason from perf comes first: it is more specific than "counted on one side only".
    first: dict[tuple[str, str], NotCounted] = {}
    for entry in entries:
        first.setdefault((entry.side, entry.event), entry)
    return tuple(first.values())
