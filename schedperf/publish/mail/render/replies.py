# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the bodies of replies to a report: fixed, reproduced elsewhere, bisected."""

from collections.abc import Sequence

from schedperf.model.errors import InputError
from schedperf.model.rows import Row
from schedperf.model.units import percent
from schedperf.model.verdict import count_units
from schedperf.publish.culprit.figures import (
    ID_DIGITS,
    Evidence,
    day_of,
    describe_place,
    show_both,
)
from schedperf.publish.culprit.record import COMMIT_DIGITS, Culprit, Elsewhere, Measured
from schedperf.publish.culprit.workloads import command_of
from schedperf.publish.mail.plain import cut, items, join_paragraphs, spell, wrap
from schedperf.publish.mail.render.opening import quote_subject
from schedperf.publish.mail.render.report import (
    link,
    link_to,
    names_of,
    page_of,
    report_body,
    signature,
    stop,
)
from schedperf.publish.mail.render.table import draw_tables, fix_columns
from schedperf.publish.mail.site import MailSite

MOST_PLACES = 12
_LONGEST_LINE = 200
_LONGEST_NAME = 60


def fixed_body(evidence: Evidence, site: MailSite) -> str:
    """Return the body of the mail that reports that a commit fixes the regression.

    :raises InputError: the record has no regression; the fix is unknown, was not measured, or does
        not remove the regression; or a text is not allowed in mails
    """
    culprit, row = evidence.culprit, evidence.headline()
    fix = evidence.row_like(culprit.fix, row)
    where = f"{culprit.id}: --kind fixed"
    if culprit.fixed_by is None or culprit.fix is None or fix is None:
        raise InputError(f"{where}: no measured fix in the record; add it (schedperf culprit add)")
    if fix.verdict not in ("no-change", "improvement"):
        raise InputError(
            f"{where}: the fix is {fix.verdict} (expected no-change or improvement); measure again"
        )
    commit = culprit.fixed_by.commit[:COMMIT_DIGITS]
    quoted = quote_subject(culprit.fixed_by.subject, names_of(evidence))
    return join_paragraphs(
        [
            wrap(f"{commit} {quoted}{_since(culprit)} fixes this: {_outcome(fix)}."),
            draw_tables(evidence, fix_columns(evidence, culprit.fix), page_of(evidence, site)),
            [*_fix_page(evidence, site), *link(evidence, site)],
            stop(),
        ]
    ) + signature(site)


def again_body(evidence: Evidence, site: MailSite) -> str:
    """Return the body of the mail that lists further machines and trees, regressed or not.

    :raises InputError: the record has no further machine or tree, or no regression; or a text is
        not allowed in mails
    """
    culprit = evidence.culprit
    if not culprit.regressed_on and not culprit.no_change_on:
        raise InputError(
            f"{culprit.id}: --kind again: no further machine or tree in the record; add one "
            "(schedperf culprit add)"
        )
    quoted = quote_subject(culprit.bad.subject, names_of(evidence))
    return join_paragraphs(
        [
            wrap(f"Commit {culprit.id} {quoted} was also measured elsewhere."),
            _places("It regresses on:", evidence, culprit.regressed_on),
            _places("No change on:", evidence, culprit.no_change_on),
            link(evidence, site),
            stop(),
        ]
    ) + signature(site)


def bisected_body(evidence: Evidence, site: MailSite) -> str:
    """Return the body of the mail that names the first bad commit of a reported range.

    :raises InputError: the first bad commit is still unknown; or as in :func:`report_body`
    """
    if evidence.culprit.is_range:
        raise InputError(
            f"{evidence.culprit.id}: --kind bisected: the first bad commit is unknown (the record "
            "is about a range); bisect it"
        )
    return "The first bad commit of the reported range is now known.\n\n" + report_body(
        evidence, site
    )


def _outcome(fix: Row) -> str:
    """Return what the largest regression became: ``+0.2% [-0.3%, +0.7%], within +-3%``."""
    command = " ".join(command_of(fix).shown)
    what = cut(spell(command or fix.metric, where="workload"), _LONGEST_NAME)
    within = f"within +-{percent(fix.margin)}" if fix.verdict == "no-change" else "better"
    return f"{what} {show_both(fix)} against the parent, {within}"


def _fix_page(evidence: Evidence, site: MailSite) -> list[str]:
    """Return the lines with the URL of the comparison with the fix; [] if nothing is published."""
    fix, base = evidence.culprit.fix, site.site.base_url
    if fix is None or base is None:
        return []
    return link_to(f"{base.rstrip('/')}/c/{fix.comparison[:ID_DIGITS]}/", "Runs with the fix:")


def _since(culprit: Culprit) -> str:
    if culprit.tree is None or culprit.fixed_by is None:
        return ""
    day = day_of(culprit.fixed_by.committed)
    since = f" since {day}" if day else ""
    return f", in {spell(culprit.tree.name, where='tree')}{since},"


def _places(title: str, evidence: Evidence, places: Sequence[Elsewhere]) -> list[str]:
    if not places:
        return []
    left = len(places) - MOST_PLACES
    more = [f"{left} more"] if left > 0 else []
    return [title, *items([*(_place(evidence, each) for each in places[:MOST_PLACES]), *more])]


def _place(evidence: Evidence, place: Elsewhere) -> str:
    row = _worst_of(evidence, place.result)
    figures = ""
    if row is not None:
        n = count_units(row.n_base, row.n_new, row.replication)
        figures = f": {row.metric} {show_both(row)}, n = {n}"
    return cut(spell(f"{describe_place(place)}{figures}", where="machine"), _LONGEST_LINE)


def _worst_of(evidence: Evidence, measured: Measured) -> Row | None:
    same = evidence.row_like(measured, evidence.headline())
    rows = [same] if same else evidence.rows(measured)
    return next((row for row in rows if None not in (row.ratio, row.ci_low, row.ci_high)), None)
