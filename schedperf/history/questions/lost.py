# SPDX-License-Identifier: GPL-2.0-or-later
"""Find what has no result: series, machines, and the last nights of the whole lab.

A series is lost if nights of the lab passed without a result of it; one that is measured less often
than each night is lost after as many nights as it usually takes.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from msgspec import Struct
from sqlalchemy import Connection, func, select

from schedperf.history.questions.history import History
from schedperf.history.questions.records import Series
from schedperf.history.store.tables import INPUT, NIGHT, NIGHT_RUN, SERIES

# Characters of 2026-11-30.
_DATE = 10
# A series without a result for so many days is not measured any more.
_ENDED_DAYS = 90


class LostSeries(Struct, frozen=True, kw_only=True):
    """A series without a result in the last nights of the lab.

    :param last: its last night with a result; None without one
    :param nights: nights of the lab since then
    """

    series: Series
    last: str | None
    nights: int


class LostMachine(Struct, frozen=True, kw_only=True):
    """A machine all of whose series are lost.

    :param machine: its class; its name if it never had a result
    :param last: its last night with a result; None without one
    :param nights: nights of the lab since then
    """

    machine: str
    last: str | None
    nights: int


class LastNight(Struct, frozen=True, kw_only=True):
    """The last night of the lab that has a result.

    :param night: its date; None without one
    :param days: days between it and today; None without a night
    :param is_late: whether it is older than yesterday, so that whole nights are lost
    """

    night: str | None
    days: int | None
    is_late: bool


class Lost(Struct, frozen=True, kw_only=True):
    """What has no result.

    :param series: by machine and name
    :param machines: by their names
    :param followed: number of series that are measured, with those that are lost
    """

    series: tuple[LostSeries, ...]
    machines: tuple[LostMachine, ...]
    night: LastNight
    followed: int


class _Measured(Struct, frozen=True, kw_only=True):
    """The dates of the first and the last result of a series, and the number of dates with one."""

    first: str
    last: str
    count: int


def read_lost(history: History, today: date) -> Lost:
    """Return what has no result; a night that began today may still get results.

    Series of foreign histories without dates are left out, and series without a result for 90 days.

    :raises InputError: the database cannot be read
    """
    with history.database.transaction() as connection:
        measured = _read_measured(connection)
        outcomes = connection.execute(select(NIGHT_RUN.c.machine, NIGHT_RUN.c.night)).all()
        classes = _read_classes(connection)
        dates = connection.execute(
            select(NIGHT.c.night).where(NIGHT.c.new.is_not(None)).distinct()
        ).scalars()
        known = {*_only_dates(dates), *_only_dates(row.night for row in outcomes)}
    nights = sorted(night for night in known if night < f"{today}")
    last = max((each.last for each in measured.values()), default=None)
    followed = _followed(history.series(), measured, classes, last)
    lost = [each for series in followed if (each := _find(series, measured, nights)) is not None]
    machines = [
        *_lost_machines(followed, lost),
        *_without_results({row.machine for row in outcomes}, measured, classes, history, nights),
    ]
    return Lost(
        series=tuple(lost),
        machines=tuple(sorted(machines, key=lambda each: each.machine)),
        night=_last_night(last, today),
        followed=len(followed),
    )


def _read_measured(connection: Connection) -> Mapping[str, _Measured]:
    """Return when each series with dates has results, by its key."""
    day = func.substr(NIGHT.c.night, 1, _DATE)
    # Grouping by the first column of the primary key takes half of the time that the keys take.
    of_series = (
        select(
            NIGHT.c.series_id,
            func.min(day).label("first"),
            func.max(day).label("last"),
            func.count(day.distinct()).label("dates"),
        )
        .where(NIGHT.c.new.is_not(None))
        .group_by(NIGHT.c.series_id)
        .subquery()
    )
    query = select(SERIES.c.key, of_series).join(of_series, of_series.c.series_id == SERIES.c.id)
    return {
        row.key: _Measured(first=row.first, last=row.last, count=row.dates)
        for row in connection.execute(query)
        if _day_of(row.first) is not None and _day_of(row.last) is not None
    }


def _read_classes(connection: Connection) -> Mapping[str, set[str]]:
    """Return the classes of each machine that has a name."""
    query = select(INPUT.c.machine, INPUT.c.machine_class).distinct()
    classes: dict[str, set[str]] = {}
    for name, machine_class in connection.execute(query):
        if name is not None and machine_class is not None:
            classes.setdefault(name, set()).add(machine_class)
    return classes


def _followed(
    series: Iterable[Series],
    measured: Mapping[str, _Measured],
    classes: Mapping[str, set[str]],
    last: str | None,
) -> list[Series]:
    """Return the series that are still measured: on the present class of each machine."""
    dated = [each for each in series if each.key in measured]
    newest: dict[str, str] = {}
    for each in dated:
        before = newest.get(each.machine_class, "")
        newest[each.machine_class] = max(before, measured[each.key].last)
    earlier = {
        one
        for same in classes.values()
        for one in same & newest.keys()
        if newest[one] < max(newest[other] for other in same & newest.keys())
    }
    return [
        each
        for each in dated
        if each.machine_class not in earlier and is_followed(measured[each.key].last, last)
    ]


def is_followed(result: str, night: str | None) -> bool:
    """Return whether a series with its last result on a date is still measured in a night.

    :param night: date; None if no night has a result
    """
    days = _day_of(result), _day_of(night)
    return days[0] is not None and days[1] is not None and days[1] - days[0] < _ENDED_DAYS


def _find(
    series: Series, measured: Mapping[str, _Measured], nights: Sequence[str]
) -> LostSeries | None:
    """Return a series if it is lost.

    :param nights: the dates of all nights of the lab
    """
    known = measured[series.key]
    since = len(nights) - bisect_right(nights, known.last)
    between = len(nights) - 1 - since - bisect_left(nights, known.first)
    usual = max(1, math.ceil(between / max(1, known.count - 1) - 0.5))
    if since < usual:
        return None
    return LostSeries(series=series, last=known.last, nights=since)


def _lost_machines(followed: Sequence[Series], lost: Sequence[LostSeries]) -> list[LostMachine]:
    """Return the machines all of whose series are lost."""
    without = {each.series.key for each in lost}
    alive = {each.machine_class for each in followed if each.key not in without}
    by_machine: dict[str, list[LostSeries]] = {}
    for each in lost:
        if each.series.machine_class and each.series.machine_class not in alive:
            by_machine.setdefault(each.series.machine_class, []).append(each)
    return [
        LostMachine(
            machine=name,
            last=max(each.last for each in of_machine if each.last is not None),
            nights=min(each.nights for each in of_machine),
        )
        for name, of_machine in by_machine.items()
    ]


def _without_results(
    names: set[str],
    measured: Mapping[str, _Measured],
    classes: Mapping[str, set[str]],
    history: History,
    nights: Sequence[str],
) -> list[LostMachine]:
    """Return the machines with nights of ``schedperf night`` that never had a result."""
    known = {each.machine_class for each in history.series() if each.key in measured}
    return [
        LostMachine(machine=name, last=None, nights=len(nights))
        for name in names
        if not ({name} | classes.get(name, set())) & known
        and not any(each.startswith(f"{name}-") for each in known)
    ]


def _last_night(last: str | None, today: date) -> LastNight:
    day = _day_of(last)
    if day is None:
        return LastNight(night=None, days=None, is_late=False)
    days = max(0, today.toordinal() - day)
    return LastNight(night=last, days=days, is_late=days > 1)


def _only_dates(nights: Iterable[str]) -> Iterable[str]:
    return (night[:_DATE] for night in nights if _day_of(night[:_DATE]) is not None)


def _day_of(night: str | None) -> int | None:
    """Return a date as days since the year 1; None if it is not one."""
    try:
        return None if night is None else date.fromisoformat(night[:_DATE]).toordinal()
    except ValueError:
        return None
