# SPDX-License-Identifier: GPL-2.0-or-later
"""Check a mail before a person may approve it for a public list: one condition per module."""

from collections.abc import Callable, Sequence

from schedperf.culprit.record import Check
from schedperf.mail.checks import (
    balance,
    boots,
    comparable,
    culprit,
    form,
    fresh,
    hardware,
    new,
    private,
    quota,
    retested,
    size,
)
from schedperf.mail.checks.context import Context

# In the order in which people read them.
CHECKS: Sequence[Callable[[Context], Check]] = (
    retested.check,
    boots.check,
    hardware.check,
    culprit.check,
    size.check,
    comparable.check,
    fresh.check,
    new.check,
    form.check,
    private.check,
    quota.check,
    balance.check,
)


def run_checks(context: Context) -> tuple[Check, ...]:
    """Return the results of all checks."""
    return tuple(check(context) for check in CHECKS)
