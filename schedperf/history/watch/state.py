# SPDX-License-Identifier: GPL-2.0-or-later
"""Define what the watch of a series keeps between nights, and what it finds."""

from msgspec import Struct

from schedperf.history.periods import Change, Difference
from schedperf.history.series import Conditions, Scale, SeriesKey, WatchedNight
from schedperf.history.watch.detector import Bets
from schedperf.stats.shift import Shift


class Point(Struct, frozen=True, array_like=True):
    """A night that has a level.

    :param level: as if the first reference of the series had been measured; without references,
        that of the value
    :param reference: level of that reference; None without references
    """

    order: int
    level: float
    reference: float | None


class Alarm(Struct, frozen=True, kw_only=True):
    """A lasting change of a series.

    :param found: order of the night that raised the alarm
    :param place: order of the first night of the new level
    :param before: order of the last night of the old level
    :param earliest: order of the first night of the 95% confidence set of ``place``
    :param latest: order of its last night
    :param rises: whether the new level is the larger one
    :param shift: of the level, with its 95% CI. The place was chosen where the change is largest,
        so that it is too large on average; only a retest measures it
    :param is_log: whether ``shift`` is a difference of natural logarithms
    :param nights_before: nights that the old level was measured in; ``nights_after`` the new one
    """

    key: SeriesKey
    found: int
    place: int
    before: int
    earliest: int
    latest: int
    rises: bool
    shift: Shift
    is_log: bool
    nights_before: int
    nights_after: int


class Undecided(Struct, frozen=True, kw_only=True):
    """A change of conditions of which it is not known yet whether both kernels moved together.

    :param points: nights after it
    """

    order: int
    differences: tuple[Difference, ...]
    points: tuple[Point, ...]


class State(Struct, frozen=True, kw_only=True):
    """What the watch of a series needs of its past.

    :param order: of the last night; None before the first one
    :param conditions: the last recorded ones
    :param chain: sum of the shifts of all chains
    :param chained: night and standard error of each chain in the window
    :param points: nights in the window, oldest first, since the last alarm or break
    :param bets: on the level, since the last alarm or break
    :param reference_bets: on the level of the reference, since it moved
    """

    key: SeriesKey
    scale: Scale
    order: int | None = None
    conditions: Conditions = Conditions()
    chain: float = 0.0
    chained: tuple[tuple[int, float], ...] = ()
    undecided: Undecided | None = None
    points: tuple[Point, ...] = ()
    bets: Bets = Bets()
    reference_bets: Bets = Bets()

    def continues_with(self, night: WatchedNight) -> bool:
        """Return whether a night can be added; otherwise the whole series must be watched again.

        It cannot if it is not later than the others, or if the scale of the series changes.
        """
        is_later = self.order is None or night.order > self.order
        return is_later and self.scale.with_night(night) == self.scale


class Update(Struct, frozen=True, kw_only=True):
    """A state, and what was found on the way to it.

    :param changes: changes of conditions that were decided, and steps of the reference alone
    """

    state: State
    alarms: tuple[Alarm, ...] = ()
    changes: tuple[Change, ...] = ()

    def then(self, following: "Update") -> "Update":
        """Return the state of a following update, with what was found in both."""
        return Update(
            state=following.state,
            alarms=self.alarms + following.alarms,
            changes=self.changes + following.changes,
        )
