"""Moves over the time of a run, so that runs of different lengths can be laid over each other."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# Of a run's duration each; a line of this many characters fits beside a caption.
TIME_BINS = 20


def rates_over_time(
    counts: Sequence[int], step_s: float, seconds: float, bins: int = TIME_BINS
) -> npt.NDArray[np.float64]:
    """Return the rate in equal parts of a run: shape (bins,), 1/s.

    Events of a step are taken to be spread evenly over it; the last step ends with the run.

    :param counts: shape (steps,), from the beginning
    :param step_s: length of a step
    :param seconds: length of the run
    """
    if not counts:
        return np.zeros(bins)
    ends = np.minimum(step_s * np.arange(len(counts) + 1), seconds)
    ends[-1] = seconds
    total = np.concatenate(([0.0], np.cumsum(np.asarray(counts, dtype=np.float64))))
    edges = np.linspace(0.0, seconds, bins + 1)
    rates: npt.NDArray[np.float64] = np.diff(np.interp(edges, ends, total)) / (seconds / bins)
    return rates
