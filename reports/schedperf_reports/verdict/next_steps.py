# SPDX-License-Identifier: GPL-2.0-or-later
"""What to do next: exact commands, the most useful first."""

from collections.abc import Iterator
from dataclasses import replace

from schedperf.model.comparison import Comparison, NextStep
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.sections import report_section
from schedperf_reports.words.rows import count_of

# Steps that a report lists; the JSON has all.
MOST_STEPS = 5
# Steps on the first screen; the first is the most useful one.
BRIEF_STEPS = 2
# Longest reason and conditions of a step in a text of one screen, in characters.
LONGEST_DETAIL = 80


@report_section("next_steps", title="What to do next", chapter="verdict", order=30, is_brief=True)
def next_steps(comparison: Comparison) -> Iterator[Block]:
    """Yield the steps of the record."""
    steps = comparison.next_steps
    if not steps:
        yield Text(text="no further steps suggested", tone="muted")
        return
    items = tuple(map(_item, steps[:MOST_STEPS]))
    yield Items(items=items, ordered=True, brief=BRIEF_STEPS)
    more = len(steps) - MOST_STEPS
    if more > 0:
        text = f"{count_of(more, 'further step')} in the JSON field `next_steps`"
        yield Text(text=text, tone="muted")


def _item(step: NextStep) -> Item:
    item = Item(
        text=step.what, detail="; ".join((step.why, *step.conditions)), commands=step.commands
    )
    if len(item.detail) <= LONGEST_DETAIL:
        return item
    return replace(item, short=replace(item, detail="; ".join(step.conditions)))
