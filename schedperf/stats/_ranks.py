# SPDX-License-Identifier: GPL-2.0-or-later
"""Rank and permutation tests, which confirm t tests if their assumptions are in doubt.

Two sides are compared by the exact Mann-Whitney test with the Hodges-Lehmann shift, pairs by the
exact Wilcoxon signed-rank test with the median of Walsh averages (Hollander, Wolfe & Chicken,
"Nonparametric Statistical Methods", 3rd ed., chapters 3 and 4). With ties the rank distributions do
not hold, so the values are permuted instead. Maxima have no useful mean, so for tied maxima the
mean ranks are permuted.
"""

from functools import lru_cache
from itertools import combinations, product
from math import comb

import numpy as np
from msgspec import Struct

from schedperf.model.verdict import CONFIDENCE
from schedperf.stats._rows import Block, Flags, Floats

# With fewer values, the smallest possible two-sided p is not significant.
FEWEST_VALUES = 5
FEWEST_PAIRS = 6

# Up to this number, all arrangements are tried; beyond it, this many random ones (fixed seed).
MOST_ARRANGEMENTS = 20_000
# Limit on the number of pairwise differences (200 runs per side); beyond it the exact distribution
# loses precision.
MOST_DIFFERENCES = 40_000

# A value farther from its side's median than this many robust standard deviations is an outlier. In
# normal data, 6% of rows with five runs per side and 1% with ten have one.
OUTLIER = 6.0
MAD_TO_SD = 1.4826


class Ranks(Struct, frozen=True, kw_only=True):
    """Results of the rank tests of some rows; arrays of shape (rows,).

    :param p: two-sided; exact, except for tied values with more than 20,000 permutations, of which
        a random sample is tried
    :param floor: the smallest ``p`` that is possible with this number of values
    :param shift: Hodges and Lehmann's estimate of new - base; ``low`` and ``high`` are the ends of
        its exact 95% CI
    :param is_tied: True if values (of pairs: sizes of differences) are tied, or a difference of a
        pair is 0, so that values were permuted
    :param is_outlying: True if a side (of pairs: the differences) has an outlier
    """

    p: Floats
    floor: Floats
    shift: Floats
    low: Floats
    high: Floats
    is_tied: Flags
    is_outlying: Flags


def rank(block: Block, *, is_maximum: Flags | bool = False) -> Ranks | None:
    """Test the rows of a block by ranks.

    :param is_maximum: True for rows of maxima, whose means must not be used; shape (rows,)
    :return: None with fewer than five values on a side or six pairs, and with too many values for
        an exact test: more than 40,000 pairwise differences
    """
    is_maximum = np.broadcast_to(is_maximum, len(block.rows))
    n_base, n_new = block.base.shape[1], block.new.shape[1]
    if block.is_paired:
        if n_base < FEWEST_PAIRS or n_base * n_base > MOST_DIFFERENCES:
            return None
        return _rank_pairs(block.new - block.base, is_maximum)
    if min(n_base, n_new) < FEWEST_VALUES or n_base * n_new > MOST_DIFFERENCES:
        return None
    return _rank_sides(block.base, block.new, is_maximum)


def _rank_sides(base: Floats, new: Floats, is_maximum: Flags) -> Ranks:
    differences = (new[:, :, None] - base[:, None, :]).reshape(len(base), -1)
    wins = (differences > 0.0).sum(axis=1) + 0.5 * (differences == 0.0).sum(axis=1)
    null = _mann_whitney(base.shape[1], new.shape[1])
    pooled = np.hstack((base, new))
    is_tied = _has_ties(pooled)
    p = _two_sided(null, wins)
    if is_tied.any():
        scores = np.where(is_maximum[is_tied, None], _mean_ranks(pooled[is_tied]), pooled[is_tied])
        p[is_tied] = _permute_sides(*np.split(scores, [base.shape[1]], axis=1))
    residuals = np.hstack([side - np.median(side, axis=1)[:, None] for side in (base, new)])
    return _ranks(p, differences, null, is_tied, residuals)


def _rank_pairs(differences: Floats, is_maximum: Flags) -> Ranks:
    i, j = np.triu_indices(differences.shape[1])
    walsh = (differences[:, i] + differences[:, j]) / 2.0
    null = _signed_rank(differences.shape[1])
    is_tied = _has_ties(np.abs(differences)) | (differences == 0.0).any(axis=1)
    p = _two_sided(null, (walsh > 0.0).sum(axis=1).astype(np.float64))
    if is_tied.any():
        tied = differences[is_tied]
        signed_ranks = np.sign(tied) * _mean_ranks(np.abs(tied))
        p[is_tied] = _flip_pairs(np.where(is_maximum[is_tied, None], signed_ranks, tied))
    residuals = differences - np.median(differences, axis=1)[:, None]
    return _ranks(p, walsh, null, is_tied, residuals)


def _ranks(p: Floats, shifts: Floats, null: Floats, is_tied: Flags, residuals: Floats) -> Ranks:
    # The CI consists of the shifts that the test does not reject: order statistics of all shifts.
    ordered = np.sort(shifts, axis=1)
    cut = max(_cut(null), 1)
    spread = MAD_TO_SD * np.median(np.abs(residuals), axis=1)
    # The smallest p of ranks and of permuted values is the same, unless only random ones are tried.
    some = 1.0 / (MOST_ARRANGEMENTS + 1.0)
    smallest = min(2.0 * float(null[0]), 1.0)
    return Ranks(
        p=p,
        floor=np.where(is_tied, max(smallest, some), smallest),
        shift=np.median(shifts, axis=1),
        low=ordered[:, cut - 1],
        high=ordered[:, -cut],
        is_tied=is_tied,
        is_outlying=(np.abs(residuals) > OUTLIER * spread[:, None]).any(axis=1) & (spread > 0.0),
    )


def confidence_cut(n: int, m: int) -> int | None:
    """Return which smallest and largest difference are the ends of the 95% CI of two sides.

    :param n: values of one side, 1 or more; ``m`` of the other
    :return: counted from 1; None if no difference can be excluded with so few values
    """
    return _cut(_mann_whitney(n, m)) or None


def _cut(null: Floats) -> int:
    return int(np.searchsorted(np.cumsum(null), (1.0 - CONFIDENCE) / 2.0, side="right"))


def _has_ties(values: Floats) -> Flags:
    steps: Floats = np.diff(np.sort(values, axis=1), axis=1)
    is_tied: Flags = (steps == 0.0).any(axis=1)
    return is_tied


def _mean_ranks(values: Floats) -> Floats:
    # Ranks within each row; equal values get the mean of their ranks.
    ranks = np.empty_like(values)
    for row, ranked in zip(values, ranks, strict=True):
        smaller, equal = row[:, None] > row, row[:, None] == row
        ranked[:] = smaller.sum(axis=1) + (equal.sum(axis=1) + 1.0) / 2.0
    return ranks


def _two_sided(null: Floats, statistic: Floats) -> Floats:
    # The null distribution is symmetric, so the smaller tail counts twice.
    cumulative = np.cumsum(null)
    centre = (len(null) - 1) / 2.0
    smaller = np.floor(centre - np.abs(statistic - centre)).astype(np.intp)
    return np.minimum(2.0 * cumulative[smaller], 1.0)


@lru_cache(maxsize=64)
def _mann_whitney(n: int, m: int) -> Floats:
    # Probabilities of U = 0 … n m: the Gaussian binomial coefficient, one factor
    # (1 - x^(m + i)) / (1 - x^i) at a time. Only the lower half is computed, since rounding
    # errors would grow in the upper one, which is its mirror image.
    n, m = min(n, m), max(n, m)
    ways = np.ones(1)
    for i in range(1, n + 1):
        size = i * m + 1
        half = (size + 1) // 2
        lower = np.zeros(-(-half // i) * i)
        lower[: min(len(ways), half)] = ways[:half]
        lower[m + i : half] -= ways[: max(half - m - i, 0)]
        lower = lower.reshape(-1, i).cumsum(axis=0).ravel()[:half] * (i / (m + i))
        ways = np.concatenate((lower, lower[: size - half][::-1]))
    return ways


@lru_cache(maxsize=64)
def _signed_rank(n: int) -> Floats:
    # Probabilities of the sum of the positive ranks, 0 … n (n + 1) / 2.
    ways = np.ones(1)
    for rank_value in range(1, n + 1):
        longer = np.concatenate((ways, np.zeros(rank_value)))
        longer[rank_value:] += ways
        ways = longer / 2.0
    return ways


def _permute_sides(base: Floats, new: Floats) -> Floats:
    # Values are sorted and the smaller side is assigned, so that a random sample of arrangements
    # depends neither on the order of the runs nor on the names of the sides.
    pooled = np.sort(np.hstack((base, new)), axis=1)
    total, taken = pooled.shape[1], min(base.shape[1], new.shape[1])
    if comb(total, taken) <= MOST_ARRANGEMENTS:
        chosen = np.array(list(combinations(range(total), taken)))
        labels = np.zeros((len(chosen), total))
        np.put_along_axis(labels, chosen, 1.0, axis=1)
        is_all = True
    else:
        generator = np.random.default_rng(0)
        labels = generator.permuted(
            np.tile(np.arange(total) < taken, (MOST_ARRANGEMENTS, 1)), axis=1
        )
        is_all = False
    weights = labels / taken - (1.0 - labels) / (total - taken)
    return _share_as_large(weights, pooled, new.mean(axis=1) - base.mean(axis=1), is_all=is_all)


def _flip_pairs(differences: Floats) -> Floats:
    sizes, pairs = np.sort(np.abs(differences), axis=1), differences.shape[1]
    if 2**pairs <= MOST_ARRANGEMENTS:
        signs = np.array(list(product((-1.0, 1.0), repeat=pairs)))
        is_all = True
    else:
        generator = np.random.default_rng(0)
        signs = generator.choice((-1.0, 1.0), size=(MOST_ARRANGEMENTS, pairs))
        is_all = False
    return _share_as_large(signs / pairs, sizes, differences.mean(axis=1), is_all=is_all)


def _share_as_large(weights: Floats, values: Floats, seen: Floats, *, is_all: bool) -> Floats:
    # One row at a time: all arrangements of all rows together would not fit into memory.
    shares = np.empty(len(values))
    for index, (row, difference) in enumerate(zip(values, seen, strict=True)):
        # Rounding must not make an arrangement smaller than an equal one.
        least = abs(difference) * (1.0 - 1e-9) - 1e-300
        hits = int((np.abs(weights @ row) >= least).sum())
        shares[index] = hits / len(weights) if is_all else (hits + 1) / (len(weights) + 1)
    return shares
