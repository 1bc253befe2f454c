# SPDX-License-Identifier: GPL-2.0-or-later
"""All checks together: a mail that is in order passes, and each says its name."""

from schedperf.publish.mail.checks import CHECKS, run_checks
from tests.schedperf.publish.culprit.checks.test_all import NAMES as NAMES_OF_THE_RECORD
from tests.schedperf.publish.mail.checks.cases import make_context

NAMES = ["fresh", "new", "form", "private", "quota", "balance"]


def test_a_mail_in_order_passes() -> None:
    checks = run_checks(make_context())
    assert [check for check in checks if not check.passed] == []
    assert [check.name for check in checks] == [*NAMES_OF_THE_RECORD, *NAMES]


def test_each_check_is_named_like_its_module() -> None:
    assert [check.__module__.rpartition(".")[2] for check in CHECKS] == NAMES
