# SPDX-License-Identifier: GPL-2.0-or-later
"""Draft the weekly digest for the site's own list: results, lost nights, and mails by state.

Categories without an entry are listed, too. So a week without results has a digest, and a missing
digest indicates a failure.
"""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from schedperf.model.comparison import Comparison
from schedperf.model.rows import Row, digest_of
from schedperf.model.units import percent
from schedperf.model.verdict import count_units
from schedperf.publish.culprit.figures import has_change, is_emulated, show_both, worst_first
from schedperf.publish.mail.address import parse_mailbox
from schedperf.publish.mail.checks import balance
from schedperf.publish.mail.headers import SUBJECT_COLUMNS, message_id, parse, write_header
from schedperf.publish.mail.message import Message, Metadata
from schedperf.publish.mail.nights import NightSummary, directions_of
from schedperf.publish.mail.outbox import NEVER_SENT, Mail
from schedperf.publish.mail.plain import cut, cut_middle, join_paragraphs, spell, wrap
from schedperf.publish.mail.recipients import own_list
from schedperf.publish.mail.render.report import signature
from schedperf.publish.mail.site import MailSite
from schedperf_reports.words.rows import count_of

MOST_LISTED = 8
_DAYS = 7
_KEY_DIGITS = 8
_LONGEST_NAME = 60
_LABEL_COLUMNS = 14
_NO_NIGHTS = f"no nights of the last {_DAYS} days were given"
_FIRST_LINE = "  {label:<12}"


class _Week(Struct, frozen=True, kw_only=True):
    """The data of a digest; its title and its lists use the same rows.

    :param nights: nights of the last seven days
    :param history: all nights that were given
    :param mails: all mails of the outbox
    """

    comparisons: Sequence[Comparison]
    nights: Sequence[NightSummary]
    history: Sequence[NightSummary]
    mails: Sequence[Mail]

    @property
    def rows(self) -> list[Row]:
        """Return all results but informational ones."""
        rows = (row for each in self.comparisons for row in each.rows)
        return [row for row in rows if row.family != "informational"]

    @property
    def regressed(self) -> list[Row]:
        """Return the results that regressed and have a change, the largest change first."""
        return worst_first(
            [row for row in self.rows if row.verdict == "regression" and has_change(row)]
        )


def draft_digest(
    comparisons: Sequence[Comparison],
    nights: Sequence[NightSummary],
    mails: Sequence[Mail],
    site: MailSite,
    now: datetime,
) -> Message:
    """Return the digest of the week of ``now``, without checks.

    :param nights: nights of the last seven days are listed; the changes of all nights are counted
    :param mails: all mails of the outbox
    :raises InputError: a text is not ASCII, or the Message-ID is too long
    """
    year, week, _ = now.isocalendar()
    oldest = f"{now - timedelta(days=_DAYS):%Y-%m-%d}"
    reported = _Week(
        comparisons=comparisons,
        nights=[night for night in nights if night.id >= oldest],
        history=nights,
        mails=mails,
    )
    key = digest_of([site.site.domain, year, week])[:_KEY_DIGITS]
    number = 1 + sum(
        mail.metadata.kind == "digest" and f".{key}." in mail.id and mail.state in NEVER_SENT
        for mail in mails
    )
    local = f"schedperf.1.{year}-w{week:02}.{key}.digest.{number}"
    identity = message_id(local, site.site.domain)
    title = f"[schedperf] {year} week {week}: {_summary(reported)}"
    subject = cut(title, SUBJECT_COLUMNS)
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
    body = join_paragraphs([list(_lines(reported))]) + signature(site)
    content = f"{header}\n\n{_in_ascii(body)}".encode()
    parse(content)
    return Message(
        metadata=Metadata(
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


def _in_ascii(body: str) -> str:
    """Return the body unchanged if it is ASCII.

    :raises InputError: it has other characters
    """
    for line in body.splitlines():
        spell(line, where="digest")
    return body


def _summary(week: _Week) -> str:
    regressed = len(week.regressed)
    none = "no regressions" if week.rows else "no results"
    found = count_of(regressed, "regression") if regressed else none
    finished = sum(not night.is_lost for night in week.nights)
    compared = count_of(len(week.comparisons), "comparison")
    basis = f"{finished} of {len(week.nights)} nights" if week.nights else compared
    return f"{found}, {basis}"


def _lines(week: _Week) -> Iterator[str]:
    yield from _line("tracked", _tracked(week))
    yield from _line("sensitivity", _sensitivity(week.rows))
    yield from _list("regressed", [_change(row) for row in week.regressed])
    emulated = sum(is_emulated(row) for each in week.comparisons for row in each.rows)
    if emulated:
        yield from _line("emulated", f"{count_of(emulated, 'result')} without a verdict")
    yield from _line("retested", _retested(week.nights) if week.nights else _NO_NIGHTS)
    yield from _line("balance", balance.describe(directions_of(week.history)))
    lost = [_lost(night) for night in week.nights if night.is_lost]
    yield from _list("lost", lost if week.nights else [_NO_NIGHTS])
    yield from _line("mails", _mails(week.mails))


def _tracked(week: _Week) -> str:
    machines = {night.machine for night in week.nights}
    on = f" on {count_of(len(machines), 'machine')}" if machines else ""
    unclear = sum(row.verdict in ("inconclusive", "invalid") for row in week.rows)
    results = count_of(len(week.rows), "result")
    compared = count_of(len(week.comparisons), "comparison")
    return f"{results}{on} in {compared}; {unclear} inconclusive or invalid"


def _retested(nights: Sequence[NightSummary]) -> str:
    suspected = [night for night in nights if night.verdict == "regression"]
    retested = [night for night in suspected if night.retest is not None]
    reproduced = sum(night.retest == "regression" for night in retested)
    left = len(suspected) - len(retested)
    not_yet = f"; {left} not retested" if left else ""
    return f"{count_of(len(suspected), 'suspected regression')}, {reproduced} reproduced{not_yet}"


def _sensitivity(rows: Sequence[Row]) -> str:
    smallest = [row.mde for row in rows if row.mde is not None]
    if not smallest:
        return "smallest detectable change unknown: no result has one"
    return f"median smallest detectable change {percent(statistics.median(smallest))} (80% power)"


def _change(row: Row) -> str:
    workload = ", ".join(filter(None, (row.workload, row.point)))
    name = cut_middle(f"{row.metric} ({workload})", _LONGEST_NAME)
    return f"{show_both(row)} {name}, n = {count_units(row.n_base, row.n_new, row.replication)}"


def _lost(night: NightSummary) -> str:
    outcome = cut(night.outcome or "unfinished", _LONGEST_NAME)
    return f"{night.machine}, {night.job}, {night.id}: {outcome}"


def _mails(mails: Sequence[Mail]) -> str:
    states = Counter(mail.state for mail in mails)
    return f"{states['held']} held, {states['approved']} approved, {states['sent']} sent"


def _list(label: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield the lines of at most eight texts and the number of the others; "0" without a text."""
    if not texts:
        yield from _line(label, "0")
        return
    yield from _line(label, texts[0])
    for text in texts[1:MOST_LISTED]:
        yield from _line("", text)
    if len(texts) > MOST_LISTED:
        yield from _line("", f"{len(texts) - MOST_LISTED} more")


def _line(label: str, text: str) -> list[str]:
    plain = spell(text, where=label or "digest")
    first = _FIRST_LINE.format(label=label)
    return wrap(cut(plain, 3 * _LONGEST_NAME), first=first, rest=" " * _LABEL_COLUMNS)
