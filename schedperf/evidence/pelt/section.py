# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare PELT updates of base and new: their number, contexts and durations.

Calls of ``update_cfs_group`` and related functions per second, per operation and per wakeup, by
node and by context, and their durations. They get no verdict: more calls are neither better nor
worse, and durations include probe overhead.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean

from schedperf.evidence import Absent, section
from schedperf.evidence.needs import WAKEUPS, CountWakeups
from schedperf.evidence.pelt.capture import (
    BREAKPOINT,
    FEWEST_MISMATCHES,
    MOST_NOTES,
    EmptyProbe,
    PeltCapture,
    parse_bpf_pelt,
)
from schedperf.evidence.pelt.comparability import context_notes, functions_of, seen_by, unseen
from schedperf.evidence.pelt.compare import bins_of, cpus_of, rows_of
from schedperf.evidence.pelt.measure import Traced, merge
from schedperf.evidence.pelt.record import (
    CrossCheck,
    Interval,
    Pelt,
    PeltHistogram,
    PeltProbe,
    PeltSide,
)
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.model.run import SideOf
from schedperf.model.sections import MissingSide
from schedperf.model.text import join_names
from schedperf.runs.captured import load_captured, why_nothing

COLLECTOR = "bpf_pelt"
# Limit on the file size: 8192 CPUs with six functions, each with 96 bins and ten contexts, need 17
# MB.
LARGEST_BYTES = 32 << 20
# Limit on nodes, each of which has separate rows; the largest machines have 64.
MOST_NODES = 128
# Two counts of the same calls over the same time differed by at most 0.04% (18 pairs, Linux 6.1 and
# 6.18 under emulation); a larger difference means that one count missed calls.
LARGEST_DISAGREEMENT = 0.01
NO_WAKEUPS = (
    "{sides}: calls per wakeup are unknown, because sched:sched_wakeup was not counted on all "
    "nodes in the runs with bpf_pelt, or its count was 0; record with both collectors, perf_stat "
    "and bpf_pelt"
)


@section(Pelt, needs=WAKEUPS)
def pelt(sides: Sequence[Side], count_wakeups: CountWakeups) -> Pelt:
    """Compare the calls and durations of each new side with base's, for each workload and point.

    :param count_wakeups: counts the wakeups of a run, for calls per wakeup; None if unknown
    :raises Absent: base has no readable capture, or no new side has one
    """

    def read(side: Side, run: Run) -> Traced:
        return _read_run(side, run, count_wakeups(side, run))

    base, *others = load_captured(sides, COLLECTOR, read)
    missing = [
        MissingSide(
            side=captured.name,
            reason=captured.notes[0] if captured.notes else why_nothing(side, COLLECTOR),
        )
        for side, captured in zip(sides, (base, *others), strict=True)
        if not captured.runs
    ]
    with_runs = [side for side in others if side.runs]
    if not base.runs or not with_runs:
        raise Absent(missing[0].reason if missing else "no new side")
    return analyse_sides([base, *with_runs], missing)


def _read_run(side: Side, run: Run, wakeups: float | None) -> Traced:
    name = f"{run.folder}/{COLLECTOR}/pelt.json"
    capture = parse_bpf_pelt(side.bundle.read(name, LARGEST_BYTES), name)
    host = next(boot.host for boot in side.bundle.boots if boot.number == run.boot)
    nodes = host.topology.node_of_cpu()
    return Traced(
        capture=capture,
        nodes=nodes if len(set(nodes.values())) <= MOST_NODES else {},
        wakeups=wakeups,
        emulated=host.virtualisation.emulated,
    )


def analyse_sides(sides: Sequence[SideOf[Traced]], missing: Sequence[MissingSide]) -> Pelt:
    """Compare each side with the first.

    :param sides: base first; each has at least one run
    :param missing: sides without runs, for the record
    """
    base, *others = sides
    return Pelt(
        sides=tuple(map(_describe, sides)),
        rows=tuple(row for new in others for row in rows_of(base, new)),
        unseen=tuple(function for side in sides for function in unseen(side)),
        histograms=tuple(histogram for side in sides for histogram in _histograms(side)),
        bins=tuple(row for new in others for row in bins_of(base, new)),
        cpus=tuple(row for new in others for row in cpus_of(base, new)),
        cross_checks=tuple(check for side in sides for check in _cross_checks(side)),
        missing=tuple(missing),
        notes=tuple(_notes(sides)),
    )


def _describe(side: SideOf[Traced]) -> PeltSide:
    captures = [run.content.capture for run in side.runs]
    emulated = [run.content.emulated for run in side.runs if run.content.emulated is not None]
    return PeltSide(
        side=side.name,
        runs=len(captures),
        seconds=sum(capture.seconds for capture in captures),
        sampling=tuple(sorted({capture.sampling for capture in captures})),
        emulated=any(emulated) if emulated else None,
        mechanisms={
            function: tuple(
                sorted(
                    {
                        observed.mechanism
                        for observed in seen_by(side, function)
                        if observed.mechanism
                    }
                )
            )
            for function in functions_of([side])
        },
        markers={
            context: tuple(sorted(functions))
            for capture in captures
            for context, functions in capture.contexts.markers.items()
        },
        missing={
            context: reason
            for capture in captures
            for context, reason in capture.contexts.missing.items()
        },
        probe=_probe(
            [capture.empty_probe for capture in captures if capture.empty_probe is not None]
        ),
    )


def _probe(probes: Sequence[EmptyProbe]) -> PeltProbe | None:
    if not probes:
        return None
    return PeltProbe(
        mechanism=join_names(sorted({probe.mechanism for probe in probes if probe.mechanism})),
        on=join_names(sorted({probe.on for probe in probes if probe.on})),
        empty_ns=_mean([probe.empty_ns for probe in probes]),
        empty_ci=_hull([probe.empty_ci for probe in probes]),
        pair_ns=_mean([probe.pair_ns for probe in probes]),
        pair_ci=_hull([probe.pair_ci for probe in probes]),
        reads_ns=_mean([probe.reads_ns for probe in probes]),
        reads_ci=_hull([probe.reads_ci for probe in probes]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return fmean(measured) if measured else None


def _hull(intervals: Sequence[Interval | None]) -> Interval | None:
    # The union of the intervals of several runs.
    ends = [end for interval in intervals if interval is not None for end in interval]
    return (min(ends), max(ends)) if ends else None


def _histograms(side: SideOf[Traced]) -> Iterator[PeltHistogram]:
    for (workload, point), runs in side.by_point().items():
        for function in functions_of([side]):
            seen = [run.content.capture.functions.get(function) for run in runs]
            timed = [
                observed.durations
                for observed in seen
                if observed is not None and observed.durations is not None
            ]
            histogram = merge(timed)
            if histogram is not None:
                yield PeltHistogram(
                    side=side.name,
                    workload=workload,
                    point=point,
                    function=function,
                    runs=len(timed),
                    log2_ns=histogram.log2_ns,
                    linear_ns=histogram.linear_ns,
                    linear_step_ns=histogram.linear_step_ns,
                )


def _cross_checks(side: SideOf[Traced]) -> Iterator[CrossCheck]:
    for function in functions_of([side]):
        pairs = [
            (sum(seen.calls.values()), counted)
            for run in side.runs
            if (seen := run.content.capture.functions.get(function)) is not None
            and seen.calls is not None
            and seen.mechanism != BREAKPOINT
            and (counted := run.content.capture.calls_by_breakpoint(function)) is not None
        ]
        if pairs:
            calls, counted = (sum(column) for column in zip(*pairs, strict=True))
            difference = abs(calls - counted)
            yield CrossCheck(
                side=side.name,
                function=function,
                runs=len(pairs),
                calls=calls,
                breakpoint=counted,
                agrees=difference
                <= max(LARGEST_DISAGREEMENT * max(calls, counted), FEWEST_MISMATCHES * len(pairs)),
            )


def _notes(sides: Sequence[SideOf[Traced]]) -> Iterator[str]:
    for side in sides:
        yield from side.notes
        notes = [note for run in side.runs for note in _notes_of_run(run.content.capture)]
        for note in dict.fromkeys(notes):
            times = f" ({notes.count(note)} runs)" if notes.count(note) > 1 else ""
            yield f"{side.name}: {note}{times}"
        lost = sorted({cpu for run in side.runs for cpu in run.content.capture.lost_cpus})
        if lost:
            cpus = ", ".join(map(str, lost))
            yield f"{side.name}: CPUs that went online or offline during a run: {cpus}"
    missing = [side.name for side in sides if not all(run.content.wakeups for run in side.runs)]
    if missing:
        yield NO_WAKEUPS.format(sides=join_names(missing))
    yield from _loaders(sides)
    for new in sides[1:]:
        yield from context_notes((sides[0], new))
    yield from _single_points(sides)


def _notes_of_run(capture: PeltCapture) -> Iterator[str]:
    # The recorder already notes why it did not use the preferred loader.
    yield from capture.notes[:MOST_NOTES]
    if capture.loader is not None and capture.loader.no_types is not None:
        yield capture.loader.no_types


def _loaders(sides: Sequence[SideOf[Traced]]) -> Iterator[str]:
    by_side = {
        side.name: join_names(sorted({_loader(run.content.capture) for run in side.runs}))
        for side in sides
    }
    if len(set(by_side.values())) > 1:
        loaders = ", ".join(f"{name}: {loader}" for name, loader in by_side.items())
        yield f"the sides used different BPF loaders, so probe overhead may differ ({loaders})"


def _loader(capture: PeltCapture) -> str:
    if capture.loader is None:
        return "loader not recorded"
    return capture.loader.used or "no program loaded"


def _single_points(sides: Sequence[SideOf[Traced]]) -> Iterator[str]:
    points = [side.by_point().keys() for side in sides]
    for side, side_points in zip(sides[1:], points[1:], strict=True):
        for workload, point in sorted(points[0] ^ side_points):
            where = sides[0].name if (workload, point) in points[0] else side.name
            yield f"{workload} at {point} was traced only on {where}"
