# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the functions of an ELF file by file offset, which is how perf.data locates user code.

Files are untrusted: no more than the limits below is read, and an inconsistent file raises
:class:`BadElf` with a one-line reason.
"""

from __future__ import annotations

import io
import lzma
import os
import stat
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Callable, NamedTuple, TypeVar

from schedperf_collectors.contract import Function
from schedperf_collectors.machine.elf_plt import PLT_SECTIONS, PltEntry, plt_entries

# A program of a gigabyte with one section per function has some 10,000; a debug file no more.
MOST_SECTIONS = 100_000
MOST_SEGMENTS = 10_000
# .symtab and .strtab of the largest browsers have 40 and 110 MB.
MOST_TABLE_BYTES = 256 << 20
MOST_FUNCTIONS = 1_000_000
# All names of one table. Symbols may share a name's bytes, so the table's size does not bound them.
MOST_NAME_BYTES = 128 << 20
# .gnu_debugdata of the largest programs becomes a few megabytes.
MOST_UNPACKED_BYTES = 64 << 20
MOST_NOTE_BYTES = 64 << 10
# Names of C++ templates can be longer; their start distinguishes them.
LONGEST_NAME_BYTES = 512

# Where distributions put their packages of debug information, by the first byte of a build id.
DEBUG_FILES = Path("/usr/lib/debug/.build-id")

MAGIC = b"\x7fELF"
NT_GNU_BUILD_ID = 3
_PT_LOAD, _PT_NOTE = 1, 4
_SHT_SYMTAB, _SHT_RELA, _SHT_NOBITS, _SHT_DYNSYM = 2, 4, 8, 11
_STT_NOTYPE, _STT_FUNC, _STT_GNU_IFUNC = 0, 2, 10
_STB_LOCAL, _STB_GLOBAL, _STB_WEAK = 0, 1, 2
_SHN_UNDEF, _SHN_ABS = 0, 0xFFF1
# Enough for 60,000 functions of other libraries, and for a million relocations; browsers have more.
MOST_PLT_BYTES = 1 << 20
MOST_RELOCATION_BYTES = 24_000_000
# Offsets in a file are loff_t, which is signed.
_OFFSET_LIMIT = 1 << 63
# If 16 bits are too few, e_phnum has this value, and the first section header has the number.
_PN_XNUM = 0xFFFF
_DEBUGDATA = b".gnu_debugdata"


_Content = TypeVar("_Content")


class BadElf(Exception):
    """Not a readable ELF file; the message is one line."""


@dataclass(frozen=True)
class ElfFunctions:
    """The functions of one file.

    :param build_id: hexadecimal; None if the file has none
    :param table: source of the symbols: ``.symtab``, ``.symtab of the debug file``,
        ``.dynsym``, or ``.dynsym and .gnu_debugdata``
    :param functions: sorted by offset, with the symbol that perf would choose of several at one
        offset; entries of the PLT are included as ``NAME@plt``
    """

    build_id: str | None
    table: str
    functions: Sequence[Function]


class _Shape(NamedTuple):
    # Layouts of one class of ELF, without the byte order.
    header: str
    section: str
    segment: str
    symbol: str


# e_phoff, e_shoff, flags, ehsize, phentsize, phnum, shentsize, shnum, shstrndx after entry.
_SHAPES = {
    1: _Shape("HHIIIIIHHHHHH", "10I", "8I", "IIIBBH"),
    2: _Shape("HHIQQQIHHHHHH", "IIQQQQIIQQ", "IIQQQQQQ", "IBBHQQ"),
}


class _Section(NamedTuple):
    name: int
    kind: int
    address: int
    offset: int
    size: int
    link: int
    entry_bytes: int


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    file_bytes: int
    align: int


# Address, size, binding and name.
_Symbol = tuple[int, int, int, str]


def read_functions(path: Path) -> ElfFunctions:
    """Read the functions of a file, or of its debug file in ``DEBUG_FILES`` if it has no .symtab.

    :raises BadElf: it cannot be opened, is not an ELF file, is damaged, has no functions, or
        exceeds a limit
    """
    return _read_with(lambda stream: parse_functions(stream, DEBUG_FILES), path)


def read_build_id(path: Path) -> str | None:
    """Return the build id of a file, hexadecimal; None if it has none.

    :raises BadElf: it cannot be opened, is not an ELF file, is damaged, or exceeds a limit
    """
    return _read_with(lambda stream: _Elf(stream).build_id(), path)


def _read_with(parse: Callable[[BinaryIO], _Content], path: Path) -> _Content:
    try:
        # Opening a device can have side effects, and opening a fifo blocks. The check may race with
        # a replacement of the file, which does no harm beyond that.
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadElf("not a regular file")
        with open(path, "rb", opener=_open_without_waiting) as stream:
            return parse(stream)
    except (OSError, ValueError) as error:
        # ValueError: a name with a zero byte in it.
        raise BadElf((getattr(error, "strerror", None) or str(error)).lower()) from error


def parse_functions(stream: BinaryIO, debug_files: Path | None = None) -> ElfFunctions:
    """Read the functions of an ELF file that is open, or in memory.

    :param debug_files: directory of separate debug files by build id; None to use none
    :raises BadElf: it is not an ELF file, is damaged, has no functions, or exceeds a limit
    :raises OSError: it, or its debug file, cannot be read
    """
    elf = _Elf(stream)
    build_id = elf.build_id()
    table, symbols = _symbols_of(elf, _debug_file(debug_files, build_id))
    functions = _best_functions(_place(symbols, elf.segments))
    if not functions:
        raise BadElf("no functions in the symbol tables")
    return ElfFunctions(build_id, table, functions)


def gnu_build_id(notes: bytes, order: str, align: int = 4) -> str | None:
    """Return the build id in ELF notes, hexadecimal; None if there is none.

    :param order: "<" or ">"
    :param align: alignment of descriptors and notes, in bytes
    """
    at = 0
    while at + 12 <= len(notes):
        # Elf_Nhdr: sizes of name and descriptor, type.
        name_bytes, descriptor_bytes, kind = struct.unpack_from(f"{order}III", notes, at)
        name_at = at + 12
        descriptor_at = _align_up(name_at + name_bytes, align)
        end = descriptor_at + descriptor_bytes
        name = notes[name_at : name_at + name_bytes]
        if kind == NT_GNU_BUILD_ID and name == b"GNU\0" and end <= len(notes):
            return notes[descriptor_at:end].hex() or None
        at = _align_up(end, align)
    return None


def _align_up(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


class _Elf:
    # The headers of one file, and bounded reads of its sections.

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._bytes = stream.seek(0, io.SEEK_END)
        start = self.read(0, min(64, self._bytes))
        if start[:4] != MAGIC or len(start) < 52:  # noqa: PLR2004 # sizeof(Elf32_Ehdr)
            raise BadElf("invalid header (expected an ELF file)")
        if start[4] not in _SHAPES or start[5] not in (1, 2):
            raise BadElf("unknown ELF class or byte order")
        self.order = "<" if start[5] == 1 else ">"
        self._shape = _SHAPES[start[4]]
        header = struct.Struct(self.order + self._shape.header)
        if len(start) < 16 + header.size:
            raise BadElf("truncated ELF header")
        fields = header.unpack_from(start, 16)
        _, self.machine, _, _, segments_at, sections_at, _, _, _, segments, _, sections, names = (
            fields
        )
        first = self._rows(sections_at, 1, self._shape.section) if sections_at else []
        if first:
            # Numbers that need more than 16 bits are in the first section header.
            sections = sections or first[0][5]
            names = first[0][6] if names == 0xFFFF else names  # noqa: PLR2004 # SHN_XINDEX
            segments = first[0][7] if segments == _PN_XNUM else segments
        self._names = names
        self.segments = list(self._read_segments(segments_at, segments))
        self.sections = list(self._read_sections(sections_at, sections)) if first else []

    def read(self, offset: int, size: int, most: int = MOST_TABLE_BYTES) -> bytes:
        if size > most:
            raise BadElf(f"ELF table of {size} bytes exceeds the limit of {most} bytes")
        if offset + size > self._bytes:
            raise BadElf(
                f"truncated: {self._bytes} bytes present (headers require {offset + size})"
            )
        self._stream.seek(offset)
        content = self._stream.read(size)
        if len(content) != size:
            raise BadElf("the file was truncated while it was read; record again")
        return content

    def build_id(self) -> str | None:
        for segment in self.segments:
            if segment.kind == _PT_NOTE and segment.file_bytes <= MOST_NOTE_BYTES:
                notes = self.read(segment.offset, segment.file_bytes)
                build_id = gnu_build_id(notes, self.order, 8 if segment.align == 8 else 4)  # noqa: PLR2004
                if build_id:
                    return build_id
        return None

    def section_of_kind(self, kind: int) -> _Section | None:
        return next(
            (section for section in self.sections if section.kind == kind and section.size), None
        )

    def section_named(self, name: bytes) -> _Section | None:
        # One with contents.
        if not self._names < len(self.sections):
            return None
        names = self.read(self.sections[self._names].offset, self.sections[self._names].size)
        for section in self.sections:
            end = section.name + len(name) + 1
            if names[section.name : end] == name + b"\0" and section.kind != _SHT_NOBITS:
                return section
        return None

    def debugdata(self) -> bytes | None:
        # "Mini debug information": an xz-compressed ELF file with stripped symbols.
        section = self.section_named(_DEBUGDATA)
        return None if section is None else self.read(section.offset, section.size)

    def plt_symbols(self) -> Iterator[_Symbol]:
        """Yield the entries of the procedure linkage table, as ``read@plt``."""
        entries: dict[int, list[PltEntry]] = defaultdict(list)
        for name in PLT_SECTIONS:
            section = self.section_named(name)
            if section is not None and section.size <= MOST_PLT_BYTES:
                code = self.read(section.offset, section.size)
                for entry in plt_entries(self.machine, code, section.address, section.entry_bytes):
                    entries[entry.slot].append(entry)
        for slot, function in self._named_slots(entries):
            for entry in entries[slot]:
                yield entry.address, entry.size, _STB_GLOBAL, f"{function}@plt"

    def _named_slots(self, slots: Container[int]) -> Iterator[tuple[int, str]]:
        # The functions whose addresses the dynamic linker writes to the global offset table.
        table = self.section_of_kind(_SHT_DYNSYM)
        if self._shape is not _SHAPES[2] or table is None or table.link >= len(self.sections):
            return
        layout = struct.Struct(self.order + self._shape.symbol)
        relocation = struct.Struct(f"{self.order}QQq")
        symbols = self.read(table.offset, table.size)
        names = self.read(self.sections[table.link].offset, self.sections[table.link].size)
        for section in self.sections:
            if section.kind != _SHT_RELA or section.size > MOST_RELOCATION_BYTES:
                continue
            content = self.read(section.offset, section.size - section.size % relocation.size)
            for slot, info, addend in relocation.iter_unpack(content):
                if slot in slots:
                    at = (info >> 32) * layout.size
                    if not at:
                        # An IFUNC, which selects another function by CPU type, has no symbol.
                        yield slot, f"*ABS*+{addend:#x}"
                    elif at + layout.size <= len(symbols):
                        yield slot, _name_at(names, layout.unpack_from(symbols, at)[0])

    def symbols(self, table: _Section) -> list[_Symbol]:
        """Return the functions of a symbol table.

        :raises BadElf: the table is damaged, or exceeds a limit
        """
        if table.link >= len(self.sections):
            raise BadElf("the symbol table has no string table")
        layout = struct.Struct(self.order + self._shape.symbol)
        content = self.read(table.offset, table.size - table.size % layout.size)
        names = self.read(self.sections[table.link].offset, self.sections[table.link].size)
        rows = layout.iter_unpack(content)
        # A table has up to a million symbols, so each step does as little as possible.
        if self._shape is _SHAPES[2]:
            code = [
                (address, size, info, name)
                for name, info, _, section, address, size in rows
                if info in _CODE and section not in _NO_SECTION
            ]
        else:
            code = [
                (address, size, info, name)
                for name, address, size, info, _, section in rows
                if info in _CODE and section not in _NO_SECTION
            ]
        return _take(
            (address, size, info >> 4, text)
            for address, size, info, name in code
            if (text := _name_at(names, name))
        )

    def _read_segments(self, offset: int, count: int) -> Iterator[_Segment]:
        if count > MOST_SEGMENTS:
            raise BadElf(f"{count} ELF segments (at most {MOST_SEGMENTS} are supported)")
        for row in self._rows(offset, count, self._shape.segment):
            if self._shape is _SHAPES[2]:
                kind, _, start, address, _, file_bytes, _, align = row
            else:
                kind, start, address, _, file_bytes, _, _, align = row
            yield _Segment(kind, start, address, file_bytes, align)

    def _read_sections(self, offset: int, count: int) -> Iterator[_Section]:
        if count > MOST_SECTIONS:
            raise BadElf(f"{count} ELF sections (at most {MOST_SECTIONS} are supported)")
        for row in self._rows(offset, count, self._shape.section):
            name, kind, _, address, start, size, link, _, _, entry_bytes = row
            yield _Section(name, kind, address, start, size, link, entry_bytes)

    def _rows(self, offset: int, count: int, layout: str) -> list[tuple[int, ...]]:
        unpack = struct.Struct(self.order + layout)
        return list(unpack.iter_unpack(self.read(offset, count * unpack.size)))


def _symbols_of(elf: _Elf, debug_file: Path | None) -> tuple[str, list[_Symbol]]:
    table, symbols = _listed_symbols(elf, debug_file)
    return table, [*symbols, *_take(elf.plt_symbols())]


def _listed_symbols(elf: _Elf, debug_file: Path | None) -> tuple[str, list[_Symbol]]:
    # .symtab contains all of .dynsym. perf reads the same tables in the same order.
    table = elf.section_of_kind(_SHT_SYMTAB)
    if table is not None:
        return ".symtab", elf.symbols(table)
    if debug_file is not None and debug_file.is_file():
        with debug_file.open("rb") as stream:
            stripped = _Elf(stream)
            table = stripped.section_of_kind(_SHT_SYMTAB)
            if table is not None:
                return ".symtab of the debug file", stripped.symbols(table)
    exported = elf.section_of_kind(_SHT_DYNSYM)
    symbols = elf.symbols(exported) if exported else []
    packed = elf.debugdata()
    if packed is not None:
        inner = _Elf(io.BytesIO(_unpack(packed)))
        table = inner.section_of_kind(_SHT_SYMTAB)
        if table is not None:
            return ".dynsym and .gnu_debugdata", symbols + inner.symbols(table)
    if exported is None:
        raise BadElf("stripped: no symbol table")
    return ".dynsym", symbols


def _debug_file(folder: Path | None, build_id: str | None) -> Path | None:
    if folder is None or build_id is None:
        return None
    return folder / build_id[:2] / f"{build_id[2:]}.debug"


def _is_code(info: int) -> bool:
    kind, binding = info & 15, info >> 4
    # Assembly without a type, e.g. _start; local labels are inside of functions.
    is_label = kind == _STT_NOTYPE and binding != _STB_LOCAL
    return is_label or kind in (_STT_FUNC, _STT_GNU_IFUNC)


# Symbol tables have millions of symbols, so the kinds of functions are looked up.
_CODE = frozenset(filter(_is_code, range(256)))
_NO_SECTION = (_SHN_UNDEF, _SHN_ABS)


def _take(symbols: Iterable[_Symbol]) -> list[_Symbol]:
    taken = []
    name_bytes = 0
    for symbol in symbols:
        taken.append(symbol)
        name_bytes += len(symbol[3])
        if len(taken) > MOST_FUNCTIONS:
            raise BadElf(f"the number of functions exceeds the limit of {MOST_FUNCTIONS}")
        if name_bytes > MOST_NAME_BYTES:
            raise BadElf(f"function names exceed the limit of {MOST_NAME_BYTES} bytes")
    return taken


def _unpack(packed: bytes) -> bytes:
    try:
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_UNPACKED_BYTES)
        content = stream.decompress(packed, MOST_UNPACKED_BYTES)
    except (lzma.LZMAError, EOFError) as error:
        raise BadElf(f".gnu_debugdata: {str(error).lower()}") from error
    if not stream.eof:
        raise BadElf(
            f".gnu_debugdata: truncated, or larger than {MOST_UNPACKED_BYTES} bytes unpacked"
        )
    return content


def _name_at(names: bytes, start: int) -> str:
    end = names.find(b"\0", start, start + LONGEST_NAME_BYTES)
    text = names[start : start + LONGEST_NAME_BYTES if end < 0 else end].decode("utf-8", "replace")
    return text if text.isprintable() else ""


def _place(
    symbols: Sequence[_Symbol], segments: Sequence[_Segment]
) -> Iterator[tuple[int, _Symbol]]:
    # From addresses of the link to offsets in the file: that is what a mapping refers to.
    loaded = sorted(
        (segment.address, segment.file_bytes, segment.offset)
        for segment in segments
        if segment.kind == _PT_LOAD and segment.offset + segment.file_bytes < _OFFSET_LIMIT
    )
    starts = [address for address, _, _ in loaded]
    for symbol in symbols:
        index = bisect_right(starts, symbol[0]) - 1
        if index >= 0:
            address, file_bytes, offset = loaded[index]
            start = symbol[0] - address
            if start < file_bytes:
                # A size is whatever the file claims; no function extends past its segment.
                if symbol[1] > file_bytes - start:
                    symbol = (symbol[0], file_bytes - start, *symbol[2:])  # noqa: PLW2901 # as above
                yield start + offset, symbol


def _best_functions(placed: Iterator[tuple[int, _Symbol]]) -> list[Function]:
    best: dict[int, _Symbol] = {}
    for offset, symbol in placed:
        other = best.get(offset)
        if other is None or _rank(symbol) < _rank(other):
            best[offset] = symbol
    return [Function(offset, best[offset][1], best[offset][3]) for offset in sorted(best)]


def _rank(symbol: _Symbol) -> tuple[bool, bool, bool, int, int, str]:
    # Chosen as perf does (choose_best_symbol of tools/perf/util/symbol.c); what is still equal
    # is chosen by name, so that two builds with the same aliases agree.
    _, size, binding, name = symbol
    underscores = len(name) - len(name.lstrip("_"))
    is_weak, is_global = binding == _STB_WEAK, binding == _STB_GLOBAL
    return not size, is_weak, not is_global, underscores, -len(name), name
