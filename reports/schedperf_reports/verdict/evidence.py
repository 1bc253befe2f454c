# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure the verdict is: what it is based on, and whether the sides are comparable."""

from collections.abc import Iterator

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Items
from schedperf_reports.graphics.panels import Panel, Panels
from schedperf_reports.sections import report_section
from schedperf_reports.verdict.comparable import comparability_panel
from schedperf_reports.verdict.rests_on import list_evidence

# Of what makes the verdict less sure, on a text of one screen.
BRIEF_WARNINGS = 3


@report_section("evidence", title="How sure this is", chapter="verdict", order=40)
def evidence(comparison: Comparison) -> Iterator[Block]:
    """Yield what the verdict rests on beside what was compared.

    Sides that are not comparable stand next to the verdict.
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
