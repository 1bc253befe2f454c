"""Welch's comparison of two means, with a floor under the variance.

Welch, "The generalization of Student's problem when several different
population variances are involved", Biometrika 34 (1947). SciPy's
``ttest_ind`` does the same without a floor; the tests hold the two together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Values = npt.NDArray[np.float64]

CONFIDENCE = 0.95

# Runs a side without which there is no variance.
FEWEST_RUNS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """new - base of two means, with its interval; None where there is none.

    :param ci_low: lower end of the interval at the confidence that was asked for
    :param p: two-sided; None without variance
    """

    difference: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A difference of two means with its standard error.

    :param se: 0 where no value varies: the difference is then exact
    :param df: degrees of freedom
    """

    difference: float
    se: float
    df: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the two-sided interval of the difference."""
        if self.se == 0.0:
            return self.difference, self.difference
        half = float(stats.t.ppf(0.5 + confidence / 2.0, self.df)) * self.se
        return self.difference - half, self.difference + half

    @property
    def p(self) -> float | None:
        """The two-sided p of no difference; None where the difference is exact."""
        if self.se == 0.0:
            return None
        return float(2.0 * stats.t.sf(abs(self.difference) / self.se, self.df))


def welch_difference(
    base: Sequence[float], new: Sequence[float], *, confidence: float = CONFIDENCE
) -> Difference:
    """Return the difference of two arithmetic means with Welch's interval.

    Without variance on both sides the difference is exact: an interval of zero
    width and no p.

    :param base: one finite value a run, shape (runs,)
    :param new: one finite value a run, shape (runs,), in the same unit
    :return: in the unit of the values; interval and p are None where a side has fewer than two
    """
    if not len(base) or not len(new):
        return Difference(difference=None, ci_low=None, ci_high=None, p=None)
    one, other = np.asarray(base, dtype=np.float64), np.asarray(new, dtype=np.float64)
    estimate = estimate_welch(one, other)
    if estimate is None:
        difference = float(other.mean() - one.mean())
        return Difference(difference=difference, ci_low=None, ci_high=None, p=None)
    low, high = estimate.interval(confidence)
    return Difference(difference=estimate.difference, ci_low=low, ci_high=high, p=estimate.p)


def variance_of(values: Values) -> float:
    """Return the unbiased variance; exactly 0 for equal values, and for fewer than two."""
    # The rounding of the mean would spoil the zero.
    if len(values) < FEWEST_RUNS or float(np.ptp(values)) == 0.0:
        return 0.0
    return float(values.var(ddof=1))


def estimate_welch(
    base: Values, new: Values, *, floors: tuple[float, float] = (0.0, 0.0)
) -> Estimate | None:
    """Estimate new - base; None where a side has fewer than two values.

    :param floors: the least variance of one value, of ``base`` and of ``new``
    """
    if min(len(base), len(new)) < FEWEST_RUNS:
        return None
    difference = float(new.mean() - base.mean())
    errors = [
        max(variance_of(values), floor) / len(values)
        for values, floor in zip((base, new), floors, strict=True)
    ]
    total = sum(errors)
    if total == 0.0:
        # The means of equal numbers may differ from them in the last digit.
        return Estimate(difference=float(new[0] - base[0]), se=0.0, df=math.inf)
    # Welch and Satterthwaite's degrees of freedom, from shares so that nothing underflows.
    share = errors[0] / total
    df = 1.0 / (share**2 / (len(base) - 1) + (1.0 - share) ** 2 / (len(new) - 1))
    return Estimate(difference=difference, se=math.sqrt(total), df=df)
