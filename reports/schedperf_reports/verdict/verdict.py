# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the verdict: a sentence per side, intended differences, and blocking differences."""

from collections.abc import Iterator

from schedperf.model.comparison import Comparison
from schedperf.model.text import list_some
from schedperf_reports.blocks import Block, Headline, Item, Items, Text
from schedperf_reports.results.two_by_two import summarise
from schedperf_reports.sections import report_section
from schedperf_reports.verdict.comparable import comparability_panel, describe_treatments
from schedperf_reports.verdict.rests_on import count_values_of
from schedperf_reports.verdict.source import commits_of_sides
from schedperf_reports.words.rows import (
    VERDICT_TONES,
    has_changed,
    has_same_data,
    is_of_one_boot_each,
    is_of_this_boot,
)
from schedperf_reports.words.sentences import (
    SideVerdict,
    deciding_side,
    describe_informational,
    describe_verdict,
    judge_sides,
)

# Commands that the first screen lists; the table of results has all.
MOST_WORKLOADS = 2


@report_section("verdict", title="Verdict", chapter="verdict", order=10, is_brief=True)
def verdict(comparison: Comparison) -> Iterator[Block]:
    """Yield the verdict of each side, its intended differences, and what blocks a comparison."""
    sides = judge_sides(comparison)
    overall = comparison.overall
    yield Headline(
        word=f"{overall.verdict}{_condition(comparison, sides)}",
        text=describe_verdict(comparison),
        tone=VERDICT_TONES[overall.verdict],
    )
    deciding = deciding_side(comparison)
    others = [side for side in sides if deciding is None or side.side != deciding.side]
    # Without results, a sentence per side would be empty.
    if len(sides) > 1 and others and comparison.rows:
        items = tuple(_side_item(side) for side in others)
        yield Items(items=items, brief=len(items))
    interaction = summarise(comparison.two_by_two)
    if interaction:
        yield Text(text=interaction, brief=True)
    yield from _what_differs(comparison)
    yield from (Text(text=text, brief=True) for text in commits_of_sides(comparison))
    informational = describe_informational(comparison)
    if informational is not None:
        yield Text(text=informational, brief=True)
    yield from _why(comparison)
    if not comparison.comparability.comparable:
        # Comparability comes first here; for comparable sides it is in "Basis of the verdict".
        yield comparability_panel(comparison)


def _side_item(side: SideVerdict) -> Item:
    mixed = " (mixed)" if side.is_mixed else ""
    verdict_of_side = f"{side.label}: {side.verdict}{mixed}"
    tone = VERDICT_TONES[side.verdict]
    return Item(
        text=f"{verdict_of_side}: {side.text}",
        tone=tone,
        short=Item(text=verdict_of_side, tone=tone)
        if side.verdict in ("inconclusive", "invalid")
        else None,
    )


def _what_differs(comparison: Comparison) -> Iterator[Text]:
    treatments = describe_treatments(comparison)
    measured = _what_ran(comparison)
    for index, text in enumerate(treatments):
        # All sides ran the same commands.
        is_last = index == len(treatments) - 1
        yield Text(text="; ".join(filter(None, (text, measured if is_last else ""))), brief=True)
    if not treatments and measured:
        yield Text(text=measured, brief=True)


def _what_ran(comparison: Comparison) -> str:
    rows = [row for row in comparison.rows if row.family == "primary"] or list(comparison.rows)
    names = list(dict.fromkeys(row.workload for row in rows if row.workload))
    if not names:
        return ""
    listed = list_some(names, MOST_WORKLOADS)
    counts = ", ".join(count_values_of(rows, comparison.sides))
    return f"workload{'' if len(names) == 1 else 's'} {listed}{f', {counts}' if counts else ''}"


def _condition(comparison: Comparison, sides: tuple[SideVerdict, ...]) -> str:
    # Conditions of the verdict itself.
    conditions = []
    if any(side.is_mixed for side in sides):
        conditions.append("mixed")
    if has_same_data(comparison):
        conditions.append("same data")
    elif is_of_this_boot(comparison):
        conditions.append("this boot only")
    elif has_changed(comparison) and is_of_one_boot_each(comparison):
        conditions.append("one boot per side")
    return f" ({', '.join(conditions)})" if conditions else ""


def _why(comparison: Comparison) -> Iterator[Block]:
    # If there is a reason, the next section begins with it.
    if not has_changed(comparison) or any(
        finding.bearing == "reason" for finding in comparison.findings
    ):
        return
    unseen = [finding for finding in comparison.findings if finding.bearing == "unseen"]
    if unseen:
        yield Text(text=f"cause unknown; {unseen[0].clause}")
