# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of counted evidence: rates of two sides, in total, per CPU or per bin.

Counts grow with the length and the work of a run, so they are divided by time and by operations
(:mod:`schedperf.stats.counted`). Each kind of evidence adds fields that identify its rows.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Hashable
from typing import Annotated, Any, Literal

from msgspec import Struct, StructMeta
from msgspec.structs import replace

from schedperf.model.rows import Replication

Basis = Literal["time", "operation", "share"]


class Rate(Struct, frozen=True, kw_only=True):
    """A quantity on both sides, e.g. a rate, a share or a maximum, and its change with 95% CI."""

    unit: str
    n_base: Annotated[int, "sample size of base, in units of `replication`"]
    n_new: int
    replication: Annotated[Replication, "unit of replication: what `n_base` and `n_new` count"]
    base: Annotated[
        float | None,
        "mean over the runs of base, in `unit`; geometric, or arithmetic if a run has the value "
        "0; of maxima the median",
    ]
    new: float | None
    ratio: Annotated[
        float | None,
        "ratio new / base; null if a run has the value 0 (`p` and `changed` may still be set)",
    ]
    ci_low: Annotated[float | None, "lower bound of the 95% CI of `ratio`; null if not available"]
    ci_high: float | None
    p: float | None
    q: Annotated[
        float | None, "p, corrected for multiple testing over all rows of the same family and basis"
    ]
    changed: Annotated[
        bool | None,
        "true if the change is significant and not negligible; null if unknown, because there is "
        "one run per side, because all values of the few runs are equal, or because drift may "
        "explain the change",
    ]
    values_base: Annotated[
        tuple[float, ...],
        "value of each run of base, in `unit`, in the order of the runs in the bundle",
    ]
    values_new: tuple[float, ...]

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of :class:`Rate` by name, without those of a subclass."""
        return {name: getattr(self, name) for name in Rate.__struct_fields__}

    def without_comparison(self) -> "Rate":
        """Return the rate with ratio, CI, p, q and ``changed`` set to None."""
        return replace(self, ratio=None, ci_low=None, ci_high=None, p=None, q=None, changed=None)


class _AbstractStruct(StructMeta, ABCMeta):
    # An abstract record that is never instantiated itself, because each kind defines a part of it.
    pass


class RateRow(Rate, frozen=True, kw_only=True, metaclass=_AbstractStruct):
    """One rate of one workload and point, base against a new side."""

    row: Annotated[str, "id of the row; findings refer to this id"]
    side: str
    workload: str
    point: str
    basis: Annotated[Basis, "denominator of the rate: time, operations, or another count"]

    @property
    @abstractmethod
    def identity(self) -> tuple[Hashable, ...]:
        """Return a key of what the row counts, equal for all denominators."""

    @property
    def mechanism(self) -> str | None:
        """Return what the row counts in words that other workloads have, too.

        ``schedperf mechanism`` compares rows with the same words. None if other workloads have no
        such row (a node, a command), or if the row is a sum of others.
        """
        words = [str(part) for part in self.identity[3:] if part not in ("", None, ())]
        return " ".join(words)

    @property
    def statistic(self) -> str:
        """Return the statistic of a distribution: "p99", "max"; "" for a mean."""
        return ""

    @property
    def is_own(self) -> bool:
        """Return whether the row is about the workload's own tasks; such rows come first."""
        return False

    @property
    def why_invalid(self) -> str | None:
        """Return why the values must not be compared; None if they may be."""
        return None


class Places(Struct, frozen=True, kw_only=True):
    """Values per CPU or per bin, base against new."""

    replication: Annotated[Replication, "unit of replication: what `n_base` and `n_new` count"]
    n_base: int
    n_new: int
    base: Annotated[
        tuple[float | None, ...],
        "value per CPU or bin, mean over the runs of base; null if not recorded",
    ]
    new: tuple[float | None, ...]
    ci_low: Annotated[
        tuple[float | None, ...],
        "lower bound of the 95% CI of `new` - `base` per CPU or bin, in the unit of `base`; null "
        "if not available",
    ]
    ci_high: tuple[float | None, ...]
    changed: Annotated[
        tuple[bool | None, ...],
        "true if the difference is significant, corrected for all CPUs or bins of the row; null "
        "if unknown (one run per side, or all runs equal)",
    ]

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of :class:`Places` by name, without those of a subclass."""
        return {name: getattr(self, name) for name in Places.__struct_fields__}


class CpuRow(Places, frozen=True, kw_only=True):
    """One measure per CPU, base against a new side."""

    side: str
    workload: str
    point: str
    measure: str
    unit: Annotated[str, "unit of the values; empty for a share of the CPU's time"]
    meaning: str
    cpus: Annotated[tuple[int, ...], "CPU numbers, in the order of the values"]


class Bins(Places, frozen=True, kw_only=True):
    """A histogram of each side: the share of the events in each bin."""

    low: Annotated[tuple[float, ...], "lower edge of each bin"]
    high: Annotated[
        tuple[float | None, ...], "upper edge of each bin; null if the bin has no upper edge"
    ]
    events_base: Annotated[int, "number of events in all runs of base"]
    events_new: int

    def as_fields(self) -> dict[str, Any]:
        """Return the fields of :class:`Bins` by name, without those of a subclass."""
        return {name: getattr(self, name) for name in Bins.__struct_fields__}


class BinsRow(Bins, frozen=True, kw_only=True):
    """A histogram of one workload and point, base against a new side."""

    side: str
    workload: str
    point: str
