"""System counters: what CPUs, interrupts, power and cgroups did around the runs, base against new.

Throttling of cgroups, power, frequencies, stalls of tasks (PSI), idle states, interrupts,
softirqs, and the statistics of the workload's own tasks. They say what happened more often,
never whether it was worse, so they get no verdict.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from schedperf.evidence import Absent, section
from schedperf.evidence.system.capture import (
    FOLDER,
    SystemCounts,
    SystemKey,
    read_system_counters,
    read_task_counters,
)
from schedperf.evidence.system.cpus import compare_loaded
from schedperf.evidence.system.measures import accounted_share, count_cpus, measure
from schedperf.evidence.system.record import SystemCounters, SystemMissing, SystemSide
from schedperf.evidence.system.rows import (
    SideMeasures,
    compare_measures,
    describe_refusals,
    describe_zeros,
    is_zero,
)
from schedperf.evidence.system.settings import compare_settings
from schedperf.runs.captured import CapturedSide, load_captured, why_nothing
from schedperf.runs.side import Side
from schedperf.stats.counted.rates import CountedSide

# Looks at the tasks disturb them, so they are in instrumented runs alone.
TASKS_FOLDER = "task_sched"

Captured = CapturedSide[SystemCounts]


@section(SystemCounters)
def system_counters(sides: Sequence[Side]) -> SystemCounters:
    """Compare each count of the runs of one workload and point, side by side."""
    loaded = load_captured(sides, FOLDER, read_system_counters)
    for side, found in zip(sides, loaded, strict=True):
        if not found.runs:
            raise Absent(found.notes[0] if found.notes else why_nothing(side, FOLDER))
    tasks = load_captured(sides, TASKS_FOLDER, read_task_counters)
    captured = list(zip(loaded, tasks, strict=True))
    base, *others = [_measure_side(*one) for one in captured]
    rows = [row for other in others for row in compare_measures(base, other)]
    if not rows:
        raise Absent("nothing that was counted is on both sides")
    settings, unknown = compare_settings(sides)
    return SystemCounters(
        sides=tuple(_describe(*one) for one in captured),
        rows=tuple(row for row in rows if not is_zero(row)),
        zeros=describe_zeros(rows),
        cpus=tuple(row for other in loaded[1:] for row in compare_loaded(loaded[0], other)),
        settings=tuple(settings),
        missing=(*(one for found in loaded for one in _missing(found)), *unknown),
        not_compared=tuple(one for other in others for one in describe_refusals(base, other)),
        notes=tuple(note for one in captured for note in _notes(*one)),
    )


def _measure_side(captured: Captured, tasks: Captured) -> SideMeasures:
    cpus = {boot.number: count_cpus(boot.host.topology) for boot in captured.side.bundle.boots}
    totals: dict[tuple[str, str, SystemKey], list[float]] = {}
    for run in captured.runs:
        for key, value in run.content.counts.items():
            if value.kind == "count":
                place = (run.run.workload, run.run.point_key, key)
                totals.setdefault(place, []).append(value.value)
    runs = tuple(
        run.counted(measure(run, cpus[run.run.boot])) for run in (*captured.runs, *tasks.runs)
    )
    return SideMeasures(
        counted=CountedSide(name=captured.side.name, runs=runs),
        totals={place: fmean(values) for place, values in totals.items()},
    )


def _describe(captured: Captured, tasks: Captured) -> SystemSide:
    seconds = [run.content.seconds for run in captured.runs if run.content.seconds is not None]
    return SystemSide(
        side=captured.side.name,
        runs=len(captured.runs),
        kind=captured.runs[0].run.kind,
        seconds=sum(seconds) if len(seconds) == len(captured.runs) else None,
        task_runs=len(tasks.runs),
        cpus=len(captured.side.bundle.boots[0].host.topology.cpus),
        accounted=_accounted(captured),
    )


def _accounted(captured: Captured) -> float | None:
    cpus = {boot.number: count_cpus(boot.host.topology) for boot in captured.side.bundle.boots}
    shares = [accounted_share(run, cpus[run.run.boot]) for run in captured.runs]
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def _missing(captured: Captured) -> Iterator[SystemMissing]:
    reasons = {
        (what, reason): None
        for run in captured.runs
        for what, reason in run.content.missing.items()
    }
    for what, reason in reasons:
        yield SystemMissing(side=captured.side.name, what=what, reason=reason)


def _notes(captured: Captured, tasks: Captured) -> Iterator[str]:
    yield from (*captured.notes, *tasks.notes)
    told = [note for run in (*captured.runs, *tasks.runs) for note in run.content.notes]
    for note in dict.fromkeys(told):
        times = f" ({told.count(note)} runs)" if told.count(note) > 1 else ""
        yield f"{captured.side.name}: {note}{times}"
