# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``scx_stats``: the statistics of sched_ext schedulers."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import BinsRow, RateRow
from schedperf.model.sections import SectionData

# How the numbers of a field relate to time.
Kind = Literal["period", "total", "level"]


class ScxSide(Struct, frozen=True, kw_only=True):
    """The runs of one side that have statistics."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]
    samples: Annotated[int, "samples of all runs, those before the runs excluded"]
    left_out: Annotated[int, "samples that were not taken because of their size; no count is lost"]


class ScxRow(RateRow, frozen=True, kw_only=True):
    """One field of the statistics that both sides have."""

    field: Annotated[str, "names of the field, joined by dots: `layers.batch.total`"]
    kind: Annotated[
        Kind,
        "`period`: counts since the previous request; `total`: counts since the scheduler started; "
        "`level`: a share, mean or state",
    ]
    meaning: Annotated[str, "description by the scheduler; empty without one"]
    events: Annotated[float | None, "mean count per run, on the side with more; null for a level"]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point and field."""
        return self.side, self.workload, self.point, self.field

    @property
    def mechanism(self) -> str | None:
        """The field."""
        return self.field


class ScxHistogram(BinsRow, frozen=True, kw_only=True):
    """A histogram that both sides have."""

    field: str
    meaning: str
    unit: Annotated[str, "unit of the edges: `s`, or empty for the numbers of the bins"]


class ScxOther(Struct, frozen=True, kw_only=True):
    """A field that is informational: its values are not compared."""

    side: str
    workload: str
    point: str
    field: str
    meaning: str
    unit: Annotated[str, "unit of the values; `1/s` for a count, empty for a share"]
    base: Annotated[float | None, "arithmetic mean over the runs; null if unknown or no number"]
    new: float | None
    reason: Annotated[str, "why it is not compared"]


class ScxStats(SectionData, frozen=True, kw_only=True):
    """Statistics of the schedulers of base and new."""

    section: ClassVar[str] = "scx_stats"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "scx_stats"

    sides: tuple[ScxSide, ...]
    rows: Annotated[
        tuple[ScxRow, ...],
        "basis `operation` and `time`: counts per operation and per second; `share`: the mean of a "
        "level over the time of the run",
    ]
    histograms: tuple[ScxHistogram, ...]
    others: tuple[ScxOther, ...]
    zeros: Annotated[tuple[str, ...], "fields that are 0 in all samples; not in `others`"]
    notes: tuple[str, ...]
