# SPDX-License-Identifier: GPL-2.0-or-later
"""Make what a check of a mail gets: a mail that passes, and one thing that differs."""

from collections.abc import Sequence
from typing import Any

from schedperf.commands._printed import check_command
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.mail.checks.context import Context
from schedperf.publish.mail.draft import Request, draft
from schedperf.publish.mail.message import Kind
from schedperf.publish.mail.outbox import Mail, State, Transition
from schedperf.publish.mail.recipients import Maintainers, choose_recipients
from schedperf.publish.mail.site import MailSite
from tests.schedperf.publish.mail.records import NOW, make_evidence, make_site


def make_context(
    evidence: Evidence | None = None,
    *,
    kind: Kind = "report",
    site: MailSite | None = None,
    earlier: Sequence[Mail] = (),
    **fields: Any,
) -> Context:
    """Return what the checks of a mail get; without arguments all checks pass."""
    evidence, site = evidence or make_evidence(), site or make_site()
    recipients = choose_recipients(evidence.culprit.bad, site, Maintainers())
    message = draft(
        Request(
            evidence=evidence,
            kind=kind,
            site=site,
            recipients=recipients,
            now=NOW,
            earlier=earlier,
        )
    )
    default: dict[str, Any] = {
        "message": message,
        "evidence": evidence,
        "site": site,
        "now": NOW,
        "earlier": earlier,
        "is_reachable": lambda _address: "yes",
        "check_command": check_command,
        "undone_by": (),
    }
    return Context(**{**default, **fields})


def make_mail(
    context: Context, state: State = "sent", when: str = "2026-11-26T12:00:00+00:00"
) -> Mail:
    """Return the mail of a context as one of the outbox."""
    step = Transition(state=state, when=when, who="a person", sha256="0" * 64)
    return Mail(state=state, metadata=context.message.metadata, history=(step,))
