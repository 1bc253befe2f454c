# SPDX-License-Identifier: GPL-2.0-or-later
"""Count regressions and improvements: a process that finds one of them only reports noise.

Steps that have one place and one cause count once, refuted ones not at all. Nights that compare a
kernel with itself (A/A) show whether the process is biased: then they, too, differ in one
direction.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

from schedperf.history.questions.causes import find_causes
from schedperf.history.questions.history import History
from schedperf.history.questions.records import Night, Series

MOST = 50
LARGEST_P = 0.01
# So many A/A nights would show a process that always differs in one direction: p = 0.008.
FEWEST_AA = 8
# Earlier A/A nights say nothing about the process of today.
_AA_DAYS = 90


class Balance(Struct, frozen=True, kw_only=True):
    """The directions of what was found, and of A/A nights.

    :param worse: causes of regressions among the last 50
    :param better: causes of improvements among them
    :param p: of a two-sided sign test of both
    :param aa_worse: A/A nights of a machine in which most results of the new side are worse
    :param aa_better: those in which they are better
    :param aa_p: of a two-sided sign test of both
    """

    worse: int
    better: int
    p: float
    aa_worse: int
    aa_better: int
    aa_p: float

    @property
    def is_cleared(self) -> bool:
        """Return whether enough A/A nights show no direction."""
        return self.aa_worse + self.aa_better >= FEWEST_AA and self.aa_p >= LARGEST_P

    @property
    def is_suspicious(self) -> bool:
        """Return whether chance does not explain the directions, and A/A nights do not clear it."""
        return self.p < LARGEST_P and not self.is_cleared


def read_balance(history: History) -> Balance:
    """Return the balance of a history.

    :raises InputError: the database cannot be read
    """
    found = [cause.direction for cause in find_causes(history)]
    directions = [each == "worse" for each in found if each in ("worse", "better")]
    return balance_of(directions, _aa_directions(history))


def balance_of(directions: Sequence[bool], aa: Sequence[bool] = ()) -> Balance:
    """Return the balance of directions; True for worse.

    :param directions: of causes, oldest first
    :param aa: of A/A nights
    """
    last = directions[-MOST:]
    return Balance(
        worse=sum(last),
        better=len(last) - sum(last),
        p=sign_test(sum(last), len(last)),
        aa_worse=sum(aa),
        aa_better=len(aa) - sum(aa),
        aa_p=sign_test(sum(aa), len(aa)),
    )


def sign_test(worse: int, total: int) -> float:
    """Return the two-sided p of an exact sign test of equally likely directions.

    :param worse: number of regressions
    :param total: number of changes
    """
    fewer = min(worse, total - worse)
    tail = sum(math.comb(total, number) for number in range(fewer + 1)) / 2.0**total
    return min(1.0, 2.0 * tail)


def _aa_directions(history: History) -> list[bool]:
    """Return the direction of each A/A night of a machine in the last 90 days: True for worse.

    Results of one night depend on each other, so that only their median counts.
    """
    nights = history.all_nights()
    last = max((night.day or 0 for each in nights.values() for night in each), default=0)
    changes: dict[tuple[str, str], list[float]] = {}
    for series in history.series():
        for night in nights.get(series.key, ()):
            badness = _badness(series, night)
            if badness is not None and (night.day or 0) > last - _AA_DAYS:
                changes.setdefault((series.machine_class, night.night), []).append(badness)
    return _directions(map(median, changes.values()))


def _directions(changes: Iterable[float]) -> list[bool]:
    return [change > 0.0 for change in changes if change]


def _badness(series: Series, night: Night) -> float | None:
    """Return how much worse new is in an A/A night, as a logarithm; None for other nights."""
    is_aa = bool(night.revision) and night.revision == night.reference_revision
    if not is_aa or night.scale != "log" or night.new is None or night.reference is None:
        return None
    change = math.log(night.new / night.reference)
    return {"lower": change, "higher": -change}.get(series.better)
