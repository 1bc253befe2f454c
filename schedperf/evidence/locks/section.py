# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the waits for locks of base and new: number, time and 99th percentile, by lock and stack.

Waits are divided by the operations of the run, and by its time. The locks with the longest waits
have rows of their own, and so have the stacks that wait longest for each of them, and the owners
that they wait for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from schedperf.evidence import Absent, section
from schedperf.evidence.locks.capture import Lock, LocksCapture, Owner, Wait, parse_locks
from schedperf.evidence.locks.record import Field, LockRow, Locks, LocksSide
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.run import Captured, SideOf
from schedperf.model.units import NANOSECOND_S
from schedperf.runs.captured import count_notes, load_captured, why_nothing
from schedperf.runs.stacks import Durations, sum_costs
from schedperf.stats.counted.rates import Measure
from schedperf.stats.counted.sums import ComparedSum, Sums, compare_with_first, largest

FOLDER = "bpf_locks"
LARGEST_BYTES = 64 << 20
# Locks with rows of their own, and stacks and owners of each, per point; a lock has at least this
# part of all wait time, because each row makes the correction for multiple testing stricter.
MOST_LOCKS, MOST_STACKS, MOST_OWNERS = 15, 2, 2
LEAST_PART = 0.005
P99 = 0.99
ALL = Lock("", "symbol", "other")

Point = tuple[str, str]


class Subject(NamedTuple):
    """What waits are summed for.

    :param node: None for all nodes
    :param functions: () for all stacks
    :param owner: None for all
    """

    lock: Lock
    node: int | None = None
    functions: tuple[str, ...] = ()
    owner: Owner | None = None


class Key(NamedTuple):
    """A row: the subject and what is summed."""

    subject: Subject
    field: Field


@section(Locks)
def locks(sides: Sequence[Side]) -> Locks:
    """Compare the waits for locks of each workload and point.

    :raises Absent: a side has no run with a readable capture, or nothing waited for a lock
    """
    loaded = load_captured(sides, FOLDER, _read)
    for side, captured in zip(sides, loaded, strict=True):
        if not captured.runs:
            raise Absent(captured.notes[0] if captured.notes else why_nothing(side, FOLDER))
    return analyse_sides(loaded)


def _read(side: Side, run: Run) -> LocksCapture:
    name = f"{run.folder}/{FOLDER}/locks.json"
    return parse_locks(side.bundle.read(name, LARGEST_BYTES), f"{side.bundle.path}: {name}")


def analyse_sides(sides: Sequence[SideOf[LocksCapture]]) -> Locks:
    """Compare each side with the first; describe a single side.

    :param sides: sides with at least one run
    :raises Absent: nothing waited for a lock
    """
    if not any(run.content.waits for side in sides for run in side.runs):
        raise Absent("no task of the workload waited for a lock of the kernel")
    chosen = _choose(sides)
    summed = [side.having(lambda run: _sums(run, chosen[run.key.at])) for side in sides]
    named = {subject.lock for subjects in chosen.values() for subject in subjects}
    seen = {wait.lock for side in sides for run in side.runs for wait in run.content.waits}
    return Locks(
        sides=tuple(map(_describe, sides)),
        rows=tuple(map(_row, compare_with_first(summed, _order))),
        left_out=len(seen - named),
        notes=tuple(note for side in sides for note in _notes(side)),
    )


def _choose(sides: Sequence[SideOf[LocksCapture]]) -> Mapping[Point, frozenset[Subject]]:
    """Return the subjects of each point: all locks, the longest waits, their parts."""
    by_lock = largest(tuple(side.having(_ns_of_locks) for side in sides), MOST_LOCKS, LEAST_PART)
    parts = largest(tuple(side.having(_ns_of_parts) for side in sides), 1 << 20)
    nodes = {wait.node for side in sides for run in side.runs for wait in run.content.waits}
    chosen: dict[Point, frozenset[Subject]] = {}
    for point, chosen_locks in by_lock.items():
        subjects = [Subject(ALL), *map(Subject, chosen_locks)]
        if len(nodes) > 1:
            subjects += [Subject(lock, node) for lock in (ALL, *chosen_locks) for node in nodes]
        numbers: Counter[tuple[Lock, bool]] = Counter()
        for part in parts[point]:
            kind = part.lock, part.owner is not None
            most = MOST_STACKS if part.owner is None else MOST_OWNERS
            if part.lock in chosen_locks and numbers[kind] < most:
                numbers[kind] += 1
                subjects.append(part)
        chosen[point] = frozenset(subjects)
    return chosen


def _ns_of_locks(run: Captured[LocksCapture]) -> Mapping[Lock, float]:
    ns: dict[Lock, float] = {}
    for wait in run.content.waits:
        ns[wait.lock] = ns.get(wait.lock, 0.0) + wait.durations.ns
    return ns


def _ns_of_parts(run: Captured[LocksCapture]) -> Mapping[Subject, float]:
    ns: dict[Subject, float] = {}
    for wait in run.content.waits:
        for part in _parts_of(wait):
            ns[part] = ns.get(part, 0.0) + wait.durations.ns
    return ns


def _parts_of(wait: Wait) -> Iterator[Subject]:
    """Yield the stack and the owner of a wait, as far as they are known."""
    if wait.functions:
        yield Subject(wait.lock, functions=wait.functions)
    if wait.owner is not None:
        yield Subject(wait.lock, owner=wait.owner)


def _sums(run: Captured[LocksCapture], chosen: frozenset[Subject]) -> Sums[Key]:
    parts = dict.fromkeys(chosen, Durations())
    for wait in run.content.waits:
        for subject in _subjects_of(wait):
            if subject in parts:
                parts[subject] = parts[subject] + wait.durations
    sums: dict[Key, Measure] = {}
    statistics: dict[Key, Measure] = {}
    for subject, durations in parts.items():
        sums[Key(subject, "wait time")] = Measure(durations.ns * NANOSECOND_S, "s")
        sums[Key(subject, "waits")] = Measure(float(durations.count), "1")
        p99_ns = durations.quantile_ns(P99)
        if p99_ns is not None and not subject.functions and subject.owner is None:
            statistics[Key(subject, "p99")] = Measure(p99_ns * NANOSECOND_S, "s")
    return Sums(seconds=run.content.seconds, sums=sums, statistics=statistics)


def _subjects_of(wait: Wait) -> Iterator[Subject]:
    yield Subject(ALL)
    yield Subject(ALL, wait.node)
    yield Subject(wait.lock)
    yield Subject(wait.lock, wait.node)
    yield from _parts_of(wait)


def _row(compared: ComparedSum[Key]) -> LockRow:
    subject, field = compared.question.key
    return LockRow(
        lock=subject.lock.name,
        named_by=subject.lock.named_by,
        type=None if subject.lock == ALL else subject.lock.type,
        node=subject.node,
        functions=subject.functions,
        owner="" if subject.owner is None else subject.owner.command,
        released_in="" if subject.owner is None else subject.owner.function,
        field=field,
        **compared.as_fields(),
    )


def _order(key: Key, size: float) -> tuple[bool, bool, bool, bool, str, float]:
    # All locks first, then locks, nodes, stacks and owners; of each, the largest first.
    subject = key.subject
    fields = ("wait time", "waits", "p99")
    return (
        subject.owner is not None,
        bool(subject.functions),
        subject.node is not None,
        subject.lock != ALL,
        str(fields.index(key.field)),
        -size,
    )


def _describe(side: SideOf[LocksCapture]) -> LocksSide:
    return LocksSide(
        side=side.name,
        runs=len(side.runs),
        seconds=sum(run.content.seconds for run in side.runs),
        waits=sum(wait.durations.count for run in side.runs for wait in run.content.waits),
        lost=sum(sum(run.content.lost.values()) for run in side.runs),
        probes=sum_costs(run.content.costs for run in side.runs),
    )


def _notes(side: SideOf[LocksCapture]) -> Iterator[str]:
    yield from side.notes
    notes = [note for run in side.runs for note in run.content.notes]
    lost = Counter[str]()
    for run in side.runs:
        lost.update(run.content.lost)
    notes += [f"events lost: {count} ({name})" for name, count in lost.items() if count]
    yield from count_notes(side.name, notes)
