# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the fields of /proc/schedstat, by version.

The file has no field names: the meaning of a number depends on its position and on the version of
the file. Versions 15 and 16 differ only in the order of the idle types.

Sources: show_schedstat() in kernel/sched/stats.c, ``struct rq`` and ``struct sched_domain`` (width
of the counters), Documentation/scheduler/sched-stats.rst:

* version 15: until Linux 6.9; idle types in the order idle, busy, newidle
* version 16: Linux 6.10 to 6.13; busy, idle, newidle
* version 17: since Linux 6.14; four imbalances instead of one, and domains have names

>>> LAYOUTS[15].domain[0], LAYOUTS[16].domain[0]
(Column(idle='idle', field='lb_count'), Column(idle='busy', field='lb_count'))
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from schedperf.evidence.schedstat.record import Idle

Unit = Literal["count", "ns"]

IDLE_TYPES: tuple[Idle, ...] = ("busy", "idle", "newidle")

_TTWU = "try_to_wake_up()"
_SCHEDULE = "__schedule()"
_BALANCE = "sched_balance_rq()"
# The four imbalances of version 17, by unit.
_SPLIT = ("lb_imbalance_load", "lb_imbalance_util", "lb_imbalance_task", "lb_imbalance_misfit")
_IMBALANCE = (
    "up to schedstat version 16, one counter sums load, utilization, task and misfit imbalances; "
    "from version 17 on, each kind has its own counter"
)


class Field(Struct, frozen=True, kw_only=True):
    """One counter.

    :param bits: width of the kernel's counter; None for ``unsigned long``, 32 or 64 bits
    :param unit: ns for times, although the kernel's documentation says jiffies
    :param meaning: meaning of the counter
    :param function: kernel function that increments it
    :param split: why it has no counterpart in other versions; "" if all versions have it
    :param is_used: False if no kernel with these versions increments it
    """

    name: str
    bits: int | None
    unit: Unit
    meaning: str
    function: str
    split: str
    is_used: bool


def _count(name: str, meaning: str, function: str, *, split: str = "") -> Field:
    return Field(
        name=name,
        bits=32,
        unit="count",
        meaning=meaning,
        function=function,
        split=split,
        is_used=True,
    )


def _unused(name: str) -> Field:
    return Field(
        name=name, bits=32, unit="count", meaning="not used", function="", split="", is_used=False
    )


def _other(name: str, bits: int | None, unit: Unit, meaning: str, function: str) -> Field:
    return Field(
        name=name,
        bits=bits,
        unit=unit,
        meaning=meaning,
        function=function,
        split="",
        is_used=True,
    )


CPU_FIELDS: tuple[Field, ...] = (
    _count("yld_count", "calls of sched_yield()", "do_sched_yield()"),
    _unused("array_exp"),
    _count("sched_count", "calls of schedule()", _SCHEDULE),
    _count("sched_goidle", "schedule() calls that left the CPU idle", "set_next_task_idle()"),
    _count("ttwu_count", "wakeups", _TTWU),
    _count("ttwu_local", "wakeups that placed the task on the waker's CPU", _TTWU),
    _other("rq_cpu_time", 64, "ns", "time that tasks spent running", "sched_info_depart()"),
    _other("run_delay", 64, "ns", "time that runnable tasks spent waiting", "sched_info_arrive()"),
    _other("pcount", None, "count", "timeslices run by tasks", "sched_info_arrive()"),
)

BALANCE_FIELDS: tuple[Field, ...] = (
    _count("lb_count", "load-balancing attempts", _BALANCE),
    _count("lb_balanced", "load-balancing attempts that found the domain balanced", _BALANCE),
    _count(
        "lb_failed", "load-balancing attempts that found an imbalance but moved no task", _BALANCE
    ),
    _count(
        "lb_imbalance",
        "sum of imbalances; since Linux 5.5 the unit depends on the migration type: load, "
        "utilization or tasks",
        _BALANCE,
        split=_IMBALANCE,
    ),
    *(
        _count(name, f"sum of imbalances in {unit}", _BALANCE, split=_IMBALANCE)
        for name, unit in zip(_SPLIT, ("load", "utilization", "tasks", "misfit tasks"), strict=True)
    ),
    _count("lb_gained", "tasks pulled", "detach_tasks()"),
    _count("lb_hot_gained", "tasks pulled although they were cache-hot", "can_migrate_task()"),
    _count(
        "lb_nobusyq",
        "load-balancing attempts that found no busier run queue",
        "sched_balance_find_src_rq()",
    ),
    _count(
        "lb_nobusyg",
        "load-balancing attempts that found no busier sched_group",
        "sched_balance_find_src_group()",
    ),
)

DOMAIN_FIELDS: tuple[Field, ...] = (
    _count("alb_count", "active balances", "active_load_balance_cpu_stop()"),
    _count("alb_failed", "active balances that moved no task", "active_load_balance_cpu_stop()"),
    _count("alb_pushed", "tasks pushed by active balances", "active_load_balance_cpu_stop()"),
    *(
        _unused(f"{name}_{what}")
        for name in ("sbe", "sbf")
        for what in ("count", "balanced", "pushed")
    ),
    # ttwu_stat() compares the CPU that a task is woken onto with this_rq(), the waker's.
    _count("ttwu_wake_remote", "wakeups onto a CPU other than the waker's", "ttwu_stat()"),
    _count("ttwu_move_affine", "wakeups that pulled the task to the waker's CPU", "wake_affine()"),
    _count("ttwu_move_balance", "wakeups that started passive balancing", _TTWU),
)

FIELDS: Mapping[str, Field] = {
    field.name: field for field in (*CPU_FIELDS, *BALANCE_FIELDS, *DOMAIN_FIELDS)
}


class Column(Struct, frozen=True):
    """One number of a line: field and idle type; "" for fields without an idle type."""

    idle: Idle
    field: str


class Layout(Struct, frozen=True, kw_only=True):
    """Order of the numbers in one version.

    :param cpu: numbers after ``cpuN``
    :param domain: numbers after the CPU mask of ``domainN``
    :param has_names: domain lines contain the name of the domain
    """

    version: int
    cpu: tuple[Column, ...]
    domain: tuple[Column, ...]
    has_names: bool


def _layout(version: int, idle_types: Sequence[Idle], *, without: Sequence[str]) -> Layout:
    balance = [field.name for field in BALANCE_FIELDS if field.name not in without]
    return Layout(
        version=version,
        cpu=tuple(Column("", field.name) for field in CPU_FIELDS),
        domain=(
            *(Column(idle, name) for idle in idle_types for name in balance),
            *(Column("", field.name) for field in DOMAIN_FIELDS),
        ),
        has_names="lb_imbalance" in without,
    )


LAYOUTS: Mapping[int, Layout] = {
    15: _layout(15, ("idle", "busy", "newidle"), without=_SPLIT),
    16: _layout(16, ("busy", "idle", "newidle"), without=_SPLIT),
    17: _layout(17, ("busy", "idle", "newidle"), without=("lb_imbalance",)),
}


def known_versions() -> str:
    """Return the supported versions for messages: ``15, 16 and 17``."""
    *first, last = map(str, sorted(LAYOUTS))
    return f"{', '.join(first)} and {last}"
