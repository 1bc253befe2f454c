"""Code that takes more, or less, of the CPUs in new, by class and function; and blind profiles.

Only an event that samples code with interrupts off can say anything about the
scheduler, most of which runs so. Where the event is blind, that is the finding.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schedperf.evidence import dict_finding
from schedperf.evidence.profile.blindness import CHARGED_FUNCTIONS, EMULATED_COUNTER
from schedperf.evidence.profile.order import ONE_AFTER_THE_OTHER
from schedperf.model.comparison import Finding, Section
from schedperf.model.units import cost_scale
from schedperf.runs.side import FIRST_NEW

# Of one point; the section's tables have all of them.
MOST_FINDINGS = 5
# Points of a sweep for which a blind profile names what was charged with the unseen code.
MOST_CHARGED_POINTS = 2

# Everything that no class has a name for says nothing by growing.
UNNAMED_CLASSES = ("other kernel code", "user code")

Entry = Mapping[str, Any]


@dict_finding("hotter_symbols", needs=("profile",))
def hotter_symbols(sections: Mapping[str, Section]) -> Iterator[Finding]:
    """Yield what changed on each side, largest change first, or why nothing can be seen.

    A class of functions stands for its functions; a function of the scheduler whose class did not
    change as a whole stands for itself.
    """
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
                    yield from _explained(compared["side"], event, point)


def _changed(side: str, event: Entry, point: Entry) -> Iterator[Finding]:
    classes = [
        row for row in point["classes"] if row["changed"] and row["class"] not in UNNAMED_CLASSES
    ]
    told = {row["class"] for row in classes}
    symbols = [
        row
        for row in point["rows"]
        if row["changed"] and row["scheduler"] and row["class"] not in told
    ]
    ranked = sorted((*classes, *symbols), key=lambda row: -abs(row["share"]["change"]))
    for row in ranked[:MOST_FINDINGS]:
        yield _describe(side, event, point, row)


def _describe(side: str, event: Entry, point: Entry, row: Entry) -> Finding:
    share, runs = row["share"], point["runs"]
    name = row["symbol"] if "symbol" in row else _name_class(row)
    direction = "more" if share["change"] > 0 else "less"
    at = f" at {point['point']}" if point["point"] else ""
    return Finding(
        id=f"hotter_symbols#{row['row']}",
        side=side,
        claim=(
            f"{name} takes {share['new']:.2f} % of all CPUs{at}, "
            f"{abs(share['change']):.2f} pp {direction} than in base "
            f"(95 % interval {share['ci_low']:+.2f}..{share['ci_high']:+.2f} pp)"
            f"{_by_node(row)}{_per_operation(row, point)}"
        ),
        metric=f"share of {event['event']}",
        value=share["change"],
        ci=(share["ci_low"], share["ci_high"]),
        unit="pp",
        better="lower",
        n=(runs["base"], runs["new"]),
        evidence=(f"profile#{row['row']}",),
        replication=f"{runs['base']}+{runs['new']} runs",
        attribution=_attribution(event, point),
    )


def _name_class(row: Entry) -> str:
    functions = ", ".join(f"{one['symbol']} {one['change']:+.2f}" for one in row["functions"])
    return f"{row['class']} ({functions} pp)"


def _by_node(row: Entry) -> str:
    if row["base_range"] is None or row["new_range"] is None:
        return ""
    only = row.get("one_node")
    if only is not None:
        return f"; on node {only} only"
    if row["base_range"][0] == row["base_range"][1] and row["new_range"][0] == row["new_range"][1]:
        return ""
    base, new = (
        f"{low:.2f} % - {high:.2f} %" for low, high in (row["base_range"], row["new_range"])
    )
    return f"; by node, without idle, {new} instead of {base}"


def _per_operation(row: Entry, point: Entry) -> str:
    cost = row["cost"]
    if cost is None or cost["ci_low"] is None:
        return ""
    scale = cost_scale(point["cost_unit"], cost["base"], cost["new"])
    base, new = (scale.format(cost[name]) for name in ("base", "new"))
    change, low, high = (
        scale.format_change(cost[name]) for name in ("change", "ci_low", "ci_high")
    )
    return f"; from {base} to {new} {scale.unit} ({change}, 95 % interval {low}..{high})"


def _explained(side: str, event: Entry, point: Entry) -> Iterator[Finding]:
    explained = point["explained"]
    if explained is None or explained["part"] is None:
        return
    runs, symbols = point["runs"], explained["symbols"]
    percent, low, high = (100.0 * explained[name] for name in ("part", "ci_low", "ci_high"))
    whole, _, operation = point["cost_unit"].partition(" per ")
    at = f" at {point['point']}" if point["point"] else ""
    place = f"{point['workload']}/{point['point']}"
    wall = "the same of the wall time" if explained["busy_equal"] else "the wall time is not told"
    yield Finding(
        id=_id(side, f"explained:{event['event']}/{place}"),
        side=side,
        claim=(
            f"{' + '.join(symbols)} {'is' if len(symbols) == 1 else 'are'} {percent:.0f} % of the "
            f"change in {'CPU time' if whole == 'ns' else whole} per {operation}{at} "
            f"(95 % interval {low:.0f}..{high:.0f} %); {wall}: {explained['busy_reason']}"
        ),
        metric="part of the change per operation",
        value=percent,
        ci=(low, high),
        unit="%",
        better=None,
        n=(runs["base"], runs["new"]),
        evidence=("profile",),
        replication=f"{runs['base']}+{runs['new']} runs",
        attribution=f"{_attribution(event, point)}; the same runs chose the functions",
    )


def _id(side: str, what: str) -> str:
    # Rows of further new sides have the side in front; so has what is said of no row.
    return f"hotter_symbols#{what}" if side == FIRST_NEW else f"hotter_symbols#{side}/{what}"


def _attribution(event: Entry, point: Entry) -> str:
    text = "co-occurs; not shown to cause the change"
    if not point["took_turns"]:
        text += f"; {ONE_AFTER_THE_OTHER}"
    if any(event["emulated"].values()):
        return f"{text}; {EMULATED_COUNTER}"
    return text


def _blind(side: str, event: Entry, blind: Sequence[str]) -> Finding:
    runs = [sum(point["runs"][name] for point in event["points"]) for name in ("base", "new")]
    where = "the profile" if len(blind) > 1 else f"the profile of {blind[0]}"
    return Finding(
        id=_id(side, f"blind:{event['event']}"),
        side=side,
        claim=(
            f"{where} cannot see the scheduler's own cost: {event['event']} is blind to code that "
            f"runs with interrupts off; {event['remedy']}"
        ),
        metric=f"share of {event['event']}",
        value=None,
        ci=None,
        unit="pp",
        better=None,
        n=(runs[0], runs[1]),
        evidence=("profile",),
        replication=f"{runs[0]}+{runs[1]} runs",
        attribution=f"neither shows nor rules out a cause in the scheduler{_charged(event)}",
        bearing="unseen",
    )


def _charged(event: Entry) -> str:
    # Such code is charged to what turns interrupts on again: that it grew is all that is seen.
    told = [
        text
        for point in event["points"]
        if (grown := [row for row in point["rows"] if _has_grown(row)])
        and (text := _list_charged(grown, point))
    ]
    if not told:
        return ""
    return (
        f"; consistent with more time with interrupts off: {'; '.join(told[:MOST_CHARGED_POINTS])} "
        "(cannot tell which code)"
    )


def _has_grown(row: Entry) -> bool:
    # By operation where that is known: a share also grows when others shrink.
    return row["symbol"] in CHARGED_FUNCTIONS and (row["cost"] or row["share"])["change"] > 0.0


def _list_charged(rows: Sequence[Entry], point: Entry) -> str:
    # Beyond noise at least one of them must be.
    if not any(_is_beyond_noise(row["cost"] or row["share"]) for row in rows):
        return ""
    at = f" at {point['point']}" if point["point"] else ""
    return f"{', '.join(_charge(row, point) for row in rows)}{at}"


def _is_beyond_noise(change: Entry) -> bool:
    return change["ci_low"] is not None and change["ci_low"] > 0.0


def _charge(row: Entry, point: Entry) -> str:
    if row["cost"] is None:
        found, unit = row["share"], "pp"
        change, ends = f"{found['change']:+.2f}", (found["ci_low"], found["ci_high"])
        listed = [f"{end:+.2f}" for end in ends if end is not None]
    else:
        found = row["cost"]
        scale = cost_scale(point["cost_unit"], found["base"], found["new"])
        change, unit = scale.format_change(found["change"]), scale.unit
        listed = [
            scale.format_change(found[end])
            for end in ("ci_low", "ci_high")
            if found[end] is not None
        ]
    interval = f" (95 % interval {'..'.join(listed)})" if listed else ""
    return f"{row['symbol']} {change} {unit}{interval}"
