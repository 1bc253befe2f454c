# SPDX-License-Identifier: GPL-2.0-or-later
"""Define :class:`Context`, what the checks of a mail know."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from schedperf.culprit.figures import Evidence
from schedperf.mail.message import Message
from schedperf.mail.outbox import Decision, Mail
from schedperf.mail.site import MailSite

# "unknown" where the archive or the server does not answer.
Answer = Literal["yes", "no", "unknown"]


class Context(Struct, frozen=True, kw_only=True):
    """A rendered mail, what it was drawn from, and what surrounds it.

    :param earlier: all other mails of the outbox
    :param decisions: of people and of replies
    :param has_newer_version: whether the archive has a newer version of a posted patch; None if
        mail.toml names no archive of patches
    :param is_reachable: whether an address answers; None if nothing may be asked
    :param undone_by: commits of the watched tree that revert or fix a commit; None if no repository
        with the commit in its tree was given
    :param directions: of the changes that nights found, the last one last, True for a regression
    """

    message: Message
    evidence: Evidence
    site: MailSite
    now: datetime
    earlier: Sequence[Mail] = ()
    decisions: Sequence[Decision] = ()
    has_newer_version: Callable[[str], Answer] | None = None
    is_reachable: Callable[[str], Answer] | None = None
    undone_by: Sequence[str] | None = None
    directions: Sequence[bool] = ()
