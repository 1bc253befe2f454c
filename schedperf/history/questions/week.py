# SPDX-License-Identifier: GPL-2.0-or-later
"""Collect what a week of a history has shown, for its digest: Monday to Sunday, as ISO 8601."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from statistics import median

from msgspec import Struct
from sqlalchemy import select

from schedperf.history.questions.balance import Balance, read_balance
from schedperf.history.questions.causes import (
    REFUTED,
    Cause,
    CausedStep,
    find_causes,
    list_suspected,
)
from schedperf.history.questions.history import History
from schedperf.history.questions.lost import Lost, read_lost
from schedperf.history.questions.noise import noise_of
from schedperf.history.questions.records import Night
from schedperf.history.store.tables import NIGHT_RUN
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut

_DAYS = 7
_NAME = re.compile(r"([0-9]{4})-W([0-9]{1,2})")
_DATE = 10
_LONGEST = 40


class Dates(Struct, frozen=True, kw_only=True):
    """The seven days of a week.

    :param first: its Monday
    :param last: its Sunday
    """

    first: date
    last: date

    @property
    def name(self) -> str:
        """Return the week as ISO 8601 writes it: ``2026-W48``."""
        year, week, _ = self.first.isocalendar()
        return f"{year}-W{week:02}"

    def has(self, night: str) -> bool:
        """Return whether a night, or a time, is in the week."""
        return f"{self.first}" <= night[:_DATE] <= f"{self.last}"


class NightOutcome(Struct, frozen=True, kw_only=True):
    """A night of ``schedperf night`` without a result."""

    machine: str
    job: str
    night: str
    outcome: str


class Week(Struct, frozen=True, kw_only=True):
    """What a week has shown.

    :param ended: nights of ``schedperf night`` in the week; 0 if other programs record
    :param failed: those of them without a result
    :param days: dates of the week with a result
    :param series: series with a result in the week
    :param machines: machine classes of these series
    :param sensitivity: median of the smallest step that one night shows, over these series; None
        if unknown
    :param new: causes that were found in the week
    :param open: causes that were found before, and about which something is left to be done
    :param suspected: steps that were found in the week, also those that were refuted since
    """

    dates: Dates
    ended: int
    failed: tuple[NightOutcome, ...]
    days: int
    series: int
    machines: int
    sensitivity: float | None
    new: tuple[Cause, ...]
    open: tuple[Cause, ...]
    suspected: tuple[CausedStep, ...]
    balance: Balance
    lost: Lost

    @property
    def regressions(self) -> tuple[Cause, ...]:
        """Return the new causes of regressions."""
        return tuple(cause for cause in self.new if cause.direction == "worse")

    @property
    def reproduced(self) -> int:
        """Return the number of the week's steps that a retest reproduced."""
        return sum(each.state not in ("suspected", *REFUTED) for each in self.suspected)

    @property
    def refuted(self) -> int:
        """Return the number of the week's steps that a retest did not reproduce, or that are
        invalid.
        """
        return sum(each.state in REFUTED for each in self.suspected)


def parse_week(text: str | None, today: date) -> Dates:
    """Return the days of a week.

    :param text: ``2026-W48``; None for the week of yesterday
    :raises InputError: it is not a week
    """
    if text is None:
        year, week, _ = (today - timedelta(days=1)).isocalendar()
    else:
        match = _NAME.fullmatch(text)
        year, week = (int(match[1]), int(match[2])) if match else (0, 0)
    try:
        first = date.fromisocalendar(year, week, 1)
    except ValueError:
        shown = clean_line(cut(text or "", _LONGEST))
        raise InputError(f"--week: invalid {shown!r} (expected e.g. 2026-W48)") from None
    return Dates(first=first, last=first + timedelta(days=_DAYS - 1))


def read_week(history: History, dates: Dates, today: date) -> Week:
    """Return what a week has shown.

    :raises InputError: the database cannot be read
    """
    nights = history.all_nights()
    measured = {
        key: of_week
        for key, each in nights.items()
        if (of_week := [one for one in each if one.new is not None and dates.has(one.night)])
    }
    series = [each for each in history.series() if each.key in measured]
    outcomes = _read_outcomes(history, dates)
    causes = find_causes(history)
    return Week(
        dates=dates,
        ended=len(outcomes),
        failed=tuple(outcome for outcome, has_failed in outcomes if has_failed),
        days=len({night.night[:_DATE] for each in measured.values() for night in each}),
        series=len(series),
        machines=len({each.machine_class for each in series}),
        sensitivity=_sensitivity(history, nights, measured),
        new=tuple(each for each in causes if dates.has(each.leader.suspicion.found)),
        open=tuple(
            each
            for each in causes
            if each.is_open and each.leader.suspicion.found < f"{dates.first}"
        ),
        suspected=tuple(
            each for each in list_suspected(history) if dates.has(each.suspicion.found)
        ),
        balance=read_balance(history),
        lost=read_lost(history, min(today, dates.last + timedelta(days=1))),
    )


def _read_outcomes(history: History, dates: Dates) -> list[tuple[NightOutcome, bool]]:
    """Return the nights of the week, and whether each failed."""
    columns = (NIGHT_RUN.c.machine, NIGHT_RUN.c.job, NIGHT_RUN.c.night, NIGHT_RUN.c.outcome)
    query = select(*columns, NIGHT_RUN.c.failed).order_by(NIGHT_RUN.c.night, NIGHT_RUN.c.machine)
    with history.database.transaction() as connection:
        rows = connection.execute(query).all()
    return [
        (
            NightOutcome(machine=row.machine, job=row.job, night=row.night, outcome=row.outcome),
            bool(row.failed),
        )
        for row in rows
        if dates.has(row.night)
    ]


def _sensitivity(
    history: History, nights: Mapping[str, Sequence[Night]], measured: Iterable[str]
) -> float | None:
    keys = {*measured}
    noises = [noise_of(each, nights[each.key]) for each in history.series() if each.key in keys]
    smallest = [
        noise.seen_in_one_night
        for noise in noises
        if noise.is_log and noise.seen_in_one_night is not None
    ]
    return median(smallest) if smallest else None
