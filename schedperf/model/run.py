# SPDX-License-Identifier: GPL-2.0-or-later
"""One run: its identity, the work that it did, and what was captured of it; and the runs of a side.

Every kind of evidence reads its captures into these, whatever their content is.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Literal, TypeVar

from msgspec import Struct

Kind = Literal["clean", "instrumented"]

Content_co = TypeVar("Content_co", covariant=True)
Other = TypeVar("Other")


class RunKey(Struct, frozen=True, kw_only=True):
    """Which run it is.

    :param side: "base", "new", then "new2", "new3" …
    :param point: "" where a workload has one alone
    :param boot: number of the boot; runs of one boot are not independent of it
    :param order: place in time over all sides; None where that is unknown
    :param round: number of the interleaved pair of runs; None without one
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
        """Workload and point, within which runs are compared."""
        return self.workload, self.point


class Operations(Struct, frozen=True, kw_only=True):
    """What a run did.

    :param unit: one of them, in words: "message", "transaction", "MB", "run"
    :param exact: is it a count, and no rate times the time of the run?
    """

    count: float
    unit: str
    exact: bool


class Captured(Struct, Generic[Content_co], frozen=True, kw_only=True):
    """What was captured of one run.

    :param ops: what its benchmark did; None where that is unknown
    :param wall_s: from fork to exit; None where that is unknown
    :param content: of the capture, parsed, or what was made of that
    """

    key: RunKey
    ops: Operations | None = None
    wall_s: float | None = None
    content: Content_co

    def having(self, content: Other) -> "Captured[Other]":
        """Return the run with another content."""
        return Captured(key=self.key, ops=self.ops, wall_s=self.wall_s, content=content)


class SideOf(Struct, Generic[Content_co], frozen=True, kw_only=True):
    """The runs of one side that have a capture.

    :param name: "base", "new", then "new2", "new3" …
    :param label: what the user calls it
    :param kind: of all its runs: the two are never mixed
    :param notes: what could not be read
    """

    name: str
    label: str = ""
    kind: Kind
    runs: tuple[Captured[Content_co], ...]
    notes: tuple[str, ...] = ()

    def having(self, content_of: "Callable[[Captured[Content_co]], Other]") -> "SideOf[Other]":
        """Return the side with another content of each run."""
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
