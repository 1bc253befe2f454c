# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of section ``energy``: joules and mean power of each run, new vs base."""

from collections.abc import Hashable, Iterable
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.counted import RateRow
from schedperf.model.sections import SectionData

Kind = Literal["package", "psys", "core", "uncore", "dram", "other"]

# All kinds of counters, in order of preference for statements about the whole machine.
LEADING: tuple[Kind, ...] = ("package", "psys", "other", "core", "uncore", "dram")
# The driver whose counters have no prefix: "package-0".
RAPL = ""


class EnergySide(Struct, frozen=True, kw_only=True):
    """The runs of one side that have energy counters."""

    side: str
    runs: int
    kind: Literal["clean", "instrumented"]


class EnergyRow(RateRow, frozen=True, kw_only=True):
    """Energy of one counter per operation or per run, or its mean power."""

    domain: Annotated[str, 'what the counter counts: "package-0", "package-0 dram", "psys"']
    kind: Annotated[
        Kind, "kind of domain; core and uncore are parts of a package, psys includes the packages"
    ]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, counter and denominator."""
        return self.side, self.workload, self.point, self.domain, self.basis

    @property
    def mechanism(self) -> str | None:
        """The RAPL domain."""
        return self.domain


class MissingCounter(Struct, frozen=True, kw_only=True):
    """A counter without energy in some runs of a side, and the reason."""

    side: str
    counter: Annotated[str, "its name, or the path of its file"]
    reason: str


class Energy(SectionData, frozen=True, kw_only=True):
    """Energy that the machine used during the runs.

    Counters overlap and are never added. Energy is counted by the hardware, never computed from
    power and time.
    """

    section: ClassVar[str] = "energy"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "energy"

    sides: tuple[EnergySide, ...]
    rows: Annotated[
        tuple[EnergyRow, ...],
        "basis `operation`: energy per operation; `share`: energy per run; `time`: mean power, "
        "which is energy divided by the time in which it was counted",
    ]
    zeros: Annotated[tuple[str, ...], "counters that counted nothing in all runs; not in `rows`"]
    missing: tuple[MissingCounter, ...]
    notes: tuple[str, ...]


def leading_rows(rows: Iterable[EnergyRow]) -> list[EnergyRow]:
    """Return the rows of the first kind of ``LEADING`` that has rows: packages, else psys, etc.

    If several drivers count the packages, RAPL is chosen, or else the first of them.
    """
    listed = list(rows)
    kinds = {row.kind for row in listed}
    leading = next((kind for kind in LEADING if kind in kinds), None)
    of_kind = [row for row in listed if row.kind == leading]
    drivers = [_driver_of(row) for row in of_kind]
    # intel-rapl-mmio counts a package that intel-rapl counts as well.
    chosen = RAPL if RAPL in drivers else next(iter(drivers), RAPL)
    return [row for row, driver in zip(of_kind, drivers, strict=True) if driver == chosen]


def _driver_of(row: EnergyRow) -> str:
    # Names begin with the driver, except those of RAPL and of perf, which reads the same counters.
    return row.domain.rpartition(" ")[0] if row.kind in ("package", "psys") else ""
