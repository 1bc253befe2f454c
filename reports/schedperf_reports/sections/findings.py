"""Findings: the facts that may explain the verdict, each with the row that proves it."""

from collections.abc import Iterator

from schedperf.model import Comparison, Finding
from schedperf_reports.blocks import Block, Item, Items, Text
from schedperf_reports.sections import report_section

# Findings that a terminal lists; more than a screen of them explains nothing.
MOST_FINDINGS = 8


@report_section("findings", title="Findings", order=25)
def findings(comparison: Comparison) -> Iterator[Block]:
    """Yield one item a finding, in the order of the record."""
    if not comparison.findings:
        yield Text(text="no rule found a fact that could explain the result", tone="muted")
        return
    several = len(comparison.sides) > 2  # noqa: PLR2004 # base and one new
    details = {_detail(found) for found in comparison.findings}
    is_shared = len(comparison.findings) > len(details) == 1
    yield Items(
        items=tuple(
            Item(
                text=f"{found.side}: {found.claim}" if several else found.claim,
                detail="" if is_shared else _detail(found),
                evidence=found.evidence,
            )
            for found in comparison.findings
        ),
        ordered=True,
        limit=MOST_FINDINGS,
    )
    if is_shared:
        yield Text(text=f"each of them: {details.pop()}", tone="muted")


def _detail(found: Finding) -> str:
    return "; ".join(part for part in (found.replication, found.attribution) if part)
