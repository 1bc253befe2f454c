# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare forks, wakeups, migrations, load-balancer decisions and waits of base and new.

Rates per second and per operation, and shares, of events that BPF programs or perf observed, by
cause, by node and by level of the topology, with intervals over runs. More is neither better nor
worse, so they get no verdict.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from schedperf.evidence import Absent, section
from schedperf.evidence.placement.capture import PlacementCapture, parse_placement
from schedperf.evidence.placement.comparability import (
    invisible_elsewhere,
    loss_of,
    mechanism_of,
    refusals,
    why_levels_differ,
    why_unseen,
)
from schedperf.evidence.placement.compare import compare_counts
from schedperf.evidence.placement.distributions import (
    depths_of,
    moves_of,
    phases_of_all,
    series_of,
    timers_of,
    waits_of,
)
from schedperf.evidence.placement.measure import has_nodes
from schedperf.evidence.placement.record import (
    PARTS,
    NotComparedPart,
    Part,
    Placement,
    PlacementProgram,
    PlacementSide,
)
from schedperf.inputs.bundle.open import Run
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.function_names import function_names
from schedperf.model.run import SideOf
from schedperf.runs.captured import load_captured, why_nothing

FOLDER = "bpf_placement"
# Limit on the file size: 64 nodes have 4096 pairs, each with 100 bytes per event and cause.
LARGEST_BYTES = 16 << 20


@section(Placement)
def placement(sides: Sequence[Side]) -> Placement:
    """Compare task placement between the sides, for each workload and point.

    :raises Absent: a side has no run with a readable capture
    """
    loaded = load_captured(sides, FOLDER, _read)
    for side, captured in zip(sides, loaded, strict=True):
        if not captured.runs:
            raise Absent(captured.notes[0] if captured.notes else why_nothing(side, FOLDER))
    data, names = analyse_sides(loaded), function_names(sides)
    return replace(
        data,
        rows=tuple(
            replace(row, function=names[row.side].in_text(row.function)) for row in data.rows
        ),
    )


def _read(side: Side, run: Run) -> PlacementCapture:
    name = f"{run.folder}/{FOLDER}/placement.json"
    return parse_placement(side.bundle.read(name, LARGEST_BYTES), name)


def analyse_sides(sides: Sequence[SideOf[PlacementCapture]]) -> Placement:
    """Compare each side with the first; return rates only for a single side.

    :param sides: sides with at least one run
    """
    rows, cut = compare_counts(sides)
    shown = [row for row in rows if row.base or row.new]
    zeros = {row.name for row in rows} - {row.name for row in shown}
    pairs = [(new, frozenset(refusals(sides[0], new))) for new in sides[1:]]
    # Parts that are not comparable are listed only.
    against: Sequence[tuple[SideOf[PlacementCapture] | None, frozenset[Part]]] = pairs or [
        (None, frozenset())
    ]
    return Placement(
        sides=tuple(map(_describe, sides)),
        rows=tuple(shown),
        zeros=tuple(sorted(zeros)),
        programs=tuple(program for side in sides for program in _programs(side)),
        not_compared=tuple(part for new in sides[1:] for part in _refused(sides[0], new)),
        series=tuple(row for side in sides for row in series_of(side)),
        depths=tuple(row for side in sides for row in depths_of(side)),
        timers=tuple(row for side in sides for row in timers_of(side)),
        moves=tuple(row for new, invalid in against for row in moves_of(sides[0], new, invalid)),
        waits=tuple(row for new, invalid in against for row in waits_of(sides[0], new, invalid)),
        phases=tuple(
            row for new, invalid in against for row in phases_of_all(sides[0], new, invalid)
        ),
        notes=(
            *(note for side in sides for note in _notes(side)),
            *filter(None, (why_levels_differ(sides[0], new) for new in sides[1:])),
            *cut,
        ),
    )


def _describe(side: SideOf[PlacementCapture]) -> PlacementSide:
    return PlacementSide(
        side=side.name,
        runs=len(side.runs),
        mechanisms=tuple(sorted({run.content.mechanism for run in side.runs})),
        nodes=max(len(set(run.content.nodes.values())) for run in side.runs),
        seconds=sum(run.content.seconds for run in side.runs),
    )


def _programs(side: SideOf[PlacementCapture]) -> Iterator[PlacementProgram]:
    for part in PARTS:
        seen = {mechanism_of(run.content, part) for run in side.runs} - {None}
        mechanism = " or ".join(sorted(name for name in seen if name)) or None
        unseen = None if mechanism else why_unseen(side.runs[0].content, part)
        yield PlacementProgram(
            side=side.name,
            part=part,
            mechanism=mechanism,
            function=None if unseen is None else unseen.what,
            reason=None if unseen is None else unseen.reason,
        )


def _refused(
    base: SideOf[PlacementCapture], new: SideOf[PlacementCapture]
) -> Iterator[NotComparedPart]:
    unseen = {
        program.part
        for side in (base, new)
        for program in _programs(side)
        if program.mechanism is None
    }
    for part, reason in refusals(base, new).items():
        # The programs of a side already have the reason.
        if part not in unseen:
            yield NotComparedPart(side=new.name, what=part, reason=reason)


def _notes(side: SideOf[PlacementCapture]) -> Iterator[str]:
    yield from side.notes
    notes = [note for run in side.runs for note in run.content.notes]
    notes += [
        f"{what} not measured: {reason}"
        for run in side.runs
        for what, reason in invisible_elsewhere(run.content)
    ]
    lost = Counter[str]()
    for run in side.runs:
        lost.update(run.content.lost)
    notes += [f"events lost: {count} ({name})" for name, count in lost.items() if count]
    notes += [reason for run in side.runs if (reason := loss_of(run.content)) is not None]
    for note, runs in Counter(notes).items():
        yield f"{side.name}: {note}{f' ({runs} runs)' if runs > 1 else ''}"
    if not any(has_nodes(run.content) for run in side.runs):
        yield f"{side.name}: the machine has one NUMA node, so there are no moves between nodes"
