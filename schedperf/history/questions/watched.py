# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the series of a history as the watch takes them."""

from collections.abc import Mapping, Sequence
from typing import get_args

from sqlalchemy import select

from schedperf.history.questions.chains import ChainNight, chain_references
from schedperf.history.questions.history import History
from schedperf.history.questions.records import Analysed, Night, Series
from schedperf.history.series import Conditions, SeriesKey, WatchedNight, WatchedSeries
from schedperf.history.store.nights import position_of
from schedperf.history.store.tables import INPUT, SERVICE
from schedperf.history.watch.state import State
from schedperf.model.rows import Better

_BETTER: Sequence[Better] = get_args(Better)


def to_watched(
    series: Series,
    nights: Sequence[Night],
    services: Sequence[int],
    chain_nights: Sequence[ChainNight],
    before: State | None = None,
) -> WatchedSeries:
    """Return a series as the watch takes it.

    Of several new kernels of one night, the last one counts.

    :param services: positions of the first nights after a service of the machine
    :param chain_nights: those of the series
    :param before: state of the watch before these nights; None if they are all
    """
    by_position = {night.position: night for night in nights}
    chains = chain_references(
        nights,
        chain_nights,
        is_log=Analysed.of(nights).is_log if before is None else before.scale.is_log,
        before=None if before is None else before.conditions.reference,
    )
    watched = []
    last = -1 if before is None or before.order is None else before.order
    for position, night in sorted(by_position.items()):
        watched.append(
            WatchedNight(
                order=position,
                value=night.new,
                reference=night.reference,
                revision=night.revision or None,
                conditions=Conditions(
                    environment=night.environment,
                    parser=night.parser,
                    workload=night.program,
                    reference=night.reference_revision,
                ),
                is_serviced=any(last < each <= position for each in services),
                chain=chains.get(position),
            )
        )
        last = position
    return WatchedSeries(
        key=key_of(series),
        unit=series.unit,
        better=better_of(series),
        nights=tuple(watched),
    )


def key_of(series: Series) -> SeriesKey:
    """Return the identity of a series for the watch."""
    return SeriesKey(
        machine_class=series.machine_class,
        tree=series.tree,
        workload=series.workload,
        point=series.point,
        metric=f"{series.metric} {series.unit}",
    )


def better_of(series: Series) -> Better:
    """Return which direction is an improvement."""
    return next((each for each in _BETTER if each == series.better), "unknown")


def read_services(history: History) -> Mapping[str, list[int]]:
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
