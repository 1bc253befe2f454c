# SPDX-License-Identifier: GPL-2.0-or-later
"""Read an ELF file of the kernel: vmlinux, with or without debug information, or a module.

Only headers, notes, symbols and BTF are read, even of a file of 1 GB. pyelftools parses the
structures; this module checks the offsets and sizes in them, which pyelftools does not. For a
vmlinux with DWARF but no BTF, :func:`encode_btf` has pahole generate the BTF.
"""

import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.notes import iter_notes
from msgspec import Struct

from schedperf.inputs.kernel._btf_types import text_at
from schedperf.inputs.kernel.btf import PERCPU_SECTION
from schedperf.inputs.kernel.symbol_lines import MOST_LINES
from schedperf.inputs.kernel.system_map import (
    GlobalSymbols,
    PercpuSymbols,
    SymbolRow,
    global_bounds,
    global_symbols,
    percpu_symbols,
)
from schedperf.model.errors import InputError
from schedperf_collectors.contract import temporary_prefix

ELF_MAGIC = b"\x7fELF"
# vmlinux has 60 sections, a module with one section per function some hundreds.
MOST_SECTIONS = 20_000
# Sections that are read into memory: BTF and strings of the largest kernels have 20 MB.
MOST_SECTION_BYTES = 256 << 20
# .notes of vmlinux, with the build id, has 0.5 kB.
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
# Exceptions that pyelftools raises for damaged files: its own, and Python's if a field has an
# unexpected value.
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
# Symbol types of variables (gABI): NOTYPE (from assembly and linker scripts) and OBJECT.
_NO_TYPE, _OBJECT = 0, 1
_LOCAL, _WEAK = 0, 2
_UNDEFINED, _ABSOLUTE, _FIRST_RESERVED = 0, 0xFFF1, 0xFF00
_WRITE, _ALLOC, _EXECUTE, _COMPRESSED = 1, 2, 4, 0x800
# Format of a symbol, and the indices of name, info, section, value and size in it.
_SYMBOL_64 = ("IBBHQQ", (0, 1, 3, 4, 5))
_SYMBOL_32 = ("IIIBBH", (0, 3, 5, 1, 2))
# A distribution's vmlinux takes 15 s and 2 GB, an allyesconfig kernel a minute.
_PAHOLE_TIMEOUT_S = 600
# Characters of pahole's error message that are shown.
_LONGEST_COMPLAINT = 150


class ElfKernel(Struct, frozen=True, kw_only=True):
    """The contents of an ELF file of the kernel.

    :param machine: "x86_64", "arm64", "s390x" …; as in ``uname -m``, but "arm64" for aarch64, and
        "i386" and "arm" for all 32-bit models; None if unknown
    :param pointer_bytes: 4 or 8
    :param is_module: whether it is a module, not vmlinux
    :param build_id: hexadecimal; None if missing
    :param btf: the raw .BTF section; None if missing
    :param btf_base: the .BTF.base section of a module, with the kernel types that its BTF refers
        to; None if missing
    :param percpu: per-CPU symbols; None if missing
    :param global_variables: symbols of .data and .bss; None if missing
    :param problems: why symbols are missing, by "percpu" and "globals"
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


class _Section(Struct, frozen=True, kw_only=True):
    name: str
    type: str
    flags: int
    address: int
    offset: int
    size: int
    link: int


class _Symbol(Struct, frozen=True, kw_only=True):
    """A row of the symbol table, and the number of its section."""

    row: SymbolRow
    section: int


def read_elf(stream: BinaryIO, label: str) -> ElfKernel:
    """Read the symbols, types and build id of an ELF file.

    :param stream: a seekable stream
    :param label: name of the source in messages: "vmlinux"
    :raises InputError: the stream is not an ELF file, is damaged, or exceeds a limit
    """
    if stream.read(len(ELF_MAGIC)) != ELF_MAGIC:
        raise InputError(f"{label}: invalid ELF file (expected vmlinux or a module)")
    try:
        return _read(_Elf(stream, label))
    except _DAMAGE as error:
        raise InputError(
            f"{label}: invalid ELF headers ({type(error).__name__}); copy the file again"
        ) from None


class _Elf:
    """The sections of one file; each read is checked against the size of the file."""

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
        file_header = self.file.header
        entry_bytes, start = file_header["e_shentsize"], file_header["e_shoff"]
        count = self.file.num_sections() if start else 0
        if count > MOST_SECTIONS or start + count * entry_bytes > self._end:
            raise InputError(
                f"{self.label}: {count} sections (expected at most {MOST_SECTIONS} in a file of "
                f"{self._end} bytes); copy the file again"
            )
        raw = [
            struct_parse(self.file.structs.Elf_Shdr, self._stream, start + number * entry_bytes)
            for number in range(count)
        ]
        names = b""
        if raw:
            strings = raw[self.file.get_shstrndx()]
            names = self._bytes(strings["sh_offset"], strings["sh_size"], "section names")
        for header in raw:
            yield _Section(
                name=text_at(names, header["sh_name"], self.label),
                type=str(header["sh_type"]),
                flags=header["sh_flags"],
                address=header["sh_addr"],
                offset=header["sh_offset"],
                size=header["sh_size"],
                link=header["sh_link"],
            )

    def read(self, section: _Section) -> bytes:
        if section.flags & _COMPRESSED or section.type == "SHT_NOBITS":
            raise InputError(
                f"{self.label}: section {section.name} is compressed or missing; "
                "use the original file of the kernel build"
            )
        return self._bytes(section.offset, section.size, section.name)

    def _bytes(self, start: int, length: int, part: str) -> bytes:
        if start + length > self._end or length > MOST_SECTION_BYTES:
            raise InputError(
                f"{self.label}: {part} of {length} bytes at offset {start} (expected at most "
                f"{MOST_SECTION_BYTES >> 20} MiB in a file of {self._end} bytes); "
                "copy the file again"
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
    # The 64-bit architecture is s390x; since 4.1 the kernel has no other.
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
        problems["percpu"] = problems["globals"] = f"{elf.label}: no symbols (stripped)"
        return []
    names = elf.read(elf.sections[table.link])
    layout, indices = _SYMBOL_64 if elf.file.elfclass == 64 else _SYMBOL_32  # noqa: PLR2004 # bits
    layout = elf.order + layout
    data = elf.read(table)
    count = len(data) // struct.calcsize(layout)
    if count > MOST_LINES:
        raise InputError(
            f"{elf.label}: {count} symbols (expected at most {MOST_LINES}); use the vmlinux of "
            "the kernel build"
        )
    whole = memoryview(data)[: count * struct.calcsize(layout)]
    letters = _letters(elf.sections)
    variables = []
    for fields in struct.iter_unpack(layout, whole):
        name, info, section, value, size = (fields[index] for index in indices)
        is_variable = info & 0xF in {_NO_TYPE, _OBJECT} and name
        letter = letters.get(section)
        if is_variable and letter is not None:
            text = text_at(names, name, elf.label)
            row = (value, size or None, _cased(letter, info >> 4), text)
            variables.append(_Symbol(row=row, section=section))
    if not variables:
        problems["percpu"] = problems["globals"] = f"{elf.label}: no variable symbols"
    return variables


def _letters(sections: Sequence[_Section]) -> dict[int, str]:
    # Lower-case nm letter of the symbols in each data section.
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
            f"{elf.label}: no per-CPU section (the kernel is not SMP)"
            if not is_module
            else f"{elf.label}: module without per-CPU variables (addresses of other variables "
            f"are unknown until a module is loaded); use the kernel's vmlinux, System.map or BTF"
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
        problems["globals"] = (
            f"{elf.label}: addresses of a module's variables are unknown until the module is loaded"
        )
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
    """Return the raw BTF that pahole generates from the DWARF of a file.

    :param label: name of the source in messages
    :param limit_bytes: largest accepted size of the BTF
    :raises InputError: pahole is not installed, fails, takes longer than 10 minutes, or writes no
        BTF or too much
    """
    program = shutil.which("pahole")
    if program is None:
        raise InputError(
            f"{label}: contains DWARF but no BTF, and pahole is not installed; "
            "run `apt-get install dwarves`, or use the kernel's BTF"
        )
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        made = Path(folder) / "btf"
        # An absolute path cannot be mistaken for an option.
        command = [program, f"--btf_encode_detached={made}", str(path.resolve())]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=_PAHOLE_TIMEOUT_S, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{label}: pahole did not finish within {_PAHOLE_TIMEOUT_S} s; use the kernel's BTF"
            ) from None
        size = made.stat().st_size if made.exists() else 0
        if done.returncode or not 0 < size <= limit_bytes:
            raise InputError(
                f"{label}: pahole wrote {size} bytes of BTF (expected 1 to {limit_bytes}), exit "
                f"status {done.returncode}{_complaint(done.stderr)}; use a vmlinux with debug "
                "information"
            )
        return made.read_bytes()


def _complaint(stderr: bytes) -> str:
    # The last line is the error that stopped it.
    lines = stderr.decode("utf-8", "replace").split("\n")
    messages = [" ".join(line.split()) for line in lines if line.strip()]
    return f" ({messages[-1][:_LONGEST_COMPLAINT]})" if messages else ""
