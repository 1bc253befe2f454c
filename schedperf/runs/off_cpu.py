# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse where tasks left their CPU: ``preemption.json`` and ``blocking.json``.

The collector's module ``schedperf_collectors.bpf.off_cpu`` describes both documents. A user
function is the innermost one outside of the C library: that is the program's own code.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import Count
from schedperf.runs.stacks import (
    MOST_ROWS,
    Costs,
    Durations,
    DurationsRow,
    Index,
    Stack,
    StacksDocument,
)

# Numbers of system calls are below 1024 on all architectures, with an offset on a few.
MOST_CALLS = 1 << 20
# A comm has 15 bytes.
LONGEST_COMM = 64

# The C library and the dynamic linker, which are built without frame pointers.
_LIBC = re.compile(r"(libc|libpthread|ld|ld-linux[^/]*|ld-musl[^/]*|libm|librt)([-.]|$)|\[vdso\]")
# A chain that ends in the C library with so few frames lacks its callers.
CUT_FRAMES = 2
UNKNOWN = "unknown function"
UNKNOWN_FILE = "unknown file"
# Files without symbols that a note names.
MOST_FILES = 5


class Pause(Struct, frozen=True, kw_only=True):
    """Pauses of tasks that left their CPU in one way.

    :param kernel: kernel stack; None if it was not stored
    :param user: user stack; None if it was not stored
    :param call: number of the system call; None for interrupts and faults
    :param who: the task that ran instead or that woke it; None if unknown
    :param state: letter of the state in which the task left its CPU: "S", "D" …; None if unknown
    :param runnable_ns: part of the durations after the wakeup
    :param slice_left_ns: what was left of the slices; None if unknown
    """

    kernel: Stack | None
    user: Stack | None
    call: int | None
    who: str | None
    state: str | None = None
    durations: Durations
    runnable_ns: int
    slice_left_ns: int | None


class OffCpu(Struct, frozen=True, kw_only=True):
    """The pauses of one run.

    :param least_ns: shorter pauses are not among them
    :param shorter: number of shorter pauses
    :param shorter_ns: their sum
    :param lost: events that were lost, by kind
    :param costs: the calls of the programs
    """

    seconds: float
    pauses: tuple[Pause, ...]
    least_ns: int
    shorter: int
    shorter_ns: int
    lost: Mapping[str, int]
    costs: Costs
    notes: tuple[str, ...]


class Shorter(Struct, frozen=True, kw_only=True):
    """Pauses below the shortest duration that is recorded by stack."""

    count: Count
    ns: Count


class PauseRow(DurationsRow, frozen=True, kw_only=True):
    """A row of the documents."""

    kernel: Index | None
    user: Index | None
    call: Annotated[int, Meta(ge=0, le=MOST_CALLS)] | None
    who: Annotated[str, Meta(max_length=LONGEST_COMM)] | None
    runnable_ns: Count
    slice_left_ns: Count | None
    state: Annotated[str, Meta(pattern="^[A-Z]$")] | None = None


class OffCpuDocument(StacksDocument, frozen=True, kw_only=True):
    """The part that both documents have."""

    rows: Annotated[tuple[PauseRow, ...], Meta(max_length=MOST_ROWS)]
    least_ns: Count
    shorter: Shorter

    def __post_init__(self) -> None:
        """Refuse unknown frames and stacks.

        :raises ValueError: an index is too large
        """
        super().__post_init__()
        self.check_stacks([index for row in self.rows for index in (row.kernel, row.user)])

    def content(self) -> OffCpu:
        """Return the pauses with their stacks."""
        table = self.table()
        return OffCpu(
            seconds=self.seconds,
            pauses=tuple(
                Pause(
                    kernel=table.stack(row.kernel),
                    user=table.stack(row.user),
                    call=row.call,
                    who=row.who,
                    state=row.state,
                    durations=Durations.of(row),
                    runnable_ns=min(row.runnable_ns, row.ns),
                    slice_left_ns=row.slice_left_ns,
                )
                for row in self.rows
            ),
            least_ns=self.least_ns,
            shorter=self.shorter.count,
            shorter_ns=self.shorter.ns,
            lost={what: count for what, count in self.lost.items() if count},
            costs=self.costs,
            notes=tuple(map(str, self.notes)),
        )


class UserFunction(Struct, frozen=True):
    """A user function that a pause belongs to.

    :param function: its name; ``UNKNOWN`` if the file has no symbol for it
    :param program: file without its directory; "" if unknown
    """

    function: str
    program: str


def user_function(stack: Stack | None) -> UserFunction | None:
    """Return the innermost function outside of the C library, else the innermost one.

    None without a stack.
    """
    if not stack:
        return None
    own = next((frame for frame in stack if frame.file and not _is_libc(frame.program)), None)
    frame = stack[0] if own is None else own
    return UserFunction(frame.function or UNKNOWN, frame.program)


def _is_libc(program: str) -> bool:
    return bool(_LIBC.match(program))


def is_cut(stack: Stack | None) -> bool:
    """Return whether a user stack ends in the C library, which has no frame pointers."""
    return (
        bool(stack)
        and len(stack or ()) <= CUT_FRAMES
        and all(_is_libc(frame.program) for frame in stack or ())
    )


def describe_losses(runs: "list[OffCpu]") -> Iterator[str]:
    """Yield what the user stacks of some runs lack, and the events that were lost."""
    pauses = [pause for run in runs for pause in run.pauses]
    total = sum(pause.durations.count for pause in pauses)
    cut = sum(pause.durations.count for pause in pauses if is_cut(pause.user))
    unresolved = Counter[str]()
    for pause in pauses:
        found = user_function(pause.user)
        if found is not None and found.function == UNKNOWN:
            unresolved[found.program or UNKNOWN_FILE] += pause.durations.count
    if cut:
        yield (
            f"user stacks that end in the C library after {CUT_FRAMES} frames: {cut} of {total} "
            "(it has no frame pointers)"
        )
    if unresolved:
        yield (
            f"user stacks whose function is unknown: {unresolved.total()} of {total} "
            f"({_describe_files(unresolved)})"
        )
    lost: dict[str, int] = {}
    for run in runs:
        for what, count in run.lost.items():
            lost[what] = lost.get(what, 0) + count
    for what, count in lost.items():
        yield f"events lost: {count} ({what})"
    shorter = sum(run.shorter for run in runs)
    if shorter:
        least_us = max(run.least_ns for run in runs) / 1000
        yield f"pauses shorter than {least_us:g} us, without stacks: {shorter}"


def _describe_files(counts: "Counter[str]") -> str:
    without = {name: count for name, count in counts.most_common() if name != UNKNOWN_FILE}
    listed = [f"{name} {count}" for name, count in without.items()][:MOST_FILES]
    more = len(without) - len(listed)
    parts = []
    if listed:
        rest = f" and {more} more files" if more else ""
        parts.append(f"without symbols: {', '.join(listed)}{rest}")
    if counts[UNKNOWN_FILE]:
        parts.append(
            f"generated code without a map in /tmp, or a file that was not found: "
            f"{counts[UNKNOWN_FILE]}"
        )
    return "; ".join(parts)
