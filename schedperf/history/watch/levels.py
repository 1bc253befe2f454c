# SPDX-License-Identifier: GPL-2.0-or-later
"""Add levels to a watched series: bets, alarms, and steps of the reference."""

from collections.abc import Sequence
from math import hypot

from msgspec.structs import replace

from schedperf.history.periods import Change, Difference
from schedperf.history.watch.detector import WINDOW, Bets, bet_on, draw_tie_breaker
from schedperf.history.watch.place import (
    MOST_BEFORE,
    PAIRED,
    UNPAIRED,
    Place,
    change_at,
    find_place,
    is_reported,
)
from schedperf.history.watch.state import Alarm, Point, State, Update
from schedperf.stats.shift import rank_shift


def add_points(update: Update, points: Sequence[Point]) -> Update:
    """Return an update after further nights that have a level."""
    for point in points:
        update = update.then(_add_point(update.state, point))
    return update


def begin_anew(state: State) -> State:
    """Return a state that has forgotten all levels."""
    return replace(state, points=(), chained=(), bets=Bets(), reference_bets=Bets())


def chain_error(state: State, since: int) -> float:
    """Return twice the standard error of the chains after a night.

    :param since: order of the night
    """
    return 2.0 * hypot(*(sd for order, sd in state.chained if order > since))


def _add_point(state: State, point: Point) -> Update:
    tie_breaker = draw_tie_breaker(state.key, point.order)
    levels = [each.level for each in state.points]
    moved = replace(
        state,
        points=(*state.points, point)[-WINDOW:],
        bets=bet_on(state.bets, levels, point.level, tie_breaker),
    )
    if point.reference is not None:
        earlier = _references(state)
        bets = bet_on(state.reference_bets, earlier, point.reference, tie_breaker)
        moved = replace(moved, reference_bets=bets)
    update = _examine_level(moved) if moved.bets.is_alarm else Update(state=moved)
    if not update.state.reference_bets.is_alarm:
        return update
    return update.then(_examine_reference(update.state))


def _references(state: State) -> list[float]:
    """Return the levels of the reference since it moved, without those before the window."""
    recent = state.points[max(0, len(state.points) - state.reference_bets.nights) :]
    return [point.reference for point in recent if point.reference is not None]


def _examine_level(state: State) -> Update:
    """Report what made the processes rise, or let them begin with nothing if it is too small."""
    levels = [point.level for point in state.points]
    place = find_place(levels)
    limits = PAIRED if state.scale.is_paired else UNPAIRED
    if place is None or not is_reported(
        levels,
        place.index,
        limits,
        is_log=state.scale.is_log,
        more=chain_error(state, state.points[place.index - 1].order),
    ):
        return Update(state=replace(state, bets=state.bets.emptied()))
    if _is_step_of_reference(state, place.index):
        return _break_at_step_of_reference(state, place.index)
    return Update(state=begin_anew(state), alarms=(_alarm(state, levels, place),))


def _examine_reference(state: State) -> Update:
    """Begin a period if the reference moved and the level with it; otherwise go on."""
    references = _references(state)
    place = find_place(references)
    if place is None or not is_reported(
        references, place.index, UNPAIRED, is_log=state.scale.is_log
    ):
        return Update(state=replace(state, reference_bets=state.reference_bets.emptied()))
    index = len(state.points) - len(references) + place.index
    levels = [point.level for point in state.points]
    if is_reported(levels, index, PAIRED, is_log=state.scale.is_log):
        if _is_step_of_reference(state, index):
            return _break_at_step_of_reference(state, index)
        # The new kernel moved more; the bets on the level will show whether it lasts.
        return Update(state=replace(state, reference_bets=Bets()))
    change = _step_of_reference(state, index, is_break=False)
    return Update(state=replace(state, reference_bets=Bets()), changes=(change,))


def _is_step_of_reference(state: State, index: int) -> bool:
    """Return whether the reference moved, and more than the new kernel or than the level did.

    Then the level has changed with the machine: either the reference moved alone, or both kernels
    moved, by different amounts.
    """
    references = [point.reference for point in state.points if point.reference is not None]
    if not references or not is_reported(references, index, UNPAIRED, is_log=state.scale.is_log):
        return False
    levels = [point.level for point in state.points]
    values = [sum(pair) for pair in zip(levels, references, strict=True)]
    least = min(abs(change_at(each, index)) for each in (levels, values))
    return least < abs(change_at(references, index))


def _break_at_step_of_reference(state: State, index: int) -> Update:
    change = _step_of_reference(state, index, is_break=True)
    return add_points(Update(state=begin_anew(state), changes=(change,)), state.points[index:])


def _step_of_reference(state: State, index: int, *, is_break: bool) -> Change:
    references = [point.reference for point in state.points if point.reference is not None]
    return Change(
        order=state.points[index].order,
        differences=(Difference(reason="reference-step", before=None, after=None),),
        is_break=is_break,
        shift=change_at([point.level for point in state.points], index),
        reference_shift=change_at(references, index),
    )


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
