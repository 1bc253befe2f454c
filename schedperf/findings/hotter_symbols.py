"""Scheduler functions that take more, or less, of the CPUs in new; and profiles that are blind.

Only an event that samples code with interrupts off can say anything about the
scheduler, most of which runs so. Where the event is blind, that is the finding.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedperf.findings import finding
from schedperf.model import Finding, Section

# Of one point; the section's table has all of them.
MOST_FINDINGS = 5


@finding("hotter_symbols", needs=("profile",))
def hotter_symbols(sections: Mapping[str, Section]) -> Iterator[Finding]:
    """Yield the changed functions of each side, largest change first, or why none can be seen."""
    # The section's own JSON Schema vouches for the shape.
    data: Any = sections["profile"].data
    for compared in data["comparisons"]:
        for event in compared["events"]:
            blind = [name for name in ("base", "new") if event["blind"][name]]
            if blind:
                yield _blind(compared["side"], event, blind)
            elif event["blind"] == {"base": False, "new": False}:
                for point in event["points"]:
                    yield from _changed(compared["side"], event, point)


def _changed(side: str, event: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[Finding]:
    for row in [row for row in point["rows"] if row["changed"]][:MOST_FINDINGS]:
        direction = "more" if row["change_pp"] > 0 else "less"
        at = f" at {point['point']}" if point["point"] else ""
        yield Finding(
            id=f"hotter_symbols#{row['row']}",
            side=side,
            claim=(
                f"{row['symbol']} takes {row['new']:.2f} % of all CPUs{at}, "
                f"{abs(row['change_pp']):.2f} pp {direction} than before "
                f"(95 % interval {row['ci_low']:+.2f}..{row['ci_high']:+.2f} pp)"
                f"{_by_node(row)}"
            ),
            metric=f"share of {event['event']} samples",
            value=row["change_pp"],
            ci=(row["ci_low"], row["ci_high"]),
            unit="pp",
            better="lower",
            n=(point["runs"]["base"], point["runs"]["new"]),
            evidence=(f"profile#{row['row']}",),
            replication=f"{point['runs']['base']}+{point['runs']['new']} runs",
            attribution="co-occurs; not shown to cause the change",
        )


def _by_node(row: Mapping[str, Any]) -> str:
    if len(row["base_nodes"]) < 2 or len(row["new_nodes"]) < 2:  # noqa: PLR2004
        return ""
    base, new = (
        f"{low:.2f} % - {high:.2f} %" for low, high in (row["base_range"], row["new_range"])
    )
    return f"; by node, without idle, {new} instead of {base}"


def _blind(side: str, event: Mapping[str, Any], blind: Sequence[str]) -> Finding:
    runs = [sum(point["runs"][name] for point in event["points"]) for name in ("base", "new")]
    where = "the profile" if len(blind) > 1 else f"the profile of {blind[0]}"
    return Finding(
        id=f"hotter_symbols#blind:{event['event']}",
        side=side,
        claim=(
            f"{where} cannot see the scheduler's own cost: {event['event']} is blind to code that "
            "runs with interrupts off"
        ),
        metric=f"share of {event['event']} samples",
        value=None,
        ci=None,
        unit="pp",
        better=None,
        n=(runs[0], runs[1]),
        evidence=("profile",),
        replication=f"{runs[0]}+{runs[1]} runs",
        attribution="neither shows nor rules out a cause in the scheduler",
    )
