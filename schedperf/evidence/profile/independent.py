# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the unit of replication: runs, or boots if a side has several.

The runs of one boot share the memory layout of the kernel, so boots vary more than runs of one
boot; if a side has several boots, the runs of each boot are averaged. If all runs of one side were
made before those of the other side, drift confounds the comparison.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedperf.evidence.profile.record import Independent
from schedperf.model.run import Captured
from schedperf_collectors.contract import run_folder

if TYPE_CHECKING:
    from schedperf.runs.timeline import Moment

ONE_AFTER_THE_OTHER = (
    "base and new were recorded one after the other, so drift confounds the comparison; "
    "interleave the sides (with `schedperf ab` for settings, with `schedperf record --append` "
    "after each reboot for kernels)"
)
Floats = NDArray[np.float64]

# From two boots of a side on, boots are the unit of replication.
FEWEST_BOOTS = 2


def independent_of(boots: Sequence[Sequence[int]]) -> Independent:
    """Return the unit of replication.

    :param boots: for each side the boot of each of its runs
    """
    return "boots" if max(len(set(side)) for side in boots) >= FEWEST_BOOTS else "runs"


def counts_of(boots: Sequence[Sequence[int]], independent: Independent) -> tuple[int, ...]:
    """Return the number of units of replication per side; ``boots``: see :func:`independent_of`."""
    is_runs = independent == "runs"
    return tuple(len(side if is_runs else set(side)) for side in boots)


def average_runs(values: Floats, boots: Sequence[int], independent: Independent) -> Floats:
    """Return one row per unit of replication, shape (independent, columns).

    :param values: of one side, shape (runs, columns); NaN if unknown
    :param boots: of each of these runs
    """
    if independent == "runs":
        return values
    of_run = np.asarray(boots)
    return np.array([column_means(values[of_run == boot]) for boot in np.unique(of_run)])


def column_means(values: Floats) -> Floats:
    """Return the mean of the known values of each column; NaN if there are none."""
    counts = np.count_nonzero(~np.isnan(values), axis=0)
    return np.asarray(np.nansum(values, axis=0) / np.where(counts > 0, counts, np.nan))


def may_be_drift(orders: Sequence[Sequence[int]], boots: Sequence[Sequence[int]]) -> bool:
    """Return whether drift may confound the comparison, by the rule of verdicts.

    It may if the sides are not interleaved and have few runs.

    :param orders: of each side the places in time of its runs, among all runs of both sides
    :param boots: of each side the boot of each of its runs
    """
    # Imported here so that one side alone is shown without SciPy.
    from schedperf.stats.verdicts import FEWEST_IN_BLOCKS  # noqa: PLC0415

    base, new = orders
    is_blocked = max(base) < min(new) or max(new) < min(base)
    return is_blocked and min(counts_of(boots, independent_of(boots))) < FEWEST_IN_BLOCKS


def took_turns(
    moments: Mapping[tuple[str, str], "Moment"], *sides: Sequence[Captured[object]]
) -> bool:
    """Return whether the order of the runs rules out that drift confounds the comparison.

    :param moments: of all runs of both sides, by side and directory
    """
    places = [
        [moments[run.key.side, run_folder(run.key.boot, run.key.run)].order for run in runs]
        for runs in sides
    ]
    orders = [[place for place in side if place is not None] for side in places]
    # Nothing is said of drift where the order is not recorded, as in the results.
    if [*map(len, orders)] != [*map(len, places)]:
        return True
    return not may_be_drift(orders, [[run.key.boot for run in runs] for runs in sides])
