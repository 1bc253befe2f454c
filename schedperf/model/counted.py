# SPDX-License-Identifier: GPL-2.0-or-later
"""Counted evidence in the record: rates of two sides, and the same CPU by CPU or bin by bin.

What a run counts grows with its length and its work, so it is divided by both
(:mod:`schedperf.stats.counted`). Each kind of evidence adds to these records what its own rows are
about.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from schedperf.model.comparison import Replication

Basis = Literal["time", "operation", "share"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """How often something happened on both sides, and how sure the change is."""

    unit: str
    n_base: Annotated[int, "independent units: runs, boots or rounds"]
    n_new: int
    replication: Annotated[Replication, "what n counts"]
    base: Annotated[
        float | None, "in unit; mean over runs: geometric, or arithmetic where a run has 0"
    ]
    new: float | None
    ratio: Annotated[
        float | None, "new / base; null where a run has 0 (p and changed are known all the same)"
    ]
    ci_low: Annotated[float | None, "95% CI of the ratio"]
    ci_high: float | None
    p: float | None
    q: Annotated[float | None, "p, corrected for all rows of the same family and basis"]
    changed: Annotated[
        bool | None,
        "is the change significant and beyond the margin? null: unknown, because there is "
        "one run per side, the few runs never vary, or a difference may be drift",
    ]
    values_base: Annotated[tuple[float, ...], "one per run, in unit, in the order of the bundle"]
    values_new: tuple[float, ...]

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of a rate, of which a row is made."""
        return {field.name: getattr(self, field.name) for field in fields(Rate)}


@dataclass(frozen=True, kw_only=True, slots=True)
class RateRow(Rate, ABC):
    """One rate of one workload and point, base against a new side."""

    row: Annotated[str, "names the row for findings and evidence"]
    side: str
    workload: str
    point: str
    basis: Annotated[Basis, "what the count is divided by"]

    @property
    @abstractmethod
    def identity(self) -> tuple[Hashable, ...]:
        """What the row is about, whatever it is divided by."""

    @property
    def statistic(self) -> str:
        """What the row says of a distribution: "p99", "max"; anything else is a mean."""
        return ""

    @property
    def why_invalid(self) -> str | None:
        """Why the values must not be compared; None where they may."""
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """What was counted at several places, such as CPUs, base against new."""

    replication: Annotated[Replication, "what n counts"]
    n_base: int
    n_new: int
    base: Annotated[tuple[float | None, ...], "of each place; mean over runs"]
    new: tuple[float | None, ...]
    ci_low: Annotated[tuple[float | None, ...], "95% CI of new - base, in the unit of the values"]
    ci_high: tuple[float | None, ...]
    changed: Annotated[
        tuple[bool | None, ...],
        "is the difference significant, corrected for all places of the entry? null: "
        "unknown, because there is one run or no two runs differ",
    ]

    def as_fields(self) -> dict[str, Any]:
        """Return what was counted, of which a row is made."""
        return {field.name: getattr(self, field.name) for field in fields(Places)}


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuRow(Places):
    """What each CPU counted."""

    side: str
    workload: str
    point: str
    measure: str
    unit: Annotated[str, "empty: a share of the CPU's time"]
    meaning: str
    cpus: Annotated[tuple[int, ...], "numbers of the CPUs, the places"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Bins(Places):
    """A histogram of each side: the share of the events that is in each bin."""

    low: Annotated[tuple[float, ...], "edge of each bin, the places"]
    high: Annotated[tuple[float | None, ...], "null: the bin is open"]
    events_base: Annotated[int, "of all runs"]
    events_new: int

    def as_fields(self) -> dict[str, Any]:
        """Return the histogram, of which a row is made."""
        return {field.name: getattr(self, field.name) for field in fields(Bins)}


@dataclass(frozen=True, kw_only=True, slots=True)
class BinsRow(Bins):
    """A histogram of one workload and point, base against a new side."""

    side: str
    workload: str
    point: str
