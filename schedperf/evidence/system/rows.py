"""Rows that compare what the system counted, and what has no counterpart.

Interrupts and softirqs by name are a family of tests of their own: there are hundreds, and they
must not hide one cgroup that is throttled. So are the times of the CPUs: they are the few parts of
one whole, where the time of an operation went, which dozens of idle states and cgroups must not
hide either. All other groups together are the third.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from schedperf.evidence.system.capture import SystemKey
from schedperf.evidence.system.record import Group, SystemRefusal, SystemRow
from schedperf.evidence.system.words import BY_NAME, GROUPS, about, rank
from schedperf.model.counted import Rate
from schedperf.model.run import SideOf
from schedperf.stats.counted.rates import Measures, Question, compare_rates
from schedperf.stats.verdicts import percent

# Subjects of a group whose nodes have rows of their own; of the others the sums say enough.
LARGEST_BY_NODE = 5
# A list of what only one side has names so many; the rest is counted.
MOST_NAMED = 8
# What is below 1 % of the time or of the periods on both sides explains no change of 1 %.
LEAST_SHARE = 0.01
# Fewer events in a run say little, whatever the interval of their rate is.
LEAST_EVENTS = 100.0
# The same in words.
LEAST = f"{LEAST_EVENTS:g} events in a run, or a share of {percent(LEAST_SHARE)}"
CPU_TIME: tuple[Group, ...] = ("cpu",)
FAMILIES = (
    tuple(group for group in GROUPS if group not in (*BY_NAME, *CPU_TIME)),
    CPU_TIME,
    BY_NAME,
)

Subject = tuple[Group, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class SideMeasures:
    """The measures of one side's runs.

    :param totals: of a run, as they were counted: mean over the runs, by workload, point and key
    """

    counted: SideOf[Measures[SystemKey]]
    totals: Mapping[tuple[str, str, SystemKey], float]


def compare_measures(base: SideMeasures, new: SideMeasures) -> list[SystemRow]:
    """Return a row for each question that can be asked of both sides."""
    shown = _shown_by_node((base, new))
    answers = [
        answer
        for groups in FAMILIES
        for answer in compare_rates(
            _of_groups(base, groups, shown), _of_groups(new, groups, shown)
        ).items()
    ]
    answers.sort(key=lambda answer: _place(answer[0]))
    return [
        _row(index, question, rate, base, new) for index, (question, rate) in enumerate(answers)
    ]


def _of_groups(
    side: SideMeasures, groups: Collection[str], shown: Collection[Subject]
) -> SideOf[Measures[SystemKey]]:
    def keep(key: SystemKey) -> bool:
        is_shown = key.node is None or (key.group, key.subject) in shown
        return key.group in groups and is_shown

    return replace(
        side.counted,
        runs=tuple(
            run.having({place: one for place, one in run.content.items() if keep(place[0])})
            for run in side.counted.runs
        ),
    )


def _shown_by_node(sides: Sequence[SideMeasures]) -> set[Subject]:
    # One node alone says the same as the sum.
    counts: dict[Group, dict[str, float]] = {}
    nodes: set[int] = set()
    for side in sides:
        for (_, _, key), total in side.totals.items():
            of_group = counts.setdefault(key.group, {})
            of_group[key.subject] = of_group.get(key.subject, 0.0) + total
            nodes |= set() if key.node is None else {key.node}
    if len(nodes) < 2:  # noqa: PLR2004 # see above
        return set()
    return {
        (group, subject)
        for group, found in counts.items()
        for subject in sorted(found, key=lambda one: -found[one])[:LARGEST_BY_NODE]
    }


def _place(question: Question[SystemKey]) -> tuple[object, ...]:
    key = question.key
    node = -1 if key.node is None else key.node
    field = rank(key.group, key.field), key.field
    place = question.workload, question.point, key.subject, *field, node, question.basis
    return GROUPS.index(key.group), *place


def _row(
    index: int,
    question: Question[SystemKey],
    rate: Rate,
    base: SideMeasures,
    new: SideMeasures,
) -> SystemRow:
    key, side = question.key, new.counted.name
    described = about(key.group, key.subject, key.field)
    counted = question.workload, question.point, key
    row = SystemRow(
        row=f"{side}-{index}",
        side=side,
        workload=question.workload,
        point=question.point,
        group=key.group,
        subject=key.subject,
        field=key.field,
        node=key.node,
        basis=question.basis,
        meaning=described.meaning,
        function=described.function,
        total_base=base.totals.get(counted),
        total_new=new.totals.get(counted),
        **rate.as_fields(),
    )
    is_small = rate.p is not None and why_small(row)
    return replace(row, changed=False) if is_small else row


def why_small(row: SystemRow) -> str:
    """Say why a row is no change however sure it is: it is too little; "" where it is not."""
    values = [value for value in (row.base, row.new) if value is not None]
    if row.unit == "":
        is_little = max(values, default=0.0) < LEAST_SHARE
        return f"the share is below {percent(LEAST_SHARE)} on both sides" if is_little else ""
    # Of quotients and levels nobody counted events.
    events = [total for total in (row.total_base, row.total_new) if total is not None]
    is_counted = row.unit.startswith("1/") and events
    if not is_counted or max(events) >= LEAST_EVENTS:
        return ""
    return f"fewer than {LEAST_EVENTS:g} events in a run, on both sides"


def describe_zeros(rows: Sequence[SystemRow]) -> tuple[str, ...]:
    """Name what was 0 in all runs of all sides; a subject alone where all of it was."""
    zeros: dict[Subject, dict[str, None]] = {}
    others: set[tuple[str, ...]] = set()
    for row in rows:
        subject = (row.group, row.subject)
        if is_zero(row):
            zeros.setdefault(subject, {})[row.field] = None
        else:
            others |= {subject, (*subject, row.field)}
    names: list[str] = []
    for subject, fields in zeros.items():
        if subject not in others:
            names.append(" ".join(subject))
            continue
        names += [
            " ".join((*subject, field)) for field in fields if (*subject, field) not in others
        ]
    return tuple(names)


def is_zero(row: SystemRow) -> bool:
    """Was the count of a row 0 in all runs of both sides?"""
    return not row.base and not row.new


def describe_refusals(base: SideMeasures, new: SideMeasures) -> Iterator[SystemRefusal]:
    """Yield what only one of two sides counted, at the points that both have."""
    points = [{run.key.at for run in one.counted.runs} for one in (base, new)]
    both = points[0] & points[1]
    for mine, other in ((base, new), (new, base)):
        theirs = _counters(other, both)
        only = [one for one in _counters(mine, both) if one not in theirs]
        for group in GROUPS:
            names = [f"{subject} {field}" for found, subject, field in only if found == group]
            if names:
                more = len(names) - MOST_NAMED
                listed = ", ".join(names[:MOST_NAMED])
                yield SystemRefusal(
                    side=mine.counted.name,
                    group=group,
                    what=f"{listed} and {more} more" if more > 0 else listed,
                    reason=f"not counted in {other.counted.name}",
                )


def _counters(
    side: SideMeasures, points: Collection[tuple[str, str]]
) -> dict[tuple[str, str, str], None]:
    return {
        (key.group, key.subject, key.field): None
        for run in side.counted.runs
        if run.key.at in points
        for key, _ in run.content
    }
