# SPDX-License-Identifier: GPL-2.0-or-later
"""Report bouncing cache lines: significant changes, and readers and writers by byte.

::

    line                 from    base  new  ratio  95% CI
    task_group.load_avg  remote   3.1  0.4   0.13  [0.1, 0.17]
"""

from collections.abc import Iterator

from schedperf.evidence.c2c.record import C2c
from schedperf.model.comparison import Comparison
from schedperf.model.sections import data_of
from schedperf_reports.blocks import Block, Text
from schedperf_reports.evidence.c2c._point import describe_point
from schedperf_reports.sections import report_section
from schedperf_reports.words.rows import merge_sides
from schedperf_reports.words.states import State

# With base and one new side, a sentence need not say which new side it means.
MOST_UNNAMED_SIDES = 2


def _state(comparison: Comparison) -> State | None:
    data = data_of(comparison.sections, C2c)
    if data is None:
        return None
    points = [point for compared in data.comparisons for point in compared.points]
    lines = [line for point in points for line in point.lines]
    changed = sum(line.is_changed for line in lines)
    return State(changed=changed, total=len(lines), noun="contended line")


@report_section(
    "c2c",
    title="Bouncing cache lines",
    chapter="memory",
    order=20,
    is_analysis=True,
    state=_state,
)
def c2c(comparison: Comparison) -> Iterator[Block]:
    """Yield the sample counts and the contended lines of each point, and what is missing."""
    data = data_of(comparison.sections, C2c)
    if data is None:
        section = comparison.sections.get(C2c.section)
        reason = None if section is None else section.reason
        yield Text(text=f"not measured: {reason}" if reason else "not analysed", tone="muted")
        return
    for compared in data.comparisons:
        if len(comparison.sides) > MOST_UNNAMED_SIDES:
            yield Text(text=f"{compared.side} vs base", tone="strong")
        if not compared.points:
            yield Text(
                text="no workload was sampled with the same parameters in base and "
                f"{compared.side}",
                tone="muted",
            )
        for point in compared.points:
            yield from describe_point(point, side=compared.side)
        for note in merge_sides(compared.notes):
            yield Text(text=note, tone="muted")
    for missing in data.missing:
        yield Text(text=f"not measured: {missing.reason}", tone="muted")
