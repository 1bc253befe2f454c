# SPDX-License-Identifier: GPL-2.0-or-later
"""Number the distinct call stacks of several runs, processing all stacks of a run at once.

A stack is identified by a 64-bit hash of its places with random multipliers, like rows in the
reader of perf.data: two different stacks collide with a probability of at most 2**-58.
"""

import os

import numpy as np
from numpy.typing import NDArray

from schedperf.inputs.perf_data.recording import Integers
from schedperf.inputs.symbols.places import Numbers

Words = NDArray[np.uint64]

# Number of frames that are processed at once; intermediate results fit in the CPU's cache.
CHUNK_FRAMES = 128 << 10
_HALF = np.uint64(32)
_SECRETS = 4


class StackHasher:
    """Hashes sequences of numbers, with random multipliers."""

    def __init__(self) -> None:
        self._secrets = np.frombuffer(os.urandom(8 * _SECRETS), np.uint64) | np.uint64(1)

    def term(self, numbers: NDArray[np.integer]) -> Words:
        """Return a pseudo-random word for each number."""
        terms: Words = (numbers.astype(np.uint64) + self._secrets[0]) * self._secrets[1]
        terms ^= terms >> _HALF
        terms *= self._secrets[2]
        return terms

    def sequences(self, terms: Words, numbers: Numbers, starts: Integers) -> Words:
        """Return the hash of each sequence: a polynomial at a random odd number, modulo 2**64.

        The hash of an empty sequence is 0.

        :param terms: ``terms[n]`` is the term of the number n
        :param numbers: all sequences, concatenated
        :param starts: sequence i is ``numbers[starts[i]:starts[i + 1]]``
        """
        hashes = np.zeros(len(starts) - 1, np.uint64)
        powers, inverses = self._powers(int(np.diff(starts).max(initial=0)))
        for first, last in chunks_of(starts):
            begin = starts[first:last] - starts[first]
            own = numbers[starts[first] : starts[last]]
            words = np.append(terms[own] * powers[: len(own)], np.uint64(0))
            filled = starts[first + 1 : last + 1] > starts[first:last]
            sums = np.add.reduceat(words, begin) * inverses[begin]
            hashes[first:last] = np.where(filled, sums, np.uint64(0))
        return hashes

    def append(self, hashes: Words, terms: Words) -> Words:
        """Return hashes of sequences with one more number, given by its term."""
        appended: Words = hashes * self._secrets[3] + terms
        return appended

    def _powers(self, longest: int) -> tuple[Words, Words]:
        base = int(self._secrets[3])
        powers, inverses = np.ones((2, CHUNK_FRAMES + longest + 1), np.uint64)
        powers[1:], inverses[1:] = base, pow(base, -1, 1 << 64)
        return np.multiply.accumulate(powers), np.multiply.accumulate(inverses)


def chunks_of(starts: Integers) -> list[tuple[int, int]]:
    """Split sequences into chunks of at most ``CHUNK_FRAMES`` numbers; a longer one is a chunk.

    :param starts: sequence i is at ``starts[i]:starts[i + 1]``
    :return: for each chunk, the index of its first sequence, and of the first one after it
    """
    chunks, first = [], 0
    while first < len(starts) - 1:
        limit = starts[first] + CHUNK_FRAMES
        last = max(first + 1, int(np.searchsorted(starts, limit, side="right")) - 1)
        chunks.append((first, last))
        first = last
    return chunks
