# SPDX-License-Identifier: GPL-2.0-or-later
"""Generated mails, hostile names in them, are as lists accept them."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.schedperf.mail.generated import (
    Case,
    check_mail,
    check_refusal,
    draft_or_refuse,
    requests,
)

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def check(case: Case) -> None:
    drafted = draft_or_refuse(case.request)
    if isinstance(drafted, str):
        check_refusal(drafted)
    else:
        check_mail(case.request, drafted)


@pytest.mark.property
@settings(max_examples=100, suppress_health_check=SLOW)
@given(requests().map(Case))
def test_100_mails(case: Case) -> None:
    check(case)


@pytest.mark.slow
@settings(max_examples=2500, suppress_health_check=SLOW)
@given(requests().map(Case))
def test_1000_mails(case: Case) -> None:
    """Check about 1,000 mails; the other requests are refused in one line each."""
    check(case)
