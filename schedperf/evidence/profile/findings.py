# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for code with a changed share of CPU time, and for events that miss code.

Most of the scheduler runs with interrupts off, so only an event that samples such code measures it.
For an event that cannot, one finding states what is hidden; all other code is compared as with any
event. Samples of tasks that are not the workload's are one finding, other load.
"""

from collections.abc import Iterator, Sequence

from schedperf.evidence import caveat_rule, finding
from schedperf.evidence.profile.blindness import EMULATED_COUNTER
from schedperf.evidence.profile.family import CHARGED_FUNCTIONS, OTHER_KERNEL, USER
from schedperf.evidence.profile.independent import ONE_AFTER_THE_OTHER
from schedperf.evidence.profile.others import others_caveats
from schedperf.evidence.profile.record import (
    MOST_NODES,
    Profile,
    ProfileChange,
    ProfileClassRow,
    ProfileEvent,
    ProfilePoint,
    ProfileRow,
    Shares,
    blind_anchor,
    ends_of_nodes,
    explained_anchor,
    list_commands,
)
from schedperf.inputs.symbols.functions import function_name
from schedperf.model.base_new import BaseNew
from schedperf.model.place import OTHER_LOAD
from schedperf.model.sections import Finding
from schedperf.model.units import cost_scale
from schedperf.model.verdict import LEAST_OTHER_LOAD

# Largest number of findings per point of classes and scheduler functions, and of other functions;
# the section's tables have all rows.
MOST_FINDINGS = 5
MOST_OTHER_FINDINGS = 3
# Number of points for which a blind profile names the functions that the unseen code is attributed
# to.
MOST_CHARGED_POINTS = 2

# A change of the class of unclassified functions is not meaningful.
UNNAMED_CLASSES = (OTHER_KERNEL, USER)


caveat_rule("other_commands", Profile)(others_caveats)


@finding("hotter_symbols", Profile)
def hotter_symbols(profile: Profile) -> Iterator[Finding]:
    """Yield changes of the kernel and of user code, and a finding if the event is blind.

    A changed class of functions is one finding; a changed scheduler function in an unchanged class
    is a separate finding, and so is any other function whose own cost changed. So is the fraction
    of the change in cost that a few functions account for, if it is known.
    """
    for compared in profile.comparisons:
        for event in compared.events:
            blind = [name for name, is_blind in event.blind.items() if is_blind]
            if blind:
                yield _blind(compared.side, event, blind)
            for point in event.points:
                yield from _changed(compared.side, event, point)
                yield from _explained(compared.side, event, point)
                yield from _of_other_functions(compared.side, event, point)


def _changed(side: str, event: ProfileEvent, point: ProfilePoint) -> Iterator[Finding]:
    classes = [row for row in point.classes if row.changed and row.class_ not in UNNAMED_CLASSES]
    changed_classes = {row.class_ for row in classes}
    symbols = [
        row
        for row in point.rows
        if row.changed and row.scheduler and row.class_ not in changed_classes
    ]
    rows: list[ProfileRow | ProfileClassRow] = [*classes, *symbols]
    ranked = sorted(rows, key=lambda row: -abs(row.share.change))
    for row in ranked[:MOST_FINDINGS]:
        yield _describe(side, event, point, row)


def _of_other_functions(side: str, event: ProfileEvent, point: ProfilePoint) -> Iterator[Finding]:
    # Functions outside of the scheduler that no class row names.
    rows = [
        row
        for row in point.rows
        if row.changed and not row.scheduler and row.class_ in UNNAMED_CLASSES and _is_own(row)
    ]
    ranked = sorted(rows, key=lambda row: -abs(row.share.change))
    for row in ranked[:MOST_OTHER_FINDINGS]:
        yield _describe(side, event, point, row)


def _is_own(row: ProfileRow) -> bool:
    # A share also changes if other shares change, unless a side does not run the function.
    if row.cost is None or row.cost.ci_low is None or row.cost.ci_high is None:
        return 0.0 in (row.share.base, row.share.new)
    is_certain = row.cost.ci_low > 0.0 or row.cost.ci_high < 0.0
    return is_certain and row.cost.change * row.share.change > 0.0


def _describe(
    side: str, event: ProfileEvent, point: ProfilePoint, row: ProfileRow | ProfileClassRow
) -> Finding:
    share, runs = row.share, point.runs
    # A significant change has a CI.
    assert share.ci_low is not None
    assert share.ci_high is not None
    direction = "more" if share.change > 0 else "less"
    at = f" at {point.point}" if point.point else ""
    is_other_load = row.class_ == OTHER_LOAD.symbol
    return Finding(
        id=f"hotter_symbols#{row.row}",
        side=side,
        clause=f"{_subject(row)} {share.new:.2f}% of total CPU time{at}",
        change=(
            f", {abs(share.change):.2f} pp {direction} than in base "
            f"(95% CI [{share.ci_low:+.2f}, {share.ci_high:+.2f}] pp)"
            f"{_by_function(row, point)}"
        ),
        details=f"{_by_node(row)}{_per_operation(row, point)}",
        metric=f"share of {event.event}",
        value=share.change,
        ci=(share.ci_low, share.ci_high),
        unit="pp",
        better="lower",
        n=(runs.base, runs.new),
        evidence=(f"profile#{row.row}",),
        replication=f"{runs.base}+{runs.new} runs",
        attribution=_attribution(event, point),
        # It ranks after changes of the workload if it is small.
        of_machine=is_other_load and abs(share.change) < 100.0 * LEAST_OTHER_LOAD,
    )


def _subject(row: ProfileRow | ProfileClassRow) -> str:
    if not isinstance(row, ProfileRow):
        return f"{row.class_}:"
    if row.class_ != USER:
        return f"{row.name} uses"
    kind = "user code" if row.share.base else "new user code"
    return f"{kind}: {row.symbol} ({row.dso}) uses"


def _by_function(row: ProfileRow | ProfileClassRow, point: ProfilePoint) -> str:
    if isinstance(row, ProfileRow):
        return ""
    if row.class_ == OTHER_LOAD.symbol:
        listed = list_commands(point.others)
        return f": {', '.join(listed)} of the busy time" if listed else ""
    changes = (f"{function.name} {function.change:+.2f}" for function in row.functions)
    return f": {', '.join(changes)} pp"


def _by_node(row: ProfileRow | ProfileClassRow) -> str:
    if isinstance(row, ProfileRow) and row.one_node is not None:
        return f"; on node {row.one_node} only"
    both = row.nodes
    common = sorted(both.base.keys() & both.new.keys())
    if len(common) < 2:  # noqa: PLR2004 # one node is the whole machine
        return ""
    if len(common) <= MOST_NODES:
        listed = [_on_node(both, node) for node in common]
    else:
        ends = ends_of_nodes(both) or ()
        listed = [
            f"{word} on {_on_node(both, node)}"
            for word, node in zip(("most", "least"), ends, strict=False)
        ]
    return f"; idle excluded, {', '.join(listed)}"


def _on_node(shares: BaseNew[Shares], node: int) -> str:
    return f"node {node} {shares.base[node]:.2f}% -> {shares.new[node]:.2f}%"


def _per_operation(row: ProfileRow | ProfileClassRow, point: ProfilePoint) -> str:
    cost = row.cost
    if cost is None or point.cost_unit is None or cost.ci_low is None or cost.ci_high is None:
        return ""
    scale = cost_scale(point.cost_unit, cost.base, cost.new)
    base, new = scale.format(cost.base), scale.format(cost.new)
    change, low, high = map(scale.format_change, (cost.change, cost.ci_low, cost.ci_high))
    return f"; from {base} to {new} {scale.unit} ({change} [{low}, {high}])"


def _explained(side: str, event: ProfileEvent, point: ProfilePoint) -> Iterator[Finding]:
    explained = point.explained
    if explained is None or explained.part is None:
        return
    # A part always has a CI.
    assert explained.ci_low is not None
    assert explained.ci_high is not None
    assert point.cost_unit is not None
    runs, symbols = point.runs, explained.symbols
    percent, low, high = (
        100.0 * part for part in (explained.part, explained.ci_low, explained.ci_high)
    )
    whole, _, operation = point.cost_unit.partition(" per ")
    at = f" at {point.point}" if point.point else ""
    anchor = explained_anchor(side, event, point)
    yield Finding(
        id=f"hotter_symbols#{anchor}",
        side=side,
        clause=(
            f"{' + '.join(explained.names)} {'accounts' if len(symbols) == 1 else 'account'} "
            f"for {percent:.0f}% of the "
            f"change in {'CPU time' if whole == 'ns' else whole} per {operation}{at}"
        ),
        change=f" (95% CI [{low:.0f}%, {high:.0f}%])",
        metric="fraction of the change in cost per operation",
        value=percent,
        ci=(low, high),
        unit="%",
        better=None,
        n=(runs.base, runs.new),
        evidence=(f"profile#{anchor}",),
        replication=f"{runs.base}+{runs.new} runs",
        attribution=f"{_attribution(event, point)}; the functions were selected from the same runs",
    )


def _attribution(event: ProfileEvent, point: ProfilePoint) -> str:
    text = "correlated; causation not shown"
    if not point.took_turns:
        text += f"; {ONE_AFTER_THE_OTHER}"
    if any(event.emulated):
        return f"{text}; {EMULATED_COUNTER}"
    return text


def _blind(side: str, event: ProfileEvent, blind: Sequence[str]) -> Finding:
    runs = (
        sum(point.runs.base for point in event.points),
        sum(point.runs.new for point in event.points),
    )
    sees = (
        "it does not count the kernel"
        if any("kernel" in levels for levels in event.excluded)
        else "it cannot sample code that runs with interrupts off"
    )
    where = "" if len(blind) > 1 else f" of {blind[0]}"
    anchor = blind_anchor(side, event)
    charged = [(point, rows) for point in event.points if (rows := _charged_rows(point))]
    named = charged[:MOST_CHARGED_POINTS]
    return Finding(
        id=f"hotter_symbols#{anchor}",
        side=side,
        clause=f"most scheduler code{where} (profile by {event.event})",
        details=f": {sees}; {event.remedy}",
        metric=f"share of {event.event}",
        value=None,
        ci=None,
        unit="pp",
        better=None,
        n=runs,
        evidence=(
            f"profile#{anchor}",
            *(f"profile#{row.row}" for _, rows in named for row in rows),
        ),
        replication=f"{runs[0]}+{runs[1]} runs",
        attribution=f"a cause in the scheduler is possible but not shown{_list_charged(named)}",
        bearing="unseen",
    )


def _list_charged(charged: Sequence[tuple[ProfilePoint, Sequence[ProfileRow]]]) -> str:
    # Time with interrupts off is attributed to the code that enables them: only a sum is visible.
    if not charged:
        return ""
    listed = "; ".join(_list_point(point, rows) for point, rows in charged)
    return (
        f"; consistent with more time with interrupts off: {listed} (the code that ran with "
        "interrupts off is unknown)"
    )


def _list_point(point: ProfilePoint, rows: Sequence[ProfileRow]) -> str:
    at = f" at {point.point}" if point.point else ""
    return f"{', '.join(_charge(row, point) for row in rows)}{at}"


def _charged_rows(point: ProfilePoint) -> list[ProfileRow]:
    # At least one change must be significant.
    grown = [row for row in point.rows if _has_grown(row)]
    return grown if any(_is_beyond_noise(row.cost or row.share) for row in grown) else []


def _has_grown(row: ProfileRow) -> bool:
    # Per operation if known, because a share also grows if others shrink.
    return function_name(row.symbol) in CHARGED_FUNCTIONS and (row.cost or row.share).change > 0.0


def _is_beyond_noise(change: ProfileChange) -> bool:
    return change.ci_low is not None and change.ci_low > 0.0


def _charge(row: ProfileRow, point: ProfilePoint) -> str:
    cost = row.cost
    if cost is None or point.cost_unit is None:
        share, unit = row.share, "pp"
        change = f"{share.change:+.2f}"
        listed = [f"{end:+.2f}" for end in (share.ci_low, share.ci_high) if end is not None]
    else:
        scale = cost_scale(point.cost_unit, cost.base, cost.new)
        change, unit = scale.format_change(cost.change), scale.unit
        ends = (cost.ci_low, cost.ci_high)
        listed = [scale.format_change(end) for end in ends if end is not None]
    interval = f" [{', '.join(listed)}]" if listed else ""
    return f"{row.symbol} {change} {unit}{interval}"
