# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the kernel's variables from a symbol table: System.map, ``nm vmlinux`` or /proc/kallsyms.

Two formats of the per-CPU section::

    0000000000000000 D __per_cpu_start          x86-64 up to 6.14: linked at address 0
    0000000000020238 D sd_llc_id
    ffff80000965c000 D __per_cpu_start          everywhere else: in the middle of the image
    ffff800009665a10 D sd_llc_id

Offsets are relative to ``__per_cpu_start``, as in BTF, so both formats are comparable, at any KASLR
offset. Offsets of global variables are relative to the first page of ``.data``. ``nm -S`` also
prints sizes::

    ffffffff82d4e040 0000000000000040 D nohz
"""

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct

from schedperf.inputs.kernel.symbol_lines import LONGEST_NAME, split_lines
from schedperf.model.errors import InputError

# Real kernels have 200 to 700 per-CPU variables, and up to about 8,000 with allocation tags. A
# distribution's kernel has 20,000 others.
PERCPU, GLOBALS = "per-CPU symbols", "symbols of .data and .bss"
MOST_SYMBOLS = {PERCPU: 50_000, GLOBALS: 400_000}
# The linker script aligns sections to pages.
PAGE_BYTES = 4096

# Address, size or None, nm's letter, name.
SymbolRow = tuple[int, int | None, str, str]

# Bounds of the section and its parts, not variables (include/asm-generic/vmlinux.lds.h).
_MARKERS = frozenset(
    f"__per_cpu_{mark}" for mark in ("start", "end", "load", "hot_start", "hot_pad", "hot_end")
)
# Bounds of parts of .data and .bss, symbols without data, and symbols of the nVHE hypervisor.
_GLOBAL_MARKERS = re.compile(
    r"_s?data|_edata|_end|_[se]bss|__bss_(?:start|stop|end)|__nosave_(?:begin|end)|__data_start"
    r"|__per_cpu_\w+|__(?:start|stop|init|end)_\w+|\$.*|__kvm_nvhe_.*"
)
# First and last symbols of .data and .bss.
_DATA, _BSS = ("_sdata", "_edata"), ("__bss_start", "__bss_stop")
# Letters of variables; excludes instructions, constants and absolute symbols.
_GLOBAL_LETTERS = frozenset("BbDdGgSsVvWw")
_SYMBOL_LINE = re.compile(
    rf"(?m)^([0-9a-f]{{8,16}}) (?:([0-9a-f]{{8,16}}) )?([A-Za-z?-]) (\S{{1,{LONGEST_NAME}}})$"
)
_NONZERO_ADDRESS = re.compile(rb"(?m)^0*[1-9a-f]")
# The stub of Debian and Ubuntu if the real file is in a separate package.
_STUB = re.compile(rb"The real System\.map is in the ([\w.+<>-]{1,100})")
# A stub has one line; the first lines of a table identify it.
_STUB_BYTES = 4096
_LOOKED_AT_LINES = 20


class PercpuSymbol(Struct, frozen=True, kw_only=True):
    """One symbol of the per-CPU section.

    :param offset: bytes from the section's start
    :param letter: nm's, e.g. "D" global, "d" static, "V" weak; always "A" in kallsyms of x86-64 up
        to 6.14
    :param size: bytes; None if the table has no sizes
    """

    offset: int
    letter: str
    name: str
    size: int | None = None


class PercpuSymbols(Struct, frozen=True, kw_only=True):
    """The per-CPU section of one kernel, from its symbol table.

    :param size: bytes from ``__per_cpu_start`` to ``__per_cpu_end``
    :param symbols: by offset, then in file order; aliases included
    :param hot: offsets of the first and last byte of the hot part (x86 since 6.15); None if there
        is none
    """

    size: int
    symbols: tuple[PercpuSymbol, ...]
    hot: tuple[int, int] | None = None


class GlobalSymbol(NamedTuple):
    """One symbol of .data or .bss; a tuple, since there are tens of thousands.

    :param offset: bytes from the first page of .data
    :param size: bytes; None if the table has no sizes
    :param letter: nm's, e.g. "D" global, "d" static; "B" and "b" in .bss, "V" or "W" weak
    """

    offset: int
    size: int | None
    letter: str
    name: str


class GlobalSymbols(Struct, frozen=True, kw_only=True):
    """The kernel's .data and .bss.

    :param size: bytes from the first page of .data to the end of .bss
    :param symbols: by offset from that page, then in file order; aliases included
    """

    size: int
    symbols: tuple[GlobalSymbol, ...]


def is_symbol_table(start: bytes) -> bool:
    """Return whether a file is a System.map, nm output or kallsyms, from its first bytes.

    True also for the stub that Debian and Ubuntu install in place of System.map.
    """
    first = start.split(b"\n", _LOOKED_AT_LINES)[:_LOOKED_AT_LINES]
    lines = (line.decode("utf-8", "replace") for line in first)
    return any(_SYMBOL_LINE.match(line.partition("\t")[0]) for line in lines) or bool(
        _STUB.search(start[:_STUB_BYTES])
    )


def parse_percpu_symbols(text: bytes, label: str) -> PercpuSymbols:
    """Parse the per-CPU section of a symbol table; the lines may be in any order.

    :param label: name of the source in messages: "System.map of base.tar"
    :raises InputError: the per-CPU section is missing, empty or invalid; the file is a stub or
        hides addresses; or there are too many symbols or lines
    """
    low, high = _percpu_bounds(text, label)
    rows = _rows_between(text, [(low, high)], label, PERCPU)
    return percpu_symbols(rows, int(low, 16), int(high, 16), label)


def percpu_symbols(rows: Sequence[SymbolRow], start: int, end: int, label: str) -> PercpuSymbols:
    """Return the per-CPU variables among some symbols, without the bounds of the section's parts.

    :param rows: the symbols between ``start`` and ``end``
    :param label: name of the source in messages
    :raises InputError: too many symbols
    """
    _check_count(len(rows), PERCPU, label)
    marks = {row[3]: row[0] - start for row in rows if row[3] in _MARKERS}
    first, pad = marks.get("__per_cpu_hot_start", 0), marks.get("__per_cpu_hot_pad", 0)
    variables = [row for row in rows if row[3] not in _MARKERS]
    return PercpuSymbols(
        size=end - start,
        symbols=_from(start, _without_absolute(variables)),
        hot=(first, pad - 1) if first < pad else None,
    )


def parse_global_symbols(text: bytes, label: str) -> GlobalSymbols:
    """Parse the variables of .data and .bss; the lines may be in any order.

    :param label: name of the source in messages
    :raises InputError: the bounds of both .data and .bss are missing or empty; a symbol is invalid;
        the file is a stub or hides addresses; or there are too many symbols or lines
    """

    def find(name: str) -> bytes | None:
        return _address_of(text, name.encode())

    ranges = [
        (low, high)
        for names in (_DATA, _BSS)
        if (low := find(names[0])) is not None and (high := find(names[1])) is not None
    ]
    _refuse_hidden(text, [address for pair in ranges for address in pair], label)
    bounds = [(int(low, 16), int(high, 16)) for low, high in ranges]
    return global_symbols(_rows_between(text, ranges, label, GLOBALS), bounds, label)


def global_bounds(find: Callable[[str], int | None]) -> list[tuple[int, int]]:
    """Return start and end address of .data and .bss; a section without both is left out.

    :param find: returns the address of a symbol, or None
    """
    pairs = [(find(names[0]), find(names[1])) for names in (_DATA, _BSS)]
    return [(low, high) for low, high in pairs if low is not None and high is not None]


def global_symbols(
    rows: Sequence[SymbolRow], bounds: Sequence[tuple[int, int]], label: str
) -> GlobalSymbols:
    """Return the variables of .data and .bss among some symbols.

    :param rows: the symbols within ``bounds``
    :param bounds: start and end address of each section
    :param label: name of the source in messages
    :raises InputError: no bounds, or too many symbols
    """
    if not any(low < high for low, high in bounds):
        raise InputError(
            f"{label}: no _sdata, _edata, __bss_start or __bss_stop (missing in kallsyms "
            "without CONFIG_KALLSYMS_ALL); use System.map"
        )
    _check_count(len(rows), GLOBALS, label)
    start = min(low for low, _ in bounds) // PAGE_BYTES * PAGE_BYTES
    marker = _GLOBAL_MARKERS.fullmatch
    kept = [
        GlobalSymbol(address - start, size, letter, name)
        for address, size, letter, name in rows
        if letter in _GLOBAL_LETTERS and not marker(name)
    ]
    kept.sort(key=itemgetter(0))
    return GlobalSymbols(size=max(high for _, high in bounds) - start, symbols=tuple(kept))


def _from(start: int, rows: Sequence[SymbolRow]) -> tuple[PercpuSymbol, ...]:
    return tuple(
        PercpuSymbol(offset=address - start, letter=letter, name=name, size=size)
        for address, size, letter, name in sorted(rows, key=lambda row: row[0])
    )


def _percpu_bounds(text: bytes, label: str) -> tuple[bytes, bytes]:
    low = _address_of(text, b"__per_cpu_start")
    high = _address_of(text, b"__per_cpu_end")
    if low is None and high is None:
        _refuse_hidden(text, (), label)
        raise InputError(
            f"{label}: no per-CPU symbols (missing in kallsyms without CONFIG_KALLSYMS_ALL); "
            "use System.map or BTF"
        )
    if low is None or high is None:
        missing = "__per_cpu_start" if low is None else "__per_cpu_end"
        raise InputError(f"{label}: symbol {missing} is missing; use the complete file")
    if low == high:
        _refuse_hidden(text, (low,), label)
        raise InputError(f"{label}: empty per-CPU section (the kernel is not SMP)")
    if len(low) != len(high) or low > high:
        raise InputError(
            f"{label}: invalid per-CPU section from __per_cpu_start {low.decode()}, __per_cpu_end "
            f"{high.decode()} (expected start < end, with the same number of digits); "
            "copy the file again"
        )
    return low, high


def note_of_cut(text: bytes, label: str) -> str | None:
    """Return a note that a System.map or nm output may be truncated; None if it is complete.

    The linker scripts of all architectures define ``_end`` after the last section.

    :param label: name of the source in messages
    """
    if _address_of(text, b"_end") is not None or text.endswith(b" _end"):
        return None
    return f"{label}: symbol _end is missing, so the file may be cut"


def _refuse_hidden(text: bytes, addresses: Sequence[bytes], label: str) -> None:
    # Refuse stubs, and tables without addresses (kptr_restrict).
    stub = _STUB.search(text[:_STUB_BYTES])
    if stub:
        raise InputError(
            f"{label}: stub without symbols; install {stub[1].decode('ascii', 'replace')} for the "
            "real System.map, or use BTF"
        )
    shown = any(address.strip(b"0") for address in addresses)
    if text and not shown and is_symbol_table(text) and _NONZERO_ADDRESS.search(text) is None:
        raise InputError(f"{label}: all addresses are hidden; capture as root (kptr_restrict)")


def _address_of(text: bytes, name: bytes) -> bytes | None:
    # The leading blank excludes __kvm_nvhe___per_cpu_start of arm64's hypervisor.
    end = text.find(b" " + name + b"\n")
    line = text[text.rfind(b"\n", 0, max(end, 0)) + 1 : max(end, 0)]
    match = re.fullmatch(rb"([0-9a-f]{8,16})(?: [0-9a-f]{8,16})? [A-Za-z]", line)
    return match[1] if match else None


def _check_count(count: int, part: str, label: str) -> None:
    if count > MOST_SYMBOLS[part]:
        raise InputError(
            f"{label}: {count} {part} (expected at most {MOST_SYMBOLS[part]}); "
            "use the symbol table of a real kernel"
        )


def _rows_between(
    text: bytes, ranges: Sequence[tuple[bytes, bytes]], label: str, part: str
) -> list[SymbolRow]:
    # Addresses of equal width sort as text, which saves 130,000 conversions. Symbols of modules
    # ("name\t[module]") are not in a section of the kernel.
    lines = split_lines(text, b"\n", label)
    inside: list[bytes] = []
    for low, high in ranges:
        # A line that begins with an address sorts after it.
        inside += [line for line in lines if low <= line < high]
    inside = [line for line in inside if b"\t" not in line]
    # Before they are parsed, which takes eight times the memory.
    _check_count(len(inside), part, label)
    kept = b"\n".join(inside)
    rows = _SYMBOL_LINE.findall(kept.decode("utf-8", "replace"))
    if kept and len(rows) != kept.count(b"\n") + 1:
        _refuse_line(kept, label)
    return [
        (int(address, 16), int(size, 16) if size else None, letter, name)
        for address, size, letter, name in rows
    ]


def _refuse_line(lines: bytes, label: str) -> None:
    for line in lines.decode("utf-8", "replace").split("\n"):
        if not _SYMBOL_LINE.fullmatch(line):
            raise InputError(
                f"{label}: invalid line {line[:60]!r} (expected `ADDRESS TYPE NAME`, e.g. "
                "`ffffffff82a00000 D jiffies_64`); copy the file again"
            )


def _without_absolute(rows: Sequence[SymbolRow]) -> Sequence[SymbolRow]:
    # Linker constants (kexec_control_code_size) are absolute symbols, not variables. But if the
    # section is linked at 0, scripts/kallsyms.c drops the constants and marks all per-CPU
    # variables as absolute.
    relative = [row for row in rows if row[2] not in "Aa"]
    return relative or rows
