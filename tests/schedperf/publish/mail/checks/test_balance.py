# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``balance``: 17 regressions against no improvement are false alarms."""

import pytest

from schedperf.history.questions.balance import balance_of
from schedperf.publish.mail.checks.balance import check, describe
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context


def test_17_against_0_is_held() -> None:
    text = failure(check(make_context(balance=balance_of([True] * 17))))
    assert "17 regressions and 0 improvements" in text
    assert "run A/A nights" in text


@pytest.mark.parametrize(
    "directions", [[], [True] * 7, [True, False] * 25, [True] * 50 + [True, False] * 25]
)
def test_what_passes(directions: list[bool]) -> None:
    assert check(make_context(balance=balance_of(directions))).passed
    assert check(make_context()).passed


def test_a_a_nights_clear_it() -> None:
    one_sided = [True] * 17
    fair = balance_of(one_sided, [True, False] * 4)
    assert check(make_context(balance=fair)).passed
    assert "in 8 A/A nights, new is worse in 4 and better in 4" in describe(fair)
    few = balance_of(one_sided, [True, False] * 3)
    assert not check(make_context(balance=few)).passed
    biased = balance_of(one_sided, [True] * 12)
    assert "new is worse in 12" in failure(check(make_context(balance=biased)))
