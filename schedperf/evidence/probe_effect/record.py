# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of instrumentation overhead and of the change in instrumented runs."""

from typing import Annotated, ClassVar

from msgspec import Struct

from schedperf.model.rows import Better, Replication
from schedperf.model.sections import SectionData


class ProbeCostRow(Struct, frozen=True, kw_only=True):
    """One metric of one side: instrumented runs against clean runs."""

    side: str
    workload: str
    point: str
    metric: str
    unit: str
    better: Better
    ratio: Annotated[
        float | None,
        "geometric mean of the instrumented runs / geometric mean of the clean runs; null if any "
        "value is <= 0",
    ]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of `ratio`"]
    ci_high: float | None
    replication: Annotated[
        Replication, "unit of replication, counted by `n_clean` and `n_instrumented`"
    ]
    n_clean: int
    n_instrumented: int
    clean: float | None
    instrumented: float | None


class ProbedChangeRow(Struct, frozen=True, kw_only=True):
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
    ratio: Annotated[
        float | None,
        "geometric mean of the new runs / geometric mean of the base runs; null if "
        "any value is <= 0",
    ]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of `ratio`"]
    ci_high: float | None
    replication: Annotated[Replication, "unit of replication, counted by `n_base` and `n_new`"]


class ProbedValue(Struct, frozen=True, kw_only=True):
    """One metric of one instrumented run beside the clean runs of its boot."""

    metric: str
    unit: str
    better: Better
    value: float
    n_clean: Annotated[int, "number of clean runs with the same workload, parameters and boot"]
    clean: Annotated[
        float | None,
        "geometric mean of the clean runs, arithmetic if any value is <= 0; null if `n_clean` is 0",
    ]
    ratio: Annotated[
        float | None, "`value` / `clean`; null if `clean` is null or any value is <= 0"
    ]


class ProbedRun(Struct, frozen=True, kw_only=True):
    """One instrumented run and its overhead."""

    side: str
    workload: str
    point: str
    boot: int
    run: int
    collectors: Annotated[
        tuple[str, ...], "collectors active in this run but not in the clean runs of the same side"
    ]
    effects: tuple[ProbedValue, ...]


class ProbeEffect(SectionData, frozen=True, kw_only=True):
    """Instrumented runs against clean runs, and against instrumented runs of the other sides."""

    section: ClassVar[str] = "probe_effect"
    version: ClassVar[int] = 3

    rows: tuple[ProbeCostRow, ...]
    between: Annotated[
        tuple[ProbedChangeRow, ...],
        "instrumented runs of base compared with those of new (verdicts use the clean runs)",
    ]
    runs: tuple[ProbedRun, ...]
