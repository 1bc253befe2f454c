# SPDX-License-Identifier: GPL-2.0-or-later
"""Define :class:`Context`, what the checks of a mail know."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from schedperf.culprit.figures import Evidence, side_of
from schedperf.culprit.record import Check
from schedperf.mail.message import Message
from schedperf.mail.outbox import Decision, Mail
from schedperf.mail.site import MailSite
from schedperf.model.comparison import Comparison, SideSummary

# "unknown" where the archive or the server does not answer.
Answer = Literal["yes", "no", "unknown"]


class Context(Struct, frozen=True, kw_only=True):
    """A rendered mail, what it was drawn from, and what surrounds it.

    :param earlier: all other mails of the outbox
    :param decisions: of people and of replies
    :param has_newer_version: whether the archive has a newer version of a posted patch; None if no
        archive is configured
    :param is_reachable: whether an address answers; None if nothing may be asked
    :param undone_by: commits of the watched tree that revert or fix a commit; None if no repository
        was given
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

    @property
    def main(self) -> Comparison:
        """Return the comparison that the mail reports."""
        return self.evidence.comparison(self.evidence.culprit.main)

    @property
    def sides(self) -> tuple[SideSummary, SideSummary]:
        """Return the good side and the bad one."""
        measured = self.evidence.culprit.main
        return side_of(self.main, measured.before), side_of(self.main, measured.side)


def judge(name: str, *problems: str | None) -> Check:
    """Return a check: passed without a problem, else with the first problem as the reason."""
    reason = next((problem for problem in problems if problem), "")
    return Check(name=name, passed=not reason, reason=reason)
