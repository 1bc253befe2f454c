# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``counters``: counts of ``perf stat``, new vs base."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import RateRow
from schedperf.model.perf_event import PerfEvent
from schedperf.model.sections import MissingSide, SectionData


class CounterSide(Struct, frozen=True, kw_only=True):
    """The runs of one side that have counters."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]


class CounterRow(RateRow, frozen=True, kw_only=True):
    """The rate of one event, for the machine or for one NUMA node."""

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
        """Key of the row: side, workload, point, event and node."""
        return self.side, self.workload, self.point, self.event, self.node


class NotCounted(Struct, frozen=True, kw_only=True):
    """An event without a row, and the reason."""

    side: str
    event: str
    reason: str


class Counters(SectionData, frozen=True, kw_only=True):
    """Events that perf stat counted during the runs."""

    section: ClassVar[str] = "counters"
    version: ClassVar[int] = 2
    collector: ClassVar[str] = "perf_stat"

    sides: tuple[CounterSide, ...]
    rows: tuple[CounterRow, ...]
    zeros: Annotated[tuple[str, ...], "events with a count of 0 in all runs; not in `rows`"]
    not_counted: tuple[NotCounted, ...]
    missing: tuple[MissingSide, ...]
    notes: tuple[str, ...]
