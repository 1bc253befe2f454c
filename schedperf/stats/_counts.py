# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare the rates of rare events, such as samples of a cache line, between two sides.

The variance of a count of samples is at least that of Poisson, and larger if runs differ:
the variance of a count with mean m is m (1 + phi m), that of a negative binomial. One phi is
estimated from all lines together (:func:`_overdispersion`); the additional variance of single lines
is averaged over prior degrees of freedom as for the variances of a sweep, after Lund,
Nettleton, McCarthy and Smyth, "Detecting differential expression in RNA-sequence data using
quasi-likelihood with shrunken dispersion estimates", Stat. Appl. Genet. Mol. Biol. 11 (2012).

Given the sum of both sides, the count of new is binomial (Przyborowski and Wilenski, Biometrika 31,
1940). A count whose variance is k times that of Poisson is as precise as one k times smaller, so
counts and exposures are divided by k. The mid-p form is used (Lancaster, J. Am. Stat. Assoc. 56,
1961): with counts of 0 to 5 the exact test would be too conservative. Where k is estimated,
quantiles of t stand for those of the normal distribution.
"""

from typing import Literal

import numpy as np
import scipy
from msgspec import Struct

from schedperf.stats._correction import false_discovery
from schedperf.stats._densities import log_chi_squared, log_f
from schedperf.stats._power import LEVEL, POWER
from schedperf.stats._rows import Floats

# With fewer samples in total, even all of them on one side are not significant: at equal exposures
# the mid-p of 5 samples is 0.03, of 4 it is 0.06. The sum is independent of the change, so it may
# select the lines to test (Bourgon, Gentleman and Huber, PNAS 107, 2010).
FEWEST_SAMPLES = 5
# Samples per run from which the overdispersion of a line can be separated from Poisson noise.
FEWEST_FOR_SCATTER = 3.0
# Lower limit of Pearson's statistic, which is 0 for equal counts and would have no logarithm.
SMALLEST_SCATTER = 0.05
# Prior degrees of freedom whose estimates are averaged, together with the estimate that all lines
# scatter alike.
PRIOR_DF = (1.0, 2.0, 4.0, 8.0, 12.0)
# Bisection steps on (0, 1) that reach float precision.
HALVINGS = 60
# Upper limit of phi; runs that differ more are not repetitions of one measurement.
LARGEST_PHI = 1e4


class ComparedCounts(Struct, frozen=True, kw_only=True):
    """The comparison of two sides' counts; arrays of shape (lines,), NaN where unknown.

    With one run per side, only the rates, ``ratio`` and ``difference`` are known.

    :param base: events per unit of exposure, all runs together; ``base_low`` and ``base_high`` are
        the ends of its 95% CI
    :param ratio: new / base; NaN where base has no events; ``ratio_high`` is then infinite, or NaN
        if new has none either
    :param difference: new - base per unit of exposure with its 95% CI
    :param p: two-sided, for the hypothesis of equal rates; NaN with fewer than five events on both
        sides together
    :param q: p after the correction for all lines that were tested
    :param least_ratio: the smallest ratio above 1 that this number of runs detects with 80% power
    :param phi: squared coefficient of variation of a rate from run to run; 0 if runs scatter no
        more than Poisson; NaN with one run per side
    """

    base: Floats
    base_low: Floats
    base_high: Floats
    new: Floats
    new_low: Floats
    new_high: Floats
    ratio: Floats
    ratio_low: Floats
    ratio_high: Floats
    difference: Floats
    difference_low: Floats
    difference_high: Floats
    p: Floats
    q: Floats
    least_ratio: Floats
    phi: float

    @property
    def method(self) -> Literal["Poisson", "negative binomial"]:
        """Name of the model of the counts."""
        return "negative binomial" if self.phi > 0.0 else "Poisson"


class _Counts(Struct, frozen=True, kw_only=True):
    # Counts, shape (runs, lines), and the exposure of each run, shape (runs,).
    counts: Floats
    exposure: Floats

    @property
    def total(self) -> Floats:
        return np.asarray(self.counts.sum(axis=0))

    @property
    def rate(self) -> Floats:
        return np.asarray(self.total / self.exposure.sum())

    @property
    def means(self) -> Floats:
        return self.exposure[:, None] * self.rate

    def residuals(self, phi: float) -> Floats:
        # Standardised residuals; 0 for lines without counts.
        means = self.means
        scatter = np.sqrt(means * (1.0 + phi * means))
        return np.divide(
            self.counts - means, scatter, out=np.zeros_like(means), where=scatter > 0.0
        )

    def inflation(self, phi: float) -> Floats:
        # The variance of the total, relative to that of a Poisson count.
        means = self.means
        squares = (means**2).sum(axis=0)
        common = np.divide(
            squares, means.sum(axis=0), out=np.zeros_like(squares), where=squares > 0.0
        )
        return np.asarray(1.0 + phi * common)


def compare_counts(
    base: Floats, new: Floats, *, base_exposure: Floats, new_exposure: Floats
) -> ComparedCounts:
    """Compare how often things happen on two sides, separately for each thing that is counted.

    A rate is count / exposure. Each counted thing is called a line here, e.g. a cache line.

    :param base: counts, shape (runs, lines); ``new`` has as many lines
    :param base_exposure: divisor of the counts of each run, positive, shape (runs,)
    :raises ValueError: a side has no runs, shapes do not match, a count is negative or NaN, or an
        exposure is not positive and finite
    """
    sides = (_checked(base, base_exposure), _checked(new, new_exposure))
    if sides[0].counts.shape[1] != sides[1].counts.shape[1]:
        lines = [side.counts.shape[1] for side in sides]
        raise ValueError(
            f"base has {lines[0]} lines and new has {lines[1]} (expected the same number)"
        )
    df = sum(len(side.exposure) for side in sides) - 2.0
    phi = _overdispersion(sides) if df > 0.0 else np.nan
    scatter, line_df = _moderated_scatter(sides, phi, df)
    return _compare(sides, phi, scatter, line_df)


def _checked(counts: Floats, exposure: Floats) -> _Counts:
    numbers = np.asarray(counts, dtype=np.float64)
    exposures = np.asarray(exposure, dtype=np.float64)
    if numbers.ndim != 2 or exposures.shape != numbers.shape[:1] or not len(exposures):  # noqa: PLR2004 # runs and lines
        raise ValueError(
            "invalid shape (expected counts of shape (runs, lines), exposures of shape (runs,), "
            "and at least 1 run)"
        )
    if not (np.isfinite(exposures).all() and (exposures > 0.0).all()):
        raise ValueError("invalid exposure (expected a finite number above 0)")
    if not (numbers >= 0.0).all():
        raise ValueError("invalid count (expected a number of 0 or more)")
    return _Counts(counts=numbers, exposure=exposures)


def _squares(sides: tuple[_Counts, _Counts], phi: float) -> Floats:
    # Pearson's statistic of each line.
    return np.asarray(np.vstack([side.residuals(phi) ** 2 for side in sides]).sum(axis=0))


def _overdispersion(sides: tuple[_Counts, _Counts]) -> float:
    # The phi at which Pearson's statistic of all lines equals its expected value: Breslow,
    # "Extra-Poisson variation in log-linear models", Appl. Stat. 33 (1984). Given the totals its
    # mean under Poisson is exactly the number of degrees of freedom, however small the counts.
    expected = sum((len(side.exposure) - 1.0) * np.count_nonzero(side.total) for side in sides)

    def excess(phi: float) -> float:
        return float(_squares(sides, phi).sum() - expected)

    if excess(0.0) <= 0.0:
        return 0.0
    if excess(LARGEST_PHI) > 0.0:
        return LARGEST_PHI
    from scipy import optimize  # noqa: PLC0415 # its import takes time

    return float(optimize.brentq(excess, 0.0, LARGEST_PHI))


def _moderated_scatter(
    sides: tuple[_Counts, _Counts], phi: float, df: float
) -> tuple[Floats, Floats]:
    # The scatter of each line relative to the common model, at least 1, and the degrees of freedom
    # of its quantiles. Lines with few samples are taken to scatter as in the common model.
    lines = sides[0].counts.shape[1]
    if df <= 0.0:
        return np.full(lines, np.nan), np.full(lines, np.nan)
    # If runs scatter as Poisson predicts, there is no estimated variance, hence no uncertainty of
    # it.
    most_df = np.inf if phi == 0.0 else df * _independent_lines(sides, phi)
    means = np.vstack([side.means for side in sides]).mean(axis=0)
    is_estimable = means >= FEWEST_FOR_SCATTER
    scatter, scatter_df = np.ones(lines), np.full(lines, most_df)
    if is_estimable.any():
        observed = np.maximum(_squares(sides, phi)[is_estimable] / df, SMALLEST_SCATTER)
        shrunk = _drawn_to_one(observed, df, most_df)
        scatter[is_estimable], scatter_df[is_estimable] = shrunk
    return np.maximum(scatter, 1.0), scatter_df


def _drawn_to_one(seen: Floats, df: float, most_df: float) -> tuple[Floats, float]:
    # The estimates for each value of PRIOR_DF, and the one that all lines scatter alike, are
    # weighted by their likelihood: scatters follow F with df and the prior's degrees of freedom.
    priors = np.array([*PRIOR_DF, np.inf])
    logs = np.array([_explain(seen, df, prior) for prior in priors])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    shares = df / (df + priors)
    drawn = weights @ (shares[:, None] * seen + (1.0 - shares[:, None]))
    return drawn, float(1.0 / (weights @ (1.0 / np.minimum(df + priors, most_df))))


def _explain(seen: Floats, df: float, prior_df: float) -> float:
    if np.isinf(prior_df):
        return float((log_chi_squared(seen * df, df) + np.log(df)).sum())
    return float(log_f(seen, df, prior_df).sum())


def _independent_lines(sides: tuple[_Counts, _Counts], phi: float) -> float:
    # An effect on a whole run moves all of its lines, so they are not independent estimates of the
    # scatter between runs: the effective number of lines is 1 / (variance of a run's mean
    # residual).
    counted = sides[0].total + sides[1].total > 0.0
    residuals = np.vstack([side.residuals(phi)[:, counted] for side in sides])
    common = (residuals.mean(axis=1) ** 2).sum() if residuals.size else 0.0
    alone = (residuals**2).sum() / max(residuals.shape[1], 1)
    return float(np.clip(alone / common, 1.0, residuals.shape[1])) if common > 0.0 else 1.0


def _compare(
    sides: tuple[_Counts, _Counts], phi: float, scatter: Floats, df: Floats
) -> ComparedCounts:
    inflations = [scatter * side.inflation(phi) for side in sides]
    counts = [side.total / times for side, times in zip(sides, inflations, strict=True)]
    exposures = [side.exposure.sum() / times for side, times in zip(sides, inflations, strict=True)]
    quantile = _quantile(df, 1.0 - LEVEL / 2.0)
    base, new = (side.rate for side in sides)
    lows, highs = zip(
        *(_rate_interval(*pair, quantile) for pair in zip(counts, exposures, strict=True)),
        strict=True,
    )
    low, high = _ratio_interval(counts, exposures, quantile)
    p = _p(counts, exposures, df)
    p[sides[0].total + sides[1].total < FEWEST_SAMPLES] = np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(base > 0.0, new / base, np.nan)
    return ComparedCounts(
        base=base,
        base_low=lows[0],
        base_high=highs[0],
        new=new,
        new_low=lows[1],
        new_high=highs[1],
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        difference=new - base,
        # Zou and Donner, "Construction of confidence limits about effect measures", Stat. Med. 27
        # (2008): the limits of a difference, from those of each rate.
        difference_low=new - base - np.hypot(new - lows[1], highs[0] - base),
        difference_high=new - base + np.hypot(highs[1] - new, base - lows[0]),
        p=p,
        q=false_discovery(p, np.zeros(len(p), dtype=np.int64)),
        least_ratio=_least_ratio(sides, exposures, df),
        phi=phi,
    )


def _quantile(df: Floats, share: float) -> Floats:
    normal = np.full_like(df, scipy.special.ndtri(share))
    finite = np.where(np.isfinite(df), df, 1.0)
    of_t = np.where(np.isnan(df), np.nan, scipy.special.stdtrit(finite, share))
    return np.where(np.isinf(df), normal, of_t)


def _rate_interval(count: Floats, exposure: Floats, quantile: Floats) -> tuple[Floats, Floats]:
    # Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936).
    tail = scipy.special.ndtr(-quantile)
    low = np.where(count > 0.0, scipy.special.gammaincinv(np.maximum(count, 1e-9), tail), 0.0)
    high = scipy.special.gammainccinv(count + 1.0, tail)
    return np.where(np.isnan(tail), np.nan, low / exposure), high / exposure


def _above(share: Floats, counts: list[Floats]) -> Floats:
    # Mid-p of at least this many samples in new, given new's expected share of all samples.
    base, new = counts
    at_least = np.where(
        new > 0.0, scipy.special.betainc(np.maximum(new, 1e-9), base + 1.0, share), 1.0
    )
    more = np.where(
        base > 0.0, scipy.special.betainc(new + 1.0, np.maximum(base, 1e-9), share), 0.0
    )
    result: Floats = (at_least + more) / 2.0
    return result


def _p(counts: list[Floats], exposures: list[Floats], df: Floats) -> Floats:
    above = _above(exposures[1] / (exposures[0] + exposures[1]), counts)
    distance = np.abs(scipy.special.ndtri(np.clip(above, 1e-300, 1.0 - 1e-16)))
    finite = np.where(np.isfinite(df), df, 1.0)
    tail = np.where(
        np.isinf(df), scipy.special.ndtr(-distance), scipy.special.stdtr(finite, -distance)
    )
    return np.where(np.isnan(df), np.nan, 2.0 * tail)


def _ratio_interval(
    counts: list[Floats], exposures: list[Floats], quantile: Floats
) -> tuple[Floats, Floats]:
    ends = []
    for tail, is_open in ((-quantile, counts[1] <= 0.0), (quantile, counts[0] <= 0.0)):
        low, high = np.zeros_like(quantile), np.ones_like(quantile)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            is_below = _above(middle, counts) < scipy.special.ndtr(tail)
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        with np.errstate(divide="ignore"):
            odds = np.where(is_open, np.inf if tail is quantile else 0.0, low / (1.0 - low))
        ends.append(odds * exposures[0] / exposures[1])
    is_empty = (counts[0] + counts[1] <= 0.0) | np.isnan(quantile)
    return np.where(is_empty, np.nan, ends[0]), np.where(is_empty, np.nan, ends[1])


def _least_ratio(sides: tuple[_Counts, _Counts], exposures: list[Floats], df: Floats) -> Floats:
    # Square roots of rates have the variance 1 / (4 exposure) whatever the rate: Gu, Ng, Tang and
    # Schucany, "Testing the ratio of two Poisson rates", Biometrical J. 50 (2008). Both sides are
    # assumed to have the common rate.
    common = sum(side.total for side in sides) / sum(side.exposure.sum() for side in sides)
    error = np.sqrt(1.0 / exposures[0] + 1.0 / exposures[1]) / 2.0
    step = (_quantile(df, 1.0 - LEVEL / 2.0) + _quantile(df, POWER)) * error
    with np.errstate(divide="ignore"):
        return np.where(common > 0.0, (1.0 + step / np.sqrt(common)) ** 2, np.nan)
