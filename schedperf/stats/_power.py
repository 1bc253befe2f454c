# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute the smallest detectable change, and the additional runs needed for a verdict."""

import numpy as np
from scipy import special

from schedperf.stats._rows import Flags, Floats

# A change is looked for at 5%, two-sided, and found in four of five cases: the convention of
# Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd ed., section 2.4.
LEVEL = 0.05
POWER = 0.80
# Quantiles of t need the number that is looked for; so often it is put in again.
ROUNDS = 8
FEWEST = 2.0
# Largest number of runs that is reported.
MOST = 1e6


def least_detectable(se: Floats, df: Floats) -> Floats:
    """Return the smallest effect that is detected with a power of 80%.

    (t(0.975) + t(0.8)) se, in the scale of ``se``: Bloom, "Minimum detectable effects",
    Eval. Rev. 19 (1995).
    """
    return (special.stdtrit(df, 1.0 - LEVEL / 2.0) + special.stdtrit(df, POWER)) * se


def runs_to_settle(
    effect: Floats, variance: Floats, *, smallest: Floats, margin: Floats, is_paired: Flags
) -> Floats:
    """Return how many values per side would decide rows whose true effect is the estimate.

    The smaller of two numbers: to find the effect, where it is as large as counts, and to show
    that it is within the margin, where it is (normal approximation with t quantiles; the
    formulas are those of Chow, Shao & Wang, "Sample Size Calculations in Clinical Research",
    sections 3.2.1 and 3.2.3).

    :param effect: new - base; so are ``smallest`` and ``margin`` in its scale
    :param variance: of one value; where ``is_paired`` of half a pair's difference
    :return: values per side; NaN where no number suffices
    """
    size = np.abs(effect)
    with np.errstate(divide="ignore", invalid="ignore"):
        find = _solve(variance / size**2, 1.0 - LEVEL / 2.0, POWER, is_paired)
        room = np.where(size < margin, margin - size, np.nan)
        # Half of the misses go to either side where nothing differs.
        power = np.where(size < margin / 10.0, (1.0 + POWER) / 2.0, POWER)
        equal = _solve(variance / room**2, 1.0 - LEVEL, power, is_paired)
    return np.fmin(np.where(size >= smallest, find, np.nan), equal)


def _solve(relative: Floats, level: float, power: Floats | float, is_paired: Flags) -> Floats:
    n = np.full_like(relative, 10.0)
    for _ in range(ROUNDS):
        df = np.maximum(np.where(is_paired, n - 1.0, 2.0 * n - 2.0), 1.0)
        quantiles = special.stdtrit(df, level) + special.stdtrit(df, power)
        n = np.clip(2.0 * relative * quantiles**2, FEWEST, MOST)
    return np.where(np.isfinite(relative) & (n < MOST), np.ceil(n), np.nan)
