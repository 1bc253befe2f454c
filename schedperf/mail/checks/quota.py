# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``quota``: nobody gets more mails than the site allows, nor one after saying stop."""

from datetime import timedelta

from schedperf.culprit.record import Check
from schedperf.mail.checks.context import Context, judge
from schedperf.mail.checks.new import date_of
from schedperf.mail.outbox import Mail

_LEAVES = ("approved", "sending", "sent")
_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


def check(context: Context) -> Check:
    """Fail over the quota of a day or of a recipient, or if a reply silenced the thread."""
    return judge("quota", _silenced(context), _per_day(context), _per_recipient(context))


def _leaving(context: Context, within: timedelta) -> list[Mail]:
    return [
        each
        for each in context.earlier
        if each.state in _LEAVES and abs(context.now - date_of(each)) < within
    ]


def _silenced(context: Context) -> str | None:
    own = context.message.metadata
    recipients = {address.lower() for address in (*own.to, *own.cc)}
    for decision in context.decisions:
        thread = own.commit or own.kind
        if decision.act == "silence" and decision.thread == thread:
            return f"a reply stopped mails about {thread}: write yourself, if you must"
        if decision.act == "suspend" and (decision.address or "").lower() in recipients:
            return f"{decision.address} is suspended, because a mail bounced: correct the address"
    return None


def _per_day(context: Context) -> str | None:
    most = context.site.quota.per_day
    if len(_leaving(context, _DAY)) >= most:
        return f"{most} mails in the last 24 hours (quota.per_day): wait"
    return None


def _per_recipient(context: Context) -> str | None:
    own, most = context.message.metadata, context.site.quota.per_recipient_and_week
    week = _leaving(context, _WEEK)
    for address in (*own.to, *own.cc):
        if address == context.site.site.list:
            continue
        got = [each for each in week if address in (*each.metadata.to, *each.metadata.cc)]
        if len(got) >= most:
            return f"{address} got {len(got)} mails in 7 days (quota.per_recipient_and_week): wait"
    return None
