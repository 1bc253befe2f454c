# SPDX-License-Identifier: GPL-2.0-or-later
"""Reasons: findings that may explain the verdict, best supported first, each with its evidence."""

from collections.abc import Iterator, Sequence
from functools import partial

from schedperf.model.comparison import Bearing, Comparison, Finding
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.graphics.panels import Fold
from schedperf_reports.sections import all_report_sections, report_section
from schedperf_reports.words.rows import count_of, has_changed

# On the first screen of a page, and of a text; more reasons than these explain nothing.
MOST_REASONS = 5
BRIEF_REASONS = 4
# What one reason may take of the first screen, in characters; the whole claim is below.
LONGEST_REASON = 170

NOT_A_CAUSE = "correlated with the change; causation not shown"
NOTHING_DECIDED = "these differ between the sides; their effect on the result is unknown"


def _title(comparison: Comparison) -> str:
    # What did not change, or is not decided, has no reasons.
    if has_changed(comparison):
        return "Reasons"
    return "Other changes" if comparison.overall.verdict == "no-change" else "Findings"


@report_section("findings", title="Reasons", chapter="verdict", order=20, retitle=_title)
def findings(comparison: Comparison) -> Iterator[Block]:
    """Yield the reasons in the order of the record, what speaks against, and what is unseen."""
    found = _by_bearing(comparison.findings)
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    short, whole = partial(_item, with_side=several), partial(_whole, with_side=several)
    reasons = found["reason"]
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
    if found["against"]:
        against = found["against"]
        yield Text(text="changed in the opposite direction", tone="strong")
        yield Items(items=tuple(map(short, against)), whole=tuple(map(whole, against)))
    unseen, absent = found["unseen"], tuple(_absent(comparison))
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


def in_short(claim: str) -> str:
    """Return the first parts of a claim that fit a line or two; its first part is the number.

    >>> in_short("PELT takes 0.9 pp more; by node 1.5% instead of 0.5%" + " and more" * 20)
    'PELT takes 0.9 pp more'
    """
    short, *parts = claim.split("; ")
    for part in parts:
        if len(short) + len(part) > LONGEST_REASON:
            break
        short = f"{short}; {part}"
    return short


def _by_bearing(found: Sequence[Finding]) -> dict[Bearing, list[Finding]]:
    bearings: tuple[Bearing, ...] = ("reason", "against", "unseen")
    return {name: [one for one in found if one.bearing == name] for name in bearings}


def _item(found: Finding, *, with_side: bool) -> Item:
    is_unseen = found.bearing == "unseen"
    return Item(
        text=_with_side(in_short(found.claim), found, with_side=with_side),
        detail=found.attribution if is_unseen else "; ".join((*_grade(found), found.replication)),
        tone="warning" if is_unseen else "plain",
        evidence=found.evidence[:1],
    )


def _grade(found: Finding) -> Iterator[str]:
    # What stands before its explanation: "grade B: three of contention, …", "correlated; …".
    first = found.attribution.partition(";")[0]
    grade, colon, what = first.partition(": ")
    if colon and not grade.startswith("grade "):
        # Of a layout it is how anybody knows that it can be felt: "measured: tbench lost 9% on …".
        yield f"{'measured elsewhere' if grade == 'measured' else grade}: {what}"
    elif grade != "correlated":
        # "correlated" applies to all of them and is stated once below.
        yield grade


def _whole(found: Finding, *, with_side: bool) -> Item:
    detail = "; ".join(part for part in (found.replication, found.attribution) if part)
    text = _with_side(found.claim, found, with_side=with_side)
    return Item(text=text, detail=detail, evidence=found.evidence)


def _with_side(text: str, found: Finding, *, with_side: bool) -> str:
    return f"{found.side}: {text}" if with_side else text


def _absent(comparison: Comparison) -> Iterator[Item]:
    # An analysis that was not made rules nothing out; the end of its chapter says why it was not.
    missing: dict[str, list[str]] = {}
    for section in all_report_sections():
        found = comparison.sections.get(section.name)
        if section.is_analysis and found is not None and found.status == "absent":
            missing.setdefault(section.chapter, []).append(section.title)
    if missing:
        titles = "; ".join(title for names in missing.values() for title in names)
        links = tuple(f"absent-{chapter}" for chapter in missing)
        yield Item(text=f"not recorded: {titles}", tone="muted", evidence=links)
