# SPDX-License-Identifier: GPL-2.0-or-later
"""Divide waiting and blocked time by reason, from ``waits.json`` of instrumented runs.

>>> parse_waits(
...     b'{"schema": "schedperf/bpf_account/1", "seconds": 1.5, "tasks": 2, "unfinished": 0,'
...     b' "left_out": 0, "missed": 0, "migrations": 3, "parts": {'
...     b' "woken": {"seconds": 0.25, "count": 9}, "preempted": {"seconds": 2, "count": 5},'
...     b' "yielded": {"seconds": 0, "count": 0},'
...     b' "throttled": null, "io": {"seconds": 0, "count": 0},'
...     b' "other": {"seconds": 1, "count": 7}}}', "waits.json",
... ).times
{'preempted': 2.0, 'woken': 0.25, 'yielded': 0.0, 'io': 0.0, 'other': 1.0}
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from schedperf.evidence.account.capture import Seconds
from schedperf.evidence.account.contributions import contributions
from schedperf.evidence.account.divisor import divide_by, per_operation
from schedperf.evidence.account.record import (
    SUB_PARTS,
    DividedKind,
    DividedPoint,
    DividedRow,
    SubPart,
    SubPartChange,
)
from schedperf.evidence.account.times import read_cpu_s
from schedperf.inputs.bundle.json import Count, decode
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.counted import Basis
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.stats.counted.rates import Measure, Measures, compare_rates

FOLDER, FILE_NAME = "bpf_account", "waits.json"
LARGEST_BYTES = 1 << 16
# Smallest fraction of missed events of a side that gives a note.
LEAST_MISSED = 0.01
PARTS: tuple[SubPart, ...] = tuple(part for parts in SUB_PARTS.values() for part in parts)
_NOT_TOLD_APART = (
    "waits of throttled tasks are counted as preempted, because the kernel of a side does not tell "
    "them apart (before Linux 6.18)"
)


class Waited(Struct, frozen=True, kw_only=True):
    """How long and how often tasks waited or were blocked for one reason."""

    seconds: Seconds
    count: Count


class Waits(Struct, frozen=True, kw_only=True):
    """The waits of a run by reason; None if the kernel does not show them."""

    preempted: Waited | None
    woken: Waited | None
    yielded: Waited | None
    throttled: Waited | None
    io: Waited | None
    other: Waited


class WaitsFile(Struct, frozen=True, kw_only=True):
    """The waits of one run; keys as in docs/bundle.md.

    :param left_out: tasks that are in no sum
    :param unfinished: tasks that still existed at the end of the run
    :param migrations: moves between CPUs; None if they were not recorded
    :param missed: events whose preceding event was not reported
    """

    schema: Literal["schedperf/bpf_account/1"]
    seconds: Seconds
    tasks: Count
    left_out: Count
    unfinished: Count
    missed: Count
    migrations: Count | None
    parts: Waits

    @property
    def times(self) -> dict[SubPart, float]:
        """Return the time of each part that the kernel shows, in s."""
        waits: Mapping[SubPart, Waited | None] = {part: getattr(self.parts, part) for part in PARTS}
        return {part: waited.seconds for part, waited in waits.items() if waited is not None}

    @property
    def events(self) -> int:
        """Return how often tasks waited or were blocked."""
        waits: Iterator[Waited | None] = (getattr(self.parts, part) for part in PARTS)
        return sum(waited.count for waited in waits if waited is not None)


class WaitsOfRun(Struct, frozen=True, kw_only=True):
    """The waits of a run.

    :param cpu_s: CPU time of its resource usage in s
    :param times: time of each part in s
    """

    cpu_s: float
    file: WaitsFile
    times: Mapping[SubPart, float]


class Divided(Struct, frozen=True, kw_only=True):
    """How waiting and blocked time divide, for all points; all empty without instrumented runs."""

    points: tuple[DividedPoint, ...] = ()
    rows: tuple[DividedRow, ...] = ()
    notes: tuple[str, ...] = ()


def parse_waits(content: bytes, where: str) -> WaitsFile:
    """Parse waits.json.

    :param where: bundle and member, for messages
    :raises BundleError: the file is damaged
    """
    return decode(content, WaitsFile, where)


def divide_waits(sides: Sequence[Side]) -> Divided:
    """Compare the waits of the runs in which they were recorded, for each workload and point."""
    loaded = load_captured(sides, FOLDER, _read)
    shows_throttled = {
        "throttled" in run.content.times for captured in loaded for run in captured.runs
    }
    is_mixed = len(shows_throttled) > 1
    if is_mixed:
        loaded = [captured.having(_without_throttled) for captured in loaded]
    base, *others = loaded
    rows = [row for new in others for row in _compare(base, new)]
    return Divided(
        points=tuple(point for new in others for point in _points(base, new, rows)),
        rows=tuple(rows),
        notes=(
            *_gaps(sides, loaded),
            *(note for side in loaded for note in _notes(side)),
            *((_NOT_TOLD_APART,) if is_mixed else ()),
        ),
    )


def _without_throttled(run: Captured[WaitsOfRun]) -> WaitsOfRun:
    """Return the waits as a kernel before Linux 6.18 shows them.

    A task that is throttled while it runs leaves its CPU in the state "running".
    """
    times = dict(run.content.times)
    throttled_s = times.pop("throttled", 0.0)
    if "preempted" in times:
        times["preempted"] += throttled_s
    return replace(run.content, times=times)


def _read(side: Side, run: Run) -> WaitsOfRun:
    name = f"{run.folder}/{FOLDER}/{FILE_NAME}"
    where = f"{side.bundle.path}: {name}"
    cpu_s = read_cpu_s(run, where)
    file = parse_waits(side.bundle.read_captured(name, LARGEST_BYTES), where)
    return WaitsOfRun(cpu_s=cpu_s, file=file, times=file.times)


def _gaps(sides: Sequence[Side], loaded: Sequence[SideOf[WaitsOfRun]]) -> Iterator[str]:
    """Yield why waits are not divided, if only some of the sides have them."""
    if any(captured.runs for captured in loaded):
        for side, captured in zip(sides, loaded, strict=True):
            if not captured.runs and not captured.notes:
                yield f"waits are not divided: {why_nothing(side, FOLDER)}"


def _notes(side: SideOf[WaitsOfRun]) -> Iterator[str]:
    yield from side.notes
    files = [run.content.file for run in side.runs]
    for count, what in [
        (sum(file.left_out for file in files), "left out, for lack of memory"),
        (sum(file.unfinished for file in files), "not ended, and the last wait left out"),
    ]:
        if count:
            tasks = "1 task" if count == 1 else f"{count} tasks"
            yield f"{side.name}: of the tasks whose waits are divided: {tasks} {what}"
    missed, events = sum(file.missed for file in files), sum(file.events for file in files)
    if missed > LEAST_MISSED * events:
        yield (
            f"{side.name}: BPF did not see all events of {missed} of {events} waits, so their "
            "reasons may be wrong"
        )


def _compare(base: SideOf[WaitsOfRun], new: SideOf[WaitsOfRun]) -> Iterator[DividedRow]:
    rates = compare_rates(base.having(_measures), new.having(_measures))
    for index, (question, rate) in enumerate(rates.items()):
        yield DividedRow(
            row=f"{new.name}-divided-{index}",
            side=new.name,
            workload=question.workload,
            point=question.point,
            basis=question.basis,
            kind=question.key,
            **rate.as_fields(),
        )


def _measures(run: Captured[WaitsOfRun]) -> Measures[DividedKind]:
    basis, count, per = divide_by(run)
    file = run.content.file
    times = run.content.times
    measures: dict[tuple[DividedKind, Basis], Measure] = {
        (part, basis): Measure(time_s / count, f"s/{per}")
        for part, time_s in times.items()
        # Without I/O, this is all blocked time.
        if part != "other" or "io" in times
    }
    if file.migrations is not None:
        measures["migrations", basis] = Measure(file.migrations / count, f"1/{per}")
    return measures


def _points(
    base: SideOf[WaitsOfRun], new: SideOf[WaitsOfRun], rows: Sequence[DividedRow]
) -> Iterator[DividedPoint]:
    of_base, of_new = base.by_point(), new.by_point()
    # Any row of a time stands for its point.
    times = (row for row in rows if row.side == new.name and row.kind != "migrations")
    of_points = {(row.workload, row.point, row.basis): row for row in times}
    for row in of_points.values():
        at = row.workload, row.point
        runs = [
            [run for run in runs if divide_by(run)[0] == row.basis]
            for runs in (of_base[at], of_new[at])
        ]
        point = _divide(row, runs)
        if point is not None:
            yield point


def _times(waits: WaitsOfRun, parts: Sequence[SubPart]) -> list[float]:
    return [*(waits.times[part] for part in parts), waits.cpu_s]


def _divide(row: DividedRow, runs: Sequence[Sequence[Captured[WaitsOfRun]]]) -> DividedPoint | None:
    waits = [run.content for side in runs for run in side]
    parts = [part for part in PARTS if all(part in each.times for each in waits)]
    changes = contributions(row, runs, lambda run: per_operation(run, _times(run.content, parts)))
    if changes is None:
        return None
    # The last two are the CPU time, and all thread-time.
    return DividedPoint(
        side=row.side,
        workload=row.workload,
        point=row.point,
        basis=row.basis,
        unit=row.unit,
        n_base=row.n_base,
        n_new=row.n_new,
        replication=row.replication,
        parts=tuple(
            SubPartChange(part=part, **asdict(change))
            for part, change in zip(parts, changes[:-2], strict=True)
        ),
        missing=tuple(part for part in PARTS if part not in parts),
    )
