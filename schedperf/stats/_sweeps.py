# SPDX-License-Identifier: GPL-2.0-or-later
"""Test all points of a sweep together: mean change, and its dependence on the parameter."""

import math
from collections.abc import Sequence

import numpy as np
import scipy
from msgspec import Struct

from schedperf.model.row_groups import Sweep
from schedperf.model.verdict import CHANGED, CONFIDENCE
from schedperf.stats._densities import normal_tail
from schedperf.stats._power import LEVEL
from schedperf.stats._rows import Floats
from schedperf.stats.verdicts import ratio_of

FEWEST_POINTS = 2
FEWEST_POINTS_OF_TREND = 3
# Stouffer's weights and the regression line use the standard errors of the rows.
METHOD = "Stouffer's z, weights 1/se"


class SweepPoint(Struct, frozen=True, kw_only=True):
    """One row of a sweep.

    :param effect: natural logarithm of new / base if ``is_log``, else the relative difference; None
        if unknown
    :param se: standard error of ``effect``; None if unknown, and for maxima
    :param boot_se: the part of ``se`` that is due to boots, which all points share
    :param df: degrees of freedom of ``se``
    :param p: None if the row was not tested
    """

    point: str
    effect: float | None
    se: float | None
    boot_se: float = 0.0
    df: float | None
    p: float | None
    is_log: bool
    verdict: str


def describe_sweep(side: str, workload: str, metric: str, points: Sequence[SweepPoint]) -> Sweep:
    """Return the mean change of a sweep and its dependence on the parameter.

    The points are separate runs, so their errors are independent: the standard error of the mean is
    the root of the sum of their variances, divided by the number of points. The global test is
    Stouffer's, "The American Soldier" (1949), with weights 1/se (Liptak 1958). With one boot per
    side all points share the two boots: the errors due to boots are assumed to be fully correlated,
    which is the worst case.
    """
    estimated = [point for point in points if point.effect is not None and point.se is not None]
    is_whole = len(estimated) == len(points) and all(point.is_log for point in points)
    effects, errors, of_boots, df = (
        np.array([getattr(point, name) for point in estimated], dtype=np.float64)
        for name in ("effect", "se", "boot_se", "df")
    )
    low = high = None
    mean = float(effects.mean()) if is_whole else None
    if mean is not None:
        low, high = _interval(mean, errors, of_boots, df)
    p = _stouffer(estimated) if len(estimated) >= FEWEST_POINTS else None
    changed = [point.point for point in points if point.verdict in CHANGED]
    return Sweep(
        side=side,
        workload=workload,
        metric=metric,
        points=tuple(point.point for point in points),
        geomean_ratio=ratio_of(mean),
        ci_low=ratio_of(low),
        ci_high=ratio_of(high),
        p=p,
        shape=_shape(estimated, effects, errors) if changed else None,
        first_point=changed[0] if changed else None,
        method=METHOD if p is not None else "none",
    )


def _interval(mean: float, errors: Floats, of_boots: Floats, df: Floats) -> tuple[float, float]:
    variances = errors**2
    total = float((variances - of_boots**2).sum() + of_boots.sum() ** 2)
    if total == 0.0:
        return mean, mean
    if of_boots.any():
        # All points use one estimate of the variance between boots.
        return _around(mean, math.sqrt(total) / len(errors), float(df.min()))
    # Satterthwaite, "An approximate distribution of estimates of variance components",
    # Biometrics Bulletin 2 (1946).
    whole_df = 1.0 / float(((variances / total) ** 2 / df).sum())
    return _around(mean, math.sqrt(total) / len(errors), whole_df)


def _around(mean: float, se: float, df: float) -> tuple[float, float]:
    half = float(scipy.special.stdtrit(df, 0.5 + CONFIDENCE / 2.0)) * se
    return mean - half, mean + half


def _stouffer(points: Sequence[SweepPoint]) -> float | None:
    noisy = [point for point in points if point.se and point.p is not None]
    if len(noisy) < FEWEST_POINTS:
        return None
    sizes = [-float(scipy.special.ndtri(max(point.p or 0.0, 1e-300) / 2.0)) for point in noisy]
    z = np.array(sizes) * np.sign([point.effect or 0.0 for point in noisy])
    weights = 1.0 / np.array([point.se or 1.0 for point in noisy])
    # The errors due to boots correlate the points.
    shared = weights * np.array([point.boot_se / (point.se or 1.0) for point in noisy])
    variance = float((weights**2 - shared**2).sum() + shared.sum() ** 2)
    whole = float((weights * z).sum() / math.sqrt(variance))
    return normal_tail(whole)


def _shape(points: Sequence[SweepPoint], effects: Floats, errors: Floats) -> str | None:
    # Weighted regression of the effects on the logarithm of the parameter.
    parameter = _parameter([point.point for point in points])
    if parameter is None or len(points) < FEWEST_POINTS_OF_TREND or not (errors > 0.0).all():
        return None
    name, values = parameter
    x, weights = np.log2(values), errors**-2.0
    centre = (weights * x).sum() / weights.sum()
    mean = (weights * effects).sum() / weights.sum()
    spread = (weights * (x - centre) ** 2).sum()
    slope = (weights * (x - centre) * effects).sum() / spread
    if normal_tail(slope * math.sqrt(spread)) >= LEVEL:
        return f"similar at all {name}"
    ends = mean + slope * (np.array([x.min(), x.max()]) - centre)
    if ends[0] * ends[1] < 0.0 and min(abs(ends)) > max(abs(ends)) / 4.0:
        return f"changes sign with {name}"
    return f"{'grows' if abs(ends[1]) > abs(ends[0]) else 'shrinks'} with {name}"


def _parameter(points: Sequence[str]) -> tuple[str, Floats] | None:
    # The only parameter that differs between the points, if its values are positive numbers.
    settings = [dict(part.partition("=")[::2] for part in point.split(",")) for point in points]
    names = {name for setting in settings for name in setting}
    varied = [name for name in names if len({setting.get(name) for setting in settings}) > 1]
    if len(varied) != 1:
        return None
    try:
        values = np.array([float(setting[varied[0]]) for setting in settings])
    except (KeyError, ValueError):
        return None
    is_scale = (values > 0.0).all() and np.isfinite(values).all() and np.ptp(values) > 0.0
    return (varied[0], values) if is_scale else None
