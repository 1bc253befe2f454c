# SPDX-License-Identifier: GPL-2.0-or-later
"""What is counted, and by what it is told apart."""

import re
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.perf_data import Keep, Recording, read_perf_data
from schedperf.inputs.perf_data.recording import NO_CHAIN, NO_CPU, NO_TASK
from schedperf_generators.events import ATTR_SIZES, PLAIN, Event, ReadFormat, SampleType
from schedperf_generators.installed_perf import run_perf
from schedperf_generators.perf_data import (
    PerfData,
    write_perf_data,
    write_perf_data_folder,
    write_perf_data_pipe,
)
from schedperf_generators.records import (
    KERNEL_PID,
    Ksymbol,
    Lost,
    LostSamples,
    Mmap,
    RawRecord,
    Record,
    Throttle,
)
from schedperf_generators.samples import (
    CONTEXT_KERNEL,
    CONTEXT_USER,
    MODE_KERNEL,
    MODE_USER,
    Sample,
)

RowsOf = Callable[[Recording], dict[Any, tuple[int, int]]]

IP = 0xFFFFFFFF81000010
CHAINS = PLAIN | SampleType.CALLCHAIN
CHAIN = (CONTEXT_KERNEL, IP, CONTEXT_USER, 0x400010)
TWO = (
    Event(sample_type=CHAINS | SampleType.IDENTIFIER, ids=(100, 101)),
    Event(name="instructions:u", config=1, sample_type=CHAINS | SampleType.IDENTIFIER, ids=(102,)),
)
SAMPLES = (
    Sample(ip=IP, cpu=1, period=10, chain=CHAIN),
    Sample(ip=IP, cpu=1, period=20, chain=CHAIN, id=1),
    Sample(ip=IP, cpu=1, period=20, chain=(*CHAIN, 6)),
    Sample(ip=IP, cpu=0, period=3),
    Sample(ip=0x400000, period=4, mode=MODE_USER, event=1),
)
ROWS = {
    ("cycles", 1, IP, CHAIN): (2, 30),
    ("cycles", 1, IP, (*CHAIN, 6)): (1, 20),
    ("cycles", 0, IP, ()): (1, 3),
    ("instructions:u", 0, 0x400000, ()): (1, 4),
}


def read(data: PerfData, *keep: Keep) -> Recording:
    return read_perf_data(write_perf_data(data), "perf.data", keep=frozenset(keep or (Keep.CHAIN,)))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("form", "compressed"),
    [("folder", None), *((form, kind) for form in ("file", "pipe") for kind in (None, 81, 83))],
)
def test_the_same_is_read_in_every_form_and_byte_order(
    tmp_path: Path, rows_of: RowsOf, order: Any, form: str, compressed: Any
) -> None:
    # Records straddle the borders of such small chunks.
    data = PerfData(events=TWO, records=SAMPLES, order=order, compressed=compressed, chunk_bytes=50)
    source: Path | bytes = tmp_path / "perf.data"
    if form == "folder":
        write_perf_data_folder(data, tmp_path / "perf.data", files=3)
    else:
        source = write_perf_data(data) if form == "file" else write_perf_data_pipe(data)
    recording = read_perf_data(source, "perf.data")
    assert rows_of(recording) == ROWS
    assert recording.notes == ()
    assert recording.byte_order == order


def test_a_row_says_mode_and_chain_and_no_task_unless_asked(rows_of: RowsOf) -> None:
    recording = read(PerfData(events=TWO, records=SAMPLES))
    assert recording.samples.mode.tolist() == [MODE_KERNEL] * 3 + [MODE_USER]
    assert set(recording.samples.task.tolist()) == {NO_TASK}
    assert recording.tasks == ()
    without = read(PerfData(events=TWO, records=SAMPLES), Keep.TASK)
    assert set(without.samples.chain.tolist()) == {NO_CHAIN}
    assert len(without.chains) == 0
    assert rows_of(without)["cycles", 1, IP, ()] == (3, 50)


@pytest.mark.parametrize("attr_bytes", [*ATTR_SIZES, 144, 4096])
def test_attributes_of_old_and_future_kernels_are_read(attr_bytes: int) -> None:
    event = Event(sample_type=CHAINS, attr_bytes=attr_bytes)
    recording = read(PerfData(events=(event,), records=SAMPLES[:2]))
    assert recording.samples.count.tolist() == [2]


def test_fields_that_were_not_asked_for_have_defaults() -> None:
    event = Event(sample_type=SampleType.IP, rate=4000)
    recording = read(PerfData(events=(event,), records=SAMPLES[:2]))
    samples = recording.samples
    assert (samples.cpu.tolist(), samples.chain.tolist()) == ([NO_CPU], [NO_CHAIN])
    assert (samples.count.tolist(), samples.period.tolist()) == ([2], [8000])


def test_periods_are_summed_exactly() -> None:
    odd = (1 << 53) + 1
    records: list[Record] = [Sample(ip=IP, period=odd)] * 3
    assert read(PerfData(records=records)).samples.period.tolist() == [3 * odd]


def test_events_whose_samples_are_laid_out_differently_are_told_apart_by_their_ids(
    rows_of: RowsOf,
) -> None:
    plain = SampleType.IP | SampleType.ID | SampleType.CPU | SampleType.PERIOD
    events = (
        Event(name="cycles", sample_type=plain | SampleType.TIME, ids=(7,)),
        Event(name="faults", type=1, config=2, sample_type=plain, ids=(8,)),
    )
    records: list[Record] = [Sample(ip=IP, cpu=1), Sample(ip=IP + 1, event=1), Sample(ip=IP, cpu=1)]
    assert rows_of(read(PerfData(events=events, records=records))) == {
        ("cycles", 1, IP, ()): (2, 2),
        ("faults", 0, IP + 1, ()): (1, 1),
    }


def test_samples_of_no_known_event_are_counted() -> None:
    data = write_perf_data(PerfData(events=TWO, records=SAMPLES))
    stranger = data.replace(struct.pack("<2Q", 101, IP), struct.pack("<2Q", 999, IP))
    recording = read_perf_data(stranger, "perf.data")
    assert recording.losses.unknown_ids == 1
    assert recording.notes == ("1 sample(s) with an unknown event id are left out",)
    assert int(recording.samples.count.sum()) == 4


def test_samples_of_groups_become_those_of_their_members(rows_of: RowsOf) -> None:
    group = ReadFormat.GROUP | ReadFormat.ID | ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.LOST
    events = tuple(
        replace(event, sample_type=event.sample_type | SampleType.READ, read_format=group)
        for event in TWO
    )
    records: list[Record] = [
        Sample(ip=IP, chain=CHAIN, counts=(100, 40)),
        Sample(ip=IP, chain=CHAIN, counts=(250, 40)),
        Sample(ip=IP + 1, counts=(300, 45)),
    ]
    # A member that counted nothing since the last time has no sample, as in perf.
    assert rows_of(read(PerfData(events=events, records=records))) == {
        ("cycles", 0, IP, CHAIN): (2, 250),
        ("instructions:u", 0, IP, CHAIN): (1, 40),
        ("cycles", 0, IP + 1, ()): (1, 50),
        ("instructions:u", 0, IP + 1, ()): (1, 5),
    }


def test_chains_behind_values_without_ids_are_found(rows_of: RowsOf) -> None:
    event = Event(
        sample_type=CHAINS | SampleType.READ, read_format=ReadFormat.GROUP | ReadFormat.LOST
    )
    records: list[Record] = [
        Sample(ip=IP, chain=CHAIN, counts=(1,)),
        Sample(ip=IP, chain=CHAIN, counts=(1,), period=2),
    ]
    assert rows_of(read(PerfData(events=(event,), records=records))) == {
        ("cycles", 0, IP, CHAIN): (2, 3)
    }


def test_losses_and_throttling_are_counted() -> None:
    records: list[Record] = [
        Lost(count=5),
        LostSamples(count=2),
        LostSamples(count=1000, by_filter=True),
        Throttle(),
        Throttle(ends=True),
    ]
    losses = read(PerfData(records=records)).losses
    assert (losses.records, losses.samples, losses.throttled) == (7, 2, 1)


def test_samples_that_perf_counts_once_more_at_the_end_are_not_lost_twice() -> None:
    event = Event(sample_type=PLAIN, read_format=ReadFormat.LOST)
    losses = read(PerfData(events=(event,), records=[Lost(count=5), LostSamples(count=4)])).losses
    assert (losses.records, losses.samples) == (5, 4)


def counted_events(**chosen: Any) -> tuple[Event, ...]:
    asked = PLAIN | SampleType.IDENTIFIER
    names = ("cpu-clock", "dummy:HG")
    return tuple(
        Event(name=name, type=1, config=9 * index, ids=(index + 1,), sample_type=asked, **chosen)
        for index, name in enumerate(names)
    )


def test_losses_are_of_the_event_that_lost_them() -> None:
    # perf record -a --switch-events: the records of the dummy event are no samples.
    records: list[Record] = [
        Lost(count=30_048, event=1),
        LostSamples(count=40),
        LostSamples(count=8),
        LostSamples(count=30_000, event=1),
        Throttle(event=1),
    ]
    events = counted_events(read_format=ReadFormat.LOST)
    losses = read(PerfData(events=events, records=records)).losses
    assert losses.samples_of_event == (48, 30_000)
    assert losses.throttled_of_event == (0, 1)
    assert (losses.records, losses.throttled) == (30_048, 1)


def test_lost_context_switches_of_an_event_are_not_its_samples() -> None:
    # perf record --switch-events of a command: the first event has the records of switches, and
    # the kernel counts those that it lost in the event's lost samples.
    first, second = counted_events(read_format=ReadFormat.LOST)
    events = (replace(first, switches=True), second)
    records: list[Record] = [LostSamples(count=9_666), LostSamples(count=1_037, event=1)]
    losses = read(PerfData(events=events, records=records)).losses
    assert losses.samples_of_event == (None, 1_037)
    assert losses.mixed_of_event == (9_666, 0)
    assert losses.has_switches
    unharmed = read(PerfData(events=events, records=[])).losses
    assert (unharmed.samples_of_event, unharmed.mixed_of_event) == ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("read_format", "records"),
    [
        # The kernel counts all records of a buffer that events share.
        (ReadFormat(0), [Lost(count=5)]),
        # perf was stopped before it read the events' own counts.
        (ReadFormat.LOST, [Lost(count=5)]),
    ],
)
def test_losses_that_are_not_counted_by_event_are_unknown(
    read_format: ReadFormat, records: list[Record]
) -> None:
    losses = read(PerfData(events=counted_events(read_format=read_format), records=records)).losses
    assert losses.samples_of_event == (None, None)
    assert losses.records == 5


@pytest.mark.system
def test_switch_records_that_a_real_perf_lost_are_no_samples(recorded_here_with: Any) -> None:
    path = recorded_here_with("-a", "--switch-events", "-m", "1", "-e", "cpu-clock")
    recording = read_perf_data(path, "perf.data")
    sampled = {recording.events[number].name for number in recording.samples.event}
    assert sampled == {"cpu-clock"}
    reported = run_perf("report", "-i", path, "--stats", "--stdio")
    statistics = r"(?m)^(\S+) stats:\n(?: .*\n)*? +LOST_SAMPLES events: +(\d+)"
    lost = dict(re.findall(statistics, reported))
    losses = recording.losses
    for number, event in enumerate(recording.events):
        own = losses.mixed_of_event if event.has_switches else losses.samples_of_event
        assert own[number] == int(lost.get(event.name, 0))


def test_records_that_are_not_known_are_skipped_and_counted() -> None:
    records: list[Record] = [
        RawRecord(kind=40, body=b"\0" * 16),
        RawRecord(kind=200),
        RawRecord(kind=40),
        RawRecord(kind=68),
        Sample(ip=IP),
    ]
    recording = read(PerfData(records=records))
    assert recording.losses.skipped == {40: 2, 200: 1}
    assert int(recording.samples.count.sum()) == 1


@pytest.mark.parametrize(("kind", "size"), [(66, "<I"), (71, "<Q")])
def test_what_follows_a_record_uncounted_is_skipped(kind: int, size: str) -> None:
    # It looks like samples.
    bait = Sample(ip=1).pack("<", (Event(),)) * 3
    long = RawRecord(kind=kind, body=struct.pack(size, len(bait)), payload=bait)
    records: list[Record] = [Sample(ip=IP), long, Sample(ip=IP), long, long, Sample(ip=IP)]
    recording = read(PerfData(records=records))
    assert recording.samples.count.tolist() == [3]
    assert recording.notes == ()


def test_records_behind_one_of_odd_size_are_read() -> None:
    odd = RawRecord(kind=200, body=b"odd")
    records: list[Record] = [
        Sample(ip=IP, chain=CHAIN),
        odd,
        *[Sample(ip=IP, chain=CHAIN)] * 600,
        odd,
    ]
    records += [Sample(ip=IP, chain=CHAIN)] * 2
    recording = read(PerfData(events=(Event(sample_type=CHAINS),), records=records))
    assert recording.samples.count.tolist() == [603]
    assert recording.chains[0].tolist() == list(CHAIN)
    assert recording.losses.skipped == {200: 2}


def test_type_83_is_no_compressed_record_unless_the_file_says_so() -> None:
    records: list[Record] = [Sample(ip=IP), RawRecord(kind=83, body=b"\xff" * 64), Sample(ip=IP)]
    recording = read(PerfData(records=records))
    assert recording.samples.count.tolist() == [2]
    assert recording.notes == ()


@pytest.mark.parametrize("wrong", [0, 8, 24])
def test_the_size_in_the_header_of_a_compressed_record_is_not_trusted(wrong: int) -> None:
    data = PerfData(events=TWO, records=SAMPLES, compressed=83, chunk_bytes=1 << 20)
    raw = bytearray(write_perf_data(data))
    start = struct.unpack_from("<Q", raw, 40)[0]
    assert struct.unpack_from("<I", raw, start)[0] == 83
    struct.pack_into("<H", raw, start + 6, wrong)
    recording = read_perf_data(bytes(raw), "perf.data")
    assert int(recording.samples.count.sum()) == 5
    assert recording.notes == ()


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_kernels_own_mapping_says_where_the_kernel_was(order: Any) -> None:
    start = 0xFFFF800008010000
    kernel = Mmap(
        pid=KERNEL_PID, start=start, length=1 << 20, page_offset=start + 16,
        path="[kernel.kallsyms]_stext", mode=MODE_KERNEL,
    )  # fmt: skip
    program = Ksymbol(address=0xFFFFFFFFC0001000, size=99, name="bpf_prog_1_x")
    recording = read(PerfData(records=[kernel, program, program], order=order))
    assert recording.kernel is not None
    assert (recording.kernel.symbol, recording.kernel.address) == ("_stext", start + 16)
    assert recording.runtime_symbols == ((0xFFFFFFFFC0001000, 99, "bpf_prog_1_x", 1),)


def test_many_windows_on_one_or_more_threads_give_the_same_rows(
    tmp_path: Path, rows_of: RowsOf
) -> None:
    events = (Event(sample_type=CHAINS),)
    records: list[Record] = [
        Sample(ip=IP + i % 7, cpu=i % 3, period=i, chain=(*CHAIN, *range(i % 5))) for i in range(99)
    ]
    block = b"".join(record.pack("<", events) for record in records)
    times = (40 << 20) // len(block)
    data = write_perf_data(PerfData(events=events, records=records, features={21: None}))
    path = tmp_path / "perf.data"
    start, size = struct.unpack_from("<2Q", data, 40)
    with path.open("wb") as file:
        file.write(data[:48] + struct.pack("<Q", size * times) + data[56:start])
        file.writelines([block] * times)
        file.write(data[start + size :])
    rows = {
        key: (count * times, period * times)
        for key, (count, period) in rows_of(read(PerfData(events=events, records=records))).items()
    }
    one, two = (read_perf_data(path, "perf.data", processes=number) for number in (1, 2))
    assert rows_of(one) == rows_of(two) == rows
    assert one.samples.ip.tolist() == two.samples.ip.tolist()
