# SPDX-License-Identifier: GPL-2.0-or-later
"""Record of the section ``counters``: what ``perf stat`` counted, new vs base."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from schedperf.model.comparison import MissingSide, SectionData
from schedperf.model.counted import RateRow
from schedperf.model.perf_event import PerfEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class CounterSide:
    """The runs of one side that have counters."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CounterRow(RateRow):
    """The rate of one event, of the machine or of one NUMA node."""

    event: Annotated[str, "as perf prints it"]
    perf_event: Annotated[PerfEvent, "the same in parts"]
    node: Annotated[int | None, "null: all nodes together"]
    scaled: Annotated[bool, "perf extrapolated some of the counts"]
    total_base: Annotated[
        float | None, "counted in a run; the same mean over runs as base, in the unit of the event"
    ]
    total_new: float | None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """The event of the workload and point, and its node."""
        return self.side, self.workload, self.point, self.event, self.node


@dataclass(frozen=True, kw_only=True, slots=True)
class NotCounted:
    """An event that has no row, and why."""

    side: str
    event: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters(SectionData):
    """Events that perf stat counted during the runs."""

    section: ClassVar[str] = "counters"
    version: ClassVar[int] = 2

    sides: tuple[CounterSide, ...]
    rows: tuple[CounterRow, ...]
    zeros: Annotated[tuple[str, ...], "events that were 0 in all runs, and have no row"]
    not_counted: tuple[NotCounted, ...]
    missing: tuple[MissingSide, ...]
    notes: tuple[str, ...]
