# SPDX-License-Identifier: GPL-2.0-or-later
"""Many quantities of the same runs, compared at once: shares of symbols, frames, lines.

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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize

from schedperf.stats._correction import false_discovery
from schedperf.stats._estimates import Estimates, estimate_block
from schedperf.stats._moderation import moderate_variances
from schedperf.stats._rows import Block, Flags, Floats, Integers
from schedperf.stats.verdicts import FEWEST_POINTS
from schedperf.stats.welch import CONFIDENCE, FEWEST_RUNS

# Steps towards the trend; each weighs the columns by the trend of the step before.
TREND_STEPS = 10
# A column that varies more than so many times as much as its trend and the others has no larger
# pull on the trend: rows are never believed to vary more alike than within a factor of four.
LARGEST_RATIO = 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """new - base of each column; arrays of shape (columns,), NaN where something is unknown.

    :param base: mean of the runs that have a value
    :param difference: in the unit of the values
    :param ci_low: lower end of the 95% CI of the difference; NaN with fewer than two values
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
        chosen by what does not depend on the difference, like the mean over all runs of both
        sides. All of them unless said; the others have NaN
    :param alike: flags, shape (columns,): those that have it help each other, and those that have
        it not, each other. What was sampled once in a few runs varies by other laws than what is
        hot, so a profile with both must tell them apart. Unless said it is ``tested``
    :raises ValueError: the two have different columns
    """
    of_base, of_new = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (base, new))
    if of_base.shape[1] != of_new.shape[1]:
        raise ValueError(f"{of_base.shape[1]} and {of_new.shape[1]} columns: they must be the same")
    columns = of_base.shape[1]
    found = Estimates(count=columns)
    numbers = np.column_stack([(~np.isnan(side)).sum(axis=0) for side in (of_base, of_new)])
    for block in _blocks_of(of_base, of_new, numbers):
        estimate_block(found, block)
    # One run has no variance of its own, and another side's is none.
    found.se[(numbers < FEWEST_RUNS).any(axis=1)] = np.nan
    base_mean, new_mean = _means_of(of_base, numbers[:, 0]), _means_of(of_new, numbers[:, 1])
    is_tested = np.ones(columns, np.bool_) if tested is None else np.asarray(tested, np.bool_)
    group = is_tested if alike is None else np.asarray(alike, np.bool_)
    _moderate(found, np.abs(base_mean) + np.abs(new_mean), group.astype(np.intp))
    half = np.where(found.se > 0.0, found.half_width(CONFIDENCE), np.nan)
    p = np.where(is_tested, found.p, np.nan)
    return Columns(
        base=base_mean,
        new=new_mean,
        difference=found.effect,
        ci_low=found.effect - half,
        ci_high=found.effect + half,
        p=p,
        q=false_discovery(p, np.zeros(columns, dtype=np.intp)),
        n_base=numbers[:, 0],
        n_new=numbers[:, 1],
        df=found.df,
    )


def _blocks_of(base: Floats, new: Floats, numbers: Integers) -> Iterator[Block]:
    # Columns with equally many values per side together: what is there, in front of what is not.
    shapes, places = np.unique(numbers, axis=0, return_inverse=True)
    for place, (n_base, n_new) in enumerate(shapes):
        members = np.flatnonzero(places.ravel() == place)
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


def _moderate(found: Estimates, size: Floats, group: Integers) -> None:
    usable: Flags = (found.variance > 0.0) & (found.inner_df >= 1.0) & found.is_even
    usable &= (size > 0.0) & ~np.isnan(found.se)
    trend = np.ones(len(found.variance))
    for one in np.unique(group):
        members = np.flatnonzero(usable & (group == one))
        if len(members) < FEWEST_POINTS:
            usable[members] = False
        else:
            trend[members] = _trend_of(found.variance[members], size[members])
    members = np.flatnonzero(usable)
    if not len(members):
        return
    own, own_df = moderate_variances(found.variance / trend, found.inner_df, members, group)
    found.se[members] = np.sqrt(own * trend[members] * found.factor[members])
    found.df[members] = own_df
    found.is_moderated[members] = True


def _trend_of(variance: Floats, size: Floats) -> Floats:
    # Counts vary in proportion to their mean (Poisson), and what runs differ in by a fraction of
    # itself in proportion to its square. Both parts together, by weighted least squares: the
    # standard error of a variance is in proportion to it.
    parts = np.column_stack((size, size**2)) / [size.mean(), (size**2).mean()]
    trend: Floats = parts[:, 0]
    for _ in range(TREND_STEPS):
        ratio = variance / trend
        shown = np.minimum(ratio, LARGEST_RATIO * np.median(ratio))
        shares, _ = optimize.nnls(parts / trend[:, None], shown)
        trend = parts @ (shares / shares.sum())
    return trend
