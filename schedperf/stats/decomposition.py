# SPDX-License-Identifier: GPL-2.0-or-later
"""Decompose the change of a sum into the contributions of its parts.

The contribution of a part is (mean of new - mean of base) / (mean of the sum of base), with
arithmetic means, so that the contributions add up to the relative change of the sum. Its standard
error is that of a ratio of means by the delta method: the variance of the influence of each unit
(Cochran, "Sampling Techniques", 3rd ed., section 2.11).
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy
from msgspec import Struct

from schedperf.model.frame import Floats
from schedperf.model.verdict import CONFIDENCE, FEWEST_RUNS


class Contribution(Struct, frozen=True, kw_only=True):
    """What a part contributes to the relative change of the sum, as a fraction.

    :param ci_low: lower end of the 95% CI; None with fewer than two units on a side
    """

    value: float
    ci_low: float | None
    ci_high: float | None


def decompose(base: Floats, new: Floats, *, is_paired: bool) -> tuple[Contribution, ...]:
    """Return the contribution of each part, then that of all parts together.

    :param base: amounts, shape (units, parts), not negative; a unit is a run, boot or pair
    :param new: of the same parts; of the same pairs if ``is_paired``
    :raises ValueError: all amounts of base are 0, or a side has no units
    """
    if not len(base) or not len(new) or not base.sum() > 0.0:
        raise ValueError("base has no amount to compare with")
    # The last column is the sum.
    of_base, of_new = (np.column_stack([side, side.sum(axis=1)]) for side in (base, new))
    whole = float(of_base[:, -1].mean())
    values = (of_new.mean(axis=0) - of_base.mean(axis=0)) / whole
    # The contribution of all parts is exactly the sum of theirs, without rounding errors.
    values[-1] = values[:-1].sum()
    influences = (_influence_of_base(of_base, values) / whole, _deviations(of_new) / whole)
    halves = _half_widths(influences, is_paired=is_paired)
    return tuple(
        Contribution(
            value=float(value),
            ci_low=None if half is None else float(value) - half,
            ci_high=None if half is None else float(value) + half,
        )
        for value, half in zip(values, halves, strict=True)
    )


def _deviations(amounts: Floats) -> Floats:
    deviations: Floats = amounts - amounts.mean(axis=0)
    return deviations


def _influence_of_base(amounts: Floats, values: Floats) -> Floats:
    # Base stands in the numerator and in the denominator.
    deviations = _deviations(amounts)
    influence: Floats = -(deviations + np.outer(deviations[:, -1], values))
    return influence


def _half_widths(influences: tuple[Floats, Floats], *, is_paired: bool) -> Sequence[float | None]:
    base, new = influences
    if min(len(base), len(new)) < FEWEST_RUNS:
        return [None] * base.shape[1]
    if is_paired:
        errors = [(base + new).var(axis=0, ddof=1) / len(base)]
        degrees = np.full(base.shape[1], len(base) - 1.0)
    else:
        errors = [side.var(axis=0, ddof=1) / len(side) for side in influences]
        # Welch and Satterthwaite's; without any variance they do not matter.
        total = errors[0] + errors[1]
        share = np.divide(errors[0], total, out=np.zeros_like(total), where=total > 0.0)
        degrees = 1.0 / (share**2 / (len(base) - 1) + (1.0 - share) ** 2 / (len(new) - 1))
    quantiles = scipy.special.stdtrit(degrees, 0.5 + CONFIDENCE / 2.0)
    return [
        float(quantile) * math.sqrt(float(variance))
        for quantile, variance in zip(quantiles, sum(errors), strict=True)
    ]
