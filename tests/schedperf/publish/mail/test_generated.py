# SPDX-License-Identifier: GPL-2.0-or-later
"""Generated mails, with hostile names, are as lists accept them."""

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.schedperf.publish.mail.generated import (
    Case,
    check_mail,
    check_refusal,
    draft_or_refuse,
    requests,
)

ALL = tuple(HealthCheck)
PARTS = 5
MAILS_OF_A_PART = 200
# About a third of the requests is refused, in one line each: more are made until all mails are.
REQUESTS = 100
MOST_TIMES = 10


def check(case: Case) -> bool:
    """Return whether a mail was drafted."""
    drafted = draft_or_refuse(case.request)
    if isinstance(drafted, str):
        check_refusal(drafted)
        return False
    check_mail(case.request, drafted)
    return True


@pytest.mark.property
@settings(max_examples=100, phases=[Phase.generate], suppress_health_check=ALL)
@given(requests().map(Case))
def test_some_mails(case: Case) -> None:
    check(case)


@pytest.mark.repeats
@pytest.mark.parametrize("part", range(PARTS))
def test_1000_mails(part: int) -> None:
    drafted = []
    for time in range(MOST_TIMES):

        @seed(part * MOST_TIMES + time)
        @settings(max_examples=REQUESTS, phases=[Phase.generate], suppress_health_check=ALL)
        @given(requests().map(Case))
        def run(case: Case) -> None:
            drafted.append(check(case))

        run()
        if sum(drafted) >= MAILS_OF_A_PART:
            return
    pytest.fail(f"only {sum(drafted)} of {len(drafted)} requests gave a mail")
