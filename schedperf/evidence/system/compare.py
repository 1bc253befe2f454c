# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare system counters as rows and CPU by CPU, and list settings that differ.

Multiple-testing correction has three families. Interrupts and softirqs by name are one family:
there are hundreds, which would hide a throttled cgroup. CPU times are another, which dozens of idle
states and cgroups would hide. All other groups are the third.

host.json has the settings that decide whether sides are comparable (``sched.features``,
``sched.base_slice_ns``, ``sched.preempt``); this module compares the other settings in debugfs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.system.capture import CpuKey, SystemCounts, SystemKey
from schedperf.evidence.system.record import (
    BY_NAME,
    CPU_TIME,
    GROUPS,
    Group,
    SettingRow,
    SystemMissing,
    SystemRefusal,
    SystemRow,
)
from schedperf.evidence.system.words import about, rank
from schedperf.inputs.side import Side
from schedperf.model.counted import CpuRow, Rate
from schedperf.model.errors import InputError
from schedperf.model.run import Captured, SideOf
from schedperf.model.text import cut, list_some
from schedperf.runs.sched_debug import FOLDER, flat_settings, read_sched_debug
from schedperf.stats.counted.distributions import CpuMeasure, CpuValues, compare_cpus
from schedperf.stats.counted.rates import Measures, Question, compare_rates, mean_totals

# Largest number of subjects of a group with rows per node; others have only rows of the sum.
LARGEST_BY_NODE = 5
# Largest number of named counters that only one side has; the rest is counted.
MOST_NAMED = 8
FAMILIES = (
    tuple(group for group in GROUPS if group not in (*BY_NAME, *CPU_TIME)),
    CPU_TIME,
    BY_NAME,
)

Subject = tuple[Group, str]
# Longest printed value; complete values are in the bundle.
LONGEST_VALUE = 200
# If more settings differ, the kernels have different sets of settings.
MOST_SETTINGS = 100

# The settings of one side by name; None if unknown.
_Settings = dict[str, str] | None
# Kinds of CPU time that are idle.
NOT_BUSY = ("idle", "iowait")
# Guest time is included in user time.
COUNTED_TWICE = ("guest", "guest_nice")
_OWN_SHARE = "share of the CPU's total time"
_BUSY = CpuMeasure("cpu busy", "", "CPU utilization (share of time not idle)")


class RunMeasures(Struct, frozen=True, kw_only=True):
    """The counts of one run.

    :param measures: rates, shares and levels
    :param totals: the counts themselves
    """

    measures: Measures[SystemKey]
    totals: Mapping[SystemKey, float]


Measured = SideOf[RunMeasures]
Totals = Mapping[tuple[str, str, SystemKey], float]


def compare_measures(base: Measured, new: Measured) -> list[SystemRow]:
    """Return a row for each counter and basis that both sides have, per workload and point.

    The largest subjects of each group (:data:`LARGEST_BY_NODE`) also have a row per NUMA node if
    there are several. Rates with different units are left out. ``changed`` is False for a change
    that is too small to matter (:attr:`SystemRow.why_small`).
    """
    totals = [mean_totals(side.having(lambda run: run.content.totals)) for side in (base, new)]
    shown = _shown_by_node(totals)
    answers = [
        answer
        for groups in FAMILIES
        for answer in compare_rates(
            _of_groups(base, groups, shown), _of_groups(new, groups, shown)
        ).items()
    ]
    answers.sort(key=lambda answer: _place(answer[0]))
    return [
        _row(index, question, rate, new.name, totals)
        for index, (question, rate) in enumerate(answers)
    ]


def _of_groups(
    side: Measured, groups: Collection[str], shown: Collection[Subject]
) -> SideOf[Measures[SystemKey]]:
    def keep(key: SystemKey) -> bool:
        is_shown = key.node is None or (key.group, key.subject) in shown
        return key.group in groups and is_shown

    return side.having(
        lambda run: {
            identity: measure
            for identity, measure in run.content.measures.items()
            if keep(identity[0])
        }
    )


def _shown_by_node(totals: Sequence[Totals]) -> set[Subject]:
    # With a single node, its rows equal the sums.
    counts: dict[Group, dict[str, float]] = {}
    nodes: set[int] = set()
    for of_side in totals:
        for (_, _, key), total in of_side.items():
            of_group = counts.setdefault(key.group, {})
            of_group[key.subject] = of_group.get(key.subject, 0.0) + total
            nodes |= set() if key.node is None else {key.node}
    if len(nodes) < 2:  # noqa: PLR2004 # see above
        return set()
    return {
        (group, subject)
        for group, amounts in counts.items()
        for subject in sorted(amounts, key=lambda name: -amounts[name])[:LARGEST_BY_NODE]
    }


def _place(question: Question[SystemKey]) -> tuple[object, ...]:
    key = question.key
    node = -1 if key.node is None else key.node
    field = rank(key.group, key.field), key.field
    order = question.workload, question.point, key.subject, *field, node, question.basis
    return GROUPS.index(key.group), *order


def _row(
    index: int,
    question: Question[SystemKey],
    rate: Rate,
    side: str,
    totals: Sequence[Totals],
) -> SystemRow:
    key = question.key
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
        total_base=totals[0].get(counted),
        total_new=totals[1].get(counted),
        **rate.as_fields(),
    )
    is_small = rate.p is not None and row.why_small
    return replace(row, changed=False) if is_small else row


def describe_zeros(rows: Sequence[SystemRow]) -> tuple[str, ...]:
    """Return the counters that were 0 in all runs; only the subject if all of its fields were 0."""
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
    """Return whether the count of a row was 0 in all runs of both sides."""
    return not row.base and not row.new


def describe_refusals(base: Measured, new: Measured) -> Iterator[SystemRefusal]:
    """Yield the counters that only one side has, at common points."""
    points = [{run.key.at for run in side.runs} for side in (base, new)]
    both = points[0] & points[1]
    for mine, counterpart in ((base, new), (new, base)):
        theirs = _counters(counterpart, both)
        only = [counter for counter in _counters(mine, both) if counter not in theirs]
        for group in GROUPS:
            names = [
                f"{subject} {field}"
                for counter_group, subject, field in only
                if counter_group == group
            ]
            if names:
                yield SystemRefusal(
                    side=mine.name,
                    group=group,
                    what=list_some(names, MOST_NAMED),
                    reason=f"not counted in {counterpart.name}",
                )


def _counters(
    side: Measured, points: Collection[tuple[str, str]]
) -> dict[tuple[str, str, str], None]:
    return {
        (key.group, key.subject, key.field): None
        for run in side.runs
        if run.key.at in points
        for key, _ in run.content.measures
    }


def compare_settings(sides: Sequence[Side]) -> tuple[list[SettingRow], list[SystemMissing]]:
    """Compare the settings of the first boots of base and of each other side.

    :return: up to ``MOST_SETTINGS`` settings per side that differ, with None for a kernel without
        the setting; and the sides whose settings could not be read, with the reason
    """
    settings = [(side, *_read_settings(side)) for side in sides]
    (_, base, _), *others = settings
    rows = [
        row
        for side, settings, _ in others
        if base is not None and settings is not None
        for row in _setting_rows(side.name, base, settings)
    ]
    missing = [
        SystemMissing(side=side.name, what=FOLDER, reason=reason)
        for side, _, reason in settings
        if reason
    ]
    return rows, missing


def _read_settings(side: Side) -> tuple[_Settings, str]:
    """Return the settings and "", or None and the reason why they are unknown.

    The reason is "" if the settings were not requested.
    """
    for boot in side.bundle.boots[:1]:
        try:
            debug = read_sched_debug(side, boot)
        except InputError as error:
            return None, str(error)
        if debug is not None:
            return flat_settings(debug), ""
    tried = (entry.reason for entry in side.bundle.captures if entry.collector == FOLDER)
    return None, next(filter(None, tried), "")


def _setting_rows(side: str, base: dict[str, str], new: dict[str, str]) -> Iterator[SettingRow]:
    names = [name for name in sorted(base | new) if base.get(name) != new.get(name)]
    for name in names[:MOST_SETTINGS]:
        yield SettingRow(
            side=side,
            name=name,
            base=_shorten(base.get(name)),
            new=_shorten(new.get(name)),
        )


def _shorten(value: str | None) -> str | None:
    return None if value is None else cut(value, LONGEST_VALUE)


def compare_loaded(base: SideOf[SystemCounts], new: SideOf[SystemCounts]) -> Iterator[CpuRow]:
    """Compare each CPU of two sides: shares of its time, and interrupts per second."""
    yield from compare_cpus(base.having(_cpu_values), new.having(_cpu_values))


def _cpu_values(run: Captured[SystemCounts]) -> CpuValues:
    seconds = run.content.seconds or run.wall_s
    return _per_cpu(run.content.cpus, seconds) if seconds else {}


def _per_cpu(
    counted: Mapping[CpuKey, Mapping[int, float]], seconds: float
) -> dict[CpuMeasure, Mapping[int, float]]:
    busy: dict[int, float] = {}
    measures: dict[CpuMeasure, Mapping[int, float]] = {_BUSY: busy}
    for key, counts in counted.items():
        measures[_cpu_measure(key)] = {cpu: value / seconds for cpu, value in counts.items()}
        if key.group == "cpu" and key.subject not in (*NOT_BUSY, *COUNTED_TWICE):
            for cpu, value in counts.items():
                busy[cpu] = busy.get(cpu, 0.0) + value / seconds
    return measures


def _cpu_measure(key: CpuKey) -> CpuMeasure:
    if key.unit == "s":
        # The meaning of the share for the sum refers to all CPUs, so a single CPU has its own text.
        is_time = key.group == "cpu"
        meaning = _OWN_SHARE if is_time else about(key.group, key.subject, "share").meaning
        return CpuMeasure(f"{key.group} {key.subject}", "", meaning)
    if key.group == "interrupts":
        return CpuMeasure("interrupts", "1/s", "all interrupts")
    meaning = about(key.group, key.subject, "count").meaning
    return CpuMeasure(f"{key.group} {key.subject}", "1/s", meaning)
