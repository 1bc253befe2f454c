"""Rows whose runs fall into two modes: how often each, and how far within one.

A mean over two modes moves when their frequency does, which says nothing of how fast
either is. Two questions are therefore answered one by one: did the slow mode become
more frequent, and did the runs of a mode become slower?
"""

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from schedperf.stats._rows import Block, Flags, Floats, Integers

# A split into two modes is believed where all of these hold. In normal data that is so in 1.5 % of
# rows of four runs a side, and in less than 1 % of those of five. Two equally frequent modes 8 %
# apart with 1 % noise are found in 82 % of rows of five runs a side, and in 94 % of ten.
FEWEST_IN_MODE = 2
LEAST_GAIN = 6.0  # of Bayes' information criterion
LEAST_DISTANCE = 6.0  # between the modes, in standard deviations within
LEAST_GAP = 3.0  # between their nearest values, likewise
FEWEST_VALUES = 8  # of both sides together


@dataclass(frozen=True, kw_only=True, slots=True)
class Modes:
    """The rows of a block that have two modes.

    :param rows: numbers of the rows
    :param high: runs in the mode of larger values, shape (rows, 2), base first
    :param n: runs, shape (2,), base first
    :param p_occupancy: Fisher's exact test of these counts
    :param effect: new - base within the modes, with its standard error and degrees of freedom;
        NaN where no mode has runs of both sides
    """

    rows: Integers
    high: Integers
    n: tuple[int, int]
    p_occupancy: Floats
    effect: Floats
    se: Floats
    df: Floats

    @property
    def p_within(self) -> Floats:
        """Two-sided p of no shift within the modes; NaN without a standard error."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return 2.0 * special.stdtr(self.df, -np.abs(self.effect) / self.se)


def find_modes(block: Block) -> Modes | None:
    """Return the rows with two modes; None where there is none."""
    n_base, n_new = block.base.shape[1], block.new.shape[1]
    if n_base + n_new < FEWEST_VALUES:
        return None
    is_bimodal, cut = _split(np.hstack((block.base, block.new)), block.floors.mean(axis=1))
    high = np.column_stack([(side > cut[:, None]).sum(axis=1) for side in (block.base, block.new)])
    # Two sides that differ much are no modes: one side must have been in both, or each in both.
    low = np.array([n_base, n_new]) - high
    many_high, many_low = high >= FEWEST_IN_MODE, low >= FEWEST_IN_MODE
    is_shared = ((high > 0) & (low > 0)).all(axis=1) & many_high.any(axis=1) & many_low.any(axis=1)
    is_bimodal &= (many_high & many_low).any(axis=1) | is_shared
    if not is_bimodal.any():
        return None
    chosen = np.flatnonzero(is_bimodal)
    effect, se, df = _within(
        block.base[chosen], block.new[chosen], cut[chosen], block.floors[chosen]
    )
    counts = high[chosen]
    return Modes(
        rows=block.rows[chosen],
        high=counts,
        n=(n_base, n_new),
        p_occupancy=np.array([_fisher(one, (n_base, n_new)) for one in counts]),
        effect=effect,
        se=se,
        df=df,
    )


def _split(values: Floats, floors: Floats) -> tuple[Flags, Floats]:
    # The best cut of the ordered values by least squares, and whether it is to be believed.
    ordered = np.sort(values, axis=1)
    n = ordered.shape[1]
    ordered = ordered - ordered[:, :1]  # Squares of what is left do not cancel.
    sizes = np.arange(FEWEST_IN_MODE, n - FEWEST_IN_MODE + 1)
    sums, squares = np.cumsum(ordered, axis=1), np.cumsum(ordered**2, axis=1)
    left = sums[:, sizes - 1]
    right = sums[:, -1:] - left
    within = squares[:, -1:] - left**2 / sizes - right**2 / (n - sizes)
    best = np.argmin(within, axis=1)
    lines = np.arange(len(values))
    size, rest = sizes[best], np.maximum(within[lines, best], 0.0)
    total = squares[:, -1] - sums[:, -1] ** 2 / n
    tiny = np.finfo(np.float64).tiny
    spread = np.sqrt(np.maximum(np.maximum(rest / (n - 2), floors), tiny))
    distance = right[lines, best] / (n - size) - left[lines, best] / size
    gap = ordered[lines, size] - ordered[lines, size - 1]
    # One mean and one share more than a single mode has.
    left_over = (n - 2) * spread**2
    gain = n * (np.log(np.maximum(total, tiny)) - np.log(left_over)) - 2.0 * np.log(n)
    is_bimodal = (
        (gain > LEAST_GAIN) & (distance > LEAST_DISTANCE * spread) & (gap > LEAST_GAP * spread)
    )
    edges = np.sort(values, axis=1)
    return is_bimodal, (edges[lines, size] + edges[lines, size - 1]) / 2.0


def _within(
    base: Floats, new: Floats, cut: Floats, floors: Floats
) -> tuple[Floats, Floats, Floats]:
    # Strata weighted by n m / (n + m), with the variance of all cells pooled.
    weighted = np.zeros(len(base))
    weights = np.zeros(len(base))
    squares = np.zeros(len(base))
    cells = np.zeros(len(base))
    for is_high in (False, True):
        one, squares_one, n_one = _cell(base, (base > cut[:, None]) == is_high)
        other, squares_other, n_other = _cell(new, (new > cut[:, None]) == is_high)
        weight = np.where(n_one * n_other > 0, n_one * n_other / np.maximum(n_one + n_other, 1), 0)
        weighted += weight * (other - one)
        weights += weight
        squares += squares_one + squares_other
        cells += (n_one > 0).astype(np.float64) + (n_other > 0)
    df = base.shape[1] + new.shape[1] - cells
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(squares / df, floors.mean(axis=1))
        return (
            np.where(weights > 0.0, weighted / weights, np.nan),
            np.where(weights > 0.0, np.sqrt(variance / weights), np.nan),
            df,
        )


def _cell(values: Floats, is_member: Flags) -> tuple[Floats, Floats, Integers]:
    n = is_member.sum(axis=1)
    mean = np.where(is_member, values, 0.0).sum(axis=1) / np.maximum(n, 1)
    squares = np.where(is_member, (values - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return mean, squares, n


def _fisher(high: Integers, n: tuple[int, int]) -> float:
    table = np.column_stack((high, np.array(n) - high))
    return float(stats.fisher_exact(table).pvalue)
