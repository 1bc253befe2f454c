# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare rare long latencies: how many samples exceed a threshold, and the maxima of runs.

Counts above thresholds are rare events in many samples, so they are compared as counts
(:mod:`schedperf.stats._counts`): Poisson, with the variance between runs if it is larger. Runs of
one boot are not independent, so if both sides have several boots, the counts of a boot are added.

A maximum grows with the number of samples, so maxima are compared only between runs with the same
number of samples.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from schedperf.model.rows import Replication
from schedperf.stats._correction import false_discovery
from schedperf.stats._counts import ComparedCounts, compare_counts
from schedperf.stats._rows import FEWEST_BOOTS

# A maximum of n samples of exponential tails grows with log n: 10% more samples raise it by 0.1
# times the scale of the tail.
LARGEST_SAMPLES_RATIO = 1.1


class Counted(Struct, frozen=True, kw_only=True):
    """The counts of one run.

    :param samples: number of all samples
    :param above: number of samples above each threshold
    """

    boot: int
    samples: int
    above: tuple[int, ...]


def compare_exceedances(
    base: Sequence[Counted], new: Sequence[Counted]
) -> tuple[ComparedCounts, Replication, tuple[int, int]]:
    """Compare the shares of samples above each threshold.

    :param base: runs, all with the same thresholds
    :param new: runs with these thresholds, too
    :return: the comparison, one line per threshold; the unit of replication; and the sample sizes
        in this unit, base first
    :raises ValueError: a side has no runs, or a run or boot has no samples
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


def correct(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for multiple testing, all as one family; None stays None."""
    p = np.array([np.nan if value is None else value for value in p_values], dtype=np.float64)
    corrected = false_discovery(p, np.zeros(len(p), dtype=np.intp))
    return [None if np.isnan(q) else float(q) for q in corrected]


def have_equal_samples(base: float, new: float) -> bool:
    """Return whether numbers of samples differ by at most 10%, so that maxima can be compared.

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
