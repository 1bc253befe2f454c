# SPDX-License-Identifier: GPL-2.0-or-later
"""Draft a mail: render its body and its header once, and derive its metadata.

The Message-ID is derived from the record, the kind of the mail and its number, so drafting a mail
again gives the same Message-ID. The date is a parameter. A reply belongs to the thread of the
report, and a report about an unmerged patch to the thread of the patch; all other mails begin a new
thread.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from schedperf.model.errors import InputError
from schedperf.model.rows import digest_of
from schedperf.publish.culprit.figures import Evidence, name_machine
from schedperf.publish.culprit.record import Check, Culprit
from schedperf.publish.culprit.workloads import command_of
from schedperf.publish.mail.address import parse_mailbox
from schedperf.publish.mail.headers import check_id, local_part, message_id, parse, write_header
from schedperf.publish.mail.message import Kind, Message, Metadata
from schedperf.publish.mail.outbox import NEVER_SENT, Mail
from schedperf.publish.mail.plain import quote, spell
from schedperf.publish.mail.recipients import Recipients
from schedperf.publish.mail.render.replies import again_body, bisected_body, fixed_body
from schedperf.publish.mail.render.report import names_of, report_body
from schedperf.publish.mail.render.subject import reply_subject, subject_of
from schedperf.publish.mail.site import MailSite

_FINDINGS = 3
_FINGERPRINT_DIGITS = 16


class Request(Struct, frozen=True, kw_only=True):
    """The mail to draft.

    :param kind: any kind but ``digest``
    :param now: date of the mail
    :param earlier: all mails of the outbox
    :param report: content of the report that the mail answers; None for a report, or if the outbox
        lacks the report
    """

    evidence: Evidence
    kind: Kind
    site: MailSite
    recipients: Recipients
    now: datetime
    earlier: Sequence[Mail] = ()
    report: bytes | None = None


def draft(request: Request) -> Message:
    """Return the mail, without checks.

    :raises InputError: there is nothing to report, no report to reply to, or a text is not allowed
        in mails
    """
    evidence, site, kind = request.evidence, request.site, request.kind
    culprit = evidence.culprit
    local = local_part(culprit.id, culprit.key, kind, number_of(culprit, kind, request.earlier))
    identity = message_id(local, site.site.domain)
    subject = subject_of(evidence) if kind == "report" else reply_subject(evidence)
    body = _body(evidence, site, kind)
    return _assemble(
        request,
        subject=subject,
        body=body,
        parents=_parents(request),
        metadata=Metadata(
            kind=kind,
            subject=subject,
            message_id=identity,
            to=tuple(address.addr_spec for address in request.recipients.to),
            cc=tuple(address.addr_spec for address in request.recipients.cc),
            public=request.recipients.is_public(site),
            culprit=culprit.key,
            commit=culprit.id,
            fingerprint=fingerprint(evidence, kind),
            rendered=request.now.isoformat(timespec="seconds"),
            checks=(),
            benchmark_class=evidence.headline().class_,
            is_range=culprit.is_range,
            steps=tuple(step.step for step in culprit.steps),
            reported=None if kind == "report" else _reported(request),
        ),
    )


def with_checks(message: Message, checks: Sequence[Check]) -> Message:
    """Return a mail with the results of its checks."""
    return replace(message, metadata=replace(message.metadata, checks=tuple(checks)))


def number_of(culprit: Culprit, kind: Kind, earlier: Sequence[Mail]) -> int:
    """Return the number of the next mail of a kind about a record.

    Withdrawn and refused mails count, and for ``again`` also sent ones, because the other kinds are
    sent only once. A mail that may still be sent does not count, so drafting it again gives its
    number.
    """
    alike = [
        each
        for each in earlier
        if (each.metadata.culprit, each.metadata.kind) == (culprit.key, kind)
    ]
    counted = (*NEVER_SENT, "sent") if kind == "again" else NEVER_SENT
    return 1 + sum(each.state in counted or _is_of_range(each, culprit) for each in alike)


def _is_of_range(mail: Mail, culprit: Culprit) -> bool:
    """Return whether a mail was about the range of a record whose first bad commit is now known.

    It went to the own list only, and the report about the commit is another mail.
    """
    return mail.metadata.is_range and not culprit.is_range


def find_report(culprit: Culprit, earlier: Sequence[Mail]) -> Mail | None:
    """Return the report that replies about a record answer; None if the outbox has none.

    It is about the same commit or record, or ``links.report`` of the record names it, e.g. a report
    about a range. A sent report comes first. A report that is not sent yet is returned only if
    ``links.report`` names it or is not set; withdrawn and refused ones never are.
    """
    reports = [
        each
        for each in earlier
        if each.metadata.kind == "report"
        and each.state not in NEVER_SENT
        and (
            each.metadata.commit == culprit.id
            or each.metadata.culprit == culprit.key
            or each.metadata.message_id == culprit.links.report
        )
    ]
    if sent := [each for each in reports if each.state == "sent"]:
        return sent[0]
    # A report that was sent to another list is answered rather than one that may never be sent.
    named = culprit.links.report
    waiting = [each for each in reports if named in (None, each.metadata.message_id)]
    return waiting[0] if waiting else None


def fingerprint(evidence: Evidence, kind: Kind) -> str:
    """Return a hash of the reported content: 16 digits, equal for the same patch in every tree.

    It covers the subject of the commit, the metrics with their verdicts, and the first three
    findings; for the kind ``again`` also the comparisons of further machines and trees.
    """
    culprit = evidence.culprit
    rows = {(row.metric, row.verdict) for row in evidence.rows(culprit.main)}
    found = evidence.comparison(culprit.main).findings
    findings = [each.id.partition("#")[2] or each.id for each in found]
    elsewhere = (*culprit.regressed_on, *culprit.no_change_on) if kind == "again" else ()
    reported = [
        culprit.bad.subject,
        sorted(rows),
        sorted(findings[:_FINDINGS]),
        sorted(each.result.comparison for each in elsewhere),
    ]
    return digest_of(reported)[:_FINGERPRINT_DIGITS]


def quoted_texts(evidence: Evidence) -> list[str]:
    """Return the texts that a mail may quote, and that the linter must not judge.

    They are the subjects of the commits and the texts of :func:`recorded_texts`, as mails quote
    them.
    """
    culprit = evidence.culprit
    commits = (culprit.good, culprit.bad, culprit.fixed_by)
    subjects = [commit.subject for commit in commits if commit is not None]
    names = names_of(evidence)
    texts = dict.fromkeys([*subjects, *recorded_texts(evidence)])
    return [quote(text, names) for text in texts if text.strip()]


def recorded_texts(evidence: Evidence) -> list[str]:
    """Return the texts that a mail may contain, and that come from recordings or from the site.

    They are workloads, points, metrics with definitions, machines, names of options, trees and
    kernels,
    findings, the benchmark, and why a revert is impossible. Missing ones are "".
    """
    culprit = evidence.culprit
    elsewhere = (*culprit.regressed_on, *culprit.no_change_on)
    comparison = evidence.comparison(culprit.main)
    return [
        *(text for each in elsewhere for text in (each.machine, each.tree or "")),
        *(text for row in comparison.rows for text in (row.workload, row.point, row.metric)),
        *(row.definition or "" for row in comparison.rows),
        *(name_machine(side) for side in comparison.sides),
        *(each.name for each in comparison.comparability.options),
        *(each.claim for each in comparison.findings),
        culprit.benchmark,
        culprit.tree.name if culprit.tree else "",
        (culprit.revert.impossible or "") if culprit.revert else "",
        *(text for step in culprit.steps for text in (step.workload, step.point, step.metric)),
        *(each.machine for step in culprit.steps for each in step.elsewhere),
        culprit.good.name or "",
        culprit.bad.name or "",
        *(" ".join(command_of(row).shown) for row in comparison.rows),
    ]


def _body(evidence: Evidence, site: MailSite, kind: Kind) -> str:
    match kind:
        case "fixed":
            return fixed_body(evidence, site)
        case "again":
            return again_body(evidence, site)
        case "bisected":
            return bisected_body(evidence, site)
        case _:
            return report_body(evidence, site)


def _reported(request: Request) -> str | None:
    """Return the commit of the report that a mail answers; None if the outbox lacks the report."""
    report = find_report(request.evidence.culprit, request.earlier)
    return report.metadata.thread if report else None


def _parents(request: Request) -> list[str]:
    """Return the Message-IDs of the thread; the mail that is answered comes last.

    :return: [] for a report that begins a thread
    :raises InputError: a reply has no report to answer, or the report names the first bad commit
        already
    """
    culprit = request.evidence.culprit
    if request.kind == "report":
        posted = culprit.links.posted if culprit.is_open_patch else None
        return [check_id(posted, "links.posted")] if posted else []
    known = find_report(culprit, request.earlier)
    report = known.metadata.message_id if known else culprit.links.report
    if report is None:
        raise InputError(
            f"{culprit.id}: --kind {request.kind}: no report to reply to, in the outbox or in "
            "links.report of the record; draft the report first"
        )
    if request.kind == "bisected" and known and known.metadata.culprit == culprit.key:
        raise InputError(
            f"{culprit.id}: --kind bisected: {known.id} names this commit already (expected a "
            "report about a range); nothing to add"
        )
    before = _references(request.report) if request.report else []
    return [*before, check_id(report, "links.report")]


def _references(content: bytes) -> list[str]:
    return str(parse(content).get("References", "")).split()


def _assemble(
    request: Request, *, subject: str, body: str, parents: Sequence[str], metadata: Metadata
) -> Message:
    is_ascii = body.isascii()
    if not is_ascii:
        # Only people's names may have letters that are not ASCII.
        names = [*names_of(request.evidence), request.site.site.sender, request.site.site.name]
        for line in body.splitlines():
            spell(line, where="mail", names=names)
    header = write_header(
        sender=parse_mailbox(request.site.site.sender, "site.from"),
        to=request.recipients.to,
        cc=request.recipients.cc,
        subject=subject,
        id=metadata.message_id,
        parents=parents,
        date=request.now,
        kind=request.kind,
        key=metadata.culprit or metadata.id,
        is_ascii=is_ascii,
    )
    content = f"{header}\n\n{body}".encode()
    parse(content)
    return Message(metadata=metadata, content=content)
