# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the smallest detectable change, and the additional runs needed for a verdict."""

from typing import NamedTuple

import numpy as np
import scipy

from schedperf.stats._rows import Flags, Floats

# Tests are two-sided at 5% with 80% power: the convention of Cohen, "Statistical Power Analysis for
# the Behavioral Sciences", 2nd ed., section 2.4.
LEVEL = 0.05
POWER = 0.80
# Iterations: the quantiles of t depend on the number of runs that is computed.
ROUNDS = 8
FEWEST = 2.0
# Largest number of runs that is reported.
MOST = 1e6


def least_detectable(se: Floats, df: Floats) -> Floats:
    """Return the smallest effect that is detected with a power of 80%.

    (t(0.975) + t(0.8)) se, in the scale of ``se``: Bloom, "Minimum detectable effects",
    Eval. Rev. 19 (1995).
    """
    return (scipy.special.stdtrit(df, 1.0 - LEVEL / 2.0) + scipy.special.stdtrit(df, POWER)) * se


def runs_to_settle(
    effect: Floats,
    variance: Floats,
    *,
    smallest: Floats,
    margin: Floats,
    is_paired: Flags,
    fixed: Floats,
    fixed_df: Floats,
) -> Floats:
    """Return how many values per side decide a row if its true effect is the estimate.

    It is the smaller of two numbers: to detect an effect that is large enough to count, and to show
    that a smaller effect is within the margin (normal approximation with t quantiles; the formulas
    are those of Chow, Shao & Wang, "Sample Size Calculations in Clinical Research", sections 3.2.1
    and 3.2.3).

    :param effect: new - base; ``smallest`` and ``margin`` are in the same scale
    :param variance: of one value; if ``is_paired``, half the variance of the pairs' differences
    :param smallest: smallest effect that counts as a change
    :param margin: half-width of the equivalence band
    :param fixed: variance of the effect that no number of values averages out, with its degrees of
        freedom ``fixed_df``; 0 for none
    :return: values per side; NaN where no number suffices
    """
    size = np.abs(effect)
    noise = _Noise(of_value=variance, fixed=fixed, fixed_df=fixed_df, is_paired=is_paired)
    find = _solve(size, noise, 1.0 - LEVEL / 2.0, POWER)
    room = np.where(size < margin, margin - size, np.nan)
    # If the true effect is 0, false negatives are split between the two sides of the margin.
    power = np.where(size < margin / 10.0, (1.0 + POWER) / 2.0, POWER)
    equal = _solve(room, noise, 1.0 - LEVEL, power)
    return np.fmin(np.where(size >= smallest, find, np.nan), equal)


class _Noise(NamedTuple):
    of_value: Floats
    fixed: Floats
    fixed_df: Floats
    is_paired: Flags

    def df(self, n: Floats) -> Floats:
        # Degrees of freedom of the effect's variance: Satterthwaite, Biometrics Bulletin 2 (1946).
        own_df = np.maximum(np.where(self.is_paired, n - 1.0, 2.0 * n - 2.0), 1.0)
        own = 2.0 * self.of_value / n
        total_df = (self.fixed + own) ** 2 / (self.fixed**2 / self.fixed_df + own**2 / own_df)
        return np.where(self.fixed > 0.0, total_df, own_df)


def _solve(size: Floats, noise: _Noise, level: float, power: Floats | float) -> Floats:
    n = np.full_like(size, 10.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(ROUNDS):
            df = noise.df(n)
            quantiles = scipy.special.stdtrit(df, level) + scipy.special.stdtrit(df, power)
            # The variance that remains for the mean after the fixed variance.
            left = size**2 - noise.fixed * quantiles**2
            needed = np.where(left > 0.0, 2.0 * (noise.of_value / left) * quantiles**2, MOST)
            n = np.clip(needed, FEWEST, MOST)
    return np.where(n < MOST, np.ceil(n), np.nan)
