# SPDX-License-Identifier: GPL-2.0-or-later
"""Count samples: equal samples become one row with a count and a sum of periods.

A 64-bit hash with random multipliers identifies a row. Two different rows or call chains collide
with a probability of at most 2**-58 and are then counted as one. With a million distinct chains
(5e11 pairs) a collision happens in one of 500,000 recordings.
"""

import os
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import FieldInfo, fields, replace
from numpy.typing import NDArray

from schedperf.inputs.perf_data._columns import RECORD_MOST_BYTES, Columns, Integers, Words
from schedperf.inputs.perf_data.recording import CONTEXT_USER

# Words that are hashed at once; they and the intermediate results fit in the CPU's cache.
_BLOCK_WORDS = 32 << 10
_TABLE_WORDS = _BLOCK_WORDS + RECORD_MOST_BYTES // 8

# Event, mode and CPU in one word: 12, 3 and 32 bits.
_MODE_SHIFT = np.uint64(32)
_EVENT_SHIFT = np.uint64(35)
_HALF = np.uint64(32)
# Number of random multipliers.
_SECRETS = 8


class Rows(Struct, frozen=True, kw_only=True):
    """Samples, counted or to be counted; shape (rows,).

    :param key: hash of the row; rows with equal keys are merged
    :param where: event, mode and CPU, packed
    :param task: pid and number of its name, packed
    :param chain_hash: hash of the call chain; 0 without a chain
    :param chain_offset: offset in the recording, in bytes, of the chain of the first sample
    :param chain_length: length of the chain, in words
    :param count: number of samples
    :param period: sum of their periods
    """

    key: Words
    where: Words
    task: Words
    space: Integers
    ip: Words
    chain_hash: Words
    chain_offset: Integers
    chain_length: Integers
    count: Integers
    period: Integers

    def __len__(self) -> int:
        return len(self.key)

    def take(self, rows: Integers) -> "Rows":
        """Return the rows at some indices, which may repeat."""
        return Rows(**{name: getattr(self, name)[rows] for name in self.__struct_fields__})

    def events(self) -> Integers:
        """Return the index of each row's event."""
        return (self.where >> _EVENT_SHIFT).view(np.int64)

    def modes(self) -> Integers:
        """Return each row's mode of the CPU: ``MODE_*`` of ``recording.py``."""
        return (self.where >> _MODE_SHIFT & np.uint64(7)).view(np.int64)

    def cpus(self) -> Integers:
        """Return each row's CPU."""
        return (self.where & np.uint64(0xFFFFFFFF)).view(np.int64)


def _type_of(column: FieldInfo) -> type[np.int64 | np.uint64]:
    return np.int64 if column.type == Integers else np.uint64


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, in order."""
    return Rows(
        **{
            column.name: np.concatenate(
                # An empty array gives the type if there are no parts.
                [np.zeros(0, _type_of(column)), *(getattr(part, column.name) for part in parts)]
            )
            for column in fields(Rows)
        }
    )


def merge(rows: Rows) -> Rows:
    """Merge rows with equal keys, in the order of the first row of each key."""
    if not len(rows):
        return rows
    order = _sorted(rows.key)
    key = rows.key[order]
    (bounds,) = np.nonzero(np.concatenate(([True], key[1:] != key[:-1])))
    first = order[bounds]
    by_first = np.argsort(first)
    return replace(
        rows.take(first[by_first]),
        count=np.add.reduceat(rows.count[order], bounds)[by_first],
        period=np.add.reduceat(rows.period[order], bounds)[by_first],
    )


def _sorted(key: Words) -> Integers:
    # Return a stable sort order of the keys. Sorting numbers is several times faster than sorting
    # indices, so the index replaces the lowest bits of each key. If two keys differ only in these
    # bits, the full keys are sorted.
    index_mask = np.uint64((1 << len(key).bit_length()) - 1)
    packed = key & ~index_mask
    packed |= np.arange(len(key), dtype=np.uint64)
    packed.sort()
    order = (packed & index_mask).view(np.int64)
    packed &= ~index_mask
    ordered = key[order]
    if np.any((packed[1:] == packed[:-1]) & (ordered[1:] != ordered[:-1])):
        return np.argsort(key, kind="stable")
    return order


class Hasher:
    """Computes the hashes of rows, with random multipliers for each recording."""

    def __init__(self) -> None:
        # Not NumPy's generator: its import takes longer than reading a small file.
        self.secrets = np.frombuffer(os.urandom(8 * _SECRETS), np.uint64) | np.uint64(1)
        base = int(self.secrets[-1])
        inverse = pow(base, -1, 1 << 64)
        self.powers = _powers(base)
        self.inverse_powers = _powers(inverse)

    def mix(self, key: Words, column: Words, secret: int) -> Words:
        """Return keys that also hash a column.

        :param secret: index of the first of the three random numbers to use
        """
        key = key ^ (column + self.secrets[secret])
        key *= self.secrets[secret + 1]
        key ^= key >> _HALF
        key *= self.secrets[secret + 2]
        return key

    def chains(self, columns: Columns) -> tuple[Words, NDArray[np.bool_]]:
        """Return the hash of each chain (0 without a chain), and whether it has a user part.

        The hash is the polynomial of the chain's mixed words at a random odd number, plus its
        length times a random number, modulo 2**64. All words of a block are multiplied by ascending
        powers, in memory order; the sum of a chain is then divided by the power at its start.
        """
        hashes = np.zeros(len(columns.at), np.uint64)
        has_user = np.zeros(len(columns.at), bool)
        start = 0
        while start < len(columns.at):
            limit = columns.at[start] + _BLOCK_WORDS
            stop = int(np.searchsorted(columns.at, limit))
            block = slice(start, stop)
            chain, length = columns.chain[block], columns.length[block]
            base = columns.at[start]
            words = columns.words[base : max(base + 1, int((chain + length)[-1]))]
            self._block(words, chain - base, length, hashes[block], has_user[block])
            start = stop
        return hashes, has_user

    def _block(
        self,
        words: Words,
        starts: Integers,
        lengths: Integers,
        hashes: Words,
        has_user: NDArray[np.bool_],
    ) -> None:
        ends = starts + lengths
        terms = np.empty(len(words) + 1, np.uint64)
        # One more term, so that the end of the last chain is a valid index.
        terms[-1] = 0
        inner = terms[:-1]
        np.multiply(words, self.secrets[0], out=inner)
        inner ^= inner >> _HALF
        inner *= self.powers[: len(inner)]
        bounds = np.stack((starts, ends), axis=1).ravel()
        sums = np.add.reduceat(terms, bounds)[::2] * self.inverse_powers[starts]
        # Words 0 at the end of a chain add nothing, so its length is hashed too.
        sums += lengths.view(np.uint64) * self.secrets[1]
        np.copyto(hashes, sums, where=lengths > 0)
        (marks,) = np.nonzero(words == CONTEXT_USER)
        marks = np.append(marks, len(words))
        has_user[:] = marks[np.searchsorted(marks, starts)] < ends


def count(
    columns: Columns, hasher: Hasher, task: Words | None, space: Integers, chain_hash: Words
) -> Rows:
    """Count the samples of one layout in one window.

    :param task: pid and number of the name of each sample, packed; None to merge tasks
    :param space: address space of each sample
    :param chain_hash: hash of each sample's chain; 0 to merge chains
    """
    where = columns.event.view(np.uint64) << _EVENT_SHIFT
    where |= columns.mode.view(np.uint64) << _MODE_SHIFT
    where |= columns.cpu
    key = hasher.mix(chain_hash, columns.ip, 1)
    key = hasher.mix(key, where, 2)
    key = hasher.mix(key, space.view(np.uint64), 3)
    if task is not None:
        key = hasher.mix(key, task, 4)
    has_chain = chain_hash != 0
    return merge(
        Rows(
            key=key,
            where=where,
            task=np.zeros(len(key), np.uint64) if task is None else task,
            space=space,
            ip=columns.ip,
            chain_hash=chain_hash,
            chain_offset=columns.offset + 8 * (columns.chain - columns.at),
            chain_length=np.where(has_chain, columns.length, 0),
            count=np.ones(len(key), np.int64),
            period=columns.period,
        )
    )


def _powers(base: int) -> Words:
    powers = np.full(_TABLE_WORDS, base, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)
