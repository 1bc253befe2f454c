# SPDX-License-Identifier: GPL-2.0-or-later
"""The data of a flame graph: columns with one value per frame, for all samples and for each part.

The drawing uses no other data.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from schedperf.evidence.profile.calls import describe_calls
from schedperf.evidence.profile.family import is_kernel_code
from schedperf.evidence.profile.flame import (
    LEAST_SHARE,
    Flame,
    FrameChanges,
    build_flame,
    changed_frames,
    count_sampled,
    depths_of,
    largest_first,
    measure_frames,
    measure_places,
    narrow_flame,
    of_others,
    one_sided_frames,
)
from schedperf.evidence.profile.named import find_named, stacks_of_places
from schedperf.evidence.profile.others import other_commands
from schedperf.evidence.profile.record import (
    FlameChanges,
    FlameCounts,
    FlameLists,
    FlameMargins,
    FlameMeans,
    FlameMeasure,
    FlameName,
    FlamePart,
    FlamePartFunctions,
    FlamePartMeasure,
    FlameSampled,
    FlameTree,
    FunctionCalls,
    HottestFrames,
    Measure,
    Numbers,
    PartKind,
)
from schedperf.evidence.profile.samples import (
    BASE,
    NEW,
    Flags,
    Floats,
    ProfileSamples,
)
from schedperf.evidence.profile.stacks import COMMAND, StackedSamples, command_of
from schedperf.model.text import clean_line
from schedperf.perf_data.recording import Integers
from schedperf.symbols.functions import class_of
from schedperf.symbols.place import Place

# Of a number that is drawn: the fifth digit of a share is far below any noise.
DIGITS = 4
# Of the ends of an interval, and of a corrected p-value, of which nobody reads more.
INTERVAL_DIGITS = 3
# Of a part, whose samples are fewer: a thousandth of a frame's time, and of its interval what a
# pixel shows. With one more of each, all parts together are a quarter longer.
PART_DIGITS = 3
MARGIN_DIGITS = 2
Q_DIGITS = 2
# Rows of each list that stands beside the drawing.
MOST_LISTED = 40
# Beyond one screen of choices, each with numbers of its own, readers cannot choose.
_MOST_CPUS = 8
_MOST_COMMANDS = 6
# Of all time on either side; a smaller command has too few samples for numbers of its own.
_LEAST_COMMAND_SHARE = 0.05


class Part(Struct, frozen=True, kw_only=True):
    """A part of the samples: one node, CPU or command.

    :param name: number of the node or of the CPU, or the name of the command
    """

    kind: PartKind
    name: str

    def rows(self, run: ProfileSamples) -> Flags:
        """Return which samples of a run are in this part, shape (rows,)."""
        samples = run.recording.samples
        if self.kind == "cpu":
            return np.asarray(samples.cpu == int(self.name))
        if self.kind == "node":
            cpus = [cpu for cpu, node in run.node_of_cpu.items() if node == int(self.name)]
            return np.isin(samples.cpu, cpus)
        return np.isin(samples.task, [task for task, name in _commands(run) if name == self.name])


def describe_flame(
    flame: Flame,
    operation: str | None,
    *,
    parts: Sequence[tuple[Part, Flame]] = (),
    took_turns: bool = True,
    place: str = "",
    calls: Sequence[FunctionCalls] = (),
) -> FlameTree:
    """Return the data of one drawing.

    :param operation: unit of an operation, e.g. "message"; None if unknown
    :param parts: the same tree with the weights of parts of the samples
    :param took_turns: false if drift may confound the comparison
    :param place: event, workload and point; "" if there is only one tree
    :param calls: callers and callees of functions
    """
    used, numbers = _number_names(flame)
    measures = _measures_of(flame, operation)
    is_other = of_others(flame)
    return FlameTree(
        event=clean_line(flame.runs.event),
        place=clean_line(place),
        unit=clean_line(flame.runs.unit),
        labels=tuple(clean_line(label) for label in flame.runs.labels),
        independent=flame.runs.independent,
        counts=flame.runs.counts,
        took_turns=took_turns,
        totals=tuple(_number(total) for total in _mean_totals(flame)),
        least_share=flame.least_share,
        names=tuple(_name(flame.places[index]) for index in used),
        parent=tuple(flame.parent.tolist()),
        name=tuple(numbers),
        hidden=tuple(flame.hidden.tolist()),
        others=tuple(np.flatnonzero(is_other & (flame.parent == 0)).tolist()),
        measures=tuple(_describe_measure(flame, measure, operation, used) for measure in measures),
        parts=tuple(
            FlamePart(
                kind=part.kind,
                name=clean_line(part.name),
                measures=tuple(
                    _describe_part(of_part, measure, operation, used) for measure in measures
                ),
            )
            for part, of_part in parts
        ),
        lists=_describe_lists(flame),
        calls=tuple(calls),
    )


def _measures_of(flame: Flame, operation: str | None) -> tuple[Measure, ...]:
    if operation is not None and flame.runs.has_operations:
        return ("share", "operation")
    return ("share",)


def describe_stacks(
    stacked: StackedSamples,
    operation: str | None,
    *,
    took_turns: bool,
    least_share: float = LEAST_SHARE,
    place: str = "",
    has_parts: bool = True,
) -> FlameTree:
    """Return the data of one drawing of stacks and their parts; see :func:`describe_flame`.

    What changed in a tree with the smallest frames, and what findings and class rows name, has
    frames of its own in this one.
    """
    stacks, others = stacked.stacks, _others_of(stacked)
    flame = build_flame(stacks, others=others)
    calls: tuple[FunctionCalls, ...] = ()
    if len(stacks.runs.labels) > 1:
        measures = _measures_of(flame, operation)
        named = find_named(flame, measures)
        kept = np.maximum(
            depths_of(flame, _changed_in_any(flame, measures))[flame.end],
            stacks_of_places(stacks, named),
        )
        calls = describe_calls(stacks, flame, named)
        flame = build_flame(stacks, least_share=least_share, others=others, kept=kept)
    elif least_share != flame.least_share:
        flame = build_flame(stacks, least_share=least_share, others=others)
    parts = _find_parts(stacked) if has_parts else ()
    return describe_flame(
        flame,
        operation,
        parts=[(part, narrow_flame(flame, stacked.narrow(part.rows))) for part in parts],
        took_turns=took_turns,
        place=place,
        calls=calls,
    )


def _others_of(stacked: StackedSamples) -> frozenset[Place]:
    names = other_commands([(run.recording, run.command) for run in stacked.samples])
    places = stacked.stacks.places
    return frozenset(each for each in places if each.dso == COMMAND and each.symbol in names)


def _changed_in_any(flame: Flame, measures: Sequence[Measure]) -> Flags:
    flags = np.zeros(len(flame), dtype=np.bool_)
    for measure in measures:
        flags |= _find_changed(flame, measure)
    return flags


def _find_changed(flame: Flame, measure: Measure) -> Flags:
    return changed_frames(
        flame,
        measure_frames(flame, measure, "inclusive"),
        measure_frames(flame, measure, "self"),
        measure_places(flame, measure),
    )


def _mean_totals(flame: Flame) -> list[float]:
    # Of each side, all that was sampled in a run with samples.
    runs = flame.runs
    sums = np.bincount(runs.sides, runs.totals, len(runs.labels))
    means: list[float] = (sums / np.maximum(runs.sampled_runs, 1)).tolist()
    return means


def _number_names(flame: Flame) -> tuple[Integers, list[int]]:
    # The places that the frames have, and for each frame which; ROOT and REMAINDER stay.
    used = np.unique(flame.place[flame.place >= 0])
    numbers = np.where(flame.place >= 0, np.searchsorted(used, flame.place), flame.place)
    return used, numbers.tolist()


def _name(location: Place) -> FlameName:
    return FlameName(
        symbol=clean_line(location.symbol),
        dso=clean_line(location.dso),
        class_=class_of(location),
        kernel=is_kernel_code(location),
    )


def _describe_measure(
    flame: Flame, measure: Measure, operation: str | None, used: Integers
) -> FlameMeasure:
    frames = np.arange(len(flame))
    inclusive = measure_frames(flame, measure, "inclusive")
    own = measure_frames(flame, measure, "self")
    functions = measure_places(flame, measure)
    return FlameMeasure(
        measure=measure,
        operation=operation if measure == "operation" else None,
        inclusive=_describe_changes(inclusive, frames),
        self_=_describe_changes(own, frames),
        # Of each name, on all paths together.
        functions=_describe_changes(functions, used),
        changed=_indices(changed_frames(flame, inclusive, own, functions)),
    )


def _describe_part(
    flame: Flame, measure: Measure, operation: str | None, used: Integers
) -> FlamePartMeasure:
    # A page has up to twenty parts, so they leave out what follows: a frame's time with what it
    # called is the sum of the own times, and an interval is the change and as much either way.
    frames = np.arange(len(flame))
    inclusive = measure_frames(flame, measure, "inclusive")
    own = measure_frames(flame, measure, "self")
    functions = measure_places(flame, measure)
    return FlamePartMeasure(
        measure=measure,
        operation=operation if measure == "operation" else None,
        inclusive=FlameMargins(
            margin=_margins(inclusive, frames), changed=_changed(inclusive, frames)
        ),
        self_=FlameMeans(
            base=_numbers(own.base[frames], PART_DIGITS),
            new=_means_of_new(own, frames, PART_DIGITS),
        ),
        functions=FlamePartFunctions(
            base=_numbers(functions.base[used], PART_DIGITS),
            new=_means_of_new(functions, used, PART_DIGITS),
            margin=_margins(functions, used),
            changed=_changed(functions, used),
        ),
        changed=_indices(changed_frames(flame, inclusive, own, functions)),
    )


def _describe_changes(changes: FrameChanges, chosen: Integers) -> FlameChanges:
    columns = changes.columns
    return FlameChanges(
        base=_numbers(changes.base[chosen]),
        new=_means_of_new(changes, chosen),
        low=() if columns is None else _numbers(columns.ci_low[chosen], INTERVAL_DIGITS),
        high=() if columns is None else _numbers(columns.ci_high[chosen], INTERVAL_DIGITS),
        q=() if columns is None else _numbers(columns.q[chosen], Q_DIGITS),
        changed=_changed(changes, chosen),
    )


def _means_of_new(changes: FrameChanges, chosen: Integers, digits: int = DIGITS) -> Numbers:
    return () if changes.new is None else _numbers(changes.new[chosen], digits)


def _margins(changes: FrameChanges, chosen: Integers) -> Numbers:
    if changes.columns is None:
        return ()
    columns = changes.columns
    return _numbers((columns.ci_high[chosen] - columns.ci_low[chosen]) / 2.0, MARGIN_DIGITS)


def _changed(changes: FrameChanges, chosen: Integers) -> tuple[int, ...]:
    return _indices(changes.changed[chosen])


def _indices(flags: Flags) -> tuple[int, ...]:
    return tuple(np.flatnonzero(flags).tolist())


def _numbers(values: Floats, digits: int = DIGITS) -> Numbers:
    return tuple(_number(value, digits) for value in values.tolist())


def _number(value: float, digits: int = DIGITS) -> float | None:
    if not value:
        return 0
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    # JSON writes 100 shorter than 100.0.
    return int(short) if short.is_integer() else short


def _describe_lists(flame: Flame) -> FlameLists | HottestFrames:
    own = measure_frames(flame, "share", "self")
    inclusive = measure_frames(flame, "share", "inclusive")
    if own.columns is None or inclusive.columns is None:
        hottest = largest_first((flame.place >= 0) & (own.base > 0.0), own.base)
        return HottestFrames(hottest=tuple(hottest[:MOST_LISTED]))
    vanished, appeared = one_sided_frames(flame)
    is_changed = changed_frames(flame, inclusive, own, measure_places(flame, "share"))
    # The change that colours a frame.
    shown = np.where(inclusive.changed, inclusive.columns.difference, own.columns.difference)
    changed = largest_first(is_changed, np.abs(shown))
    return FlameLists(
        vanished=tuple(vanished[:MOST_LISTED]),
        appeared=tuple(appeared[:MOST_LISTED]),
        changed=tuple(changed[:MOST_LISTED]),
        counts=FlameCounts(vanished=len(vanished), appeared=len(appeared), changed=len(changed)),
        # In how many runs (or boots) the one side has what the other has in none.
        sampled=FlameSampled(
            vanished=tuple(count_sampled(flame, BASE)[vanished[:MOST_LISTED]].tolist()),
            appeared=tuple(count_sampled(flame, NEW)[appeared[:MOST_LISTED]].tolist()),
        ),
    )


def _find_parts(stacked: StackedSamples) -> tuple[Part, ...]:
    """Return the parts to choose from: several nodes, a few CPUs, busy commands."""
    cpus: set[int] = set()
    nodes: set[int] = set()
    for run, rows in zip(stacked.samples, stacked.rows, strict=True):
        sampled = set(np.unique(run.recording.samples.cpu[rows]).tolist())
        cpus |= sampled
        nodes |= {node for cpu, node in run.node_of_cpu.items() if cpu in sampled}
    commands = _busy_commands(stacked)
    return (
        *(Part(kind="node", name=str(node)) for node in sorted(nodes) if len(nodes) > 1),
        *(Part(kind="cpu", name=str(cpu)) for cpu in sorted(cpus) if 1 < len(cpus) <= _MOST_CPUS),
        *(Part(kind="comm", name=name) for name in commands if len(commands) > 1),
    )


def _busy_commands(stacked: StackedSamples) -> list[str]:
    # The largest share of a side's mean, by name; largest first.
    runs = stacked.stacks.runs
    wholes = runs.totals * runs.sampled_runs[runs.sides]
    shares: dict[str, list[float]] = {}
    for number in np.flatnonzero(runs.is_sampled).tolist():
        run, rows = stacked.samples[number], stacked.rows[number]
        samples = run.recording.samples
        names = dict(_commands(run))
        tasks, where = np.unique(samples.task[rows], return_inverse=True)
        weights = np.bincount(where, samples.period[rows], len(tasks))
        for task, weight in zip(tasks.tolist(), weights.tolist(), strict=True):
            of_side = shares.setdefault(names[task], [0.0] * len(runs.labels))
            of_side[runs.sides[number]] += weight / wholes[number]
    busy = [name for name, of_side in shares.items() if max(of_side) >= _LEAST_COMMAND_SHARE]
    return sorted(busy, key=lambda name: -max(shares[name]))[:_MOST_COMMANDS]


def _commands(run: ProfileSamples) -> Iterator[tuple[int, str]]:
    # Each task that was sampled, by its number, and the name of its command.
    for task in np.unique(run.recording.samples.task).tolist():
        yield task, command_of(run.recording, task)
