# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``schedstat``: scheduler counters during the runs."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import CpuRow, RateRow
from schedperf.model.sections import SectionData

# Idle type of the balancing CPU; "" for counters without an idle type.
Idle = Literal["", "busy", "idle", "newidle"]


class SchedstatSide(Struct, frozen=True, kw_only=True):
    """The runs of one side that have schedstat counters."""

    side: str
    runs: int
    versions: Annotated[tuple[int, ...], "versions of /proc/schedstat"]
    seconds: Annotated[
        float | None, "time in s between the snapshots, summed over runs; null if unknown"
    ]


class LevelRow(Struct, frozen=True, kw_only=True):
    """One level of the scheduling domains of a side; levels with fewer CPUs come first."""

    side: str
    level: str
    cpus: Annotated[int | None, "number of CPUs in the largest domain; null if not recorded"]
    domains: Annotated[int | None, "number of domains at this level; null if not recorded"]
    flags: Annotated[tuple[str, ...] | None, "SD_* flags of the domains; null if not recorded"]


class SchedstatRow(RateRow, frozen=True, kw_only=True):
    """The rate of one counter, or a ratio of counters, of all CPUs or of one domain level."""

    level: Annotated[str, "scheduling-domain level; empty for per-CPU counters"]
    idle: Idle
    field: Annotated[
        str, "kernel name of the counter, or name of a ratio of counters, e.g. `wait_mean`"
    ]
    meaning: str
    function: Annotated[str, "kernel function that increments the counter or determines its value"]
    split: Annotated[
        str,
        "why other schedstat versions lack the counter; empty if all versions have the counter",
    ]
    total_base: Annotated[
        float | None,
        "count per run, summed over CPUs, mean over runs; times in ns; null for ratios",
    ]
    total_new: float | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, level, idle type and field."""
        return self.side, self.workload, self.point, self.level, self.idle, self.field


class CoreTypeRow(RateRow, frozen=True, kw_only=True):
    """Share or mean of one type of CPU core."""

    core_type: Annotated[str, "name of the type in host.json, e.g. `cpu_atom`"]
    field: Annotated[
        str, "counter whose share of all types is the value, or name of a mean, e.g. `wait_mean`"
    ]
    meaning: str

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, core type and field."""
        return self.side, self.workload, self.point, self.core_type, self.field

    @property
    def mechanism(self) -> str | None:
        """None: types of core differ between machines."""
        return None


class ReadingRow(Struct, frozen=True, kw_only=True):
    """Interpretation of a changed row by a rule."""

    rule: Annotated[str, "name of the rule in schedperf/evidence/schedstat/rules.toml"]
    row: Annotated[str, "id of the interpreted row in `rows`"]
    side: str
    workload: str
    point: str
    level: str
    text: str
    meaning: str
    look_at: Annotated[str, "kernel functions to inspect"]


class SchedstatRefusal(Struct, frozen=True, kw_only=True):
    """Counters of one side without a counterpart, and the reason."""

    side: str
    what: str
    reason: str


class Schedstat(SectionData, frozen=True, kw_only=True):
    """Wakeups, switches and waits of the CPUs, and load balancing at each domain level."""

    section: ClassVar[str] = "schedstat"
    version: ClassVar[int] = 2
    collector: ClassVar[str] = "schedstat"

    sides: tuple[SchedstatSide, ...]
    levels: tuple[LevelRow, ...]
    rows: tuple[SchedstatRow, ...]
    zeros: Annotated[tuple[str, ...], "counters that were 0 in all runs; not in `rows`"]
    readings: Annotated[
        tuple[ReadingRow, ...], "interpretations of changed rows, largest change first"
    ]
    not_compared: tuple[SchedstatRefusal, ...]
    cpus: Annotated[tuple[CpuRow, ...], "rates per CPU"]
    notes: tuple[str, ...]
    core_types: Annotated[
        tuple[CoreTypeRow, ...],
        "run time, timeslices and waits per type of CPU core; empty with one type",
    ] = ()
