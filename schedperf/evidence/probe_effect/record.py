# SPDX-License-Identifier: GPL-2.0-or-later
"""The record of what instruments cost, and of what instrumented runs show of the change."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from schedperf.model.comparison import Better, Replication, SectionData


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeCostRow:
    """One metric of one side: instrumented runs against clean ones."""

    side: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    ratio: Annotated[float | None, "instrumented / clean; null where it has no meaning"]
    ci_low: Annotated[float | None, "lower end of the 95% CI of ratio"]
    ci_high: float | None
    replication: Annotated[Replication, "what the n count"]
    n_clean: int
    n_instrumented: int
    clean: float | None
    instrumented: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbedChangeRow:
    """One metric of one point in instrumented runs: base against one new side."""

    side: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    n_base: int
    n_new: int
    base: float | None
    new: float | None
    ratio: Annotated[float | None, "new / base; null where it has no meaning"]
    ci_low: Annotated[float | None, "lower end of the 95% CI of ratio"]
    ci_high: float | None
    replication: Annotated[Replication, "what the n count"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbedValue:
    """One metric of one instrumented run beside the clean runs of its boot."""

    metric: str
    unit: str
    better: Better
    value: float
    n_clean: Annotated[int, "clean runs of the same workload, point and boot"]
    clean: Annotated[float | None, "their mean; null without one"]
    ratio: Annotated[float | None, "value / clean; null where it has no meaning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbedRun:
    """One instrumented run, and how far it was disturbed."""

    side: str
    workload: str
    point: str
    boot: int
    run: int
    collectors: Annotated[tuple[str, ...], "that ran in it and in no clean run of the side"]
    effects: tuple[ProbedValue, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeEffect(SectionData):
    """Instrumented runs against clean runs, and against those of the other sides."""

    section: ClassVar[str] = "probe_effect"
    version: ClassVar[int] = 3

    rows: tuple[ProbeCostRow, ...]
    between: Annotated[
        tuple[ProbedChangeRow, ...],
        "the instrumented runs of each side against those of base, as rows of the record compare "
        "clean runs",
    ]
    runs: tuple[ProbedRun, ...]
