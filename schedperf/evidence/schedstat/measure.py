# SPDX-License-Identifier: GPL-2.0-or-later
"""Sum a run's counts over CPUs, and derive shares from them."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from schedperf.evidence.schedstat.capture import Change, Floats
from schedperf.evidence.schedstat.fields import FIELDS, IDLE_TYPES, LAYOUTS, Column
from schedperf.evidence.schedstat.levels import Level
from schedperf.evidence.schedstat.record import Idle

# The kernel always counts these; the others only while kernel.sched_schedstats is 1.
ALWAYS_COUNTED = frozenset(("rq_cpu_time", "run_delay", "pcount"))
NS_PER_S = 1e9


class SchedCounts(Struct, frozen=True, kw_only=True):
    """Scheduler counters of one run.

    :param seconds: time between the snapshots; None if the length of a tick is unknown
    :param is_enabled: True if kernel.sched_schedstats was 1; None if not recorded and inferred from
        the counts
    :param flags: flags of the domains, by level; levels without recorded flags are missing
    :param cpus_of_types: CPUs of each type of core; empty on machines with one type
    """

    seconds: float | None
    is_enabled: bool | None
    change: Change
    levels: tuple[Level, ...]
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cpus_of_types: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def cpu_columns(self) -> tuple[Column, ...]:
        """The columns of ``change.cpu_counts``."""
        return LAYOUTS[self.change.version].cpu

    @property
    def is_off(self) -> bool:
        """True if kernel.sched_schedstats was 0.

        If it is not recorded, it counts as 0 if tasks ran, but schedule() was counted 0 times.
        """
        if self.is_enabled is not None:
            return not self.is_enabled
        column = {counter.field: index for index, counter in enumerate(self.cpu_columns)}
        sums = np.nansum(self.change.cpu_counts, axis=0)
        return bool(sums[column["pcount"]] > 0.0 and sums[column["sched_count"]] == 0.0)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Identity of a counter: level ("" for counters of CPUs), idle type and field."""

    level: str
    idle: Idle
    field: str


class Share(Struct, frozen=True, kw_only=True):
    """A quotient of counts of the same level and idle type.

    :param over: counters whose sum is the numerator; those with a minus are subtracted
    :param under: counters whose sum is the denominator; those with a minus are subtracted
    :param unit: unit of the quotient; "" for a fraction
    :param scale: factor that converts to ``unit``
    """

    name: str
    over: tuple[str, ...]
    under: tuple[str, ...]
    unit: str
    scale: float
    meaning: str
    function: str


_SUCCESS = ("lb_count", "-lb_balanced", "-lb_failed")
CPU_SHARES: tuple[Share, ...] = (
    Share(
        name="goidle_share",
        over=("sched_goidle",),
        under=("sched_count",),
        unit="",
        scale=1.0,
        meaning="share of schedule() calls that left the CPU idle",
        function="__schedule()",
    ),
    Share(
        name="local_share",
        over=("ttwu_local",),
        under=("ttwu_count",),
        unit="",
        scale=1.0,
        meaning="share of wakeups that placed the task on the waker's CPU",
        function="select_task_rq_fair()",
    ),
    Share(
        name="wait_mean",
        over=("run_delay",),
        under=("pcount",),
        unit="s",
        scale=1.0 / NS_PER_S,
        meaning="mean time that a runnable task waited for its CPU",
        function="pick_next_task_fair()",
    ),
    Share(
        name="slice_mean",
        over=("rq_cpu_time",),
        under=("pcount",),
        unit="s",
        scale=1.0 / NS_PER_S,
        meaning="mean time that a task ran before it was switched out",
        function="pick_next_task_fair()",
    ),
)
BALANCE_SHARES: tuple[Share, ...] = (
    Share(
        name="success_share",
        over=_SUCCESS,
        under=("lb_count",),
        unit="",
        scale=1.0,
        meaning="share of load-balancing attempts that moved a task",
        function="sched_balance_rq()",
    ),
    Share(
        name="pulled_mean",
        over=("lb_gained",),
        under=_SUCCESS,
        unit="tasks",
        scale=1.0,
        meaning="tasks pulled per load-balancing attempt that moved a task",
        function="detach_tasks()",
    ),
)
SHARES: Mapping[str, Share] = {share.name: share for share in (*CPU_SHARES, *BALANCE_SHARES)}


def totals_of(
    counts: SchedCounts, labels: Mapping[Level, str], cpus: Collection[int] | None
) -> dict[Key, float]:
    """Return each counter of a run, summed over CPUs.

    A counter that is unknown on a CPU is left out. If kernel.sched_schedstats was 0, only
    ``ALWAYS_COUNTED`` are returned.

    :param labels: labels of the run's levels
    :param cpus: CPUs to sum over; None for all
    :return: empty if none of these CPUs was counted
    """
    change, layout = counts.change, LAYOUTS[counts.change.version]
    totals: dict[Key, float] = {}
    if cpus is not None and not any(cpu in cpus for cpu in change.cpus):
        return totals
    is_wanted = np.array([cpus is None or cpu in cpus for cpu in change.cpus])
    _add(totals, "", layout.cpu, change.cpu_counts[is_wanted])
    for level in counts.levels:
        rows = [row for row in level.rows if cpus is None or change.domains[row].cpu in cpus]
        if rows:
            _add(totals, labels[level], layout.domain, change.domain_counts[rows])
    if counts.is_off:
        return {key: value for key, value in totals.items() if key.field in ALWAYS_COUNTED}
    return totals


def _add(totals: dict[Key, float], level: str, columns: Sequence[Column], counts: Floats) -> None:
    sums: npt.NDArray[np.float64] = counts.sum(axis=0)
    for column, value in zip(columns, sums.tolist(), strict=True):
        if FIELDS[column.field].is_used and not math.isnan(value):
            totals[Key(level, column.idle, column.field)] = value


def shares_of(totals: Mapping[Key, float]) -> dict[Key, float]:
    """Return the quotients of the counts, by level, idle type and name of the quotient.

    Quotients are left out if a counter is missing, the denominator is 0, or a sum is negative.
    """
    shares: dict[Key, float] = {}
    for level in dict.fromkeys(key.level for key in totals):
        idle_types: tuple[Idle, ...] = IDLE_TYPES if level else ("",)
        for idle in idle_types:
            for share in BALANCE_SHARES if level else CPU_SHARES:
                value = _quotient(share, totals, level, idle)
                if value is not None:
                    shares[Key(level, idle, share.name)] = value
    return shares


def _quotient(share: Share, totals: Mapping[Key, float], level: str, idle: Idle) -> float | None:
    over, under = (_signed_sum(names, totals, level, idle) for names in (share.over, share.under))
    if over is None or not under or under < 0.0 or over < 0.0:
        return None
    return share.scale * over / under


def _signed_sum(
    names: Sequence[str], totals: Mapping[Key, float], level: str, idle: Idle
) -> float | None:
    total = 0.0
    for name in names:
        value = totals.get(Key(level, idle, name.removeprefix("-")))
        if value is None:
            return None
        total += -value if name.startswith("-") else value
    return total
