# SPDX-License-Identifier: GPL-2.0-or-later
"""List the reasons on the first screen: the first findings as clauses, with bar and interval.

A finding that only restates the result, such as CPU time per operation, is not a reason.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.account.record import ALL_PARTS, ON_CPU, Account, AccountPoint, Part
from schedperf.evidence.system.record import CPU_TIME, SystemCounters
from schedperf.model.comparison import Comparison
from schedperf.model.sections import Finding, data_of
from schedperf_reports.page.first_screen.time import TimePicture
from schedperf_reports.words.quantities import format_change, format_interval, write_size
from schedperf_reports.words.rows import has_changed, side_prefixes
from schedperf_reports.words.states import Noted, State

MOST_REASONS = 3
# Titles for changes beside a result that did not change, or has no verdict.
MOST_OTHERS = 2
# Maximum width of a bar: there is room for its interval after the longest one.
ROOM = 1.25

NOT_IDENTIFIED = "The cause is not identified."
CORRELATED = "Correlated; causation not shown."
NOTHING_DECIDED = "Effect on the result unknown."
NO_FINDINGS = "No other change was found."


class Reason(Struct, frozen=True, kw_only=True):
    """One line below "Why".

    :param detail: certainty of the finding
    :param number: size of the change: "+24.2%"; "" without one
    :param evidence: target of its link: "layout#sd_llc_id"
    :param is_weak: whether it is only a row that is worth a look, not a finding
    :param width: width of its bar in percent; None without a bar
    :param low: start of its interval in percent, clipped at the edge; None without one
    :param high: end of its interval in percent, clipped at the edge
    """

    text: str
    detail: str
    number: str
    evidence: str
    is_weak: bool = False
    width: float | None = None
    low: float | None = None
    high: float = 0.0


class Why(Struct, frozen=True, kw_only=True):
    """The list of reasons.

    :param lead: text that applies to all reasons
    :param more: number of findings that are not listed
    """

    title: str
    lead: str
    reasons: tuple[Reason, ...]
    more: int


class _Sized(Struct, frozen=True, kw_only=True):
    # A reason with the numbers of its bar, in its own unit.
    reason: Reason
    unit: str
    value: float | None
    ci: tuple[float, float] | None


def explain(comparison: Comparison, states: Mapping[str, State], time: TimePicture | None) -> Why:
    """Return the first findings, and what to look at if none of them is a reason.

    The change that stands out in the picture is a reason that is not listed again. If only CPU time
    changed, which repeats the result, the picture is enough.

    :param states: states of the sections, by name
    :param time: the picture of the tasks' time beside the list; None without one
    """
    reasons = [each for each in comparison.findings if each.bearing == "reason"]
    prefixes = side_prefixes(comparison)
    changed = has_changed(comparison)
    most = (MOST_REASONS if changed else MOST_OTHERS) - (time is not None)
    is_unknown = changed and all(_repeats_result(comparison, each) for each in reasons[: most + 1])
    drawn = _rows_of_picture(comparison, time, all_parts=is_unknown)
    findings = [each for each in reasons if not drawn.intersection(each.evidence)]
    # Beside the picture, one row that may explain the result is enough.
    most_looks = most if time is None else 1
    shown = findings[:most]
    # Changes of all tasks of the machine take no room from the workload's.
    if time is not None and shown and not shown[0].of_machine:
        shown = [each for each in shown if not each.of_machine]
    sized = [_from_finding(each, prefixes[each.side]) for each in shown]
    if is_unknown:
        cited = {anchor for each in findings for anchor in each.evidence}
        looks = _worth_a_look(states, cited)
        sized += [look for look, _ in zip(looks, range(most_looks - len(sized)), strict=False)]
    return Why(
        title="Why" if changed else "Other changes",
        lead=_lead(comparison, is_unknown=is_unknown, is_empty=not reasons and not sized),
        reasons=tuple(_with_bars(sized)),
        more=len(findings) - len(shown),
    )


def _rows_of_picture(
    comparison: Comparison, time: TimePicture | None, *, all_parts: bool
) -> set[str]:
    """Return the anchors of the largest part of each point of the picture: "account#new-0".

    :param all_parts: return those of all parts
    """
    data = data_of(comparison.sections, Account)
    if data is None or time is None:
        return set()
    places = {(point.side, point.workload, point.point): point for point in time.points}
    return {
        f"{Account.section}#{row.row}"
        for row in data.rows
        if (point := places.get((row.side, row.workload, row.point))) is not None
        and row.kind in (ALL_PARTS if all_parts else (_largest_part(point),))
    }


def _largest_part(point: AccountPoint) -> Part | None:
    return max(point.parts, key=lambda part: abs(part.contribution)).part


def _lead(comparison: Comparison, *, is_unknown: bool, is_empty: bool) -> str:
    if is_unknown:
        return NOT_IDENTIFIED
    if is_empty:
        return NO_FINDINGS
    return CORRELATED if has_changed(comparison) else NOTHING_DECIDED


def _repeats_result(comparison: Comparison, finding: Finding) -> bool:
    section, _, name = finding.evidence[0].partition("#") if finding.evidence else ("", "", "")
    if section == Account.section:
        times = data_of(comparison.sections, Account)
        return times is not None and any(
            row.row == name and row.kind in ON_CPU for row in times.rows
        )
    data = data_of(comparison.sections, SystemCounters)
    groups = {} if data is None else {row.row: row.group for row in data.rows}
    return section == SystemCounters.section and groups.get(name) in CPU_TIME


def _from_finding(finding: Finding, prefix: str) -> _Sized:
    text = finding.clause.replace(" -> ", " → ")
    detail = finding.replication
    if finding.ci is not None:
        low, high = (write_size(end, finding.unit) for end in finding.ci)
        detail = f"95% CI [{low}, {high}], {finding.replication}"
    reason = Reason(
        text=prefix + text,
        detail=detail,
        number="" if finding.value is None else write_size(finding.value, finding.unit),
        evidence=finding.evidence[0] if finding.evidence else "findings",
    )
    return _Sized(reason=reason, unit=finding.unit, value=finding.value, ci=finding.ci)


def _worth_a_look(states: Mapping[str, State], cited: set[str]) -> Iterator[_Sized]:
    noted = [
        (section, row)
        for section, state in states.items()
        for row in state.noted
        if f"{section}#{row.anchor}" not in cited
    ]
    noted.sort(key=lambda each: (not each[1].is_significant, -abs(each[1].ratio - 1.0)))
    yield from (_from_row(section, row) for section, row in noted)


def _from_row(section: str, row: Noted) -> _Sized:
    detail = f"95% CI {format_interval(row.ci_low, row.ci_high)}"
    if not row.is_significant:
        detail = "not significant after correction"
    low, high = 100.0 * (row.ci_low - 1.0), 100.0 * (row.ci_high - 1.0)
    reason = Reason(
        text=f"Worth a look: {row.name}",
        detail=detail,
        number=format_change(row.ratio),
        evidence=f"{section}#{row.anchor}",
        is_weak=True,
    )
    return _Sized(reason=reason, unit="%", value=100.0 * (row.ratio - 1.0), ci=(low, high))


def _with_bars(sized: Sequence[_Sized]) -> Iterator[Reason]:
    # Bars of the same unit have the same scale.
    for each in sized:
        if each.value is None:
            yield each.reason
            continue
        same = [other for other in sized if other.unit == each.unit]
        longest = ROOM * max(abs(other.value or 0.0) for other in same)
        yield _with_bar(each, longest or 1.0)


def _with_bar(each: _Sized, longest: float) -> Reason:
    reason = each.reason
    low, high = each.ci or (0.0, 0.0)
    ends = sorted((abs(low), abs(high)))
    return replace(
        reason,
        width=round(100.0 * abs(each.value or 0.0) / longest, 1),
        low=None if each.ci is None else round(min(100.0, 100.0 * ends[0] / longest), 1),
        high=round(min(100.0, 100.0 * ends[1] / longest), 1),
    )
