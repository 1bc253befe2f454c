"""The distinct call chains of a recording, laid out address by address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedperf.perf_data.recording import (
    CONTEXT_KERNEL,
    CONTEXT_MAX,
    CONTEXT_USER,
    MODE_GUEST_KERNEL,
    MODE_GUEST_USER,
    MODE_HYPERVISOR,
    MODE_KERNEL,
    MODE_UNKNOWN,
    MODE_USER,
    NO_CHAIN,
    Addresses,
    Chains,
    Integers,
    Recording,
)

# PERF_CONTEXT_* of include/uapi/linux/perf_event.h, negative numbers in 64 bits: whose addresses
# follow.
_MODE_OF_CONTEXT: Mapping[int, int] = {
    CONTEXT_KERNEL: MODE_KERNEL,
    CONTEXT_USER: MODE_USER,
    (1 << 64) - 32: MODE_HYPERVISOR,
    (1 << 64) - 640: MODE_USER,  # PERF_CONTEXT_USER_DEFERRED
    (1 << 64) - 2176: MODE_GUEST_KERNEL,
    (1 << 64) - 2560: MODE_GUEST_USER,
}


@dataclass(frozen=True, slots=True)
class Stacks:
    """Distinct pairs of a chain and the space that its user addresses mean something in.

    :param words: addresses of all stacks one after the other, innermost first, without markers
    :param mode: of each word, as is ``space``
    :param starts: stack i is ``words[starts[i]:starts[i + 1]]``; shape (stacks + 1,)
    :param of_row: the stack of each row of the samples, or ``NO_CHAIN``
    """

    words: Addresses
    mode: Integers
    space: Integers
    starts: Integers
    of_row: Integers


class _Pairs(NamedTuple):
    # What tells stacks apart, shape (stacks,), and the stack of each row.
    chain: Integers
    space: Integers
    mode: Integers
    of_row: Integers


def distinct_stacks(recording: Recording) -> Stacks:
    """Return the stacks of all rows that have one."""
    chains = recording.chains
    pairs = _distinct_pairs(recording)
    counts = np.diff(chains.starts)[pairs.chain]
    starts = _running_total(counts)
    stack = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(starts[-1])
    words = chains.words[place - starts[stack] + chains.starts[pairs.chain][stack]]
    is_marker = words >= np.uint64(CONTEXT_MAX)
    # The last marker in front of a word says whose address it is; in front of any, the row does.
    marker = np.maximum.accumulate(np.where(is_marker, place, -1))
    said = _modes_of(words)[np.maximum(marker, 0)] if len(words) else place
    mode = np.where(marker >= starts[stack], said, pairs.mode[stack])
    kept = ~is_marker
    return Stacks(
        words=words[kept],
        mode=mode[kept],
        space=pairs.space[stack][kept],
        starts=_running_total(np.bincount(stack[kept], minlength=len(counts))),
        of_row=pairs.of_row,
    )


def _distinct_pairs(recording: Recording) -> _Pairs:
    rows = recording.samples
    of_row = np.full(len(rows), NO_CHAIN, np.int64)
    chained = np.flatnonzero(rows.chain != NO_CHAIN)
    chain = rows.chain[chained]
    is_bare, has_user = _kinds(recording.chains)
    # The kernel's addresses are the same in all spaces, so that its stacks are not multiplied.
    space = np.where((is_bare | has_user)[chain], rows.space[chained], 0)
    mode = np.where(is_bare[chain], rows.mode[chained], MODE_UNKNOWN)
    keys = np.stack((chain, space, mode))
    order = np.lexsort(keys)
    ordered = keys[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    of_row[chained[order]] = np.cumsum(is_new) - 1
    chain, space, mode = ordered[:, is_new]
    return _Pairs(chain, space, mode, of_row)


def _kinds(chains: Chains) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    # Whether a chain begins without a marker, and whether it holds user addresses.
    modes = _modes_of(chains.words)
    users = _running_total((modes == MODE_USER).astype(np.int64))
    has_user = users[chains.starts[1:]] > users[chains.starts[:-1]]
    is_empty = chains.starts[1:] == chains.starts[:-1]
    begins = np.append(chains.words, np.uint64(0))[chains.starts[:-1]]
    return ~is_empty & (begins < np.uint64(CONTEXT_MAX)), has_user


def _modes_of(words: Addresses) -> Integers:
    # What a marker says; of any other word it is MODE_UNKNOWN and means nothing.
    modes = np.full(len(words), MODE_UNKNOWN, np.int64)
    markers = np.flatnonzero(words >= np.uint64(CONTEXT_MAX))
    for context, mode in _MODE_OF_CONTEXT.items():
        modes[markers[words[markers] == np.uint64(context)]] = mode
    return modes


def _running_total(counts: Integers) -> Integers:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
