"""Means over the runs of one side, each with an interval of its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from schedperf.stats.welch import CONFIDENCE, FEWEST_RUNS

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Means:
    """Means of numbers that are never negative, in their unit.

    :param replication: what n counts
    :param mean: shape (numbers,), as all that follow
    :param ci_low: lower end of the 95 % interval of the mean; None with fewer than two values
    """

    replication: Literal["runs", "boots"]
    n: int
    mean: list[float]
    ci_low: list[float | None]
    ci_high: list[float | None]


def means_over_runs(values: Floats, boots: Sequence[int]) -> Means:
    """Return the mean of each column with Student's interval.

    Runs of one boot are not independent of it, so where there are several boots, the means of
    boots count as well, and the wider interval is given.

    :param values: shape (runs, numbers), runs >= 1, none of them negative
    :param boots: of each run
    """
    numbers = np.array(boots)
    units = np.array([values[numbers == boot].mean(axis=0) for boot in dict.fromkeys(boots)])
    has_boots = len(units) >= FEWEST_RUNS
    half = np.fmax(_half_width(values), _half_width(units))
    mean = (units if has_boots else values).mean(axis=0)
    return Means(
        replication="boots" if has_boots else "runs",
        n=len(units) if has_boots else len(values),
        mean=mean.tolist(),
        ci_low=_known(np.maximum(mean - half, 0.0)),
        ci_high=_known(mean + half),
    )


def _half_width(values: Floats) -> Floats:
    if len(values) < FEWEST_RUNS:
        return np.full(values.shape[1], np.nan)
    quantile = float(scipy.special.stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2.0))
    half: Floats = quantile * values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return half


def _known(values: Floats) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]
