"""Places of samples and of call chains: from addresses to names, each distinct address once.

::

    placed = place_samples(recording, symbols, folded=True)
    placed.places[placed.of_row[0]]         # Place("update_cfs_group", "[kernel]")
    placed.frames(np.array([0]))            # [(3, 7, 0)], outermost first

Addresses are worked on as arrays; Python sees each place only once.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from schedperf.perf_data.recording import (
    MODE_KERNEL,
    MODE_USER,
    NO_CHAIN,
    Addresses,
    Integers,
    Recording,
)
from schedperf.symbols._naming import Namer, Symbols
from schedperf.symbols._stack_words import distinct_stacks
from schedperf.symbols.place import BPF, KERNEL, Place

__all__ = ["BPF", "KERNEL", "Place", "Placed", "Symbols", "build_ids", "place_samples"]


@dataclass(frozen=True, slots=True)
class Placed:
    """The places of a recording.

    :param places: each once
    :param of_row: index into ``places`` for each row of ``recording.samples``, shape (rows,)
    :param stack_of_row: which of the stacks a row has, or ``NO_CHAIN``; shape (rows,)
    :param stack_places: the places of all stacks one after the other, innermost first
    :param stack_starts: stack i is ``stack_places[stack_starts[i]:stack_starts[i + 1]]``
    :param unnamed: names of the files, or ``KERNEL``, that have samples and no symbol table
    """

    places: tuple[Place, ...]
    of_row: Integers
    stack_of_row: Integers
    stack_places: Integers
    stack_starts: Integers
    unnamed: frozenset[str]

    def frames(self, chain_rows: Integers) -> list[tuple[int, ...]]:
        """Return the call chain of each row as indices into ``places``, outermost first.

        The sampled place is the last one, and the only one of a row without a chain.
        """
        rows = np.asarray(chain_rows, np.int64)
        wanted, local = np.unique(self.stack_of_row[rows], return_inverse=True)
        chains = [self._chain(number) for number in wanted.tolist()]
        leaves = self.of_row[rows].tolist()
        return [
            _end_with(chains[number], leaf)
            for number, leaf in zip(local.tolist(), leaves, strict=True)
        ]

    def without_stacks(self) -> "Placed":
        """Return the places of the samples alone, without those that only called them."""
        used, of_row = np.unique(self.of_row, return_inverse=True)
        places = tuple(self.places[place] for place in used.tolist())
        return Placed(
            places=places,
            of_row=of_row,
            stack_of_row=np.full(len(of_row), NO_CHAIN, np.int64),
            stack_places=np.zeros(0, np.int64),
            stack_starts=np.zeros(1, np.int64),
            unnamed=self.unnamed & {place.dso for place in places},
        )

    def _chain(self, number: int) -> tuple[int, ...]:
        if number == NO_CHAIN:
            return ()
        places = self.stack_places[self.stack_starts[number] : self.stack_starts[number + 1]]
        return tuple(places[::-1].tolist())


def place_samples(
    recording: Recording,
    symbols: Symbols,
    *,
    folded: bool,
    by_offset: Collection[str] = frozenset(),
) -> Placed:
    """Give every sample and every address of a call chain its place.

    :param folded: parts and copies of a function count as the function, under its newest name:
        for a comparison; else a symbol has its own name
    :param by_offset: build ids of files whose unresolved addresses have a place each,
        ``libc.so.6+0x28490``: only where both sides have the very same file is an offset the
        same code. In all other files unresolved addresses are one place.
    """
    rows, stacks = recording.samples, distinct_stacks(recording)
    namer = Namer(recording, symbols, folded=folded, by_offset=by_offset)
    codes = _place_distinct(
        np.concatenate((rows.mode, stacks.mode)),
        np.concatenate((rows.space, stacks.space)),
        np.concatenate((rows.ip, stacks.words)),
        namer,
    )
    return Placed(
        places=namer.places,
        of_row=codes[: len(rows)],
        stack_of_row=stacks.of_row,
        stack_places=codes[len(rows) :],
        stack_starts=stacks.starts,
        unnamed=namer.unnamed,
    )


def build_ids(recording: Recording) -> frozenset[str]:
    """Return the build ids of all files that were mapped, and of the kernel."""
    known = {file.build_id for file in recording.files} | {recording.features.kernel_build_id}
    return frozenset(build_id for build_id in known if build_id is not None)


def _end_with(chain: Sequence[int], leaf: int) -> tuple[int, ...]:
    # A chain ends in the sampled instruction itself. Where the PMU corrected the sampled
    # address, it is another one, mostly of the same function.
    return tuple(chain) if chain and chain[-1] == leaf else (*chain, leaf)


def _place_distinct(mode: Integers, space: Integers, address: Addresses, namer: Namer) -> Integers:
    # Shape of all: (addresses,).
    codes = np.zeros(len(mode), np.int64)
    is_kernel, is_user = mode == MODE_KERNEL, mode == MODE_USER
    distinct, which = np.unique(address[is_kernel], return_inverse=True)
    codes[is_kernel] = namer.kernel_codes(distinct)[which]
    distinct, which = np.unique(address[is_user], return_inverse=True)
    pairs, which = np.unique(which + space[is_user] * max(len(distinct), 1), return_inverse=True)
    spaces, addresses = np.divmod(pairs, max(len(distinct), 1))
    codes[is_user] = namer.user_codes(spaces, distinct[addresses])[which]
    for other in np.unique(mode[~(is_kernel | is_user)]).tolist():
        codes[mode == other] = namer.other_code(other)
    return codes
