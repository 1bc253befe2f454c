"""Schedstat: what the scheduler did more or less of, and where in the kernel to look."""

from collections.abc import Iterator

from schedperf.model import Comparison
from schedperf_reports._scheduler_counts import describe_counts
from schedperf_reports.blocks import Block, Text
from schedperf_reports.sections import report_section

# Of the CPUs; the page has all of them.
MOST_ROWS = 6


@report_section("schedstat", title="Scheduler statistics", order=35, is_analysis=True)
def schedstat(comparison: Comparison) -> Iterator[Block]:
    """Show what the rules read in the counts, then the counts of each level."""
    section = comparison.sections.get("schedstat")
    if section is None or section.data is None:
        reason = None if section is None else section.reason
        yield Text(text=reason or "not analysed", tone="muted")
        return
    yield from describe_counts(section.data, None, overview=MOST_ROWS)
    yield Text(
        text="sums over CPUs, means over runs; more is neither better nor worse", tone="muted"
    )
