# SPDX-License-Identifier: GPL-2.0-or-later
"""What is independent in a comparison: runs, or boots where a side has several.

Runs of one boot share where the kernel and its data are in memory, so that several boots differ
by more than their runs do; runs of one boot are then averaged. And where all runs of one side were
made before the other's, a drift of the machine looks like a change.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedperf.evidence.profile.record import Independent
from schedperf.model.run import Captured
from schedperf.stats.verdicts import FEWEST_IN_BLOCKS
from schedperf_collectors.contract import run_folder

if TYPE_CHECKING:
    from schedperf.runs.timeline import Moment

ONE_AFTER_THE_OTHER = (
    "base and new were recorded one after the other: drift confounds the comparison; "
    "interleave them (schedperf ab)"
)
Floats = NDArray[np.float64]

# With two boots of a side, boots are what is independent.
FEWEST_BOOTS = 2


def independent_of(boots: Sequence[Sequence[int]]) -> Independent:
    """Return what is independent.

    :param boots: for each side the boot of each of its runs
    """
    return "boots" if max(len(set(side)) for side in boots) >= FEWEST_BOOTS else "runs"


def counts_of(boots: Sequence[Sequence[int]], independent: Independent) -> tuple[int, ...]:
    """Return how many independent ones each side has; ``boots`` as of :func:`independent_of`."""
    is_runs = independent == "runs"
    return tuple(len(side if is_runs else set(side)) for side in boots)


def average_runs(values: Floats, boots: Sequence[int], independent: Independent) -> Floats:
    """Return one row for each of what is independent, shape (independent, columns).

    :param values: of one side, shape (runs, columns); NaN is not known
    :param boots: of each of these runs
    """
    if independent == "runs":
        return values
    of_run = np.asarray(boots)
    return np.array([column_means(values[of_run == boot]) for boot in np.unique(of_run)])


def column_means(values: Floats) -> Floats:
    """Return the mean of what is known of each column; NaN where nothing is."""
    known = np.count_nonzero(~np.isnan(values), axis=0)
    return np.asarray(np.nansum(values, axis=0) / np.where(known > 0, known, np.nan))


def may_be_drift(orders: Sequence[Sequence[int]], boots: Sequence[Sequence[int]]) -> bool:
    """Say whether a drift of the machine would look like a change, as verdicts decide it.

    It would where the sides took no turns and have too few runs to tell it from a change.

    :param orders: of each side the places in time of its runs, among all runs of both sides
    :param boots: of each side the boot of each of its runs
    """
    base, new = orders
    is_blocked = max(base) < min(new) or max(new) < min(base)
    return is_blocked and min(counts_of(boots, independent_of(boots))) < FEWEST_IN_BLOCKS


def took_turns(
    moments: Mapping[tuple[str, str], "Moment"], *sides: Sequence[Captured[object]]
) -> bool:
    """Say whether runs of base and new were made so that a drift does not look like a change.

    :param moments: of all runs of both sides, by side and folder
    """
    orders = [
        [moments[run.key.side, run_folder(run.key.boot, run.key.run)].order for run in runs]
        for runs in sides
    ]
    return not may_be_drift(orders, [[run.key.boot for run in runs] for runs in sides])
