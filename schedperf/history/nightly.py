# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch all series of a store: new steps become decisions, and requests to retest them.

The steps follow from the nights of the store alone, so that a night that was added late, or a
database that was made again, gives the same ones. A step that the store knows is not decided again.
"""

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from sqlalchemy import select

from schedperf.history.questions.chains import read_chains
from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.records import Night, Series
from schedperf.history.questions.records import Step as StoredStep
from schedperf.history.questions.watched import better_of, read_services, to_watched
from schedperf.history.store.decisions import Requested, StepChanged
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.tables import REQUEST
from schedperf.history.store.writer import writing
from schedperf.history.watch.groups import group_steps
from schedperf.history.watch.nights import watch_series
from schedperf.history.watch.steps import Step, StepKey, form_steps
from schedperf.model.rows import digest_of

# Boots per kernel after which a retest ends at the latest.
_MOST_BOOTS = 16
_REQUEST_DIGITS = 12

Direction = Literal["worse", "better", "higher", "lower"]


class Suspected(Struct, frozen=True, kw_only=True):
    """A step that was found, and its series."""

    series: Series
    step: StepChanged


class Together(Struct, frozen=True, kw_only=True):
    """Steps of one machine class and tree that are likely to have one cause."""

    suspected: tuple[Suspected, ...]


def watch_store(directory: Directory, say: Say) -> tuple[Together, ...]:
    """Watch all series; store the steps that are new, and request a retest of each.

    :return: the new steps, those with one cause together
    :raises InputError: the store cannot be read or written
    """
    # Another process must not find the same steps between reading and writing.
    with writing(directory, say) as writer, open_history(directory.folder) as history:
        found = _find_new(history)
        new = [suspected for each in found for suspected in each.suspected]
        writer.commit([(each.step, None) for each in new])
        # Also those that a kill left without a request.
        writer.commit([(each, None) for each in _missing_requests(history)])
    return found


def _find_new(history: History) -> tuple[Together, ...]:
    nights, services = history.all_nights(), read_services(history)
    chains = read_chains(history)
    known: dict[str, list[StoredStep]] = {}
    for stored in history.steps():
        known.setdefault(stored.series, []).append(stored)
    new: list[Step] = []
    by_step: dict[StepKey, Suspected] = {}
    for series in history.series():
        of_series = nights.get(series.key, ())
        watched = to_watched(
            series,
            of_series,
            services.get(series.machine_class, ()),
            chains.get(series.key, ()),
        )
        for step in form_steps(watch_series(watched).alarms):
            if not any(_is_same(step, each, series) for each in known.get(series.key, ())):
                new.append(step)
                by_step[step.key] = Suspected(series=series, step=_decide(series, step, of_series))
    return tuple(
        Together(suspected=tuple(by_step[step.key] for step in group.steps))
        for group in group_steps(new)
    )


def _is_same(step: Step, stored: StoredStep, series: Series) -> bool:
    """Return whether the store has a step, whose place may have been another one."""
    rises = stored.direction == _direction(series, rises=True)
    return step.concerns(StepKey(series=step.key.series, place=stored.position, rises=rises))


def _decide(series: Series, step: Step, nights: Sequence[Night]) -> StepChanged:
    alarm = step.alarm
    names = {night.position: night.night for night in nights}

    def fraction(shift: float | None) -> float | None:
        return math.expm1(shift) if alarm.is_log and shift is not None else None

    return StepChanged(
        step=step.key.name,
        series=series.key,
        position=alarm.place,
        night=names[alarm.place],
        direction=_direction(series, rises=alarm.rises),
        state="suspected",
        change=fraction(alarm.shift.estimate),
        ci_low=fraction(alarm.shift.low),
        ci_high=fraction(alarm.shift.high),
        reason=(
            f"lasting change, found on {names[alarm.found]}; began from {names[alarm.earliest]} "
            f"to {names[alarm.latest]} (95%)"
        ),
        numbers={"nights_before": alarm.nights_before, "nights_after": alarm.nights_after},
    )


def _direction(series: Series, *, rises: bool) -> Direction:
    better = better_of(series)
    if better == "unknown":
        return "higher" if rises else "lower"
    return "better" if rises == (better == "higher") else "worse"


def _missing_requests(history: History) -> list[Requested]:
    """Return requests for the suspected steps of which no retest was requested."""
    with history.database.transaction() as connection:
        query = select(REQUEST.c.step_id).where(REQUEST.c.kind == "retest")
        requested = set(connection.execute(query).scalars())
    series = {each.key: each for each in history.series()}
    steps = [each for each in history.steps() if each.state == "suspected"]
    return [
        _request(each, series[each.series], history.nights(series[each.series], each.position))
        for each in steps
        if each.id not in requested
    ]


def _request(step: StoredStep, series: Series, nights: Sequence[Night]) -> Requested:
    """Return a request to retest a step.

    :param nights: of the series, from the step on
    """
    return Requested(
        request=digest_of(["retest", step.id])[:_REQUEST_DIGITS],
        kind="retest",
        machine=series.machine_class,
        reference=nights[0].reference_revision if nights else None,
        new=(nights[0].revision if nights else "") or None,
        job=series.workload,
        step=step.id,
        boots=_MOST_BOOTS,
        why=f"suspected step of {series.name} since {step.night}",
    )
