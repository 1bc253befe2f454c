# SPDX-License-Identifier: GPL-2.0-or-later
"""Report next steps: exact commands, the most useful first."""

from collections.abc import Iterator

from schedperf.model.comparison import Comparison, NextStep
from schedperf_reports.blocks import Block, Item, Items, Text, shorten_detail
from schedperf_reports.sections import report_section

# Steps on the first screen; the first is the most useful one.
BRIEF_STEPS = 2


@report_section("next_steps", title="What to do next", chapter="verdict", order=30, is_brief=True)
def next_steps(comparison: Comparison) -> Iterator[Block]:
    """Yield the steps of the record with their commands, or that there are none."""
    steps = comparison.next_steps
    if not steps:
        yield Text(text="no further steps suggested", tone="muted")
        return
    yield Items(items=tuple(map(_item, steps)), ordered=True, brief=BRIEF_STEPS)


def _item(step: NextStep) -> Item:
    detail = "; ".join((step.why, *step.conditions))
    item = Item(text=step.what, detail=detail, commands=step.commands)
    return shorten_detail(item, "; ".join(step.conditions))
