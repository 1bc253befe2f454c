# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``account``: the time of the workload's tasks, and its change."""

from collections.abc import Hashable, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import Basis, RateRow
from schedperf.model.rows import Replication
from schedperf.model.sections import SectionData
from schedperf.model.units import format_measure
from schedperf.model.verdict import SMALLEST_EFFECT

Part = Literal["cpu", "user", "system", "exiting", "waiting", "blocked"]
Kind = Literal[
    "cpu",
    "user",
    "system",
    "exiting",
    "waiting",
    "blocked",
    "voluntary switches",
    "involuntary switches",
    "minor faults",
    "major faults",
    "tasks",
]

PARTS: tuple[Part, ...] = ("user", "system", "exiting", "waiting", "blocked")
# CPU time is one part where user and system time are not separate.
ALL_PARTS: tuple[Part, ...] = (*PARTS, "cpu")
# The parts that may be missing.
MEASURED: tuple[Part, ...] = ("waiting", "blocked")
# The reasons of a wait, and of blocked time, in instrumented runs.
SubPart = Literal["preempted", "woken", "yielded", "throttled", "io", "other"]
DividedKind = Literal[SubPart, "migrations"]
SUB_PARTS: Mapping[Part, tuple[SubPart, ...]] = {
    "waiting": ("preempted", "woken", "yielded", "throttled"),
    "blocked": ("io", "other"),
}
# Kinds of CPU time. If the result is itself a time, they only restate it.
ON_CPU: tuple[Kind, ...] = ("cpu", "user", "system", "exiting")
_REASONS: Mapping[SubPart, str] = {
    "preempted": "preempted",
    "woken": "after a wakeup",
    "yielded": "after sched_yield",
    "throttled": "throttled by the CPU bandwidth of a cgroup",
    "io": "by I/O",
    "other": "not by I/O",
}
# Other commands that a sentence names.
MOST_COMMANDS = 3


class AccountSide(Struct, frozen=True, kw_only=True):
    """The runs of one side."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]
    measured: Annotated[int, "runs in which waiting and blocked tasks were measured"]
    lost: Annotated[
        int | None,
        "messages about ended tasks that the kernel dropped, in all measured runs; null if unknown "
        "or without measured runs",
    ]
    left_out: Annotated[
        int | None, "ended tasks that were too many to be stored; null without measured runs"
    ]
    unresolved: Annotated[
        int | None, "ended tasks of which no parent was found; null without measured runs"
    ]


class AccountRow(RateRow, frozen=True, kw_only=True):
    """Time or a count of the workload's tasks, per operation or per run."""

    kind: Annotated[
        Kind,
        "time: `cpu` is `user` and `system`, `waiting` is runnable but not running, `blocked` is "
        "neither; or what is counted",
    ]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, kind and denominator."""
        return self.side, self.workload, self.point, self.kind, self.basis

    @property
    def mechanism(self) -> str | None:
        """The kind; None for the sum of user and system time."""
        return None if self.kind == "cpu" else self.kind


class Contributed(Struct, frozen=True, kw_only=True):
    """Thread-time of base and of a new side, and what it contributes to the change."""

    base: Annotated[float, "arithmetic mean over the units of base, in the unit of the point"]
    new: float
    contribution: Annotated[
        float, "(new - base) / the mean thread-time of base; the parts add up to that of all"
    ]
    ci_low: Annotated[float | None, "lower end of its 95% CI; null with one unit on a side"]
    ci_high: float | None


class PartChange(Contributed, frozen=True, kw_only=True):
    """One part of the thread-time, or all of it, and what it contributes to the change."""

    part: Annotated[Part | None, "null for all parts together"]
    mostly: Annotated[
        SubPart | None,
        "the reason of most of the change, by the instrumented runs; null if it is unknown",
    ] = None

    @property
    def remark(self) -> str:
        """The reason of most of the change in words: "mostly preempted"; or ""."""
        return "" if self.mostly is None else f"mostly {_REASONS[self.mostly]}"


class SubPartChange(Contributed, frozen=True, kw_only=True):
    """Time that tasks waited, or were blocked, for one reason, and what it contributes."""

    part: Annotated[
        SubPart,
        "waiting for a CPU: `preempted`, `woken` (from its wakeup or start until it runs), "
        "`yielded` (sched_yield), `throttled` (CFS bandwidth); blocked: by `io` or `other`",
    ]


class AccountPoint(Struct, frozen=True, kw_only=True):
    """How the thread-time of one workload and point changed from base to a new side."""

    side: str
    workload: str
    point: str
    basis: Basis
    unit: Annotated[str, 'unit of the times: "s/message", "s/run"']
    n_base: Annotated[int, "sample size of base, in units of `replication`"]
    n_new: int
    replication: Replication
    all: PartChange
    parts: tuple[PartChange, ...]
    missing: Annotated[tuple[Part, ...], "parts that were not measured in all runs of both sides"]


class SampledWaiting(RateRow, frozen=True, kw_only=True):
    """Time that the tasks waited for a CPU, at least: sampled in instrumented runs.

    ``changed`` is False, too, if tasks that were not sampled can explain the change.
    """

    coverage_base: Annotated[
        float, "CPU time of the sampled tasks / CPU time by the resource usage, in all runs of base"
    ]
    coverage_new: float

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point and denominator."""
        return self.side, self.workload, self.point, self.basis

    @property
    def mechanism(self) -> str | None:
        """The sampled waiting time."""
        return "waiting, sampled"


class DividedPoint(Struct, frozen=True, kw_only=True):
    """How waiting and blocked time divide, in the instrumented runs of one workload and point."""

    side: str
    workload: str
    point: str
    basis: Basis
    unit: Annotated[str, 'unit of the times: "s/message", "s/run"']
    n_base: Annotated[int, "sample size of base, in units of `replication`"]
    n_new: int
    replication: Replication
    parts: Annotated[
        tuple[SubPartChange, ...],
        "contributions are to the change of the thread-time of these instrumented runs",
    ]
    missing: Annotated[
        tuple[SubPart, ...],
        "sub-parts that a kernel does not show; their time is in others: throttled tasks are "
        "preempted or woken before Linux 6.18",
    ]


class DividedRow(RateRow, frozen=True, kw_only=True):
    """Time that tasks waited or were blocked for one reason, or migrations, when instrumented."""

    kind: Annotated[DividedKind, "why tasks waited or were blocked; or migrations between CPUs"]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, kind and denominator."""
        return self.side, self.workload, self.point, self.kind, self.basis

    @property
    def mechanism(self) -> str | None:
        """Why the tasks waited or were blocked; or migrations."""
        return _REASONS.get(self.kind, self.kind) if self.kind != "migrations" else "migrations"


class OtherLoad(Struct, frozen=True, kw_only=True):
    """CPU time of the processes with one command that are not of the workload."""

    side: str
    workload: str
    point: str
    command: str
    base: Annotated[float, "arithmetic mean over the runs of base, in s per second of the run"]
    new: float


class OtherLoadRow(RateRow, frozen=True, kw_only=True):
    """CPU time of all processes together that are not of the workload, per second of the run."""

    of_busy: Annotated[
        Contributed | None,
        "their CPU time in s per second of the run, and what it contributes to the change of the "
        "CPU time of the workload and all others; null if that of base is 0",
    ]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point and denominator."""
        return self.side, self.workload, self.point, self.basis

    @property
    def mechanism(self) -> str | None:
        """The other load."""
        return "CPU time of other commands"


class Account(SectionData, frozen=True, kw_only=True):
    """Time of the workload's own tasks: on a CPU, waiting for one, or blocked."""

    section: ClassVar[str] = "account"
    version: ClassVar[int] = 1

    sides: tuple[AccountSide, ...]
    points: Annotated[
        tuple[AccountPoint, ...],
        "change of the thread-time and the contributions of its parts; it is not the change of "
        "the result",
    ]
    rows: Annotated[
        tuple[AccountRow, ...],
        "times and counts; basis `operation`: per operation; `share`: per run",
    ]
    sampled: Annotated[
        tuple[SampledWaiting, ...],
        "lower bounds of the waiting time of the points without an exact one; `changed` is false, "
        "too, if tasks that were not sampled can explain the change",
    ]
    others: Annotated[
        tuple[OtherLoad, ...],
        "CPU time of other commands during the runs, without the recorder's, the largest first",
    ]
    notes: tuple[str, ...]
    other_load: Annotated[
        tuple[OtherLoadRow, ...], "all other commands together, compared; without the recorder's"
    ] = ()
    divided: Annotated[
        tuple[DividedPoint, ...],
        "why tasks waited and were blocked, in instrumented runs with the collector `bpf_account`",
    ] = ()
    divided_rows: Annotated[
        tuple[DividedRow, ...], "the same times, and migrations, each compared"
    ] = ()


def describe_coverage(row: SampledWaiting) -> str:
    """Return the coverage of both sides: ``coverage 89% -> 91%``."""
    return f"coverage {row.coverage_base:.0%} -> {row.coverage_new:.0%}"


def describe_others(point: AccountPoint, data: Account) -> str:
    """Return who used more CPU time than in base: ``other commands used 0.5 s -> 2 s …``.

    Return "" if all others together used less than 1% of the busy time of base more, or if their
    time is unknown.
    """
    at = point.side, point.workload, point.point
    loads = (row.of_busy for row in data.other_load if (row.side, row.workload, row.point) == at)
    total = next(loads, None)
    if total is None or total.contribution < SMALLEST_EFFECT:
        return ""
    more = [
        each
        for each in data.others
        if (each.side, each.workload, each.point) == at and each.new > each.base
    ]
    words = ", ".join(f"{each.command} {write_times(each)}" for each in more[:MOST_COMMANDS])
    most = f", most: {words}" if words else ""
    return f"other commands used {write_times(total)} of CPU time per second{most}"


def write_times(each: OtherLoad | Contributed) -> str:
    """Write the CPU time of base and of the new side: ``0.5 s -> 2 s``."""
    return " -> ".join(
        format_measure(value, "s", each.base, each.new) for value in (each.base, each.new)
    )


def write_points(share: float) -> str:
    """Write a contribution in percentage points.

    >>> write_points(1.19), write_points(-0.0312)
    ('+119', '-3.1')
    >>> write_points(-0.0001)
    '0'
    """
    points = 100.0 * share
    text = f"{points:+.{0 if abs(points) >= 10.0 else 1}f}"  # noqa: PLR2004 # two digits
    return "0" if text in ("+0.0", "-0.0") else text
