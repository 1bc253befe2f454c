# SPDX-License-Identifier: GPL-2.0-or-later
import io
import lzma
import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf_collectors.contract import Function
from schedperf_collectors.machine import elf_symbols as _elf_symbols
from schedperf_collectors.machine.elf_symbols import (
    LONGEST_NAME_BYTES,
    MOST_SECTIONS,
    BadElf,
    gnu_build_id,
    parse_functions,
    read_functions,
)

BUILD_ID = bytes(range(20))
# Where the file's one loaded segment lies in the file and in memory.
OFFSET, ADDRESS, TEXT_BYTES = 0x40, 0x401040, 0x1000
SYMTAB, STRTAB, NOBITS, DYNSYM = 2, 3, 8, 11
LOCAL, GLOBAL, WEAK = 0, 1, 2
FUNC, OBJECT, NOTYPE = 2, 1, 0

Row = tuple[str, int, int, int, int]


def note(order: str, name: bytes = b"GNU\0", descriptor: bytes = BUILD_ID, kind: int = 3) -> bytes:
    padded = descriptor + bytes(-len(descriptor) % 4)
    return struct.pack(f"{order}III", len(name), len(descriptor), kind) + name + padded


def elf(
    tables: dict[int, Sequence[Row]],
    *,
    order: str = "<",
    wide: bool = True,
    debugdata: bytes | None = None,
    sections: int | None = None,
) -> bytes:
    """Make an ELF file; a row is (name, address, size, binding, type)."""
    bodies: list[tuple[int, str, bytes, int]] = [(0, "", b"", 0)]
    for kind, rows in tables.items():
        names, body = b"\0", b"" if not rows else bytes(24 if wide else 16)
        for name, address, size, binding, symbol_type in rows:
            info = binding << 4 | symbol_type
            if wide:
                body += struct.pack(f"{order}IBBHQQ", len(names), info, 0, 1, address, size)
            else:
                body += struct.pack(f"{order}IIIBBH", len(names), address, size, info, 0, 1)
            names += name.encode() + b"\0"
        bodies += [(kind, "", body, len(bodies) + 1), (STRTAB, "", names, 0)]
    if debugdata is not None:
        bodies.append((1, ".gnu_debugdata", debugdata, 0))
    bodies.append((STRTAB, ".shstrtab", b"", 0))
    name_table, name_at = b"\0", {}
    for _, name, _, _ in bodies:
        name_at[name] = len(name_table)
        name_table += name.encode() + b"\0"
    bodies[-1] = (STRTAB, ".shstrtab", name_table, 0)
    header_bytes, segment_bytes = (64, 56) if wide else (52, 32)
    notes = note(order)
    notes_at = header_bytes + 2 * segment_bytes
    content, table = b"", b""
    start = notes_at + len(notes)
    for kind, name, body, link in bodies:
        layout = f"{order}IIQQQQIIQQ" if wide else f"{order}10I"
        row = (name_at[name], kind, 0, 0, start + len(content), len(body), link, 0, 1, 0)
        table += struct.pack(layout, *row)
        content += body
    if wide:
        loaded = struct.pack(
            f"{order}IIQQQQQQ", 1, 5, OFFSET, ADDRESS, ADDRESS, TEXT_BYTES, TEXT_BYTES, 4096
        )
        noted = struct.pack(f"{order}IIQQQQQQ", 4, 4, notes_at, 0, 0, len(notes), len(notes), 4)
    else:
        loaded = struct.pack(
            f"{order}8I", 1, OFFSET, ADDRESS, ADDRESS, TEXT_BYTES, TEXT_BYTES, 5, 4096
        )
        noted = struct.pack(f"{order}8I", 4, notes_at, 0, 0, len(notes), len(notes), 4, 4)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    count = len(bodies) if sections is None else sections
    header = struct.pack(
        f"{order}{'HHIQQQIHHHHHH' if wide else 'HHIIIIIHHHHHH'}",
        3, 62, 1, 0, header_bytes, start + len(content), 0, header_bytes, segment_bytes, 2,
        64 if wide else 40, count, len(bodies) - 1,
    )  # fmt: skip
    return ident + header + loaded + noted + notes + content + table


ROWS: tuple[Row, ...] = (
    ("second", ADDRESS + 0x200, 0x30, GLOBAL, FUNC),
    ("first", ADDRESS + 0x100, 0, LOCAL, FUNC),
    ("variable", ADDRESS + 0x300, 8, GLOBAL, OBJECT),
    ("outside", ADDRESS + TEXT_BYTES, 8, GLOBAL, FUNC),
    ("_start", ADDRESS + 0x400, 0, GLOBAL, NOTYPE),
    ("a_label", ADDRESS + 0x410, 0, LOCAL, NOTYPE),
)
FOUND = [
    Function(OFFSET + 0x100, 0, "first"),
    Function(OFFSET + 0x200, 0x30, "second"),
    Function(OFFSET + 0x400, 0, "_start"),
]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("wide", [True, False])
def test_functions_come_by_their_offset_in_the_file(order: str, *, wide: bool) -> None:
    found = parse_functions(io.BytesIO(elf({SYMTAB: ROWS}, order=order, wide=wide)))

    assert found.functions == FOUND
    assert found.table == ".symtab"
    assert found.build_id == BUILD_ID.hex()


def test_the_dynamic_symbols_are_what_a_stripped_library_has() -> None:
    exported = ROWS[:1]

    assert parse_functions(io.BytesIO(elf({DYNSYM: exported}))).table == ".dynsym"
    both = parse_functions(io.BytesIO(elf({DYNSYM: exported, SYMTAB: ROWS})))
    assert both.table == ".symtab"
    assert both.functions == FOUND


def test_packed_symbols_are_added_to_the_dynamic_ones() -> None:
    packed = lzma.compress(elf({SYMTAB: ROWS[1:]}))

    found = parse_functions(io.BytesIO(elf({DYNSYM: ROWS[:1]}, debugdata=packed)))

    assert found.functions == FOUND
    assert found.table == ".dynsym and .gnu_debugdata"


def test_the_debug_file_of_a_build_id_names_what_was_stripped(tmp_path: Path) -> None:
    name = BUILD_ID.hex()
    (tmp_path / name[:2]).mkdir()
    (tmp_path / name[:2] / f"{name[2:]}.debug").write_bytes(elf({SYMTAB: ROWS}))

    found = parse_functions(io.BytesIO(elf({DYNSYM: ROWS[:1]})), tmp_path)

    assert found.functions == FOUND
    assert found.table == ".symtab of the debug file"


@pytest.mark.parametrize(
    ("aliases", "best"),
    [
        ([("empty", 0, GLOBAL), ("sized", 8, LOCAL)], "sized"),
        ([("weak", 8, WEAK), ("local", 8, LOCAL)], "local"),
        ([("local", 8, LOCAL), ("name", 8, GLOBAL)], "name"),
        ([("__libc_read", 8, GLOBAL), ("read", 8, GLOBAL)], "read"),
        ([("name", 8, GLOBAL), ("longer_name", 8, GLOBAL)], "longer_name"),
        ([("bbbb", 8, GLOBAL), ("aaaa", 8, GLOBAL)], "aaaa"),
    ],
)
def test_of_aliases_the_best_is_kept(aliases: list[tuple[str, int, int]], best: str) -> None:
    for each in (aliases, aliases[::-1]):
        rows = [(name, ADDRESS, size, binding, FUNC) for name, size, binding in each]
        found = parse_functions(io.BytesIO(elf({SYMTAB: rows})))
        assert [one.name for one in found.functions] == [best]


def test_names_are_cut_and_what_does_not_print_is_left_out() -> None:
    rows = [
        ("x" * 2000, ADDRESS, 8, GLOBAL, FUNC),
        ("two\nlines", ADDRESS + 16, 8, GLOBAL, FUNC),
        ("type:.eq.struct { F int }", ADDRESS + 32, 8, GLOBAL, FUNC),
    ]

    found = parse_functions(io.BytesIO(elf({SYMTAB: rows}))).functions

    assert [one.name for one in found] == ["x" * LONGEST_NAME_BYTES, "type:.eq.struct { F int }"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "invalid header (expected an ELF file)"),
        (b"#!/bin/sh\n" * 9, "invalid header (expected an ELF file)"),
        (b"\x7fELF" + bytes(60), "unknown ELF class or byte order"),
        (elf({}), "stripped: no symbol table"),
        (elf({SYMTAB: ROWS[2:4]}), "no functions in the symbol tables"),
        (elf({SYMTAB: ROWS})[:-70], "truncated"),
        (elf({DYNSYM: ROWS}, debugdata=b"this is no xz"), ".gnu_debugdata: input format"),
        (elf({DYNSYM: ROWS}, debugdata=lzma.compress(b"x" * 99)[:-8]), ".gnu_debugdata: truncated"),
        (elf({DYNSYM: ROWS}, debugdata=lzma.compress(b"x" * 99)), "invalid header (expected an"),
        (elf({SYMTAB: ROWS}, sections=60000), "truncated"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_reason(content: bytes, reason: str) -> None:
    with pytest.raises(BadElf) as caught:
        parse_functions(io.BytesIO(content))
    assert str(caught.value).startswith(reason)


def test_a_number_of_sections_beyond_any_file_is_refused() -> None:
    content = bytearray(elf({SYMTAB: ROWS}, sections=0))
    sections_at = struct.unpack_from("<Q", content, 40)[0]
    # A count of 0 means that the first section header's size is the count.
    struct.pack_into("<Q", content, sections_at + 32, 1 << 60)
    with pytest.raises(BadElf, match=f"^{1 << 60} ELF sections .at most {MOST_SECTIONS} "):
        parse_functions(io.BytesIO(bytes(content)))


def test_names_that_share_their_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_elf_symbols, "MOST_NAME_BYTES", 10)
    rows = [("name", ADDRESS + 16 * number, 8, GLOBAL, FUNC) for number in range(3)]
    assert len(parse_functions(io.BytesIO(elf({SYMTAB: rows[:2]}))).functions) == 2
    with pytest.raises(BadElf, match="^function names exceed the limit of 10 bytes$"):
        parse_functions(io.BytesIO(elf({SYMTAB: rows})))


def test_a_function_ends_with_its_segment() -> None:
    rows = [("endless", ADDRESS + 0x100, (1 << 64) - 1, GLOBAL, FUNC)]
    found = parse_functions(io.BytesIO(elf({SYMTAB: rows}))).functions
    assert found == [Function(OFFSET + 0x100, TEXT_BYTES - 0x100, "endless")]


def test_a_segment_beyond_what_a_file_can_have_names_nothing() -> None:
    content = bytearray(elf({SYMTAB: ROWS}))
    # p_offset of the first segment, behind the ELF header.
    struct.pack_into("<Q", content, 64 + 8, (1 << 63) - TEXT_BYTES)
    with pytest.raises(BadElf, match="^no functions in the symbol tables$"):
        parse_functions(io.BytesIO(bytes(content)))


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero"), tmp_path):
        with pytest.raises(BadElf, match="^not a regular file$"):
            read_functions(path)
    for path in (tmp_path / "absent", Path("a\0b"), tmp_path / ("x" * 300)):
        with pytest.raises(BadElf):
            read_functions(path)


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        (note("<"), BUILD_ID.hex()),
        (note("<", b"Xen\0", b"1234", 3) + note("<"), BUILD_ID.hex()),
        (note("<", descriptor=b"abc"), b"abc".hex()),
        (note("<", descriptor=b""), None),
        (note("<")[:-1], None),
        (struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 3), None),
        (b"", None),
    ],
)
def test_a_build_id_is_found_among_notes(notes: bytes, found: str | None) -> None:
    assert gnu_build_id(notes, "<") == found


@pytest.mark.parametrize("before", [b"", b"x", b"twelve bytes"])
def test_notes_may_be_aligned_to_eight_bytes(before: bytes) -> None:
    # As binutils writes .note.gnu.property: offsets are padded, not the sizes of the parts.
    notes = b""
    for kind, descriptor in ((5, before), (3, BUILD_ID)):
        notes += struct.pack("<III", 4, len(descriptor), kind) + b"GNU\0" + descriptor
        notes += bytes(-len(notes) % 8)
    assert gnu_build_id(notes, "<", 8) == BUILD_ID.hex()


@pytest.mark.system
def test_the_functions_of_this_interpreter_are_those_that_nm_lists() -> None:
    path = Path("/usr/bin/python3").resolve()
    listed = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("nm cannot read the system's Python here")
    rows = [line.split() for line in listed.stdout.splitlines()]
    text = {row[2].partition("@")[0] for row in rows if row[1] in "TWi"}

    names = {one.name for one in read_functions(path).functions}

    # One name of each offset remains, so some aliases are missing.
    assert len(names & text) > 0.9 * len(text) > 0


@pytest.mark.property
class TestDamage:
    """Whatever is done to a file, it is read or refused."""

    CONTENT = elf({DYNSYM: ROWS[:1], SYMTAB: ROWS}, debugdata=lzma.compress(elf({SYMTAB: ROWS})))

    def read(self, content: bytes) -> None:
        try:
            offsets = [one.offset for one in parse_functions(io.BytesIO(content)).functions]
        except BadElf:
            return
        assert offsets == sorted(set(offsets))

    @given(end=st.integers(0, len(CONTENT)))
    def test_truncated_files(self, end: int) -> None:
        self.read(self.CONTENT[:end])

    @given(
        changes=st.lists(
            st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), min_size=1, max_size=9
        )
    )
    def test_changed_bytes(self, changes: list[tuple[int, int]]) -> None:
        content = bytearray(self.CONTENT)
        for at, value in changes:
            content[at] = value
        self.read(bytes(content))

    @given(st.binary(max_size=400))
    def test_noise_behind_the_magic(self, noise: bytes) -> None:
        self.read(b"\x7fELF\x02\x01" + noise)
