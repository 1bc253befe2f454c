# SPDX-License-Identifier: GPL-2.0-or-later
"""System counters: what CPUs, interrupts, power and cgroups did around the runs, new vs base.

Throttling of cgroups, power, frequencies, stalls of tasks (PSI), idle states, interrupts,
softirqs, and the statistics of the workload's own tasks. They say what happened more often,
never whether it was worse, so they get no verdict.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from schedperf.evidence import Absent, section
from schedperf.evidence.system.capture import (
    FOLDER,
    SystemCounts,
    read_system_counters,
    read_task_counters,
)
from schedperf.evidence.system.compare import (
    Measured,
    RunMeasures,
    compare_loaded,
    compare_measures,
    compare_settings,
    describe_refusals,
    describe_zeros,
    is_zero,
)
from schedperf.evidence.system.measure import Cpus, accounted_share, count_cpus, measure
from schedperf.evidence.system.record import SystemCounters, SystemMissing, SystemSide
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured, why_nothing
from schedperf.runs.side import Side

# Looks at the tasks disturb them, so they are in instrumented runs alone.
TASKS_FOLDER = "task_sched"

Loaded = SideOf[SystemCounts]


@section(SystemCounters)
def system_counters(sides: Sequence[Side]) -> SystemCounters:
    """Compare each count of the runs of one workload and point, side by side."""
    loaded = load_captured(sides, FOLDER, read_system_counters)
    for side, found in zip(sides, loaded, strict=True):
        if not found.runs:
            raise Absent(found.notes[0] if found.notes else why_nothing(side, FOLDER))
    tasks = load_captured(sides, TASKS_FOLDER, read_task_counters)
    captured = list(zip(loaded, tasks, map(_count_by_boot, sides), strict=True))
    base, *others = [_measure_side(*one) for one in captured]
    rows = [row for other in others for row in compare_measures(base, other)]
    if not rows:
        raise Absent("no counter is present on both sides")
    settings, unknown = compare_settings(sides)
    return SystemCounters(
        sides=tuple(_describe(*one) for one in captured),
        rows=tuple(row for row in rows if not is_zero(row)),
        zeros=describe_zeros(rows),
        cpus=tuple(row for other in loaded[1:] for row in compare_loaded(loaded[0], other)),
        settings=tuple(settings),
        missing=(*(one for found in loaded for one in _missing(found)), *unknown),
        not_compared=tuple(one for other in others for one in describe_refusals(base, other)),
        notes=tuple(note for one in captured for note in _notes(*one[:2])),
    )


def _count_by_boot(side: Side) -> Mapping[int, Cpus]:
    return {boot.number: count_cpus(boot.host.topology) for boot in side.bundle.boots}


def _measure_side(captured: Loaded, tasks: Loaded, cpus: Mapping[int, Cpus]) -> Measured:
    def measured(run: Captured[SystemCounts], *, has_totals: bool) -> Captured[RunMeasures]:
        counts = run.content.counts.items() if has_totals else ()
        totals = {key: value.value for key, value in counts if value.kind == "count"}
        measures = measure(run, cpus[run.key.boot])
        return run.having(RunMeasures(measures=measures, totals=totals))

    # Looks at the tasks count nothing that is added up.
    runs = (
        *(measured(run, has_totals=True) for run in captured.runs),
        *(measured(run, has_totals=False) for run in tasks.runs),
    )
    return SideOf(name=captured.name, kind=captured.kind, runs=runs)


def _describe(captured: Loaded, tasks: Loaded, cpus: Mapping[int, Cpus]) -> SystemSide:
    seconds = [run.content.seconds for run in captured.runs if run.content.seconds is not None]
    return SystemSide(
        side=captured.name,
        runs=len(captured.runs),
        kind=captured.kind,
        seconds=sum(seconds) if len(seconds) == len(captured.runs) else None,
        task_runs=len(tasks.runs),
        cpus=next(iter(cpus.values()))[None],
        accounted=_accounted(captured, cpus),
    )


def _accounted(captured: Loaded, cpus: Mapping[int, Cpus]) -> float | None:
    shares = [accounted_share(run, cpus[run.key.boot]) for run in captured.runs]
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


def _missing(captured: Loaded) -> Iterator[SystemMissing]:
    reasons = {
        (what, reason): None
        for run in captured.runs
        for what, reason in run.content.missing.items()
    }
    for what, reason in reasons:
        yield SystemMissing(side=captured.name, what=what, reason=reason)


def _notes(captured: Loaded, tasks: Loaded) -> Iterator[str]:
    yield from (*captured.notes, *tasks.notes)
    told = [note for run in (*captured.runs, *tasks.runs) for note in run.content.notes]
    for note in dict.fromkeys(told):
        times = f" ({told.count(note)} runs)" if told.count(note) > 1 else ""
        yield f"{captured.name}: {note}{times}"
