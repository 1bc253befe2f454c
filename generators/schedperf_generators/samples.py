# SPDX-License-Identifier: GPL-2.0-or-later
"""Define samples of a perf.data: PERF_RECORD_SAMPLE of include/uapi/linux/perf_event.h."""

from collections.abc import Callable
from dataclasses import dataclass

from schedperf_generators._binary import pack, padded, record_bytes
from schedperf_generators.events import Event, ReadFormat, SampleType

# PERF_RECORD_MISC_*: the mode of the CPU.
MODE_UNKNOWN, MODE_KERNEL, MODE_USER, MODE_HYPERVISOR, MODE_GUEST_KERNEL, MODE_GUEST_USER = range(6)

# Context markers in call chains: PERF_CONTEXT_*.
CONTEXT_KERNEL = (1 << 64) - 128
CONTEXT_USER = (1 << 64) - 512

_WEIGHTS = SampleType.WEIGHT | SampleType.WEIGHT_STRUCT
# PERF_SAMPLE_REGS_ABI_*.
_ABI_NONE, _ABI_64 = 0, 2
_PAGE_BYTES = 4096
_CGROUP = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Weight:
    """PERF_SAMPLE_WEIGHT_STRUCT.

    :param latency: latency of the access, in cycles
    :param instruction: latency of the instruction, in cycles
    """

    latency: int
    instruction: int = 0
    third: int = 0

    def word(self) -> int:
        """Return the three values as one number, which is the same in both byte orders."""
        return self.latency | self.instruction << 32 | self.third << 48


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One sample; its event determines which fields are written.

    :param event: index into the recording's events
    :param mode: ``MODE_*``
    :param tid: thread id; None: the first thread of the process
    :param time: in ns
    :param chain: return addresses with context markers, innermost first
    :param address: data address
    :param physical: data address in physical memory
    :param weight: latency of a memory access in cycles, or the three values of the newer field
    :param id: index of the id of its event
    :param counts: value of each event of the group if the event reads the group; otherwise one
    :param branches: (from, to, flags) of taken branches
    :param user_registers: values of the registers that the event requests; (): no registers
    :param interrupt_registers: the same at the time of the interrupt
    """

    ip: int
    event: int = 0
    mode: int = MODE_KERNEL
    pid: int = 1000
    tid: int | None = None
    time: int = 0
    cpu: int = 0
    period: int = 1
    chain: tuple[int, ...] = ()
    address: int = 0
    physical: int = 0
    data_src: int = 0
    weight: int | Weight = 0
    id: int = 0
    counts: tuple[int, ...] = (0,)
    raw: bytes = b""
    branches: tuple[tuple[int, int, int], ...] = ()
    user_registers: tuple[int, ...] = ()
    interrupt_registers: tuple[int, ...] = ()
    user_stack: bytes = b""
    aux: bytes = b""

    def thread(self) -> int:
        """Return the thread's id."""
        return self.pid if self.tid is None else self.tid

    def pack(self, order: str, events: tuple[Event, ...]) -> bytes:
        """Return the sample with the fields of its event, in the order of the kernel."""
        asked = events[self.event].sample_type
        body = b"".join(write(self, order, events) for bits, write in _FIELDS if asked & bits)
        return record_bytes(order, 9, self.mode, body)


def _id(sample: Sample, order: str, events: tuple[Event, ...]) -> bytes:
    return pack(order, "Q", events[sample.event].ids[sample.id])


def _read(sample: Sample, order: str, events: tuple[Event, ...]) -> bytes:
    event = events[sample.event]
    times = (ReadFormat.TOTAL_TIME_ENABLED, ReadFormat.TOTAL_TIME_RUNNING)
    running = [sample.time for asked in times if event.read_format & asked]
    with_id = bool(event.read_format & ReadFormat.ID)
    with_lost = bool(event.read_format & ReadFormat.LOST)
    values = []
    for index, count in enumerate(sample.counts):
        member = events[index] if event.read_format & ReadFormat.GROUP else event
        values += [count, *[member.ids[sample.id]] * with_id, *[0] * with_lost]
    if event.read_format & ReadFormat.GROUP:
        values = [len(sample.counts), *running, *values]
    else:
        values = [values[0], *running, *values[1:]]
    return pack(order, f"{len(values)}Q", *values)


def _raw(sample: Sample, order: str) -> bytes:
    # The size is chosen so that the field ends at a multiple of 8 bytes.
    raw = sample.raw + b"\0" * (-(4 + len(sample.raw)) % 8)
    return pack(order, "I", len(raw)) + raw


def _branch_stack(sample: Sample, order: str) -> bytes:
    values = [value for branch in sample.branches for value in branch]
    return pack(order, f"{1 + len(values)}Q", len(sample.branches), *values)


def _stack(sample: Sample, order: str) -> bytes:
    size = pack(order, "Q", len(sample.user_stack))
    # The dynamic size follows only if the size is not 0.
    return size + (sample.user_stack + size if sample.user_stack else b"")


def _aux(sample: Sample, order: str) -> bytes:
    aux = padded(sample.aux, 8)
    return pack(order, "Q", len(aux)) + aux


def _weight(sample: Sample, order: str) -> bytes:
    weight = sample.weight
    return pack(order, "Q", weight.word() if isinstance(weight, Weight) else weight)


def _words(order: str, words: tuple[int, ...]) -> bytes:
    return pack(order, f"{1 + len(words)}Q", len(words), *words)


def _registers(order: str, values: tuple[int, ...]) -> bytes:
    return pack(order, f"{1 + len(values)}Q", _ABI_64 if values else _ABI_NONE, *values)


_Write = Callable[[Sample, str, tuple[Event, ...]], bytes]
# In the order in which the kernel writes them.
_FIELDS: tuple[tuple[SampleType, _Write], ...] = (
    (SampleType.IDENTIFIER, _id),
    (SampleType.IP, lambda sample, order, _: pack(order, "Q", sample.ip)),
    (SampleType.TID, lambda sample, order, _: pack(order, "2I", sample.pid, sample.thread())),
    (SampleType.TIME, lambda sample, order, _: pack(order, "Q", sample.time)),
    (SampleType.ADDR, lambda sample, order, _: pack(order, "Q", sample.address)),
    (SampleType.ID, _id),
    (SampleType.STREAM_ID, _id),
    (SampleType.CPU, lambda sample, order, _: pack(order, "2I", sample.cpu, 0)),
    (SampleType.PERIOD, lambda sample, order, _: pack(order, "Q", sample.period)),
    (SampleType.READ, _read),
    (SampleType.CALLCHAIN, lambda sample, order, _: _words(order, sample.chain)),
    (SampleType.RAW, lambda sample, order, _: _raw(sample, order)),
    (SampleType.BRANCH_STACK, lambda sample, order, _: _branch_stack(sample, order)),
    (SampleType.REGS_USER, lambda sample, order, _: _registers(order, sample.user_registers)),
    (SampleType.STACK_USER, lambda sample, order, _: _stack(sample, order)),
    (_WEIGHTS, lambda sample, order, _: _weight(sample, order)),
    (SampleType.DATA_SRC, lambda sample, order, _: pack(order, "Q", sample.data_src)),
    (SampleType.TRANSACTION, lambda _, order, _events: pack(order, "Q", 0)),
    (SampleType.REGS_INTR, lambda sample, order, _: _registers(order, sample.interrupt_registers)),
    (SampleType.PHYS_ADDR, lambda sample, order, _: pack(order, "Q", sample.physical)),
    (SampleType.CGROUP, lambda _, order, _events: pack(order, "Q", _CGROUP)),
    (SampleType.DATA_PAGE_SIZE, lambda _, order, _events: pack(order, "Q", _PAGE_BYTES)),
    (SampleType.CODE_PAGE_SIZE, lambda _, order, _events: pack(order, "Q", _PAGE_BYTES)),
    (SampleType.AUX, lambda sample, order, _: _aux(sample, order)),
)
