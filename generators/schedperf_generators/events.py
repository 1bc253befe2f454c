# SPDX-License-Identifier: GPL-2.0-or-later
"""Define events of a perf.data: ``struct perf_event_attr`` of include/uapi/linux/perf_event.h."""

from dataclasses import dataclass
from enum import IntFlag

from schedperf_generators._binary import mirrored, pack

# PERF_ATTR_SIZE_VER0 to VER8: the size of each version of the attribute.
ATTR_SIZES = (64, 72, 80, 96, 104, 112, 120, 128, 136)


class SampleType(IntFlag):
    """PERF_SAMPLE_*: the fields of a sample."""

    IP = 1 << 0
    TID = 1 << 1
    TIME = 1 << 2
    ADDR = 1 << 3
    READ = 1 << 4
    CALLCHAIN = 1 << 5
    ID = 1 << 6
    CPU = 1 << 7
    PERIOD = 1 << 8
    STREAM_ID = 1 << 9
    RAW = 1 << 10
    BRANCH_STACK = 1 << 11
    REGS_USER = 1 << 12
    STACK_USER = 1 << 13
    WEIGHT = 1 << 14
    DATA_SRC = 1 << 15
    IDENTIFIER = 1 << 16
    TRANSACTION = 1 << 17
    REGS_INTR = 1 << 18
    PHYS_ADDR = 1 << 19
    AUX = 1 << 20
    CGROUP = 1 << 21
    DATA_PAGE_SIZE = 1 << 22
    CODE_PAGE_SIZE = 1 << 23
    WEIGHT_STRUCT = 1 << 24


class ReadFormat(IntFlag):
    """PERF_FORMAT_*: the contents of the READ field of a sample."""

    TOTAL_TIME_ENABLED = 1 << 0
    TOTAL_TIME_RUNNING = 1 << 1
    ID = 1 << 2
    GROUP = 1 << 3
    LOST = 1 << 4


NO_READ = ReadFormat(0)
# Fields that `perf record -a` requests for one event.
PLAIN = SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD
# Fields that `perf c2c record` requests.
MEMORY = (
    PLAIN
    | SampleType.IDENTIFIER
    | SampleType.ADDR
    | SampleType.DATA_SRC
    | SampleType.WEIGHT
    | SampleType.PHYS_ADDR
)

# Bits of perf_event_attr's flags word.
_MMAP, _COMM, _FREQ, _TASK, _PRECISE_IP = 1 << 8, 1 << 9, 1 << 10, 1 << 13, 15
_SAMPLE_ID_ALL, _MMAP2, _COMM_EXEC, _USE_CLOCKID = 1 << 18, 1 << 23, 1 << 24, 1 << 25
_ENABLE_ON_EXEC, _CONTEXT_SWITCH = 1 << 12, 1 << 26
_EXCLUDED_BITS = {"user": 4, "kernel": 5, "hv": 6, "idle": 7, "host": 19, "guest": 20}


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event as requested from the kernel.

    The fields are those of ``struct perf_event_attr``, unless listed here.

    :param name: name that perf prints
    :param rate: frequency in samples per second, or period in events
    :param by_frequency: whether ``rate`` is a frequency
    :param ids: ids of the event in samples
    :param clockid: clock of the times of records; None for perf's own clock
    :param attr_bytes: size of the attribute; one of ``ATTR_SIZES``, or larger for a future kernel
    :param sample_id_all: whether other records end with the id fields of samples
    :param regs_user: mask of the registers in samples
    :param excluded: what is not counted: "user", "kernel", "hv", "idle", "host", "guest"
    :param on_exec: whether it counts from the start of the command, as without ``-a``
    :param switches: whether it writes records of context switches (``--switch-events``)
    """

    name: str = "cycles"
    type: int = 0
    config: int = 0
    rate: int = 4000
    by_frequency: bool = True
    sample_type: SampleType = PLAIN
    read_format: ReadFormat = NO_READ
    ids: tuple[int, ...] = (100,)
    attr_bytes: int = 128
    precise_ip: int = 0
    clockid: int | None = None
    sample_id_all: bool = True
    branch_sample_type: int = 0
    regs_user: int = 0
    stack_user: int = 0
    regs_intr: int = 0
    config1: int = 0
    excluded: frozenset[str] = frozenset()
    on_exec: bool = False
    switches: bool = False

    def attr(self, order: str) -> bytes:
        """Return the ``struct perf_event_attr``, truncated or padded with NULs to ``attr_bytes``.

        :param order: byte order, "<" or ">"
        """
        fixed = pack(
            order, "2I5Q", self.type, self.attr_bytes, self.config, self.rate,
            self.sample_type, self.read_format, self._flags(order),
        )  # fmt: skip
        later = pack(
            order, "2I4QIiQ", 0, 0, self.config1, 0, self.branch_sample_type,
            self.regs_user, self.stack_user, self.clockid or 0, self.regs_intr,
        )  # fmt: skip
        return (fixed + later).ljust(self.attr_bytes, b"\0")[: self.attr_bytes]

    def _flags(self, order: str) -> int:
        flags = _MMAP | _COMM | _TASK | _MMAP2 | _COMM_EXEC
        flags |= _FREQ * self.by_frequency | _SAMPLE_ID_ALL * self.sample_id_all
        flags |= _USE_CLOCKID * (self.clockid is not None)
        flags |= _ENABLE_ON_EXEC * self.on_exec | _CONTEXT_SWITCH * self.switches
        flags |= sum(1 << _EXCLUDED_BITS[level] for level in self.excluded)
        if order == "<":
            return flags | self.precise_ip << _PRECISE_IP
        # A field of several bits moves as a unit and keeps its bit order.
        return mirrored(flags) | self.precise_ip << 62 - _PRECISE_IP
