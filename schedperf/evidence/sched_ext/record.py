# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of the section ``sched_ext``: the schedulers that the runs measured."""

from typing import Annotated, ClassVar

from msgspec import Struct

from schedperf.model.sections import SectionData

# The scheduling class without a loaded scheduler.
FAIR = "fair class"


class SchedulerRow(Struct, frozen=True, kw_only=True):
    """The runs of one side with one scheduler and one program."""

    row: str
    side: str
    scheduler: Annotated[
        str | None, "name of the loaded sched_ext scheduler (root/ops); null for the fair class"
    ]
    runs: Annotated[int, "runs that began with this scheduler, warm-up excluded"]
    discarded: Annotated[int, "those of them that did not keep it and are not used"]
    switch_all: Annotated[
        bool | None, "whether all tasks are switched to the scheduler; null if not recorded"
    ]
    rejected: Annotated[
        int | None, "tasks that the scheduler refused, summed over the runs; null if not recorded"
    ]
    command: Annotated[str | None, "the service that loaded it (`--service`); null without one"]
    program: Annotated[str | None, "path of the service's program"]
    version: Annotated[str | None, "first line that it prints with --version; null if unknown"]
    sha256: str | None


class DiscardedRun(Struct, frozen=True, kw_only=True):
    """One run that measured another scheduler than it should."""

    side: str
    run: Annotated[str, "folder of the run in the bundle"]
    kind: Annotated[str, "clean or instrumented"]
    scheduler: Annotated[str | None, "the scheduler with which it began; null for the fair class"]
    reason: str


class SchedExt(SectionData, frozen=True, kw_only=True):
    """The schedulers of the runs, and the runs that lost theirs."""

    section: ClassVar[str] = "sched_ext"
    version: ClassVar[int] = 1

    rows: tuple[SchedulerRow, ...]
    discarded: tuple[DiscardedRun, ...]
    notes: Annotated[tuple[str, ...], "runs with captures that could not be read"]
