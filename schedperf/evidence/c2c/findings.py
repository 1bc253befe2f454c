"""Cache lines that move between CPUs more, or less, often in new than in base."""

from collections.abc import Iterator, Mapping
from itertools import islice

from schedperf.evidence import dict_finding
from schedperf.evidence.c2c.line_names import Contention, Data, contentions, data_of
from schedperf.model.comparison import Finding, Section

# Of one point; the section's table has all of them.
MOST_FINDINGS = 5


@dict_finding("bouncing_lines", needs=("c2c",))
def bouncing_lines(sections: Mapping[str, Section]) -> Iterator[Finding]:
    """Yield the changed lines of each side, most contended first."""
    for compared in data_of(sections, "c2c")["comparisons"]:
        for point in compared["points"]:
            for contention in islice(contentions(point), MOST_FINDINGS):
                yield _describe(compared["side"], contention)


def _describe(side: str, contention: Contention) -> Finding:
    size, row = contention.size, contention.line["row"]
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


def _sharing(line: Data) -> str:
    # What a layout can mend and what it cannot.
    kinds = [line[side] and line[side]["sharing"] for side in ("base", "new")]
    words = {
        "true": "true sharing: CPUs touch the same bytes",
        "false": "false sharing: CPUs touch different bytes of the line",
        "mixed": "true and false sharing",
    }
    said = [words[kind] for kind in kinds if kind]
    if len(said) > 1 and said[0] != said[1]:
        return f"; {said[0]} before, {said[1]} now"
    return f"; {said[0]}" if said else ""
