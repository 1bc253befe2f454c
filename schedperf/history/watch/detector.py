# SPDX-License-Identifier: GPL-2.0-or-later
"""Detect that the level of a series has changed, at a stated mean time between false alarms.

The rank of each night among those before it is uniform as long as the nights are exchangeable,
whatever their distribution. Each process bets on small or on large ranks; a bet of mean 1
multiplies what it has (Volkhonskiy and others, "Inductive conformal martingales for change-point
detection", PMLR 60, 2017). Each night 1 is added before the bet, as Shiryaev and Roberts do, so
that the mean time until the mean of the processes reaches ``RUN_LENGTH`` is at least as many nights
(Shin, Ramdas & Rinaldo, "E-detectors", New England J. Stat. Data Sci. 2, 2024).
"""

import hashlib
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.history.series import SeriesKey

# Earlier nights with which a night is compared.
WINDOW = 90
# Ranks among fewer nights are not bet on.
BURN_IN = 10
# Levels of fewer nights raise no alarm.
FEWEST_NIGHTS = 30
# Mean number of nights until a false alarm: 20 years.
RUN_LENGTH = 7_300.0
# The bet e u^(e - 1) on small ranks u, one process for each e and each direction.
EXPONENTS = (0.2, 0.4, 0.6)
# Smaller ranks count as this one.
LEAST_RANK = 1e-4

# Of large values for each of ``EXPONENTS``, then of small values.
Processes = tuple[float, ...]
EMPTY: Processes = (0.0,) * (2 * len(EXPONENTS))


class Bets(Struct, frozen=True, array_like=True):
    """What was bet on a level so far.

    :param nights: of this level, those that were not bet on included
    """

    nights: int = 0
    processes: Processes = EMPTY

    @property
    def is_alarm(self) -> bool:
        """Return whether the processes have more than chance explains, after enough nights."""
        least = RUN_LENGTH * len(self.processes)
        return self.nights >= FEWEST_NIGHTS and sum(self.processes) >= least

    def emptied(self) -> "Bets":
        """Return the bets on the same level with nothing in the processes."""
        return replace(self, processes=EMPTY)


def draw_tie_breaker(key: SeriesKey, order: int) -> float:
    """Return a number from 0 to 1, below 1: random, but always the same one for a night.

    :param order: of the night
    """
    text = "\0".join((key.machine_class, key.tree, key.workload, key.point, key.metric, str(order)))
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    # A float has 53 bits.
    return (int.from_bytes(digest) >> 11) / 2**53


def smoothed_rank(earlier: Sequence[float], level: float, tie_breaker: float) -> float:
    """Return the share of nights with a larger level, equal ones counted by the tie breaker.

    The night itself is one of the equal ones, so that the result is uniform from 0 to 1.

    >>> smoothed_rank([1.0, 2.0, 2.0], 2.0, 0.5)
    0.375
    """
    larger = sum(1 for each in earlier if each > level)
    equal = 1 + earlier.count(level)
    return (larger + tie_breaker * equal) / (len(earlier) + 1)


def bet(processes: Processes, rank: float) -> Processes:
    """Return what the processes have after a night with this rank."""
    bets = (
        exponent * max(tail, LEAST_RANK) ** (exponent - 1.0)
        for tail in (rank, 1.0 - rank)
        for exponent in EXPONENTS
    )
    return tuple((1.0 + had) * factor for had, factor in zip(processes, bets, strict=True))


def bet_on(bets: Bets, earlier: Sequence[float], level: float, tie_breaker: float) -> Bets:
    """Return the bets after one more night.

    :param earlier: levels of the nights in the window
    """
    processes = bets.processes
    if bets.nights >= BURN_IN:
        processes = bet(processes, smoothed_rank(earlier, level, tie_breaker))
    return Bets(bets.nights + 1, processes)
