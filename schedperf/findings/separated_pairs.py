"""Scheduler variables that shared a cache line in base and are on two lines in new."""

from collections.abc import Iterator, Mapping
from typing import Any

from schedperf.findings import finding
from schedperf.model import Finding, Section

# One inserted variable can separate a dozen pairs; the best ranked ones name it, the rest is
# in the section's table.
MOST_FINDINGS = 3


@finding("separated_pairs", needs=("layout",))
def separated_pairs(sections: Mapping[str, Section]) -> Iterator[Finding]:
    """Yield a finding for each of the best ranked separated pairs of a side."""
    # The section's own JSON Schema vouches for the shape.
    data: Any = sections["layout"].data
    for comparison in data["comparisons"]:
        pairs = [pair for pair in comparison["separated"] if pair["scheduler"]]
        for pair in pairs[:MOST_FINDINGS]:
            yield _describe(comparison["side"], comparison["line_bytes"]["used"], pair)


def _describe(side: str, line_bytes: int, pair: Mapping[str, Any]) -> Finding:
    return Finding(
        id=f"separated_pairs#{pair['row']}",
        side=side,
        claim=(
            f"{pair['a']} and {pair['b']} were on one {line_bytes}-byte line in base "
            f"and are separated by a cacheline boundary in {side}"
        ),
        metric="shared cache line",
        value=None,
        ci=None,
        unit="",
        better=None,
        n=(1, 1),
        evidence=(f"layout#{pair['row']}",),
        replication="1 build a side",
        attribution="co-occurs; not shown to cause the change",
    )
