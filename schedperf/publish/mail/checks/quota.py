# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``quota``: the site and its quota permit the mail, and no reply or bounce forbids it.

A failure does not prevent an approval, because all of this is checked again: the quota when the
mail is sent, the rest also when it is approved.
"""

from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context
from schedperf.publish.mail.limits import QUOTA, over_quota, prohibitions


def check(context: Context) -> Check:
    """Fail for a recipient that is forbidden or bounced, a silenced thread, or a used-up quota."""
    own, site = context.message.metadata, context.site
    return Check.of(
        QUOTA,
        *prohibitions(own, site, context.decisions),
        *over_quota(own, site, context.earlier, context.now),
    )
