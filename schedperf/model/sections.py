# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records of evidence: sections, their data and their findings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from msgspec import Struct

from schedperf.model.data_frame import data_frame
from schedperf.model.rows import Better

if TYPE_CHECKING:
    import pandas as pd

SectionStatus = Literal["ok", "absent", "not-applicable", "failed"]
Bearing = Literal["reason", "against", "effect", "unseen"]


class Finding(Struct, frozen=True, kw_only=True):
    """One finding: a change that may explain the verdict.

    :param clause: the fact in one clause
    :param change: size of the change and its interval, printed after the clause
    :param details: further facts, the meaning and advice, printed after the change
    :param evidence: rows of the sections that support it: ``("layout#sd_llc_id",)``
    :param value: size of the change in ``unit``; None for a finding without a size
    :param ci: 95% CI of ``value``; None if not available
    :param better: better direction of the measured value; None if neither is better
    :param n: sample size of base and of the new side: runs, boots, pairs or builds
    :param replication: ``n`` with its unit: "5+5 runs", "1 build per side"
    :param attribution: how far it explains the verdict: "correlated; causation not shown"
    :param support: evidence beyond correlation, in one clause: "grade C: …", "published
        measurement: …"; "" without any
    :param edges: number of kinds of evidence that changed together; 1 for a single kind
    :param bearing: "reason" may explain the verdict, "against" changed in the direction opposite to
        the verdict, "effect" is a further effect of the change, such as the energy used, which
        cannot explain the verdict, and "unseen" is about what was not measured
    :param of_machine: whether it counts all tasks of the machine instead of the workload's only
    """

    derived: ClassVar[tuple[str, ...]] = ("claim",)

    id: str
    side: str
    clause: str
    metric: str
    value: float | None
    ci: tuple[float, float] | None
    unit: str
    better: Better | None
    n: tuple[int, int]
    evidence: tuple[str, ...]
    replication: str
    attribution: str
    change: str = ""
    details: str = ""
    support: str = ""
    edges: int = 1
    bearing: Bearing = "reason"
    of_machine: bool = False

    @property
    def rule(self) -> str:
        """Return the name of the rule that found it."""
        return self.id.partition("#")[0]

    @property
    def claim(self) -> str:
        """Return the whole finding as one sentence."""
        return f"{self.clause}{self.change}{self.details}"


class SectionData(Struct, frozen=True, kw_only=True):
    """The data of one analysis; each kind of evidence has a subclass in its ``record.py``.

    :cvar section: name of the section in :attr:`Comparison.sections`
    :cvar version: last part of the name of its schema
    :cvar collector: whose captures it analyses; "" if it needs no warning about collector overhead
    :cvar table: what :meth:`frame` returns by default
    """

    section: ClassVar[str]
    version: ClassVar[int]
    collector: ClassVar[str] = ""
    table: ClassVar[str] = "rows"

    @classmethod
    def schema_id(cls) -> str:
        """Return the name of the section's schema: ``schedperf/section/layout/1``."""
        return f"schedperf/section/{cls.section}/{cls.version}"

    def frame(self, table: str | None = None) -> "pd.DataFrame":
        """Return the rows of a table as a DataFrame, a column per field.

        :param table: as for :func:`~schedperf.model.data_frame.data_frame` [default: the main
            table]
        :raises KeyError: the table is unknown
        """
        return data_frame(self, table or self.table)


class MissingSide(Struct, frozen=True, kw_only=True):
    """A side without data in a section, and the reason."""

    side: str
    reason: str


class Section(Struct, frozen=True, kw_only=True):
    """The result of one analysis: its data, or why it has none.

    :param schema: ``schedperf/section/layout/1``
    :param status: "ok" if it has data; "absent" if the recordings lack the data that it analyses;
        "failed" if the analysis raised an error; "not-applicable" if the analysis does not concern
        the recordings, e.g. no background load was requested. Reports do not mention a section
        that is not applicable
    :param reason: why it has no data; None if ``status`` is "ok"
    :param data: None unless ``status`` is "ok"
    """

    schema: str
    status: SectionStatus
    reason: str | None
    data: SectionData | None

    @classmethod
    def of(cls, data: SectionData) -> "Section":
        """Return the section of an analysis that has a result."""
        return cls(schema=data.schema_id(), status="ok", reason=None, data=data)

    @classmethod
    def without(cls, record: type[SectionData], status: SectionStatus, reason: str) -> "Section":
        """Return the section of an analysis that has no result."""
        return cls(schema=record.schema_id(), status=status, reason=reason, data=None)


Data = TypeVar("Data", bound=SectionData)


def data_of(sections: Mapping[str, Section], kind: type[Data]) -> Data | None:
    """Return the data of a section, by the type of its data; None if it is missing or has none."""
    section = sections.get(kind.section)
    data = None if section is None else section.data
    return data if isinstance(data, kind) else None
