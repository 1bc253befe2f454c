"""Schedstat: what the scheduler did more or less of, and where in the kernel to look."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from schedperf.model.comparison import Comparison
from schedperf_reports.blocks import Block, Text
from schedperf_reports.evidence.schedstat.counts import describe_counts
from schedperf_reports.rates.cells import MEANS
from schedperf_reports.rates.cpu_maps import cpu_maps
from schedperf_reports.sections import data_of, report_section

# Of the CPUs; the page has all of them.
MOST_ROWS = 6


@report_section(
    "schedstat", title="Scheduler statistics", chapter="scheduler", order=10, is_analysis=True
)
def schedstat(comparison: Comparison) -> Iterator[Block]:
    """Show what the rules read in the counts, the domains, the counts of each level and CPU."""
    data = data_of(comparison, "schedstat")
    if isinstance(data, Text):
        yield data
        return
    yield from describe_counts(data, None, overview=MOST_ROWS)
    yield from cpu_maps(comparison, cast("Sequence[Mapping[str, Any]]", data["cpus"]))
    yield Text(text=f"sums over CPUs; {MEANS}; more is neither better nor worse", tone="muted")
