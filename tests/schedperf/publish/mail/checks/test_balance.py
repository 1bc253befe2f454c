# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``balance``: 17 regressions against no improvement are false alarms."""

import pytest

from schedperf.publish.mail.checks.balance import check, sign_test
from tests.schedperf.publish.culprit.checks.cases import failure
from tests.schedperf.publish.mail.checks.cases import make_context


def test_17_against_0_is_held() -> None:
    assert "17 regressions and 0 improvements" in failure(
        check(make_context(directions=[True] * 17))
    )


@pytest.mark.parametrize(
    "directions", [[], [True] * 7, [True, False] * 25, [True] * 50 + [True, False] * 25]
)
def test_what_passes(directions: list[bool]) -> None:
    assert check(make_context(directions=directions)).passed


def test_sign_test() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(17, 17) == pytest.approx(2.0**-16)
    assert sign_test(5, 10) == 1.0
