# SPDX-License-Identifier: GPL-2.0-or-later
"""Any damage gives a result or one InputError, soon and in little memory."""

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.perf_data import Keep, read_perf_data
from schedperf.model.errors import InputError
from schedperf_generators.events import MEMORY, Event, ReadFormat, SampleType
from schedperf_generators.features import BuildId, Cache, Cpu, Machine
from schedperf_generators.perf_data import PerfData, write_perf_data, write_perf_data_pipe
from schedperf_generators.records import (
    Comm,
    Exit,
    Fork,
    Ksymbol,
    Lost,
    Mmap,
    Mmap2,
    RawRecord,
    Record,
)
from schedperf_generators.samples import CONTEXT_USER, Sample

pytestmark = pytest.mark.property

IP = 0xFFFFFFFF81000010
# Of a CPU's time, what one damaged file of some kB may take; most take milliseconds.
MOST_SECONDS = 5
WORDS = (0, 1, 7, 8, 9, 66, 71, 81, 83, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)

MACHINE = Machine(
    cpus=(Cpu(core=0), Cpu(core=1, node=1)),
    with_memory=True,
    caches=(Cache(level=1, line_bytes=64),),
    build_ids=(BuildId(path="[kernel.kallsyms]", raw=b"\x12" * 20),),
    groups=(("{a,b}", 0, 2),),
    pmus={4: "cpu"},
    hybrid={"cpu_core": "0"},
)
EVERYTHING = (
    MEMORY
    | SampleType.CALLCHAIN
    | SampleType.READ
    | SampleType.RAW
    | SampleType.BRANCH_STACK
    | SampleType.REGS_USER
    | SampleType.STACK_USER
)


def perf_data(compressed: Any, order: Any = "<") -> PerfData:
    events = tuple(
        Event(
            sample_type=EVERYTHING, regs_user=3, stack_user=16, ids=(100 + i,),
            read_format=ReadFormat.GROUP | ReadFormat.ID,
        )
        for i in range(2)
    )  # fmt: skip
    records: list[Record] = [
        Mmap(pid=7, start=0x1000, length=0x1000, path="/bin/sh"),
        Mmap2(pid=7, time=3, start=0x1800, length=0x1000, path="/bin/x", build_id=b"\1" * 20),
        Fork(pid=8, parent_pid=7, time=5),
        Comm(pid=8, comm="hackbench", time=6, execed=True),
        Exit(pid=7, parent_pid=1, time=30),
        Ksymbol(address=IP, size=9, name="bpf"),
        Lost(count=5),
        RawRecord(kind=200, body=b"odd"),
        RawRecord(kind=71, body=(16).to_bytes(8, "little" if order == "<" else "big") + bytes(40),
                  payload=bytes(16)),
        *(
            Sample(
                ip=IP + i, cpu=i % 2, pid=7 + i % 2, time=i, event=i % 2, counts=(i, 3 * i),
                chain=(IP, CONTEXT_USER, 0x1900, *range(i % 4)), raw=b"r" * i,
                branches=((1, 2, 3),) * (i % 3), user_registers=(1, 2) * (i % 2),
                user_stack=b"s" * (16 * (i % 2)), address=64 * i, data_src=i,
            )
            for i in range(20)
        ),
    ]  # fmt: skip
    return PerfData(
        events=events, records=records, machine=MACHINE, order=order, compressed=compressed,
        chunk_bytes=700,
    )  # fmt: skip


@pytest.fixture(scope="module")
def small_files() -> list[bytes]:
    """Return one file of each form, order and compression."""
    return [
        write(perf_data(compressed, order))
        for write in (write_perf_data, write_perf_data_pipe)
        for compressed in (None, 81, 83)
        for order in ("<", ">")
    ]


def read_or_refuse(data: bytes) -> None:
    started = time.process_time()
    try:
        recording = read_perf_data(data, "perf.data", keep=frozenset(Keep))
    except InputError:
        return
    finally:
        assert time.process_time() - started < MOST_SECONDS
    samples = recording.samples
    # A sample has at most a few members, and compressed ones come from more bytes than this.
    assert int(samples.count.sum()) <= 256 * len(data)
    files, _ = recording.spaces.find(samples.space, samples.ip)
    assert len(files) == len(samples)
    assert recording.chains.starts[-1] == len(recording.chains.words)


@given(data=st.data())
def test_truncation(small_files: list[bytes], data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(small_files))
    read_or_refuse(file[: data.draw(st.integers(0, len(file)))])


def test_truncation_at_every_border_of_records(small_files: list[bytes]) -> None:
    for file in small_files[:1]:
        for end in range(0, len(file), 8):
            read_or_refuse(file[:end])


@given(data=st.data())
def test_flipped_bits(small_files: list[bytes], data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(small_files)))
    for _ in range(data.draw(st.integers(1, 4))):
        bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
    read_or_refuse(bytes(damaged))


@given(data=st.data())
def test_overwritten_words(small_files: list[bytes], data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(small_files)))
    offset = data.draw(st.integers(0, len(damaged) // 4 - 1)) * 4
    damaged[offset : offset + 4] = data.draw(st.sampled_from(WORDS)).to_bytes(4, "little")
    read_or_refuse(bytes(damaged))


def damage(chance: random.Random, file: bytes) -> bytes:
    """Flip bits, overwrite words, repeat or drop a piece, cut."""
    damaged = bytearray(file)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(damaged))
        action = chance.randrange(4)
        if action == 0:
            damaged[at] ^= 1 << chance.randrange(8)
        elif action == 1:
            damaged[at : at + 4] = chance.choice(WORDS).to_bytes(4, "little")
        elif action == 2:
            damaged[at:at] = damaged[at : at + 8 * chance.randrange(1, 40)]
        else:
            del damaged[at : at + 8 * chance.randrange(1, 10)]
        damaged = damaged or bytearray(b"\0")
    if chance.random() < 0.2:
        del damaged[chance.randrange(len(damaged)) :]
    return bytes(damaged)


@pytest.mark.parametrize("tries", [500, pytest.param(5000, marks=pytest.mark.repeats)])
def test_damage_of_all_kinds(small_files: list[bytes], tries: int) -> None:
    chance = random.Random(20261121)  # noqa: S311 # Nothing is secret.
    for _ in range(tries):
        read_or_refuse(damage(chance, chance.choice(small_files)))


def test_damaged_files_of_other_machines(foreign_files: dict[str, bytes]) -> None:
    chance = random.Random(5)  # noqa: S311 # Nothing is secret.
    for data in foreign_files.values():
        read_or_refuse(data[: chance.randrange(len(data))])
        read_or_refuse(damage(chance, data))
