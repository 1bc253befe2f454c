# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of ``schedperf mechanism``: which quantities changed in both comparisons."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

from schedperf.model.rows import Replication

SCHEMA = "schedperf/mechanism/1"

Kind = Literal["rate", "share", "layout"]
Outcome = Literal[
    "same",
    "opposite",
    "only in production",
    "undecided",
    "not measured in micro",
    "only in micro",
    "unchanged",
    "unknown",
]
# Outcomes of what changed significantly in production, in the order of the report.
CHANGED: tuple[Outcome, ...] = (
    "same",
    "opposite",
    "only in production",
    "undecided",
    "not measured in micro",
)
OUTCOMES: tuple[Outcome, ...] = (*CHANGED, "only in micro", "unchanged", "unknown")
# Quantities that a sentence names.
MOST_NAMES = 3


class Effect(Struct, frozen=True, kw_only=True):
    """The change of one quantity from base to the new side of one comparison.

    :param basis: denominator: operation, time (per second), share (per run), or "" for none
    :param base: mean of base in ``unit``; None for a layout
    :param change: new / base of a rate; new - base of a share, in percentage points; None of a
        layout, and if unknown
    :param ci_low: lower bound of the 95% CI of ``change``; None if not available
    :param q: p, corrected for all quantities of its family in its comparison
    :param changed: whether the change is significant after this correction, and not negligible;
        None if unknown, e.g. with one run per side
    :param falls: whether new is smaller; None if the direction is unknown
    :param n: sample size of base and of new, in units of ``replication``
    """

    unit: str
    basis: str
    base: float | None
    new: float | None
    change: float | None
    ci_low: float | None
    ci_high: float | None
    q: float | None
    changed: bool | None
    falls: bool | None
    n: tuple[int, int] | None
    replication: Replication | None


class Quantity(Struct, frozen=True, kw_only=True):
    """What is measured, equal for all workloads.

    :param section: kind of evidence, as in ``sections`` of a comparison
    :param name: the quantity in words: "waiting", "context-switches of the workload"
    """

    section: str
    name: str

    @property
    def label(self) -> str:
        """Return section and name."""
        return f"{self.section.replace('_', ' ')}: {self.name}"


class MechanismRow(Struct, frozen=True, kw_only=True):
    """One quantity in production and in the microbenchmark."""

    section: str
    name: str
    kind: Annotated[
        Kind,
        "rate: changes are ratios new / base; share: differences in percentage points of CPU time; "
        "layout: kernel data that moved to or from a shared cache line",
    ]
    outcome: Annotated[
        Outcome,
        "same: significant after correction in both, in one direction; undecided: not significant "
        "in micro, whose CI includes the change of production; only in production: not significant "
        "in micro, whose CI excludes it; unknown: not tested in production",
    ]
    within: Annotated[
        str | None,
        "quantity of production that changed and contains this one, e.g. the class of a function; "
        "the sentence counts only that one; null if there is none",
    ]
    production: Effect | None
    micro: Effect | None

    @property
    def label(self) -> str:
        """Return section and name of the quantity."""
        return Quantity(section=self.section, name=self.name).label


class Compared(Struct, frozen=True, kw_only=True):
    """One comparison, and the result whose mechanism is considered.

    :param file: file that the comparison was read from
    :param id: id of the comparison
    :param side: new side
    :param result: the result that decides its verdict, with its change; None without results
    """

    file: str
    id: str
    side: str
    workload: str
    point: str
    verdict: str
    result: str | None
    emulated: bool

    @property
    def where(self) -> str:
        """Return workload, point and side in words."""
        point = f" at {self.point}" if self.point else ""
        return f"{self.workload}{point}"


class MechanismPair(Struct, frozen=True, kw_only=True):
    """The microbenchmark against one comparison of production."""

    production: Compared
    rows: tuple[MechanismRow, ...]

    derived: ClassVar[tuple[str, ...]] = ("sentence",)

    def of_outcome(self, *outcomes: Outcome) -> list[MechanismRow]:
        """Return the rows with these outcomes, without parts of other rows."""
        return [row for row in self.rows if row.outcome in outcomes and row.within is None]

    @property
    def sentence(self) -> str:
        """Return the counts of all outcomes in one sentence."""
        changed = self.of_outcome(*CHANGED)
        if not changed:
            return f"no mechanism changed significantly in production{self._unknown()}"
        same = len(self.of_outcome("same"))
        noun = "mechanism" if len(changed) == 1 else "mechanisms"
        parts = [f"same in {same} of {len(changed)} {noun} that changed in production"]
        names: list[tuple[Outcome, str]] = [
            ("opposite", "opposite direction in micro"),
            ("only in production", "only in production"),
            ("undecided", "undecided in micro (its CI includes the change of production)"),
            ("not measured in micro", "not measured in micro"),
        ]
        for outcome, words in names:
            rows = self.of_outcome(outcome)
            if rows:
                parts.append(f"{words}: {_list_names(rows)}")
        return f"{'; '.join(parts)}{self._unknown()}"

    def _unknown(self) -> str:
        count = len(self.of_outcome("unknown"))
        return f"; {count} not tested in production" if count else ""


class Mechanism(Struct, frozen=True, kw_only=True):
    """Whether a microbenchmark shows the mechanisms of regressions in production."""

    schema: str = SCHEMA
    tool_version: str
    micro: Compared
    pairs: tuple[MechanismPair, ...]


def _list_names(rows: Sequence[MechanismRow]) -> str:
    names = [row.label for row in rows[:MOST_NAMES]]
    more = len(rows) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
