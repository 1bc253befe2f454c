# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare many quantities of the same runs: shares of symbols, frames and cache lines.

::

    compare_columns([[12.1, 0.3], [12.4, 0.2], [11.9, 0.3]], [[13.7, 0.3], ...]).difference

Differences of arithmetic means, because shares and costs of parts add up to that of
the whole and their logarithms do not. With a handful of runs a column's own variance
is worth little, so it is moderated by those of the other columns. What a hot column and
a cold one have in common is not their variance but how it goes with the mean, so that
trend is taken out first: Sartor et al., "Intensity-based hierarchical Bayes method
improves testing for differentially expressed genes", BMC Bioinformatics 7 (2006).
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

# Steps towards the trend; each weighs the columns by the trend of the step before.
TREND_STEPS = 10
# A column that varies more than so many times as much as its trend and the others has no larger
# pull on the trend: rows are never believed to vary more alike than within a factor of four.
LARGEST_RATIO = 4.0


class Columns(Struct, frozen=True, kw_only=True):
    """new - base of each column; arrays of shape (columns,), NaN where something is unknown.

    :param base: mean of the runs that have a value
    :param difference: in the unit of the values
    :param ci_low: lower bound of the 95% CI of the difference; NaN with fewer than two values
        on a side, and where no value varies: equal samples of a few runs prove no exact difference
    :param p: two-sided, of no difference; NaN also where no value varies
    :param q: p after the correction of Benjamini and Hochberg, in its adaptive form, over all
        columns that have one
    :param n_base: values of base that are no NaN
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

    :param base: one row a run (or whatever is independent), shape (runs, columns); NaN is a
        value that is missing in that run
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
    # One run has no variance of its own, and another side's is none.
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
    # Columns with equally many values per side together: what is there, in front of what is not.
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
    # The values of each column that are no NaN, one matrix row a column.
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
    # Counts vary in proportion to their mean (Poisson), and what runs differ in by a fraction of
    # itself in proportion to its square. Both parts together, by weighted least squares: the
    # standard error of a variance is in proportion to it.
    parts = np.column_stack((size, size**2)) / [size.mean(), (size**2).mean()]
    trend: Floats = parts[:, 0]
    for _ in range(TREND_STEPS):
        ratio = variance / trend
        shown = np.minimum(ratio, LARGEST_RATIO * np.median(ratio))
        shares = _shares_of(parts / trend[:, None], shown)
        trend = parts @ (shares / shares.sum())
    return trend


def _shares_of(parts: Floats, shown: Floats) -> Floats:
    # Least squares with two coefficients, neither below 0: where the unconstrained answer has a
    # negative one, the better of the two answers with one coefficient.
    free, *_ = np.linalg.lstsq(parts, shown)
    if (free >= 0.0).all():
        return np.asarray(free)
    alone = np.maximum(parts.T @ shown / (parts**2).sum(axis=0), 0.0)
    errors = ((parts * alone - shown[:, None]) ** 2).sum(axis=0)
    return np.where(np.arange(2) == errors.argmin(), alone, 0.0)
