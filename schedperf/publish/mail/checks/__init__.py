# SPDX-License-Identifier: GPL-2.0-or-later
"""Check a mail before a person may approve it for a public list; each module checks one condition.

Checks of the record and its comparisons are in ``schedperf.publish.culprit.checks``.
"""

from collections.abc import Callable, Sequence

from schedperf.publish.culprit.checks import check_evidence
from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks import balance, form, fresh, new, private, quota
from schedperf.publish.mail.checks.context import Context

# In the order in which people read them.
CHECKS: Sequence[Callable[[Context], Check]] = (
    fresh.check,
    new.check,
    form.check,
    private.check,
    quota.check,
    balance.check,
)


def run_checks(context: Context) -> tuple[Check, ...]:
    """Return the results of all checks, starting with those of the record."""
    return (*check_evidence(context.evidence), *(check(context) for check in CHECKS))
