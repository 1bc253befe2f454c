# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimate the shift between two samples by ranks, with an exact confidence interval."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from schedperf.stats._ranks import confidence_cut


class Shift(Struct, frozen=True, kw_only=True):
    """new - base, in the unit of the values.

    :param low: lower end of the 95% CI; None with too few values for one
    :param high: upper end, in the same cases
    """

    estimate: float
    low: float | None
    high: float | None


def rank_shift(base: Sequence[float], new: Sequence[float]) -> Shift:
    """Return the Hodges-Lehmann shift with the exact CI of the Mann-Whitney test.

    With ties the CI covers more than 95% (Hollander, Wolfe & Chicken, "Nonparametric Statistical
    Methods", 3rd ed., sections 4.2 and 4.3).

    >>> rank_shift([1.0, 2.0, 3.0, 4.0], [11.0, 12.0, 13.0, 14.0])
    Shift(estimate=10.0, low=7.0, high=13.0)

    :param base: finite values, shape (n,), n >= 1
    :param new: finite values, shape (m,), m >= 1
    """
    shifts = np.sort(np.subtract.outer(np.asarray(new), np.asarray(base)).ravel())
    cut = confidence_cut(len(base), len(new))
    return Shift(
        estimate=float(np.median(shifts)),
        low=None if cut is None else float(shifts[cut - 1]),
        high=None if cut is None else float(shifts[-cut]),
    )
