# SPDX-License-Identifier: GPL-2.0-or-later
"""Build differential flame graphs: one tree of call stacks for all runs of both sides.

Each frame has an inclusive time and a self time on each side.
:func:`schedperf.stats.compare_columns` tests all frames together against the run-to-run variance.
Frames that are too small to be drawn are merged into one remainder per caller, so that the callees
of a frame always add up. Frames that changed or are named elsewhere in the report are kept at any
size.

A frame of one side only has time 0 on the other side.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.profile.family import is_charged, is_idle_time
from schedperf.evidence.profile.independent import column_means
from schedperf.evidence.profile.record import SMALLEST_CHANGE_PP, Measure
from schedperf.evidence.profile.samples import PER_CENT, Flags, Floats, Runs
from schedperf.evidence.profile.stacks import Stacks
from schedperf.inputs.perf_data.recording import Integers
from schedperf.model.place import Place
from schedperf.model.verdict import FALSE_DISCOVERY_RATE

if TYPE_CHECKING:
    from schedperf.stats import Columns

# Frames with a smaller share of all time on both sides are merged into a remainder; half of this is
# one pixel on a screen of 4000.
LEAST_SHARE = 0.0005
# Limit on the depth. The kernel records at most 127 frames unless kernel.perf_event_max_stack is
# raised; the limit protects against files with more.
DEEPEST = 512

# Relative rounding error of sums of doubles; a smaller part of a frame is never visible.
ROUNDING = 1e-12

# Special values in place of an index into the places.
ROOT = -1
REMAINDER = -2
# While a tree is built, entries that have ended have the negative number _STOPPED minus the
# remainder's index.
_STOPPED = -1

Extent = Literal["inclusive", "self"]


class Flame(Struct, frozen=True, kw_only=True):
    """The tree of one event; a frame comes after its caller, frame 0 is the root.

    :param least_share: smallest share of all time of a frame; smaller frames are in remainders
    :param parent: index of the caller, -1 for the root; shape (frames,)
    :param place: index into ``places``, ``ROOT`` or ``REMAINDER``; shape (frames,)
    :param is_hidden: True for functions to which time with interrupts off is attributed, shape
        (places,)
    :param others: places of commands other than the workload, which are outermost frames
    :param hidden: number of frames merged into a remainder, without their callees; 0 for other
        frames; shape (frames,)
    :param inclusive: sums of periods including callees, shape (runs, frames)
    :param own: sums of periods of the samples that ended in the frame, shape (runs, frames); all
        time of a remainder is its own
    :param end: for each stack, the frame in which it ends, or a remainder if that frame is too
        small; shape (stacks,)
    :param by_place: sums of periods of the samples that ended in a place, over all paths of any
        size, shape (runs, places)
    """

    runs: Runs
    least_share: float
    places: tuple[Place, ...]
    is_hidden: Flags
    others: frozenset[Place] = frozenset()
    parent: Integers
    place: Integers
    hidden: Integers
    inclusive: Floats
    own: Floats
    end: Integers
    by_place: Floats

    def __len__(self) -> int:
        return len(self.parent)


class FrameChanges(Struct, frozen=True, kw_only=True):
    """One measure of all frames or all places; shape (frames,) or (places,), NaN if unknown.

    :param base: mean over the runs: percent of all time, or units of the event per operation
    :param new: the same for the other side; None if there is only one side
    :param columns: the comparison of both sides; None if there is only one side
    :param smallest: the smallest relevant change, in the unit of ``base``
    """

    base: Floats
    new: Floats | None
    columns: "Columns | None"
    smallest: float = 0.0

    @property
    def changed(self) -> Flags:
        """True for significant changes of ``smallest`` or more, shape as ``base``.

        All False if there is only one side.
        """
        if self.columns is None:
            return np.zeros(len(self.base), dtype=np.bool_)
        is_large = np.abs(self.columns.difference) >= self.smallest
        return np.asarray((self.columns.q < FALSE_DISCOVERY_RATE) & is_large)


def build_flame(
    stacks: Stacks,
    *,
    least_share: float = LEAST_SHARE,
    others: frozenset[Place] = frozenset(),
    kept: Integers | None = None,
) -> Flame:
    """Build the tree level by level without expanding frames that are too small to be drawn.

    Memory is bounded by the number of stacks and by depth / ``least_share`` frames plus those of
    ``kept``, independent of the number of distinct frames. From the ``DEEPEST``-th frame of a stack
    on, frames are merged at any size.

    :param least_share: smallest share of all time of a frame; smaller frames are merged
    :param others: places of commands other than the workload
    :param kept: for each stack, the number of its outermost frames that are kept at any size, shape
        (stacks,); None for none
    """
    growth = _Growth(stacks, least_share, np.zeros(len(stacks), np.int64) if kept is None else kept)
    growth.grow()
    inclusive = np.concatenate(growth.inclusive, axis=1)
    parent = np.concatenate(growth.parent)
    called = np.zeros_like(inclusive)
    for run, weights in enumerate(inclusive):
        called[run] = np.bincount(parent[1:], weights[1:], len(parent))
    return Flame(
        runs=stacks.runs,
        least_share=least_share,
        places=stacks.places,
        is_hidden=np.array([is_charged(location) for location in stacks.places], dtype=np.bool_),
        others=others,
        parent=parent,
        place=np.concatenate(growth.place),
        hidden=np.concatenate(growth.hidden),
        inclusive=inclusive,
        own=_difference(inclusive, called),
        end=growth.end,
        by_place=_sum_by_place(stacks),
    )


def narrow_flame(flame: Flame, stacks: Stacks) -> Flame:
    """Return the same tree with the weights of a subset of the samples, e.g. of one CPU or command.

    :param stacks: the stacks of the tree, with the weights of the subset
    """
    runs, frames = len(stacks.runs), len(flame)
    flat = stacks.run * frames + flame.end[stacks.stack]
    own = np.bincount(flat, stacks.weight, runs * frames).reshape(runs, frames).astype(np.float64)
    inclusive = own.copy()
    # Frames come after their callers, so in reverse order all callees have been added before.
    for frame in range(frames - 1, 0, -1):
        inclusive[:, flame.parent[frame]] += inclusive[:, frame]
    return replace(flame, inclusive=inclusive, own=own, by_place=_sum_by_place(stacks))


def measure_frames(flame: Flame, measure: Measure, extent: Extent) -> FrameChanges:
    """Return the times of the frames on each side, and their changes."""
    weights = flame.inclusive if extent == "inclusive" else flame.own
    hidden = (flame.place >= 0) & flame.is_hidden[np.maximum(flame.place, 0)]
    # Idle time is a frame like any other, since the graph shows that it is the remaining time.
    return _measure(flame, weights, measure, hidden, np.zeros(len(flame), dtype=np.bool_))


def measure_places(flame: Flame, measure: Measure) -> FrameChanges:
    """Return the self times of functions over all call paths; shape (places,).

    A function with many callers may change significantly although none of its frames does.
    """
    # The same family as in the table of functions, so that a function has the same q in both.
    idle = np.array([is_idle_time(location) for location in flame.places], dtype=np.bool_)
    return _measure(flame, flame.by_place, measure, flame.is_hidden, idle)


def changed_frames(
    flame: Flame, inclusive: FrameChanges, own: FrameChanges, functions: FrameChanges
) -> Flags:
    """Return which frames are counted, listed and coloured as changed.

    Either the inclusive time of the frame changed, or its function changed over all call paths and
    the frame's inclusive and self time moved in the direction of the function. Remainders, the
    root, and frames of commands other than the workload are excluded.

    :param functions: result of :func:`measure_places`
    :return: shape (frames,); all False if there is only one side
    """
    is_named = flame.place >= 0
    if inclusive.columns is None or own.columns is None or functions.columns is None:
        return np.zeros(len(flame), dtype=np.bool_)
    place = np.maximum(flame.place, 0)
    of_function = functions.columns.difference[place]
    is_part = functions.changed[place]
    for columns in (inclusive.columns, own.columns):
        is_part &= columns.difference * of_function > 0.0
    return np.asarray(is_named & (inclusive.changed | is_part) & ~of_others(flame))


def of_others(flame: Flame) -> Flags:
    """Return which frames belong to commands other than the workload, shape (frames,)."""
    is_other = np.array([location in flame.others for location in flame.places], dtype=np.bool_)
    flags = np.zeros(len(flame), dtype=np.bool_)
    outermost = np.flatnonzero((flame.parent == 0) & (flame.place >= 0))
    flags[outermost] = is_other[flame.place[outermost]]
    # A frame comes after its caller.
    for frame in np.flatnonzero(flame.parent > 0).tolist():
        flags[frame] = flags[flame.parent[frame]]
    return flags


def depths_of(flame: Flame, chosen: Flags) -> Integers:
    """Return for each frame the depth of the innermost chosen frame on its path; 0 if none.

    :param chosen: shape (frames,)
    """
    depth = np.zeros(len(flame), np.int64)
    deepest = np.zeros(len(flame), np.int64)
    for frame in range(1, len(flame)):
        parent = flame.parent[frame]
        depth[frame] = depth[parent] + 1
        deepest[frame] = depth[frame] if chosen[frame] else deepest[parent]
    return deepest


def _measure(
    flame: Flame, weights: Floats, measure: Measure, hidden: Flags, idle: Flags
) -> FrameChanges:
    if len(flame.runs.labels) == 1:
        (base,) = flame.runs.scale(weights, measure)
        return FrameChanges(base=column_means(base), new=None, columns=None)
    columns = flame.runs.compare(weights, measure, is_idle=idle, is_hidden=hidden)
    smallest = SMALLEST_CHANGE_PP if measure == "share" else 0.0
    return FrameChanges(base=columns.base, new=columns.new, columns=columns, smallest=smallest)


def one_sided_frames(flame: Flame) -> tuple[list[int], list[int]]:
    """Return the frames that only base has, and those that only new has, largest first.

    Frames below the size limit and frames of commands other than the workload are left out. For a
    call path that one side lacks, only the outermost frame is returned.
    """
    base, new = map(column_means, flame.runs.scale(flame.inclusive, "share"))
    lists = []
    for here, there in ((base, new), (new, base)):
        is_large = here >= PER_CENT * flame.least_share
        only = is_large & (there == 0.0) & (flame.place >= 0) & ~of_others(flame)
        outermost = only & ~only[np.maximum(flame.parent, 0)]
        lists.append(largest_first(outermost, here))
    return lists[0], lists[1]


def count_sampled(flame: Flame, side: int) -> Integers:
    """Return in how many runs (or boots) of a side each frame was sampled, shape (frames,).

    :param side: 0 (base) or 1 (new)
    """
    sampled = flame.runs.scale(flame.inclusive, "share")[side] > 0.0
    return np.asarray(np.count_nonzero(sampled, axis=0), dtype=np.int64)


def largest_first(chosen: Flags, values: Floats) -> list[int]:
    """Return the chosen frames in descending order of their values; both have shape (frames,)."""
    frames = np.flatnonzero(chosen)
    ordered: list[int] = frames[np.argsort(-values[frames], kind="stable")].tolist()
    return ordered


def _sum_by_place(stacks: Stacks) -> Floats:
    # The sampled place is the last frame of its stack, and every stack has one.
    sampled = stacks.frames[stacks.starts[1:] - 1]
    shape = len(stacks.runs), len(stacks.places)
    flat = stacks.run * shape[1] + sampled[stacks.stack]
    return np.bincount(flat, stacks.weight, shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _difference(inclusive: Floats, called: Floats) -> Floats:
    # Sums of the same numbers in a different order may differ by rounding.
    own = inclusive - called
    return np.asarray(np.where(own > ROUNDING * inclusive, own, 0.0))


@dataclass(slots=True)
class _Growth:
    # The levels of the tree so far, and the entries of stacks that continue.
    stacks: Stacks
    least_share: float
    kept: Integers
    parent: list[Integers] = field(default_factory=lambda: [np.array([-1])])
    place: list[Integers] = field(default_factory=lambda: [np.array([ROOT])])
    hidden: list[Integers] = field(default_factory=lambda: [np.array([0])])
    inclusive: list[Floats] = field(default_factory=list)
    frames: int = 1
    end: Integers = field(init=False)

    def grow(self) -> None:
        stacks = self.stacks
        self.end = np.zeros(len(stacks), np.int64)
        lengths = np.diff(stacks.starts)
        run, stack, weight = stacks.run, stacks.stack, stacks.weight
        self.inclusive.append(self._sum(run, np.zeros_like(run), weight, 1))
        node = np.zeros_like(run)
        for depth in range(DEEPEST):
            goes_on = (lengths[stack] > depth) & (node >= 0)
            run, stack, node = (part[goes_on] for part in (run, stack, node))
            weight = weight[goes_on]
            if not len(run):
                return
            location = stacks.frames[stacks.starts[stack] + depth].astype(np.int64)
            is_kept = (self.kept[stack] > depth) & (depth < DEEPEST - 1)
            node = self._add_level(
                run, weight, node, location, is_kept=is_kept, is_last=depth == DEEPEST - 1
            )
            self.end[stack] = np.where(node >= 0, node, _STOPPED - node)

    def _add_level(
        self,
        run: Integers,
        weight: Floats,
        node: Integers,
        location: Integers,
        *,
        is_kept: Flags,
        is_last: bool,
    ) -> Integers:
        # Return the frame of each entry; if it is too small to continue, _STOPPED minus its
        # remainder.
        keys, child = np.unique(node * len(self.stacks.places) + location, return_inverse=True)
        parent, called = np.divmod(keys, len(self.stacks.places))
        inclusive = self._sum(run, child, weight, len(keys))
        is_drawn = self._largest_share(inclusive) >= self.least_share
        is_drawn[child[is_kept]] = True
        if is_last:
            is_drawn[:] = False
        numbers = np.empty(len(keys), np.int64)
        numbers[is_drawn] = self.frames + np.arange(np.count_nonzero(is_drawn))
        self._append(parent[is_drawn], called[is_drawn], 0, inclusive[:, is_drawn])
        left, group, hidden = np.unique(parent[~is_drawn], return_inverse=True, return_counts=True)
        numbers[~is_drawn] = _STOPPED - (self.frames + group)
        rest = np.zeros((len(inclusive), len(left)))
        for row, small in enumerate(inclusive[:, ~is_drawn]):
            rest[row] = np.bincount(group, small, len(left))
        self._append(left, REMAINDER, hidden, rest)
        return numbers[child]

    def _append(
        self, parent: Integers, location: Integers | int, hidden: Integers | int, inclusive: Floats
    ) -> None:
        self.parent.append(parent)
        self.place.append(np.broadcast_to(location, parent.shape))
        self.hidden.append(np.broadcast_to(hidden, parent.shape))
        self.inclusive.append(inclusive)
        self.frames += len(parent)

    def _sum(self, run: Integers, column: Integers, weight: Floats, columns: int) -> Floats:
        runs = len(self.stacks.runs)
        sums = np.bincount(run * columns + column, weight, runs * columns)
        return sums.reshape(runs, columns).astype(np.float64)

    def _largest_share(self, inclusive: Floats) -> Floats:
        sides = self.stacks.runs.scale(inclusive, "share")
        return np.asarray(
            np.nan_to_num(np.max([column_means(s) for s in sides], axis=0)) / PER_CENT
        )
