# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.watch.steps: identity of steps, from alarms."""

from msgspec.structs import replace

from schedperf.history.series import SeriesKey
from schedperf.history.watch.state import Alarm
from schedperf.history.watch.steps import StepKey, form_steps
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


def test_an_alarm_makes_a_step() -> None:
    [step] = form_steps([alarm()])
    assert step.key == key_of(alarm())
    assert len(step.key.name) == 12


def test_a_step_is_found_by_each_place_of_its_confidence_set() -> None:
    [step] = form_steps([alarm(60)])
    concerned = [place for place in range(50, 70) if step.concerns(key_of(alarm(), place))]
    assert concerned == [58, 59, 60, 61]


def test_the_other_direction_or_series_is_another_step() -> None:
    alarms = [alarm(), alarm(rises=False), alarm(key=replace(KEY, metric="p99"))]
    steps = form_steps(alarms)
    assert [step.key for step in steps] == [key_of(each) for each in alarms]
    assert len({step.key.name for step in steps}) == 3


def test_an_alarm_about_the_same_place_is_the_same_step() -> None:
    steps = form_steps([alarm(60), replace(alarm(61), found=90)])
    assert [step.alarm.found for step in steps] == [66]
    assert len(form_steps([alarm(60), alarm(70)])) == 2
