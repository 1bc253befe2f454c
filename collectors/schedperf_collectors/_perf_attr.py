"""``struct perf_event_attr`` of a perf.data: which event it rests on.

perf decides on its own what it records: without a hardware PMU a request for
``cycles`` silently becomes ``cpu-clock``. Only the attribute in the written file tells.
Layout: include/uapi/linux/perf_event.h. All sizes from 64 bytes (VER0) on are read;
what a newer kernel appended is skipped.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

# PERF_ATTR_SIZE_VER0: what every version of struct perf_event_attr has.
ATTR_LEAST_BYTES = 64

# Members of struct perf_event_attr beyond VER0, which later kernels added.
BRANCH_SAMPLE_TYPE_OFFSET = 72
SAMPLE_REGS_USER_OFFSET = 80
CLOCKID_OFFSET = 92
SAMPLE_REGS_INTR_OFFSET = 96

TYPE_HARDWARE = 0
TYPE_SOFTWARE = 1
TYPE_TRACEPOINT = 2
TYPE_BREAKPOINT = 5

# enum perf_hw_id and enum perf_sw_ids, as `perf list` spells them.
NAMES = {
    TYPE_HARDWARE: (
        "cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses",
        "bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
    ),
    TYPE_SOFTWARE: (
        "cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations",
        "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "dummy",
        "bpf-output", "cgroup-switches",
    ),
}  # fmt: skip
# Modifiers behind an event's name, as in `cycles:ppp`; tracepoints have a colon of their own.
_MODIFIERS = re.compile(r":[ukhIGHpPSDWeb]+$")

# Bits of perf_event_attr's flags word.
FLAG_FREQ = 1 << 10
PRECISE_IP_SHIFT = 15
FLAG_SAMPLE_ID_ALL = 1 << 18
FLAG_USE_CLOCKID = 1 << 25


@dataclass(frozen=True)
class Event:
    """One event as the kernel was asked for it.

    :param name: as perf printed it ("cycles:P"), else after type and config
    :param rate: events from one sample to the next, or samples a second
    :param by_frequency: which of the two ``rate`` is
    :param precise_ip: 0 (arbitrary skid) to 3 (no skid)
    :param clockid: clock of the time stamps, as clock_gettime numbers them; None: perf's own
    :param ids: by which samples name this event, one for each time that it was opened: once a
        CPU when recording system-wide
    :param sample_id_all: whether records that are no samples say when and where they were made
    :param branch_sample_type: PERF_SAMPLE_BRANCH_*: what a sample's branches consist of
    :param sample_regs_user: one bit for each register of user space in a sample
    :param sample_regs_intr: the same of the interrupted code
    """

    name: str
    type: int
    config: int
    rate: int
    by_frequency: bool
    sample_type: int
    read_format: int
    precise_ip: int
    clockid: int | None
    ids: tuple[int, ...]
    # What an older kernel's attributes do not have was not asked for.
    sample_id_all: bool = False
    branch_sample_type: int = 0
    sample_regs_user: int = 0
    sample_regs_intr: int = 0

    @property
    def plain_name(self) -> str:
        """The event by what the kernel was asked for, without modifiers: ``cpu-clock``."""
        return _known_name(self.type, self.config) or _MODIFIERS.sub("", self.name)


def read_attr(raw: bytes, order: str, *, name: str = "", ids: tuple[int, ...] = ()) -> Event:
    """Read one struct perf_event_attr.

    :param raw: at least ``ATTR_LEAST_BYTES``
    :param name: empty where perf did not print one
    """
    kind, _, config, rate, sample_type, read_format, flags = struct.unpack_from(f"{order}II5Q", raw)
    precise_ip = flags >> PRECISE_IP_SHIFT & 3
    if order == ">":
        # The flags are C bit-fields, which big-endian machines fill from the other end.
        precise_ip = flags >> 62 - PRECISE_IP_SHIFT & 3
        flags = int(f"{flags:064b}"[::-1], 2)

    def later(member: str, offset: int) -> int:
        if len(raw) < offset + struct.calcsize(member):
            return 0
        return int(struct.unpack_from(order + member, raw, offset)[0])

    has_clockid = flags & FLAG_USE_CLOCKID and len(raw) >= CLOCKID_OFFSET + 4
    return Event(
        name=name or _known_name(kind, config) or f"type {kind} config {config:#x}",
        type=kind,
        config=config,
        rate=rate,
        by_frequency=bool(flags & FLAG_FREQ),
        sample_type=sample_type,
        read_format=read_format,
        precise_ip=precise_ip,
        clockid=later("i", CLOCKID_OFFSET) if has_clockid else None,
        ids=ids,
        sample_id_all=bool(flags & FLAG_SAMPLE_ID_ALL),
        branch_sample_type=later("Q", BRANCH_SAMPLE_TYPE_OFFSET),
        sample_regs_user=later("Q", SAMPLE_REGS_USER_OFFSET),
        sample_regs_intr=later("Q", SAMPLE_REGS_INTR_OFFSET),
    )


def _known_name(kind: int, config: int) -> str | None:
    # Hybrid CPUs keep the number of the PMU in the upper half of a hardware event's config.
    number = config & 0xFFFFFFFF if kind == TYPE_HARDWARE else config
    names = NAMES.get(kind, ())
    return names[number] if number < len(names) else None
