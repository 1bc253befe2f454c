# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the contents of one perf.data: columns of numbers, and what they refer to.

No sample is an object. :class:`Samples` has one row for each distinct combination of
what the reader was asked to keep apart; its columns are arrays of equal length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from schedperf.perf_data._features import Features
from schedperf_collectors.perf_header import Event

# PERF_RECORD_MISC_*: where the CPU was.
MODE_UNKNOWN, MODE_KERNEL, MODE_USER, MODE_HYPERVISOR, MODE_GUEST_KERNEL, MODE_GUEST_USER = range(6)

# What a row does not say, because the recording or the caller did not ask for it.
NO_CPU = -1
NO_TASK = -1
NO_CHAIN = -1
# Where the kernel and its modules are mapped; every other space is a process's.
KERNEL_SPACE = 0
# An address that lies in no mapped file.
NO_FILE = -1

# From this value on a word of a call chain is not an address but says whose addresses follow:
# PERF_CONTEXT_MAX of include/uapi/linux/perf_event.h.
CONTEXT_MAX = (1 << 64) - 4095
CONTEXT_KERNEL = (1 << 64) - 128
CONTEXT_USER = (1 << 64) - 512

Integers = NDArray[np.int64]
Addresses = NDArray[np.uint64]


class Task(NamedTuple):
    """A process under one name.

    :param comm: the name that it had when it was sampled
    """

    pid: int
    comm: str


class MappedFile(NamedTuple):
    """A file that a process, or the kernel, had mapped.

    :param path: as perf wrote it: ``/usr/lib/libc.so.6``, ``[vdso]``, ``//anon``,
        ``[kernel.kallsyms]_text``, ``/lib/modules/…/nf_conntrack.ko``
    :param build_id: hexadecimal, lower case; None where neither the mapping nor the header has it
    """

    path: str
    build_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """Counted samples; arrays of shape (rows,).

    :param event: index into :attr:`Recording.events`
    :param mode: ``MODE_*``
    :param cpu: or ``NO_CPU``
    :param task: index into :attr:`Recording.tasks`, or ``NO_TASK``
    :param space: of the sampled task, for user addresses; see :attr:`Recording.spaces`
    :param ip: the sampled instruction
    :param chain: index into :attr:`Recording.chains`, or ``NO_CHAIN``
    :param count: how many samples
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


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySamples:
    """Samples with a data address, one row a sample, in the order of the file; shape (rows,).

    :param address: data address that the instruction accessed
    :param physical: its physical address; 0 where it was not asked for
    :param data_src: ``union perf_mem_data_src`` with its bits in the order of little-endian files
    :param weight: latency in cycles or what the PMU counts; 0 where it was not asked for
    :param tid: thread
    :param time: in ns of the recording's clock; 0 where it was not asked for
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Chains:
    """Distinct call chains, innermost address first, with the kernel's context markers.

    :param words: all of them one after the other, in this machine's byte order
    :param starts: chain i is ``words[starts[i]:starts[i + 1]]``; shape (chains + 1,)
    """

    words: Addresses
    starts: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, chain: int) -> Addresses:
        """Return the words of one chain."""
        return self.words[self.starts[chain] : self.starts[chain + 1]]


class Spaces(Protocol):
    """Who had which file mapped where, and when."""

    def find(self, spaces: Integers, addresses: Addresses) -> tuple[Integers, Addresses]:
        """Return, for each pair, an index into ``Recording.files`` and the offset in that file.

        The index is ``NO_FILE`` where nothing is known to be mapped; the offset is then the
        address itself. ``KERNEL_SPACE`` finds the kernel and its modules.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelText:
    """Where the running kernel was.

    :param symbol: the symbol that perf measured the address of: ``_text`` or ``_stext``
    :param address: its address at run time
    """

    symbol: str
    address: int


class RuntimeSymbol(NamedTuple):
    """Code that the kernel made while it was recorded: a BPF program, a trampoline.

    :param kind: PERF_RECORD_KSYMBOL_TYPE_*: 1 BPF, 2 out of line (ftrace, kprobes)
    """

    address: int
    size: int
    name: str
    kind: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Processes:
    """Who started whom while it was recorded, or before, as far as perf was told.

    :param parents: process by process, the one that made it
    :param born: process by process, when it was made, in ns of the recording's clock
    :param executed: by a program's name the processes that executed it meanwhile, and when each did
        so first
    """

    parents: Mapping[int, int]
    born: Mapping[int, int]
    executed: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Losses:
    """What the file does not hold.

    :param records: records of any kind that the kernel could not deliver
    :param samples: samples among them, as far as the file counts them apart
    :param throttled: how often the kernel paused an event because it fired too often
    :param skipped: records of types that are not known here, by type
    :param unknown_ids: samples that belong to no event of the file
    """

    records: int
    samples: int
    throttled: int
    skipped: Mapping[int, int]
    unknown_ids: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """All that was read from one perf.data.

    :param byte_order: "<" or ">", of the machine that recorded
    :param memory: None unless the reader was asked for memory samples
    :param notes: one sentence for each thing that could not be read
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
