# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.periods: what changed, and where baseline periods begin."""

from msgspec.structs import replace

from schedperf.history.periods import find_differences, merge_conditions
from schedperf.history.series import Conditions, WatchedNight

OLD = Conditions(environment="e1", parser="p1", workload="w1", reference="v6.18")


def night(conditions: Conditions, *, is_serviced: bool = False) -> WatchedNight:
    return WatchedNight(
        order=5, value=1.0, reference=1.0, conditions=conditions, is_serviced=is_serviced
    )


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
