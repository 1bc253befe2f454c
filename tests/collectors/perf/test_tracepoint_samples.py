# SPDX-License-Identifier: GPL-2.0-or-later
"""Tracepoints come out of a perf.data in the order of time; a damaged one is one clear error."""

import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System
from schedperf_collectors.perf.tracepoint_samples import Samples, Tracepoint, read_tracepoint
from schedperf_collectors.perf_header import HEADER_BYTES, BadPerfData, read_header

FORMAT = """name: sched_migrate_task
ID: 371
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int orig_cpu;\toffset:32;\tsize:4;\tsigned:1;
\tfield:long state;\toffset:40;\tsize:8;\tsigned:1;

print fmt: "comm=%s pid=%d", REC->comm, REC->pid
"""
PLACE = "sys/kernel/debug/tracing/events/sched/sched_migrate_task/format"
# IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW, as `perf record -e TRACEPOINT -a` asks for.
SAMPLE_TYPE = 1 << 16 | 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10
# Fields in another order than that of their offsets.
MOVED = Tracepoint("sched:moved", 7, {"to": (12, "i"), "pid": (4, "i")})


def record(kind: int, payload: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}IHH", kind, 0, 8 + len(payload)) + payload


def sample(time_ns: int, cpu: int, raw: bytes, order: str = "<") -> bytes:
    fixed = struct.pack(f"{order}QQIIQIIQI", 1, 2, 3, 3, time_ns, cpu, 0, 1, len(raw))
    return record(9, fixed + raw + bytes(-(len(raw) + 4) % 8), order)


def moved(time_ns: int, cpu: int, pid: int, to: int, order: str = "<") -> bytes:
    return sample(time_ns, cpu, struct.pack(f"{order}Hxxixxxxi", 7, pid, to), order)


def round_ends() -> bytes:
    return record(68, b"")


def build(records: bytes, order: str = "<", sample_types: Sequence[int] = (SAMPLE_TYPE,)) -> bytes:
    entries = b""
    for sample_type in sample_types:
        attr = struct.pack(f"{order}IIQQQ", 2, 112, 7, 1, sample_type).ljust(112, b"\0")
        entries += attr + bytes(16)
    at = HEADER_BYTES + len(entries)
    magic = b"PERFILE2" if order == "<" else b"2ELIFREP"
    header = magic + struct.pack(
        f"{order}6Q", HEADER_BYTES, 128, HEADER_BYTES, len(entries), at, len(records)
    )
    return header.ljust(HEADER_BYTES, b"\0") + entries + records


def open_samples(data: bytes) -> Samples:
    return Samples(data, read_header(data, "perf.data"), "perf.data", [MOVED])


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_wanted_fields_come_in_the_order_in_which_they_were_asked_for(order: str) -> None:
    [found] = open_samples(build(moved(500, 3, 41, -1, order), order))
    assert found == (500, 3, "sched:moved", (-1, 41))


def test_buffers_of_several_cpus_are_merged_by_time_round_by_round() -> None:
    times = [[10, 30, 20, 40], [50, 35, 60], [55, 70, 90, 80]]
    data = b"".join(
        b"".join(moved(time_ns, 0, 1, 2) for time_ns in each) + round_ends() for each in times
    )
    found = [each.time_ns for each in open_samples(build(data + moved(85, 0, 1, 2)))]
    assert found == sorted(sum(times, [85]))


def test_other_tracepoints_are_skipped_and_losses_counted() -> None:
    other = sample(1, 0, struct.pack("<HH", 8, 0))
    lost = record(2, struct.pack("<QQ", 1, 30)) + record(13, struct.pack("<Q", 12))
    samples = open_samples(build(other + lost + moved(2, 0, 1, 2)))
    assert [each.time_ns for each in samples] == [2]
    assert samples.lost == 42


@pytest.mark.parametrize(
    "broken",
    [
        # No room for time and CPU; raw data shorter than the fields; longer than the record.
        record(9, bytes(16)),
        sample(1, 0, struct.pack("<Hxxi", 7, 1)),
        record(9, struct.pack("<QQIIQIIQIH", 1, 2, 3, 3, 9, 0, 0, 1, 4000, 7)),
    ],
)
def test_a_sample_that_is_too_short_is_refused(broken: bytes) -> None:
    with pytest.raises(BadPerfData, match="truncated sample at offset .*; record the file again"):
        list(open_samples(build(broken)))


@pytest.mark.parametrize(
    "sample_types",
    [
        (SAMPLE_TYPE, SAMPLE_TYPE & ~1),
        (SAMPLE_TYPE & ~(1 << 10),),
        # A call chain has no fixed size.
        (SAMPLE_TYPE | 1 << 5,),
    ],
)
def test_samples_of_another_form_are_refused(sample_types: tuple[int, ...]) -> None:
    with pytest.raises(BadPerfData, match="unsupported sample fields"):
        open_samples(build(b"", sample_types=sample_types))


@pytest.mark.property
@given(at=st.integers(min_value=HEADER_BYTES), value=st.integers(0, 255))
def test_a_byte_that_was_flipped_never_is_more_than_a_bad_file(at: int, value: int) -> None:
    data = bytearray(build(moved(1, 0, 1, 2) + round_ends() + moved(2, 0, 1, 2)))
    data[HEADER_BYTES + at % (len(data) - HEADER_BYTES)] = value
    try:
        found = list(open_samples(bytes(data)))
    except BadPerfData:
        return
    assert len(found) <= 2


def test_a_format_says_where_fields_lie(make_system: Callable[..., System]) -> None:
    system = make_system({PLACE: FORMAT})
    found = read_tracepoint(
        system, "sched:sched_migrate_task", ("orig_cpu", "pid", "state", "comm")
    )
    assert found.number == 371
    assert dict(found.fields) == {
        "orig_cpu": (32, "i"), "pid": (24, "i"), "state": (40, "q"), "comm": (8, "16s"),
    }  # fmt: skip


def test_a_text_comes_as_the_kernel_wrote_it() -> None:
    named = Tracepoint("sched:named", 7, {"comm": (4, "8s"), "pid": (12, "i")})
    data = build(sample(1, 0, struct.pack("<Hxx8si", 7, b"sh\0left!", 41)))
    samples = Samples(data, read_header(data, "perf.data"), "perf.data", [named])
    assert [each.values for each in samples] == [(b"sh\0left!", 41)]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "/sys/kernel/tracing/events/sched/sched_migrate_task/format: no such file"),
        ({PLACE: FORMAT.replace("ID: 371", "ID: x")}, "no integer or text field 'ID'"),
        ({PLACE: FORMAT.replace("orig_cpu", "other")}, "no integer or text field 'orig_cpu'"),
        # A string is no number.
        ({PLACE: FORMAT.replace("offset:32;\tsize:4", "offset:32;\tsize:3")}, "orig_cpu"),
    ],
)  # fmt: skip
def test_a_tracepoint_that_lacks_something_is_unavailable(
    make_system: Callable[..., System], files: dict[str, str], reason: str
) -> None:
    with pytest.raises(Unavailable, match=reason):
        read_tracepoint(make_system(files), "sched:sched_migrate_task", ("orig_cpu",))
