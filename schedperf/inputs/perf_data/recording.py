# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the contents of one perf.data: columns of numbers, and the tables that they index.

:class:`Samples` has one row for each distinct combination of event, CPU, mode, address space and
address, and of task and call chain if the caller of ``read_perf_data`` keeps these; its columns are
arrays of equal length.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.perf_data._features import Features
from schedperf_collectors.perf_header import Event

# PERF_RECORD_MISC_*: the mode of the CPU.
MODE_UNKNOWN, MODE_KERNEL, MODE_USER, MODE_HYPERVISOR, MODE_GUEST_KERNEL, MODE_GUEST_USER = range(6)

# Not recorded, or not requested by the caller.
NO_CPU = -1
NO_TASK = -1
NO_CHAIN = -1
# The address space of the kernel and its modules; all other spaces are those of processes.
KERNEL_SPACE = 0
# The address is outside of all mapped files.
NO_FILE = -1

# Name of the mapping of the kernel's text; the name of its reference symbol follows.
KERNEL_MAP = "[kernel.kallsyms]"

# Words of a call chain from this value on are context markers, not addresses: PERF_CONTEXT_MAX of
# include/uapi/linux/perf_event.h.
CONTEXT_MAX = (1 << 64) - 4095
CONTEXT_KERNEL = (1 << 64) - 128
CONTEXT_USER = (1 << 64) - 512

Integers = NDArray[np.int64]
Addresses = NDArray[np.uint64]


# The process of a task is unknown, or the parent of a process is not recorded.
NO_PROCESS = -1


class Task(NamedTuple):
    """A process and its name.

    :param comm: its name at the time of the sample
    :param process: index into :attr:`Recording.processes`, or ``NO_PROCESS``
    """

    pid: int
    comm: str
    process: int = NO_PROCESS


def generated_code_of(pid: int) -> str:
    """Return the file in which a process lists the functions that it generates (JIT)."""
    return f"/tmp/perf-{pid}.map"  # noqa: S108 # the name that perf and JIT compilers use


class MappedFile(NamedTuple):
    """A file that a process or the kernel mapped.

    :param path: as perf wrote it: ``/usr/lib/libc.so.6``, ``[vdso]``, ``[kernel.kallsyms]_text``,
        ``/lib/modules/…/nf_conntrack.ko``; ``/tmp/perf-PID.map`` for generated code of a process,
        whose offsets are addresses
    :param build_id: hexadecimal, lower case; None if not recorded
    """

    path: str
    build_id: str | None


class Samples(Struct, frozen=True, kw_only=True):
    """Counted samples; arrays of shape (rows,).

    :param event: index into :attr:`Recording.events`
    :param mode: ``MODE_*``
    :param cpu: number of the CPU, or ``NO_CPU``
    :param task: index into :attr:`Recording.tasks`, or ``NO_TASK``
    :param space: address space of the task, for user addresses; see :attr:`Recording.spaces`
    :param ip: address of the sampled instruction; 0 if not recorded
    :param chain: index into :attr:`Recording.chains`, or ``NO_CHAIN``
    :param count: number of samples
    :param period: sum of their periods
    """

    event: Integers
    mode: Integers
    cpu: Integers
    task: Integers
    space: Integers
    ip: Addresses
    chain: Integers
    count: Integers
    period: Integers

    def __len__(self) -> int:
        return len(self.count)


class MemorySamples(Struct, frozen=True, kw_only=True):
    """Samples with a data address, one row per sample, in file order; shape (rows,).

    Columns that are not listed here are those of :class:`Samples`.

    :param tid: thread id; 0 if not recorded
    :param address: data address that the instruction accessed
    :param physical: its physical address; 0 if not recorded
    :param data_src: ``union perf_mem_data_src`` with the bit order of little-endian files
    :param weight: latency in cycles, or the PMU's weight; 0 if not recorded
    :param period: period of the sample
    :param time: in ns of the recording's clock; 0 if not recorded
    """

    event: Integers
    mode: Integers
    cpu: Integers
    task: Integers
    tid: Integers
    space: Integers
    ip: Addresses
    address: Addresses
    physical: Addresses
    data_src: Addresses
    weight: Integers
    period: Integers
    time: Addresses

    def __len__(self) -> int:
        return len(self.ip)


class Chains(Struct, frozen=True, kw_only=True):
    """Distinct call chains, innermost address first, with the kernel's context markers.

    :param words: all chains, concatenated, in this machine's byte order
    :param starts: chain i is ``words[starts[i]:starts[i + 1]]``; shape (chains + 1,)
    """

    words: Addresses
    starts: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, chain: int) -> Addresses:
        """Return the addresses and markers of one chain."""
        return self.words[self.starts[chain] : self.starts[chain + 1]]


class Spaces(Protocol):
    """Address spaces: which file was mapped at which address, and when."""

    def find(self, spaces: Integers, addresses: Addresses) -> tuple[Integers, Addresses]:
        """Return, for each pair, an index into ``Recording.files`` and the offset in that file.

        The index is ``NO_FILE`` if no mapping is known; the offset is then the address itself.
        ``KERNEL_SPACE`` is the space of the kernel and its modules.
        """


class KernelText(Struct, frozen=True, kw_only=True):
    """Address of the recorded kernel.

    :param symbol: its reference symbol: ``_text`` or ``_stext``
    :param address: its address at run time
    """

    symbol: str
    address: int


class RuntimeSymbol(NamedTuple):
    """Code that the kernel generated before or during the recording: a BPF program, a trampoline.

    :param kind: PERF_RECORD_KSYMBOL_TYPE_*: 1 BPF, 2 out of line (ftrace, kprobes)
    """

    address: int
    size: int
    name: str
    kind: int


class Processes(Struct, frozen=True, kw_only=True):
    """Processes and their ancestors; arrays of shape (processes,).

    A process begins with a fork, or with the execution of a program by an earlier process, which
    has the same pid. A pid that is used again is another process.

    :param pid: process id
    :param parent: index of the process that forked it, or that executed its program; or
        ``NO_PROCESS``
    :param parent_pid: pid of ``parent``, also if that process is not recorded; or ``NO_PROCESS``
    :param program: name of the program if it was executed during the recording; otherwise None
    """

    pid: Integers
    parent: Integers
    parent_pid: Integers
    program: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.pid)

    def descend_from(self, roots: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the processes that are roots or have a root among their ancestors.

        :param roots: shape (processes,)
        """
        found, parent = roots.copy(), self.parent.copy()
        # Each step doubles the distance to the ancestor, so a circle of parents ends, too.
        for _ in range(len(self).bit_length() + 1):
            has_parent = parent != NO_PROCESS
            if not has_parent.any():
                break
            found[has_parent] |= found[parent[has_parent]]
            parent = np.where(has_parent, parent[parent], NO_PROCESS)
        return found


class Losses(Struct, frozen=True, kw_only=True):
    """Records and samples that are missing from the file, or could not be read.

    :param records: lost records of all types
    :param samples: lost samples if the file counts them separately, else 0
    :param samples_of_event: lost samples of each event; None if the file does not count them by
        event, or counts them together with context-switch records (``mixed_of_event``)
    :param mixed_of_event: lost samples and context-switch records of each event, if the kernel
        counts them together, else 0
    :param has_switches: whether lost records may be context-switch records
    :param throttled: number of times that the kernel throttled an event
    :param throttled_of_event: number of times that the kernel throttled each event
    :param skipped: number of records of unknown types, by type
    :param unknown_ids: number of samples and of group members with an unknown event id
    """

    records: int
    samples: int
    samples_of_event: tuple[int | None, ...]
    mixed_of_event: tuple[int, ...]
    has_switches: bool
    throttled: int
    throttled_of_event: tuple[int, ...]
    skipped: Mapping[int, int]
    unknown_ids: int


class Recording(Struct, frozen=True, kw_only=True):
    """The contents of one perf.data.

    :param byte_order: "<" or ">", of the recording machine
    :param memory: None if memory samples were not requested
    :param files: the files that :attr:`spaces` and :attr:`kernel_build_id` refer to
    :param kernel: address of the kernel's text; None if not recorded
    :param notes: one note for each part that could not be read
    """

    byte_order: str
    events: tuple[Event, ...]
    samples: Samples
    memory: MemorySamples | None
    chains: Chains
    tasks: Sequence[Task]
    processes: Processes
    files: Sequence[MappedFile]
    spaces: Spaces
    features: Features
    kernel: KernelText | None
    runtime_symbols: tuple[RuntimeSymbol, ...]
    losses: Losses
    notes: tuple[str, ...]

    @property
    def kernel_build_id(self) -> str | None:
        """The build id of the recorded kernel; None if not recorded."""
        mapped = (file.build_id for file in self.files if file.path.startswith(KERNEL_MAP))
        return self.features.kernel_build_id or next(filter(None, mapped), None)
