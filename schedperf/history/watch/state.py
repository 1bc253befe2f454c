# SPDX-License-Identifier: GPL-2.0-or-later
"""Add nights to a watched series, one at a time, in a time that does not grow with its length.

    watched = watch_series(series)
    update = add_night(watched.state, night)

gives what ``watch_series`` gives for the series with this night. A state can be stored between
nights; it holds the last 90 of them.
"""

from collections.abc import Callable, Mapping, Sequence
from math import hypot
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from schedperf.history.periods import (
    NIGHTS_TO_COMPARE,
    Change,
    Difference,
    find_differences,
    merge_conditions,
)
from schedperf.history.series import Chain, Conditions, Night, Scale, Series, SeriesKey
from schedperf.history.watch.detector import (
    BURN_IN,
    FEWEST_NIGHTS,
    NO_BETS,
    WINDOW,
    Processes,
    bet,
    draw_tie_breaker,
    is_alarm,
    smoothed_rank,
)
from schedperf.history.watch.place import (
    FEWEST_BEFORE,
    MOST_BEFORE,
    PAIRED,
    UNPAIRED,
    Limits,
    Place,
    change_at,
    find_place,
    is_reported,
    smallest_change,
)
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.stats.shift import Shift, rank_shift


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
    :param nights: number of nights since then
    :param processes: what the bets have
    """

    key: SeriesKey
    scale: Scale
    order: int | None = None
    conditions: Conditions = Conditions()
    chain: float = 0.0
    chained: tuple[tuple[int, float], ...] = ()
    undecided: Undecided | None = None
    points: tuple[Point, ...] = ()
    nights: int = 0
    processes: Processes = NO_BETS

    def continues_with(self, night: Night) -> bool:
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


def watch_series(series: Series) -> Update:
    """Return the state after all nights of a series, and all alarms and changes."""
    update = Update(state=State(key=series.key, scale=series.scale))
    for night in series.nights:
        update = _then(update, add_night(update.state, night))
    return update


def add_night(state: State, night: Night) -> Update:
    """Return the state after one more night.

    :raises InputError: if the state does not continue with this night
    """
    if not state.continues_with(night):
        raise InputError(
            f"{clean_line(state.key.workload)}: night {night.order} does not follow the state of "
            f"night {state.order} (expected a later night, with values of the same kind); watch "
            "the whole series again"
        )
    update = _change_conditions(state, night)
    state = replace(update.state, order=night.order)
    point = _point(state, night)
    if point is None:
        return replace(update, state=state)
    if state.undecided is None:
        return _then(replace(update, state=state), _add_point(state, point))
    held = replace(state.undecided, points=(*state.undecided.points, point))
    update = replace(update, state=replace(state, undecided=held))
    if len(held.points) < NIGHTS_TO_COMPARE:
        return update
    return _then(update, _decide(update.state, held))


def add_nights(
    states: Mapping[SeriesKey, State],
    nights: Mapping[SeriesKey, Night],
    load: Callable[[SeriesKey], Series],
) -> dict[SeriesKey, Update]:
    """Add one night to many series.

    Series without a state, and those that a night does not continue, are watched from their
    beginning; their updates contain all alarms of the series.

    :param load: returns a series, with its night of ``nights``
    """
    return {
        key: add_night(states[key], night)
        if key in states and states[key].continues_with(night)
        else watch_series(load(key))
        for key, night in nights.items()
    }


def _then(update: Update, following: Update) -> Update:
    return Update(
        state=following.state,
        alarms=update.alarms + following.alarms,
        changes=update.changes + following.changes,
    )


# conditions


def _change_conditions(state: State, night: Night) -> Update:
    differences = find_differences(state.conditions, night)
    state = replace(state, conditions=merge_conditions(state.conditions, night.conditions))
    update = Update(state=state)
    if state.scale.is_paired and night.chain is not None:
        renewed = tuple(each for each in differences if each.reason == "reference")
        update = _renew_reference(state, night.order, renewed, night.chain)
        differences = tuple(each for each in differences if each not in renewed)
    if not differences:
        return update
    if update.state.undecided is not None:
        # Too few nights were measured between both changes.
        update = _then(update, _break(update.state, update.state.undecided, shift=None))
    undecided = Undecided(order=night.order, differences=differences, points=())
    if _can_be_decided(update.state, differences):
        return replace(update, state=replace(update.state, undecided=undecided))
    return _then(update, _break(update.state, undecided, shift=None))


def _renew_reference(
    state: State, order: int, differences: tuple[Difference, ...], chain: Chain
) -> Update:
    change = Change(order=order, differences=differences, is_break=False, shift=chain.shift)
    # Both sides of a chain that is older than the window have been forgotten.
    since = state.points[0].order if state.points else order
    chained = *((at, sd) for at, sd in state.chained if at > since), (order, chain.sd)
    total = state.chain + chain.shift
    return Update(state=replace(state, chain=total, chained=chained), changes=(change,))


def _can_be_decided(state: State, differences: Sequence[Difference]) -> bool:
    """Return whether the next nights can show that both kernels moved together."""
    is_renewed = any(each.reason == "reference" for each in differences)
    return state.scale.is_paired and not is_renewed and len(state.points) >= FEWEST_BEFORE


def _decide(state: State, undecided: Undecided) -> Update:
    """Go on if the level is the same after the change of conditions as before, or break."""
    before = [point.level for point in state.points[-MOST_BEFORE:]]
    shift = median(point.level for point in undecided.points) - median(before)
    more = _chain_error(state, state.points[0].order)
    scale = state.scale
    limit = smallest_change(before, len(before), PAIRED, is_log=scale.is_log, more=more)
    if abs(shift) > limit:
        return _break(state, undecided, shift=shift)
    change = Change(
        order=undecided.order, differences=undecided.differences, is_break=False, shift=shift
    )
    update = Update(state=replace(state, undecided=None), changes=(change,))
    return _add_points(update, undecided.points)


def _break(state: State, undecided: Undecided, *, shift: float | None) -> Update:
    change = Change(
        order=undecided.order, differences=undecided.differences, is_break=True, shift=shift
    )
    update = Update(state=replace(_begin_anew(state), undecided=None), changes=(change,))
    return _add_points(update, undecided.points)


def _chain_error(state: State, since: int) -> float:
    """Return twice the standard error of the chains after a night."""
    return 2.0 * hypot(*(sd for order, sd in state.chained if order > since))


# levels


def _point(state: State, night: Night) -> Point | None:
    if state.scale.is_lost(night) or night.value is None:
        return None
    level = state.scale.level(night.value)
    if night.reference is None:
        return Point(night.order, level, None)
    reference = state.scale.level(night.reference) - state.chain
    return Point(night.order, level - reference, reference)


def _begin_anew(state: State) -> State:
    return replace(state, points=(), nights=0, processes=NO_BETS, chained=())


def _add_points(update: Update, points: Sequence[Point]) -> Update:
    for point in points:
        update = _then(update, _add_point(update.state, point))
    return update


def _add_point(state: State, point: Point) -> Update:
    levels = [each.level for each in state.points]
    processes = state.processes
    if state.nights >= BURN_IN:
        tie_breaker = draw_tie_breaker(state.key, point.order)
        processes = bet(processes, smoothed_rank(levels, point.level, tie_breaker))
    points = (*state.points, point)[-WINDOW:]
    state = replace(state, points=points, nights=state.nights + 1, processes=processes)
    if state.nights < FEWEST_NIGHTS or not is_alarm(processes):
        return Update(state=state)
    return _examine(state)


def _examine(state: State) -> Update:
    """Report what made the processes rise, or let them begin with nothing if it is too small."""
    levels = [point.level for point in state.points]
    place = find_place(levels)
    more = 0.0 if place is None else _chain_error(state, state.points[place.index - 1].order)
    limits = PAIRED if state.scale.is_paired else UNPAIRED
    is_log = state.scale.is_log
    if place is None or not is_reported(levels, place.index, limits, is_log=is_log, more=more):
        return Update(state=replace(state, processes=NO_BETS))
    if _is_step_of_reference(state, place.index, limits=UNPAIRED):
        return _break_at_step_of_reference(state, place.index)
    return Update(state=_begin_anew(state), alarms=(_alarm(state, levels, place),))


def _is_step_of_reference(state: State, index: int, limits: Limits) -> bool:
    """Return whether the reference moved, and the new kernel less than it."""
    references = [point.reference for point in state.points if point.reference is not None]
    if not references or not is_reported(references, index, limits, is_log=state.scale.is_log):
        return False
    values = [p.level + p.reference for p in state.points if p.reference is not None]
    return abs(change_at(values, index)) < abs(change_at(references, index))


def _break_at_step_of_reference(state: State, index: int) -> Update:
    references = [point.reference for point in state.points if point.reference is not None]
    change = Change(
        order=state.points[index].order,
        differences=(Difference(reason="reference-step", before=None, after=None),),
        is_break=True,
        shift=change_at(references, index),
    )
    update = Update(state=_begin_anew(state), changes=(change,))
    return _add_points(update, state.points[index:])


def _alarm(state: State, levels: Sequence[float], place: Place) -> Alarm:
    points, index = state.points, place.index
    before, after = levels[max(0, index - MOST_BEFORE) : index], levels[index:]
    return Alarm(
        key=state.key,
        found=points[-1].order,
        place=points[index].order,
        before=points[index - 1].order,
        earliest=points[place.earliest].order,
        latest=points[place.latest].order,
        rises=change_at(levels, index) > 0.0,
        shift=rank_shift(before, after),
        is_log=state.scale.is_log,
        nights_before=len(before),
        nights_after=len(after),
    )
