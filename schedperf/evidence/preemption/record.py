# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of the section ``preemption``: where tasks are preempted, and how long."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from schedperf.model.counted import RateRow
from schedperf.model.probes import ProbedSide
from schedperf.model.sections import SectionData

Place = Literal[
    "user code", "after a system call", "after a page fault", "kernel: system call",
    "kernel: page fault", "kernel: other", "yield", "unknown",
]  # fmt: skip
By = Literal["all", "place", "function", "preemptor"]
Field = Literal["preemptions", "wait", "p99 wait", "slice left"]


class PreemptionSide(ProbedSide, frozen=True, kw_only=True):
    """The recorded runs of one side, and the settings that decide about preemption."""

    preemptions: Annotated[int, "number of preemptions and yields in all runs"]
    model: Annotated[
        str | None, "preemption model of the kernel: none, voluntary, lazy, full, rt; null: unknown"
    ]
    hz: Annotated[int | None, "CONFIG_HZ: ticks per second; null: unknown"]

    @property
    def events(self) -> int:
        """Number of preemptions and yields."""
        return self.preemptions


class PreemptionRow(RateRow, frozen=True, kw_only=True):
    """Preemptions in total, or of one place, function or preemptor: number, wait or slice."""

    by: Annotated[By, "what `place`, `function` and `preemptor` select; `all`: everything"]
    place: Annotated[
        Place | None,
        "`user code`: an interrupt in user mode; `after …`: on the return to user mode; `kernel: "
        "…`: inside the kernel; `yield`: sched_yield(2); null: all places",
    ]
    function: Annotated[
        str,
        "function of the program that ran, or that was in the kernel: the innermost one outside of "
        "the C library; empty: all functions",
    ]
    program: Annotated[str, "file of the function, without its directory; empty: all, or unknown"]
    kernel_function: Annotated[
        str, "preempted kernel function, for places inside the kernel; empty: all, or none"
    ]
    preemptor: Annotated[str, "command (comm) of the task that ran instead; empty: all commands"]
    field: Annotated[
        Field,
        "`wait`: time until the task ran again; `p99 wait`: its 99th percentile; `slice left`: "
        "mean of what the task had left of its slice",
    ]

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, what is selected, and field."""
        return self.side, self.workload, self.point, *self.subject, self.field

    @property
    def subject(self) -> tuple[Hashable, ...]:
        """What the row selects."""
        return (
            self.by, self.place, self.function, self.program, self.kernel_function, self.preemptor,
        )  # fmt: skip

    @property
    def statistic(self) -> str:
        """The percentile, or "" for sums and means."""
        return "p99" if self.field == "p99 wait" else ""

    @property
    def is_own(self) -> bool:
        """Whether the preemptions are those of the workload's tasks: all are."""
        return True


class Preemption(SectionData, frozen=True, kw_only=True):
    """Where the workload's tasks are preempted or yield, by whom, and how long they then wait."""

    section: ClassVar[str] = "preemption"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "bpf_preemption"

    sides: tuple[PreemptionSide, ...]
    rows: tuple[PreemptionRow, ...]
    notes: tuple[str, ...]
