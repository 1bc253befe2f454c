# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute a side's mean over its runs with its own CI."""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

import numpy as np
import scipy
from msgspec import Struct

from schedperf.model.comparison import Row, RunValue
from schedperf.model.verdict import CONFIDENCE, FEWEST_RUNS


class SideMean(Struct, frozen=True, kw_only=True):
    """A side of one row, in the row's unit.

    :param mean: geometric where all values are positive, as the row's is
    :param low: lower bound of its 95% CI; None with fewer than two independent values
    """

    mean: float
    low: float | None
    high: float | None


def mean_of(row: Row, *, is_base: bool) -> SideMean | None:
    """Return the mean of a side; None where the row has none.

    The interval is Student's over the logarithms of the values (over the values where one is not
    positive). Where boots are what is independent, a boot's mean is one value.
    """
    mean = row.base if is_base else row.new
    if mean is None:
        return None
    values = _independent(row, row.values_base if is_base else row.values_new)
    is_log = bool(values) and min(values) > 0.0
    numbers = np.log(values) if is_log else np.asarray(values, dtype=np.float64)
    if len(numbers) < FEWEST_RUNS:
        return SideMean(mean=mean, low=None, high=None)
    quantile = float(scipy.special.stdtrit(len(numbers) - 1, 0.5 + CONFIDENCE / 2.0))
    half = quantile * float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    centre = float(numbers.mean())
    low, high = centre - half, centre + half
    # Two runs may be so far apart that the ends of their interval are no numbers.
    with np.errstate(over="ignore", under="ignore"):
        ends = (float(np.exp(low)), float(np.exp(high))) if is_log else (low, high)
    return SideMean(mean=mean, low=ends[0], high=ends[1] if math.isfinite(ends[1]) else None)


def _independent(row: Row, runs: Sequence[RunValue]) -> list[float]:
    if row.replication != "boots":
        return [run.value for run in runs]
    boots: dict[int | None, list[float]] = defaultdict(list)
    for run in runs:
        boots[run.boot].append(run.value)
    if all(value > 0.0 for values in boots.values() for value in values):
        return [math.exp(fmean(map(math.log, values))) for values in boots.values()]
    return [fmean(values) for values in boots.values()]
