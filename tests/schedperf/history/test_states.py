# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.history.states: the life of a step."""

from itertools import pairwise

import pytest

from schedperf.history.states import STATES, StepState, check_next, is_open
from schedperf.model.errors import InputError

LIFE: list[StepState] = [
    "suspected", "reproduced", "range known", "first bad known", "reported", "answered", "fixed",
]  # fmt: skip


def test_the_life_of_a_regression() -> None:
    for before, after in pairwise(LIFE):
        check_next("0123", before, after)
    assert [is_open(state) for state in LIFE] == [True] * 6 + [False]


def test_a_step_that_a_retest_does_not_reproduce_is_closed_until_another_one_does() -> None:
    check_next("0123", "suspected", "not reproduced")
    assert not is_open("not reproduced")
    check_next("0123", "not reproduced", "reproduced")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("suspected", "reported", "'reported' cannot follow 'suspected' (expected reproduced, not"),
        ("accepted", "fixed", "'fixed' cannot follow 'accepted' (expected none, because it is"),
        ("reproduced", "answered", "'answered' cannot follow 'reproduced'"),
        ("unknown\x1b[1m", "fixed", "'fixed' cannot follow 'unknown"),
    ],
)
def test_a_state_that_cannot_follow_is_refused_in_one_line(
    before: str, after: StepState, message: str
) -> None:
    with pytest.raises(InputError) as error:
        check_next("0123", before, after)
    assert message in str(error.value)
    assert str(error.value).isprintable()


def test_no_state_follows_itself() -> None:
    for state in STATES:
        with pytest.raises(InputError):
            check_next("0123", state, state)
