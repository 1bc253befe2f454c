# SPDX-License-Identifier: GPL-2.0-or-later
"""Draft the weekly digest, for the site's own list: what was measured, lost and held.

Weak and empty cases are lines, never left out: that no digest comes is the alarm.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.bundle.json import decode
from schedperf.culprit.figures import has_change, is_emulated, show_change, worst_first
from schedperf.mail.address import parse_mailbox
from schedperf.mail.headers import SUBJECT_COLUMNS, message_id, parse, write_header
from schedperf.mail.message import Message, Metadata
from schedperf.mail.outbox import Mail
from schedperf.mail.plain import cut, join_paragraphs, spell, wrap
from schedperf.mail.recipients import own_list
from schedperf.mail.render.report import signature
from schedperf.mail.site import MailSite
from schedperf.model.comparison import Comparison, Row, digest_of
from schedperf.model.units import percent

MOST_LISTED = 8
_KEY_DIGITS = 8
_LONGEST_NAME = 60
_LABEL_COLUMNS = 14
_FIRST_LINE = "  {label:<12}"

_Text = Annotated[str, Meta(max_length=4096)]


class NightSummary(Struct, frozen=True, kw_only=True):
    """What the digest needs of the state of a night, ``schedperf/night/1``.

    :param outcome: how it ended, one line; None: unfinished
    :param failed: it ended without an answer
    """

    schema: Literal["schedperf/night/1"]
    id: _Text
    machine: _Text
    job: _Text
    outcome: _Text | None = None
    failed: bool = False

    @property
    def is_lost(self) -> bool:
        """Return whether the night has no result."""
        return self.failed or self.outcome is None


def read_night(content: bytes, name: str) -> NightSummary:
    """Parse the state of a night.

    :param name: file, for messages
    :raises BundleError: it is damaged, or of another version
    """
    return decode(content, NightSummary, name)


def draft_digest(
    comparisons: Sequence[Comparison],
    nights: Sequence[NightSummary],
    mails: Sequence[Mail],
    site: MailSite,
    now: datetime,
) -> Message:
    """Return the digest of the week of ``now``, without checks.

    :param mails: of the outbox
    """
    year, week, _ = now.isocalendar()
    key = digest_of([site.site.domain, year, week])[:_KEY_DIGITS]
    number = 1 + sum(
        mail.metadata.kind == "digest"
        and f".{key}." in mail.id
        and mail.state in ("withdrawn", "refused")
        for mail in mails
    )
    local = f"schedperf.1.{year}-w{week:02}.{key}.digest.{number}"
    identity = message_id(local, site.site.domain)
    subject = cut(_subject(year, week, comparisons, nights), SUBJECT_COLUMNS)
    recipients = own_list(site)
    header = write_header(
        sender=parse_mailbox(site.site.sender, "site.from"),
        to=recipients.to,
        cc=(),
        subject=subject,
        id=identity,
        parents=(),
        date=now,
        kind="digest",
        key=key,
        is_ascii=True,
    )
    body = join_paragraphs([list(_lines(comparisons, nights, mails))]) + signature(site)
    content = f"{header}\n\n{spell_body(body)}".encode()
    parse(content)
    return Message(
        metadata=Metadata(
            id=local,
            kind="digest",
            subject=subject,
            message_id=identity,
            to=tuple(address.addr_spec for address in recipients.to),
            cc=(),
            public=False,
            culprit=None,
            commit=None,
            fingerprint=None,
            rendered=now.isoformat(timespec="seconds"),
            checks=(),
        ),
        content=content,
    )


def spell_body(body: str) -> str:
    """Return a body in ASCII.

    :raises InputError: it has other characters
    """
    for line in body.splitlines():
        spell(line, where="digest")
    return body


def _subject(
    year: int, week: int, comparisons: Sequence[Comparison], nights: Sequence[NightSummary]
) -> str:
    regressed = sum(each.overall.verdict == "regression" for each in comparisons)
    found = f"{regressed or 'no'} new regression{'s' * (regressed != 1)}"
    finished = sum(not night.is_lost for night in nights)
    return f"[schedperf] {year} week {week}: {found}, {finished} of {len(nights)} nights"


def _lines(
    comparisons: Sequence[Comparison], nights: Sequence[NightSummary], mails: Sequence[Mail]
) -> Iterator[str]:
    rows = [row for each in comparisons for row in each.rows if row.family != "informational"]
    yield from _line("tracked", _tracked(rows, comparisons, nights))
    yield from _line("sensitivity", _sensitivity(rows))
    regressed = worst_first(
        [row for row in rows if row.verdict == "regression" and has_change(row)]
    )
    yield from _list("regressed", [_change(row) for row in regressed])
    emulated = sum(is_emulated(row) for each in comparisons for row in each.rows)
    if emulated:
        yield from _line("emulated", f"{_count(emulated, 'result')} without a verdict")
    yield from _list("lost", [_lost(night) for night in nights if night.is_lost])
    yield from _line("mails", _mails(mails))


def _tracked(
    rows: Sequence[Row], comparisons: Sequence[Comparison], nights: Sequence[NightSummary]
) -> str:
    machines = {night.machine for night in nights}
    on = f" on {_count(len(machines), 'machine')}" if machines else ""
    unclear = sum(row.verdict in ("inconclusive", "invalid") for row in rows)
    compared = _count(len(comparisons), "comparison")
    return f"{_count(len(rows), 'result')}{on} in {compared}; {unclear} inconclusive or invalid"


def _sensitivity(rows: Sequence[Row]) -> str:
    smallest = [row.mde for row in rows if row.mde is not None]
    if not smallest:
        return "smallest detectable change unknown: no result has one"
    return f"median smallest detectable change {percent(statistics.median(smallest))} (80% power)"


def _change(row: Row) -> str:
    assert row.ratio is not None
    return f"{cut(row.metric, _LONGEST_NAME)}: {show_change(row.ratio)}"


def _lost(night: NightSummary) -> str:
    outcome = cut(night.outcome or "unfinished", _LONGEST_NAME)
    return f"{night.machine}, {night.job}, {night.id}: {outcome}"


def _mails(mails: Sequence[Mail]) -> str:
    states = Counter(mail.state for mail in mails)
    return f"{states['held']} held, {states['approved']} approved, {states['sent']} sent"


def _list(label: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield a line per text, or that there is none."""
    if not texts:
        yield from _line(label, "0")
        return
    yield from _line(f"{label}", texts[0])
    for text in texts[1:MOST_LISTED]:
        yield from _line("", text)
    if len(texts) > MOST_LISTED:
        yield from _line("", f"{len(texts) - MOST_LISTED} more")


def _line(label: str, text: str) -> list[str]:
    plain = spell(text, where=label or "digest")
    first = _FIRST_LINE.format(label=label)
    return wrap(cut(plain, 3 * _LONGEST_NAME), first=first, rest=" " * _LABEL_COLUMNS)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
