# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.periods: what changed, and where baseline periods begin."""

from msgspec.structs import replace

from schedperf.history.periods import (
    Change,
    Difference,
    divide,
    find_differences,
    merge_conditions,
)
from schedperf.history.series import Conditions, Night
from tests.nightly import paired, unpaired

OLD = Conditions(environment="e1", parser="p1", workload="w1", reference="v6.18")


def night(conditions: Conditions, *, is_serviced: bool = False) -> Night:
    return Night(order=5, value=1.0, reference=1.0, conditions=conditions, is_serviced=is_serviced)


def break_at(order: int, *, is_break: bool = True) -> Change:
    difference = Difference(reason="serviced", before=None, after=None)
    return Change(order=order, differences=(difference,), is_break=is_break, shift=None)


def test_each_condition_that_changed_has_a_reason_with_both_values() -> None:
    new = replace(OLD, parser="p2", workload="w2")
    assert [(d.reason, d.before, d.after) for d in find_differences(OLD, night(new))] == [
        ("parser", "p1", "p2"),
        ("workload", "w1", "w2"),
    ]


def test_what_is_not_recorded_is_no_difference() -> None:
    assert find_differences(OLD, night(Conditions())) == ()
    assert find_differences(Conditions(), night(OLD)) == ()


def test_service_has_no_values() -> None:
    [difference] = find_differences(OLD, night(OLD, is_serviced=True))
    assert (difference.reason, difference.before, difference.after) == ("serviced", None, None)


def test_the_last_recorded_conditions_are_kept() -> None:
    assert merge_conditions(OLD, Conditions(parser="p2")) == replace(OLD, parser="p2")


def test_only_breaks_begin_periods() -> None:
    nights = paired([0.0] * 30)
    changes = [break_at(10, is_break=False), break_at(20)]
    first, second = divide(nights, changes)
    assert (first.first, first.last, first.began) == (0, 19, None)
    assert (second.first, second.last, second.began) == (20, 29, changes[1])


def test_a_period_counts_nights_with_a_level() -> None:
    nights = unpaired([1.0, None, 2.0, None])
    assert [period.nights for period in divide(nights, [])] == [2]
    half = [replace(each, reference=None) if each.order % 2 else each for each in paired([0.0] * 4)]
    assert [period.nights for period in divide(half, [])] == [2]


def test_a_break_in_the_first_night_begins_the_first_period() -> None:
    [period] = divide(paired([0.0] * 3), [break_at(0)])
    assert period.began is not None


def test_a_series_without_nights_has_no_periods() -> None:
    assert divide([], []) == ()
