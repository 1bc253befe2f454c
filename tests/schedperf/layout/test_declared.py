"""Members, holes and padding of real structs are those that pahole prints."""

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedperf.captures.btf import Btf, Kind, parse_btf
from schedperf.layout.declared import Declared, declared_struct

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
RUNNING = Path("/sys/kernel/btf/vmlinux")
# Smaller ones fit into a line, so where their fields are seldom matters.
LARGER_THAN_BYTES = 64

# What pahole prints: one tab is the struct's own level.
MEMBER = re.compile(r"\t(?!\t)(.*);\s*/\*\s*(\d+)(?::\s*(\d+))?\s+(\d+) \*/")
HOLE = re.compile(r"\t/\* XXX (\d+) (byte|bit)s? hole, try to pack \*/")
NAME = re.compile(r"\(\*+ *(\w+)\)|(\w+)(?:\[[^;]*\])*(?::(\d+))?$|\}()(?:\[[^;]*\])*$")
SUMMARY = re.compile(r"(size|cachelines|padding|bit_padding): (\d+)")

# Name, offset, size, first bit, bits; then what follows: holes in bytes and in bits.
Row = tuple[str, int, int, int | None, int | None, int, int]
Struct = tuple[dict[str, int], list[Row]]


def parse_pahole(text: str) -> Iterator[tuple[str, Struct]]:
    """Yield every struct that pahole printed."""
    name: str | None = None
    rows: list[Row] = []
    summary: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("struct ") and line.endswith("{"):
            name, rows, summary = line.split()[1], [], {}
        elif name is not None and line.startswith("}"):
            yield name, (summary, rows)
            name = None
        elif name is not None:
            read_line(line, rows, summary)


def read_line(line: str, rows: list[Row], summary: dict[str, int]) -> None:
    if found := MEMBER.match(line):
        declaration = re.sub(r"\s*__attribute__\(\(.*?\)\)+", "", found[1])
        named = NAME.search(declaration)
        assert named, line
        bits = int(named[3]) if named[3] else None
        first = int(found[3]) if found[3] else None
        name = "" if declaration.startswith("}") and named[2] is None else named[1] or named[2]
        rows.append((name or "", int(found[2]), int(found[4]), first, bits, 0, 0))
    elif found := HOLE.match(line):
        hole = int(found[1])
        if not rows:
            summary[f"leading {found[2]}s"] = hole
            return
        *rest, last = rows
        byte, bit = (hole, last[6]) if found[2] == "byte" else (last[5], hole)
        rows[:] = [*rest, (*last[:5], byte, bit)]
    elif line.startswith("\t/* ") and "---" not in line:
        summary.update({key: int(value) for key, value in SUMMARY.findall(line)})


def as_pahole(found: Declared, line_bytes: int) -> Struct:
    summary = {
        "size": found.size,
        "cachelines": found.cachelines(line_bytes),
        "padding": found.padding,
        "bit_padding": found.bit_padding,
        "leading bytes": found.leading_hole,
        "leading bits": found.leading_bit_hole,
    }
    rows: list[Row] = [
        (one.name, one.offset, one.size, *(one.bits or (None, None)), one.hole, one.bit_hole)
        for one in found.members
    ]
    return {key: value for key, value in summary.items() if value}, rows


def differences(btf: Btf, text: str, line_bytes: int) -> tuple[int, list[str]]:
    """Return how many structs were compared, and the names of those that differ."""
    printed: dict[str, list[Struct]] = defaultdict(list)
    for name, one in parse_pahole(text):
        printed[name].append(one)
    ours: dict[str, list[Struct]] = defaultdict(list)
    for type_id in btf.of_kind(Kind.STRUCT):
        if btf.name(type_id) in printed:
            ours[btf.name(type_id)].append(as_pahole(declared_struct(btf, type_id), line_bytes))
    wrong = [
        f"{name}: pahole {theirs[0]}, here {ours[name]}"
        for name, structs in printed.items()
        for theirs in structs
        if theirs[0].get("size", 0) > LARGER_THAN_BYTES and theirs not in ours[name]
    ]
    compared = sum(one[0].get("size", 0) > LARGER_THAN_BYTES for s in printed.values() for one in s)
    return compared, wrong


def test_every_struct_of_the_running_kernel_is_as_pahole_prints_it() -> None:
    if shutil.which("pahole") is None or not RUNNING.exists():
        pytest.skip("pahole or the running kernel's BTF is missing; apt-get install dwarves")
    done = subprocess.run(["pahole", str(RUNNING)], capture_output=True, check=True)
    btf = parse_btf(RUNNING.read_bytes(), "vmlinux")
    compared, wrong = differences(btf, done.stdout.decode(), 64)
    assert compared > 1000
    assert wrong == []


@pytest.mark.parametrize(
    ("btf", "golden", "line_bytes", "least"),
    [
        ("sched-types-6.14-x86.btf", "pahole-6.14-x86-c64.txt", 64, 11),
        ("sched-types-6.14-powerpc.btf", "pahole-6.14-powerpc-c128.txt", 128, 12),
        ("sched-types-6.14-s390.btf", "pahole-6.14-s390-c256.txt", 256, 12),
        ("vmlinux-6.18.44-x86_64-vm.btf", "pahole-6.18.44-x86_64-vm-btf-c64.txt", 64, 11),
    ],
)
def test_structs_of_other_machines_are_as_pahole_printed_them(
    btf: str, golden: str, line_bytes: int, least: int
) -> None:
    if not DATA.exists():
        pytest.skip(f"no real BTF: {DATA} does not exist")
    types = parse_btf((DATA / "btf" / btf).read_bytes(), btf)
    text = (DATA / "pahole" / golden).read_text(encoding="utf-8")
    compared, wrong = differences(types, text, line_bytes)
    assert compared >= least
    assert wrong == []
