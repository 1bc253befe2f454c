# SPDX-License-Identifier: GPL-2.0-or-later
"""Report the basis of the verdict: data, tests, and whether the sides are comparable."""

from collections.abc import Iterator

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Items
from schedperf_reports.graphics.panels import Panel, Panels
from schedperf_reports.sections import report_section
from schedperf_reports.verdict.comparable import comparability_panel
from schedperf_reports.verdict.rests_on import list_evidence

# Warnings that the first screen shows.
BRIEF_WARNINGS = 3


@report_section(
    "evidence", title="Basis of the verdict", chapter="verdict", order=40, is_brief=True
)
def evidence(comparison: Comparison) -> Iterator[Block]:
    """Yield two boxes: the basis of the verdict, and the comparability of the sides.

    If the sides are not comparable, the second box is in the section ``verdict`` instead.
    """
    items = tuple(list_evidence(comparison))
    warnings = sum(item.tone in ("bad", "warning") for item in items)
    listed = Items(items=items, brief=min(warnings, BRIEF_WARNINGS))
    panels = [Panel(caption="based on", blocks=(listed,))]
    if comparison.comparability.comparable:
        panels.append(comparability_panel(comparison))
    yield Panels(
        caption="what the verdict is based on, and whether the sides are comparable",
        panels=tuple(panels if items else panels[1:]),
    )
