# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare many quantities of the same runs: shares of symbols, frames and cache lines.

::

    compare_columns([[12.1, 0.3], [12.4, 0.2], [11.9, 0.3]], [[13.7, 0.3], ...]).difference

Each column is compared by the difference of its arithmetic means, because shares and costs of parts
add up to that of the whole, and their logarithms do not. With few runs a column's own variance
estimate is imprecise, so it is shrunk towards those of the other columns. Hot and cold columns do
not share one variance, but a trend of the variance over the mean, which is removed first: Sartor et
al., "Intensity-based hierarchical Bayes method improves testing for differentially expressed
genes", BMC Bioinformatics 7 (2006).
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from schedperf.model.verdict import CONFIDENCE, FEWEST_RUNS
from schedperf.stats._correction import false_discovery
from schedperf.stats._estimates import Estimates, estimate_block
from schedperf.stats._moderation import moderate_variances
from schedperf.stats._rows import Block, Flags, Floats, Integers
from schedperf.stats.verdicts import FEWEST_POINTS

# Iterations of the trend fit; each weights the columns by the trend of the previous one.
TREND_STEPS = 10
# Limit on how far a column's variance, relative to the trend, influences the fit: columns are never
# assumed to agree better than within a factor of four.
LARGEST_RATIO = 4.0


class Columns(Struct, frozen=True, kw_only=True):
    """new - base of each column; arrays of shape (columns,), NaN where unknown.

    :param base: mean of the runs that have a value
    :param difference: in the unit of the values
    :param ci_low: lower bound of the 95% CI of the difference; NaN with fewer than two values on a
        side, and if no value varies, since a few identical samples do not make the difference exact
    :param p: two-sided, for the hypothesis of no difference; NaN where ``ci_low`` is, and for
        columns that were not to be tested
    :param q: p after the correction of Benjamini and Hochberg, in its adaptive form, over all
        columns that have one
    :param n_base: number of base's values that are not NaN
    :param df: degrees of freedom behind the interval
    """

    base: Floats
    new: Floats
    difference: Floats
    ci_low: Floats
    ci_high: Floats
    p: Floats
    q: Floats
    n_base: Integers
    n_new: Integers
    df: Floats

    def __len__(self) -> int:
        return len(self.base)


def compare_columns(
    base: npt.ArrayLike,
    new: npt.ArrayLike,
    *,
    tested: npt.ArrayLike | None = None,
    alike: npt.ArrayLike | None = None,
) -> Columns:
    """Compare the means of each column by a moderated t.

    If fewer than four columns with the same flag ``alike`` vary, they are compared by Welch's t.

    :param base: one row per run (or other independent unit), shape (runs, columns); NaN for a value
        that is missing in that run
    :param new: the same columns, shape (runs of new, columns)
    :param tested: which columns get a p and count in the correction, shape (columns,); they may be
        chosen by a value independent of the difference, such as the mean over the runs of both
        sides; p of the others is NaN. [default: all columns]
    :param alike: flags, shape (columns,): the variances of columns with the same flag are shrunk
        together. Columns with few samples have another distribution than hot ones, so a profile
        must separate them. [default: ``tested``]
    :raises ValueError: the sides have different numbers of columns
    """
    of_base, of_new = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (base, new))
    if of_base.shape[1] != of_new.shape[1]:
        raise ValueError(
            f"new has {of_new.shape[1]} columns (expected {of_base.shape[1]}, as in base)"
        )
    columns = of_base.shape[1]
    estimates = Estimates(count=columns)
    numbers = np.column_stack([(~np.isnan(side)).sum(axis=0) for side in (of_base, of_new)])
    for block in _blocks_of(of_base, of_new, numbers):
        estimate_block(estimates, block)
    # With one run on a side, its variance is unknown; the other side's is not used instead.
    estimates.se[(numbers < FEWEST_RUNS).any(axis=1)] = np.nan
    base_mean, new_mean = _means_of(of_base, numbers[:, 0]), _means_of(of_new, numbers[:, 1])
    is_tested = np.ones(columns, np.bool_) if tested is None else np.asarray(tested, np.bool_)
    group = is_tested if alike is None else np.asarray(alike, np.bool_)
    _moderate(estimates, np.abs(base_mean) + np.abs(new_mean), group.astype(np.intp))
    half = np.where(estimates.se > 0.0, estimates.half_width(CONFIDENCE), np.nan)
    p = np.where(is_tested, estimates.p, np.nan)
    return Columns(
        base=base_mean,
        new=new_mean,
        difference=estimates.effect,
        ci_low=estimates.effect - half,
        ci_high=estimates.effect + half,
        p=p,
        q=false_discovery(p, np.zeros(columns, dtype=np.intp)),
        n_base=numbers[:, 0],
        n_new=numbers[:, 1],
        df=estimates.df,
    )


def _blocks_of(base: Floats, new: Floats, numbers: Integers) -> Iterator[Block]:
    # Group columns with equally many values per side; values come before NaN.
    shapes, inverse = np.unique(numbers, axis=0, return_inverse=True)
    for index, (n_base, n_new) in enumerate(shapes):
        members = np.flatnonzero(inverse.ravel() == index)
        if not n_base or not n_new:
            continue
        yield Block(
            rows=members,
            base=_present(base[:, members], int(n_base)),
            new=_present(new[:, members], int(n_new)),
            order_base=np.full((len(members), n_base), np.nan),
            order_new=np.full((len(members), n_new), np.nan),
            floors=np.zeros((len(members), 2)),
            is_paired=False,
        )


def _present(values: Floats, count: int) -> Floats:
    # The values of each column that are not NaN, one matrix row per column.
    order = np.argsort(np.isnan(values), axis=0, kind="stable")[:count]
    return np.ascontiguousarray(np.take_along_axis(values, order, axis=0).T)


def _means_of(values: Floats, numbers: Integers) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(values, axis=0) / np.where(numbers > 0, numbers, np.nan))


def _moderate(estimates: Estimates, size: Floats, group: Integers) -> None:
    usable: Flags = (estimates.variance > 0.0) & (estimates.inner_df >= 1.0) & estimates.is_even
    usable &= (size > 0.0) & ~np.isnan(estimates.se)
    trend = np.ones(len(estimates.variance))
    for label in np.unique(group):
        members = np.flatnonzero(usable & (group == label))
        if len(members) < FEWEST_POINTS:
            usable[members] = False
        else:
            trend[members] = _trend_of(estimates.variance[members], size[members])
    members = np.flatnonzero(usable)
    if not len(members):
        return
    own, own_df = moderate_variances(estimates.variance / trend, estimates.inner_df, members, group)
    estimates.se[members] = np.sqrt(own * trend[members] * estimates.factor[members])
    estimates.df[members] = own_df
    estimates.is_moderated[members] = True


def _trend_of(variance: Floats, size: Floats) -> Floats:
    # Poisson variance is proportional to the mean; relative differences between runs add variance
    # proportional to its square. Both are fitted by weighted least squares, since the standard
    # error of a variance is proportional to it.
    parts = np.column_stack((size, size**2)) / [size.mean(), (size**2).mean()]
    trend: Floats = parts[:, 0]
    for _ in range(TREND_STEPS):
        ratio = variance / trend
        shown = np.minimum(ratio, LARGEST_RATIO * np.median(ratio))
        shares = _shares_of(parts / trend[:, None], shown)
        trend = parts @ (shares / shares.sum())
    return trend


def _shares_of(parts: Floats, shown: Floats) -> Floats:
    # Non-negative least squares with two coefficients: if one of them would be negative, the better
    # of the two fits with one coefficient is used.
    free, *_ = np.linalg.lstsq(parts, shown)
    if (free >= 0.0).all():
        return np.asarray(free)
    alone = np.maximum(parts.T @ shown / (parts**2).sum(axis=0), 0.0)
    errors = ((parts * alone - shown[:, None]) ** 2).sum(axis=0)
    return np.where(np.arange(2) == errors.argmin(), alone, 0.0)
