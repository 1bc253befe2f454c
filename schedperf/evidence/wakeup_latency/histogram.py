# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the histograms of waits that the collector counts, with bins of equal relative width.

Bins are 4 ns wide up to 64 ns; then each power of two has 16 of them, so that a percentile is known
within 1/16 of its value::

    >>> [edges(number) for number in (0, 15, 16, 17, 32)]
    [(0, 4), (60, 64), (64, 68), (68, 72), (128, 136)]
    >>> histogram = Histogram.of([{16: 90}, {32: 10}], above=0, max_ns=130)
    >>> histogram.quantile(0.5), histogram.quantile(0.9), histogram.quantile(0.999)
    (66.22222222222223, 68.0, None)
"""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from msgspec import Struct

# The same numbers as in the collector and its BPF program.
UNIT_NS, STEPS, BINS = 4, 16, 512
# Fewest waits above a percentile, with a tolerance for the float error of counts such as 100000 *
# (1 - 0.999).
FEWEST_BEYOND = 1.0
ROUNDING = 1e-9

Counts = npt.NDArray[np.int64]


def bin_of(ns: int) -> int:
    """Return the number of the bin of a wait in ns; the last bin also has all longer waits."""
    units = max(0, ns) // UNIT_NS
    power = max(0, units.bit_length() - STEPS.bit_length())
    return min(power * STEPS + (units >> power), BINS - 1)


def edges(number: int) -> tuple[int, int]:
    """Return the lower and the upper edge of a bin in ns.

    The last bin also has all longer waits, so its waits can exceed its upper edge.
    """
    power = max(0, number // STEPS - 1)
    low = (number - power * STEPS) << power
    return low * UNIT_NS, (low + (1 << power)) * UNIT_NS


class Histogram(Struct, frozen=True):
    """Number of waits by duration.

    :param counts: shape (BINS,)
    :param above: waits that are only known to exceed all recorded bins
    :param max_ns: the longest wait
    """

    counts: Counts
    above: int
    max_ns: int

    @classmethod
    def of(cls, parts: Iterable[Mapping[int, int]], *, above: int, max_ns: int) -> "Histogram":
        """Return the sum of counts by bin, e.g. of all CPUs."""
        counts = np.zeros(BINS, dtype=np.int64)
        for part in parts:
            for number, count in part.items():
                counts[number] += count
        return cls(counts, above, max_ns)

    @property
    def total(self) -> int:
        """Number of waits."""
        return int(self.counts.sum()) + self.above

    def quantile(self, part: float) -> float | None:
        """Return a percentile in ns, interpolated within its bin.

        None if too few waits are longer, or if it is above all recorded bins.

        :param part: between 0 and 1
        """
        total = self.total
        if total * (1.0 - part) < FEWEST_BEYOND - ROUNDING:
            return None
        sums = np.cumsum(self.counts)
        rank = total * part
        if rank > sums[-1]:
            return None
        number = int(np.searchsorted(sums, rank - ROUNDING))
        low, high = edges(number)
        inside = (rank - (sums[number] - self.counts[number])) / self.counts[number]
        return float(min(low + inside * (min(high, self.max_ns) - low), self.max_ns))

    def shares_below(self, numbers: Iterable[int]) -> list[float]:
        """Return the share (0 to 1) of the waits that are shorter than the lower edge of each bin.

        :param numbers: numbers of the bins
        :raises ZeroDivisionError: there are no waits
        """
        sums = np.concatenate(([0], np.cumsum(self.counts)))
        total = self.total
        return [float(sums[number]) / total for number in numbers]
