# SPDX-License-Identifier: GPL-2.0-or-later
"""Send approved mails, each once, and determine the outcome of interrupted attempts."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.publish.mail.archive import Asked
from schedperf.publish.mail.envelope import envelope_of
from schedperf.publish.mail.limits import obstacles, over_quota, silenced_threads
from schedperf.publish.mail.outbox import Mail, Outbox
from schedperf.publish.mail.site import MailSite
from schedperf.publish.mail.transports import Accepted, Deliver, Failed, Outcome, Postponed, Refused

Result = Literal["sent", "refused", "withdrawn", "approved", "failed", "waits"]

_WHO = "schedperf mail send"
_NO_TRANSPORT = (
    "mail.toml has no [transport]: send the file with a mail client, then run schedperf mail "
    "resolve --arrived"
)

_LOOK = "look for it yourself, then schedperf mail resolve --arrived or --not-arrived"


class Sent(Struct, frozen=True, kw_only=True):
    """The outcome of sending a mail.

    :param result: the state that the mail has now. Instead of ``approved``, it is ``failed`` if the
        transport or the archive failed. It is ``waits`` if a person must act; the mail is then
        approved, or still in the state ``sending`` after an attempt with an unknown outcome
    :param reason: why, one line; may be "" for a mail that was sent
    """

    id: str
    result: Result
    reason: str = ""


class Sender:
    """Sends the approved mails of an outbox.

    :param deliver: the transport; ``None`` if a person sends the files
    :param archive: where sent mails can be found; ``None`` if nowhere
    :param now: time of this run
    """

    def __init__(
        self,
        outbox: Outbox,
        site: MailSite,
        deliver: Deliver | None,
        archive: Asked | None,
        now: datetime,
    ) -> None:
        self._outbox = outbox
        self._site = site
        self._deliver = deliver
        self._archive = archive
        self._now = now

    def send(self) -> Iterator[Sent]:
        """Settle interrupted attempts, then send the approved mails, oldest approval first.

        :raises InputError: another process is sending, or the outbox has a problem; no further mail
            is sent
        """
        with self._outbox.sending_alone():
            self._outbox.tidy()
            for mail in self._in("sending"):
                yield self._settle(mail)
            for mail in self._in("approved"):
                yield self._send(mail)

    def _in(self, state: str) -> list[Mail]:
        mails = [mail for mail in self._outbox.mails() if mail.state == state]
        return sorted(mails, key=lambda mail: (mail.last.when, mail.id))

    # --- interrupted attempts

    def _settle(self, mail: Mail) -> Sent:
        """Query the archive for the outcome of an attempt, and move the mail accordingly.

        A mail that the archive lacks is approved again if the archive has a message that is newer
        than the attempt by ``delay_minutes``. Otherwise a person must decide.
        """
        if self._archive is None or self._site.archive is None:
            return _waits(mail, f"interrupted, and mail.toml names no archive; {_LOOK}")
        try:
            # The order matters: a message that arrives in between must not be taken for a later
            # one.
            newest = self._archive.newest(self._now)
            arrived = self._archive.holds(mail.metadata.message_id)
        except InputError as error:
            return _waits(mail, str(error))
        if arrived:
            return self._move(mail, "sent", "found in the archive")
        after = _attempt(mail) + timedelta(minutes=self._site.archive.delay_minutes)
        if newest is not None and newest >= after:
            self._move(mail, "approved", f"not in the archive, which has a message of {newest}")
            return Sent(id=mail.id, result="approved", reason="not in the archive; sent again")
        since = f"{after:%Y-%m-%d %H:%M} UTC"
        return _waits(mail, f"not in the archive, which has no message newer than {since}; {_LOOK}")

    # --- sending

    def _send(self, mail: Mail) -> Sent:
        if mail.thread in silenced_threads(self._outbox.decisions()):
            return self._move(mail, "withdrawn", "a reply silenced the thread")
        content = self._outbox.content(mail)
        envelope = envelope_of(mail.metadata, content, self._site)
        if found := obstacles(self._outbox, self._site, mail.metadata, content, self._now):
            return _waits(mail, "; ".join(found))
        if over := over_quota(mail.metadata, self._site, self._outbox.mails(), self._now):
            return Sent(id=mail.id, result="approved", reason="; ".join(over))
        if self._deliver is None:
            return _waits(mail, _NO_TRANSPORT)
        try:
            newest = self._archive.newest(self._now) if self._archive else None
        except InputError as error:
            return Sent(id=mail.id, result="failed", reason=str(error))
        archived_until = newest.isoformat() if newest else None
        attempt = self._outbox.move(
            mail, "sending", _WHO, now=self._now, archived_until=archived_until
        )
        return self._record(attempt, self._deliver(content, envelope))

    def _record(self, attempt: Mail, outcome: Outcome) -> Sent:
        if isinstance(outcome, Accepted):
            return self._move(attempt, "sent", outcome.note)
        if isinstance(outcome, Refused):
            return self._move(attempt, "refused", outcome.reason)
        if isinstance(outcome, Postponed):
            return self._move(attempt, "approved", outcome.reason)
        if isinstance(outcome, Failed):
            moved = self._move(attempt, "approved", outcome.reason)
            return replace(moved, result="failed")
        self._outbox.move(
            attempt,
            "sending",
            _WHO,
            outcome.reason,
            now=self._now,
            archived_until=attempt.last.archived_until,
        )
        return _waits(attempt, outcome.reason)

    def _move(
        self,
        mail: Mail,
        state: Literal["sent", "refused", "withdrawn", "approved"],
        reason: str,
    ) -> Sent:
        self._outbox.move(mail, state, _WHO, reason, now=self._now)
        return Sent(id=mail.id, result=state, reason=reason)


def _attempt(mail: Mail) -> datetime:
    """Return the time of the last attempt, or the date of the archive's newest message if later."""
    step = mail.last
    return max(datetime.fromisoformat(when) for when in (step.when, step.archived_until) if when)


def _waits(mail: Mail, reason: str) -> Sent:
    return Sent(id=mail.id, result="waits", reason=reason)
