# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the bodies of replies to a report: fixed, reproduced elsewhere, bisected."""

from collections.abc import Sequence

from schedperf.model.errors import InputError
from schedperf.model.rows import Row
from schedperf.model.units import percent, scale_for
from schedperf.model.verdict import count_units
from schedperf.publish.culprit.figures import (
    Evidence,
    day_of,
    describe_place,
    is_interleaved,
    show_both,
)
from schedperf.publish.culprit.record import COMMIT_DIGITS, Culprit, Elsewhere, Measured
from schedperf.publish.mail.plain import COLUMNS, INDENT, cut, items, join_paragraphs, spell, wrap
from schedperf.publish.mail.render.replicates import count_replicates
from schedperf.publish.mail.render.report import (
    link,
    names_of,
    quote_subject,
    report_body,
    signature,
    stop,
)
from schedperf.publish.mail.render.table import name_unit
from schedperf.publish.mail.site import MailSite

MOST_PLACES = 12
_LONGEST_LINE = 200


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
            [*wrap(f"{commit} {quoted}{_since(culprit)} fixes this:"), *_figures(evidence, fix)],
            link(evidence, site),
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


def _since(culprit: Culprit) -> str:
    if culprit.tree is None or culprit.fixed_by is None:
        return ""
    day = day_of(culprit.fixed_by.committed)
    since = f" since {day}" if day else ""
    return f", in {spell(culprit.tree.name, where='tree')}{since},"


def _figures(evidence: Evidence, fix: Row) -> list[str]:
    """Return the lines that say what was measured, and the values of the parent and of the fix."""
    culprit = evidence.culprit
    assert culprit.fix is not None
    scale = scale_for(fix.unit, fix.base, fix.new)
    comparison = evidence.comparison(culprit.fix)
    count = count_replicates([fix], interleaved=is_interleaved(comparison, [fix])).partition(",")[0]
    within = f", within +-{percent(fix.margin)}" if fix.verdict == "no-change" else ", better"
    what = ", ".join(filter(None, (fix.workload, fix.point, fix.metric, name_unit(scale))))
    direction = f" ({fix.better} is better)" if fix.better != "unknown" else ""
    parent = culprit.good.commit[:COMMIT_DIGITS]
    base, new = scale.format_alike([fix.base, fix.new])
    values = f"parent {parent} {base}   fix {new}"
    change = f"{show_both(fix)}{within}"
    line = f"{INDENT}{values}   {change}"
    return [
        *wrap(
            cut(spell(f"{what}{direction}, {count}", where="result"), _LONGEST_LINE),
            first=INDENT,
            rest=INDENT,
        ),
        *([line] if len(line) <= COLUMNS else [f"{INDENT}{values}", f"{INDENT}{change}"]),
    ]


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
