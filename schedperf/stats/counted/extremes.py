# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare rare long latencies: how many samples exceed a threshold, and the maxima of runs.

Counts above thresholds are rare events in many samples, so they are compared as counts
(:mod:`schedperf.stats._counts`): Poisson, with the variance between runs where it is larger. Runs
of one boot are not independent, so where both sides have several boots, the counts of a boot are
added.

The maximum of a run is not a mean and has no standard error. Maxima are compared by their ranks:
the exact Mann-Whitney test (a permutation of the ranks if some maxima are equal), and the shift of
Hodges and Lehmann with its exact interval, of logarithms, so that it is a ratio. A maximum grows
with the number of samples, so this compares runs of equally many samples.
"""

from collections.abc import Sequence
from math import exp

import numpy as np
from msgspec import Struct

from schedperf.model.comparison import Replication
from schedperf.stats._correction import false_discovery
from schedperf.stats._counts import ComparedCounts, compare_counts
from schedperf.stats._ranks import rank
from schedperf.stats._rows import FEWEST_BOOTS, Block

# A maximum of n samples of exponential tails grows with log n: 10% more samples add 0.1 of the
# scale of the tail.
LARGEST_SAMPLES_RATIO = 1.1


class Counted(Struct, frozen=True, kw_only=True):
    """What one run counted.

    :param samples: number of all samples
    :param above: of these, above each threshold
    """

    boot: int
    samples: int
    above: tuple[int, ...]


class ComparedMaxima(Struct, frozen=True, kw_only=True):
    """What ranks say of the maxima of two sides.

    :param ratio: typical ratio of a run of new to one of base, with its exact 95% CI
    :param p: two-sided and exact
    """

    n_base: int
    n_new: int
    replication: Replication
    ratio: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    p: float | None = None


def compare_exceedances(
    base: Sequence[Counted], new: Sequence[Counted]
) -> tuple[ComparedCounts, Replication, tuple[int, int]]:
    """Compare the shares of samples above each threshold.

    :param base: runs, all with the same thresholds
    :return: the comparison, one line per threshold; the unit of replication, and its sample sizes
    """
    replication = _replication([[run.boot for run in side] for side in (base, new)])
    sides = [_units(side, replication) for side in (base, new)]
    arrays = [
        (
            np.array([unit.above for unit in side], dtype=np.float64),
            np.array([unit.samples for unit in side], dtype=np.float64),
        )
        for side in sides
    ]
    (base_counts, base_samples), (new_counts, new_samples) = arrays
    compared = compare_counts(
        base_counts, new_counts, base_exposure=base_samples, new_exposure=new_samples
    )
    return compared, replication, (len(sides[0]), len(sides[1]))


def compare_maxima(
    base: Sequence[tuple[int, float]], new: Sequence[tuple[int, float]]
) -> ComparedMaxima:
    """Compare the maxima of the runs, or of the boots where both sides have several.

    :param base: boot and maximum of each run; of runs with about equally many samples
    """
    replication = _replication([[boot for boot, _ in side] for side in (base, new)])
    values = [_maxima(side, replication) for side in (base, new)]
    n_base, n_new = map(len, values)
    result = ComparedMaxima(n_base=n_base, n_new=n_new, replication=replication)
    if min(*values[0], *values[1]) <= 0.0:
        return result
    logs = [np.log(side)[None, :] for side in values]
    unknown = [np.full_like(side, np.nan) for side in logs]
    ranks = rank(
        Block(
            rows=np.zeros(1, dtype=np.intp),
            base=logs[0],
            new=logs[1],
            order_base=unknown[0],
            order_new=unknown[1],
            floors=np.zeros(1),
            is_paired=False,
        ),
        is_maximum=True,
    )
    if ranks is None:
        return result
    return ComparedMaxima(
        n_base=n_base,
        n_new=n_new,
        replication=replication,
        ratio=exp(ranks.shift[0]),
        ci_low=exp(ranks.low[0]),
        ci_high=exp(ranks.high[0]),
        p=float(ranks.p[0]),
    )


def correct(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values that are corrected for multiple testing; None stays None."""
    p = np.array([np.nan if value is None else value for value in p_values], dtype=np.float64)
    corrected = false_discovery(p, np.zeros(len(p), dtype=np.intp))
    return [None if np.isnan(q) else float(q) for q in corrected]


def have_equal_samples(base: float, new: float) -> bool:
    """Return whether maxima of so many samples can be compared.

    >>> have_equal_samples(60_000, 60_300), have_equal_samples(60_000, 30_000)
    (True, False)
    """
    return max(base, new) <= LARGEST_SAMPLES_RATIO * min(base, new)


def _replication(boots: Sequence[Sequence[int]]) -> Replication:
    return "boots" if all(len(set(side)) >= FEWEST_BOOTS for side in boots) else "runs"


def _units(runs: Sequence[Counted], replication: Replication) -> list[Counted]:
    if replication == "runs":
        return list(runs)
    boots: dict[int, list[Counted]] = {}
    for run in runs:
        boots.setdefault(run.boot, []).append(run)
    return [
        Counted(
            boot=boot,
            samples=sum(run.samples for run in of_boot),
            above=tuple(map(sum, zip(*(run.above for run in of_boot), strict=True))),
        )
        for boot, of_boot in boots.items()
    ]


def _maxima(runs: Sequence[tuple[int, float]], replication: Replication) -> list[float]:
    if replication == "runs":
        return [value for _, value in runs]
    boots: dict[int, float] = {}
    for boot, value in runs:
        boots[boot] = max(value, boots.get(boot, 0.0))
    return list(boots.values())
