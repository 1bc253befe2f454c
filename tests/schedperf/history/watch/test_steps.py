# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.watch.steps: identity and status of steps, from alarms and decisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schedperf.history.series import SeriesKey
from schedperf.history.watch.state import Alarm
from schedperf.history.watch.steps import (
    Decision,
    Status,
    Step,
    StepKey,
    find_news,
    form_steps,
)
from schedperf.model.errors import InputError
from schedperf.stats.shift import Shift
from tests.nightly import KEY


def alarm(place: int = 60, *, rises: bool = True, key: SeriesKey = KEY) -> Alarm:
    size = 0.05 if rises else -0.05
    return Alarm(
        key=key,
        found=place + 6,
        place=place,
        before=place - 1,
        earliest=place - 2,
        latest=place + 1,
        rises=rises,
        shift=Shift(estimate=size, low=size - 0.01, high=size + 0.01),
        is_log=True,
        nights_before=30,
        nights_after=7,
    )


def key_of(raised: Alarm, place: int | None = None) -> StepKey:
    return StepKey(series=raised.key, place=place or raised.place, rises=raised.rises)


def decision(
    status: Status | None, step: StepKey | None = None, place: int | None = None
) -> Decision:
    return Decision(
        step=step or key_of(alarm()), time=1, status=status, place=place, reason="measured"
    )


def only_step(*decisions: Decision) -> Step:
    found = form_steps([alarm()], decisions)
    assert found.unmatched == ()
    [step] = found.steps
    return step


def test_an_alarm_makes_a_suspected_step() -> None:
    step = only_step()
    assert (step.status, step.place, step.is_open) == ("suspected", 60, True)
    assert step.key == key_of(alarm())
    assert len(step.key.name) == 12


@pytest.mark.parametrize(
    ("rises", "better", "direction"),
    [
        (True, "lower", "regression"),
        (False, "lower", "improvement"),
        (True, "higher", "improvement"),
        (False, "higher", "regression"),
        (True, "unknown", "change"),
    ],
)
def test_the_direction_depends_on_what_is_better(
    *, rises: bool, better: str, direction: str
) -> None:
    [step] = form_steps([alarm(rises=rises)], []).steps
    assert step.direction(better) == direction  # type: ignore[arg-type] # a literal


def test_the_life_of_a_regression() -> None:
    life: list[Status] = [
        "reproduced", "range-known", "first-bad-known", "reported", "answered", "fixed",
    ]  # fmt: skip
    step = only_step(*map(decision, life))
    assert (step.status, step.is_open) == ("fixed", False)
    assert [each.status for each in step.decisions] == life


def test_a_step_that_a_retest_does_not_reproduce_is_closed_until_another_one_does() -> None:
    assert not only_step(decision("not-reproduced")).is_open
    assert only_step(decision("not-reproduced"), decision("reproduced")).is_open


@pytest.mark.parametrize(
    ("statuses", "message"),
    [
        (["reported"], "'reported' cannot follow 'suspected' (expected reproduced, not-reproduced"),
        (["accepted", "fixed"], "'fixed' cannot follow 'accepted' (expected none, since the step"),
        (["reproduced", "answered"], "'answered' cannot follow 'reproduced'"),
    ],
)
def test_a_decision_that_cannot_follow_is_refused_in_one_line(
    statuses: list[Status], message: str
) -> None:
    with pytest.raises(InputError) as error:
        only_step(*map(decision, statuses))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_person_names_another_place_and_the_step_stays_the_same() -> None:
    step = only_step(decision(None, place=57), decision("reproduced", key_of(alarm(), 57)))
    assert (step.place, step.status, step.key.place) == (57, "reproduced", 60)


def test_a_decision_finds_its_step_after_a_late_night_has_moved_the_place() -> None:
    assert only_step(decision("reproduced", key_of(alarm(), 61))).status == "reproduced"
    far = decision("reproduced", key_of(alarm(), 62))
    found = form_steps([alarm()], [far])
    assert found.unmatched == (far,)
    assert found.steps[0].status == "suspected"


def test_the_other_direction_or_series_is_another_step() -> None:
    other = replace(KEY, metric="p99")
    alarms = [alarm(), alarm(rises=False), alarm(key=other)]
    found = form_steps(alarms, [decision("accepted", key_of(alarms[1]))]).steps
    assert {step.key: step.status for step in found} == {
        key_of(alarms[0]): "suspected",
        key_of(alarms[1]): "accepted",
        key_of(alarms[2]): "suspected",
    }
    assert len({step.key.name for step in found}) == 3


def test_an_alarm_about_the_same_place_is_the_same_step() -> None:
    found = form_steps([alarm(60), replace(alarm(61), found=90)], []).steps
    assert [step.alarm.found for step in found] == [66]
    assert len(form_steps([alarm(60), alarm(70)], []).steps) == 2


def test_an_equal_key_is_preferred_to_an_overlapping_one() -> None:
    # The set of the first step contains the place of the second one.
    alarms = [replace(alarm(60), latest=64), alarm(64)]
    alarms[1] = replace(alarms[1], earliest=64)
    steps = form_steps([alarms[0], replace(alarms[1], place=65)], []).steps
    assert len(steps) == 2
    decided = form_steps(
        [alarms[0], replace(alarms[1], place=65)], [decision("accepted", steps[0].key)]
    ).steps
    assert [step.status for step in decided] == ["accepted", "suspected"]


def test_news_are_new_steps_and_changed_ones() -> None:
    before = form_steps([alarm(), alarm(100)], []).steps
    now = form_steps([alarm(), alarm(100), alarm(150)], [decision("reproduced")]).steps
    news = find_news(before, now)
    assert [step.place for step in news.new] == [150]
    assert [(step.place, step.status) for step in news.changed] == [(60, "reproduced")]
    assert find_news(now, now).new == find_news(now, now).changed == ()


@pytest.mark.property
@given(st.permutations([alarm(60), alarm(100), alarm(160), alarm(60, rises=False)]))
def test_steps_do_not_depend_on_the_order_of_separate_alarms(alarms: list[Alarm]) -> None:
    assert form_steps(alarms, []) == form_steps(sorted(alarms, key=lambda a: a.found), [])
