# SPDX-License-Identifier: GPL-2.0-or-later
"""Report reasons: findings that may explain the verdict, best supported first."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from schedperf.model.comparison import Comparison
from schedperf.model.sections import Bearing, Finding
from schedperf_reports.blocks import Block, Item, Items, Text, shorten_detail
from schedperf_reports.graphics.panels import Fold
from schedperf_reports.sections import ReportSection, all_report_sections, report_section
from schedperf_reports.words.rows import count_of, has_changed, side_prefixes

# Reasons on the first screen of a page, and of a text.
MOST_REASONS = 5
BRIEF_REASONS = 4
# Longest reason on the first screen, in characters; the full claim follows below.
LONGEST_REASON = 170

NOT_A_CAUSE = "correlated with the change; causation not shown"
EFFECTS = "other effects of the change, not used for the verdict"
NOTHING_DECIDED = "differences between the sides; their effect on the result is unknown"

# Significant changes that do not explain the verdict.
_BESIDE: Mapping[Bearing, str] = {
    "against": "changes in the direction opposite to the verdict",
    "effect": EFFECTS,
}


def _title(comparison: Comparison) -> str:
    # Only a change has reasons.
    if has_changed(comparison):
        return "Reasons"
    return "Other changes" if comparison.overall.verdict == "no-change" else "Findings"


@report_section(
    "findings", title="Reasons", chapter="verdict", order=20, is_brief=True, retitle=_title
)
def findings(comparison: Comparison) -> Iterator[Block]:
    """Yield the reasons in the record's order, opposite changes, effects, and what is missing."""
    by_bearing = _by_bearing(comparison.findings)
    prefixes = side_prefixes(comparison)
    short, whole = partial(_item, prefixes=prefixes), partial(_whole, prefixes=prefixes)
    reasons = by_bearing["reason"]
    if reasons:
        yield Items(
            items=tuple(map(short, reasons[:MOST_REASONS])),
            ordered=True,
            brief=BRIEF_REASONS,
            whole=tuple(map(whole, reasons)),
        )
        text = NOT_A_CAUSE if has_changed(comparison) else NOTHING_DECIDED
        yield Text(text=text, tone="muted", brief=True)
    else:
        none = "no finding explains the result"
        yield Text(text=none, tone="muted", brief=has_changed(comparison))
    for bearing, heading in _BESIDE.items():
        if by_bearing[bearing]:
            beside = by_bearing[bearing]
            yield Text(text=heading, tone="strong")
            yield Items(items=tuple(map(short, beside)), whole=tuple(map(whole, beside)))
    unseen, absent = by_bearing["unseen"], tuple(list_absent(comparison))
    if unseen or absent:
        yield Text(text="not measured", tone="strong", brief=bool(unseen))
        yield Items(
            items=(*map(short, unseen), *absent),
            brief=len(unseen[:1]),
            whole=(*map(whole, unseen), *absent),
        )
    if comparison.findings:
        items = tuple(map(whole, comparison.findings))
        yield Fold(
            caption=f"{count_of(len(items), 'finding')} in full",
            blocks=(Items(items=items, ordered=True),),
            repeats=True,
        )


def in_short(finding: Finding) -> str:
    """Return the claim of a finding; if it is too long, its first clause and the change only."""
    if len(finding.claim) <= LONGEST_REASON:
        return finding.claim
    return f"{finding.clause}{finding.change}"


def _by_bearing(entries: Sequence[Finding]) -> dict[Bearing, list[Finding]]:
    bearings: tuple[Bearing, ...] = ("reason", "against", "effect", "unseen")
    return {name: [finding for finding in entries if finding.bearing == name] for name in bearings}


def _item(finding: Finding, *, prefixes: Mapping[str, str]) -> Item:
    text = prefixes[finding.side] + in_short(finding)
    evidence = finding.evidence[:1]
    if finding.bearing == "unseen":
        clause = prefixes[finding.side] + finding.clause
        return Item(
            text=text,
            detail=finding.attribution,
            tone="warning",
            evidence=evidence,
            short=Item(text=clause, tone="warning"),
        )
    n = _sample_size(finding)
    detail = "; ".join(filter(None, (finding.support, n)))
    return shorten_detail(Item(text=text, detail=detail, evidence=evidence), n)


def _whole(finding: Finding, *, prefixes: Mapping[str, str]) -> Item:
    detail = "; ".join(part for part in (_sample_size(finding), finding.attribution) if part)
    text = prefixes[finding.side] + finding.claim
    return Item(text=text, detail=detail, evidence=finding.evidence)


def _sample_size(finding: Finding) -> str:
    # Some changes state it beside their CI.
    return "" if finding.replication in finding.change else finding.replication


def list_absent(comparison: Comparison) -> Iterator[Item]:
    """Yield one item that lists the analyses without data; nothing if all have data."""
    # Missing analyses rule nothing out; the end of each chapter gives the reasons.
    absent = absent_sections(comparison)
    if absent:
        titles = "; ".join(section.title for section in absent)
        links = dict.fromkeys(f"absent-{section.chapter}" for section in absent)
        yield Item(text=f"not recorded: {titles}", tone="muted", evidence=tuple(links))


def absent_sections(comparison: Comparison) -> list[ReportSection]:
    """Return the analyses without data."""
    return [
        section
        for section in all_report_sections()
        if section.is_analysis
        and (outcome := comparison.sections.get(section.name)) is not None
        and outcome.status == "absent"
    ]
