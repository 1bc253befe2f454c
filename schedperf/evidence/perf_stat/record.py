# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``counters``: counts of ``perf stat``, new vs base."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import RateRow
from schedperf.model.perf_event import PerfEvent
from schedperf.model.sections import MissingSide, SectionData

# Whose events are counted.
Scope = Literal["workload", "machine"]


class CounterSide(Struct, frozen=True, kw_only=True):
    """The runs of one side that have counters."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]
    workload_runs: Annotated[int, "runs in which events of the workload's own tasks were counted"]
    no_workload: Annotated[
        str | None, "why other runs have no events of the workload; null if all runs have them"
    ]


class CounterRow(RateRow, frozen=True, kw_only=True):
    """The rate of one event, for the workload, the machine or one NUMA node."""

    scope: Annotated[
        Scope, "whose events: the tasks of the workload, or all tasks and interrupts of the machine"
    ]
    event: Annotated[str, "event name as perf prints it"]
    perf_event: Annotated[PerfEvent, "name, PMU and modifiers of `event`"]
    node: Annotated[int | None, "NUMA node; null for the sum over all nodes"]
    scaled: Annotated[bool, "true if perf extrapolated some counts because of multiplexing"]
    total_base: Annotated[
        float | None,
        "geometric mean of the counts per run, in the unit of the event; "
        "arithmetic mean if a count is 0",
    ]
    total_new: float | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, scope, event and node."""
        return self.side, self.workload, self.point, self.scope, self.event, self.node

    @property
    def mechanism(self) -> str | None:
        """Event and scope; None for single nodes."""
        return None if self.node is not None else f"{self.event} of the {self.scope}"

    @property
    def is_own(self) -> bool:
        """Whether the events are those of the workload."""
        return self.scope == "workload"


class NotCounted(Struct, frozen=True, kw_only=True):
    """An event without a row, and the reason."""

    side: str
    scope: Scope
    event: str
    reason: str


class Counters(SectionData, frozen=True, kw_only=True):
    """Events that perf stat counted during the runs."""

    section: ClassVar[str] = "counters"
    version: ClassVar[int] = 3
    collector: ClassVar[str] = "perf_stat"

    sides: tuple[CounterSide, ...]
    rows: tuple[CounterRow, ...]
    zeros: Annotated[
        tuple[str, ...], "events of the machine with a count of 0 in all runs; not in `rows`"
    ]
    workload_zeros: Annotated[
        tuple[str, ...], "events of the workload with a count of 0 in all runs; not in `rows`"
    ]
    not_counted: tuple[NotCounted, ...]
    missing: tuple[MissingSide, ...]
    notes: tuple[str, ...]
