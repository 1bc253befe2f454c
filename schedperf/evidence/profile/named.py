# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the functions that findings and class rows name, and the call paths that lead to them.

Findings name functions that changed in share or in cost, and functions to which code is attributed
that an event cannot sample; a class row names the functions that changed its share most.
"""

from collections.abc import Sequence

import numpy as np

from schedperf.evidence.profile.family import MOST_FUNCTIONS, class_name, is_idle_time
from schedperf.evidence.profile.flame import Flame, measure_places
from schedperf.evidence.profile.independent import column_means
from schedperf.evidence.profile.record import Measure
from schedperf.evidence.profile.samples import PER_CENT, Flags, Floats
from schedperf.evidence.profile.stacks import COMMAND, Stacks
from schedperf.inputs.perf_data.recording import Integers

# For each named function, the largest call path is kept, and all paths with this share of all time.
LEAST_NAMED_SHARE = 0.001
# Call chains contain more files, some of which are one place here and several in the table, or vice
# versa; so this many more functions per class are kept.
_SPARE = 2
# Tolerance for two sums of the same numbers.
_ROUNDING_PP = 1e-9


def find_named(flame: Flame, measures: Sequence[Measure]) -> Flags:
    """Return a mask of the places that findings and class rows may name, shape (places,)."""
    named = flame.is_hidden.copy()
    for measure in measures:
        named |= measure_places(flame, measure).changed
    share = measure_places(flame, "share")
    if share.new is not None:
        named |= _moving_most(flame, share.new - share.base)
    return named


def _moving_most(flame: Flame, change: Floats) -> Flags:
    # The functions that a class row names, including ties with the last one.
    classes = np.array(
        [
            ""
            if each.dso == COMMAND or is_idle_time(each)
            else class_name(each, sees_kernel=flame.runs.sees_kernel)
            for each in flame.places
        ]
    )
    chosen = np.zeros(len(flame.places), dtype=np.bool_)
    for name in set(classes.tolist()) - {""}:
        members = np.flatnonzero(classes == name)
        along = change[members] * np.sign(change[members].sum())
        least = np.sort(along)[::-1][min(MOST_FUNCTIONS + _SPARE, len(members)) - 1]
        chosen[members[(along >= least - _ROUNDING_PP) & (along > 0.0)]] = True
    return chosen


def stacks_of_places(stacks: Stacks, chosen: Flags) -> Integers:
    """Return the number of frames of each stack that ends in a chosen place, shape (stacks,).

    It is 0 for other stacks. For each place, only the largest stack counts and those with at least
    ``LEAST_NAMED_SHARE`` of all time, since a bundle may have any number of small ones.

    :param chosen: True for chosen places, shape (places,)
    """
    leaf = stacks.frames[stacks.starts[1:] - 1]
    of_chosen = np.flatnonzero(chosen[leaf])
    shares = _largest_shares(stacks, of_chosen)
    # Sorted by place, largest first.
    order = np.lexsort((-shares, leaf[of_chosen]))
    places = leaf[of_chosen][order]
    is_largest = np.diff(places, prepend=-1) != 0
    kept = order[is_largest | (shares[order] >= LEAST_NAMED_SHARE)]
    lengths = np.zeros(len(stacks), np.int64)
    lengths[of_chosen[kept]] = np.diff(stacks.starts)[of_chosen[kept]]
    return lengths


def _largest_shares(stacks: Stacks, of_chosen: Integers) -> Floats:
    # The larger of both sides' mean shares of all time, shape (chosen stacks,).
    column = np.full(len(stacks), -1, np.int64)
    column[of_chosen] = np.arange(len(of_chosen))
    is_chosen = column[stacks.stack] >= 0
    shape = len(stacks.runs), len(of_chosen)
    flat = stacks.run[is_chosen] * shape[1] + column[stacks.stack[is_chosen]]
    sums = np.bincount(flat, stacks.weight[is_chosen], shape[0] * shape[1]).reshape(shape)
    sides = stacks.runs.scale(sums.astype(np.float64), "share")
    return np.asarray(np.max([column_means(side) for side in sides], axis=0) / PER_CENT)
