# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute densities and tails of the distributions that the tests need.

``scipy.stats`` has them all, but importing it takes longer than most comparisons. Formulas:
Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions", 2nd ed., sections 18.2
(chi-squared) and 27.2 (F).
"""

import numpy as np
import scipy

from schedperf.stats._rows import Floats

# Probabilities that differ by less are equal except for rounding.
TIE = 1e-7


def normal_tail(z: float) -> float:
    """Return the two-sided p of a standard normal value."""
    return float(2.0 * scipy.special.ndtr(-abs(z)))


def fisher_p(successes: tuple[int, int], n: tuple[int, int]) -> float:
    """Return the two-sided p of Fisher's exact test.

    It is the sum of the probabilities of all tables with the same margins that are at most as
    probable as the observed one: Fisher, "The logic of inductive inference", J. R. Stat. Soc. 98
    (1935).

    :param successes: number of successes on each side
    :param n: number of trials on each side
    """
    total = sum(successes)
    first = np.arange(max(0, total - n[1]), min(total, n[0]) + 1)
    log_p = -sum(
        scipy.special.betaln(k + 1.0, size - k + 1.0) + np.log(size + 1.0)
        for k, size in ((first, n[0]), (total - first, n[1]))
    )
    p = np.exp(log_p - scipy.special.logsumexp(log_p))
    return float(min(1.0, p[p <= p[successes[0] - first[0]] * (1.0 + TIE)].sum()))


def change_of_shares(
    successes: tuple[int, int], n: tuple[int, int], confidence: float
) -> tuple[float, float]:
    """Return the CI of the difference of two independent shares, the second minus the first.

    Newcombe, "Interval estimation for the difference between independent proportions", Stat. Med.
    17 (1998), method 10: from the score intervals of both shares (Wilson, JASA 22, 1927).

    :param n: number of trials on each side, at least 1
    :param confidence: e.g. 0.95
    """
    z = float(scipy.special.ndtri((1.0 + confidence) / 2.0))
    counts, sizes = np.array(successes, dtype=np.float64), np.array(n, dtype=np.float64)
    shares = counts / sizes
    centres = (counts + z**2 / 2.0) / (sizes + z**2)
    half = z / (sizes + z**2) * np.sqrt(sizes * shares * (1.0 - shares) + z**2 / 4.0)
    below, above = shares - (centres - half), (centres + half) - shares
    change = shares[1] - shares[0]
    return (
        float(change - np.hypot(below[1], above[0])),
        float(change + np.hypot(above[1], below[0])),
    )


def log_chi_squared(x: Floats, df: float) -> Floats:
    """Return the log density of the chi-squared distribution at positive values."""
    half = df / 2.0
    return np.asarray(
        scipy.special.xlogy(half - 1.0, x)
        - x / 2.0
        - scipy.special.gammaln(half)
        - half * np.log(2.0)
    )


def log_f(x: Floats, df: Floats | float, other_df: Floats | float) -> Floats:
    """Return the log density of the F distribution at positive values.

    :param df: degrees of freedom of the numerator
    :param other_df: of the denominator
    """
    half, other = np.asarray(df) / 2.0, np.asarray(other_df) / 2.0
    return np.asarray(
        half * np.log(df)
        + other * np.log(other_df)
        + scipy.special.xlogy(half - 1.0, x)
        - (half + other) * np.log(other_df + df * x)
        - scipy.special.betaln(half, other)
    )
