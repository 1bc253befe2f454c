# SPDX-License-Identifier: GPL-2.0-or-later
"""What perf noted about the machine."""

import os
import re
import struct
from collections.abc import Mapping
from typing import Any

import pytest

from schedperf.inputs.perf_data import Features, Recording, read_perf_data
from schedperf_generators.events import Event
from schedperf_generators.features import BuildId, Cache, Cpu, Machine
from schedperf_generators.perf_data import PerfData, write_perf_data, write_perf_data_pipe
from schedperf_generators.records import RawRecord
from schedperf_generators.samples import Sample

MACHINE = Machine(
    cpus=(Cpu(core=0), Cpu(core=1, node=1), Cpu(core=0, socket=1, die=2), Cpu(core=1, node=1)),
    with_memory=True,
    caches=(Cache(level=1, line_bytes=64), Cache(level=3, line_bytes=128, type="Unified")),
    build_ids=(
        BuildId(path="/usr/lib/libc.so.6", raw=b"\x12" * 20),
        BuildId(path="[kernel.kallsyms]", raw=b"\xab" * 20, mode=1),
        BuildId(path="/bin/short", raw=b"\x34" * 8),
    ),
    groups=(("{cycles,instructions}", 0, 2),),
    pmus={4: "cpu", 9: "msr"},
    hybrid={"cpu_core": "0-1", "cpu_atom": "2-3"},
    clockid_resolution_ns=1,
    sample_time=(1000, 2000),
)


def read(machine: Machine, order: Any = "<", features: Mapping[int, bytes] = {}) -> Recording:
    data = PerfData(machine=machine, order=order, features=features, records=[Sample(ip=1)])
    return read_perf_data(write_perf_data(data), "perf.data")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("write", [write_perf_data, write_perf_data_pipe])
def test_everything_that_perf_notes_is_read(order: Any, write: Any) -> None:
    data = PerfData(machine=MACHINE, order=order, records=[Sample(ip=1)])
    recording = read_perf_data(write(data), "perf.data")
    found = recording.features
    assert recording.notes == ()
    assert (found.os_release, found.arch) == ("6.14.0", "x86_64")
    assert (found.perf_version, found.cpuid) == ("6.14", "GenuineIntel,6,143,8")
    assert found.node_of_cpu == {0: 0, 1: 1, 2: 0, 3: 1}
    assert found.caches is not None
    assert [(cache.level, cache.line_size, cache.kind) for cache in found.caches] == [
        (1, 64, "Data"),
        (3, 128, "Unified"),
    ]
    assert found.line_bytes == 128
    assert found.build_ids["/usr/lib/libc.so.6"] == "12" * 20
    assert found.build_ids["/bin/short"] == "34" * 8
    assert found.kernel_build_id == "ab" * 20
    assert found.pmus == {4: "cpu", 9: "msr"}


def test_what_perf_did_not_note_is_none() -> None:
    machine = Machine(
        hostname=None, os_release=None, perf_version=None, arch=None, cpu_description=None,
        cpuid=None,
    )  # fmt: skip
    data = PerfData(machine=machine, features={11: None}, records=[Sample(ip=1)])
    recording = read_perf_data(write_perf_data(data), "perf.data")
    assert recording.features == Features()
    assert recording.features.line_bytes is None
    assert recording.features.kernel_build_id is None


@pytest.mark.parametrize(
    ("bit", "name", "section", "problem"),
    [
        (2, "BUILD_ID", struct.pack("<I2H", 0, 1, 100) + bytes(80), "expected 92 bytes"),
        (12, "EVENT_DESC", b"", "expected 4 bytes"),
        (14, "NUMA_TOPOLOGY", b"", "expected 4 bytes"),
        (14, "NUMA_TOPOLOGY", struct.pack("<I", 1 << 31), f"{1 << 31} nodes"),
        (16, "PMU_MAPPINGS", struct.pack("<I", 1 << 31), f"{1 << 31} PMUs"),
        (20, "CACHE", struct.pack("<2I", 1, 1 << 31), f"{1 << 31} caches"),
        (20, "CACHE", struct.pack("<2I", 2, 0), "unknown version 2 of header section CACHE"),
    ],
)
def test_a_damaged_section_costs_a_note_and_nothing_else(
    bit: int, name: str, section: bytes, problem: str
) -> None:
    recording = read(Machine(), features={bit: section})
    [note] = recording.notes
    assert note.startswith(f"header section {name} is damaged (perf.data: ")
    assert problem in note
    assert int(recording.samples.count.sum()) == 1
    assert recording.features.os_release == "6.14.0"


def node(cpus: str, number: int = 0) -> bytes:
    text = cpus.encode().ljust(64, b"\0")
    return struct.pack("<I2QI", number, 0, 0, len(text)) + text


@pytest.mark.parametrize("cpus", ["0-4294967295", "x", "3-1"])
def test_impossible_lists_of_cpus_cost_a_note(cpus: str) -> None:
    recording = read(Machine(), features={14: struct.pack("<I", 1) + node(cpus)})
    assert recording.features.node_of_cpu == {}
    assert "invalid CPU list" in recording.notes[0]


def test_nodes_that_share_cpus_cost_a_note() -> None:
    nodes = struct.pack("<I", 2) + node("0-3") + node("3", 1)
    recording = read(Machine(), features={14: nodes})
    assert recording.notes[0].endswith(
        "a CPU of node 1 also belongs to another node; record it again)"
    )


@pytest.mark.parametrize("options", [(), ("-z",), ("--threads",)])
def test_a_real_recording_knows_its_machine(
    recorded_here_with: Any, options: tuple[str, ...]
) -> None:
    recording = read_perf_data(recorded_here_with(*options), "perf.data")
    found = recording.features
    online = os.sysconf("SC_NPROCESSORS_ONLN")
    assert len(found.node_of_cpu) == online
    assert found.os_release == os.uname().release
    assert recording.kernel is not None
    assert recording.kernel.symbol in {"_text", "_stext"}
    assert re.fullmatch("[0-9a-f]{40}", found.kernel_build_id or "0" * 40)


def test_a_pipe_sends_build_ids_as_records() -> None:
    body = struct.pack("<i24s", -1, b"\xab" * 20) + b"[kernel.kallsyms]".ljust(24, b"\0")
    data = PerfData(records=[RawRecord(kind=67, body=body), Sample(ip=1)])
    features = read_perf_data(write_perf_data_pipe(data), "perf.data").features
    assert features.kernel_build_id == "ab" * 20


def test_names_of_events_come_with_the_pipe() -> None:
    events = (Event(name="cycles:P", ids=(1,)), Event(name="sched:sched_switch", type=2, ids=(2,)))
    data = PerfData(events=events, records=[Sample(ip=1)], features={12: None})
    recording = read_perf_data(write_perf_data_pipe(data), "perf.data")
    assert [event.name for event in recording.events] == ["cycles:P", "sched:sched_switch"]
