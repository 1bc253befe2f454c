# SPDX-License-Identifier: GPL-2.0-or-later
"""Build differential flame graphs: one tree of call stacks for all runs of both sides.

Each frame has an inclusive time and a self time on each side.
:func:`schedperf.stats.compare_columns` tests all frames together against the run-to-run variance.
Frames that are too small to be drawn are merged into one remainder per caller, so that the callees
of a frame always add up. What changed and what is named elsewhere in the report is kept, however
small it is.

A frame that only one side has is in the tree, with time 0 on the other side.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.profile.family import is_idle_time, is_kernel_code
from schedperf.evidence.profile.independent import column_means
from schedperf.evidence.profile.record import SMALLEST_CHANGE_PP, Measure
from schedperf.evidence.profile.samples import PER_CENT, Flags, Floats, Runs
from schedperf.evidence.profile.stacks import Stacks
from schedperf.model.verdict import FALSE_DISCOVERY_RATE
from schedperf.perf_data.recording import Integers
from schedperf.symbols.place import Place

if TYPE_CHECKING:
    from schedperf.stats import Columns

# Frames that have less of all time on either side are drawn as part of a remainder: half of this
# is a pixel on a screen of 4000.
LEAST_SHARE = 0.0005
# The kernel records at most 127 frames unless kernel.perf_event_max_stack is raised; a file that
# claims more may not fill the memory.
DEEPEST = 512

# Of a sum of doubles; a sample that were a smaller part of its frame has no pixel anyway.
ROUNDING = 1e-12

# What stands in place of an index into the places.
ROOT = -1
REMAINDER = -2
# While a tree grows, entries that go no further have numbers below 0: this, minus a remainder.
_STOPPED = -1

Extent = Literal["inclusive", "self"]


class Flame(Struct, frozen=True, kw_only=True):
    """The tree of one event; a frame comes after its caller, frame 0 is the root.

    :param least_share: of all time; smaller frames are in remainders
    :param parent: index of the caller, -1 for the root; shape (frames,)
    :param place: index into ``places``, ``ROOT`` or ``REMAINDER``; shape (frames,)
    :param is_kernel: which places are the kernel's code, shape (places,)
    :param others: places of commands other than the workload, which are outermost frames
    :param hidden: how many frames a remainder stands for, not counting those that they called;
        0 for any other; shape (frames,)
    :param inclusive: sums of periods with everything that was called, shape (runs, frames)
    :param own: sums of periods of the samples that ended in the frame, shape (runs, frames); what
        a remainder stands for is its own
    :param end: of each stack, the frame that it ends in, a remainder where it is too small for one
        of its own; shape (stacks,)
    :param by_place: sums of periods of the samples that ended in a place, on whatever path and
        however small, shape (runs, places)
    """

    runs: Runs
    least_share: float
    places: tuple[Place, ...]
    is_kernel: Flags
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
    """One measure of all frames, or of all places; shape (frames,), NaN where unknown.

    :param base: mean over the runs: per cent of all time, or units of the event per operation
    :param new: the same of the other side; None of one side alone, as all that follows
    :param smallest: the smallest change that counts, in the unit of ``base``
    """

    base: Floats
    new: Floats | None
    columns: "Columns | None"
    smallest: float = 0.0

    @property
    def changed(self) -> Flags:
        """Which of them changed significantly, shape (frames,)."""
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

    The memory is bounded by the number of stacks and by depth / ``least_share`` frames,
    however many distinct frames there are.

    :param others: places of commands other than the workload
    :param kept: of each stack, how many of its frames are kept however small they are, outermost
        first, shape (stacks,); None: none
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
        is_kernel=np.array(
            [is_kernel_code(location) for location in stacks.places], dtype=np.bool_
        ),
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
    """Return the same tree with the weights of some of the samples: of one CPU, or one command.

    :param stacks: those that the tree was made of, with other weights
    """
    runs, frames = len(stacks.runs), len(flame)
    flat = stacks.run * frames + flame.end[stacks.stack]
    own = np.bincount(flat, stacks.weight, runs * frames).reshape(runs, frames).astype(np.float64)
    inclusive = own.copy()
    # A frame comes after its caller, so that in this order all that it called is in it.
    for frame in range(frames - 1, 0, -1):
        inclusive[:, flame.parent[frame]] += inclusive[:, frame]
    return replace(flame, inclusive=inclusive, own=own, by_place=_sum_by_place(stacks))


def measure_frames(flame: Flame, measure: Measure, extent: Extent) -> FrameChanges:
    """Return the times of the frames on each side, and their changes."""
    weights = flame.inclusive if extent == "inclusive" else flame.own
    kernel = (flame.place >= 0) & flame.is_kernel[np.maximum(flame.place, 0)]
    # Idle time is a frame as any other: who reads a graph sees that it is the rest.
    return _measure(flame, weights, measure, kernel, np.zeros(len(flame), dtype=np.bool_))


def measure_places(flame: Flame, measure: Measure) -> FrameChanges:
    """Return the self times of functions over all call paths; shape (places,).

    A function with many callers may change significantly although none of its frames does.
    """
    # The family of the table of functions, so that a function has one q in both.
    idle = np.array([is_idle_time(location) for location in flame.places], dtype=np.bool_)
    return _measure(flame, flame.by_place, measure, flame.is_kernel, idle)


def changed_frames(
    flame: Flame, inclusive: FrameChanges, own: FrameChanges, functions: FrameChanges
) -> Flags:
    """Return which frames count as changed wherever frames are counted, listed or coloured.

    The time of the frame with its callees changed, or its function changed over all call paths and
    the frame moved in the same direction, with and without its callees. Merged frames, the root,
    and frames of commands other than the workload do not count.

    :return: shape (frames,)
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
    """Return which frames are of commands other than the workload, shape (frames,)."""
    is_other = np.array([location in flame.others for location in flame.places], dtype=np.bool_)
    flags = np.zeros(len(flame), dtype=np.bool_)
    outermost = np.flatnonzero((flame.parent == 0) & (flame.place >= 0))
    flags[outermost] = is_other[flame.place[outermost]]
    # A frame comes after its caller.
    for frame in np.flatnonzero(flame.parent > 0).tolist():
        flags[frame] = flags[flame.parent[frame]]
    return flags


def depths_of(flame: Flame, chosen: Flags) -> Integers:
    """Return of each frame how deep the innermost chosen frame on its path is; 0: there is none.

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
    flame: Flame, weights: Floats, measure: Measure, kernel: Flags, idle: Flags
) -> FrameChanges:
    if len(flame.runs.labels) == 1:
        (base,) = flame.runs.scale(weights, measure)
        return FrameChanges(base=column_means(base), new=None, columns=None)
    columns = flame.runs.compare(weights, measure, is_idle=idle, is_kernel=kernel)
    smallest = SMALLEST_CHANGE_PP if measure == "share" else 0.0
    return FrameChanges(base=columns.base, new=columns.new, columns=columns, smallest=smallest)


def one_sided_frames(flame: Flame) -> tuple[list[int], list[int]]:
    """Return the frames that only base has, and those that only new has, largest first.

    Frames below the size limit and those of commands other than the workload are left out. Of a
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
    """Return in how many runs (or boots) of a side each frame was sampled, shape (frames,)."""
    sampled = flame.runs.scale(flame.inclusive, "share")[side] > 0.0
    return np.asarray(np.count_nonzero(sampled, axis=0), dtype=np.int64)


def largest_first(chosen: Flags, values: Floats) -> list[int]:
    """Return the chosen frames in falling order of their values, both of shape (frames,)."""
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
    # Sums of the same numbers in another order may differ in their last bits.
    own = inclusive - called
    return np.asarray(np.where(own > ROUNDING * inclusive, own, 0.0))


@dataclass(slots=True)
class _Growth:
    # The levels of the tree so far, and the entries of the stacks that go on.
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
        # Return the frame of each entry; where it is too small to go on, _STOPPED minus the
        # remainder that it is in.
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
