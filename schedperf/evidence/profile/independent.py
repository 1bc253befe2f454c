"""What is independent in a comparison: runs, or boots where a side has several.

Runs of one boot share where the kernel and its data are in memory, so that several boots differ
by more than their runs do; runs of one boot are then averaged.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schedperf.evidence.profile.record import Independent

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
