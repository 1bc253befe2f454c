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
    "base and new were recorded one after the other, so a change may be drift; "
    "interleave the sides (with `schedperf ab` for settings, with `schedperf record --append` "
    "after each reboot for kernels)"
)
Floats = NDArray[np.float64]

# Fewest boots of a side for which boots are the unit of replication.
FEWEST_BOOTS = 2


def independent_of(boots: Sequence[Sequence[int]]) -> Independent:
    """Return the unit of replication: boots if a side has ``FEWEST_BOOTS`` or more, else runs.

    :param boots: for each side, the boot of each run
    """
    return "boots" if max(len(set(side)) for side in boots) >= FEWEST_BOOTS else "runs"


def counts_of(boots: Sequence[Sequence[int]], independent: Independent) -> tuple[int, ...]:
    """Return the number of units of replication per side; ``boots``: see :func:`independent_of`."""
    is_runs = independent == "runs"
    return tuple(len(side if is_runs else set(side)) for side in boots)


def average_runs(values: Floats, boots: Sequence[int], independent: Independent) -> Floats:
    """Return one row per unit of replication, shape (independent, columns).

    :param values: values of one side, shape (runs, columns); NaN if unknown
    :param boots: boot of each of these runs
    """
    if independent == "runs":
        return values
    of_run = np.asarray(boots)
    return np.array([column_means(values[of_run == boot]) for boot in np.unique(of_run)])


def column_means(values: Floats) -> Floats:
    """Return the mean of the known values of each column; NaN if there are none.

    :param values: shape (rows, columns); NaN if unknown
    :return: shape (columns,)
    """
    counts = np.count_nonzero(~np.isnan(values), axis=0)
    return np.asarray(np.nansum(values, axis=0) / np.where(counts > 0, counts, np.nan))


def may_be_drift(orders: Sequence[Sequence[int]], boots: Sequence[Sequence[int]]) -> bool:
    """Return whether drift may confound the comparison, by the same rule as for verdicts.

    This is the case if one side was recorded completely before the other, and a side has fewer than
    ``FEWEST_IN_BLOCKS`` (10) units of replication.

    :param orders: for base and new, the positions in time of its runs among all runs of both sides
    :param boots: for each side, the boot of each run
    """
    # Imported here so that a single side needs no SciPy.
    from schedperf.model.verdict import FEWEST_IN_BLOCKS  # noqa: PLC0415

    base, new = orders
    is_blocked = max(base) < min(new) or max(new) < min(base)
    return is_blocked and min(counts_of(boots, independent_of(boots))) < FEWEST_IN_BLOCKS


def took_turns(
    moments: Mapping[tuple[str, str], "Moment"], *sides: Sequence[Captured[object]]
) -> bool:
    """Return False if drift may confound the comparison, according to :func:`may_be_drift`.

    True if the order of a run is not recorded: drift is then not considered.

    :param moments: moments of all runs of both sides, by side and directory
    :param sides: the runs of base, and the runs of new
    """
    places = [
        [moments[run.key.side, run_folder(run.key.boot, run.key.run)].order for run in runs]
        for runs in sides
    ]
    orders = [[place for place in side if place is not None] for side in places]
    # If the order is not recorded, drift is not considered, as in the results.
    if [*map(len, orders)] != [*map(len, places)]:
        return True
    return not may_be_drift(orders, [[run.key.boot for run in runs] for runs in sides])
