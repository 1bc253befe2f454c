# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``quota``: no recipient gets more mails than the site allows, or a mail after "stop".

It does not prevent an approval: the limits are looked at again when the mail is sent.
"""

from schedperf.culprit.record import Check
from schedperf.mail.checks.context import Context
from schedperf.mail.limits import QUOTA, over_quota, prohibitions


def check(context: Context) -> Check:
    """Fail over the quota of a day or of a recipient, or if a reply silenced the thread."""
    own, site = context.message.metadata, context.site
    return Check.of(
        QUOTA,
        *prohibitions(own, site, context.decisions),
        *over_quota(own, site, context.earlier, context.now),
    )
