# SPDX-License-Identifier: GPL-2.0-or-later
"""Yield findings for significant changes of task placement, waits and load balancing.

A finding names the kernel function that decides. It does not claim that the benchmark changed
because of it.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from schedperf.evidence import finding
from schedperf.evidence.placement.record import Part, Placement, PlacementRow, TimersRow
from schedperf.model.sections import Finding
from schedperf.model.units import format_number, scale_for
from schedperf.model.verdict import count_units
from schedperf.stats.counted.findings import Paces, rate_finding, write_change
from schedperf.stats.counted.rates import BASES, LEAST_EVENTS_OF_FINDING, distance_of

# Parts of a row that are about the workload's groups or named ones; all other rows count all tasks.
OF_GROUPS: AbstractSet[Part] = {"depth", "timers"}
# Largest number of findings per point and side; the section's tables have all rows.
MOST_FINDINGS = 8


class _Rule(Struct, frozen=True, kw_only=True):
    # :param subject: subject of the clause, with its colon
    # :param nodes_or_groups: number of nodes or cgroups of the row
    # :param types: number of types of CPU cores of the row
    # :param look_at: kernel function; {function} is the function of the row
    # :param is_of_level: only rows of one level, not sums over levels
    part: Part
    field: str
    subject: Callable[[PlacementRow], str]
    look_at: str
    nodes_or_groups: int = 0
    types: int = 0
    is_of_level: bool = False


# Forks and moves between nodes first, because they decide which memory is local to a task.
_RULES = (
    _Rule(
        part="fork", field="count", nodes_or_groups=2, look_at="{function}",
        subject=lambda row: f"forks from node {row.nodes[0]} sent to node {row.nodes[1]}:",
    ),
    _Rule(
        part="cause", field="crossing", look_at="{function}",
        subject=lambda row: f"migrations between nodes ({_cause(row)}):",
    ),
    _Rule(
        part="exec", field="crossing", look_at="sched_exec()",
        subject=lambda _: "execs between nodes:",
    ),
    _Rule(
        part="wakeup", field="crossing", look_at="select_task_rq_fair()",
        subject=lambda _: "wakeups between nodes:",
    ),
    _Rule(
        part="migration", field="crossing", look_at="set_task_cpu()",
        subject=lambda _: "migrations between nodes:",
    ),
    _Rule(
        part="latency", field="p99", nodes_or_groups=1, look_at="select_task_rq_fair()",
        subject=lambda row: f"run-queue latency p99 on node {row.nodes[0]}:",
    ),
    _Rule(
        part="wakeup", field="onto_type", types=1, look_at="select_task_rq_fair()",
        subject=lambda row: f"wakeups onto CPUs of type {row.types[0]}:",
    ),
    _Rule(
        part="migration", field="onto_type", types=1, look_at="set_task_cpu()",
        subject=lambda row: f"migrations onto CPUs of type {row.types[0]}:",
    ),
    _Rule(
        part="latency", field="p99", types=1, look_at="select_task_rq_fair()",
        subject=lambda row: f"run-queue latency p99 on CPUs of type {row.types[0]}:",
    ),
    _Rule(
        part="timers", field="distance", nodes_or_groups=2,
        look_at="init_cfs_bandwidth() and start_cfs_bandwidth()",
        subject=lambda row: f"bandwidth timers of {row.groups[0]} and {row.groups[1]} expire:",
    ),
    _Rule(
        part="group_imbalance", field="count", is_of_level=True,
        look_at="{function}: sgc->imbalance",
        subject=lambda row: (
            f"load-balancing attempts at {row.level} that found sgc->imbalance set, or set it:"
        ),
    ),
    _Rule(
        part="destination", field="imbalanced", is_of_level=True,
        look_at="{function}: group_imbalanced",
        subject=lambda row: f"searches for a destination group at {row.level} ({_cause(row)}) "
        "while "
        "sgc->imbalance was set:",
    ),
    _Rule(
        part="pinned", field="some_pinned", is_of_level=True,
        look_at="can_migrate_task(): LBF_SOME_PINNED",
        subject=lambda row: (
            f"{row.idle} load-balancing attempts at {row.level} that found pinned tasks:"
        ),
    ),
    _Rule(
        part="attempts", field="pulled", is_of_level=True,
        look_at="{function} and detach_tasks()",
        subject=lambda row: f"tasks pulled by {row.idle} balancing at {row.level}:",
    ),
    _Rule(
        part="migratable", field="refused", is_of_level=True, look_at="can_migrate_task()",
        subject=lambda row: f"tasks that {row.idle} balancing at {row.level} refused to move:",
    ),
    _Rule(
        part="depth", field="mean", look_at="update_cfs_group()",
        subject=lambda _: "depth of the workload's task groups:",
    ),
)  # fmt: skip
_WORDS = {"together": "together", "apart": "apart", "mixed": "together in some runs only"}
_CAUSES = {"load_balance": "load balance", "numa": "NUMA balancing"}


def _cause(row: PlacementRow) -> str:
    return _CAUSES.get(row.cause, row.cause)


@finding("task_placement", Placement)
def task_placement(placement: Placement) -> Iterator[Finding]:
    """Yield up to ``MOST_FINDINGS`` significant changes per side and point, in the rules' order.

    Clock-driven balancing happens more often per operation if operations take longer. Changes that
    this explains are left out.
    """
    paces = Paces(row for row in placement.rows if row.basis == "time")
    points: dict[tuple[str, ...], list[PlacementRow]] = {}
    for row in placement.rows:
        points.setdefault((row.side, row.workload, row.point), []).append(row)
    for rows in points.values():
        changes = [(rule, row) for rule in _RULES for row in _changed(rule, rows, paces)]
        if any(rule.part == "cause" for rule, _ in changes):
            # Changes by cause include the change of the sum.
            changes = [(rule, row) for rule, row in changes if rule.part != "migration"]
        for rule, row in changes[:MOST_FINDINGS]:
            yield _describe(rule, row, placement.timers)


def _changed(rule: _Rule, rows: Sequence[PlacementRow], paces: Paces) -> list[PlacementRow]:
    # One row per subject: the first basis that has a row.
    by_name: dict[str, PlacementRow] = {}
    mine = [row for row in rows if _is_of(rule, row)]
    for row in sorted(mine, key=lambda row: BASES.index(row.basis)):
        by_name.setdefault(row.name, row)
    changed = [
        row
        for row in by_name.values()
        if row.changed and _events(row) >= LEAST_EVENTS_OF_FINDING and paces.is_reason(row)
    ]
    return sorted(changed, key=lambda row: -distance_of(row.ratio))


def _is_of(rule: _Rule, row: PlacementRow) -> bool:
    if (row.part, row.field) != (rule.part, rule.field):
        return False
    if (len(row.nodes) + len(row.groups), len(row.types)) != (rule.nodes_or_groups, rule.types):
        return False
    if rule.is_of_level and not row.level:
        return False
    if rule.field == "crossing":
        # A share also grows if fewer tasks move within the node and none more leave it.
        return row.basis != "share"
    if rule.field == "onto_type" and (row.new or 0.0) <= (row.base or 0.0):
        # The share of another type grew by as much.
        return False
    # More forks go to all nodes: only the share shows the choice of a node, or of a type.
    return (rule.part != "fork" and not rule.types) or row.basis == "share"


def _events(row: PlacementRow) -> float:
    return max(row.events_base or 0.0, row.events_new or 0.0)


def _describe(rule: _Rule, row: PlacementRow, timers: Sequence[TimersRow]) -> Finding:
    values = _describe_timers(row, timers) if row.field == "distance" else _describe_rate(row)
    look_at = rule.look_at.format(function=row.function)
    at = f" at {row.point}" if row.point else ""
    return rate_finding(
        row,
        rule="task_placement",
        section="placement",
        clause=f"{rule.subject(row)} {values}{at}",
        change=f" ({_interval(row)})",
        details=f": look at {look_at}",
        metric=row.name,
        of_machine=rule.part not in OF_GROUPS,
    )


def _describe_rate(row: PlacementRow) -> str:
    new, base = (_value(row, value) for value in (row.new, row.base))
    per = "" if row.basis == "share" else f" per {_unit(row)}"
    return f"{base} -> {new}{per}"


def _value(row: PlacementRow, value: float | None) -> str:
    assert value is not None
    unit = row.unit.partition("/")[0]
    if row.basis == "share" and not unit:
        return f"{100.0 * value:.1f}%"
    if unit == "s":
        scale = scale_for("s", row.base, row.new)
        return f"{scale.format(value)} {scale.unit}"
    return format_number(float(f"{value:.3g}"))


def _unit(row: PlacementRow) -> str:
    name = row.unit.partition("/")[2]
    return "second" if name == "s" else name


def _interval(row: PlacementRow) -> str:
    runs = count_units(row.n_base, row.n_new, row.replication)
    if row.part == "depth":
        # The depth is a setting that is equal in all runs, so it is not reported as a percentage.
        return runs
    if row.ratio is None or row.ci_low is None or row.ci_high is None:
        return f"q = {row.q:.2g}, {runs}" if row.q is not None else runs
    change, low, high = map(write_change, (row.ratio, row.ci_low, row.ci_high))
    return f"{change} [{low}, {high}], {runs}"


def _describe_timers(row: PlacementRow, timers: Sequence[TimersRow]) -> str:
    by_side = {
        timer.side: timer
        for timer in timers
        if (timer.workload, timer.point, timer.groups) == (row.workload, row.point, row.groups)
    }
    new, base = by_side[row.side], by_side["base"]
    return (
        f"{_WORDS[base.word]} (phase difference {_difference(base)}) -> "
        f"{_WORDS[new.word]} ({_difference(new)})"
    )


def _difference(timer: TimersRow) -> str:
    # A distance below the width of a phase bin is only known to be below that width.
    apart = max(timer.distance_s, timer.resolution_s)
    scale = scale_for("s", timer.period_s / 100.0)
    of = f" of {scale.format(timer.period_s)} {scale.unit}"
    prefix = "under " if timer.distance_s < timer.resolution_s else ""
    return f"{prefix}{scale.format(float(f'{apart:.2g}'))} {scale.unit}{of}"
