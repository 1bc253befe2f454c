# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the reasons for which a mail may not be sent.

They are recipients that the site does not allow, earlier replies, bounces, an old draft, a report
that was sent already, an answered mail that was not sent, and the quota.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from schedperf.publish.mail.address import address_of
from schedperf.publish.mail.headers import parse
from schedperf.publish.mail.message import Metadata
from schedperf.publish.mail.outbox import Decision, Mail, Outbox, State
from schedperf.publish.mail.site import MailSite

# Name of the check of these limits.
QUOTA = "quota"
# An older draft must be made and checked again, because its checks and its date are too old.
OLDEST_DRAFT = timedelta(days=14)
_TRIED: Collection[State] = ("sending", "sent")
_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


def recipients_of(metadata: Metadata) -> tuple[str, ...]:
    """Return the addresses of To and Cc, in lower case, each once.

    :raises InputError: one is invalid
    """
    mailboxes = (*metadata.to, *metadata.cc)
    return tuple(dict.fromkeys(address_of(mailbox, metadata.id) for mailbox in mailboxes))


def obstacles(
    outbox: Outbox, site: MailSite, metadata: Metadata, content: bytes, now: datetime
) -> tuple[str, ...]:
    """Return why a mail cannot be sent without a person's action, one line each.

    The quota needs no action, so :func:`over_quota` checks it.

    :param content: content of the mail, with a valid header
    :raises InputError: an address is invalid, or the outbox has a problem
    """
    mails = outbox.mails()
    return (
        *_too_old(metadata, now),
        *prohibitions(metadata, site, outbox.decisions()),
        *_reported_already(metadata, mails),
        *_answers_unsent(content, mails),
    )


def prohibitions(
    metadata: Metadata, site: MailSite, decisions: Sequence[Decision]
) -> tuple[str, ...]:
    """Return why a mail must not be sent at all, with the remedy of each reason; one line each.

    :raises InputError: an address is invalid
    """
    recipients = recipients_of(metadata)
    return (
        *_not_allowed(recipients, site),
        *_asked_to_stop(metadata, recipients, decisions),
    )


def _not_allowed(recipients: Collection[str], site: MailSite) -> Iterable[str]:
    for address in recipients:
        if not site.allows(address):
            yield f"{address} may not be written to; add it to allow in mail.toml"


def _asked_to_stop(
    metadata: Metadata, recipients: Collection[str], decisions: Sequence[Decision]
) -> Iterable[str]:
    thread = metadata.thread
    silenced = silenced_threads(decisions)
    if thread in silenced:
        yield f"mails about {thread} were silenced by a reply ({silenced[thread]}); withdraw it"
    for address in suspended_addresses(decisions).intersection(recipients):
        yield f"mails to {address} bounced; correct the address, then draft again"


def silenced_threads(decisions: Iterable[Decision]) -> dict[str, str]:
    """Return the silenced threads, each with the person who silenced it last.

    A thread is named by its commit, as in :attr:`Metadata.thread`.
    """
    return {
        decision.thread: decision.who
        for decision in decisions
        if decision.act == "silence" and decision.thread
    }


def suspended_addresses(decisions: Iterable[Decision]) -> set[str]:
    """Return the addresses whose mails bounced."""
    return {
        decision.address.lower()
        for decision in decisions
        if decision.act == "suspend" and decision.address
    }


def _too_old(metadata: Metadata, now: datetime) -> tuple[str, ...]:
    """Return why a mail to a public list must be drafted again: its checks are too old.

    :return: one line; () for a draft of at most 14 days, or a mail to the site only
    """
    age = now - datetime.fromisoformat(metadata.rendered)
    if not metadata.public or age <= OLDEST_DRAFT:
        return ()
    expected = f"(expected at most {OLDEST_DRAFT.days})"
    return (f"drafted {age.days} days ago {expected}; withdraw it, and draft and check it again",)


def _reported_already(metadata: Metadata, mails: Iterable[Mail]) -> tuple[str, ...]:
    """Return one line for each other report about the same record that is being sent or was sent.

    The check ``new`` looks for such reports when a mail is drafted. They are looked for again,
    because a person can approve a refused report after another draft was sent in its place.
    """
    return tuple(
        f"{mail.id} about this commit is {mail.state}; withdraw this one"
        for mail in mails
        if metadata.kind == mail.metadata.kind == "report"
        and (metadata.commit, metadata.culprit) == (mail.metadata.commit, mail.metadata.culprit)
        and metadata.id != mail.id
        and mail.state in _TRIED
        # A report about a range goes to the own list only, before the one about its commit.
        and mail.metadata.is_range == metadata.is_range
    )


def _answers_unsent(content: bytes, mails: Iterable[Mail]) -> tuple[str, ...]:
    """Return one line if the mail answers a mail of the outbox that was not sent yet; else ().

    :param content: content of the mail
    """
    answered = str(parse(content).get("In-Reply-To", "")).strip()
    return tuple(
        f"answers {mail.id}, which is {mail.state}; send that one first"
        for mail in mails
        if mail.metadata.message_id == answered and mail.state != "sent"
    )


def over_quota(
    metadata: Metadata, site: MailSite, mails: Iterable[Mail], now: datetime
) -> tuple[str, ...]:
    """Return the quotas that are used up, and when to send instead; one line each.

    :param mails: the outbox; the mail itself does not count
    :raises InputError: an address is invalid
    """
    attempts = [
        (mail, when)
        for mail in mails
        if mail.id != metadata.id and (when := attempted(mail)) is not None
    ]
    return (
        *_over_day(site, [when for _, when in attempts], now),
        # An attempt with a time in the future counts, too: the clock was set back.
        *_over_week(
            metadata, site, [mail.metadata for mail, when in attempts if now - when < _WEEK]
        ),
    )


def _over_day(site: MailSite, attempts: Iterable[datetime], now: datetime) -> Iterable[str]:
    if site.quota.per_day == 0:
        yield "per_day is 0 in mail.toml, so nothing is sent; increase it"
    elif sum(now - attempt < _DAY for attempt in attempts) >= site.quota.per_day:
        yield f"quota of {site.quota.per_day} mails per day is used up; send it tomorrow"


def _over_week(metadata: Metadata, site: MailSite, earlier: Iterable[Metadata]) -> Iterable[str]:
    most = site.quota.per_recipient_and_week
    week = [recipients_of(sent) for sent in earlier]
    for address in recipients_of(metadata):
        # The site's own list gets every mail.
        if address != site.site.list.lower() and sum(address in sent for sent in week) >= most:
            yield f"quota of {most} mails per week is used up for {address}; send it next week"


def attempted(mail: Mail) -> datetime | None:
    """Return when a mail was last sent, or may have been.

    For a mail that a person sent by hand, it is the time at which that person recorded it.

    :return: None unless the mail is in the state ``sending`` or ``sent``
    """
    if mail.state not in _TRIED:
        return None
    # A mail that a person sends by hand is resolved by that person and was never in sending/.
    times = [step.when for step in mail.history if step.state == "sending"] or [mail.last.when]
    return datetime.fromisoformat(times[-1])
