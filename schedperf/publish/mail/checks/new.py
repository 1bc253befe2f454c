# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``new``: the mail does not repeat an earlier one."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context
from schedperf.publish.mail.outbox import NEVER_SENT, Mail

BETWEEN_REPLIES = timedelta(days=7)


def check(context: Context) -> Check:
    """Fail for a report or a mail of kind ``again`` that repeats an earlier mail.

    A report fails if the commit was reported already. A mail of kind ``again`` fails if its thread
    had a mail within seven days. Both fail if a mail of their kind has the same evidence.
    Withdrawn and refused mails do not count.
    """
    return Check.of("new", _thread(context), _evidence(context), _week(context))


def _others(context: Context) -> Iterator[Mail]:
    own = context.message.metadata.id
    return (each for each in context.earlier if each.id != own and each.state not in NEVER_SENT)


def _thread(context: Context) -> str | None:
    own = context.message.metadata
    if own.kind != "report":
        return None
    for each in _others(context):
        # A report about the range went to the own list only.
        is_same = each.metadata.is_range == own.is_range
        if each.metadata.commit == own.commit and is_same:
            return f"the commit has a thread ({each.id}): draft --kind again as a reply to it"
    report = context.evidence.culprit.links.report
    return f"the commit was reported ({report}): draft --kind again" if report else None


def _evidence(context: Context) -> str | None:
    own = context.message.metadata
    if own.kind not in ("report", "again"):
        return None
    for each in _others(context):
        if each.metadata.kind == own.kind and each.metadata.fingerprint == own.fingerprint:
            return f"the same evidence was reported ({each.id}): withdraw this mail"
    return None


def _week(context: Context) -> str | None:
    own = context.message.metadata
    if own.kind != "again":
        return None
    for each in _others(context):
        until = date_of(each) + BETWEEN_REPLIES
        if each.metadata.commit == own.commit and context.now < until:
            return (
                f"the thread had a mail this week ({each.id}): draft again after {until:%Y-%m-%d}"
            )
    return None


def date_of(mail: Mail) -> datetime:
    """Return when a mail entered its current state."""
    return datetime.fromisoformat(mail.last.when)
