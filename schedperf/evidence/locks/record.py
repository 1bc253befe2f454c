# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the record of the section ``locks``: waits for locks of the kernel."""

from collections.abc import Hashable
from typing import Annotated, ClassVar, Literal

from schedperf.model.counted import RateRow
from schedperf.model.probes import ProbedSide
from schedperf.model.sections import SectionData

LockType = Literal[
    "spinlock", "rwlock read", "rwlock write", "mutex", "rwsem read", "rwsem write",
    "percpu rwsem read", "percpu rwsem write", "rt mutex", "other",
]  # fmt: skip
NamedBy = Literal["symbol", "class", "caller"]
Field = Literal["waits", "wait time", "p99"]


class LocksSide(ProbedSide, frozen=True, kw_only=True):
    """The recorded runs of one side."""

    waits: Annotated[int, "number of waits of the workload's tasks in all runs"]

    @property
    def events(self) -> int:
        """Number of waits."""
        return self.waits


class LockRow(RateRow, frozen=True, kw_only=True):
    """The waits for one lock, of one stack or until one owner: number, time or 99th percentile."""

    lock: Annotated[str, "name of the lock; empty: all locks"]
    named_by: Annotated[
        NamedBy,
        "what names it: `symbol`: its variable; `class`: the structure that it is in; `caller`: "
        "the function that waits, because the lock itself is unknown",
    ]
    type: Annotated[LockType | None, "null: all locks"]
    node: Annotated[int | None, "NUMA node of the waiting CPU; null: all nodes"]
    functions: Annotated[
        tuple[str, ...],
        "functions of the waiting stack, innermost first, without those of the lock; empty: all "
        "stacks",
    ]
    owner: Annotated[str, "command of the task that released the lock; empty: all"]
    released_in: Annotated[str, "function that released the lock; empty: all"]
    field: Field

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """Key of the row: side, workload, point, lock, node, stack, owner and field."""
        return self.side, self.workload, self.point, *self.subject, self.field

    @property
    def subject(self) -> tuple[Hashable, ...]:
        """The lock, node, stack and owner whose waits these are."""
        owner = self.owner, self.released_in
        return self.lock, self.named_by, self.type, self.node, self.functions, *owner

    @property
    def of_lock(self) -> tuple[Hashable, ...]:
        """The lock."""
        return self.lock, self.named_by, self.type

    @property
    def is_whole(self) -> bool:
        """Whether these are the waits for a lock with any stack and owner."""
        return not (self.functions or self.released_in)

    @property
    def statistic(self) -> str:
        """The percentile, or "" for sums."""
        return "p99" if self.field == "p99" else ""

    @property
    def is_own(self) -> bool:
        """Whether the waits are the workload's: all are."""
        return True


class Locks(SectionData, frozen=True, kw_only=True):
    """Waits of the workload's tasks for locks of the kernel."""

    section: ClassVar[str] = "locks"
    version: ClassVar[int] = 1
    collector: ClassVar[str] = "bpf_locks"

    sides: tuple[LocksSide, ...]
    rows: tuple[LockRow, ...]
    left_out: Annotated[int, "locks without rows of their own, because others have longer waits"]
    notes: tuple[str, ...]
