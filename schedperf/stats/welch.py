# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare two means by Welch's test; for tables of rows use ``schedperf.stats``.

Welch, "The generalization of Student's problem when several different population variances are
involved", Biometrika 34 (1947). SciPy's ``ttest_ind`` gives the same results much more slowly,
except for values without variance; the tests compare both.
"""

import math
from collections.abc import Sequence
from statistics import fmean

import scipy
from msgspec import Struct

from schedperf.model.verdict import CONFIDENCE, FEWEST_RUNS


class Difference(Struct, frozen=True, kw_only=True):
    """new - base of two means, with its interval.

    :param difference: in the unit of the values; None if a side has no values
    :param ci_low: lower bound of the interval at the requested confidence; None if a side has fewer
        than two values
    :param p: two-sided; None as ``ci_low``, and if no value varies
    """

    difference: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None


def welch_difference(
    base: Sequence[float],
    new: Sequence[float],
    *,
    confidence: float = CONFIDENCE,
    error: float = 0.0,
) -> Difference:
    """Return the difference of two arithmetic means with Welch's interval.

    If neither side varies, the difference is exact: the interval has zero width and there is no p.

    :param base: one finite value per run, shape (runs,)
    :param new: one finite value per run, shape (runs of new,), in the same unit
    :param confidence: of the interval, between 0 and 1
    :param error: a further standard error of the difference, which is known, in the same unit
    """
    if not len(base) or not len(new):
        return Difference(difference=None, ci_low=None, ci_high=None, p=None)
    difference = fmean(new) - fmean(base)
    if min(len(base), len(new)) < FEWEST_RUNS:
        return Difference(difference=difference, ci_low=None, ci_high=None, p=None)
    variances = [variance_of(values) for values in (base, new)]
    if not any(variances) and error == 0.0:
        # The mean of equal numbers may differ from them in the last digit.
        exact = float(new[0] - base[0])
        return Difference(difference=exact, ci_low=exact, ci_high=exact, p=None)
    return welch_of_variances(
        difference, variances, (len(base), len(new)), confidence=confidence, error=error
    )


def welch_of_variances(
    difference: float,
    variances: Sequence[float],
    sizes: Sequence[int],
    *,
    confidence: float = CONFIDENCE,
    error: float = 0.0,
) -> Difference:
    """Return a difference of two means with Welch's interval.

    :param variances: of the values of both sides, shape (2,); one above 0, or ``error`` is
    :param sizes: their numbers, each two or more, shape (2,)
    :param error: as in :func:`welch_difference`
    """
    errors = [variance / size for variance, size in zip(variances, sizes, strict=True)]
    total = sum(errors) + error**2
    # Welch and Satterthwaite's degrees of freedom, from shares so that nothing underflows.
    shares = (each / total for each in errors)
    inverse = sum(share**2 / (size - 1) for share, size in zip(shares, sizes, strict=True))
    df = 1.0 / inverse if inverse else math.inf
    return student_difference(difference, math.sqrt(total), df, confidence=confidence)


def student_difference(
    difference: float, error: float, df: float, *, confidence: float = CONFIDENCE
) -> Difference:
    """Return a difference with Student's interval.

    :param error: its standard error, above 0, in the same unit
    :param df: degrees of freedom of the error; infinite if it is known
    """
    half = float(scipy.special.stdtrit(df, 0.5 + confidence / 2.0)) * error
    return Difference(
        difference=difference,
        ci_low=difference - half,
        ci_high=difference + half,
        p=float(2.0 * scipy.special.stdtr(df, -abs(difference) / error)),
    )


def variance_of(values: Sequence[float]) -> float:
    """Return the unbiased variance of two values or more; exactly 0 for equal values."""
    # Rounding of the mean would make the variance of equal values positive.
    if min(values) == max(values):
        return 0.0
    mean = fmean(values)
    return math.fsum((value - mean) * (value - mean) for value in values) / (len(values) - 1)
