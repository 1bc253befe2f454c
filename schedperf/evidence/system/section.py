# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare CPU, interrupt, power and cgroup counters around the runs of base and new.

Throttling of cgroups, power, frequencies, stalls of tasks (PSI), idle states, interrupts,
softirqs, and statistics of the workload's tasks. More is neither better nor worse, so they get no
verdict.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from msgspec.structs import replace

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
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.function_names import function_names
from schedperf.model.run import Captured, SideOf
from schedperf.runs.captured import load_captured, why_nothing

# Reading task statistics disturbs the tasks, so only instrumented runs have them.
TASKS_FOLDER = "task_sched"

Loaded = SideOf[SystemCounts]


@section(SystemCounters)
def system_counters(sides: Sequence[Side]) -> SystemCounters:
    """Compare each counter between the sides, for each workload and point.

    :raises Absent: a side has no run with readable counters, or base has no counter in common with
        a new side
    """
    loaded = load_captured(sides, FOLDER, read_system_counters)
    for side, counts in zip(sides, loaded, strict=True):
        if not counts.runs:
            raise Absent(counts.notes[0] if counts.notes else why_nothing(side, FOLDER))
    tasks = load_captured(sides, TASKS_FOLDER, read_task_counters)
    captured = list(zip(loaded, tasks, map(_count_by_boot, sides), strict=True))
    base, *others = [_measure_side(*inputs) for inputs in captured]
    rows = [row for new in others for row in compare_measures(base, new)]
    if not rows:
        raise Absent("base and new have no counter in common")
    settings, unknown = compare_settings(sides)
    names = function_names(sides)
    return SystemCounters(
        sides=tuple(_describe(*inputs) for inputs in captured),
        rows=tuple(
            replace(row, function=names[row.side].in_text(row.function))
            for row in rows
            if not is_zero(row)
        ),
        zeros=describe_zeros(rows),
        cpus=tuple(row for new in loaded[1:] for row in compare_loaded(loaded[0], new)),
        settings=tuple(settings),
        missing=(*(row for counts in loaded for row in _missing(counts)), *unknown),
        not_compared=tuple(refusal for new in others for refusal in describe_refusals(base, new)),
        notes=tuple(note for inputs in captured for note in _notes(*inputs[:2])),
    )


def _count_by_boot(side: Side) -> Mapping[int, Cpus]:
    return {boot.number: count_cpus(boot.host.topology) for boot in side.bundle.boots}


def _measure_side(captured: Loaded, tasks: Loaded, cpus: Mapping[int, Cpus]) -> Measured:
    def measured(run: Captured[SystemCounts], *, has_totals: bool) -> Captured[RunMeasures]:
        counts = run.content.counts.items() if has_totals else ()
        totals = {
            key: value.value
            for key, value in counts
            if value.kind == "count" and not value.is_partial
        }
        measures = measure(run, cpus[run.key.boot])
        return run.having(RunMeasures(measures=measures, totals=totals))

    # Task statistics have no totals.
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
    recorded = [share for share in shares if share is not None]
    return fmean(recorded) if recorded else None


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
    notes = [note for run in (*captured.runs, *tasks.runs) for note in run.content.notes]
    for note in dict.fromkeys(notes):
        times = f" ({notes.count(note)} runs)" if notes.count(note) > 1 else ""
        yield f"{captured.name}: {note}{times}"
