# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare preemptions of base and new: number and wait, by place, by function and by preemptor.

Preemptions are divided by the operations of the run, and by its time. The functions and preemptors
with the longest waits have rows of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence import Absent, section
from schedperf.evidence.preemption.capture import PreemptionCapture, parse_preemption
from schedperf.evidence.preemption.places import kernel_function, place_of
from schedperf.evidence.preemption.record import (
    By,
    Field,
    Place,
    Preemption,
    PreemptionRow,
    PreemptionSide,
)
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.run import Captured, SideOf
from schedperf.model.units import NANOSECOND_S
from schedperf.runs.captured import count_notes, load_captured, why_nothing
from schedperf.runs.off_cpu import Pause, describe_losses, user_function
from schedperf.runs.stacks import Durations, sum_costs
from schedperf.stats.counted.rates import Measure
from schedperf.stats.counted.sums import Sums, compare_with_first, largest_of_kinds

FOLDER = "bpf_preemption"
LARGEST_BYTES = 64 << 20
# Functions and preemptors with rows of their own, per point.
MOST_OF_KIND: Mapping[By, int] = {"all": 1, "place": 8, "function": 12, "preemptor": 8}
P99 = 0.99

Point = tuple[str, str]


class Subject(NamedTuple):
    """What preemptions are summed for; see :class:`PreemptionRow`."""

    by: By
    place: Place | None = None
    function: str = ""
    program: str = ""
    kernel_function: str = ""
    preemptor: str = ""


class Key(NamedTuple):
    """A row: the subject and what is summed."""

    subject: Subject
    field: Field


class _Sum(NamedTuple):
    durations: Durations = Durations()
    slice_left_ns: int | None = 0


@section(Preemption)
def preemption(sides: Sequence[Side]) -> Preemption:
    """Compare the preemptions of each workload and point.

    :raises Absent: a side has no run with a readable capture, or no task was preempted
    """
    loaded = load_captured(sides, FOLDER, _read)
    for side, captured in zip(sides, loaded, strict=True):
        if not captured.runs:
            raise Absent(captured.notes[0] if captured.notes else why_nothing(side, FOLDER))
    return analyse_sides(loaded, [_hz(side) for side in sides])


def _hz(side: Side) -> int | None:
    return next((boot.host.sched.hz for boot in side.bundle.boots), None)


def _read(side: Side, run: Run) -> PreemptionCapture:
    name = f"{run.folder}/{FOLDER}/preemption.json"
    return parse_preemption(side.bundle.read(name, LARGEST_BYTES), f"{side.bundle.path}: {name}")


def analyse_sides(
    sides: Sequence[SideOf[PreemptionCapture]], hz: Sequence[int | None]
) -> Preemption:
    """Compare each side with the first; describe a single side.

    :param sides: sides with at least one run
    :param hz: CONFIG_HZ of each side
    :raises Absent: no task was preempted
    """
    if not any(run.content.off_cpu.pauses for side in sides for run in side.runs):
        raise Absent("no task of the workload was preempted")
    summed = [side.having(_sums) for side in sides]
    ns = [side.having(_ns) for side in summed]
    chosen = largest_of_kinds(ns, lambda subject: subject.by, MOST_OF_KIND.items())
    measured = [
        side.having(lambda run: _measures(run.content, chosen[run.key.at])) for side in summed
    ]
    return Preemption(
        sides=tuple(_describe(side, each) for side, each in zip(sides, hz, strict=True)),
        rows=tuple(
            PreemptionRow(
                **each.question.key.subject._asdict(),
                field=each.question.key.field,
                **each.as_fields(),
            )
            for each in compare_with_first(measured, _order)
        ),
        notes=tuple(note for side in sides for note in _notes(side)),
    )


class _RunSums(NamedTuple):
    seconds: float
    sums: Mapping[Subject, _Sum]


def _sums(run: Captured[PreemptionCapture]) -> _RunSums:
    sums: dict[Subject, _Sum] = {}
    for pause in run.content.off_cpu.pauses:
        for subject in _subjects_of(pause):
            before = sums.get(subject, _Sum())
            known = None not in (before.slice_left_ns, pause.slice_left_ns)
            sums[subject] = _Sum(
                before.durations + pause.durations,
                (before.slice_left_ns or 0) + (pause.slice_left_ns or 0) if known else None,
            )
    return _RunSums(run.content.off_cpu.seconds, sums)


def _subjects_of(pause: Pause) -> Iterator[Subject]:
    place = place_of(pause)
    yield Subject("all")
    yield Subject("place", place)
    function = user_function(pause.user)
    if function is not None:
        in_kernel = kernel_function(pause.kernel) if place.startswith("kernel") else ""
        yield Subject("function", place, function.function, function.program, in_kernel)
    if pause.who:
        yield Subject("preemptor", preemptor=pause.who.partition("/")[0])


def _ns(run: Captured[_RunSums]) -> Mapping[Subject, float]:
    return {subject: float(total.durations.ns) for subject, total in run.content.sums.items()}


def _measures(content: _RunSums, chosen: frozenset[Subject]) -> Sums[Key]:
    sums: dict[Key, Measure] = {}
    statistics: dict[Key, Measure] = {}
    for subject, (durations, slice_left_ns) in content.sums.items():
        if subject not in chosen:
            continue
        sums[Key(subject, "wait")] = Measure(durations.ns * NANOSECOND_S, "s")
        sums[Key(subject, "preemptions")] = Measure(float(durations.count), "1")
        if subject.by in ("all", "place"):
            p99_ns = durations.quantile_ns(P99)
            if p99_ns is not None:
                statistics[Key(subject, "p99 wait")] = Measure(p99_ns * NANOSECOND_S, "s")
            if slice_left_ns is not None and durations.count:
                mean_s = slice_left_ns * NANOSECOND_S / durations.count
                statistics[Key(subject, "slice left")] = Measure(mean_s, "s")
    return Sums(seconds=content.seconds, sums=sums, statistics=statistics)


def _order(key: Key, size: float) -> tuple[int, int, float]:
    # Kinds in their order; of each, waits first, the longest first.
    fields: tuple[Field, ...] = ("wait", "preemptions", "p99 wait", "slice left")
    return list(MOST_OF_KIND).index(key.subject.by), fields.index(key.field), -size


def _describe(side: SideOf[PreemptionCapture], hz: int | None) -> PreemptionSide:
    contents = [run.content.off_cpu for run in side.runs]
    models = sorted({run.content.model for run in side.runs if run.content.model})
    return PreemptionSide(
        side=side.name,
        runs=len(contents),
        seconds=sum(content.seconds for content in contents),
        preemptions=sum(pause.durations.count for each in contents for pause in each.pauses),
        model=" or ".join(models) or None,
        hz=hz,
        lost=sum(sum(content.lost.values()) for content in contents),
        probes=sum_costs(content.costs for content in contents),
    )


def _notes(side: SideOf[PreemptionCapture]) -> Iterator[str]:
    yield from side.notes
    contents = [run.content.off_cpu for run in side.runs]
    yield from count_notes(side.name, (note for content in contents for note in content.notes))
    for note in describe_losses(contents):
        yield f"{side.name}: {note}"
