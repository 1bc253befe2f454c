# SPDX-License-Identifier: GPL-2.0-or-later
"""Draft the weekly digest for the site's own list: causes of changes, what is lost, and the mails.

Categories without an entry are listed, too. So a week without results has a digest, and a missing
digest indicates a failure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime

from schedperf.history.questions.causes import Cause
from schedperf.history.questions.week import Week
from schedperf.model.rows import digest_of
from schedperf.model.units import interval_of, percent, signed
from schedperf.publish.culprit.workloads import command_at
from schedperf.publish.mail.address import parse_mailbox
from schedperf.publish.mail.checks import balance
from schedperf.publish.mail.headers import SUBJECT_COLUMNS, message_id, parse, write_header
from schedperf.publish.mail.message import Message, Metadata
from schedperf.publish.mail.outbox import NEVER_SENT, Mail
from schedperf.publish.mail.plain import cut, join_paragraphs, spell, wrap
from schedperf.publish.mail.recipients import own_list
from schedperf.publish.mail.render.report import signature
from schedperf.publish.mail.site import MailSite
from schedperf_reports.words.rows import count_of

MOST_LISTED = 8
_KEY_DIGITS = 8
_LONGEST_NAME = 60
_LABEL_COLUMNS = 14
_FIRST_LINE = "  {label:<12}"


def draft_digest(week: Week, mails: Sequence[Mail], site: MailSite, now: datetime) -> Message:
    """Return the digest of a week, without checks.

    :param mails: all mails of the outbox
    :raises InputError: a text is not ASCII, or the Message-ID is too long
    """
    year, number, _ = week.dates.first.isocalendar()
    key = digest_of([site.site.domain, year, number])[:_KEY_DIGITS]
    again = 1 + sum(
        mail.metadata.kind == "digest" and f".{key}." in mail.id and mail.state in NEVER_SENT
        for mail in mails
    )
    local = f"schedperf.1.{year}-w{number:02}.{key}.digest.{again}"
    identity = message_id(local, site.site.domain)
    subject = cut(f"[schedperf] {year} week {number}: {_summary(week)}", SUBJECT_COLUMNS)
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
    body = join_paragraphs([list(_lines(week, mails))]) + signature(site)
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


def _summary(week: Week) -> str:
    regressed = len(week.regressions)
    none = "no new regressions" if week.series else "no results"
    found = count_of(regressed, "regression") if regressed else none
    still_open = f"{len(week.open)} still open, " if week.open else ""
    return f"{found}, {still_open}{_nights(week)}"


def _nights(week: Week) -> str:
    if week.ended:
        return f"{week.ended - len(week.failed)} of {week.ended} nights"
    return count_of(week.days, "night")


def _lines(week: Week, mails: Sequence[Mail]) -> Iterator[str]:
    days = f"{week.dates.first} to {week.dates.last}"
    on = f" on {count_of(week.machines, 'machine')}" if week.machines else ""
    yield from _line("nights", f"{_nights(week)}, {days}: {week.series} series{on}")
    yield from _line("sensitivity", _sensitivity(week.sensitivity))
    yield from _list("regressed", [_describe(each, week.dates.last) for each in week.regressions])
    better = [each for each in week.new if each not in week.regressions]
    yield from _list("improved", [_describe(each, week.dates.last) for each in better])
    yield from _line("retested", _retested(week))
    yield from _list("still open", [_describe(each, week.dates.last) for each in week.open])
    yield from _line("balance", balance.describe(week.balance))
    yield from _list("lost", [*_lost(week)])
    yield from _line("mails", _mails(mails))


def _sensitivity(smallest: float | None) -> str:
    if smallest is None:
        return "smallest step of one night unknown: too few nights"
    return f"median smallest step that one night shows {percent(smallest)} (80% power)"


def _describe(cause: Cause, until: date) -> str:
    """Return one line about a cause: the change of its leading step, its reach and its state."""
    step, series = cause.leader.shown.step, cause.leader.shown.series
    change = signed(step.change) if step.change is not None else step.direction
    interval = ""
    if step.ci_low is not None and step.ci_high is not None:
        interval = f" {interval_of(step.ci_low, step.ci_high)}"
    command = " ".join(command_at(series.workload, series.point).shown)
    name = cut(f"{series.metric} ({command})", _LONGEST_NAME)
    machines = cause.machines
    reach = f" on {cut(machines[0], _LONGEST_NAME)}"
    if len(cause.steps) > 1:
        reach = f", {len(cause.steps)} results on {count_of(len(machines), 'machine')}"
    states = ", ".join(dict.fromkeys(each.state for each in cause.steps))
    days = until.toordinal() - step.day if step.day is not None else None
    age = f" ({count_of(days, 'day')})" if days is not None and days > 0 else ""
    return f"{change}{interval} {name}{reach}, since {step.night}{age}: {states}"


def _retested(week: Week) -> str:
    left = len(week.suspected) - week.reproduced - week.refuted
    not_yet = f", {left} not retested" if left else ""
    suspected = count_of(len(week.suspected), "suspected step")
    return f"{suspected}: {week.reproduced} reproduced, {week.refuted} not reproduced{not_yet}"


def _lost(week: Week) -> Iterator[str]:
    """Yield what has no result: the whole lab, machines, series of other machines, and nights."""
    lost = week.lost
    if lost.night.is_late:
        yield f"the lab has no result since {lost.night.night}"
    for machine in lost.machines:
        since = f"since {machine.last}" if machine.last else "at all"
        name = cut(machine.machine, _LONGEST_NAME)
        yield f"{name} has no result {since} ({count_of(machine.nights, 'night')})"
    gone = {machine.machine for machine in lost.machines}
    for each in lost.series:
        if each.series.machine_class not in gone:
            name = cut(f"{each.series.name} ({each.series.workload})", _LONGEST_NAME)
            yield f"{name} has no result since {each.last} ({count_of(each.nights, 'night')})"
    for night in week.failed:
        outcome = cut(night.outcome, _LONGEST_NAME)
        yield f"{night.machine}, {night.job}, {night.night}: {outcome}"


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
    return wrap(cut(plain, 4 * _LONGEST_NAME), first=first, rest=" " * _LABEL_COLUMNS)
