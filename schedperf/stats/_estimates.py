# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate effects with standard errors: Welch's differences and means of pairs.

Everything is on the scale of the rows: natural logarithms, or shares of the
larger side. One row is one element of every array.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import scipy
from msgspec import Struct

from schedperf.model.verdict import FEWEST_RUNS
from schedperf.stats._rows import (
    REPLICATIONS,
    Block,
    Flags,
    Floats,
    Integers,
    Rows,
    add_up,
    count_units,
)


@dataclass(kw_only=True, slots=True)
class Estimates:
    """new - base of each row; NaN where unknown.

    It is filled in steps: first the estimates of each row alone, then information from other rows.

    :param count: number of rows
    :param effect: difference of the means
    :param se: its standard error; 0 where no value varies, which makes the difference exact
    :param df: degrees of freedom of ``se``
    :param variance: of one value, both sides pooled; for pairs, half the variance of the pairs'
        differences
    :param inner_df: degrees of freedom of ``variance``
    :param factor: ``se`` squared is ``variance * factor`` if both sides vary alike
    :param sum_variance: half the variance of the pairs' sums; NaN without pairs
    :param is_rounded: True if the values of a side (of pairs: the differences) vary less than
        rounding alone explains
    :param is_even: True if the larger sample has at most 1.5 times the size of the smaller one
    :param is_moderated: True if the variance was shrunk towards that of other rows
    """

    count: int
    effect: Floats = field(init=False)
    se: Floats = field(init=False)
    df: Floats = field(init=False)
    variance: Floats = field(init=False)
    inner_df: Floats = field(init=False)
    factor: Floats = field(init=False)
    sum_variance: Floats = field(init=False)
    is_rounded: Flags = field(init=False)
    is_even: Flags = field(init=False)
    is_moderated: Flags = field(init=False)

    def __post_init__(self) -> None:
        numbers = ("effect", "se", "df", "variance", "inner_df", "factor", "sum_variance")
        for name in numbers:
            setattr(self, name, np.full(self.count, np.nan))
        for name in ("is_rounded", "is_even", "is_moderated"):
            setattr(self, name, np.zeros(self.count, dtype=np.bool_))

    @property
    def p(self) -> Floats:
        """Two-sided p of the effect; NaN if the effect is exact or unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(self.se > 0.0, np.abs(self.effect) / self.se, np.nan)
        return 2.0 * scipy.special.stdtr(self.df, -t)

    def half_width(self, confidence: float | Floats) -> Floats:
        """Return half the width of the effect's two-sided CI, shape (rows,).

        It is 0 if the effect is exact, and NaN if ``se`` is unknown.

        :param confidence: for all rows, or of shape (rows,)
        """
        quantile = scipy.special.stdtrit(
            np.where(self.se > 0.0, self.df, 1.0), 0.5 + confidence / 2.0
        )
        return np.where(self.se > 0.0, quantile * self.se, self.se)


# Above this ratio of sample sizes, a pooled variance misrepresents the smaller side if the sides
# vary differently: with 1.5 and many values, the error of 5% becomes 7% where the smaller side has
# 1.5 times the other's standard deviation, and 10% where it has four times.
MOST_UNEVEN = 1.5


def estimate(rows: Rows, blocks: Iterable[Block]) -> Estimates:
    """Estimate every row by itself: Welch's difference, or the mean of the pairs.

    Welch, "The generalization of Student's problem when several different
    population variances are involved", Biometrika 34 (1947), with the degrees of
    freedom of Satterthwaite, Biometrics Bulletin 2 (1946).

    :param blocks: the rows without published means, as of ``blocks_of``
    """
    estimates = Estimates(count=len(rows))
    for block in blocks:
        estimate_block(estimates, block)
    if len(rows.summaries):
        _fill_summaries(estimates, rows)
    # With one run on a side, its variance is unknown; with one boot, the other side's variance is
    # used instead.
    is_boot = rows.replication == REPLICATIONS.index("boots")
    is_lone = (count_units(rows) < FEWEST_RUNS).any(axis=1) & ~is_boot
    estimates.se[is_lone] = np.nan
    return estimates


def estimate_block(estimates: Estimates, block: Block) -> None:
    """Estimate the rows of one block, each by itself, and enter them into ``estimates``."""
    if block.is_paired:
        _fill_pairs(estimates, block)
    else:
        _fill_sides(estimates, block)


def variances_of(values: Floats) -> Floats:
    """Return the unbiased variance of each matrix row; exactly 0 for equal values, or for one."""
    # Rounding of the mean would make the variance of equal values slightly positive.
    n = values.shape[1]
    if n <= 1:
        return np.zeros(len(values))
    return np.where(np.ptp(values, axis=1) == 0.0, 0.0, values.var(axis=1, ddof=1))


def _fill_sides(estimates: Estimates, block: Block) -> None:
    raw = np.column_stack((variances_of(block.base), variances_of(block.new)))
    numbers = np.tile([block.base.shape[1], block.new.shape[1]], (len(raw), 1)).astype(np.float64)
    means = np.column_stack((block.base.mean(axis=1), block.new.mean(axis=1)))
    estimates.is_rounded[block.rows] = (raw < block.floors).any(axis=1)
    moments = _Moments(
        means=means,
        variances=np.maximum(raw, block.floors),
        numbers=numbers,
        exact=block.new[:, 0] - block.base[:, 0],
    )
    _enter(estimates, block.rows, moments)


class _Moments(Struct, frozen=True, kw_only=True):
    # Summary statistics of two sides; shape (rows, 2), base first. ``exact`` is the difference if
    # no value varies, shape (rows,): the mean of equal numbers may differ from them in the last
    # digit.
    means: Floats
    variances: Floats
    numbers: Floats
    exact: Floats


def _enter(estimates: Estimates, rows: Integers, moments: _Moments) -> None:
    numbers, variances, means = moments.numbers, moments.variances, moments.means
    inner = numbers - 1.0
    errors = variances / numbers
    total = errors.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0.0, errors[:, 0] / total, 0.5)
        welch_df = 1.0 / (share**2 / inner[:, 0] + (1.0 - share) ** 2 / inner[:, 1])
        pooled = (inner * variances).sum(axis=1) / inner.sum(axis=1)
    factor = (1.0 / numbers).sum(axis=1)
    is_lone = (inner < 1.0).any(axis=1)
    is_exact = (total == 0.0) & ~np.isnan(moments.exact)
    estimates.effect[rows] = np.where(is_exact, moments.exact, means[:, 1] - means[:, 0])
    # If a side has one value, the other side's variance is used for both.
    estimates.se[rows] = np.sqrt(np.where(is_lone, pooled * factor, total))
    estimates.df[rows] = np.where(is_lone, inner.sum(axis=1), welch_df)
    estimates.variance[rows] = pooled
    estimates.inner_df[rows] = inner.sum(axis=1)
    estimates.factor[rows] = factor
    estimates.is_even[rows] = numbers.max(axis=1) <= MOST_UNEVEN * numbers.min(axis=1)


def _fill_summaries(estimates: Estimates, rows: Rows) -> None:
    # Published means with a coefficient of variation, which on logarithms is the standard
    # deviation: log(1 + cv^2) is the variance of the logarithm of a log-normal variable.
    members = np.flatnonzero(rows.is_summary)
    if not len(members):
        return
    means, variances = _moments_of_units(rows)
    published = rows.summaries
    row, side = published["row"], published["is_new"]
    value, cv = published["value"], published["cv"]
    means[row, side] = value
    variances[row, side] = np.where(rows.is_log[row], np.log1p(cv**2), (cv * value) ** 2)
    floors = np.full(len(rows), -np.inf)
    np.maximum.at(floors, row, published["floor"])
    variances = np.maximum(variances[members], floors[members, None])
    numbers = count_units(rows)[members]
    moments = _Moments(
        means=means[members],
        variances=variances,
        numbers=np.where(numbers > 0.0, numbers, np.nan),
        exact=np.full(len(members), np.nan),
    )
    _enter(estimates, members, moments)
    # With an unknown number of runs, the spread still determines how many are needed.
    is_bare = np.isnan(estimates.variance[members])
    estimates.variance[members[is_bare]] = _mean_of_known(variances[is_bare])
    estimates.factor[members[is_bare]] = np.nan


def _moments_of_units(rows: Rows) -> tuple[Floats, Floats]:
    # Mean and variance of the units of each side, shape (rows, 2); NaN with too few units.
    cell, value = 2 * rows.units["row"] + rows.units["is_new"], rows.units["value"]
    count = 2 * len(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        number = np.bincount(cell, minlength=count)
        means = add_up(value, cell, count) / number
        variances = add_up((value - means[cell]) ** 2, cell, count) / (number - 1.0)
    variances[number <= 1] = np.nan
    return means.reshape(-1, 2), variances.reshape(-1, 2)


def _mean_of_known(pairs: Floats) -> Floats:
    return np.where(
        np.isnan(pairs).any(axis=1), np.fmax(pairs[:, 0], pairs[:, 1]), pairs.mean(axis=1)
    )


def _fill_pairs(estimates: Estimates, block: Block) -> None:
    rows, pairs = block.rows, block.base.shape[1]
    differences, floors = block.new - block.base, block.floors.mean(axis=1)
    raw = variances_of(differences) / 2.0
    variance = np.maximum(raw, floors)
    is_exact = variance == 0.0
    estimates.effect[rows] = np.where(is_exact, differences[:, 0], differences.mean(axis=1))
    estimates.se[rows] = np.sqrt(2.0 * variance / pairs)
    estimates.df[rows] = estimates.inner_df[rows] = pairs - 1.0
    estimates.variance[rows] = variance
    estimates.factor[rows] = 2.0 / pairs
    estimates.sum_variance[rows] = np.maximum(variances_of(block.new + block.base) / 2.0, floors)
    estimates.is_rounded[rows] = raw < floors
    estimates.is_even[rows] = True
