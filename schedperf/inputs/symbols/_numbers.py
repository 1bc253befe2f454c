# SPDX-License-Identifier: GPL-2.0-or-later
"""Number the distinct addresses of call chains, a chunk of words at a time.

Each distinct address occurs hundreds of times in call chains, so a table of 64-bit hashes finds the
number of nearly every address without sorting. Two different pairs of address and context collide
with a probability of 2**-64 and are then merged.
"""

import os

import numpy as np
from numpy.typing import NDArray

from schedperf.inputs.perf_data.recording import Addresses, Integers

Numbers = NDArray[np.int32]

_FEWEST_BITS = 16
_GROWTH_BITS = 2
# The table has at least this many slots for each pair.
_SLOTS = 4
_HALF = np.uint64(32)
_WORD_BITS = 64


class Numbered:
    """The distinct pairs of an address and its context (mode and address space), by number.

    :ivar addresses: shape (pairs,)
    :ivar contexts: shape (pairs,)
    """

    def __init__(self) -> None:
        self._secrets = np.frombuffer(os.urandom(32), np.uint64) | np.uint64(1)
        self.addresses = np.zeros(0, np.uint64)
        self.contexts = np.zeros(0, np.int64)
        self._distinct = np.zeros(0, np.uint64)
        # Numbers of pairs whose slot is occupied by another pair.
        self._overflow: dict[int, int] = {}
        self._bits = _FEWEST_BITS
        self._resize()

    def find(self, addresses: Addresses, contexts: Integers) -> Numbers:
        """Return the number of each pair; new pairs get the next numbers.

        :param addresses: shape (pairs,)
        :param contexts: shape (pairs,)
        """
        keys = contexts.view(np.uint64) * self._secrets[0]
        keys ^= addresses
        # Key 0 marks a free slot; without the addend, address 0 would have this key.
        keys += self._secrets[3]
        keys *= self._secrets[1]
        keys ^= keys >> _HALF
        keys *= self._secrets[2]
        slots = keys >> self._shift
        numbers: Numbers = self._numbers[slots]
        missed = np.flatnonzero(self._keys[slots] != keys)
        if len(missed):
            distinct, first, inverse = np.unique(
                keys[missed], return_index=True, return_inverse=True
            )
            first = missed[first]
            numbers[missed] = self._number(distinct, addresses[first], contexts[first])[inverse]
        return numbers

    def _number(self, keys: Addresses, addresses: Addresses, contexts: Integers) -> Numbers:
        numbers = np.array([self._overflow.get(key, -1) for key in keys.tolist()], np.int32)
        is_new = numbers < 0
        begin, count = len(self._distinct), int(np.count_nonzero(is_new))
        numbers[is_new] = np.arange(begin, begin + count)
        self._distinct = np.append(self._distinct, keys[is_new])
        self.addresses = np.append(self.addresses, addresses[is_new])
        self.contexts = np.append(self.contexts, contexts[is_new])
        if len(self._distinct) * _SLOTS > len(self._keys):
            self._bits += _GROWTH_BITS
            self._resize()
        else:
            self._fill(keys[is_new], numbers[is_new])
        return numbers

    def _resize(self) -> None:
        self._shift = np.uint64(_WORD_BITS - self._bits)
        self._keys = np.zeros(1 << self._bits, np.uint64)
        self._numbers = np.zeros(1 << self._bits, np.int32)
        self._overflow.clear()
        self._fill(self._distinct, np.arange(len(self._distinct), dtype=np.int32))

    def _fill(self, keys: Addresses, numbers: Numbers) -> None:
        slots = keys >> self._shift
        free = self._keys[slots] == 0
        self._keys[slots[free]] = keys[free]
        is_placed = self._keys[slots] == keys
        self._numbers[slots[is_placed]] = numbers[is_placed]
        others = ~is_placed
        self._overflow.update(zip(keys[others].tolist(), numbers[others].tolist(), strict=True))
