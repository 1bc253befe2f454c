# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the data of a flame graph: columns with one value per frame, for all samples and per part.

These are the only data of the drawing.
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
from schedperf.evidence.profile.flame_record import (
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
    Frames,
    FunctionCalls,
    Numbers,
)
from schedperf.evidence.profile.named import find_named, stacks_of_places
from schedperf.evidence.profile.record import Measure, PartKind
from schedperf.evidence.profile.samples import (
    BASE,
    NEW,
    Flags,
    Floats,
    ProfileSamples,
)
from schedperf.evidence.profile.stacks import StackedSamples, Stacks, command_of
from schedperf.inputs.perf_data.recording import Integers
from schedperf.inputs.symbols.functions import class_of
from schedperf.model.place import (
    OTHER_LOAD,
    Place,
    ShownNames,
    code_of,
    is_in_interrupts,
)
from schedperf.model.text import clean_line

# Digits of drawn numbers: the fifth digit of a share is far below the noise.
DIGITS = 4
# Digits of the ends of an interval, and of a corrected p value.
INTERVAL_DIGITS = 3
# Digits in parts, which have fewer samples: of a frame's time and of its interval. One more digit
# of each would enlarge the parts by a quarter.
PART_DIGITS = 3
MARGIN_DIGITS = 2
Q_DIGITS = 2
# Number of rows of each list beside the drawing.
MOST_LISTED = 40
# Largest number of parts to choose from: one screen.
_MOST_CPUS = 8
_MOST_COMMANDS = 6
# Smallest share of all time on either side of a command with separate numbers.
_LEAST_COMMAND_SHARE = 0.05


class Part(Struct, frozen=True, kw_only=True):
    """A subset of the samples: one node, CPU or command.

    :param name: number of the node or CPU, or name of the command
    """

    kind: PartKind
    name: str

    def rows(self, run: ProfileSamples) -> Flags:
        """Return a mask of the samples of a run in this part, shape (rows,)."""
        samples = run.recording.samples
        if self.kind == "cpu":
            return np.asarray(samples.cpu == int(self.name))
        if self.kind == "node":
            cpus = [cpu for cpu, node in run.node_of_cpu.items() if node == int(self.name)]
            return np.isin(samples.cpu, cpus)
        named = [task for task, name in _commands(run) if name == self.name]
        return np.isin(samples.task, named) & run.rows_at(_is_of_command)


def describe_flame(
    flame: Flame,
    operation: str | None,
    *,
    parts: Sequence[tuple[Part, Flame]] = (),
    took_turns: bool = True,
    place: str = "",
    calls: Sequence[FunctionCalls] = (),
    costs_first: bool = False,
) -> FlameTree:
    """Return the data of one drawing.

    :param operation: unit of an operation, e.g. "message"; None if unknown
    :param parts: the same tree with the weights of subsets of the samples
    :param took_turns: false if drift may confound the comparison
    :param place: event, workload and point; "" if there is only one tree
    :param calls: callers and callees of functions
    :param costs_first: whether the first measure, which colours the frames, is the cost per
        operation if that is known
    """
    used, numbers = _number_names(flame)
    measures = _measures_of(flame, operation)[:: -1 if costs_first else 1]
    is_other = of_others(flame)
    lists = _describe_lists(flame, measures[0])
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
        lists=lists,
        hottest=_hottest(flame) if lists is None else (),
        calls=tuple(calls),
    )


def _measures_of(flame: Flame, operation: str | None) -> tuple[Measure, ...]:
    if operation is not None and flame.runs.has_operations:
        return ("share", "operation")
    return ("share",)


def describe_stacks(
    stacks: Stacks,
    operation: str | None,
    *,
    took_turns: bool,
    least_share: float = LEAST_SHARE,
    place: str = "",
    samples: StackedSamples | None = None,
    costs_first: bool = False,
) -> FlameTree:
    """Return the data of one drawing of stacks and their parts; see :func:`describe_flame`.

    With two sides, frames below ``least_share`` are kept if they changed, or if findings or class
    rows name their function. Which frames changed is decided with a tree down to ``LEAST_SHARE``.

    :param least_share: smallest share of all time of a frame; smaller frames are merged
    :param samples: the samples of the stacks, for the parts: nodes, CPUs and commands; None for no
        parts
    :param costs_first: as in :func:`describe_flame`
    """
    others = frozenset({OTHER_LOAD} & set(stacks.places))
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
    return describe_flame(
        flame,
        operation,
        parts=[] if samples is None else _narrowed(flame, samples),
        took_turns=took_turns,
        place=place,
        calls=calls,
        costs_first=costs_first,
    )


def _narrowed(flame: Flame, samples: StackedSamples) -> list[tuple[Part, Flame]]:
    return [(part, narrow_flame(flame, samples.narrow(part.rows))) for part in _find_parts(samples)]


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
    # Mean total over the runs with samples, per side.
    runs = flame.runs
    sums = np.bincount(runs.sides, runs.totals, len(runs.labels))
    means: list[float] = (sums / np.maximum(runs.sampled_runs, 1)).tolist()
    return means


def _number_names(flame: Flame) -> tuple[Integers, list[int]]:
    # The distinct places of the frames, and for each frame the index of its place; ROOT and
    # REMAINDER are kept.
    used = np.unique(flame.place[flame.place >= 0])
    numbers = np.where(flame.place >= 0, np.searchsorted(used, flame.place), flame.place)
    return used, numbers.tolist()


def _name(location: Place) -> FlameName:
    return FlameName(
        symbol=clean_line(ShownNames([location]).of(location)),
        dso=clean_line(code_of(location).dso),
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
        # Per function name, over all paths.
        functions=_describe_changes(functions, used),
        changed=_indices(changed_frames(flame, inclusive, own, functions)),
    )


def _describe_part(
    flame: Flame, measure: Measure, operation: str | None, used: Integers
) -> FlamePartMeasure:
    # A page has up to twenty parts, so they omit derivable numbers: inclusive times are sums of
    # self times, and an interval is the change plus or minus its margin.
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
    # In JSON, 100 is shorter than 100.0.
    return int(short) if short.is_integer() else short


def _hottest(flame: Flame) -> Frames:
    own = measure_frames(flame, "share", "self")
    return tuple(largest_first((flame.place >= 0) & (own.base > 0.0), own.base)[:MOST_LISTED])


def _describe_lists(flame: Flame, measure: Measure) -> FlameLists | None:
    own = measure_frames(flame, measure, "self")
    inclusive = measure_frames(flame, measure, "inclusive")
    if own.columns is None or inclusive.columns is None:
        return None
    vanished, appeared = one_sided_frames(flame)
    is_changed = changed_frames(flame, inclusive, own, measure_places(flame, measure))
    # The change that determines the colour of a frame.
    shown = np.where(inclusive.changed, inclusive.columns.difference, own.columns.difference)
    changed = largest_first(is_changed, np.abs(shown))
    return FlameLists(
        vanished=tuple(vanished[:MOST_LISTED]),
        appeared=tuple(appeared[:MOST_LISTED]),
        changed=tuple(changed[:MOST_LISTED]),
        counts=FlameCounts(vanished=len(vanished), appeared=len(appeared), changed=len(changed)),
        # Number of runs (or boots) of one side with frames that the other side lacks.
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
    # Names of the commands, sorted by the larger of both sides' mean shares, largest first.
    runs = stacked.stacks.runs
    wholes = runs.totals * runs.sampled_runs[runs.sides]
    shares: dict[str, list[float]] = {}
    for number in np.flatnonzero(runs.is_sampled).tolist():
        run, rows = stacked.samples[number], stacked.rows[number]
        samples, rows = run.recording.samples, rows[run.rows_at(_is_of_command)[rows]]
        names = dict(_commands(run))
        tasks, where = np.unique(samples.task[rows], return_inverse=True)
        weights = np.bincount(where, samples.period[rows], len(tasks))
        for task, weight in zip(tasks.tolist(), weights.tolist(), strict=True):
            of_side = shares.setdefault(names[task], [0.0] * len(runs.labels))
            of_side[runs.sides[number]] += weight / wholes[number]
    busy = [name for name, of_side in shares.items() if max(of_side) >= _LEAST_COMMAND_SHARE]
    return sorted(busy, key=lambda name: -max(shares[name]))[:_MOST_COMMANDS]


def _is_of_command(location: Place) -> bool:
    return location != OTHER_LOAD and not is_in_interrupts(location.dso)


def _commands(run: ProfileSamples) -> Iterator[tuple[int, str]]:
    # Each sampled task, by index, with the name of its command.
    for task in np.unique(run.recording.samples.task).tolist():
        yield task, command_of(run.recording, task)
