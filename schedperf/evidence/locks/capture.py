# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the waits of one run: ``locks.json`` of the collector ``bpf_locks``, and name the locks.

::

    {"schema": "schedperf/bpf_locks/1", "seconds": 1.2, "programs": {…},
     "frames": [["rwsem_down_write_slowpath", null], …], "stacks": [[0, 3, 7], …],
     "rows": [{"lock": null, "flags": 4, "node": 0, "stack": 0, "owner": "hackbench",
               "owner_stack": 4, "count": 17, "ns": 185000, "max_ns": 97310,
               "bins": [[40, 17]]}, …],
     "lost": {}, "notes": []}

A lock has the name of its variable if it is static, and that of its class if the kernel or the
waiting function says which one it is. Other locks are named by the function that waits for them, as
``perf lock contention`` does.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from schedperf.evidence.locks.record import LockType, NamedBy
from schedperf.inputs.bundle.json import MOST_HISTOGRAM_VALUES, decode
from schedperf.runs.stacks import (
    MOST_ROWS,
    Costs,
    Durations,
    DurationsRow,
    Index,
    Name,
    Stack,
    StacksDocument,
)

MOST_NODES = 1024

# include/trace/events/lock.h
SPIN, READ, WRITE, RT, PERCPU, MUTEX = 1, 2, 4, 8, 16, 32
MOST_FLAGS = 63

# Functions that implement locks: the function that waits called them.
_OF_LOCKS = re.compile(
    r"_?_?(raw_)?(spin|read|write)_(lock|trylock|unlock)"
    r"|(__pv_|native_|__)?queued_(spin|read|write)_lock|do_raw_|__raw_"
    r"|(__)?mutex_(lock|unlock|optimistic)|__mutex|ww_mutex|__ww_mutex"
    r"|rwsem_|(__)?down_|(__)?up_|down$|up$|rt_mutex|__rt_|rt_spin|rwbase|rt_read|rt_write"
    r"|percpu_(down|up)|__percpu|osq_|(__)?lock_(sock|page|folio)|bit_spin|_atomic_dec_and_(raw_)?lock"
    r"|schedule$|schedule_(preempt_disabled|timeout|rtlock)|preempt_schedule|resched"
)
# Functions whose spinlock is known.
_CLASSES: Mapping[str, str] = {
    **dict.fromkeys(
        ("__schedule", "raw_spin_rq_lock_nested", "raw_spin_rq_lock", "double_rq_lock",
         "task_rq_lock", "__task_rq_lock", "sched_tick", "scheduler_tick", "ttwu_queue",
         "sched_balance_newidle", "sched_ttwu_pending", "raw_spin_rq_trylock"),
        "rq->__lock",
    ),
    **dict.fromkeys(
        ("__wake_up_sync_key", "__wake_up", "__wake_up_common_lock", "prepare_to_wait",
         "prepare_to_wait_exclusive", "finish_wait", "add_wait_queue", "remove_wait_queue",
         "__wake_up_locked_key", "autoremove_wake_function"),
        "wait_queue_head->lock",
    ),
}  # fmt: skip
# Functions that wake a task, and programs at the tracepoint.
_OF_WAKING = re.compile(r"(default_)?try_to_wake_up|wake_up_|swake_up|bpf_|__bpf_|__traceiter_")
UNKNOWN = "unknown"


class Lock(NamedTuple):
    """A lock, or several that have the same name."""

    name: str
    named_by: NamedBy
    type: LockType


class Owner(NamedTuple):
    """Who released a lock: a command, and the function that released it."""

    command: str
    function: str


class Wait(Struct, frozen=True, kw_only=True):
    """Waits for one lock with one stack.

    :param functions: the waiting functions without those of the lock, innermost first
    :param owner: None if the lock was released without a wakeup
    """

    lock: Lock
    node: int
    functions: tuple[str, ...]
    owner: Owner | None
    durations: Durations


class LocksCapture(Struct, frozen=True, kw_only=True):
    """The waits of one run.

    :param lost: events that were lost, by kind
    :param costs: the calls of the programs
    """

    seconds: float
    waits: tuple[Wait, ...]
    lost: Mapping[str, int]
    costs: Costs
    notes: tuple[str, ...]


class _Row(DurationsRow, frozen=True, kw_only=True):
    lock: Name | None
    flags: Annotated[int, Meta(ge=0, le=MOST_FLAGS)]
    node: Annotated[int, Meta(ge=0, lt=MOST_NODES)]
    stack: Index | None
    owner: Name | None = None
    owner_stack: Index | None = None


class _Document(StacksDocument, frozen=True, kw_only=True):
    schema: Literal["schedperf/bpf_locks/1"]
    rows: Annotated[tuple[_Row, ...], Meta(max_length=MOST_ROWS)]

    def __post_init__(self) -> None:
        """Refuse unknown frames and stacks.

        :raises ValueError: an index is too large
        """
        super().__post_init__()
        self.check_stacks([each for row in self.rows for each in (row.stack, row.owner_stack)])


def parse_locks(content: bytes, label: str) -> LocksCapture:
    """Parse locks.json.

    :param label: bundle and member, for messages
    :raises BundleError: invalid content
    """
    document = decode(content, _Document, label, MOST_HISTOGRAM_VALUES)
    table = document.table()
    return LocksCapture(
        seconds=document.seconds,
        waits=tuple(
            _wait(row, table.stack(row.stack), table.stack(row.owner_stack))
            for row in document.rows
        ),
        lost={what: count for what, count in document.lost.items() if count},
        costs=document.costs,
        notes=tuple(map(str, document.notes)),
    )


def _wait(row: _Row, stack: Stack | None, owner: Stack | None) -> Wait:
    functions = functions_of(stack or ())
    name, named_by = _name(row.lock, functions)
    return Wait(
        lock=Lock(name, named_by, type_of(row.flags)),
        node=row.node,
        functions=functions,
        owner=None if row.owner is None else Owner(row.owner, _releasing_function(owner or ())),
        durations=Durations.of(row),
    )


def functions_of(stack: Stack) -> tuple[str, ...]:
    """Return the functions of a stack without those that implement the lock."""
    names = [frame.function or UNKNOWN for frame in stack]
    start = next((i for i, name in enumerate(names) if not _OF_LOCKS.match(name)), 0)
    return tuple(names[start:])


def _releasing_function(stack: Stack) -> str:
    names = (frame.function or UNKNOWN for frame in stack)
    outside = (name for name in names if not (_OF_LOCKS.match(name) or _OF_WAKING.match(name)))
    return next(outside, UNKNOWN)


def _name(lock: str | None, functions: Sequence[str]) -> tuple[str, NamedBy]:
    if lock in ("mmap_lock", "siglock"):
        return lock, "class"
    if lock is not None:
        return lock, "symbol"
    caller = functions[0] if functions else UNKNOWN
    known = _CLASSES.get(caller)
    return (caller, "caller") if known is None else (known, "class")


def type_of(flags: int) -> LockType:
    """Return the type of a lock from the flags of contention_begin.

    >>> [type_of(flags) for flags in (1, 3, 4, 32, 33, 18)]
    ['spinlock', 'rwlock read', 'rwsem write', 'mutex', 'mutex', 'percpu rwsem read']
    """
    if flags & (MUTEX | RT):
        return "mutex" if flags & MUTEX else "rt mutex"
    kind: LockType
    if flags & SPIN:
        kind = "rwlock read" if flags & READ else "rwlock write"
        return kind if flags & (READ | WRITE) else "spinlock"
    if flags & PERCPU:
        return "percpu rwsem write" if flags & WRITE else "percpu rwsem read"
    kind = "rwsem read" if flags & READ else "rwsem write"
    return kind if flags & (READ | WRITE) else "other"
