# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of the section ``wakeup_latency``: how long tasks wait until they run."""

from collections.abc import Hashable, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import CpuRow, Places, RateRow
from schedperf.model.sections import SectionData

Source = Literal[
    "bpf",
    "perf",
    "trace",
    "perf sched latency",
    "perf sched timehist",
    "rtla timerlat",
    "rtla osnoise",
]
Event = Literal["wakeup", "runnable", "timer IRQ", "timer thread", "timer user", "noise"]
Statistic = Literal["p50", "p90", "p99", "p99.9", "max"]

QUANTILES: Mapping[Statistic, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
STATISTICS: tuple[Statistic, ...] = (*QUANTILES, "max")
# Statistics that comparisons of workloads use; the others say the same of fewer waits.
COMPARED: tuple[Statistic, ...] = ("p50", "p99")
# The name of each kind of wait, with its start and end.
WAITS: Mapping[Event, tuple[str, str]] = {
    "wakeup": ("wakeup latency", "from the wakeup until the task runs"),
    "runnable": ("delay", "from the wakeup or the preemption until the task runs"),
    "timer IRQ": ("IRQ latency", "from the expiry of the timer until its interrupt handler runs"),
    "timer thread": ("thread latency", "from the expiry of the timer until the thread runs"),
    "timer user": (
        "user latency",
        "from the expiry of the timer until the thread runs in user space again",
    ),
    "noise": ("noise", "during which the measuring thread is interrupted"),
}


class WakeupSide(Struct, frozen=True, kw_only=True):
    """The recorded runs of one side."""

    side: str
    runs: int
    sources: tuple[Source, ...]
    waits: Annotated[int, "number of waits in all runs; 0 if only maxima are known"]
    nodes: Annotated[int, "number of NUMA nodes; 0 if not recorded"]
    resolution_s: Annotated[
        float, "resolution of a wait in s; 1/16 of the value is added for that of the bins"
    ]


class WakeupRow(RateRow, frozen=True, kw_only=True):
    """One percentile, or the maximum, of the waits of a command."""

    event: Annotated[
        Event,
        "what a wait is: `wakeup`: from the wakeup until the task runs; `runnable`: from the "
        "wakeup or a preemption until the task runs; `timer …`: of rtla timerlat; `noise`: of "
        "rtla osnoise",
    ]
    command: Annotated[str, "command (comm up to a slash); empty: all commands"]
    of_workload: Annotated[bool, "true if tasks of the workload have this command"]
    node: Annotated[int | None, "NUMA node of the CPU that the task ran on; null: all nodes"]
    quantile: Annotated[Statistic, "percentile or maximum of the waits of a run"]
    base_low: Annotated[
        float | None, "lower bound of the 95% CI of `base` over runs or boots; null with one run"
    ]
    base_high: float | None
    new_low: float | None
    new_high: float | None
    waits_base: Annotated[float, "number of waits per run, mean over the runs of base"]
    waits_new: float
    reason: Annotated[str | None, "why the sides are not compared; null if they are"]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, event, command, node and statistic."""
        return self.side, self.workload, self.point, *self.subject, self.quantile

    @property
    def mechanism(self) -> str | None:
        """Event, whose waits, and statistic; None for other commands and for single nodes."""
        if self.node is not None or self.quantile not in COMPARED or self.reason is not None:
            return None
        whose = "the workload's tasks" if self.of_workload else "all tasks"
        is_general = self.of_workload or not self.command
        return f"{self.event} of {whose}, {self.quantile}" if is_general else None

    @property
    def subject(self) -> tuple[Event, str, int | None]:
        """The event, and the command and node whose waits these are."""
        return self.event, self.command, self.node

    @property
    def statistic(self) -> str:
        """The percentile, or "max"."""
        return self.quantile

    @property
    def is_own(self) -> bool:
        """Whether tasks of the workload have this command."""
        return self.of_workload

    @property
    def why_invalid(self) -> str | None:
        """Why the two sides are not comparable; None if they are."""
        return self.reason


class WakeupTypeRow(RateRow, frozen=True, kw_only=True):
    """One percentile, or the maximum, of the waits of all commands for CPUs of one type of core."""

    event: Event
    core_type: Annotated[str, "type of the core in host.json, e.g. `cpu_atom`"]
    quantile: Annotated[Statistic, "percentile or maximum of the waits of a run"]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, event, core type and statistic."""
        return self.side, self.workload, self.point, self.event, self.core_type, self.quantile

    @property
    def mechanism(self) -> str | None:
        """None: types of core differ between machines."""
        return None

    @property
    def statistic(self) -> str:
        """The percentile, or "max"."""
        return self.quantile


class WaitsBelow(Places, frozen=True, kw_only=True):
    """Share of the waits of a command that are shorter than each edge: a distribution function."""

    side: str
    workload: str
    point: str
    event: Event
    command: str
    edges: Annotated[tuple[float, ...], "duration in s for each value"]


class WakeupLatency(SectionData, frozen=True, kw_only=True):
    """Time from wakeup to running, as percentiles and distributions."""

    section: ClassVar[str] = "wakeup_latency"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "wakeup_latency"

    sides: tuple[WakeupSide, ...]
    rows: tuple[WakeupRow, ...]
    distributions: tuple[WaitsBelow, ...]
    cpus: tuple[CpuRow, ...]
    notes: tuple[str, ...]
    core_types: Annotated[
        tuple[WakeupTypeRow, ...], "waits per type of CPU core; empty with one type"
    ] = ()
