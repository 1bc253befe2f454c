# SPDX-License-Identifier: GPL-2.0-or-later
"""Report why the workload's tasks waited for a CPU or were blocked, in instrumented runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedperf.evidence.account.record import (
    SUB_PARTS,
    Contributed,
    DividedKind,
    DividedPoint,
    DividedRow,
    Part,
    SubPart,
    write_points,
)
from schedperf.model.verdict import count_units
from schedperf_reports.blocks import Block, Column
from schedperf_reports.rates.cells import explain_gaps, gather_twins
from schedperf_reports.rates.tables import Rates, by_subject, titled

# Widest interval of a contribution whose ends are written, as a fraction.
WIDEST = 2.0
SUB_PART_NAMES: Mapping[SubPart, str] = {
    "preempted": "preempted",
    "woken": "woken",
    "yielded": "yielded",
    "throttled": "throttled",
    "io": "I/O",
    "other": "other",
}
KIND_NAMES: Mapping[DividedKind, str] = {
    "preempted": "waiting: preempted",
    "woken": "waiting: woken",
    "yielded": "waiting: yielded",
    "throttled": "waiting: throttled",
    "io": "blocked: I/O",
    "other": "blocked: other",
    "migrations": "migrations",
}
MEANINGS: Mapping[DividedKind, str] = {
    "preempted": "the task left its CPU although it could run on",
    "woken": "from a wakeup, or the start of the task, until it runs",
    "yielded": "the task called sched_yield(2)",
    "throttled": "the CPU bandwidth of its cgroup was used up",
    "io": "asleep, counted as iowait by the kernel",
    "other": "asleep: a lock, a pipe, a timer, another task",
    "migrations": "moves of a task to another CPU",
}
# A part for which only this reason is known is not divided.
REST: SubPart = "other"
# A contribution that is 0 as printed, with its whole interval.
SMALL = "under 0.05 pp"


def _name(row: DividedRow) -> str:
    return KIND_NAMES[row.kind]


RATES: Rates[DividedRow] = Rates(
    first=Column(title="in instrumented runs"),
    name=_name,
    about=lambda row: MEANINGS[row.kind],
    direction="lower is better",
)


def list_parts(texts: Iterable[tuple[str, str]]) -> str:
    """List parts with what each contributes; small ones are named only if all are small.

    >>> list_parts([("system", "+9.0 pp [+8.1, +9.9]"), ("user", "under 0.05 pp")])
    'system +9.0 pp [+8.1, +9.9]'
    """
    all_parts = list(texts)
    large = [(name, text) for name, text in all_parts if text != SMALL]
    return ", ".join(f"{name} {text}" for name, text in large or all_parts)


def write_contribution(change: Contributed, *, has_interval: bool = True) -> str:
    """Write what a part contributes: ``+80 pp [+71, +89]``, or ``SMALL``."""
    interval = ""
    if has_interval and change.ci_low is not None and change.ci_high is not None:
        ends = f"{write_points(change.ci_low)}, {write_points(change.ci_high)}"
        if ends == "0, 0":
            return SMALL
        is_wide = change.ci_high - change.ci_low > WIDEST
        interval = f" [{'too wide' if is_wide else ends}]"
    return f"{write_points(change.contribution)} pp{interval}"


def describe_divided(
    point: DividedPoint, where: str, part_names: Mapping[Part, str]
) -> Iterator[str]:
    """Yield what contributed to the change of waiting, and of blocked time, if it is known.

    :param where: start of each line, with side and point: "groups=4: "; or ""
    """
    n = count_units(point.n_base, point.n_new, point.replication)
    for part, reasons in SUB_PARTS.items():
        changes = [change for change in point.parts if change.part in reasons]
        if not any(change.base or change.new for change in changes if change.part != REST):
            continue
        alone = ", no interval" if changes[0].ci_low is None else ""
        changes.sort(key=lambda change: -abs(change.contribution))
        texts = ((SUB_PART_NAMES[change.part], write_contribution(change)) for change in changes)
        missing = [SUB_PART_NAMES[reason] for reason in reasons if reason in point.missing]
        unknown = f"; {' and '.join(missing)}: not measured" if missing else ""
        yield (
            f"{where}{part_names[part]}, in instrumented runs: {list_parts(texts)}{unknown} "
            f"({n}{alone})"
        )


def tables_of_divided(rows: Sequence[DividedRow], limit: int) -> Iterator[Block]:
    """Yield a table of the compared times for each side, workload and point.

    :param limit: number of rows that a terminal shows
    """
    for _, subject, members in by_subject(rows):
        ordered = gather_twins(members)
        title = titled(subject, "why the workload's tasks waited")
        yield RATES.table(title, ordered, limit=limit, least=len(KIND_NAMES))
        yield from explain_gaps(members)
