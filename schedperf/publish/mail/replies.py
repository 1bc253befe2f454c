# SPDX-License-Identifier: GPL-2.0-or-later
"""Read replies: ``stop`` and ``expected`` silence a thread, and bounces suspend an address.

Replies of people are noted, so that ``mail list`` shows them.

Replies are untrusted, so a reply can only reduce what the bot sends.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default as policy
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from pathlib import Path

from msgspec import Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line
from schedperf.publish.mail.inbox import find_repositories, read_messages
from schedperf.publish.mail.limits import recipients_of, silenced_threads, suspended_addresses
from schedperf.publish.mail.maildir import list_messages
from schedperf.publish.mail.outbox import Decision, Mail, Outbox, timestamp

_LARGEST_REPLY = 1 << 22
# Tolerance for the clocks of mail servers.
_EARLIER = timedelta(days=1)
_LONGEST_NAME = 100
# Replies to a mail that are noted: anyone can send some.
_MOST_NOTED = 100
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")
# Mails contain the word in quotes, which some people repeat.
_QUOTES = r"[\"'\u2018-\u201d]?"
_WORD = re.compile(rf"(?:please )?{_QUOTES}(stop|expected)[.!]?{_QUOTES}[.!]?", re.IGNORECASE)
_RECIPIENT = re.compile(
    r"^(?:Final|Original)-Recipient:\s*rfc822\s*;\s*<?([^\s<>]{1,254})>?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
_FAILED = re.compile(r"^Action:\s*failed\s*$", re.IGNORECASE | re.MULTILINE)
_AUTOMATIC_PRECEDENCE = {"bulk", "junk", "auto_reply"}
_WHO = "schedperf mail replies"
_MALFORMED = (
    MessageError,
    ValueError,
    IndexError,
    KeyError,
    AttributeError,
    TypeError,
    RecursionError,
)


class Heard(Struct, frozen=True, kw_only=True):
    """The effect of a reply or a bounce.

    :param file: name of its file in a Maildir, or its commit in a public-inbox
    :param effect: one line
    """

    file: str
    effect: str


class _Reply(Struct, frozen=True, kw_only=True):
    """The relevant fields of a mail.

    :param references: Message-IDs of the mails that it answers, or that a delivery report returns
    :param word: ``stop`` or ``expected``; None without such a word, or for an automatic mail
    :param bounced: addresses that a delivery report lists as failed
    :param answers: Message-ID of the mail that it answers directly; None without one
    :param is_automatic: whether a program has written it
    :param written: its date; None without a valid one
    """

    sender: str
    message_id: str | None
    references: tuple[str, ...]
    word: str | None
    bounced: tuple[str, ...]
    answers: str | None
    is_automatic: bool
    written: datetime | None


def read_replies(outbox: Outbox, path: Path, now: datetime) -> Iterator[Heard]:
    """Apply the requests of replies, and yield each effect; applying a reply again has none.

    A mail that cannot be read as one is yielded, too.

    :param path: Maildir, public-inbox or clone of one; it is not modified
    :raises InputError: it cannot be read, or the outbox cannot be read or written
    """
    with outbox.locked():
        mails = {mail.metadata.message_id: mail for mail in outbox.mails()}
        first = min((_began(mail) for mail in mails.values()), default=now)
        for name, content in _contents(path, first - _EARLIER):
            reply = None if content is None else _parse(content)
            if reply is None:
                yield Heard(file=name, effect="not readable as a mail; read it yourself")
                continue
            answered = [mails[id_] for id_ in reply.references if id_ in mails]
            for effect in (
                *_silence(outbox, reply, answered, now),
                *_suspend(outbox, reply, answered, now),
                *_note(outbox, reply, answered, now),
            ):
                yield Heard(file=name, effect=effect)


def _note(outbox: Outbox, reply: _Reply, answered: Iterable[Mail], now: datetime) -> Iterator[str]:
    """Note a reply of a person once, for each mail that it answers directly."""
    own = {mail.metadata.message_id for mail in outbox.mails()}
    if reply.is_automatic or reply.message_id is None or reply.message_id in own:
        return
    mails = list(answered)
    direct = [mail for mail in mails if mail.metadata.message_id == reply.answers] or mails[-1:]
    known = [(each.id, each.reply) for each in outbox.decisions() if each.act == "reply"]
    for mail in direct:
        of_mail = [id_ for name, id_ in known if name == mail.id]
        if reply.message_id in of_mail or len(of_mail) >= _MOST_NOTED:
            continue
        outbox.decide(
            Decision(
                act="reply",
                when=timestamp(now),
                who=reply.sender,
                id=mail.id,
                thread=mail.thread,
                reply=reply.message_id,
                written=None if reply.written is None else timestamp(reply.written),
            )
        )
        yield f"{reply.sender} replied to {mail.id}"


def _silence(
    outbox: Outbox, reply: _Reply, answered: Iterable[Mail], now: datetime
) -> Iterator[str]:
    if reply.word is None:
        return
    said = f"{reply.sender} replied {reply.word!r}"
    threads = {mail.thread for mail in answered}
    for thread in sorted(threads - set(silenced_threads(outbox.decisions()))):
        outbox.decide(
            Decision(
                act="silence",
                when=timestamp(now),
                who=reply.sender,
                thread=thread,
                reply=reply.message_id,
                reason=reply.word,
            )
        )
        yield f"{said}: no more mails about {thread}"
    for mail in outbox.mails():
        if mail.thread in threads and mail.state in {"held", "approved"}:
            outbox.move(mail, "withdrawn", _WHO, said, now=now)
            yield f"{mail.id} was {mail.state}, now withdrawn"


def _suspend(
    outbox: Outbox, reply: _Reply, answered: Iterable[Mail], now: datetime
) -> Iterator[str]:
    # Only addresses of a returned mail are suspended, because anyone can send a report about any
    # address.
    written_to = {address for mail in answered for address in recipients_of(mail.metadata)}
    bounced = written_to.intersection(reply.bounced)
    for address in sorted(bounced - suspended_addresses(outbox.decisions())):
        outbox.decide(
            Decision(
                act="suspend",
                when=timestamp(now),
                who=_WHO,
                address=address,
                reply=reply.message_id,
            )
        )
        yield f"bounced: no more mails to {address}"


# --- parse mails


def _parse(content: bytes) -> _Reply | None:
    """Parse a mail; return ``None`` if it is malformed."""
    try:
        return _understand(BytesParser(policy=policy).parsebytes(content))
    # The parser of Python 3.11 raises several kinds of errors for malformed mails.
    except _MALFORMED:
        return None


def _understand(reply: EmailMessage) -> _Reply:
    bounced = _bounced(reply)
    return _Reply(
        sender=clean_line(_header(reply, "From"))[:_LONGEST_NAME] or "unknown sender",
        message_id=next(iter(_MESSAGE_ID.findall(_header(reply, "Message-ID"))), None),
        references=_returned(reply) if bounced else _references(reply),
        word=None if _is_automatic(reply) else _word_of(reply),
        bounced=bounced,
        answers=next(iter(_MESSAGE_ID.findall(_header(reply, "In-Reply-To"))), None),
        is_automatic=_is_automatic(reply),
        written=_date_of(reply),
    )


def _date_of(reply: EmailMessage) -> datetime | None:
    try:
        written = parsedate_to_datetime(_header(reply, "Date"))
        aware = written if written.tzinfo else written.replace(tzinfo=UTC)
        return aware.astimezone(UTC)
    except (*_MALFORMED, OverflowError):
        return None


def _bounced(reply: EmailMessage) -> tuple[str, ...]:
    """Return the addresses that a delivery report lists as failed; none for other mails."""
    if reply.get_content_type() != "multipart/report":
        return ()
    # Each recipient has a group of fields, which the parser returns as a part of its own.
    groups = [
        part.as_string()
        for status in reply.walk()
        if status.get_content_type() == "message/delivery-status"
        for part in status.walk()
        if part is not status
    ]
    return tuple(
        address.lower()
        for group in groups
        if _FAILED.search(group)
        for address in _RECIPIENT.findall(group)
    )


def _returned(report: EmailMessage) -> tuple[str, ...]:
    """Return all Message-IDs in a delivery report, which contains the returned mail's header."""
    return tuple(_MESSAGE_ID.findall(report.as_string(policy=policy.clone(max_line_length=None))))


def _is_automatic(reply: EmailMessage) -> bool:
    return (
        _header(reply, "Auto-Submitted").lower() not in {"", "no"}
        or _header(reply, "Precedence").lower() in _AUTOMATIC_PRECEDENCE
        or _header(reply, "Return-Path") == "<>"
        or reply.get_content_type() == "multipart/report"
    )


def _references(reply: EmailMessage) -> tuple[str, ...]:
    fields = f"{_header(reply, 'References')} {_header(reply, 'In-Reply-To')}"
    return tuple(_MESSAGE_ID.findall(fields))


def _word_of(reply: EmailMessage) -> str | None:
    """Return ``stop`` or ``expected`` if it is alone on a line that is not quoted; else None.

    "Please" before it, quotes around it and a full stop or exclamation mark are ignored.
    """
    for line in _text_of(reply).splitlines():
        if match := _WORD.fullmatch(" ".join(line.split())):
            return match[1].lower()
    return None


def _text_of(reply: EmailMessage) -> str:
    part = reply.get_body(("plain", "html"))
    if part is None:
        return ""
    payload = part.get_payload(decode=True)
    text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    return _Lines.of(text) if part.get_content_type() == "text/html" else text


class _Lines(HTMLParser):
    """Collect the text of an HTML page outside of quotations."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._quotes = 0

    @classmethod
    def of(cls, page: str) -> str:
        parser = cls()
        parser.feed(page)
        parser.close()
        return "".join(parser._lines)

    def handle_starttag(self, tag: str, attrs: Iterable[tuple[str, str | None]]) -> None:  # noqa: ARG002 # HTMLParser's signature
        self._quotes += tag == "blockquote"
        self._lines.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._quotes -= tag == "blockquote"
        self._lines.append("\n")

    def handle_data(self, data: str) -> None:
        if self._quotes <= 0:
            self._lines.append(data)


def _header(reply: EmailMessage, name: str) -> str:
    try:
        return str(reply.get(name, "")).strip()
    except _MALFORMED:
        return ""


# --- find mails


def _began(mail: Mail) -> datetime:
    return datetime.fromisoformat(mail.history[0].when)


def _contents(path: Path, since: datetime) -> Iterator[tuple[str, bytes | None]]:
    """Yield name and content of each mail; the content is None if it is too large or unreadable.

    :param since: of a public-inbox, only messages that arrived later are read
    :raises InputError: the Maildir or the public-inbox cannot be read
    """
    repositories = find_repositories(path)
    for repository in repositories:
        yield from read_messages(repository, since, _LARGEST_REPLY)
    for file in [] if repositories else _files(path):
        yield file.name, _read(file)


def _read(file: Path) -> bytes | None:
    try:
        return read_regular(file, _LARGEST_REPLY, "a mail")
    except InputError:
        return None


def _files(maildir: Path) -> list[Path]:
    try:
        return list_messages(maildir)
    except OSError as error:
        raise InputError(
            f"{maildir}: cannot be read: {(error.strerror or str(error)).lower()} (expected a "
            "Maildir with new/ and cur/, or a clone of a public-inbox); check the path"
        ) from None
