# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the call-stack trees behind the differential flame graphs of blocked and runnable time.

The trees are those of the profile, with the time that a stack was blocked, or runnable after its
wakeup, in place of CPU time: one of each per workload and point. The times per operation colour the
frames, because the share of one stack in all blocked time falls when another one blocks longer.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from schedperf.evidence import Absent, section
from schedperf.evidence.blocking.record import BlockedTrees
from schedperf.evidence.blocking.section import frames_of, load_sides
from schedperf.evidence.profile.flame_data import describe_stacks
from schedperf.evidence.profile.flame_record import FlameComparison, FlameTree, place_of_tree
from schedperf.evidence.profile.flames_section import LEAST_SHARE, MOST_TREES
from schedperf.evidence.profile.independent import took_turns
from schedperf.evidence.profile.samples import Runs, operation_of
from schedperf.evidence.profile.stacks import Stacks
from schedperf.inputs.side import Side
from schedperf.model.place import KERNEL, UNKNOWN, Place
from schedperf.model.run import SideOf
from schedperf.runs.off_cpu import OffCpu, Pause
from schedperf.runs.stacks import Frame
from schedperf.runs.timeline import Moment, place_in_time

BLOCKED, RUNNABLE = "time blocked", "time runnable"
UNIT = "ns"

_Moments = Mapping[tuple[str, str], Moment]
_Sides = tuple[SideOf[OffCpu], SideOf[OffCpu]]


class _Wanted(Struct, frozen=True, kw_only=True):
    # A tree: what is measured at a workload and point.
    at: tuple[str, str]
    event: str
    sides: _Sides
    stacks: Stacks

    @property
    def ns(self) -> float:
        return float(self.stacks.runs.totals.sum())

    def __str__(self) -> str:
        return place_of_tree(self.event, *self.at)


@section(BlockedTrees, is_drawing=True)
def blocked_flames(sides: Sequence[Side]) -> BlockedTrees:
    """Compare the stacks of blocked and runnable time of each new side with base's.

    :raises Absent: a side has no run with a readable capture, or no workload and point was recorded
        on base and a new side
    """
    base, *others = load_sides(sides)
    found = BlockedTrees(
        comparisons=tuple(
            _compare(place_in_time([sides[0], side]), (base, new))
            for side, new in zip(sides[1:], others, strict=True)
        )
    )
    if not any(compared.events for compared in found.comparisons):
        raise Absent("base and new have no blocked times of the same workload and parameters")
    return found


def _compare(moments: _Moments, sides: _Sides) -> FlameComparison:
    trees = sorted(_trees(sides), key=lambda tree: (-tree.ns, str(tree)))
    return FlameComparison(
        side=sides[1].name,
        events=tuple(_describe(tree, moments) for tree in trees[:MOST_TREES]),
        left_out=tuple(map(str, trees[MOST_TREES:])),
    )


def _trees(sides: _Sides) -> Iterator[_Wanted]:
    of_base, of_new = (side.by_point() for side in sides)
    for at in of_base:
        if at not in of_new:
            continue
        both = (sides[0].with_runs(of_base[at]), sides[1].with_runs(of_new[at]))
        for event in (BLOCKED, RUNNABLE):
            stacks = collect_pauses(both, event)
            if stacks.runs.sampled_runs.all():
                yield _Wanted(at=at, event=event, sides=both, stacks=stacks)


def _describe(tree: _Wanted, moments: _Moments) -> FlameTree:
    base, new = tree.sides
    return describe_stacks(
        tree.stacks,
        operation_of((*base.runs, *new.runs)),
        took_turns=took_turns(moments, base.runs, new.runs),
        least_share=LEAST_SHARE,
        place=str(tree),
        costs_first=True,
    )


def collect_pauses(sides: Sequence[SideOf[OffCpu]], event: str) -> Stacks:
    """Merge equal stacks of the pauses of all runs of all sides.

    :param event: ``BLOCKED`` for the times until the wakeup, ``RUNNABLE`` for those after it
    :return: weights in ns
    """
    runs = [(number, run) for number, side in enumerate(sides) for run in side.runs]
    places: dict[Place, int] = {}
    stacks: dict[tuple[int, ...], int] = {}
    sums: dict[tuple[int, int], int] = {}
    for index, (_, run) in enumerate(runs):
        for pause in run.content.pauses:
            frames = tuple(places.setdefault(each, len(places)) for each in _places_of(pause))
            ns = _ns_of(pause, event)
            entry = index, stacks.setdefault(frames, len(stacks))
            sums[entry] = sums.get(entry, 0) + ns
    entries = np.array([*sums], np.int64).reshape(-1, 2)
    weights = np.array([*sums.values()], np.float64)
    return Stacks(
        runs=Runs(
            event=event,
            unit=UNIT,
            labels=tuple(side.label for side in sides),
            sides=np.array([number for number, _ in runs], np.int64),
            boots=np.array([run.key.boot for _, run in runs], np.int64),
            totals=np.bincount(entries[:, 0], weights, len(runs)).astype(np.float64),
            operations=np.array([np.nan if run.ops is None else run.ops.count for _, run in runs]),
            sees_kernel=True,
        ),
        places=tuple(places),
        run=entries[:, 0],
        stack=entries[:, 1],
        weight=weights,
        frames=np.array([frame for stack in stacks for frame in stack], np.int32),
        starts=np.cumsum([0, *map(len, stacks)], dtype=np.int64),
    )


def _ns_of(pause: Pause, event: str) -> int:
    return pause.runnable_ns if event == RUNNABLE else pause.durations.ns - pause.runnable_ns


def _places_of(pause: Pause) -> Iterator[Place]:
    # Outermost first.
    frames = [*frames_of(pause.kernel), *(pause.user or ())]
    if not frames:
        yield Place(f"{UNKNOWN} unresolved", UNKNOWN)
    user = len(pause.user or ())
    for index, frame in enumerate(reversed(frames)):
        yield _place(frame, is_kernel=index >= user)


def _place(frame: Frame, *, is_kernel: bool) -> Place:
    dso = KERNEL if is_kernel else frame.program or UNKNOWN
    bracketed = dso if dso.startswith("[") else f"[{dso}]"
    return Place(frame.function or f"{bracketed} unresolved", dso)
