# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare rare long latencies: how many samples exceed a threshold, and the maxima of runs.

Counts above thresholds are rare events in many samples, so they are compared as counts
(:mod:`schedperf.stats._counts`): Poisson, with the variance between runs where it is larger. Runs
of one boot are not independent, so where both sides have several boots, the counts of a boot are
added.

A maximum grows with the number of samples, so only maxima of runs of equally many samples may be
compared.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from schedperf.model.comparison import Replication
from schedperf.stats._correction import false_discovery
from schedperf.stats._counts import ComparedCounts, compare_counts
from schedperf.stats._rows import FEWEST_BOOTS

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
