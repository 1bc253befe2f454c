# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the call-stack trees behind the differential flame graph of the report.

Frames, CIs and significance are those of ``schedperf profile --flamegraph``, but only frames with
at least 0.2% of all time are separate frames, to keep the record small. Only the points and events
with the most samples have a tree; others are listed. The first tree also has times per node, per
CPU of a small machine and per busy command.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from schedperf.evidence import Absent, section
from schedperf.evidence.profile.flame_data import describe_stacks
from schedperf.evidence.profile.flame_record import (
    FlameComparison,
    FlameTree,
    FlameTrees,
    place_of_tree,
)
from schedperf.evidence.profile.independent import took_turns
from schedperf.evidence.profile.samples import (
    Profiles,
    align_samples,
    operation_of,
    places_of,
    sampled_events,
)
from schedperf.evidence.profile.sources import FOLDER, read_alike
from schedperf.evidence.profile.stacks import collect_stacks
from schedperf.inputs.perf_data.event import EventIdentity
from schedperf.inputs.perf_data.recorded import why_not_recorded
from schedperf.inputs.perf_data.recording import NO_CHAIN
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.functions import SharedNames
from schedperf.model.sections import MissingSide
from schedperf.runs.timeline import Moment, place_in_time

# Smallest share of all time of a frame: two pixels of a page. With 0.05%, as in --flamegraph, the
# record of a point would be three times as large.
LEAST_SHARE = 0.002
# Number of trees per comparison: a tree takes 0.1 MB of JSON, and the first one, which has parts,
# 0.5 MB. For other points, use schedperf profile.
MOST_TREES = 6

_NOTHING_COMMON = (
    "base and new were sampled with different events, workloads or parameters; record both with "
    "the same command"
)


class _Wanted(Struct, frozen=True, kw_only=True):
    # Identity of a tree: an event at a workload and point.
    at: tuple[str, str]
    event: EventIdentity
    sides: tuple[Profiles, Profiles]
    samples: int

    def __str__(self) -> str:
        return place_of_tree(self.event.label, *self.at)


@section(FlameTrees, is_drawing=True)
def flames(sides: Sequence[Side]) -> FlameTrees:
    """Compare the call stacks of each new side with base's.

    :raises Absent: base or all new sides have no call chains, or base has no event, workload and
        point in common with a new side
    """
    read = read_alike(sides)
    base = _load_stacks(sides[0], read)
    comparisons, missing = [], []
    for side in sides[1:]:
        try:
            new = _load_stacks(side, read)
        except Absent as absent:
            missing.append(MissingSide(side=side.name, reason=str(absent)))
        else:
            comparisons.append(_compare(place_in_time([sides[0], side]), base, new))
    if not any(compared.events for compared in comparisons):
        reasons = [absent_side.reason for absent_side in missing]
        raise Absent("; ".join(reasons) or _NOTHING_COMMON)
    return FlameTrees(comparisons=tuple(comparisons), missing=tuple(missing))


def _compare(
    moments: Mapping[tuple[str, str], Moment], base: Profiles, new: Profiles
) -> FlameComparison:
    trees = sorted(_pair(base, new), key=lambda tree: (-tree.samples, tree.at, tree.event.label))
    return FlameComparison(
        side=new.name,
        events=tuple(
            _describe(tree, moments, has_points=len(trees) > 1, has_parts=tree is trees[0])
            for tree in trees[:MOST_TREES]
        ),
        left_out=tuple(str(tree) for tree in trees[MOST_TREES:]),
    )


def _pair(base: Profiles, new: Profiles) -> Iterator[_Wanted]:
    of_base, of_new = base.by_point(), new.by_point()
    names = SharedNames(places_of(base), places_of(new))
    for at in of_base:
        if at not in of_new:
            continue
        *sides, _ = align_samples(base.with_runs(of_base[at]), new.with_runs(of_new[at]), names)
        events = [sampled_events([side]) for side in sides]
        contents = [run.content for side in sides for run in side.runs]
        for event in events[0]:
            if event in events[1]:
                samples = sum(
                    int(content.recording.samples.count[content.rows_of(event)].sum())
                    for content in contents
                )
                yield _Wanted(at=at, event=event, sides=(sides[0], sides[1]), samples=samples)


def _describe(
    tree: _Wanted,
    moments: Mapping[tuple[str, str], Moment],
    *,
    has_points: bool,
    has_parts: bool,
) -> FlameTree:
    base, new = tree.sides
    stacked = collect_stacks(tree.sides, tree.event)
    return describe_stacks(
        stacked.stacks,
        operation_of((*base.runs, *new.runs)),
        took_turns=took_turns(moments, base.runs, new.runs),
        least_share=LEAST_SHARE,
        place=str(tree) if has_points else "",
        samples=stacked if has_parts else None,
    )


def _load_stacks(side: Side, read_side: Callable[[Side], Profiles]) -> Profiles:
    """Return the samples of every readable instrumented run with call chains.

    The profile section lists unreadable runs, with the reason.

    :raises Absent: no run has call chains
    """
    read = side.once(read_side)
    chains = [run.content.recording.samples.chain for run in read.runs]
    runs = [run for run, chain in zip(read.runs, chains, strict=True) if np.any(chain != NO_CHAIN)]
    if not runs:
        why = "the samples have no call chains; record with --with perf_profile"
        has_samples = any(len(chain) for chain in chains)
        raise Absent(
            f"{side.name}: {why if has_samples else why_not_recorded(side.bundle, FOLDER)}"
        )
    return read.with_runs(runs)
