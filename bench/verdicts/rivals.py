# SPDX-License-Identifier: GPL-2.0-or-later
"""Apply the decision rules of other tools, vectorised over rows.

A rule gets the runs of both sides as arrays of shape ``(rows, runs)`` and returns for each row
whether that tool marks it as changed: +1 if new is larger, -1 if new is smaller, 0 if the row is
not marked. The rules are written from the tools' own sources. tests/bench/test_rivals.py checks
those of benchstat, mmtests and lkp-tests against the tools' own fixtures or published results.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Calls = NDArray[np.int8]

# golang.org/x/perf/benchmath: DefaultThresholds.CompareAlpha, and the confidence of its intervals.
BENCHSTAT_ALPHA = 0.05
# moremath stats.MannWhitneyTiesExactLimit: up to here the test with ties is exact.
TIES_EXACT_LIMIT = 25

# mmtests Stat.pm: half of its interval is qnorm(1 - 0.05 / 2, sd = stddev), not the standard error.
MMTESTS_Z = float(stats.norm.ppf(0.975))
# Without R the width of the interval is 0 and the gap is compared with one unit of the metric.
MMTESTS_GAP_WITHOUT_R = 1.0

# lkp-tests lib/stats.rb: MARGIN_SHIFT, max_margin, and skip_small_change? of a performance metric.
LKP_MARGIN_SHIFT = 5
LKP_MOST_TRIMMED = 3
LKP_SMALLEST_RATIO = 1.01
# From its documentation and fixtures: `gap: 0.1`.
LKP_GAP = 0.1

PLAIN_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """The runs of both sides.

    :param base: shape (rows, runs of base)
    :param new: shape (rows, runs of new)
    :param is_higher_better: shape (rows,)
    """

    base: Floats
    new: Floats
    is_higher_better: Flags


Rule = Callable[[Samples], Calls]


def _calls(is_changed: Flags, difference: Floats) -> Calls:
    return np.where(is_changed, np.sign(difference), 0).astype(np.int8)


# benchstat


def mann_whitney_p(base: Floats, new: Floats) -> Floats:
    """Return the two-sided p of the Mann-Whitney test, shape (rows,).

    It is exact, also for rows with ties, as in benchstat (Lehmann, "Nonparametrics", section 1.4).
    Rows with ties get the normal approximation if a side has more than :data:`TIES_EXACT_LIMIT`
    runs; if all values of such a row are equal, p is 1.

    :param base: shape (rows, runs of base)
    :param new: shape (rows, runs of new)
    """
    n_base, n_new = base.shape[1], new.shape[1]
    ordered = np.sort(np.concatenate([base, new], axis=1), axis=1)
    is_tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    p = np.ones(len(base))
    if not is_tied.all():
        plain = stats.mannwhitneyu(base[~is_tied], new[~is_tied], method="exact", axis=1)
        p[~is_tied] = plain.pvalue
    if max(n_base, n_new) > TIES_EXACT_LIMIT:
        for row in np.flatnonzero(is_tied & (ordered[:, 0] < ordered[:, -1])):
            p[row] = stats.mannwhitneyu(base[row], new[row], method="asymptotic").pvalue
    else:
        for row in np.flatnonzero(is_tied):
            p[row] = _p_with_ties(base[row], new[row])
    return p


def _p_with_ties(base: Floats, new: Floats) -> float:
    # Twice a midrank is a whole number, so sums of ranks are counted exactly.
    doubled = np.rint(2 * stats.rankdata(np.concatenate([base, new]))).astype(np.int64)
    ways = _rank_sum_ways(tuple(sorted(doubled.tolist())), len(base))
    observed = int(doubled[: len(base)].sum())
    lower, upper = ways[: observed + 1].sum(), ways[observed:].sum()
    return min(1.0, 2 * float(min(lower, upper) / ways.sum()))


@cache
def _rank_sum_ways(doubled_ranks: tuple[int, ...], chosen: int) -> Floats:
    # ways[k, s]: in how many ways do k of the ranks seen so far have the sum s?
    ways = np.zeros((chosen + 1, sum(doubled_ranks) + 1))
    ways[0, 0] = 1
    for rank in doubled_ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    return np.asarray(ways[chosen])


def benchstat(samples: Samples) -> Calls:
    """Mark a row if the p of :func:`mann_whitney_p` is at most 0.05, uncorrected.

    The direction is that of the medians; a row with equal medians is not marked.
    """
    difference = np.median(samples.new, axis=1) - np.median(samples.base, axis=1)
    return _calls(mann_whitney_p(samples.base, samples.new) <= BENCHSTAT_ALPHA, difference)


# mmtests


def mmtests_summary(runs: Floats, is_higher_better: Flags) -> tuple[Floats, Floats]:
    """Return the means and standard deviations of mmtests, shape (rows,) each.

    If lower is better, they are the arithmetic mean (Amean) and the standard deviation with n - 1.
    If higher is better, they are the harmonic mean (Hmean) and a standard deviation by the delta
    method, with n.

    :param runs: shape (rows, runs)
    :param is_higher_better: shape (rows,)
    """
    inverse = 1 / runs
    harmonic = 1 / inverse.mean(axis=1)
    spread = np.sqrt(((inverse - 1 / harmonic[:, None]) ** 2).mean(axis=1)) * harmonic**2
    mean = np.where(is_higher_better, harmonic, runs.mean(axis=1))
    return mean, np.where(is_higher_better, spread, runs.std(axis=1, ddof=1))


def mmtests(samples: Samples) -> Calls:
    """Mark a row if the ranges mean ± 1.96 standard *deviations* of the sides do not overlap."""
    base, base_spread = mmtests_summary(samples.base, samples.is_higher_better)
    new, new_spread = mmtests_summary(samples.new, samples.is_higher_better)
    return _calls(np.abs(new - base) > MMTESTS_Z * (base_spread + new_spread), new - base)


def mmtests_without_r(samples: Samples) -> Calls:
    """Mark a row if the means differ by more than 1 in the unit of the metric (1 s, 1 op/s).

    This is the rule of mmtests if R is not installed: its ranges have the width 0 then.
    """
    base, _ = mmtests_summary(samples.base, samples.is_higher_better)
    new, _ = mmtests_summary(samples.new, samples.is_higher_better)
    return _calls(np.abs(new - base) > MMTESTS_GAP_WITHOUT_R, new - base)


# lkp-tests


@dataclass(frozen=True, kw_only=True, slots=True)
class LkpSummary:
    """Smallest, middle and largest kept run of one side in lkp-tests, shape (rows,) each.

    ``middle`` is the upper median; lkp-tests calls it the mean.
    """

    least: Floats
    middle: Floats
    largest: Floats


def lkp_summary(runs: Floats) -> LkpSummary:
    """Return the smallest, middle and largest value of each row, as lkp-tests does.

    Before that, of n values the n // 32 (at most 3) smallest and as many largest ones are dropped.

    :param runs: values of one side, shape (rows, runs)
    """
    trimmed = min(runs.shape[1] >> LKP_MARGIN_SHIFT, LKP_MOST_TRIMMED)
    kept = np.sort(runs, axis=1)[:, trimmed : runs.shape[1] - trimmed]
    return LkpSummary(least=kept[:, 0], middle=kept[:, kept.shape[1] // 2], largest=kept[:, -1])


def _lkp_calls(is_changed: Flags, base: LkpSummary, new: LkpSummary) -> Calls:
    high = np.maximum(base.middle, new.middle)
    is_large = high > LKP_SMALLEST_RATIO * np.minimum(base.middle, new.middle)
    return _calls(is_changed & is_large, new.middle - base.middle)


def lkp(samples: Samples) -> Calls:
    """Mark a row if the middle of each side is outside the range of the other side.

    The middles must also differ by more than 1%.
    """
    base, new = lkp_summary(samples.base), lkp_summary(samples.new)
    is_higher = (new.least > base.middle) & (new.middle > base.largest)
    is_lower = (base.least > new.middle) & (base.middle > new.largest)
    return _lkp_calls(is_higher | is_lower, base, new)


def lkp_gap(samples: Samples) -> Calls:
    """Mark a row if the gap between the ranges exceeds 10% of the difference of the middles.

    This is the rule of lkp-tests with ``gap: 0.1``. The middles must also differ by more than 1%.
    """
    base, new = lkp_summary(samples.base), lkp_summary(samples.new)
    allowed = LKP_GAP * np.abs(new.middle - base.middle)
    gap = np.maximum(new.least - base.largest, base.least - new.largest)
    return _lkp_calls((gap > 0) & (gap > allowed), base, new)


# textbook tests


def welch(samples: Samples) -> Calls:
    """Mark a row if Welch's t test on logarithms has p < 0.05, uncorrected."""
    base, new = np.log(samples.base), np.log(samples.new)
    p = np.asarray(stats.ttest_ind(new, base, axis=1, equal_var=False).pvalue)
    return _calls(p < PLAIN_ALPHA, new.mean(axis=1) - base.mean(axis=1))


def pyperf(samples: Samples) -> Calls:
    """Mark a row if Student's t test (equal variances) has p < 0.05, uncorrected."""
    p = np.asarray(stats.ttest_ind(samples.new, samples.base, axis=1, equal_var=True).pvalue)
    return _calls(p < PLAIN_ALPHA, samples.new.mean(axis=1) - samples.base.mean(axis=1))


RIVALS: Mapping[str, Rule] = {
    "benchstat": benchstat,
    "mmtests": mmtests,
    "mmtests-no-R": mmtests_without_r,
    "LKP": lkp,
    "LKP-gap": lkp_gap,
    "Welch": welch,
    "pyperf": pyperf,
}
