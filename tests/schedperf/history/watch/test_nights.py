# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.watch.nights: alarms, baseline periods, and one night at a time."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schedperf.history.series import Chain, Conditions, WatchedNight, WatchedSeries
from schedperf.history.watch.detector import EMPTY, WINDOW
from schedperf.history.watch.nights import add_night, continue_watch, watch_series
from schedperf.history.watch.state import Alarm, State, Update
from schedperf.model.errors import InputError
from tests.nightly import KEY, noise, paired, series, unpaired, with_step

STEP = math.log(1.05)


def watch(nights: Sequence[WatchedNight]) -> Update:
    return watch_series(series(nights))


def only_alarm(nights: Sequence[WatchedNight]) -> Alarm:
    [alarm] = watch(nights).alarms
    return alarm


# alarms


def test_a_step_of_five_percent_is_found_at_its_place_with_its_size() -> None:
    alarm = only_alarm(paired(with_step(noise(80), 60, STEP)))
    assert 62 <= alarm.found <= 70
    assert (alarm.before, alarm.place, alarm.earliest, alarm.latest) == (59, 60, 60, 60)
    assert alarm.rises
    assert alarm.is_log
    assert alarm.shift.low is not None
    assert alarm.shift.high is not None
    assert alarm.shift.low < STEP < alarm.shift.high
    assert alarm.shift.high - alarm.shift.low < 0.03
    assert (alarm.nights_before, alarm.nights_after) == (30, alarm.found - 59)


def test_a_fall_is_found_as_well() -> None:
    alarm = only_alarm(paired(with_step(noise(80), 60, -STEP)))
    assert not alarm.rises
    assert alarm.shift.estimate < 0.0


def test_what_moves_both_kernels_is_no_step() -> None:
    references = [10.0 if order < 60 else 15.0 for order in range(120)]
    found = watch(paired(noise(120), references))
    assert found.alarms == ()
    [change] = found.changes
    assert (change.order, change.is_break) == (60, False)
    assert change.differences[0].reason == "reference-step"
    assert change.shift == pytest.approx(0.0, abs=0.01)
    assert change.reference_shift == pytest.approx(math.log(1.5))
    assert found.state.bets.nights == 120


def test_one_slow_night_is_no_step() -> None:
    logs = noise(120)
    logs[60] += 1.0
    assert watch(paired(logs)).alarms == ()


def test_after_an_alarm_the_new_level_is_the_baseline() -> None:
    up_and_down = with_step(with_step(noise(200), 60, STEP), 130, -STEP)
    alarms = watch(paired(up_and_down)).alarms
    assert [(alarm.place, alarm.rises) for alarm in alarms] == [(60, True), (130, False)]


def test_there_is_no_alarm_in_the_first_thirty_nights() -> None:
    steps = [with_step(noise(60), place, 0.5) for place in range(10, 30)]
    found = [alarm.found for logs in steps for alarm in watch(paired(logs)).alarms]
    # The 30th night.
    assert min(found) == 29


def test_a_change_that_is_too_small_takes_everything_from_the_processes() -> None:
    quiet = with_step(noise(100, sd=0.0005), 60, 0.005)
    states = []
    state = State(key=KEY, scale=series(paired(quiet)).scale)
    for night in paired(quiet):
        update = add_night(state, night)
        assert update.alarms == ()
        state = update.state
        states.append(state)
    emptied = [
        order for order, each in enumerate(states) if order > 30 and each.bets.processes == EMPTY
    ]
    assert emptied
    # The window goes on: the small change becomes part of it.
    assert len(states[emptied[0]].points) == emptied[0] + 1


def test_imported_series_need_two_percent_and_pairs_one() -> None:
    logs = with_step(noise(100, sd=0.001), 60, math.log(1.015))
    assert len(watch(paired(logs)).alarms) == 1
    assert watch(unpaired(10.0 * math.exp(log) for log in logs)).alarms == ()


def test_a_series_of_three_values_has_no_false_alarm() -> None:
    generator_of_ties = [round(100.0 * log) for log in noise(1000, sd=0.005)]
    assert len(set(generator_of_ties)) <= 5
    assert watch(unpaired(50.0 + value for value in generator_of_ties)).alarms == ()


def test_a_series_with_a_zero_is_analysed_by_differences() -> None:
    values = with_step(noise(100, sd=1.0), 60, 8.0)
    alarm = only_alarm(unpaired([0.0, *values]))
    assert not alarm.is_log
    assert alarm.place == 61
    assert alarm.shift.estimate == pytest.approx(8.0, abs=1.0)


def test_lost_nights_change_nothing() -> None:
    nights = paired(with_step(noise(80), 60, STEP))
    with_lost = [
        each
        for night in nights
        for each in (
            replace(night, order=3 * night.order),
            replace(night, order=3 * night.order + 1, value=None),
            replace(night, order=3 * night.order + 2, reference=None),
        )
    ]
    state = watch(nights).state
    after = watch(with_lost).state
    assert len(after.points) == len(state.points)
    assert only_alarm(with_lost).place == 180


def test_a_constant_series_raises_nothing() -> None:
    assert watch(unpaired([7.0] * 400)).alarms == ()


def test_the_same_night_has_the_same_result_in_every_run() -> None:
    nights = paired([0.0, 0.01, 0.02] * 50)
    assert watch(nights) == watch(nights)


# conditions


def moved(
    logs: Sequence[float], at: int, references: Sequence[float] | None = None, **after: str
) -> list[WatchedNight]:
    """Return paired nights whose conditions change, from "old" to what is given."""
    before = dict.fromkeys(after, "old")
    return [*paired(logs, references, **before)[:at], *paired(logs, references, **after)[at:]]


@pytest.mark.parametrize("name", ["environment", "parser", "workload"])
def test_a_change_of_conditions_goes_on_if_both_kernels_moved_together(name: str) -> None:
    found = watch(moved(noise(100), 60, None, **{name: "new"}))
    [change] = found.changes
    [difference] = change.differences
    assert (difference.reason, difference.before, difference.after) == (name, "old", "new")
    assert (change.order, change.is_break) == (60, False)
    assert change.shift is not None
    assert abs(change.shift) < 0.01
    assert found.state.bets.nights == 100


def test_a_change_of_conditions_breaks_if_the_ratio_moved() -> None:
    nights = moved(with_step(noise(100), 60, 0.1), 60, environment="new")
    found = watch(nights)
    assert found.alarms == ()
    [change] = found.changes
    assert (change.order, change.is_break) == (60, True)
    assert change.shift == pytest.approx(0.1, abs=0.02)
    assert found.state.bets.nights == 40


def test_nights_after_a_change_wait_until_three_show_how_it_went_on() -> None:
    nights = moved(noise(100), 60, environment="new")
    waiting = watch(nights[:62]).state
    assert waiting.undecided is not None
    assert len(waiting.undecided.points) == 2
    assert waiting.bets.nights == 60
    decided = watch(nights[:63]).state
    assert decided.undecided is None
    assert decided.bets.nights == 63


def test_without_a_reference_every_change_of_conditions_is_a_break() -> None:
    nights = [
        replace(night, conditions=Conditions(environment="old" if night.order < 50 else "new"))
        for night in unpaired([1.0] * 100)
    ]
    [change] = watch(nights).changes
    assert (change.order, change.is_break, change.shift) == (50, True, None)


def test_few_nights_before_a_change_cannot_show_anything() -> None:
    [change] = watch(moved(noise(40), 7, workload="new")).changes
    assert (change.is_break, change.shift) == (True, None)


def test_conditions_that_are_not_recorded_are_unchanged() -> None:
    logs = noise(60)
    gap = [*paired(logs, parser="1")[:20], *paired(logs)[20:40], *paired(logs, parser="1")[40:]]
    assert watch(gap).changes == ()
    other = [*gap[:40], *paired(logs, parser="2")[40:]]
    assert [change.order for change in watch(other).changes] == [40]


def test_service_of_the_machine_is_treated_like_a_change_of_conditions() -> None:
    nights = paired(with_step(noise(100), 60, 0.1))
    nights[60] = replace(nights[60], is_serviced=True)
    [change] = watch(nights).changes
    assert change.is_break
    assert change.differences[0].reason == "serviced"


def test_a_second_change_before_the_first_is_decided_makes_both_breaks() -> None:
    nights = moved(noise(100), 60, environment="new")
    nights[61] = replace(nights[61], is_serviced=True)
    assert [(change.order, change.is_break) for change in watch(nights).changes] == [
        (60, True),
        (61, True),
    ]


def test_a_change_in_a_lost_night_counts() -> None:
    nights = moved(with_step(noise(100), 60, 0.1), 60, environment="new")
    nights[60] = replace(nights[60], value=None)
    [change] = watch(nights).changes
    assert (change.order, change.is_break) == (60, True)


# the reference


def test_a_reference_that_moves_alone_begins_a_period_and_is_no_step() -> None:
    references = [10.0 if order < 60 else 14.0 for order in range(120)]
    logs = [math.log(10.0 / reference) for reference in references]
    nights = paired([a + b for a, b in zip(logs, noise(120), strict=True)], references)
    found = watch(nights)
    assert found.alarms == ()
    [change] = found.changes
    assert (change.order, change.is_break) == (60, True)
    assert change.differences[0].reason == "reference-step"
    assert change.reference_shift == pytest.approx(math.log(1.4), abs=0.001)
    assert change.shift == pytest.approx(-math.log(1.4), abs=0.01)
    assert found.state.bets.nights == 60


def test_a_new_kernel_that_moves_more_than_the_reference_is_a_step() -> None:
    references = [10.0 if order < 60 else 10.5 for order in range(80)]
    found = watch(paired(with_step(noise(80), 60, 0.2), references))
    assert [alarm.place for alarm in found.alarms] == [60]


def test_both_kernels_that_move_by_different_amounts_begin_a_period() -> None:
    references = [10.0 if order < 60 else 14.0 for order in range(120)]
    found = watch(paired(with_step(noise(120), 60, 0.1), references))
    assert found.alarms == ()
    assert [(change.order, change.is_break) for change in found.changes] == [(60, True)]


def test_a_reference_that_drifts_without_a_step_of_two_percent_is_not_reported() -> None:
    references = [10.0 * (1.0 + 0.0001 * order) for order in range(150)]
    assert watch(paired(noise(150), references)).changes == ()


def test_a_reference_that_moves_twice_is_reported_twice() -> None:
    references = [10.0 + (order >= 60) + (order >= 110) for order in range(160)]
    changes = watch(paired(noise(160), references)).changes
    assert [(change.order, change.is_break) for change in changes] == [(60, False), (110, False)]


def renewed(logs: Sequence[float], at: int, chain: Chain | None) -> list[WatchedNight]:
    """Return nights with a reference kernel that is 10% slower from one night on."""
    references = [10.0 if order < at else 11.0 for order in range(len(logs))]
    relative = [log - math.log(ref / 10.0) for log, ref in zip(logs, references, strict=True)]
    nights = moved(relative, at, references, reference="v6.19")
    nights[at] = replace(nights[at], chain=chain)
    return nights


def test_a_chain_night_carries_the_level_to_the_next_reference() -> None:
    chain = Chain(shift=math.log(1.1), sd=0.002)
    found = watch(renewed(noise(120), 60, chain))
    assert found.alarms == ()
    [change] = found.changes
    assert (change.order, change.is_break, change.reference_shift) == (60, False, chain.shift)
    assert found.state.bets.nights == 120
    assert found.state.points[-1].level == pytest.approx(noise(120)[-1])


def test_the_error_of_a_chain_makes_small_changes_at_it_unreportable() -> None:
    logs = with_step(noise(120, sd=0.002), 60, 0.015)
    exact = watch(renewed(logs, 60, Chain(shift=math.log(1.1), sd=0.0)))
    assert [alarm.place for alarm in exact.alarms] == [60]
    assert watch(renewed(logs, 60, Chain(shift=math.log(1.1), sd=0.01))).alarms == ()


def test_another_reference_without_a_chain_night_breaks() -> None:
    [change] = watch(renewed(noise(120), 60, None)).changes
    assert (change.order, change.is_break, change.shift) == (60, True, None)
    assert change.differences[0].after == "v6.19"


# one night at a time


@st.composite
def histories(draw: st.DrawFn) -> WatchedSeries:
    """Draw a series with steps, ties, lost nights, and changes of everything."""
    length = draw(st.integers(1, 150))
    is_paired = draw(st.booleans())
    scale = draw(st.sampled_from([0.0, 0.001, 0.02]))
    logs = noise(length, sd=scale, seed=draw(st.integers(0, 99)))
    for _ in range(draw(st.integers(0, 3))):
        logs = with_step(logs, draw(st.integers(0, length)), draw(st.sampled_from([-0.3, 0.04])))
    nights = paired(logs, environment="old") if is_paired else unpaired(map(math.exp, logs))
    for _ in range(draw(st.integers(0, 4))):
        index = draw(st.integers(0, length - 1))
        change: dict[str, Any] = draw(
            st.sampled_from(
                [
                    {"value": None},
                    {"value": 1e-9},
                    {"is_serviced": True},
                    {"conditions": Conditions(environment="new", reference="v2")},
                    {"chain": Chain(shift=0.1, sd=0.01)},
                ]
            )
        )
        nights[index] = replace(nights[index], **change)
    return series(nights)


@pytest.mark.property
@given(histories())
def test_nights_one_at_a_time_give_what_the_whole_series_gives(history: WatchedSeries) -> None:
    """What is stored after each night loses nothing."""
    update = watch_series(series([]))
    update = replace(update, state=replace(update.state, scale=history.scale))
    for night in history.nights:
        stored = msgspec.msgpack.decode(msgspec.msgpack.encode(update), type=Update)
        continued = continue_watch(stored, series([night]))
        assert continued is not None
        update = continued
        assert len(update.state.points) <= WINDOW
    assert update == watch_series(history)


@pytest.mark.property
@given(histories(), st.sampled_from([0.25, 8.0]))
def test_the_unit_of_a_series_has_no_effect(history: WatchedSeries, factor: float) -> None:
    """Powers of 2 are exact, but logarithms are rounded: ties may break, steps stay."""
    scaled = replace(
        history,
        nights=tuple(
            replace(
                night,
                value=None if night.value is None else factor * night.value,
                reference=None if night.reference is None else factor * night.reference,
            )
            for night in history.nights
        ),
    )
    if not history.scale.is_paired:
        places = [[a.place for a in watch_series(each).alarms] for each in (history, scaled)]
        assert places[0] == places[1]


def test_a_state_refuses_an_earlier_night_and_another_scale() -> None:
    state = watch(unpaired([1.0] * 20)).state
    for night in (
        WatchedNight(order=19, value=1.0, reference=None),
        WatchedNight(order=20, value=-1.0, reference=None),
        WatchedNight(order=20, value=1.0, reference=1.0),
    ):
        assert not state.continues_with(night)
        with pytest.raises(InputError, match="does not follow the state of night 19"):
            add_night(state, night)
    assert state.continues_with(WatchedNight(order=20, value=None, reference=None))


def test_a_watch_that_cannot_be_continued_says_so() -> None:
    nights = paired(noise(40))
    before = watch_series(series(nights[:20]))
    assert continue_watch(before, series(nights[20:])) == watch_series(series(nights))
    negative = replace(nights[30], value=-1.0)
    assert continue_watch(before, series([*nights[20:30], negative])) is None
    assert continue_watch(before, series([nights[19]])) is None
