# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of the section ``load``: the results of a second workload, per metric."""

from collections.abc import Hashable
from typing import Annotated, ClassVar

from schedperf.inputs.benchmarks import is_maximum
from schedperf.model.counted import RateRow
from schedperf.model.rows import Better
from schedperf.model.sections import SectionData


class LoadRow(RateRow, frozen=True, kw_only=True):
    """One metric of the load, beside one workload and point."""

    metric: str
    better: Better
    definition: Annotated[str | None, "what the metric counts or times; null if not known"]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point and metric."""
        return self.side, self.workload, self.point, self.metric

    @property
    def statistic(self) -> str:
        """The statistic: "max" for the maximum of a run, otherwise ""."""
        return "max" if is_maximum(self.metric) else ""


class Load(SectionData, frozen=True, kw_only=True):
    """Results of the load: the command that ran beside the workload (``--with-load``)."""

    section: ClassVar[str] = "load"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "load"

    command: Annotated[str, "command of the load, with placeholders of the points"]
    rows: Annotated[tuple[LoadRow, ...], "results of the load; they are not used for the verdict"]
    notes: Annotated[tuple[str, ...], "what could not be read, and loads that had to be killed"]
