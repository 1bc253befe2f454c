# SPDX-License-Identifier: GPL-2.0-or-later
"""Open the files of a kernel and determine its architecture.

The files are combined in :mod:`schedperf.evidence.layout.sources`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from schedperf.evidence.layout.boot_image import LARGEST_IMAGE_BYTES, unpack_boot_image
from schedperf.evidence.layout.model import LARGEST_LINE_BYTES, SMALLEST_LINE_BYTES
from schedperf.evidence.layout.record import LineBytes
from schedperf.inputs.bundle.json import decode
from schedperf.inputs.bundle.open import Boot, Bundle, open_bundle
from schedperf.inputs.kernel.btf import Btf, needs_base, parse_btf
from schedperf.inputs.kernel.system_map import (
    GlobalSymbols,
    PercpuSymbols,
    is_symbol_table,
    note_of_cut,
    parse_global_symbols,
    parse_percpu_symbols,
)
from schedperf.inputs.kernel_files import (
    BTF,
    CONFIG,
    FACTS,
    KALLSYMS,
    LIMITS_BYTES,
    SYSTEM_MAP,
    has_kernel_file,
    kernel_member,
    read_kernel_file,
)
from schedperf.inputs.side import Side, name_sides
from schedperf.model.errors import InputError
from schedperf_collectors.contract import (
    BTF_LIMIT_BYTES,
    CONSTANT_LINE_BYTES,
    SHIFT_OPTION,
    SYMBOLS_LIMIT_BYTES,
    temporary_prefix,
)

if TYPE_CHECKING:
    from schedperf.inputs.kernel.elf import ElfKernel

# Parser of raw BTF; its text argument names the source in messages.
ParseBtf = Callable[[bytes, str], Btf]

# File names in a directory and in a bundle. A distribution adds the release: config-6.1.0.
VMLINUX = "vmlinux"
VMLINUZ = "vmlinuz"
FILES = (VMLINUX, SYSTEM_MAP, KALLSYMS, BTF, CONFIG, FACTS)
# Bytes read to detect the format of a file.
HEAD_BYTES = 4096

_ELF_MAGIC = b"\x7fELF"
_BTF_MAGICS = (b"\x9f\xeb", b"\xeb\x9f")
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_TAR_MAGIC, _TAR_AT = b"ustar", 257
# Documentation/arch/x86/boot.rst, and the DOS header that EFI images of all machines begin with.
_BOOT_MAGIC, _BOOT_AT, _EFI_MAGIC = b"HdrS", 0x202, b"MZ"
_NO_STRUCTS = "struct layouts need BTF or DWARF, not a symbol table"
# X86_L1_CACHE_SHIFT of arch/x86/Kconfig.cpu is 6, except for Pentium 4, where it was 7 up to 6.14.
_X86_LINE_BYTES = 64

# Symbols, types or functions that only kernels of one architecture have, from 4.x to current ones.
_NAMES = {
    "x86": ("__x64_sys_read", "entry_SYSCALL_64", "desc_struct", "cpu_tss_rw", "cpuinfo_x86"),
    "arm64": ("__arm64_sys_read", "el0_svc", "el0t_64_sync", "user_fpsimd_state"),
    "powerpc": ("thread_vr_state", "thread_fp_state", "ppc_md"),
    "s390": ("__s390x_sys_read", "psw_t"),
    "riscv": ("__riscv_sys_read", "__riscv_d_ext_state", "riscv_isa"),
    "loongarch": ("cpuinfo_loongarch",),
    "mips": ("cpuinfo_mips",),
    "arm": ("vfp_hard_struct",),
}
# Configuration options of architectures; X86_64 precedes X86, since its kernels have both.
_OPTIONS = {
    "X86_64": "x86_64",
    "X86_32": "i386",
    "ARM64": "arm64",
    "PPC64": "ppc64",
    "PPC32": "ppc",
    "S390": "s390x",
    "RISCV": "riscv64",
    "LOONGARCH": "loongarch64",
    "MIPS": "mips",
    "ARM": "arm",
}
# Architectures whose name in uname -m differs.
_UNAME = {"aarch64": "arm64", "i686": "i386", "i586": "i386", "armv7l": "arm", "armv8l": "arm"}
_WIDE_BYTES = 8


class SymbolTable:
    """A symbol table in text form, whose sections are parsed on request.

    :ivar name: kind of table: "System.map", "kallsyms", "vmlinux", or the name of a module's file
    :ivar is_fallback: True for kallsyms, which is not used if another table has the per-CPU section
    """

    def __init__(self, name: str, text: bytes, label: str) -> None:
        self.name = name
        self.is_fallback = name == KALLSYMS
        self._text = text
        self._label = label

    def note(self) -> str | None:
        """Return a note if the table may be truncated, else None.

        None for kallsyms, which is always complete.
        """
        return None if self.is_fallback else note_of_cut(self._text, self._label)

    def percpu(self) -> PercpuSymbols:
        """Return the per-CPU section.

        :raises InputError: it is missing, empty or invalid
        """
        return parse_percpu_symbols(self._text, self._label)

    def global_variables(self) -> GlobalSymbols:
        """Return the variables of .data and .bss.

        :raises InputError: the bounds of these sections are missing or invalid
        """
        return parse_global_symbols(self._text, self._label)

    def has_name(self, name: str) -> bool:
        """Return whether there is a symbol with this name."""
        return f" {name}\n".encode() in self._text

    @cached_property
    def pointer_bytes(self) -> int | None:
        """Width of addresses in bytes, 4 or 8; None if the first line has no address."""
        width = len(self._text[:HEAD_BYTES].lstrip().partition(b" ")[0])
        return width // 2 if width in {8, 16} else None


class ElfTable(SymbolTable):
    """The symbols of a vmlinux or module, which include sizes.

    The table has no text: :meth:`has_name` returns False, and :attr:`pointer_bytes` is None. The
    ELF header has the architecture instead.
    """

    def __init__(self, name: str, elf: "ElfKernel") -> None:
        super().__init__(name, b"", name)
        self._elf = elf

    def note(self) -> str | None:
        """Return None: truncation of an ELF file is an error."""
        return None

    def percpu(self) -> PercpuSymbols:
        """Return the per-CPU section.

        :raises InputError: the file has no symbols or no per-CPU section
        """
        if self._elf.percpu is None:
            raise InputError(self._elf.problems["percpu"])
        return self._elf.percpu

    def global_variables(self) -> GlobalSymbols:
        """Return the variables of .data and .bss.

        :raises InputError: the file has no symbols or no bounds of these sections, or is a module
        """
        if self._elf.global_variables is None:
            raise InputError(self._elf.problems["globals"])
        return self._elf.global_variables


@dataclass(kw_only=True, slots=True)
class Material:
    """The opened files of one kernel.

    :ivar label: name of the kernel in reports
    :ivar tables: symbol tables, best first
    :ivar btf: types of the kernel; None if no file has them
    :ivar why_no_types: the reason if ``btf`` is None, else unused
    :ivar config: text of the kernel's configuration; None if there is none
    :ivar facts: contents of layout.json of the layout collector; None if there is none
    :ivar machine: "x86_64", "arm64" …, from an ELF header or the host; None if unknown
    :ivar pointer_bytes: 4 or 8, from an ELF header or a symbol table; None if unknown
    :ivar is_big_endian: from an ELF header; None if unknown
    :ivar build_id: hexadecimal; None if unknown
    :ivar problems: why existing files are not used, one sentence each
    """

    label: str
    tables: list[SymbolTable] = field(default_factory=list)
    btf: Btf | None = None
    why_no_types: str = _NO_STRUCTS
    config: str | None = None
    facts: bytes | None = None
    machine: str | None = None
    pointer_bytes: int | None = None
    is_big_endian: bool | None = None
    build_id: str | None = None
    problems: list[str] = field(default_factory=list)

    def attempt(self, read: Callable[[], None]) -> None:
        """Try one source; add an InputError to the problems, so that other sources can be tried.

        :param read: adds the source
        """
        try:
            read()
        except InputError as error:
            self.problems.append(str(error))

    def add_table(self, name: str, text: bytes, label: str) -> None:
        """Add a symbol table after those that were added before.

        :param name: kind of table: "System.map" or "kallsyms"
        :param label: name of the source in messages
        """
        table = SymbolTable(name, text, label)
        self.tables.append(table)
        self.pointer_bytes = self.pointer_bytes or table.pointer_bytes

    def add_btf(self, data: bytes, label: str, parse: ParseBtf = parse_btf) -> None:
        """Use raw BTF unless BTF was already added.

        :param label: name of the source in messages
        :param parse: parser, e.g. one that knows the kernel's BTF, which that of a module refers to
        :raises InputError: it is damaged, or the BTF that it refers to is missing
        """
        self.why_no_types = f"{label}: damaged BTF"
        self.btf = self.btf or parse(data, label)

    def add_elf(self, path: Path, label: str) -> None:
        """Use vmlinux or a module; pahole converts DWARF if there is no BTF.

        A file without types is not an error; ``why_no_types`` then has the reason.

        :param label: name of the source in messages
        :raises InputError: it cannot be read or is damaged, or pahole is missing or failed
        """
        # Imported here because importing pyelftools is slow, and most kernels are given as text and
        # BTF.
        from schedperf.inputs.kernel.elf import encode_btf  # noqa: PLC0415

        elf = _read_elf(path, label)
        self.tables.append(ElfTable(path.name if elf.is_module else VMLINUX, elf))
        self.machine, self.pointer_bytes = elf.machine, elf.pointer_bytes
        self.is_big_endian = elf.is_big_endian
        self.build_id = None if elf.is_module else elf.build_id
        if elf.btf is not None:
            self.add_btf(elf.btf, label, partial(parse_btf, base=_base_of(elf, path, label)))
        elif self.btf is None and elf.has_dwarf:
            self.add_btf(encode_btf(path, label, limit_bytes=BTF_LIMIT_BYTES), label)
        elif self.btf is None:
            self.why_no_types = f"{label} contains neither BTF nor DWARF"

    def add_boot_image(self, path: Path, label: str) -> None:
        """Use the vmlinux in a boot image, which has types and no symbols.

        :param label: name of the source in messages
        :raises InputError: it cannot be read or unpacked, or as in :meth:`add_elf`
        """
        image = _read(path, LARGEST_IMAGE_BYTES)
        with TemporaryDirectory(prefix=temporary_prefix()) as folder:
            vmlinux = Path(folder) / VMLINUX
            with vmlinux.open("xb") as file:
                unpack_boot_image(image, file, label)
            self.add_elf(vmlinux, label)


class Candidate(Struct, frozen=True, kw_only=True):
    """A possible source of a kernel's layout: one boot of a bundle, a directory or a file.

    :ivar name: "boot 0", "boot 1" … of a bundle; "" for a directory or a file
    :ivar digests: checksums of System.map, kallsyms and BTF in a bundle, None if unknown; boots
        with equal checksums have the same layout
    :ivar load: opens the files; may raise InputError
    """

    name: str
    digests: Mapping[str, str | None]
    load: Callable[[], Material]


def candidates(source: Path | Side, label: str | None) -> list[Candidate]:
    """Return the candidates of a source: one, or each boot of a bundle that has kernel files.

    :param source: a side of a comparison, or the path of a bundle, a directory or a file
    :param label: name of the kernel in reports; None for the name of the source
    :raises InputError: the source cannot be read, has an unsupported format, or is a bundle without
        kernel files
    """
    if isinstance(source, Side):
        return _from_bundle(source, label)
    path = source
    if path.is_dir():
        return [_only(partial(_from_folder, path, label or path.resolve().name))]
    if not path.is_file():
        problem = (
            "unsupported file type (expected a regular file or a directory)"
            if path.exists()
            else "no such file or directory"
        )
        raise InputError(
            f"{path}: {problem}; pass a bundle, a vmlinux, System.map, kallsyms, BTF or module "
            "file, or a directory with such files"
        )
    head = _read(path, HEAD_BYTES, is_whole=False)
    read = _reader_of(head)
    if read is not None:
        return [_only(partial(read, path, label or path.name))]
    if ".ko." in path.name and head.startswith(_COMPRESSED):
        raise InputError(
            f"{path}: compressed module (expected an ELF file); unpack it first, e.g. with "
            f"{'zstd -d' if path.suffix == '.zst' else 'xz -d'}"
        )
    if head[_TAR_AT:].startswith(_TAR_MAGIC) or head.startswith(_COMPRESSED):
        [side] = name_sides([open_bundle(path)])
        return _from_bundle(side, label)
    if head[_BOOT_AT:].startswith(_BOOT_MAGIC):
        return [_only(partial(_from_boot_image, path, label or path.name))]
    if head.startswith(_EFI_MAGIC):
        raise InputError(
            f"{path}: boot image without symbols; pass the vmlinux, System.map or BTF of this build"
        )
    raise InputError(
        f"{path}: {f'unknown format, starts with {head[:4].hex()}' if head else 'empty file'} "
        "(expected a bundle, System.map, nm or kallsyms output, BTF, vmlinux or module); "
        "pass another file"
    )


def _only(load: Callable[[], Material]) -> Candidate:
    return Candidate(name="", digests={}, load=load)


def _reader_of(head: bytes) -> Callable[[Path, str], Material] | None:
    if head.startswith(_ELF_MAGIC):
        return _from_elf
    if head.startswith(_BTF_MAGICS):
        return _from_btf
    return _from_table if is_symbol_table(head) else None


def _from_elf(path: Path, label: str) -> Material:
    material = Material(label=label)
    material.attempt(partial(material.add_elf, path, str(path)))
    return material


def _from_boot_image(path: Path, label: str) -> Material:
    material = Material(label=label)
    material.attempt(partial(material.add_boot_image, path, str(path)))
    return material


def _from_btf(path: Path, label: str) -> Material:
    material = Material(label=label)
    data = _read(path, BTF_LIMIT_BYTES)

    def add() -> None:
        base = _beside(path) if needs_base(data) else None
        material.add_btf(data, str(path), partial(parse_btf, base=base))

    material.attempt(add)
    return material


def _from_table(path: Path, label: str) -> Material:
    material = Material(label=label)
    name = KALLSYMS if path.name == KALLSYMS else SYSTEM_MAP
    material.add_table(name, _read(path, SYMBOLS_LIMIT_BYTES), str(path))
    return material


def _base_of(elf: "ElfKernel", path: Path, label: str) -> Btf | None:
    # A module contains a short form of the kernel's types (.BTF.base), or needs the kernel's BTF.
    if elf.btf_base is not None:
        return parse_btf(elf.btf_base, f"{label}, .BTF.base")
    return _beside(path) if elf.btf is not None and needs_base(elf.btf) else None


def _beside(path: Path) -> Btf | None:
    # The kernel's BTF in the directory of the module's BTF, as in /sys/kernel/btf.
    for name in (VMLINUX, BTF):
        kernel_path = path.with_name(name)
        if kernel_path.is_file() and not kernel_path.samefile(path):
            data = _read(kernel_path, HEAD_BYTES, is_whole=False)
            if data.startswith(_BTF_MAGICS):
                return parse_btf(_read(kernel_path, BTF_LIMIT_BYTES), str(kernel_path))
            if data.startswith(_ELF_MAGIC):
                elf = _read_elf(kernel_path, str(kernel_path))
                return None if elf.btf is None else parse_btf(elf.btf, str(kernel_path))
    return None


def _read_elf(path: Path, label: str) -> "ElfKernel":
    from schedperf.inputs.kernel.elf import read_elf  # noqa: PLC0415 # as above

    with _opened(path) as stream:
        return read_elf(stream, label)


def _from_folder(folder: Path, label: str) -> Material:
    paths = {name: path for name in FILES if (path := _find(folder, name)) is not None}
    # A boot image provides the types if a kernel package contains neither vmlinux nor BTF.
    boot_image = None if VMLINUX in paths or BTF in paths else _find(folder, VMLINUZ)
    if not paths and boot_image is None:
        raise InputError(
            f"{folder}: no kernel files found (expected {', '.join(FILES[:-2])} or {FILES[-2]}); "
            "pass a directory with a kernel's files"
        )
    material = Material(label=label)
    readers = {
        name: partial(_read, path, LIMITS_BYTES[name])
        for name, path in paths.items()
        if name != VMLINUX
    }
    # A separate BTF file has precedence over the BTF of vmlinux, which has the same build.
    _add_files(material, readers, f" of {label}")
    vmlinux = paths.get(VMLINUX)
    if vmlinux is not None and _read(vmlinux, HEAD_BYTES, is_whole=False).startswith(_ELF_MAGIC):
        material.attempt(partial(material.add_elf, vmlinux, f"vmlinux of {label}"))
        material.tables.sort(key=lambda table: not isinstance(table, ElfTable))
    elif vmlinux is not None:
        # /sys/kernel/btf/vmlinux is BTF.
        data = partial(_read, vmlinux, BTF_LIMIT_BYTES)
        material.attempt(lambda: material.add_btf(data(), f"vmlinux of {label}"))
    if boot_image is not None:
        material.attempt(partial(material.add_boot_image, boot_image, f"vmlinuz of {label}"))
    return material


def _find(folder: Path, name: str) -> Path | None:
    # The file with the exact name, or the only one with any release.
    if (folder / name).is_file():
        return folder / name
    releases = sorted(path for path in folder.glob(f"{name}-*") if path.is_file())
    if len(releases) > 1:
        raise InputError(
            f"{folder}: {len(releases)} files match {name}-* (expected 1); "
            "give a directory with one kernel"
        )
    return releases[0] if releases else None


def _add_files(
    material: Material,
    readers: Mapping[str, Callable[[], bytes]],
    whose: str,
    parse: ParseBtf = parse_btf,
) -> None:
    def text_of_config() -> None:
        material.config = readers[CONFIG]().decode("utf-8", "replace")

    def facts() -> None:
        material.facts = readers[FACTS]()

    actions: dict[str, Callable[[], None]] = {
        CONFIG: text_of_config,
        FACTS: facts,
        BTF: lambda: material.add_btf(readers[BTF](), f"btf{whose}", parse),
        SYSTEM_MAP: lambda: material.add_table(
            SYSTEM_MAP, readers[SYSTEM_MAP](), f"System.map{whose}"
        ),
        KALLSYMS: lambda: material.add_table(KALLSYMS, readers[KALLSYMS](), f"kallsyms{whose}"),
    }
    for name, action in actions.items():
        if name in readers:
            material.attempt(action)


def _from_bundle(side: Side, label: str | None) -> list[Candidate]:
    bundle = side.bundle
    hashes = {entry.path: entry.sha256 for entry in bundle.captures}
    boots = [
        Candidate(
            name=f"boot {boot.number}",
            digests={
                name: hashes.get(kernel_member(boot, name))
                for name in (SYSTEM_MAP, KALLSYMS, BTF)
                if has_kernel_file(bundle, boot, name)
            },
            load=partial(_from_boot, side, boot, label or bundle.label),
        )
        for boot in bundle.boots
        if any(has_kernel_file(bundle, boot, name) for name in FILES)
    ]
    if not boots:
        raise InputError(f"{bundle.path}: no System.map, kallsyms or BTF{_why(bundle)}")
    return boots


def _why(bundle: Bundle) -> str:
    reasons: Sequence[str] = [
        entry.reason
        for entry in bundle.captures
        if entry.collector == "layout" and entry.status != "ok" and entry.reason is not None
    ]
    return f" ({reasons[0]})" if reasons else "; record again with the `layout` collector"


def _from_boot(side: Side, boot: Boot, label: str) -> Material:
    material = Material(
        label=label,
        machine=_machine_of_uname(boot.host.kernel.machine),
        build_id=boot.host.kernel.build_id,
    )
    readers = {
        name: partial(read_kernel_file, side, boot, name)
        for name in LIMITS_BYTES
        if has_kernel_file(side.bundle, boot, name)
    }

    def parse(data: bytes, whose: str) -> Btf:
        btf = side.shared(kernel_member(boot, BTF), partial(parse_btf, data, whose), "types")
        return btf.labelled(whose)

    _add_files(material, readers, f" of {label}", parse)
    return material


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check the file and its permissions") from None


def _read(path: Path, limit: int, *, is_whole: bool = True) -> bytes:
    # Files in /proc and /sys have no size, so the limit applies while reading.
    with _opened(path) as stream:
        content = stream.read(limit + is_whole)
    if len(content) > limit:
        raise InputError(
            f"{path}: too large (expected at most {limit >> 20} MiB for this file type); check "
            "that it is the right file"
        )
    return content


def machine_of_names(
    has_name: Callable[[str], bool], pointer_bytes: int | None, *, is_big_endian: bool | None
) -> str | None:
    """Return the architecture of a kernel with these names; None if none or several match.

    :param has_name: returns whether the kernel has a symbol or type with this name
    :param pointer_bytes: 4 or 8; None if unknown, which counts as 8
    :param is_big_endian: None if unknown, which counts as True for powerpc
    """
    fitting = [family for family, names in _NAMES.items() if any(map(has_name, names))]
    if len(fitting) != 1:
        return None
    is_wide = pointer_bytes in {None, _WIDE_BYTES}
    if fitting == ["powerpc"] and is_wide:
        return "ppc64" if is_big_endian in {None, True} else "ppc64le"
    wide = {"x86": "x86_64", "s390": "s390x", "riscv": "riscv64", "loongarch": "loongarch64"}
    narrow = {"x86": "i386", "riscv": "riscv32", "powerpc": "ppc"}
    return (wide if is_wide else narrow).get(fitting[0], fitting[0])


def machine_of_config(config: str) -> str | None:
    """Return the architecture of a kernel configuration; None if unknown.

    :param config: the text of a .config; "" if there is none
    """
    for option, machine in _OPTIONS.items():
        if re.search(rf"^CONFIG_{option}=y$", config, re.MULTILINE):
            if option == "PPC64" and "\nCONFIG_CPU_LITTLE_ENDIAN=y\n" in config:
                return "ppc64le"
            return machine
    return None


def _machine_of_uname(name: object) -> str | None:
    """Return the architecture's name for an output of ``uname -m``; None if it is not text."""
    return _UNAME.get(name, name) if isinstance(name, str) else None


def compile_time_line(config: str | None, machine: str | None) -> tuple[int | None, str]:
    """Return L1_CACHE_BYTES and a note.

    :param config: the text of a .config; None if there is none
    :param machine: the architecture; None if unknown
    :return: the value in the configuration or, if it has none, the constant of the architecture,
        with the note ""; for other x86_64 kernels, the default with a note that it is assumed; else
        None with the note ""
    """
    match = SHIFT_OPTION.search(config or "")
    if match and SMALLEST_LINE_BYTES <= 1 << int(match.group(2)) <= LARGEST_LINE_BYTES:
        return 1 << int(match.group(2)), ""
    constants = {_machine_of_uname(name): size for name, size in CONSTANT_LINE_BYTES.items()}
    if machine in constants:
        return constants[machine], ""
    if machine == "x86_64":
        return _X86_LINE_BYTES, (
            f"the cache line size is not recorded; {_X86_LINE_BYTES} bytes are assumed, the "
            "default of x86_64 kernels"
        )
    return None, ""


class _CacheLine(Struct, frozen=True, kw_only=True):
    """Cache line sizes; None if unknown."""

    compile_time_bytes: int | None = None
    hardware_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse invalid line sizes.

        :raises ValueError: a size is not a power of two or out of range
        """
        for name in ("compile_time_bytes", "hardware_bytes"):
            size = getattr(self, name)
            if size is not None and not _is_line_size(size):
                raise ValueError(
                    f"`{name}` is {size} (expected a power of two from {SMALLEST_LINE_BYTES} to "
                    f"{LARGEST_LINE_BYTES})"
                )


def _is_line_size(size: int) -> bool:
    return SMALLEST_LINE_BYTES <= size <= LARGEST_LINE_BYTES and size.bit_count() == 1


class _Facts(Struct, frozen=True, kw_only=True):
    """The machine facts in layout.json."""

    cacheline: _CacheLine


def parse_line_bytes(content: bytes, label: str) -> LineBytes:
    """Parse the line sizes in the layout.json of the layout collector; None for unknown ones.

    :param label: name of the file in messages
    :raises BundleError: the file is damaged, or a size is not a power of two or out of range
    """
    sizes = decode(content, _Facts, label).cacheline
    return LineBytes(compile_time=sizes.compile_time_bytes, hardware=sizes.hardware_bytes)
