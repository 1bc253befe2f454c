# SPDX-License-Identifier: GPL-2.0-or-later
"""Read an ELF file of the kernel: vmlinux, with or without debug information, or a module.

Of a file of a gigabyte only headers, symbols and BTF are read. pyelftools knows the
format's structures; what they point to is checked here, since it believes them.
BTF of a vmlinux that has only DWARF is made by the installed pahole.
"""

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.notes import iter_notes

from schedperf.kernel._btf_types import text_at
from schedperf.kernel.btf import PERCPU_SECTION
from schedperf.kernel.kallsyms import MOST_LINES
from schedperf.kernel.system_map import (
    GlobalSymbols,
    PercpuSymbols,
    SymbolRow,
    global_bounds,
    global_symbols,
    percpu_symbols,
)
from schedperf.model.errors import InputError

ELF_MAGIC = b"\x7fELF"
# vmlinux has 60 sections, a module built with one section a function some hundreds.
MOST_SECTIONS = 20_000
# Sections that are read whole: BTF and strings of the largest kernels have 20 MB.
MOST_SECTION_BYTES = 256 << 20
# .notes of vmlinux has 0.5 kB, with the build id among them.
MOST_NOTE_BYTES = 64 << 10

_MACHINES = {
    "EM_X86_64": "x86_64",
    "EM_386": "i386",
    "EM_AARCH64": "arm64",
    "EM_ARM": "arm",
    "EM_PPC64": "ppc64",
    "EM_PPC": "ppc",
    "EM_S390": "s390",
    "EM_RISCV": "riscv",
    "EM_LOONGARCH": "loongarch",
    "EM_MIPS": "mips",
}
# What pyelftools raises for files that are not what their headers say: its own errors, and those of
# Python where it counts on a field.
_DAMAGE = (
    ELFError,
    ConstructError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
# Symbol types that can be variables (gABI): NOTYPE, of assembly and linker script, and OBJECT.
_NO_TYPE, _OBJECT = 0, 1
_LOCAL, _WEAK = 0, 2
_UNDEFINED, _ABSOLUTE, _FIRST_RESERVED = 0, 0xFFF1, 0xFF00
_WRITE, _ALLOC, _EXECUTE, _COMPRESSED = 1, 2, 4, 0x800
# Name, info, section, value, size: where they are in a symbol of either class.
_SYMBOL_64 = ("IBBHQQ", (0, 1, 3, 4, 5))
_SYMBOL_32 = ("IIIBBH", (0, 3, 5, 1, 2))
# A distribution's vmlinux takes 15 s and 2 GB, one with everything in it a minute.
_PAHOLE_TIMEOUT_S = 600
# Of what pahole says, the part that fits on a line.
_LONGEST_COMPLAINT = 150


@dataclass(frozen=True, kw_only=True, slots=True)
class ElfKernel:
    """What is known from an ELF file.

    :param machine: as ``uname -m`` says it, but "arm64"; None where it is not known here
    :param build_id: hexadecimal; None where there is none
    :param btf: the raw .BTF section; None where there is none
    :param btf_base: of a module the types of the kernel that its own BTF builds on
    :param problems: why symbols are missing, by what is: "percpu", "globals"
    """

    machine: str | None
    pointer_bytes: int
    is_big_endian: bool
    is_module: bool
    build_id: str | None
    btf: bytes | None
    btf_base: bytes | None
    has_dwarf: bool
    percpu: PercpuSymbols | None
    global_variables: GlobalSymbols | None
    problems: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Section:
    name: str
    type: str
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Symbol:
    # What of a symbol table's entry is needed, with the section's number.
    row: SymbolRow
    section: int


def read_elf(stream: BinaryIO, label: str) -> ElfKernel:
    """Read what an ELF file says of the kernel's data.

    :param stream: can be positioned; read in parts
    :param label: names the source in messages: "vmlinux"
    :raises InputError: it is not an ELF file, or it is damaged
    """
    if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
        raise InputError(f"{label}: not an ELF file (expected vmlinux or a module)")
    try:
        return _read(_Elf(stream, label))
    except _DAMAGE as error:
        raise InputError(
            f"{label}: its ELF headers make no sense ({type(error).__name__}); "
            "use an undamaged file"
        ) from None


class _Elf:
    # Sections of one file, each read where the file really has it.

    def __init__(self, stream: BinaryIO, label: str) -> None:
        self.label = label
        self._stream = stream
        self._end = stream.seek(0, 2)
        stream.seek(0)
        self.file = ELFFile(stream)
        self.order = "<" if self.file.little_endian else ">"
        self.sections = list(self._read_sections())
        self.by_name = {section.name: section for section in reversed(self.sections)}

    def _read_sections(self) -> Iterator[_Section]:
        header = self.file.header
        entry_bytes, start = header["e_shentsize"], header["e_shoff"]
        count = self.file.num_sections() if start else 0
        if count > MOST_SECTIONS or start + count * entry_bytes > self._end:
            raise InputError(
                f"{self.label}: {count} sections do not fit into {self._end} bytes, or are more "
                f"than {MOST_SECTIONS}; use an undamaged file"
            )
        raw = [
            struct_parse(self.file.structs.Elf_Shdr, self._stream, start + number * entry_bytes)
            for number in range(count)
        ]
        names = b""
        if raw:
            strings = raw[self.file.get_shstrndx()]
            names = self._bytes(strings["sh_offset"], strings["sh_size"], "section names")
        for one in raw:
            yield _Section(
                name=text_at(names, one["sh_name"], self.label),
                type=str(one["sh_type"]),
                flags=one["sh_flags"],
                address=one["sh_addr"],
                offset=one["sh_offset"],
                size=one["sh_size"],
                link=one["sh_link"],
            )

    def read(self, section: _Section) -> bytes:
        if section.flags & _COMPRESSED or section.type == "SHT_NOBITS":
            raise InputError(
                f"{self.label}: {section.name} is compressed or not in the file; "
                "use the file as the kernel's build made it"
            )
        return self._bytes(section.offset, section.size, section.name)

    def _bytes(self, start: int, length: int, what: str) -> bytes:
        if start + length > self._end or length > MOST_SECTION_BYTES:
            raise InputError(
                f"{self.label}: {what} reaches to byte {start + length} of {self._end}, or is "
                f"larger than {MOST_SECTION_BYTES >> 20} MiB; use an undamaged file"
            )
        self._stream.seek(start)
        return self._stream.read(length)

    def read_named(self, name: str) -> bytes | None:
        section = self.by_name.get(name)
        return None if section is None else self.read(section)


def _read(elf: _Elf) -> ElfKernel:
    header = elf.file.header
    is_module = header["e_type"] == "ET_REL"
    problems: dict[str, str] = {}
    symbols = _symbols(elf, problems)
    percpu = _percpu(elf, symbols, problems, is_module=is_module)
    return ElfKernel(
        machine=_machine(elf),
        pointer_bytes=elf.file.elfclass // 8,
        is_big_endian=not elf.file.little_endian,
        is_module=is_module,
        build_id=_build_id(elf),
        btf=elf.read_named(".BTF"),
        btf_base=elf.read_named(".BTF.base"),
        has_dwarf=any(name in elf.by_name for name in (".debug_info", ".zdebug_info")),
        percpu=percpu,
        global_variables=_globals(elf, symbols, problems, is_module=is_module),
        problems=problems,
    )


def _machine(elf: _Elf) -> str | None:
    name = _MACHINES.get(str(elf.file.header["e_machine"]))
    if name in {"riscv", "loongarch"}:
        return f"{name}{elf.file.elfclass}"
    if name == "ppc64" and elf.file.little_endian:
        return "ppc64le"
    # The 64-bit architecture is called s390x, as it is everywhere since 4.1.
    return "s390x" if name == "s390" and elf.file.elfclass == 64 else name  # noqa: PLR2004 # bits


def _build_id(elf: _Elf) -> str | None:
    for section in elf.sections:
        if section.type != "SHT_NOTE" or section.size > MOST_NOTE_BYTES:
            continue
        elf.read(section)
        for note in iter_notes(elf.file, section.offset, section.size):
            if note["n_type"] == "NT_GNU_BUILD_ID":
                return str(note["n_desc"])
    return None


def _symbols(elf: _Elf, problems: dict[str, str]) -> list[_Symbol]:
    table = elf.by_name.get(".symtab")
    if table is None:
        problems["percpu"] = problems["globals"] = f"{elf.label}: has no symbols; it is stripped"
        return []
    names = elf.read(elf.sections[table.link])
    layout, places = _SYMBOL_64 if elf.file.elfclass == 64 else _SYMBOL_32  # noqa: PLR2004 # bits
    layout = elf.order + layout
    data = elf.read(table)
    count = len(data) // struct.calcsize(layout)
    if count > MOST_LINES:
        raise InputError(
            f"{elf.label}: {count} symbols, more than {MOST_LINES}; use a real vmlinux"
        )
    whole = memoryview(data)[: count * struct.calcsize(layout)]
    letters = _letters(elf.sections)
    found = []
    for fields in struct.iter_unpack(layout, whole):
        name, info, section, value, size = (fields[place] for place in places)
        is_variable = info & 0xF in {_NO_TYPE, _OBJECT} and name
        letter = letters.get(section)
        if is_variable and letter is not None:
            text = text_at(names, name, elf.label)
            row = (value, size or None, _cased(letter, info >> 4), text)
            found.append(_Symbol(row=row, section=section))
    if not found:
        problems["percpu"] = problems["globals"] = f"{elf.label}: has no symbols of variables"
    return found


def _letters(sections: Sequence[_Section]) -> dict[int, str]:
    # nm's letter, in lower case, of what is in each section that has data.
    letters = {_ABSOLUTE: "a"}
    for number, section in enumerate(sections[:_FIRST_RESERVED]):
        if not section.flags & _ALLOC or section.flags & _EXECUTE:
            continue
        data = "b" if section.type == "SHT_NOBITS" else "d"
        letters[number] = data if section.flags & _WRITE else "r"
    return letters


def _cased(letter: str, binding: int) -> str:
    if binding == _WEAK:
        return "V"
    return letter if binding == _LOCAL else letter.upper()


def _percpu(
    elf: _Elf, symbols: Sequence[_Symbol], problems: dict[str, str], *, is_module: bool
) -> PercpuSymbols | None:
    if not symbols:
        return None
    section = elf.by_name.get(PERCPU_SECTION)
    if is_module and section is not None:
        number = elf.sections.index(section)
        inside = (symbol.row for symbol in symbols if symbol.section == number)
        rows = [row for row in inside if row[0] < section.size]
        return percpu_symbols(rows, 0, section.size, elf.label)
    marks = _marks(symbols)
    start, end = marks.get("__per_cpu_start"), marks.get("__per_cpu_end")
    if start is None or end is None or start >= end:
        problems["percpu"] = (
            f"{elf.label}: no per-CPU section; the kernel is not SMP"
            if not is_module
            else f"{elf.label}: the module has no per-CPU variables"
        )
        return None
    rows = [symbol.row for symbol in symbols if start <= symbol.row[0] < end]
    return percpu_symbols(rows, start, end, elf.label)


def _globals(
    elf: _Elf, symbols: Sequence[_Symbol], problems: dict[str, str], *, is_module: bool
) -> GlobalSymbols | None:
    if not symbols:
        return None
    if is_module:
        problems["globals"] = f"{elf.label}: a module's variables have no place until it is loaded"
        return None
    bounds = global_bounds(_marks(symbols).get)
    rows = [
        symbol.row for symbol in symbols if any(low <= symbol.row[0] < high for low, high in bounds)
    ]
    try:
        return global_symbols(rows, bounds, elf.label)
    except InputError as error:
        problems["globals"] = str(error)
        return None


def _marks(symbols: Sequence[_Symbol]) -> dict[str, int]:
    names = {"_sdata", "_edata", "__bss_start", "__bss_stop", "__per_cpu_start", "__per_cpu_end"}
    return {symbol.row[3]: symbol.row[0] for symbol in symbols if symbol.row[3] in names}


def encode_btf(path: Path, label: str, *, limit_bytes: int) -> bytes:
    """Return the raw BTF that pahole makes of a file's DWARF.

    :param label: names the source in messages
    :param limit_bytes: refuse more
    :raises InputError: pahole is not installed, cannot read the file, or wrote no BTF
    """
    program = shutil.which("pahole")
    if program is None:
        raise InputError(
            f"{label}: has DWARF but no BTF, and pahole is not installed; "
            "apt-get install dwarves, or use the kernel's BTF"
        )
    with tempfile.TemporaryDirectory(prefix="schedperf-") as folder:
        made = Path(folder) / "btf"
        # An absolute path cannot be taken for an option.
        command = [program, f"--btf_encode_detached={made}", str(path.resolve())]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=_PAHOLE_TIMEOUT_S, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{label}: pahole was not ready after {_PAHOLE_TIMEOUT_S} s; use the kernel's BTF"
            ) from None
        size = made.stat().st_size if made.exists() else 0
        if done.returncode or not 0 < size <= limit_bytes:
            raise InputError(
                f"{label}: pahole made {size} bytes of BTF, exit status {done.returncode}"
                f"{_complaint(done.stderr)}; use a vmlinux with debug information"
            )
        return made.read_bytes()


def _complaint(stderr: bytes) -> str:
    # The last line is what it stopped for.
    lines = stderr.decode("utf-8", "replace").split("\n")
    said = [" ".join(line.split()) for line in lines if line.strip()]
    return f" ({said[-1][:_LONGEST_COMPLAINT]})" if said else ""
