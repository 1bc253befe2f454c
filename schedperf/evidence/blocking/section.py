# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the blocked times of base and new: by cause, by function, by waker and by stack.

Times are divided by the operations of the run, and by its time. The functions, wakers and stacks
with the longest times have rows of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence import Absent, section
from schedperf.evidence.blocking.capture import parse_blocking
from schedperf.evidence.blocking.causes import cause_of
from schedperf.evidence.blocking.record import Blocking, BlockingRow, BlockingSide, By, Field
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.run import Captured, SideOf
from schedperf.model.units import NANOSECOND_S
from schedperf.runs.captured import count_notes, load_captured, why_nothing
from schedperf.runs.off_cpu import OffCpu, Pause, describe_losses, user_function
from schedperf.runs.stacks import Durations, Frame, Stack, sum_costs
from schedperf.stats.counted.rates import Measure
from schedperf.stats.counted.sums import Sums, compare_with_first, largest_of_kinds

FOLDER = "bpf_blocking"
LARGEST_BYTES = 64 << 20
# Rows of each kind per point; each has at least this part of all blocked time.
MOST_OF_KIND: Mapping[By, int] = {"all": 1, "cause": 10, "function": 10, "waker": 8, "stack": 12}
LEAST_PART = 0.005
P99 = 0.99
UNKNOWN_WAKER = "(unknown)"

Point = tuple[str, str]


class Subject(NamedTuple):
    """What blocked times are summed for; see :class:`BlockingRow`."""

    by: By
    cause: str = ""
    function: str = ""
    program: str = ""
    waker: str = ""
    stack: tuple[str, ...] = ()


class Key(NamedTuple):
    """A row: the subject and what is summed."""

    subject: Subject
    field: Field


class _Sum(NamedTuple):
    durations: Durations = Durations()
    runnable_ns: int = 0


class _RunSums(NamedTuple):
    seconds: float
    sums: Mapping[Subject, _Sum]


@section(Blocking)
def blocking(sides: Sequence[Side]) -> Blocking:
    """Compare the blocked times of each workload and point.

    :raises Absent: a side has no run with a readable capture, or no task was blocked
    """
    return analyse_sides(load_sides(sides))


def load_sides(sides: Sequence[Side]) -> list[SideOf[OffCpu]]:
    """Read the blocked times of all sides.

    :raises Absent: a side has no run with a readable capture
    """
    loaded = load_captured(sides, FOLDER, _read)
    for side, captured in zip(sides, loaded, strict=True):
        if not captured.runs:
            raise Absent(captured.notes[0] if captured.notes else why_nothing(side, FOLDER))
    return loaded


def _read(side: Side, run: Run) -> OffCpu:
    name = f"{run.folder}/{FOLDER}/blocking.json"
    return parse_blocking(side.bundle.read(name, LARGEST_BYTES), f"{side.bundle.path}: {name}")


def analyse_sides(sides: Sequence[SideOf[OffCpu]]) -> Blocking:
    """Compare each side with the first; describe a single side.

    :param sides: sides with at least one run
    :raises Absent: no task was blocked
    """
    if not any(run.content.pauses for side in sides for run in side.runs):
        raise Absent("no task of the workload was blocked")
    summed = [side.having(_sums) for side in sides]
    ns = [side.having(_ns) for side in summed]
    chosen = largest_of_kinds(ns, lambda subject: subject.by, MOST_OF_KIND.items(), LEAST_PART)
    measured = [
        side.having(lambda run: _measures(run.content, chosen[run.key.at])) for side in summed
    ]
    return Blocking(
        sides=tuple(map(_describe, sides)),
        rows=tuple(
            BlockingRow(
                **each.question.key.subject._asdict(),
                field=each.question.key.field,
                **each.as_fields(),
            )
            for each in compare_with_first(measured, _order)
        ),
        notes=tuple(note for side in sides for note in _notes(side)),
    )


def _sums(run: Captured[OffCpu]) -> _RunSums:
    sums: dict[Subject, _Sum] = {}
    for pause in run.content.pauses:
        for subject in _subjects_of(pause):
            before = sums.get(subject, _Sum())
            sums[subject] = _Sum(
                before.durations + pause.durations, before.runnable_ns + pause.runnable_ns
            )
    return _RunSums(run.content.seconds, sums)


def _subjects_of(pause: Pause) -> Iterator[Subject]:
    cause = cause_of(pause.kernel, pause.state)
    yield Subject("all")
    yield Subject("cause", cause)
    waker = UNKNOWN_WAKER if pause.who is None else pause.who.partition("/")[0]
    yield Subject("waker", waker=waker)
    function = user_function(pause.user)
    if function is not None:
        yield Subject("function", cause, function.function, function.program)
    stack = (*_names(pause.kernel), *_names(pause.user))
    if stack:
        yield Subject("stack", cause, stack=stack)


def frames_of(stack: Stack | None) -> Iterator[Frame]:
    """Yield the frames of a stack, innermost first, without the scheduler's own functions."""
    for frame in stack or ():
        if frame.function not in ("__schedule", "schedule"):
            yield frame


def _names(stack: Stack | None) -> Iterator[str]:
    for frame in frames_of(stack):
        yield frame.function or (f"[{frame.program}]" if frame.program else "[unknown]")


def _ns(run: Captured[_RunSums]) -> Mapping[Subject, float]:
    return {subject: float(total.durations.ns) for subject, total in run.content.sums.items()}


def _measures(content: _RunSums, chosen: frozenset[Subject]) -> Sums[Key]:
    sums: dict[Key, Measure] = {}
    statistics: dict[Key, Measure] = {}
    for subject, (durations, runnable_ns) in content.sums.items():
        if subject not in chosen:
            continue
        blocked_s = (durations.ns - runnable_ns) * NANOSECOND_S
        sums[Key(subject, "blocked")] = Measure(blocked_s, "s")
        sums[Key(subject, "times")] = Measure(float(durations.count), "1")
        if subject.by != "stack":
            sums[Key(subject, "runnable")] = Measure(runnable_ns * NANOSECOND_S, "s")
        p99_ns = durations.quantile_ns(P99)
        if p99_ns is not None and subject.by in ("all", "cause"):
            statistics[Key(subject, "p99")] = Measure(p99_ns * NANOSECOND_S, "s")
    return Sums(seconds=content.seconds, sums=sums, statistics=statistics)


def _order(key: Key, size: float) -> tuple[int, int, float]:
    # Kinds in their order; of each, blocked times first, the longest first.
    fields: tuple[Field, ...] = ("blocked", "runnable", "times", "p99")
    return list(MOST_OF_KIND).index(key.subject.by), fields.index(key.field), -size


def _describe(side: SideOf[OffCpu]) -> BlockingSide:
    contents = [run.content for run in side.runs]
    return BlockingSide(
        side=side.name,
        runs=len(contents),
        seconds=sum(content.seconds for content in contents),
        times=sum(pause.durations.count for content in contents for pause in content.pauses),
        least_s=max(content.least_ns for content in contents) * NANOSECOND_S,
        shorter=sum(content.shorter for content in contents),
        lost=sum(sum(content.lost.values()) for content in contents),
        probes=sum_costs(content.costs for content in contents),
    )


def _notes(side: SideOf[OffCpu]) -> Iterator[str]:
    yield from side.notes
    yield from count_notes(side.name, (note for run in side.runs for note in run.content.notes))
    for note in describe_losses([run.content for run in side.runs]):
        yield f"{side.name}: {note}"
