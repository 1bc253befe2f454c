# SPDX-License-Identifier: GPL-2.0-or-later
"""Render the body of a report: the regression, the commit that causes it, and the evidence."""

import re
from collections.abc import Sequence

from schedperf.evidence.perf_stat.record import Counters
from schedperf.model.units import format_measure
from schedperf.publish.culprit.figures import Evidence, show_both
from schedperf.publish.culprit.record import Trailer
from schedperf.publish.mail.plain import (
    COLUMNS,
    INDENT,
    cut,
    items,
    join_paragraphs,
    quote,
    spell,
    wrap,
)
from schedperf.publish.mail.render.grounds import (
    describe_findings,
    describe_grounds,
    figures_of,
)
from schedperf.publish.mail.render.machine import describe_machine
from schedperf.publish.mail.render.opening import open_report
from schedperf.publish.mail.render.reproduce import reproduce
from schedperf.publish.mail.render.table import draw_tables, report_columns
from schedperf.publish.mail.site import MailSite
from schedperf_reports.words.rows import merge_caveats

MOST_CAVEATS = 4
_LONGEST_ITEM = 220
_LONGEST_NAME = 60
# Benchmarks that readers of scheduler lists know.
_WELL_KNOWN = (
    "hackbench",
    "schbench",
    "perf bench",
    "netperf",
    "tbench",
    "kernbench",
    "cyclictest",
)
# Counters of task switches and migrations, with their names in a mail.
_EVENTS = {"context-switches": "context switches", "cpu-migrations": "migrations"}


def report_body(evidence: Evidence, site: MailSite) -> str:
    """Return the body of a report.

    :raises InputError: the record has no regression, or a text is not allowed in mails
    """
    return join_paragraphs(
        [
            open_report(evidence, names_of(evidence)),
            _layout(evidence),
            _definition(evidence),
            draw_tables(evidence, report_columns(evidence), page_of(evidence, site)),
            _rates(evidence),
            _caveats(evidence),
            describe_grounds(evidence),
            describe_findings(evidence),
            [*reproduce(evidence), *link(evidence, site)],
            describe_machine(evidence),
            _tags(evidence, site),
            stop(is_mixed=bool(evidence.improvements())),
        ]
    ) + signature(site)


def names_of(evidence: Evidence) -> list[str]:
    """Return the texts of good, bad and the fix that name people.

    They are the authors, the committers and the values of all trailers, with their addresses.
    """
    commits = (evidence.culprit.good, evidence.culprit.bad, evidence.culprit.fixed_by)
    people: list[str | None] = []
    for commit in commits:
        if commit is not None:
            trailers: Sequence[Trailer] = commit.trailers
            people += [commit.author, commit.committer, *(each.value for each in trailers)]
    return [person for person in people if person]


def page_of(evidence: Evidence, site: MailSite) -> str | None:
    """Return the URL of the record's page; None if the site publishes nothing."""
    base = site.site.base_url
    if base is None:
        return None
    page = evidence.culprit.links.page or f"r/{evidence.culprit.key}/"
    return f"{base.rstrip('/')}/{page.lstrip('/')}"


def link(evidence: Evidence, site: MailSite) -> list[str]:
    """Return one or two lines with the URL of the full results; [] without a published page."""
    page = page_of(evidence, site)
    if page is None:
        return []
    return link_to(page, "Runs, .config and this result over time:")


def link_to(url: str, title: str) -> list[str]:
    """Return a title and a URL on one line, or on two if that is too long."""
    line = f"{title} {url}"
    return [line] if len(line) <= COLUMNS else [title, f"{INDENT}{url}"]


def stop(*, is_mixed: bool = False) -> list[str]:
    """Return the lines that explain how to stop mails about the commit.

    :param is_mixed: whether other results improved
    """
    trade = ' If this trade-off is intended, reply "expected".' if is_mixed else ""
    return wrap(f'A person reads replies. Reply "stop" to end mails about this commit.{trade}')


def signature(site: MailSite) -> str:
    """Return the signature with the line ``-- `` before it.

    :raises InputError: the site's name or contact has a character that is neither ASCII, nor a
        letter, nor can be replaced by ASCII
    """
    by = f"schedperf, run by {site.site.name}, {site.site.contact}"
    return f"-- \n{cut(spell(by, where='site', names=(site.site.name, site.site.contact)), 74)}\n"


def _layout(evidence: Evidence) -> list[str]:
    """Return the lines about the layout: whether only it changed, and the forced alignment.

    They are [] if neither only the layout changed nor a forced alignment was measured.
    """
    row = evidence.row_like(evidence.culprit.forced_alignment, evidence.headline())
    if row is None:
        rebuilt = "was not measured"
    elif row.verdict in ("no-change", "improvement"):
        rebuilt = f"removes it ({show_both(row)}): it depends on the alignment of code"
    else:
        rebuilt = f"does not remove it ({row.verdict}{figures_of(row)})"
    if row is None and not evidence.has_only_layout():
        return []
    only = "The only change found is in the cache-line layout. " * evidence.has_only_layout()
    return wrap(f"{only}A rebuild of both kernels with functions aligned to 64 bytes {rebuilt}.")


def _definition(evidence: Evidence) -> list[str]:
    row = evidence.headline()
    definition = spell(row.definition or "", where="definition")
    if row.metric.startswith(_WELL_KNOWN) or not re.search(r"\w", definition):
        return []
    metric = cut(spell(row.metric, where="metric"), _LONGEST_NAME)
    return wrap(cut(f"{metric}: {definition}", _LONGEST_ITEM))


def _rates(evidence: Evidence) -> list[str]:
    """Return lines with switches and migrations per operation of the workload that regressed most.

    They are [] if these events were not counted.
    """
    data = evidence.main.section(Counters)
    row = evidence.headline()
    rows = [
        each
        for each in (data.rows if data else ())
        if (each.side, each.workload, each.point) == (row.side, row.workload, row.point)
        and each.event in _EVENTS
        and each.node is None
    ]
    # Those of the whole machine are stated only if the workload's are not known.
    own = [each for each in rows if each.is_own]
    whose = "" if own else ", whole machine"
    texts: dict[str, list[str]] = {}
    for each in own or rows:
        operation = each.unit.partition("/")[2]
        if operation not in ("", "s"):
            both = (each.base, each.new)
            sides = [format_measure(value, each.unit, *both) for value in both]
            texts.setdefault(operation, []).append(f"{_EVENTS[each.event]} {' -> '.join(sides)}")
    return [
        line
        for operation, rates in texts.items()
        for line in wrap(spell(f"Per {operation}{whose}: {', '.join(rates)}.", where="counters"))
    ]


def _caveats(evidence: Evidence) -> list[str]:
    comparison = evidence.main
    row = evidence.headline()
    caveats = merge_caveats([*row.caveats, *comparison.caveats])
    texts = list(dict.fromkeys(each.short for each in caveats))
    if not texts:
        return []
    left = len(texts) - MOST_CAVEATS
    shown = [cut(quote(text), _LONGEST_ITEM) for text in texts[:MOST_CAVEATS]]
    return ["Caveats:", *items([*shown, *([f"{left} more"] if left > 0 else [])])]


def _tags(evidence: Evidence, site: MailSite) -> list[str]:
    if evidence.culprit.is_open_patch or evidence.culprit.is_range:
        # An unmerged series is sent again without the mistake, so it needs no Fixes tag.
        return []
    return [
        "If a separate commit fixes this, please add",
        f"{INDENT}Reported-by: {site.site.sender}",
        f"{INDENT}Closes: https://lore.kernel.org/r/<Message-ID of this mail>",
    ]
