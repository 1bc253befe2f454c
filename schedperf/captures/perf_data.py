"""perf.data, read without perf: samples counted by CPU, address and call chain.

Plain Python over the raw records. Nothing is sorted, no sample becomes an object
and a call chain stays the bytes that it is on disk, so 100 MB take about as long
as ``perf report -g none``. Files of ``perf record -o FILE`` from Linux 2.6.39 on
are read, of both byte orders; what a newer perf adds is skipped and counted::

    recording = read_perf_data(path.read_bytes(), "perf.data")
    recording.events[0].stacks
"""

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schedperf.captures._perf_data_features import (
    COMPRESSED,
    DIR_FORMAT,
    Features,
    read_features,
)
from schedperf.captures._perf_data_maps import KERNEL_PID, Mappings
from schedperf.captures._perf_data_samples import ANY_TASK, NO_CPU, Fields, Layout
from schedperf.errors import InputError
from schedperf_collectors._perf_data import (
    RECORD_HEADER_BYTES,
    RECORD_LOST,
    RECORD_LOST_SAMPLES,
    RECORD_SAMPLE,
    TYPE_SOFTWARE,
    BadPerfData,
    Cursor,
    Event,
    Header,
    lost_records,
    payload_bytes,
    read_header,
    text_until_nul,
)

__all__ = [
    "ANY_TASK",
    "KERNEL_PID",
    "MODE_GUEST_KERNEL",
    "MODE_GUEST_USER",
    "MODE_HYPERVISOR",
    "MODE_KERNEL",
    "MODE_USER",
    "NO_CPU",
    "TYPE_SOFTWARE",
    "Event",
    "EventSamples",
    "Features",
    "KernelText",
    "Mappings",
    "PerfData",
    "Stack",
    "read_perf_data",
]

# PERF_RECORD_MISC_*: where the CPU was.
MODE_KERNEL, MODE_USER, MODE_HYPERVISOR, MODE_GUEST_KERNEL, MODE_GUEST_USER = range(1, 6)
_MODE_MASK = 7

# PERF_RECORD_* of include/uapi/linux/perf_event.h and of tools/lib/perf/include/perf/event.h.
_MMAP, _THROTTLE, _FORK, _MMAP2, _COMPRESSED = 1, 5, 7, 10, 81
_KNOWN = frozenset(range(1, 22)) | frozenset(range(64, 83))

# Offset of the file's name in a record.
_NAME_OFFSETS = {_MMAP: 40, _MMAP2: 72}
_KERNEL_MAP = "[kernel.kallsyms]"

# Mode, CPU, process (ANY_TASK in the kernel, unless it is the idle task's 0), address, call chain.
Stack = tuple[int, int, int, int, bytes]

# Bytes of a sample in front of its call chain, how to take its fields, where to count it.
_Target = tuple[int, Callable[[bytes, int], Fields], dict[Stack, list[int]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class EventSamples:
    """The samples of one event, counted.

    :param stacks: number of samples and sum of their periods, by stack; a call chain is the
        raw 64-bit words of the file, innermost first, with the kernel's context markers
    :param period: of all samples together
    """

    event: Event
    stacks: Mapping[Stack, Sequence[int]]
    samples: int
    period: int


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelText:
    """Where the running kernel was.

    :param symbol: the symbol that perf measured the address of: ``_text`` or ``_stext``
    :param address: its address at run time
    """

    symbol: str
    address: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PerfData:
    """What was read from one perf.data.

    :param byte_order: "<" or ">", of the words in call chains
    :param lost: samples and other records that the kernel could not deliver
    :param throttled: how often the kernel paused an event because it fired too often
    :param skipped: records of types that are not known here, by type
    :param notes: one sentence for each thing that could not be read
    """

    byte_order: str
    events: tuple[EventSamples, ...]
    features: Features
    kernel: KernelText | None
    mappings: Mappings
    lost: int
    throttled: int
    skipped: Mapping[int, int]
    notes: tuple[str, ...]


def read_perf_data(data: bytes, label: str) -> PerfData:
    """Read a whole perf.data file and count its samples.

    A file that ends too early is read up to its end, and says so in ``notes``.

    :param label: names the file in messages
    :raises InputError: not a perf.data file, of a kind that is not read, or damaged
    """
    try:
        header = read_header(data, label)
        _refuse_unread_kinds(header, label)
        reader = _Reader(data, header, label)
        reader.read_records()
    except BadPerfData as error:
        raise InputError(str(error)) from None
    return reader.result()


def _refuse_unread_kinds(header: Header, label: str) -> None:
    if COMPRESSED in header.features:
        raise InputError(f"{label}: the records are compressed; record it without -z")
    if DIR_FORMAT in header.features:
        raise InputError(f"{label}: one file of a perf.data folder; record it without --threads")


class _Reader:
    # What accumulates while the records are read, once, from the first to the last.

    def __init__(self, data: bytes, header: Header, label: str) -> None:
        self.data = data
        self.header = header
        self.label = label
        self.layouts = [Layout(event, header.order) for event in header.events]
        self.stacks: list[dict[Stack, list[int]]] = [{} for _ in header.events]
        self.mappings = Mappings()
        self.kernel: KernelText | None = None
        self.skipped: Counter[int] = Counter()
        self.throttled = 0
        self.lost = 0
        self.unknown_ids = 0
        self.features, notes = read_features(data, header, label)
        self.notes = [*header.notes, *notes]

    def read_records(self) -> None:
        """Walk over all records."""
        data, end = self.data, self.header.end
        offset = self.header.start
        unpack = struct.Struct(f"{self.header.order}IHH").unpack_from
        count_sample = self.sample_counter()
        while offset + RECORD_HEADER_BYTES <= end:
            kind, misc, size = unpack(data, offset)
            stop = offset + size
            if size < RECORD_HEADER_BYTES or stop > end:
                break
            if kind == RECORD_SAMPLE:
                count_sample(offset, misc, stop)
            else:
                stop = self.read_other(kind, misc, offset, stop)
                if stop > end:
                    break
            offset = stop
        if offset < end:
            self.stop_early(offset, end)

    def stop_early(self, offset: int, end: int) -> None:
        """Note where a file is cut off; any other file is damaged."""
        if not self.header.cut:
            raise InputError(
                f"{self.label}: the record at offset {offset:#x} has an impossible size, "
                f"{end - offset} bytes are left; record it again"
            )
        self.notes.append(f"the last {end - offset} bytes are not a whole record")

    def sample_counter(self) -> Callable[[int, int, int], None]:
        """Return the function that counts one sample: nearly all time is spent in it."""
        data, mode_user, any_task = self.data, MODE_USER, ANY_TASK
        find_target = self.target_finder()

        def count_sample(offset: int, misc: int, stop: int) -> None:
            target = find_target(offset, stop)
            if target is None:
                self.unknown_ids += 1
                return
            size, take, stacks = target
            chain = offset + size
            if chain > stop:
                raise self.bad_sample(offset)
            address, pid, cpu, period, length = take(data, offset)
            chain_end = chain + 8 * length
            if chain_end > stop:
                raise self.bad_sample(offset)
            mode = misc & _MODE_MASK
            if pid and mode != mode_user:
                pid = any_task
            stack = (mode, cpu, pid, address, data[chain:chain_end])
            try:
                weight = stacks[stack]
            except KeyError:
                stacks[stack] = [1, period]
            else:
                weight[0] += 1
                weight[1] += period

        return count_sample

    def target_finder(self) -> Callable[[int, int], _Target | None]:
        """Return the function that finds where a sample counts; None for an unknown event."""
        targets = [
            (layout.size, layout.take, stacks)
            for layout, stacks in zip(self.layouts, self.stacks, strict=True)
        ]
        first = targets[0]
        id_offset = self.id_offset()
        if id_offset is None:
            return lambda _offset, _stop: first
        # Like perf: id 0 belongs to the first event.
        by_id = {0: first}
        for target, event in zip(targets, self.header.events, strict=True):
            by_id.update(dict.fromkeys(event.ids, target))
        data, id_end = self.data, id_offset + 8
        unpack_id = struct.Struct(f"{self.header.order}{id_offset}xQ").unpack_from

        def find_target(offset: int, stop: int) -> _Target | None:
            if offset + id_end > stop:
                raise self.bad_sample(offset)
            return by_id.get(unpack_id(data, offset)[0])

        return find_target

    def id_offset(self) -> int | None:
        """Say where samples have their event's id; None where all belong to the first event."""
        offsets = {layout.id_offset for layout in self.layouts}
        if len(self.layouts) == 1:
            return None
        if len(offsets) > 1:
            raise InputError(
                f"{self.label}: the events have their ids in different places; "
                "record it again, with perf of Linux 3.12 or newer"
            )
        return offsets.pop()

    def bad_sample(self, offset: int) -> InputError:
        """Make the error of a sample whose fields do not fit into it."""
        return InputError(
            f"{self.label}: the sample at offset {offset:#x} is too short for its fields; "
            "record it again"
        )

    def read_other(self, kind: int, misc: int, offset: int, stop: int) -> int:
        """Read or skip a record that is no sample, and return where the next one starts."""
        body = Cursor(self.data, self.header.order, offset + RECORD_HEADER_BYTES, stop, self.label)
        if kind in _NAME_OFFSETS:
            self.read_mapping(body, offset + _NAME_OFFSETS[kind])
        elif kind == _FORK:
            child = body.u32()
            self.mappings.fork(parent=body.u32(), child=child)
        elif kind in {RECORD_LOST, RECORD_LOST_SAMPLES}:
            self.lost += lost_records(kind, misc, body)
        elif kind == _THROTTLE:
            self.throttled += 1
        elif kind == _COMPRESSED:
            raise InputError(f"{self.label}: the records are compressed; record it without -z")
        elif kind not in _KNOWN:
            self.skipped[kind] += 1
        return stop + payload_bytes(kind, body)

    def read_mapping(self, body: Cursor, name_start: int) -> None:
        """Note which file is where; the kernel's own text says where the kernel is."""
        pid = body.u32()
        body.skip(4)  # The thread's id.
        start, length, page_offset = body.u64(), body.u64(), body.u64()
        name = text_until_nul(self.data[name_start : body.end])
        if pid == KERNEL_PID and name.startswith(_KERNEL_MAP):
            # Here perf stores an address instead of the offset in a file.
            self.kernel = KernelText(symbol=name.removeprefix(_KERNEL_MAP), address=page_offset)
        else:
            self.mappings.add(pid, start, length, name)

    def result(self) -> PerfData:
        """Return everything that was read."""
        events = []
        for event, layout, stacks in zip(
            self.header.events, self.layouts, self.stacks, strict=True
        ):
            if layout.misses_chain and stacks:
                self.notes.append(
                    f"{event.name}: call chains behind the counts of a group are not read"
                )
            events.append(
                EventSamples(
                    event=event,
                    stacks=stacks,
                    samples=sum(weight[0] for weight in stacks.values()),
                    period=sum(weight[1] for weight in stacks.values()),
                )
            )
        if self.unknown_ids:
            self.notes.append(f"samples that belong to no event of the file: {self.unknown_ids}")
        return PerfData(
            byte_order=self.header.order,
            events=tuple(events),
            features=self.features,
            kernel=self.kernel,
            mappings=self.mappings,
            lost=self.lost,
            throttled=self.throttled,
            skipped=self.skipped,
            notes=tuple(self.notes),
        )
