# SPDX-License-Identifier: GPL-2.0-or-later
"""Units are read from kernels that say where they are, and what says nothing is told apart."""

import contextlib
import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf_collectors.bpf.percpu_units import (
    Kcore,
    Reading,
    UnitBases,
    describe_units,
    percpu_symbols,
    run_queue_addresses,
)
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.btf import run_queues_offset
from schedperf_collectors.machine.system import System

MakeSystem = Callable[..., System]

TEXT = 0xFFFFFFFF81000000
OFFSETS_AT = TEXT + 0x2000
UNITS = (0xFFFF88807DC00000, 0xFFFF88807DD00000)
SYMBOLS = (
    f"{TEXT:x} T _stext\n{OFFSETS_AT:x} R __per_cpu_offset\n{{start:016x}} A __per_cpu_start\n"
)
LOG = (
    "6,1,0,-;percpu: Embedded 53 pages/cpu s185496 r0 d31592 u1048576\n"
    "6,2,0,-;pcpu-alloc: s185496 r0 d31592 u1048576 alloc=1*2097152\n"
)


def core_file(memory: Mapping[int, bytes], order: str = "<") -> bytes:
    """Return an ELF core file of 64 bits that has these stretches of memory."""
    headers = 64 + 56 * len(memory)
    ident = b"\x7fELF" + bytes([2, 1 if order == "<" else 2, 1]) + bytes(9)
    header = ident + struct.pack(
        f"{order}HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, len(memory), 0, 0, 0
    )
    table, body = b"", b""
    for address, content in memory.items():
        size = len(content)
        at = headers + len(body)
        table += struct.pack(f"{order}IIQQQQQQ", 1, 6, at, address, 0, size, size, 4096)
        body += content
    return header + table + body


def machine(
    make_system: MakeSystem,
    files: Mapping[str, str | bytes] | None = None,
    *,
    start: int = 0,
    order: str = "<",
    name: str = "x86_64",
) -> System:
    """Return a machine of two CPUs whose kcore and kallsyms tell the units."""
    offsets = struct.pack(f"{order}2Q", *((unit - start) % (1 << 64) for unit in UNITS))
    return make_system(
        {
            "proc/kcore": core_file({0xFFFF888000000000: bytes(64), OFFSETS_AT: offsets}, order),
            "proc/kallsyms": SYMBOLS.format(start=start),
            "proc/sys/kernel/osrelease": "6.12.0\n",
            "sys/devices/system/cpu/online": "0-1\n",
            "dev/kmsg": LOG,
            **(files or {}),
        },
        name,
    )


@pytest.fixture
def needs_bpf() -> None:
    """Skip where this user may not load BPF programs."""
    try:
        run_queue_addresses([0])
    except Unavailable as error:
        pytest.skip(f"BPF does not work here: {error.reason}")


@pytest.mark.parametrize("start", [0, TEXT + 0x100000], ids=["before 6.15", "since 6.15"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_units_are_read_from_kcore(make_system: MakeSystem, start: int, order: str) -> None:
    # A kernel without BTF has this one way only.
    reading = UnitBases(machine(make_system, start=start, order=order), {}).read()
    assert reading.method == "kcore"
    assert reading.units == {0: UNITS[0], 1: UNITS[1]}
    assert reading.tried["kcore"] is None
    assert "/sys/kernel/btf/vmlinux" in str(reading.tried["tracepoint"])


@pytest.mark.usefixtures("needs_bpf")
def test_the_tracepoint_finds_units_of_this_kernel() -> None:
    system = System()
    bases = UnitBases(system, {})
    first, second = bases.read(), bases.read()
    assert first.tried["tracepoint"] is None
    assert first.method is not None
    facts = describe_units(system, first, second)
    assert facts["stable"] is True
    units = [int(unit, 16) for unit in json.loads(json.dumps(facts))["units"].values()]
    assert len(set(units)) == len(units) > 0
    assert all(unit % 4096 == 0 and unit >> 63 for unit in units)
    if isinstance(facts["unit_bytes"], int):
        assert all(unit % facts["unit_bytes"] == 0 for unit in units)


@pytest.mark.usefixtures("needs_bpf")
def test_the_tracepoint_leaves_the_process_where_it_was() -> None:
    allowed = os.sched_getaffinity(0)
    open_files = set(Path("/proc/self/fd").iterdir())
    run_queue_addresses(sorted(allowed))
    assert os.sched_getaffinity(0) == allowed
    assert set(Path("/proc/self/fd").iterdir()) == open_files


@pytest.mark.usefixtures("needs_bpf")
def test_ways_that_disagree_are_both_not_believed(make_system: MakeSystem) -> None:
    btf = Path("/sys/kernel/btf/vmlinux").read_bytes()
    system = machine(make_system, {"sys/kernel/btf/vmlinux": btf}, name=os.uname().machine)
    reading = UnitBases(system, {}).read()
    assert (reading.method, reading.units) == (None, {})
    assert "different per-CPU addresses" in str(reading.tried["kcore"])


def test_without_symbols_of_data_a_system_map_gives_the_addresses(
    make_system: MakeSystem, tmp_path: Path
) -> None:
    functions = "".join(f"{{:x}} T function_{number}\n" for number in range(40))
    slide = 0x3000000

    def addresses(base: int) -> str:
        return functions.format(*(base + 16 * number for number in range(40)))

    system = machine(
        make_system, {"proc/kallsyms": f"{TEXT + slide:x} T _stext\n" + addresses(TEXT + slide)}
    )
    (tmp_path / "System.map").write_text(SYMBOLS.format(start=0) + addresses(TEXT))
    options = {"kernel_files": str(tmp_path)}
    assert percpu_symbols(system, options) == (OFFSETS_AT + slide, 0)
    start = TEXT + 0x100000
    (tmp_path / "System.map").write_text(SYMBOLS.format(start=start) + addresses(TEXT))
    assert percpu_symbols(system, options) == (OFFSETS_AT + slide, start + slide)


def test_symbols_of_another_kernel_are_not_believed(
    make_system: MakeSystem, tmp_path: Path
) -> None:
    system = machine(make_system, {"proc/kallsyms": f"{TEXT:x} T _stext\n{TEXT:x} T other\n"})
    (tmp_path / "System.map").write_text(SYMBOLS.format(start=0) + f"{TEXT + 16:x} T mine\n")
    with pytest.raises(Unavailable, match="data symbols"):
        percpu_symbols(system, {"kernel_files": str(tmp_path)})


@pytest.mark.parametrize(
    ("name", "method", "unit_bytes"),
    [("x86_64", "alignment", 1048576), ("riscv32", None, None)],
)
def test_where_no_way_works_only_x86_has_aligned_units(
    make_system: MakeSystem, name: str, method: str | None, unit_bytes: int | None
) -> None:
    system = machine(make_system, {"proc/kcore": b""}, name=name)
    reading = UnitBases(system, {}).read()
    facts = describe_units(system, reading, reading)
    assert facts == {
        "method": method,
        "units": None,
        "stable": None,
        "tried": facts["tried"],
        "missing_cpus": [0, 1],
        "static_bytes": 185496,
        "reserved_bytes": 0,
        "dynamic_bytes": 31592,
        "unit_bytes": unit_bytes,
    }
    assert reading.tried["kcore"] == "/proc/kcore: ends before offset 0x40"


@pytest.mark.parametrize(
    ("unit_and_atom", "unit_bytes"),
    [
        ("u262144 alloc=1*2097152", 262144),
        ("u4194304 alloc=2*2097152", None),
        ("u262144 alloc=64*4096", None),
        ("u0 alloc=1*2097152", None),
    ],
    ids=["eight to an atom", "larger than an atom", "percpu_alloc=page", "no size"],
)
def test_units_are_aligned_only_where_they_divide_an_atom(
    make_system: MakeSystem, unit_and_atom: str, unit_bytes: int | None
) -> None:
    log = f"6,1,0,-;pcpu-alloc: s185496 r0 d31592 {unit_and_atom}\n"
    nothing = Reading(None, {}, {})
    facts = describe_units(machine(make_system, {"dev/kmsg": log}), nothing, nothing)
    assert (facts["static_bytes"], facts["unit_bytes"]) == (185496, unit_bytes)
    assert facts["method"] == ("alignment" if unit_bytes else None)


def test_a_wrapped_kernel_log_leaves_the_sizes_open(make_system: MakeSystem) -> None:
    system = machine(make_system, {"dev/kmsg": "6,9,0,-;eth0: link is up\n"})
    facts = describe_units(system, Reading(None, {}, {}), Reading(None, {}, {}))
    assert facts["method"] is None
    assert facts["static_bytes"] is None


@pytest.mark.parametrize(
    ("after", "stable"),
    [
        (Reading("kcore", {0: UNITS[0], 1: UNITS[1]}, {}), True),
        (Reading("kcore", {0: UNITS[0]}, {}), True),
        (Reading("kcore", {0: UNITS[0], 1: UNITS[0]}, {}), False),
        (Reading(None, {}, {}), None),
    ],
)
def test_units_that_moved_are_said(
    make_system: MakeSystem, after: Reading, *, stable: bool | None
) -> None:
    before = Reading("kcore", {0: UNITS[0], 1: UNITS[1]}, {"kcore": None})
    facts = describe_units(machine(make_system), before, after)
    assert facts["stable"] is stable
    assert facts["units"] == {"0": "0xffff88807dc00000", "1": "0xffff88807dd00000"}


def test_a_cpu_that_was_not_seen_is_named(make_system: MakeSystem) -> None:
    seen = Reading("tracepoint", {1: UNITS[1]}, {"tracepoint": None})
    assert describe_units(machine(make_system), seen, seen)["missing_cpus"] == [0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "ends before offset 0x40"),
        (b"\x7fELF" + bytes(100), "invalid header .expected a 64-bit ELF file"),
        (
            core_file({})[:16] + bytes(48),
            "invalid ELF file .expected a core file with program headers",
        ),
        (core_file({TEXT: b"x" * 8})[:80], "ends before offset"),
        (core_file({TEXT: b"x" * 8})[:-1], "ends before offset"),
        (core_file({}), "is not in any segment"),
        (core_file({TEXT - 4: b"x" * 8}), "is not in any segment"),
    ],
)
def test_a_damaged_core_is_one_reason(make_system: MakeSystem, content: bytes, reason: str) -> None:
    system = make_system({"proc/kcore": content})
    with pytest.raises(Unavailable, match=reason):
        Kcore(system).read(TEXT, 8)


def test_impossible_offsets_of_a_core_are_refused(make_system: MakeSystem) -> None:
    content = bytearray(core_file({TEXT: b"x" * 8}))
    struct.pack_into("<Q", content, 64 + 8, (1 << 64) - 16)
    with pytest.raises(Unavailable, match="/proc/kcore: offset 0xfffffffffffffff0"):
        Kcore(make_system({"proc/kcore": bytes(content)})).read(TEXT, 8)


def types_of(order: str, strings: bytes, types: bytes) -> bytes:
    header = struct.pack(f"{order}HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), 0)
    return header[:-4] + struct.pack(f"{order}I", len(strings)) + types + strings


def run_queue_types(order: str) -> bytes:
    """Return the BTF of a kernel whose runqueues are at 0x1c0 of the per-CPU section."""
    strings = b"\0int\0rq\0cpu\0runqueues\0.data..percpu\0lock\0"

    def name(text: bytes) -> int:
        return strings.index(b"\0" + text + b"\0") + 1

    pack = struct.Struct(f"{order}III").pack
    types = b"".join(
        [
            pack(name(b"int"), 1 << 24, 4) + struct.pack(f"{order}I", 32),
            pack(name(b"rq"), 4 << 24 | 2, 256),
            pack(name(b"lock"), 1, 0),
            pack(name(b"cpu"), 1, 24 * 8),
            pack(name(b"runqueues"), 14 << 24, 2) + struct.pack(f"{order}I", 1),
            pack(name(b".data..percpu"), 15 << 24 | 1, 4096),
            pack(3, 0x1C0, 256),
        ]
    )
    return types_of(order, strings, types)


@pytest.mark.parametrize("order", ["<", ">"])
def test_run_queues_are_found_in_btf(order: str) -> None:
    assert run_queues_offset(run_queue_types(order)) == 0x1C0


@given(data=st.data())
def test_damaged_btf_is_one_reason_at_most(data: st.DataObject) -> None:
    content = bytearray(run_queue_types("<"))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(Unavailable):
        run_queues_offset(bytes(content[:end]))
