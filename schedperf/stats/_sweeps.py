# SPDX-License-Identifier: GPL-2.0-or-later
"""Test all points of a sweep together: mean change, and how it depends on the parameter."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from scipy import special

from schedperf.model.comparison import Sweep
from schedperf.model.verdict import CHANGED, CONFIDENCE
from schedperf.stats._densities import normal_tail
from schedperf.stats._power import LEVEL
from schedperf.stats._rows import Floats
from schedperf.stats.verdicts import ratio_of

FEWEST_POINTS = 2
FEWEST_POINTS_OF_TREND = 3
# Standard errors of Stouffer's weights and of the line are those of the rows.
METHOD = "Stouffer's z, weights 1/se"


class SweepPoint(Struct, frozen=True, kw_only=True):
    """One row of a sweep; ``effect`` and its error are None where there is none."""

    point: str
    effect: float | None
    se: float | None
    df: float | None
    p: float | None
    is_log: bool
    verdict: str


def describe_sweep(side: str, workload: str, metric: str, points: Sequence[SweepPoint]) -> Sweep:
    """Return the mean change of a sweep and its dependence on the parameter.

    The points are separate runs, so their errors are independent: the mean's variance is the
    sum of theirs, and the global test is Stouffer's, "The American Soldier" (1949), with
    weights 1/se (Liptak 1958).
    """
    estimated = [point for point in points if point.effect is not None and point.se is not None]
    is_whole = len(estimated) == len(points) and all(point.is_log for point in points)
    effects, errors, df = (
        np.array([getattr(point, name) for point in estimated], dtype=np.float64)
        for name in ("effect", "se", "df")
    )
    low = high = None
    mean = float(effects.mean()) if is_whole else None
    if mean is not None:
        low, high = _interval(mean, errors, df)
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


def _interval(mean: float, errors: Floats, df: Floats) -> tuple[float, float]:
    variances = errors**2
    total = float(variances.sum())
    if total == 0.0:
        return mean, mean
    # Satterthwaite, "An approximate distribution of estimates of variance components",
    # Biometrics Bulletin 2 (1946).
    whole_df = 1.0 / float(((variances / total) ** 2 / df).sum())
    quantile = float(special.stdtrit(whole_df, 0.5 + CONFIDENCE / 2.0))
    half = quantile * math.sqrt(total) / len(errors)
    return mean - half, mean + half


def _stouffer(points: Sequence[SweepPoint]) -> float | None:
    noisy = [point for point in points if point.se and point.p is not None]
    if len(noisy) < FEWEST_POINTS:
        return None
    sizes = [-float(special.ndtri(max(point.p or 0.0, 1e-300) / 2.0)) for point in noisy]
    z = np.array(sizes) * np.sign([point.effect or 0.0 for point in noisy])
    weights = 1.0 / np.array([point.se or 1.0 for point in noisy])
    whole = float((weights * z).sum() / math.sqrt(float((weights**2).sum())))
    return normal_tail(whole)


def _shape(points: Sequence[SweepPoint], effects: Floats, errors: Floats) -> str | None:
    # A line of the effects over the logarithm of the parameter, weighted by its precision.
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
    # The one parameter that differs between the points, where its values are positive numbers.
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
