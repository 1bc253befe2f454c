# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch all series of a store: new steps become decisions, and requests to retest them.

The steps follow from the nights of the store alone, so that a night that was added late, or a
database that was made again, gives the same ones. A step that the store knows is not decided again.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct
from sqlalchemy import select

from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.records import Night, Series, Step
from schedperf.history.series import Conditions, SeriesKey
from schedperf.history.series import Night as WatchedNight
from schedperf.history.series import Series as WatchedSeries
from schedperf.history.store.decisions import Requested, StepChanged
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.nights import position_of
from schedperf.history.store.tables import INPUT, SERVICE
from schedperf.history.store.writer import writing
from schedperf.history.watch.nights import watch_series
from schedperf.history.watch.state import Alarm
from schedperf.history.watch.steps import StepKey
from schedperf.model.rows import Better

# Boots per kernel after which a retest ends at the latest.
_MOST_BOOTS = 16
_BETTER: Sequence[Better] = get_args(Better)

Direction = Literal["worse", "better", "higher", "lower"]


class Suspected(Struct, frozen=True, kw_only=True):
    """A step that was found, and its series."""

    series: Series
    step: StepChanged


def watch_store(directory: Directory, say: Say) -> tuple[Suspected, ...]:
    """Watch all series; store the steps that are new, and request a retest of each.

    :return: the new steps, in the order of their series and nights
    :raises InputError: the store cannot be read or written
    """
    with open_history(directory.folder) as history:
        found = find_new_steps(history)
        nights = history.all_nights()
    decisions = [(each.step, None) for each in found]
    requests = [(_request(each, nights[each.series.key]), None) for each in found]
    with writing(directory, say) as writer:
        writer.commit([*decisions, *requests])
    return found


def find_new_steps(history: History) -> tuple[Suspected, ...]:
    """Return the steps of all series that the store does not know yet.

    :raises InputError: the database cannot be read
    """
    nights, services = history.all_nights(), _read_services(history)
    known: dict[str, list[Step]] = {}
    for step in history.steps():
        known.setdefault(step.series, []).append(step)
    return tuple(
        found
        for series in history.series()
        for found in _find(
            series,
            nights.get(series.key, ()),
            services.get(series.machine_class, ()),
            known.get(series.key, ()),
        )
    )


def to_watched(series: Series, nights: Sequence[Night], services: Sequence[int]) -> WatchedSeries:
    """Return a series as the watch takes it.

    Of several new kernels of one night, the last one counts.

    :param services: positions of the first nights after a service of the machine
    """
    by_position = {night.position: night for night in nights}
    watched = []
    last = -1
    for position, night in sorted(by_position.items()):
        watched.append(
            WatchedNight(
                order=position,
                value=night.new,
                reference=night.reference,
                revision=night.revision or None,
                conditions=Conditions(
                    environment=night.environment,
                    workload=night.program,
                    reference=night.reference_revision,
                ),
                is_serviced=any(last < each <= position for each in services),
            )
        )
        last = position
    return WatchedSeries(
        key=SeriesKey(
            machine_class=series.machine_class,
            tree=series.tree,
            workload=series.workload,
            point=series.point,
            metric=f"{series.metric} {series.unit}",
        ),
        unit=series.unit,
        better=_better(series),
        nights=tuple(watched),
    )


def _find(
    series: Series, nights: Sequence[Night], services: Sequence[int], known: Sequence[Step]
) -> list[Suspected]:
    names = {night.position: night.night for night in nights}
    alarms = watch_series(to_watched(series, nights, services)).alarms
    return [
        Suspected(series=series, step=_step(series, alarm, names))
        for alarm in alarms
        if not any(_is_of(alarm, step, _direction(series, alarm)) for step in known)
    ]


def _is_of(alarm: Alarm, step: Step, direction: Direction) -> bool:
    """Return whether an alarm is of a known step, whose place may have been another one."""
    return alarm.earliest <= step.position <= alarm.latest and step.direction == direction


def _step(series: Series, alarm: Alarm, names: Mapping[int, str]) -> StepChanged:
    def fraction(shift: float | None) -> float | None:
        return math.expm1(shift) if alarm.is_log and shift is not None else None

    place = StepKey(series=alarm.key, place=alarm.place, rises=alarm.rises)
    return StepChanged(
        step=place.name,
        series=series.key,
        position=alarm.place,
        night=names[alarm.place],
        direction=_direction(series, alarm),
        state="suspected",
        change=fraction(alarm.shift.estimate),
        ci_low=fraction(alarm.shift.low),
        ci_high=fraction(alarm.shift.high),
        reason=f"lasting change, found in the night {names[alarm.found]}",
        numbers={
            "nights_before": alarm.nights_before,
            "nights_after": alarm.nights_after,
            "earliest": alarm.earliest,
            "latest": alarm.latest,
        },
    )


def _request(found: Suspected, nights: Sequence[Night]) -> Requested:
    step = found.step
    night = next(each for each in nights if each.position == step.position)
    return Requested(
        request=step.step,
        kind="retest",
        machine=found.series.machine_class,
        reference=night.reference_revision,
        new=night.revision or None,
        job=found.series.workload,
        step=step.step,
        boots=_MOST_BOOTS,
        why=f"suspected step of {found.series.name} since {step.night}",
    )


def _direction(series: Series, alarm: Alarm) -> Direction:
    better = _better(series)
    if better == "unknown":
        return "higher" if alarm.rises else "lower"
    return "better" if alarm.rises == (better == "higher") else "worse"


def _better(series: Series) -> Better:
    return next((each for each in _BETTER if each == series.better), "unknown")


def _read_services(history: History) -> Mapping[str, list[int]]:
    """Return the positions of the services of each machine class."""
    with history.database.transaction() as connection:
        services = connection.execute(select(SERVICE.c.machine, SERVICE.c.night)).all()
        machines = connection.execute(
            select(INPUT.c.machine, INPUT.c.machine_class).distinct()
        ).all()
    classes: dict[str, set[str]] = {}
    for name, machine_class in machines:
        if machine_class is not None:
            classes.setdefault(name, set()).add(machine_class)
    found: dict[str, list[int]] = {}
    for machine, night in services:
        for machine_class in {machine, *classes.get(machine, ())}:
            found.setdefault(machine_class, []).append(position_of(night))
    return found
