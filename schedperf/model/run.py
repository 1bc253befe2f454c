# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a run: its identity, its work and its captures; and the runs of a side.

Every kind of evidence uses these types, with its own type of content.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Literal, TypeVar

from msgspec import Struct

Kind = Literal["clean", "instrumented"]

Content_co = TypeVar("Content_co", covariant=True)
Other = TypeVar("Other")


class RunKey(Struct, frozen=True, kw_only=True):
    """The identity of a run.

    :param side: "base", "new", then "new2", "new3" …
    :param point: "" if the workload has a single point
    :param boot: number of the boot; runs of one boot are not independent
    :param order: position in time over all sides; None if unknown
    :param round: number of the interleaved pair of runs; None if not interleaved
    """

    side: str
    workload: str
    point: str
    boot: int
    run: int
    order: int | None = None
    round: int | None = None

    @property
    def at(self) -> tuple[str, str]:
        """Return workload and point, within which runs are compared."""
        return self.workload, self.point


class Operations(Struct, frozen=True, kw_only=True):
    """The work that a run did.

    :param unit: name of one operation: "message", "transaction", "MB", "run"
    :param exact: whether the number was counted, not computed as a rate times the run time
    """

    count: float
    unit: str
    exact: bool


class Captured(Struct, Generic[Content_co], frozen=True, kw_only=True):
    """A collector's capture of one run.

    :param ops: operations of its benchmark; None if unknown
    :param wall_s: time from fork to exit; None if unknown
    :param period_s: time that the capture covers, if it may be another; None if it is the run's
    :param content: the parsed capture, or a value derived from it
    """

    key: RunKey
    ops: Operations | None = None
    wall_s: float | None = None
    period_s: float | None = None
    content: Content_co

    @property
    def seconds(self) -> float | None:
        """Time that the capture covers in s; None if unknown."""
        return self.wall_s if self.period_s is None else self.period_s

    def having(self, content: Other) -> "Captured[Other]":
        """Return the same run with ``content`` in place of its own content."""
        return Captured(
            key=self.key,
            ops=self.ops,
            wall_s=self.wall_s,
            period_s=self.period_s,
            content=content,
        )


class SideOf(Struct, Generic[Content_co], frozen=True, kw_only=True):
    """The runs of one side that have a capture.

    :param name: "base", "new", then "new2", "new3" …
    :param label: the label that the user gave it
    :param kind: kind of all its runs, because clean and instrumented runs are never mixed
    :param notes: what could not be read, one line each
    """

    name: str
    label: str = ""
    kind: Kind
    runs: tuple[Captured[Content_co], ...]
    notes: tuple[str, ...] = ()

    def having(self, content_of: "Callable[[Captured[Content_co]], Other]") -> "SideOf[Other]":
        """Return the side with the content of each run replaced.

        :param content_of: returns the new content of a run
        """
        return self.with_runs(run.having(content_of(run)) for run in self.runs)

    def with_runs(self, runs: "Iterable[Captured[Other]]") -> "SideOf[Other]":
        """Return the side with other runs."""
        return SideOf(
            name=self.name,
            label=self.label,
            kind=self.kind,
            runs=tuple(runs),
            notes=self.notes,
        )

    def by_point(self) -> dict[tuple[str, str], list[Captured[Content_co]]]:
        """Return the runs by workload and point."""
        points: dict[tuple[str, str], list[Captured[Content_co]]] = {}
        for run in self.runs:
            points.setdefault(run.key.at, []).append(run)
        return points
