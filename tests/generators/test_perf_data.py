# SPDX-License-Identifier: GPL-2.0-or-later
"""The installed perf finds in generated files what the generator says that is in them."""

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import zstandard

from schedperf_generators.events import ATTR_SIZES, PLAIN, Event, ReadFormat, SampleType
from schedperf_generators.features import BuildId, Cache, Cpu, Machine
from schedperf_generators.installed_perf import perf_report, run_perf
from schedperf_generators.kernel import KernelImage
from schedperf_generators.perf_data import (
    PerfData,
    write_perf_data,
    write_perf_data_folder,
    write_perf_data_pipe,
    write_perf_data_to,
)
from schedperf_generators.profiles import USER, profile, profiled_kernel
from schedperf_generators.records import (
    KSYMBOL_OUT_OF_LINE,
    BpfEvent,
    Comm,
    Exit,
    Fork,
    Ksymbol,
    Lost,
    LostSamples,
    Mmap2,
    RawRecord,
    Record,
    Throttle,
)
from schedperf_generators.samples import MODE_USER, Sample
from schedperf_generators.truth import Counted, count_samples

# Event, CPU, task's name, file, symbol.
Key = tuple[str, int | None, str, str, str | None]

KERNEL = profiled_kernel()
HOT: Mapping[tuple[str, int], int] = {
    ("update_load_avg", 0): 90,
    ("update_load_avg", 3): 41,
    ("nf_conntrack_in", 2): 33,
    ("start_secondary", 1): 57,
    (USER, 1): 29,
}
# Attributes that perf before Linux 6.15 refuses; later ones read them.
NEWEST_ATTR_BYTES = 136
# PERF_CONTEXT_MAX: larger words of a chain are no addresses.
CONTEXT_MAX = (1 << 64) - 4095
# Where the kernel put a program and a trampoline.
BPF_AT, TRAMPOLINE_AT = 0xFFFFFFFFC0100000, 0xFFFFFFFFC0200000


def as_file(data: PerfData, folder: Path) -> Path:
    path = folder / "perf.data"
    with path.open("wb") as file:
        write_perf_data_to(data, file)
    return path


def as_pipe(data: PerfData, folder: Path) -> Path:
    path = folder / "pipe.data"
    path.write_bytes(write_perf_data_pipe(data))
    return path


def as_folder(data: PerfData, folder: Path) -> Path:
    write_perf_data_folder(data, folder / "folder.data")
    return folder / "folder.data"


def compressed(data: PerfData, folder: Path) -> Path:
    return as_file(replace(data, compressed=81), folder)


def compressed_in_small_pieces(data: PerfData, folder: Path) -> Path:
    return as_pipe(replace(data, compressed=81, chunk_bytes=1000), folder)


def big_endian(data: PerfData, folder: Path) -> Path:
    return as_file(replace(data, order=">"), folder)


FORMS = (as_file, as_pipe, as_folder, compressed, compressed_in_small_pieces, big_endian)


def place_in_file(address: int) -> int:
    """Return what perf prints of an address: in a process, where it is in its file."""
    maps = [record for record in profile(KERNEL, {}).records if isinstance(record, Mmap2)]
    starts = [one.start for one in maps if one.start <= address < one.start + one.length]
    return address - starts[0] if starts else address


def agree(data: PerfData, path: Path, kernel: KernelImage = KERNEL) -> None:
    """Assert that perf finds the truth; files without symbols count as a whole."""
    kallsyms = path.parent / "kallsyms"
    kallsyms.write_text(kernel.kallsyms(), encoding="ascii")
    expected: dict[Key, Counted] = {
        (data.events[row.event].name, row.cpu, row.comm, row.dso, row.symbol): amount
        for row, amount in count_samples(data, kernel).items()
    }
    found: dict[Key, Counted] = {}
    for row, amount in perf_report(path, "--kallsyms", str(kallsyms)).items():
        symbol = None if row.symbol.startswith("0x") else row.symbol
        key = (row.event, row.cpu, row.comm, row.dso, symbol)
        before = found.get(key, Counted(0, 0))
        found[key] = Counted(before.samples + amount.samples, before.period + amount.period)
    assert found == expected


@pytest.mark.parametrize("write", FORMS, ids=lambda write: write.__name__)
def test_every_form_holds_the_same_samples(
    tmp_path: Path, write: Callable[[PerfData, Path], Path]
) -> None:
    data = profile(KERNEL, HOT)
    agree(data, write(data, tmp_path))


@pytest.mark.parametrize("attr_bytes", [size for size in ATTR_SIZES if size < NEWEST_ATTR_BYTES])
def test_perf_reads_attributes_of_every_size(tmp_path: Path, attr_bytes: int) -> None:
    asked = PLAIN | SampleType.CALLCHAIN
    data = profile(KERNEL, HOT, event=Event(attr_bytes=attr_bytes, sample_type=asked))
    agree(data, as_file(data, tmp_path))


def test_the_slide_moves_the_kernel_but_not_its_modules(tmp_path: Path) -> None:
    moved = profiled_kernel(slide=0x14000000)
    assert moved.address("schedule") - KERNEL.address("schedule") == 0x14000000 - 0x2E00000
    assert moved.address("nf_conntrack_in") == KERNEL.address("nf_conntrack_in")
    data = profile(moved, HOT)
    agree(data, as_file(data, tmp_path), moved)


@pytest.mark.parametrize("which", [SampleType.IDENTIFIER, SampleType.ID])
def test_samples_belong_to_the_event_whose_id_they_have(tmp_path: Path, which: SampleType) -> None:
    asked = PLAIN | which
    events = tuple(
        Event(name=name, config=number, sample_type=asked, ids=(10 * number + 7, 10 * number + 8))
        for number, name in enumerate(("cycles", "instructions", "cache-references"))
    )
    samples = [
        Sample(
            ip=KERNEL.address("schedule", 8 * number), event=number % 3, id=number % 2,
            period=number, time=1000 + number, cpu=number % 4,
        )
        for number in range(60)
    ]  # fmt: skip
    comm = Comm(pid=1000, comm="hackbench", time=1)
    data = PerfData(events=events, records=(*KERNEL.mappings(), comm, *samples))
    agree(data, as_file(data, tmp_path))
    agree(data, as_pipe(data, tmp_path))


def test_group_counts_stand_in_front_of_the_call_chain(tmp_path: Path) -> None:
    group = ReadFormat.GROUP | ReadFormat.ID | ReadFormat.TOTAL_TIME_ENABLED
    asked = PLAIN | SampleType.IDENTIFIER | SampleType.READ | SampleType.CALLCHAIN
    events = (
        Event(name="cycles", sample_type=asked, read_format=group, ids=(1,)),
        Event(name="instructions", config=1, sample_type=asked, read_format=group, ids=(2,)),
    )
    chain = tuple(KERNEL.address(name, 4) for name in ("schedule", "pipe_read"))
    sample = Sample(ip=chain[0], chain=chain, counts=(700, 300), time=9000, period=5)
    data = PerfData(events=events, records=(*KERNEL.mappings(), sample))
    text = run_perf("script", "-i", as_file(data, tmp_path), "-F", "event,period,ip", "--no-inline")
    # perf makes a sample of each member, and its period is what the member counted.
    assert re.findall(r"(\d+) +(\w+): *\n", text) == [("700", "cycles"), ("300", "instructions")]
    assert [int(word, 16) for word in re.findall("ffffffff[0-9a-f]{8}", text)] == [*chain, *chain]


@pytest.mark.parametrize("order", ["<", ">"])
def test_fields_behind_the_call_chain_are_where_perf_looks_for_them(
    tmp_path: Path, order: Literal["<", ">"]
) -> None:
    behind = (
        SampleType.RAW | SampleType.BRANCH_STACK | SampleType.REGS_USER | SampleType.STACK_USER
        | SampleType.WEIGHT | SampleType.DATA_SRC | SampleType.TRANSACTION | SampleType.REGS_INTR
        | SampleType.PHYS_ADDR | SampleType.ADDR | SampleType.CALLCHAIN
    )  # fmt: skip
    event = Event(
        sample_type=PLAIN | behind, branch_sample_type=8, regs_user=3, regs_intr=1, stack_user=64
    )
    sample = Sample(
        ip=KERNEL.address("schedule"), chain=(KERNEL.address("schedule"),), raw=b"raw data",
        branches=((1, 2, 0), (3, 4, 0)), user_registers=(11, 12), interrupt_registers=(13,),
        user_stack=bytes(64), weight=321, address=0xFFFF888012345678, physical=0x12345678,
        data_src=0x1, time=5000,
    )  # fmt: skip
    data = PerfData(events=(event,), records=(*KERNEL.mappings(), sample), order=order)
    text = run_perf(
        "script", "-i", as_file(data, tmp_path), "-G", "-F", "addr,weight,phys_addr,uregs,iregs"
    )
    # Values alone: perf does not turn the mask of interrupted registers round, which names them.
    assert re.findall(r"(?:0x|(?<=\s)|^)[0-9a-f]+(?=\s|$)", text) == [
        "ffff888012345678", "321", "0xd", "0xb", "0xc", "12345678"
    ]  # fmt: skip


def test_call_chains_come_back_address_by_address(tmp_path: Path) -> None:
    data = profile(KERNEL, {("update_load_avg", 0): 3, (USER, 1): 2})
    text = run_perf("script", "-i", as_file(data, tmp_path), "-F", "ip", "--no-inline")
    found = [
        [int(word, 16) for word in block.split()] for block in text.split("\n\n") if block.strip()
    ]
    assert found == [
        [place_in_file(word) for word in record.chain if word < CONTEXT_MAX]
        for record in data.records
        if isinstance(record, Sample)
    ]


def test_children_have_the_names_and_files_of_their_parents_until_they_exec(
    tmp_path: Path,
) -> None:
    records: tuple[Record, ...] = (
        *KERNEL.mappings(),
        Comm(pid=10, comm="bash", execed=True, time=10),
        Mmap2(pid=10, start=0x400000, length=0x1000, path="/usr/bin/bash", time=11),
        Fork(pid=11, parent_pid=10, time=20),
        Sample(ip=0x400100, mode=MODE_USER, pid=11, time=30),
        Comm(pid=11, comm="schbench", execed=True, time=40),
        Mmap2(
            pid=11, start=0x400000, length=0x1000, path="/usr/bin/schbench", time=41,
            build_id=bytes(range(20)),
        ),
        Sample(ip=0x400100, mode=MODE_USER, pid=11, time=50),
        Exit(pid=11, parent_pid=10, time=60),
        Sample(ip=0x400100, mode=MODE_USER, pid=10, time=70),
    )  # fmt: skip
    data = PerfData(records=records)
    named = Counter(
        {(row.comm, row.dso): amount.samples for row, amount in count_samples(data, KERNEL).items()}
    )
    assert named == {("bash", "bash"): 2, ("schbench", "schbench"): 1}
    agree(data, as_file(data, tmp_path))


def test_perf_counts_the_records_of_each_type(tmp_path: Path) -> None:
    data = PerfData(
        records=(
            *KERNEL.mappings(),
            Lost(count=17, time=1),
            LostSamples(count=4, time=2),
            Throttle(time=3),
            Throttle(time=4, ends=True),
            Ksymbol(address=BPF_AT, size=64, name="bpf_prog_1_trace", time=5),
            Ksymbol(
                address=TRAMPOLINE_AT, size=64, name="trampoline", kind=KSYMBOL_OUT_OF_LINE, time=6
            ),
            BpfEvent(program=4, time=7),
            Sample(ip=KERNEL.address("schedule"), time=8),
        )
    )  # fmt: skip
    text = run_perf("report", "-i", as_file(data, tmp_path), "--stats")
    counts = {name: int(count) for name, count in re.findall(r"(\w+) events: +(\d+)", text)}
    wanted = ("LOST", "LOST_SAMPLES", "THROTTLE", "UNTHROTTLE", "KSYMBOL", "BPF_EVENT", "SAMPLE")
    # Of lost samples perf counts the samples, of all else the records.
    assert [counts.get(name) for name in wanted] == [1, 4, 1, 1, 2, 1, 1]


@pytest.mark.parametrize("order", ["<", ">"])
def test_perf_reads_what_was_noted_about_the_machine(
    tmp_path: Path, order: Literal["<", ">"]
) -> None:
    machine = Machine(
        cpus=tuple(Cpu(core=cpu // 2, socket=cpu // 4, node=cpu // 4) for cpu in range(8)),
        caches=(Cache(level=3, line_bytes=128, type="Unified", size="1024K", cpus="0-7"),),
        build_ids=(BuildId(path="/usr/bin/hackbench", raw=bytes(range(20))),),
        groups=(("{cycles,instructions}", 0, 2),),
        pmus={4: "cpu", 1: "software"},
        hybrid={"cpu_core": "0-3", "cpu_atom": "4-7"},
        clockid_resolution_ns=1,
        sample_time=(2_000_000_000, 5_000_000_000),
        with_memory=True,
    )
    asked = PLAIN | SampleType.IDENTIFIER
    events = tuple(
        Event(name=name, config=config, ids=(config,), sample_type=asked)
        for config, name in enumerate(("cycles", "instructions"))
    )
    data = PerfData(events=events, machine=machine, order=order, records=KERNEL.mappings())
    path = as_file(data, tmp_path)
    text = run_perf("report", "-i", path, "--header-only", "-I")
    for line in (
        "hostname : bench01",
        "nrcpus avail : 8",
        "total memory : 8388608 kB",
        "sibling sockets : 0-3",
        "sibling threads : 6-7",
        "CPU 5: Core ID 2, Die ID 0, Socket ID 1",
        "node1 meminfo  : total = 4194304 kB, free = 4194304 kB",
        "node1 cpu list : 4-7",
        "L3 Unified            1024K [0-7]",
        "group: {cycles,instructions}",
        "clockid frequency: 1000 MHz",
        "sample duration :   3000.000 ms",
        "cpu_atom cpu list : 4-7",
        "memory nodes (nr 2, block size 0x8000000)",
        "pmu mappings: cpu = 4, software = 1",
    ):
        assert line in text
    assert run_perf("buildid-list", "-i", path).split() == [
        "000102030405060708090a0b0c0d0e0f10111213",
        "/usr/bin/hackbench",
    ]


def test_build_ids_of_a_pipe_are_records(tmp_path: Path) -> None:
    path = as_pipe(profile(KERNEL, {(USER, 1): 1}), tmp_path)
    assert run_perf("buildid-list", "-i", path).split() == [
        "28292a2b2c2d2e2f303132333435363738393a3b",
        "/opt/bench/libmessages.so.1",
    ]


@pytest.mark.parametrize("kind", [81, 83])
def test_compressed_records_are_one_stream_that_ignores_record_borders(
    kind: Literal[81, 83],
) -> None:
    plain = PerfData(records=[Sample(ip=number * 4099, time=number) for number in range(999)])
    raw = b"".join(plain.record_pieces())
    pieces = list(replace(plain, compressed=kind, chunk_bytes=1001).record_pieces())
    assert len(pieces) == -(-len(raw) // 1001)
    packed = [piece[8:] for piece in pieces]
    if kind == 83:
        packed = [body[8 : 8 + int.from_bytes(body[:8], "little")] for body in packed]
    assert zstandard.ZstdDecompressor().decompressobj().decompress(b"".join(packed)) == raw


def test_the_size_of_a_large_compressed_record_wraps_as_perf_lets_it() -> None:
    # Noise does not become smaller.
    noise = random.Random(1).randbytes(150_000)  # noqa: S311
    records = [RawRecord(kind=200, body=noise[at : at + 50_000]) for at in (0, 50_000, 100_000)]
    data = PerfData(records=records, compressed=83, chunk_bytes=1 << 20)
    (piece,) = data.record_pieces()
    assert len(piece) > 1 << 16
    assert int.from_bytes(piece[6:8], "little") == len(piece) % (1 << 16)


def test_attributes_of_the_newest_kernel_are_longer_by_config3() -> None:
    older, newer = (
        write_perf_data(PerfData(events=(Event(attr_bytes=size),)))
        for size in (128, NEWEST_ATTR_BYTES)
    )
    assert [int.from_bytes(raw[16:24], "little") for raw in (older, newer)] == [144, 152]


def test_a_record_may_lie_about_its_size() -> None:
    raw = RawRecord(kind=9, body=bytes(16), size=0).pack("<", (Event(),))
    assert raw == bytes([9]) + bytes(23)
