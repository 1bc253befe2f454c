# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``system_counters``: system-wide counters around the runs."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Struct

from schedperf.model.counted import CpuRow, RateRow
from schedperf.model.sections import SectionData
from schedperf.model.units import percent

# Groups of counters, in the order of the report.
Group = Literal[
    "cgroup",
    "power",
    "frequency",
    "pressure",
    "idle",
    "cpu",
    "softirqs",
    "interrupts",
    "tasks",
]
GROUPS: tuple[Group, ...] = get_args(Group)
# Groups with subjects named by the kernel, which are one family of the multiple-testing correction.
BY_NAME: tuple[Group, ...] = ("interrupts", "softirqs")
# A share below 1% of the time or periods on both sides cannot explain a change of 1%.
LEAST_SHARE = 0.01
# Fewest events per run for a reported change.
LEAST_EVENTS_OF_CHANGE = 100.0
# The same limit as text.
LEAST = (
    f"{LEAST_EVENTS_OF_CHANGE:g} events per run (counts) or {percent(LEAST_SHARE)} (shares of "
    "time, of quota periods or of idle-state entries)"
)
CPU_TIME: tuple[Group, ...] = ("cpu",)


class SystemSide(Struct, frozen=True, kw_only=True):
    """The runs of one side that have system counters."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]
    seconds: Annotated[
        float | None, "time between the snapshots, summed over runs; null if unknown"
    ]
    task_runs: Annotated[int, "number of runs with counters of workload tasks"]
    cpus: Annotated[int, "number of CPUs in the first boot; 0 if unknown"]
    accounted: Annotated[
        float | None,
        "CPU time accounted in /proc/stat, divided by (wall time x number of CPUs), mean over "
        "runs; null if unknown",
    ]


class SystemRow(RateRow, frozen=True, kw_only=True):
    """The rate, share or mean of one counter, of the machine or of one NUMA node."""

    group: Group
    subject: Annotated[str, "idle state, interrupt, cgroup, … that the counter belongs to"]
    field: str
    node: Annotated[int | None, "NUMA node; null for the sum over all nodes"]
    meaning: str
    function: Annotated[
        str,
        "kernel function that increments the counter or determines its value; empty for "
        "hardware and driver counters",
    ]
    total_base: Annotated[
        float | None, "count per run, mean over runs; null for instantaneous values and shares"
    ]
    total_new: float | None
    q: Annotated[
        float | None,
        "p, corrected for multiple testing over rows with the same `basis`, separately for the "
        "groups `interrupts` and `softirqs`, for `cpu`, and for all other groups",
    ]
    changed: Annotated[
        bool | None,
        "true if the change is significant, larger than the margin, and not negligible (at least "
        "1% of the time or 100 events per run); null if unknown",
    ]

    @property
    def statistic(self) -> str:
        """The field, e.g. "time" or "throttled_share"."""
        return self.field

    @property
    def why_small(self) -> str:
        """Why even a significant change of the row is negligible; "" if it is not."""
        values = [value for value in (self.base, self.new) if value is not None]
        if self.unit == "":
            is_little = max(values, default=0.0) < LEAST_SHARE
            return f"the share is below {percent(LEAST_SHARE)} on both sides" if is_little else ""
        # Quotients and levels have no counts of events.
        events = [total for total in (self.total_base, self.total_new) if total is not None]
        is_counted = self.unit.startswith("1/") and events
        if not is_counted or max(events) >= LEAST_EVENTS_OF_CHANGE:
            return ""
        return f"fewer than {LEAST_EVENTS_OF_CHANGE:g} events per run on both sides"

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, counter and node."""
        counter = self.group, self.subject, self.field, self.node
        return self.side, self.workload, self.point, *counter

    @property
    def mechanism(self) -> str | None:
        """The counter; None for single nodes, and for shares of a time that has a row, too."""
        repeats_time = self.group in ("cpu", "idle") and self.field in ("share", "above_share")
        return None if self.node is not None or repeats_time else super().mechanism


class SettingRow(Struct, frozen=True, kw_only=True):
    """A scheduler setting in debugfs that differs from base."""

    side: str
    name: str
    base: Annotated[str | None, "value on base; null if its kernel lacks the setting"]
    new: Annotated[str | None, "value on `side`; null if its kernel lacks the setting"]


class SystemMissing(Struct, frozen=True, kw_only=True):
    """A file or directory that was not captured on a side, and the reason."""

    side: str
    what: str
    reason: str


class SystemRefusal(Struct, frozen=True, kw_only=True):
    """Counters of one side without a counterpart, and the reason."""

    side: str
    group: Group
    what: str
    reason: str


class SystemCounters(SectionData, frozen=True, kw_only=True):
    """Idle states, power, interrupts, throttling and tasks during the runs."""

    section: ClassVar[str] = "system_counters"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "system_counters"

    sides: tuple[SystemSide, ...]
    rows: tuple[SystemRow, ...]
    zeros: Annotated[tuple[str, ...], "counters that were 0 in all runs; not in `rows`"]
    cpus: Annotated[
        tuple[CpuRow, ...],
        "per CPU: shares of the CPU's time, and interrupts and softirqs per second",
    ]
    settings: Annotated[
        tuple[SettingRow, ...], "scheduler settings in debugfs that differ between the sides"
    ]
    missing: tuple[SystemMissing, ...]
    not_compared: tuple[SystemRefusal, ...]
    notes: tuple[str, ...]
