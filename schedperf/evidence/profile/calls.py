# SPDX-License-Identifier: GPL-2.0-or-later
"""Sum the callers and callees of functions over all call paths, without a size limit."""

from collections.abc import Iterator

import numpy as np

from schedperf.evidence.profile.family import MOST_PLACES, interest_of
from schedperf.evidence.profile.flame import Flame, largest_first, measure_places
from schedperf.evidence.profile.flame_record import FunctionCall, FunctionCalls
from schedperf.evidence.profile.independent import column_means
from schedperf.evidence.profile.samples import Flags, Floats
from schedperf.evidence.profile.stacks import Stacks
from schedperf.inputs.perf_data.recording import Integers
from schedperf.inputs.symbols.functions import is_scheduler_function
from schedperf.model.text import clean_line

# Largest number of callers and of callees per function.
MOST_CALLS = 8
# Digits of a share that is only printed.
_DIGITS = 3


def describe_calls(stacks: Stacks, flame: Flame, named: Flags) -> tuple[FunctionCalls, ...]:
    """Return the callers and callees of all functions in the table of functions.

    Hot or most-moved functions come first. Functions without callers and callees are left out.

    :param flame: the tree of ``stacks``, of two sides
    :param named: True for places that findings and class rows name, shape (places,)
    """
    calls = _Calls(stacks)
    chosen = _choose_places(flame, named)
    return tuple(calls.describe(place) for place in chosen if calls.has_neighbours(place))


def _choose_places(flame: Flame, named: Flags) -> list[int]:
    # The rows of the table: the hottest places, changed places, functions of the scheduler.
    share = measure_places(flame, "share")
    assert share.new is not None
    is_sampled = (share.base > 0.0) | (share.new > 0.0)
    chosen = np.array([is_scheduler_function(location) for location in flame.places], np.bool_)
    chosen |= named
    interest = interest_of(share.base, share.new)
    # Ties may be ordered differently in the two lists.
    ranked = np.sort(interest)[::-1]
    chosen |= interest >= ranked[min(MOST_PLACES, len(ranked)) - 1]
    return largest_first(is_sampled & chosen, interest)


class _Calls:
    # Pairs of caller and callee, with the mean share on both sides.

    def __init__(self, stacks: Stacks) -> None:
        self.places = stacks.places
        count = len(stacks.places)
        frames = stacks.frames.astype(np.int64)
        # Each frame of a stack, except the last, calls the next one.
        calls_next = np.ones(len(frames), dtype=np.bool_)
        calls_next[stacks.starts[1:] - 1] = False
        (caller,) = np.nonzero(calls_next)
        keys = frames[caller] * count + frames[caller + 1]
        of_stack = np.repeat(np.arange(len(stacks)), np.diff(stacks.starts))[caller]
        pairs, pair = np.unique(keys, return_inverse=True)
        # If a stack contains a pair several times, its time counts once.
        once = np.unique(of_stack * max(len(pairs), 1) + pair)
        stack, pair = np.divmod(once, max(len(pairs), 1))
        self.caller, self.callee = np.divmod(pairs, max(count, 1))
        self.shares = _shares_of_pairs(stacks, stack, pair, len(pairs))

    def has_neighbours(self, place: int) -> bool:
        return bool(np.any((self.caller == place) ^ (self.callee == place)))

    def describe(self, place: int) -> FunctionCalls:
        is_other = self.caller != self.callee
        callers = self._largest(np.flatnonzero((self.callee == place) & is_other))
        callees = self._largest(np.flatnonzero((self.caller == place) & is_other))
        return FunctionCalls(
            symbol=clean_line(self.places[place].symbol),
            dso=clean_line(self.places[place].dso),
            callers=tuple(self._name(callers[:MOST_CALLS], self.caller)),
            more_callers=max(0, len(callers) - MOST_CALLS),
            callees=tuple(self._name(callees[:MOST_CALLS], self.callee)),
            more_callees=max(0, len(callees) - MOST_CALLS),
        )

    def _largest(self, pairs: Integers) -> Integers:
        totals = self.shares[:, pairs].sum(axis=0)
        return pairs[np.argsort(-totals, kind="stable")]

    def _name(self, pairs: Integers, of: Integers) -> Iterator[FunctionCall]:
        for pair in pairs.tolist():
            base, new = (float(f"{share:.{_DIGITS}g}") for share in self.shares[:, pair].tolist())
            symbol = clean_line(self.places[of[pair]].symbol)
            yield FunctionCall(symbol=symbol, base=base, new=new)


def _shares_of_pairs(stacks: Stacks, stack: Integers, pair: Integers, pairs: int) -> Floats:
    # Mean share of each pair on each side, in percent, shape (sides, pairs).
    starts = np.searchsorted(stack, np.arange(len(stacks) + 1))
    counts = np.diff(starts)[stacks.stack]
    entry = np.repeat(np.arange(len(stacks.stack)), counts)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    of_pair = pair[starts[stacks.stack[entry]] + within]
    flat = stacks.run[entry] * pairs + of_pair
    sums = np.bincount(flat, stacks.weight[entry], len(stacks.runs) * pairs)
    sides = stacks.runs.scale(sums.reshape(len(stacks.runs), pairs).astype(np.float64), "share")
    return np.array([column_means(side) for side in sides])
