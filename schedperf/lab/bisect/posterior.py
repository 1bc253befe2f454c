# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate which commit of a range changed a result, and choose the commit to boot next.

Logarithms of boots are normal around one mean before the first bad commit and around another from
it on. Both means have flat priors, and the variance has a prior that counts as many as
``PRIOR_BOOTS`` boots; with them integrated out, the likelihood of each split has a closed form
(Smith, "A Bayesian approach to inference about a change-point in a sequence of random variables",
Biometrika 62, 1975). Booting the median of the posterior is a noisy binary search (Horstein,
"Sequential transmission using noiseless feedback", IEEE Trans. Inf. Theory 9, 1963).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Logarithms of the values of each commit, by its index in the range; without first boots.
Boots = Mapping[int, Sequence[float]]

# Weight of the prior standard deviation, in boots.
PRIOR_BOOTS = 4
# Above this probability, boots of the commit and its parent tell more than those of the median.
LEADING = 0.5


def split_probabilities(boots: Boots, weights: Floats, sd: float) -> Floats:
    """Return the probability that each commit is the first bad one, if exactly one commit is.

    With T boots, n1 of them before the split and n2 after it, and SS the sum of squares around
    their two means, log p = -(PRIOR_BOOTS + T - 2) / 2 * ln(PRIOR_BOOTS * sd^2 + SS)
    - ln(n1 * n2) / 2 + ln(weight) + constant.

    >>> split_probabilities({0: [0.0, 0.02], 2: [0.1, 0.12]}, np.array([1.0, 3.0]), 0.02)
    array([0.25, 0.75])

    :param boots: of both ends of the range at least one each; no commit outside of it
    :param weights: prior weights of the commits after the good end, shape (commits,); positive
    :param sd: prior standard deviation of the logarithms of boots of one kernel; positive
    :return: shape (commits,), of the commits after the good end; the sum is 1
    """
    tested = sorted(commit for commit in boots if boots[commit])
    reference = boots[tested[0]][0]
    centred = [[value - reference for value in boots[commit]] for commit in tested]
    counts = np.array([len(values) for values in centred], dtype=float)
    sums = np.array([sum(values) for values in centred])
    squares = sum(value * value for values in centred for value in values)
    n1, sum1 = counts.cumsum()[:-1], sums.cumsum()[:-1]
    n2, sum2 = counts.sum() - n1, sums.sum() - sum1
    # Rounding may make it slightly negative.
    residual = np.maximum(squares - sum1**2 / n1 - sum2**2 / n2, 0.0)
    degrees = PRIOR_BOOTS + counts.sum() - 2.0
    log_p = -0.5 * degrees * np.log(PRIOR_BOOTS * sd**2 + residual) - 0.5 * np.log(n1 * n2)
    # Commits between two tested ones cannot be distinguished.
    log_p = np.repeat(log_p, np.diff(tested)) + np.log(weights)
    p = np.exp(log_p - log_p.max())
    return np.asarray(p / p.sum())


def choose_commit(probabilities: Floats, first: int, boots: Boots) -> int:
    """Return the index of the commit to boot next.

    It is the median: the commit up to which the sum of the probabilities is closest to a half.
    Once one commit has more than half, it is that commit or its parent, whichever has fewer boots.

    :param probabilities: of the commits from index ``first + 1`` on
    :param first: index of the good end
    """
    leading = int(probabilities.argmax())
    if probabilities[leading] <= LEADING:
        # The first commit with half of the probability up to it would be another one by rounding.
        return first + 1 + int(np.abs(probabilities.cumsum() - 0.5).argmin())
    return min(
        (first + leading, first + leading + 1), key=lambda commit: len(boots.get(commit, ()))
    )
