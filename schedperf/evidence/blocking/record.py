# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of the section ``blocking``: what tasks wait for while they are blocked."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from schedperf.evidence.profile.flame_record import FlameComparison
from schedperf.model.counted import RateRow
from schedperf.model.probes import ProbedSide
from schedperf.model.sections import SectionData

By = Literal["all", "cause", "function", "waker", "stack"]
Field = Literal["blocked", "runnable", "times", "p99"]


class BlockingSide(ProbedSide, frozen=True, kw_only=True):
    """The recorded runs of one side."""

    times: Annotated[int, "number of times that a task blocked, in all runs"]
    least_s: Annotated[float, "shorter times in s are not among them"]
    shorter: Annotated[int, "number of shorter times in all runs"]

    @property
    def events(self) -> int:
        """Number of times that a task blocked."""
        return self.times


class BlockingRow(RateRow, frozen=True, kw_only=True):
    """Blocked times in total, or of one cause, function, waker or stack."""

    by: Annotated[By, "what `cause`, `function`, `waker` and `stack` select; `all`: everything"]
    cause: Annotated[str, "what the task waited for, e.g. `futex`, `pipe`; empty: everything"]
    function: Annotated[
        str,
        "function of the program that waited: the innermost one outside of the C library; empty: "
        "all functions",
    ]
    program: Annotated[str, "file of the function, without its directory; empty: all, or unknown"]
    waker: Annotated[str, "command (comm) of the task that woke it; empty: all commands"]
    stack: Annotated[
        tuple[str, ...],
        "functions of the kernel, then those of the program, innermost first; empty: all stacks",
    ]
    field: Annotated[
        Field,
        "`blocked`: time until the wakeup; `runnable`: from the wakeup until the task ran; "
        "`times`: how often; `p99`: 99th percentile of both times together",
    ]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, what is selected, and field."""
        return self.side, self.workload, self.point, *self.subject, self.field

    @property
    def subject(self) -> tuple[Hashable, ...]:
        """What the row selects."""
        return self.by, self.cause, self.function, self.program, self.waker, self.stack

    @property
    def statistic(self) -> str:
        """The percentile, or "" for sums."""
        return "p99" if self.field == "p99" else ""

    @property
    def is_own(self) -> bool:
        """Whether the times are those of the workload's tasks: all are."""
        return True


class Blocking(SectionData, frozen=True, kw_only=True):
    """What the workload's tasks wait for while they are blocked, where, and who wakes them."""

    section: ClassVar[str] = "blocking"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "bpf_blocking"

    sides: tuple[BlockingSide, ...]
    rows: tuple[BlockingRow, ...]
    notes: tuple[str, ...]


class BlockedTrees(SectionData, frozen=True, kw_only=True):
    """The stacks of blocked and of runnable time of each new side, compared with base."""

    section: ClassVar[str] = "blocked_flames"
    version: ClassVar[int] = 1
    table: ClassVar[str] = "comparisons.events"
    collector: ClassVar[str] = "bpf_blocking"

    comparisons: tuple[FlameComparison, ...]
