# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the counts of ``perf stat`` during the runs of base and new.

Rates of software events, scheduler tracepoints and hardware events, per second and per operation,
and shares by type of CPU core, with intervals over runs. Events of the workload come before those
of the whole machine. More is neither better nor worse, so they get no verdict.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from schedperf.evidence import Absent, section
from schedperf.evidence.perf_stat.capture import FOLDER
from schedperf.evidence.perf_stat.measure import ONE_RUN, Count, Counted, Key, read_run
from schedperf.evidence.perf_stat.record import (
    CounterRow,
    Counters,
    CounterSide,
    NotCounted,
    Scope,
)
from schedperf.evidence.perf_stat.shares_by_core_type import shares_by_type
from schedperf.inputs.side import Side
from schedperf.model.counted import Rate
from schedperf.model.perf_event import parse_event
from schedperf.model.run import Captured, SideOf
from schedperf.model.sections import MissingSide
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.stats.counted.rates import (
    Measure,
    Question,
    compare_rates,
    divide,
    mean_of,
)

# Events that advance on all CPUs, idle or not, if the whole machine is counted.
CLOCKS = ("cpu-clock", "task-clock", "duration_time")
# Event with the duration that perf measured, if the user requested it.
ELAPSED = "duration_time"

_Captured = SideOf[Counted]


@section(Counters)
def counters(sides: Sequence[Side]) -> Counters:
    """Compare the count of each event between the sides, for each workload and point.

    :raises Absent: base has no counts, or no new side has
    """
    base, *others = load_captured(sides, FOLDER, read_run)
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
    happened = {(row.scope, row.event) for row in shown}
    zeros = [row for row in rows if (row.scope, row.event) not in happened]
    not_counted = [
        *(entry for captured in (base, *counted) for entry in _not_counted(captured)),
        *(entry for new, of_side in compared for entry in _not_compared(base, new, of_side)),
    ]
    return Counters(
        sides=tuple(_describe(captured) for captured in (base, *counted)),
        rows=shown,
        zeros=tuple(dict.fromkeys(row.event for row in zeros if row.scope == "machine")),
        workload_zeros=tuple(dict.fromkeys(row.event for row in zeros if row.scope == "workload")),
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
    reasons = [run.content.no_workload for run in captured.runs]
    return CounterSide(
        side=captured.name,
        runs=len(captured.runs),
        kind=captured.kind,
        workload_runs=reasons.count(None),
        no_workload=next(filter(None, reasons), None),
    )


def _compare(base: _Captured, new: _Captured) -> list[CounterRow]:
    # Tests of the workload, the whole machine and hundreds of nodes are corrected separately.
    nodes = {
        key.node
        for side in (base, new)
        for run in side.runs
        for key in run.content.counts
        if key.node is not None
    }
    answers = _answer(base, new, "workload", [None]) | _answer(base, new, "machine", [None])
    # With one node, its row equals the sum.
    if len(nodes) > 1:
        answers |= _answer(base, new, "machine", nodes)
    totals = [_totals(side) for side in (base, new)]
    return [
        _row(new.name, index, question, rate, totals)
        for index, (question, rate) in enumerate(answers.items())
    ]


def _answer(
    base: _Captured, new: _Captured, scope: Scope, nodes: Collection[int | None]
) -> dict[Question[Key], Rate]:
    sides = (side.having(lambda run: _measure(run, scope, nodes)) for side in (base, new))
    return compare_rates(*sides)


def _measure(
    run: Captured[Counted], scope: Scope, nodes: Collection[int | None]
) -> dict[tuple[Key, Any], Measure]:
    # Per operation, a clock of all CPUs only shows the duration of the run.
    clocks = CLOCKS if scope == "machine" else ()
    ops, seconds = run.ops or run.content.ops, _window(run)
    rates = {
        identity: measure
        for key, count in run.content.counts.items()
        if key.scope == scope and key.node in nodes
        for identity, measure in divide(
            {key: Measure(count.value, "1" if count.unit == "count" else count.unit)},
            seconds=seconds,
            ops=None if ops is not ONE_RUN and key.event.partition(":")[0] in clocks else ops,
        )
    }
    return {**rates, **dict(_shares(run.content, scope, nodes))}


def _shares(
    counted: Counted, scope: Scope, nodes: Collection[int | None]
) -> Iterator[tuple[tuple[Key, Any], Measure]]:
    for node in nodes:
        counts = {
            key.event: count.value
            for key, count in counted.counts.items()
            if (key.scope, key.node) == (scope, node)
        }
        for event, share in shares_by_type(counts, counted.pmus).items():
            yield (Key(scope, event, node), "share"), Measure(share, "")


def _window(run: Captured[Counted]) -> float | None:
    # perf counts from before the command starts until after its end. If its counting time is
    # shorter than the run, the counts do not cover the run.
    seconds, wall_s = run.content.seconds, run.wall_s
    if seconds is None and wall_s is None:
        elapsed = run.content.counts.get(Key("machine", ELAPSED, None))
        return elapsed.value if elapsed is not None and elapsed.unit == "s" else None
    return wall_s if seconds is None or (wall_s is not None and seconds < wall_s) else seconds


_Totals = Mapping[tuple[str, str, Key], Sequence[Count]]


def _totals(captured: _Captured) -> _Totals:
    totals: defaultdict[tuple[str, str, Key], list[Count]] = defaultdict(list)
    for run in captured.runs:
        for key, count in run.content.counts.items():
            totals[*run.key.at, key].append(count)
    return totals


def _row(
    side: str, index: int, question: Question[Key], rate: Rate, totals: Sequence[_Totals]
) -> CounterRow:
    base, new = (of_side[question.workload, question.point, question.key] for of_side in totals)
    counted = [[count.value for count in of_side] for of_side in (base, new)]
    return CounterRow(
        row=f"{side}-{index}",
        side=side,
        workload=question.workload,
        point=question.point,
        basis=question.basis,
        scope=question.key.scope,
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
        for (scope, event), reason in run.content.not_counted.items():
            yield NotCounted(side=captured.name, scope=scope, event=event, reason=reason)


def _not_compared(
    base: _Captured, new: _Captured, rows: Sequence[CounterRow]
) -> Iterator[NotCounted]:
    # Events without a row, at points that both sides have.
    compared = {(row.scope, row.event) for row in rows}
    points = [{run.key.at for run in captured.runs} for captured in (base, new)]
    of_base, of_new = (_events(captured, points[0] & points[1]) for captured in (base, new))
    # A side without any counter of the workload has one reason for all of them.
    scopes = {scope for scope, _ in of_base} & {scope for scope, _ in of_new}
    for scope, event in dict.fromkeys((*of_base, *of_new)):
        if (scope, event) in compared or scope not in scopes:
            continue
        lacks, has = (new, base) if (scope, event) in of_base else (base, new)
        reason = f"the event was counted on one side only ({has.name})"
        if (scope, event) in of_base and (scope, event) in of_new:
            units = sorted(_units_of(scope, event, base) | _units_of(scope, event, new))
            reason = (
                f"the runs report the event in different units: {', '.join(units)}"
                if len(units) > 1
                else "the rate is unknown, because neither the run time nor the number of "
                "operations was recorded"
            )
        yield NotCounted(side=lacks.name, scope=scope, event=event, reason=reason)


def _units_of(scope: Scope, event: str, captured: _Captured) -> set[str]:
    return {
        count.unit
        for run in captured.runs
        for key, count in run.content.counts.items()
        if (key.scope, key.event) == (scope, event)
    }


def _events(
    captured: _Captured, points: Collection[tuple[str, str]]
) -> dict[tuple[Scope, str], None]:
    return {
        (key.scope, key.event): None
        for run in captured.runs
        if run.key.at in points
        for key in run.content.counts
    }


def _once_an_event(entries: Iterable[NotCounted]) -> tuple[NotCounted, ...]:
    # The reason from perf comes first: it is more specific than "counted on one side only".
    first: dict[tuple[str, str, str], NotCounted] = {}
    for entry in entries:
        first.setdefault((entry.side, entry.scope, entry.event), entry)
    return tuple(first.values())
