# SPDX-License-Identifier: GPL-2.0-or-later
"""Add nights to a watched series, one at a time, in a time that does not grow with its length.

    update = watch_series(series)
    update = add_night(update.state, night)

gives what ``watch_series`` gives for the series with this night. A state can be stored between
nights; it holds the last 90 of them.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec.structs import replace

from schedperf.history.periods import (
    NIGHTS_TO_COMPARE,
    Change,
    Difference,
    find_differences,
    merge_conditions,
)
from schedperf.history.series import Chain, WatchedNight, WatchedSeries
from schedperf.history.watch.levels import add_points, begin_anew, chain_error
from schedperf.history.watch.place import FEWEST_BEFORE, MOST_BEFORE, PAIRED, smallest_change
from schedperf.history.watch.state import Point, State, Undecided, Update
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line


def watch_series(series: WatchedSeries) -> Update:
    """Return the state after all nights of a series, and all alarms and changes."""
    update = Update(state=State(key=series.key, scale=series.scale))
    return _add_all(update, series.nights)


def continue_watch(update: Update, series: WatchedSeries) -> Update | None:
    """Return an update after later nights of its series.

    :param series: with these nights alone
    :return: None if the whole series must be watched again: values are of another kind
    """
    if any(not update.state.continues_with(night) for night in series.nights):
        return None
    return _add_all(update, series.nights)


def _add_all(update: Update, nights: Iterable[WatchedNight]) -> Update:
    for night in nights:
        update = update.then(add_night(update.state, night))
    return update


def add_night(state: State, night: WatchedNight) -> Update:
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
        return add_points(replace(update, state=state), (point,))
    held = replace(state.undecided, points=(*state.undecided.points, point))
    update = replace(update, state=replace(state, undecided=held))
    if len(held.points) < NIGHTS_TO_COMPARE:
        return update
    return update.then(_decide(update.state, held))


# conditions


def _change_conditions(state: State, night: WatchedNight) -> Update:
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
        update = update.then(_break(update.state, update.state.undecided, shift=None))
    undecided = Undecided(order=night.order, differences=differences, points=())
    if _can_be_decided(update.state, differences):
        return replace(update, state=replace(update.state, undecided=undecided))
    return update.then(_break(update.state, undecided, shift=None))


def _renew_reference(
    state: State, order: int, differences: tuple[Difference, ...], chain: Chain
) -> Update:
    change = Change(
        order=order,
        differences=differences,
        is_break=False,
        shift=None,
        reference_shift=chain.shift,
    )
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
    points = state.points[-MOST_BEFORE:]
    before = [point.level for point in points]
    shift = median(point.level for point in undecided.points) - median(before)
    more = chain_error(state, points[0].order)
    scale = state.scale
    limit = smallest_change(before, len(before), PAIRED, is_log=scale.is_log, more=more)
    if abs(shift) > limit:
        return _break(state, undecided, shift=shift)
    change = Change(
        order=undecided.order, differences=undecided.differences, is_break=False, shift=shift
    )
    update = Update(state=replace(state, undecided=None), changes=(change,))
    return add_points(update, undecided.points)


def _break(state: State, undecided: Undecided, *, shift: float | None) -> Update:
    change = Change(
        order=undecided.order, differences=undecided.differences, is_break=True, shift=shift
    )
    update = Update(state=replace(begin_anew(state), undecided=None), changes=(change,))
    return add_points(update, undecided.points)


def _point(state: State, night: WatchedNight) -> Point | None:
    if state.scale.is_lost(night) or night.value is None:
        return None
    level = state.scale.level(night.value)
    if night.reference is None:
        return Point(night.order, level, None)
    reference = state.scale.level(night.reference) - state.chain
    return Point(night.order, level - reference, reference)
