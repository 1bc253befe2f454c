# SPDX-License-Identifier: GPL-2.0-or-later
"""Leaves, holes and padding of real structs are where pahole has them."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedperf.evidence.layout.maps import count_lines
from schedperf.evidence.layout.model import Unit
from schedperf.evidence.layout.structs import holes, padding, struct_unit
from schedperf.inputs.kernel.btf import Btf, Kind, parse_btf
from tests.shared_data import shared

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


def covered_bits(unit: Unit) -> set[int]:
    """Return the bits from the struct's start that a leaf has."""
    bits: set[int] = set()
    for one in unit.entries:
        assert one.size is not None
        first, count = one.bits or (8 * one.offset, 8 * one.size)
        bits.update(range(first, first + count))
    return bits


def compare_member(unit: Unit, row: Row, covered: set[int]) -> Iterator[str]:
    """Yield in what the leaves of a unit differ from a member and the holes behind it."""
    name, offset, size, first, bits, hole, bit_hole = row
    own = [one for one in unit.entries if one.name == name]
    nested = [one for one in unit.entries if name and re.match(rf"{name}[.]", one.name)]
    if name and bits is not None and first is not None:
        if [one.bits for one in own] != [(8 * offset + first, bits)]:
            yield f"{name}: bits {[one.bits for one in own]}"
    elif own and [(one.offset, one.size) for one in own] != [(offset, size)]:
        yield f"{name}: {[(one.offset, one.size) for one in own]}"
    elif name and size and not own and not nested:
        yield f"{name}: has no leaf"
    if any(
        not offset <= one.offset <= one.offset + (one.size or 0) <= offset + size for one in nested
    ):
        yield f"{name}: a leaf lies outside"
    end = 8 * (offset + size) if bits is None else 8 * offset + (first or 0) + bits
    behind = range(end, end + bit_hole)
    if bits is None or not bit_hole:
        behind = range(8 * (offset + size), 8 * (offset + size + hole))
    if not covered.isdisjoint(behind):
        yield f"{name}: the hole behind it is not empty"


def compare_struct(btf: Btf, name: str, theirs: Struct, line_bytes: int) -> list[str]:
    """Return in what our leaves of a struct differ from what pahole prints of it."""
    summary, rows = theirs
    unit = struct_unit(btf, f"struct {name}")
    covered = covered_bits(unit)
    wrong = [found for row in rows for found in compare_member(unit, row, covered)]
    if unit.size != summary["size"]:
        wrong.append(f"size {unit.size}")
    if count_lines(unit, line_bytes) != summary["cachelines"]:
        wrong.append(f"{count_lines(unit, line_bytes)} lines")
    inside = {at for _, offset, size, *_ in rows for at in range(offset, offset + size)}
    behind = [(offset + size, hole) for _, offset, size, _, _, hole, _ in rows]
    free = {at for end, hole in behind for at in range(end, end + hole)}
    free |= set(range(summary.get("leading bytes", 0)))
    ours = {at for first, count in holes(unit) for at in range(first, first + count)}
    # Bytes without a leaf are a hole of the struct itself, or lie in a member that has one.
    if not ours <= free | inside:
        wrong.append(f"holes at {sorted(ours - free - inside)[:4]}")
    if not free - inside <= ours:
        wrong.append(f"no holes at {sorted(free - inside - ours)[:4]}")
    if summary.get("padding", 0) > (padding(unit) or 0):
        wrong.append(f"padding {padding(unit)}")
    return wrong


def differences(btf: Btf, text: str, line_bytes: int) -> tuple[int, list[str]]:
    """Return how many structs were compared, and what differs."""
    printed = [one for one in parse_pahole(text) if one[1][0].get("size", 0) > LARGER_THAN_BYTES]
    # Several types of one name cannot be told apart by it.
    known = [(name, one) for name, one in printed if len(btf.find(name, Kind.STRUCT)) == 1]
    wrong = [
        f"{name}: {problem}"
        for name, one in known
        for problem in compare_struct(btf, name, one, line_bytes)
    ]
    return len(known), wrong


@pytest.mark.system
def test_every_struct_of_the_running_kernel_is_as_pahole_prints_it() -> None:
    if shutil.which("pahole") is None or not RUNNING.exists():
        pytest.skip("pahole or the running kernel's BTF is missing; apt-get install dwarves")
    done = subprocess.run(["pahole", "-c", "64", str(RUNNING)], capture_output=True, check=True)
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
    types = parse_btf(shared(f"data/btf/{btf}").read_bytes(), btf)
    text = shared(f"data/pahole/{golden}").read_text(encoding="utf-8")
    compared, wrong = differences(types, text, line_bytes)
    assert compared >= least
    assert wrong == []
