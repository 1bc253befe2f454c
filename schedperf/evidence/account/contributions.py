# SPDX-License-Identifier: GPL-2.0-or-later
"""Compute what the parts of a time contribute to its change."""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import TypeVar

import numpy as np

from schedperf.evidence.account.record import Contributed
from schedperf.model.counted import RateRow
from schedperf.model.frame import Floats
from schedperf.model.rows import Replication
from schedperf.model.run import Captured
from schedperf.stats.decomposition import decompose
from schedperf.stats.one_side import compared_runs, gather_units

# Thread-times of a run or an operation beyond these are 0 or damaged, and their change may be too
# large for a float.
LEAST_S, MOST_S = 1e-12, 1e12

Content = TypeVar("Content")


def contributions(
    row: RateRow,
    runs: Sequence[Sequence[Captured[Content]]],
    times_of: Callable[[Captured[Content]], Sequence[float]],
) -> list[Contributed] | None:
    """Return what each part contributes to the change of their sum, then that of all of them.

    :param row: any row of the same runs
    :param runs: the runs of base, and those of the new side
    :param times_of: returns the time of each part of a run in s, e.g. per operation
    :return: None if the sum of base is 0, or if the sum of a side is too large
    """
    base, new = (
        _amounts(side, times_of, row.replication)
        for side in _compared(runs[0], runs[1], row.replication)
    )
    whole_base, whole_new = (float(side.sum(axis=1).mean()) for side in (base, new))
    if whole_base < LEAST_S or max(whole_base, whole_new) > MOST_S:
        return None
    return [
        Contributed(
            base=float(mean_base),
            new=float(mean_new),
            contribution=change.value,
            ci_low=change.ci_low,
            ci_high=change.ci_high,
        )
        for mean_base, mean_new, change in zip(
            [*base.mean(axis=0), whole_base],
            [*new.mean(axis=0), whole_new],
            decompose(base, new, is_paired=row.replication == "rounds"),
            strict=True,
        )
    ]


def _compared(
    base: Sequence[Captured[Content]], new: Sequence[Captured[Content]], replication: Replication
) -> Iterator[list[Captured[Content]]]:
    """Yield the runs of both sides that are compared; pairs are in the same order."""
    keys = compared_runs([run.key for run in base], [run.key for run in new], replication)
    for side, kept in zip((base, new), keys, strict=True):
        chosen = set(kept)
        runs = [run for run in side if run.key in chosen]
        yield sorted(runs, key=lambda run: run.key.round or 0)


def _amounts(
    runs: Sequence[Captured[Content]],
    times_of: Callable[[Captured[Content]], Sequence[float]],
    replication: Replication,
) -> Floats:
    """Return the time of each part in s, shape (units, parts)."""
    keys = [run.key for run in runs]
    times = [times_of(run) for run in runs]
    columns = [
        [fmean(unit) for unit in gather_units(values, keys, replication)]
        for values in zip(*times, strict=True)
    ]
    return np.array(columns, dtype=np.float64).T
