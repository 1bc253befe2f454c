# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch all series of a store: new steps become decisions, and requests to retest them.

The steps follow from the nights of the store alone, so that a night that was added late, or a
database that was made again, gives the same ones. What was found up to a night is kept, so that
only later nights are read. A step that the store knows is not decided again.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from sqlalchemy import func, select

from schedperf.history.follow_up import missing_requests
from schedperf.history.questions.causes import EARLIEST, FOUND, LATEST
from schedperf.history.questions.chains import read_chains
from schedperf.history.questions.history import History, open_history
from schedperf.history.questions.records import Series
from schedperf.history.questions.records import Step as StoredStep
from schedperf.history.questions.watched import better_of, read_services, to_watched
from schedperf.history.store.decisions import Direction, StepChanged
from schedperf.history.store.directory import Directory, Say
from schedperf.history.store.tables import INPUT, SERIES
from schedperf.history.store.watched import read_watched
from schedperf.history.store.writer import writing
from schedperf.history.suspects import Suspected, find_suspects
from schedperf.history.watch.groups import group_steps
from schedperf.history.watch.nights import continue_watch, watch_series
from schedperf.history.watch.place import FEWEST_BEFORE
from schedperf.history.watch.state import Update
from schedperf.history.watch.steps import Step, StepKey, form_steps
from schedperf.model.comparison import Comparison

# States in which people have to decide, and days after which they did not.
_WAITING = ("reported", "answered")
_STALE_DAYS = 90
_DATE = 10


class Together(Struct, frozen=True, kw_only=True):
    """Steps of one machine class and tree that are likely to have one cause."""

    suspected: tuple[Suspected, ...]


class Found(Struct, frozen=True, kw_only=True):
    """What the watch found.

    :param new: new steps, those with one cause together
    :param stale: steps whose state is now "stale"
    """

    new: tuple[Together, ...]
    stale: tuple[Suspected, ...]


def watch_store(
    directory: Directory,
    say: Say,
    comparisons: Collection[Comparison] = (),
    *,
    acts_on_emulated: bool = False,
) -> Found:
    """Watch all series; store the steps that are new, and request what steps need.

    Steps that were reported become stale after 90 days without a decision.

    :param comparisons: of nights in the store; what they found in series that are too short for the
        watch is suspected, too
    :param acts_on_emulated: whether this includes results from an emulator, by their CIs
    :raises InputError: the store cannot be read or written
    """
    # Another process must not find the same steps between reading and writing.
    with writing(directory, say) as writer, open_history(directory.folder) as history:
        watched = [*_watch(history)]
        lasting = _find_new(history, watched)
        suspects = _suspect(
            history, watched, lasting, comparisons, acts_on_emulated=acts_on_emulated
        )
        found = Found(
            new=(*lasting, *suspects),
            stale=tuple(_find_stale(history)),
        )
        new = [suspected for each in found.new for suspected in each.suspected]
        writer.commit([(each.step, None) for each in (*new, *found.stale)])
        # Also those that a kill left without a request.
        writer.commit([(each, None) for each in missing_requests(history)])
        # The last, since nights that are kept as watched are not watched again.
        writer.keep_watched({each.id: each.update for each in watched})
    return found


class _Watched(NamedTuple):
    id: int
    series: Series
    update: Update


def _watch(history: History) -> Iterator[_Watched]:
    """Watch the nights since the last time; yield the series that have some."""
    services, chains = read_services(history), read_chains(history)
    by_key = {series.key: series for series in history.series()}
    with history.database.transaction() as connection:
        watched = read_watched(connection)
    for number, key, nights in history.unwatched_nights():
        series, before = by_key[key], watched.get(number)
        convert = partial(
            to_watched,
            series,
            services=services.get(series.machine_class, ()),
            chain_nights=chains.get(key, ()),
        )
        if before is None:
            update = watch_series(convert(nights))
        else:
            update = continue_watch(before, convert(nights, before=before.state)) or watch_series(
                convert(history.nights(series))
            )
        yield _Watched(number, series, update)


def _suspect(
    history: History,
    watched: Iterable[_Watched],
    lasting: Iterable[Together],
    comparisons: Collection[Comparison],
    *,
    acts_on_emulated: bool,
) -> Iterator[Together]:
    """Yield what comparisons found in series of which the watch cannot judge yet."""
    if comparisons:
        decided = {each.series.key for together in lasting for each in together.suspected}
        counted = _count_nights(history, watched)
        for suspect in find_suspects(
            history, comparisons, counted, decided, acts_on_emulated=acts_on_emulated
        ):
            yield Together(suspected=(suspect,))


def _count_nights(history: History, watched: Iterable[_Watched]) -> Mapping[str, int]:
    """Return how many nights the watch has bet on since the last break, by the series' key."""
    with history.database.transaction() as connection:
        kept = read_watched(connection)
        keys = {row.id: row.key for row in connection.execute(select(SERIES.c.id, SERIES.c.key))}
    states = {**kept, **{each.id: each.update for each in watched}}
    return {keys[number]: update.state.bets.nights for number, update in states.items()}


def _find_new(history: History, watched: Iterable[_Watched]) -> tuple[Together, ...]:
    known: dict[str, list[StoredStep]] = {}
    for stored in history.steps():
        known.setdefault(stored.series, []).append(stored)
    new: list[Step] = []
    suspected: dict[StepKey, Suspected] = {}
    for each in watched:
        of_series = known.get(each.series.key, ())
        names = {stored.id for stored in of_series}
        steps = [step for step in form_steps(each.update.alarms) if step.key.name not in names]
        if not steps:
            continue
        nights = {night.position: night.night for night in history.nights(each.series)}
        for step in steps:
            if any(_is_same(step, stored, each.series, [*nights]) for stored in of_series):
                continue
            new.append(step)
            decided = _decide(each.series, step, nights)
            suspected[step.key] = Suspected(series=each.series, step=decided)
    return tuple(
        Together(suspected=tuple(suspected[step.key] for step in group.steps))
        for group in group_steps(new)
    )


def _find_stale(history: History) -> Iterator[Suspected]:
    """Yield the steps that wait for an answer for too long, by the date of the last night."""
    waiting = [step for step in history.steps() if step.state in _WAITING]
    if not waiting:
        return
    with history.database.transaction() as connection:
        last = connection.execute(select(func.max(INPUT.c.night))).scalar()
    by_key = {series.key: series for series in history.series()}
    for step in waiting:
        decided = history.step_changes(step.id)[-1].at
        days = (_date(last or decided) - _date(decided)).days
        if days >= _STALE_DAYS:
            reason = f"{step.state}, and no decision for {days} days"
            yield Suspected(series=by_key[step.series], step=step.changed("stale", reason=reason))


def _date(text: str) -> date:
    return date.fromisoformat(text[:_DATE])


def _is_same(step: Step, stored: StoredStep, series: Series, positions: Sequence[int]) -> bool:
    """Return whether the store has a step, whose place may have been another one.

    Nights that came late move the place. Two steps are farther apart than the nights that the level
    before a step needs.

    :param positions: of all nights of the series
    """
    first = bisect_left(positions, step.alarm.earliest) - FEWEST_BEFORE
    last = bisect_right(positions, step.alarm.latest) + FEWEST_BEFORE
    near = positions[max(0, first) : last]
    is_near = near[0] <= stored.position <= near[-1]
    return is_near and stored.direction == _direction(series, rises=step.key.rises)


def _decide(series: Series, step: Step, names: Mapping[int, str]) -> StepChanged:
    """Return the first decision about a step.

    :param names: of the nights, by position
    """
    alarm = step.alarm

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
        numbers={
            "nights_before": alarm.nights_before,
            "nights_after": alarm.nights_after,
            # Positions of nights: steps that share one are likely to have one cause.
            EARLIEST: alarm.earliest,
            LATEST: alarm.latest,
            FOUND: alarm.found,
        },
    )


def _direction(series: Series, *, rises: bool) -> Direction:
    better = better_of(series)
    if better == "unknown":
        return "higher" if rises else "lower"
    return "better" if rises == (better == "higher") else "worse"
