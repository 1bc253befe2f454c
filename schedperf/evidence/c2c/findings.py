"""Cache lines that move between CPUs more, or less, often in new than in base."""

from collections.abc import Iterator, Mapping
from itertools import islice

from schedperf.evidence import finding
from schedperf.evidence.c2c.line_names import Contention, contentions
from schedperf.evidence.c2c.record import C2c, C2cLineRow, Sharing
from schedperf.model.comparison import Finding

# Of one point; the section's table has all of them.
MOST_FINDINGS = 5


_SHARING: Mapping[Sharing, str] = {
    "true": "true sharing: CPUs touch the same bytes",
    "false": "false sharing: CPUs touch different bytes of the line",
    "mixed": "true and false sharing",
}


@finding("bouncing_lines", C2c)
def bouncing_lines(data: C2c) -> Iterator[Finding]:
    """Yield the changed lines of each side, most contended first."""
    for compared in data.comparisons:
        for point in compared.points:
            for contention in islice(contentions(point), MOST_FINDINGS):
                yield _describe(compared.side, contention)


def _describe(side: str, contention: Contention) -> Finding:
    size, row = contention.size, contention.line.row
    return Finding(
        id=f"bouncing_lines#{row}",
        side=side,
        claim=f"{contention.subject}: {contention.describe()}{_sharing(contention.line)}",
        metric=size.metric,
        value=size.value,
        ci=size.interval,
        unit=size.unit,
        better="lower",
        n=size.n,
        evidence=(f"c2c#{row}",),
        replication=f"{size.n[0]}+{size.n[1]} runs",
        attribution="co-occurs; not shown to cause the change",
    )


def _sharing(line: C2cLineRow) -> str:
    # What a layout can mend and what it cannot.
    said = [_SHARING[seen.sharing] for seen in line.seen if seen.sharing is not None]
    if len(said) > 1 and said[0] != said[1]:
        return f"; {said[0]} before, {said[1]} now"
    return f"; {said[0]}" if said else ""
