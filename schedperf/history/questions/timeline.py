# SPDX-License-Identifier: GPL-2.0-or-later
"""Collect what ``history show`` shows of a series."""

from msgspec import Struct
from sqlalchemy import select

from schedperf.history.periods import Change
from schedperf.history.questions.chains import read_chains
from schedperf.history.questions.change import compare_days, last_day, parse_day
from schedperf.history.questions.history import History
from schedperf.history.questions.levels import LevelChange, Levels
from schedperf.history.questions.noise import WEEK, Noise, noise_of
from schedperf.history.questions.records import Analysed, Night, Series, Step, StepChange
from schedperf.history.questions.watched import read_services, to_watched
from schedperf.history.store.nights import position_of
from schedperf.history.store.tables import NIGHT_RUN
from schedperf.history.watch.nights import watch_series

# Days in which the drift of the reference is stated.
_DRIFT_DAYS = 30


class FailedNight(Struct, frozen=True, kw_only=True):
    """A night of ``schedperf night`` without a result.

    :param position: its order among the nights
    :param outcome: how it ended, one line
    """

    job: str
    night: str
    position: int
    outcome: str


class Timeline(Struct, frozen=True, kw_only=True):
    """A series over time.

    :param noise: of the last 90 nights of the whole series
    :param nights: from the chosen date
    :param analysed: their values
    :param steps: steps that the watch has found; () without the watch
    :param decisions: all changes of their states
    :param changes: what has changed in the conditions of the series, oldest first; a baseline
        period begins where they are breaks
    :param failed: nights of the machine without a result, by all jobs
    :param drift: change of the reference kernel itself in the last 30 days; None without one
    """

    series: Series
    noise: Noise
    nights: tuple[Night, ...]
    analysed: Analysed
    steps: tuple[Step, ...]
    decisions: tuple[StepChange, ...]
    changes: tuple[Change, ...]
    failed: tuple[FailedNight, ...]
    drift: LevelChange | None


def timeline_of(history: History, series: Series, since: str | None = None) -> Timeline:
    """Return a series over time.

    :param since: first date; None for all nights
    :raises InputError: the date is invalid, or no night is as late
    """
    nights = history.nights(series)
    last = last_day([nights])
    shown = nights
    if since is not None:
        day = parse_day(since, last)
        shown = tuple(each for each in nights if each.day is not None and each.day >= day)
    # Whether it is paired, and its scale, are properties of the whole series.
    whole = Analysed.of(nights)
    steps = history.steps(series)
    services = read_services(history).get(series.machine_class, ())
    chains = read_chains(history).get(series.key, ())
    drift = None
    if whole.is_paired and last is not None:
        references = Levels(series, nights, chains, of_reference=True)
        drift = compare_days(references, last - _DRIFT_DAYS, last, WEEK)
    return Timeline(
        series=series,
        noise=noise_of(series, nights),
        nights=shown,
        analysed=Analysed(
            is_paired=whole.is_paired,
            is_log=whole.is_log,
            values=whole.values[len(nights) - len(shown) :],
        ),
        steps=steps,
        decisions=tuple(change for step in steps for change in history.step_changes(step.id)),
        changes=watch_series(to_watched(series, nights, services, chains)).changes,
        failed=_read_failed(history, series.machine_class),
        drift=drift,
    )


def _read_failed(history: History, machine_class: str) -> tuple[FailedNight, ...]:
    query = select(NIGHT_RUN).where(NIGHT_RUN.c.failed).order_by(NIGHT_RUN.c.night, NIGHT_RUN.c.job)
    with history.database.transaction() as connection:
        rows = connection.execute(query).all()
    return tuple(
        FailedNight(
            job=row.job, night=row.night, position=position_of(row.night), outcome=row.outcome
        )
        for row in rows
        if machine_class == row.machine or machine_class.startswith(f"{row.machine}-")
    )
