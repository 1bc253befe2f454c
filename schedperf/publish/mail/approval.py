# SPDX-License-Identifier: GPL-2.0-or-later
"""Apply a person's decision about a mail: approve, withdraw, or record whether it arrived."""

from datetime import datetime

from schedperf.model.errors import InputError
from schedperf.publish.mail.envelope import envelope_of
from schedperf.publish.mail.limits import QUOTA, obstacles
from schedperf.publish.mail.message import Metadata
from schedperf.publish.mail.outbox import Act, Decision, Mail, Outbox, State, digest, timestamp
from schedperf.publish.mail.regzbot import add_regzbot
from schedperf.publish.mail.site import MailSite


def approve(
    outbox: Outbox, site: MailSite, mail: Mail, who: str, now: datetime, *, regzbot: bool = False
) -> Mail:
    """Approve a held mail, or one that a server refused; return it.

    :param who: the person who approves it
    :param regzbot: ask regzbot to track the regression; the mail must be held
    :raises InputError: the mail is in another state, must not be sent, or has changed; or the
        outbox has a problem
    """
    _expect(mail, {"held"} if regzbot else {"held", "refused"}, "approve")
    with outbox.locked():
        stored = outbox.held_content(mail) if mail.state == "held" else outbox.content(mail)
        metadata, content = mail.metadata, stored
        # An approval that was interrupted between the two files is completed.
        if mail.state == "held" and (regzbot or digest(stored) != mail.last.sha256):
            metadata, content = add_regzbot(metadata, stored)
        _check(metadata, content, site, outbox, now)
        if content != stored:
            mail = outbox.replace(mail, metadata, content, who, "regzbot's paragraph was added")
        return _decide(outbox, mail, "approve", "approved", who=who, now=now)


def _check(
    metadata: Metadata, content: bytes, site: MailSite, outbox: Outbox, now: datetime
) -> None:
    failed = failed_checks(metadata)
    if failed and metadata.public:
        raise InputError(
            f"{metadata.id}: {len(failed)} check{'s' * (len(failed) != 1)} failed, which a mail "
            f"to a public list must pass ({failed[0]}); schedperf mail why {metadata.id}"
        )
    envelope_of(metadata, content, site)
    if found := obstacles(outbox, site, metadata, content, now):
        raise InputError(f"{metadata.id}: {found[0]}")


def withdraw(outbox: Outbox, mail: Mail, who: str, now: datetime, reason: str = "") -> Mail:
    """Withdraw a mail that was not sent; return it.

    :raises InputError: it was sent, may have been, or was withdrawn already; or the outbox cannot
        be written
    """
    _expect(mail, {"held", "approved", "refused"}, "withdraw")
    return _decide(outbox, mail, "withdraw", "withdrawn", who=who, now=now, reason=reason)


def resolve(outbox: Outbox, mail: Mail, who: str, now: datetime, *, arrived: bool) -> Mail:
    """Record a person's answer whether a mail arrived; return the mail, now sent or approved.

    :param arrived: whether it arrived; if not, it is approved and sent again
    :raises InputError: the mail is not in the state ``sending`` (or ``approved``, if it arrived);
        or another process is sending now
    """
    _expect(mail, {"sending", "approved"} if arrived else {"sending"}, "resolve")
    with outbox.sending_alone():
        # A sender that has just ended may have moved it.
        mail = outbox.find(mail.id)
        _expect(mail, {"sending", "approved"} if arrived else {"sending"}, "resolve")
        if arrived:
            return _decide(outbox, mail, "arrived", "sent", who=who, now=now)
        return _decide(outbox, mail, "not-arrived", "approved", who=who, now=now)


def failed_checks(metadata: Metadata) -> tuple[str, ...]:
    """Return one line per failed check: its name and what would satisfy it.

    The quota is left out, because the quota on the day of the draft does not predict the day of
    sending.
    """
    return tuple(
        f"{check.name}: {check.reason}"
        for check in metadata.checks
        if not check.passed and check.name != QUOTA
    )


def _expect(mail: Mail, states: set[State], verb: str) -> None:
    if mail.state in states:
        return
    advice = {
        "sending": "it may have been sent; schedperf mail resolve",
        "sent": "it was sent",
        "approved": "schedperf mail send",
        "withdrawn": "draft it again",
    }.get(mail.state, "schedperf mail show")
    raise InputError(
        f"{mail.id}: cannot {verb} a mail that is {mail.state} (expected "
        f"{' or '.join(sorted(states))}); {advice}"
    )


def _decide(
    outbox: Outbox, mail: Mail, act: Act, state: State, *, who: str, now: datetime, reason: str = ""
) -> Mail:
    with outbox.locked():
        outbox.decide(
            Decision(
                act=act,
                when=timestamp(now),
                who=who,
                id=mail.id,
                thread=mail.thread,
                reason=reason,
            )
        )
        shown = act if act in {"arrived", "not-arrived"} else reason
        return outbox.move(mail, state, who, shown, now=now)
