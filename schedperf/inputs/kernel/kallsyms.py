# SPDX-License-Identifier: GPL-2.0-or-later
"""Look up kernel symbols by address: /proc/kallsyms, System.map or ``nm vmlinux``.

::

    ffffffff8110a2d0 t finish_task_switch.isra.0
    ffffffffc0a01000 t nf_ct_get_tuple<tab>[nf_conntrack]

kallsyms has the addresses of the running kernel; System.map has link addresses, and KASLR shifts
all of them by the same offset, the *slide*.
"""

import re
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from schedperf.inputs.kernel.symbol_lines import LONGEST_NAME, check_lines
from schedperf.model.errors import InputError

# Text and data, as in perf (symbol_type__filter of tools/perf/util/symbol.c): a data symbol ends
# the text symbol before it. Absolute and read-only symbols are omitted.
_LETTERS = b"TtWwDdBb"
# arm64's mapping symbols `$x` and `$d` mark instructions and data.
_MAPPING_SYMBOL = ord("$")
_EARLY_PREFIX = "__pi_"
PAGE_BYTES = 4096
_ADDRESS_END = 1 << 64

# Index for addresses outside of all symbols.
NO_SYMBOL = -1

# Digits of the longest address.
_MOST_DIGITS = 16
# Address, type and name; and the module.
_FEWEST_FIELDS, _MOST_FIELDS = 3, 4

# One valid line, to report the first invalid one; the blanks around the fields vary.
_LINE = re.compile(
    r"^[ \t]*([0-9A-Fa-f]{1,16})[ \t]+(\S+)[ \t]+"
    rf"(\S{{1,{LONGEST_NAME}}})(?:[ \t]+(\S+))?[ \t\r]*$",
    re.MULTILINE,
)
# BPF programs, and trampolines of ftrace and kprobes.
_GENERATED = re.compile(r"^.*\[(?:bpf|__builtin__\w+)\]$\n?", re.MULTILINE)
# Type letter, name, module in brackets; the module is "" for the kernel itself.
_Entry = tuple[str, str, str]
_Offsets = NDArray[np.int64]


class Symbol(Struct, frozen=True, kw_only=True):
    """One symbol.

    :param module: name without brackets; "bpf" or "__builtin__…" for generated code; None for the
        kernel itself
    :param start: address of its first byte
    :param end: address after its last byte
    """

    name: str
    module: str | None
    start: int
    end: int


class KernelSymbols:
    """The symbols of one running kernel, with the best alias of each address.

    The order of preference is that of perf (choose_best_symbol of tools/perf/util/symbol.c): not
    weak, global, fewer leading underscores, longer. Some versions of perf report another alias,
    because they assign all bytes to the last symbol of an address. ``__pi_`` aliases (code that
    runs before relocation) come last here, and equal aliases are ordered by name, so that the
    result is the same for all kernels with the same aliases.
    """

    def __init__(self, table: "_Table") -> None:
        order = np.argsort(table.address, kind="stable")
        self._starts, first, counts = np.unique(
            table.address[order], return_index=True, return_counts=True
        )
        best = order[first]
        for index in np.flatnonzero(counts > 1).tolist():
            aliases = order[first[index] : first[index] + counts[index]].tolist()
            best[index] = min(aliases, key=lambda line: _rank(table.entry(line)))
        self._best = best
        self._table = table
        self._ends = _ends(self._starts, table.modules()[best])
        self._module_starts: Mapping[str, int] | None = None

    def __len__(self) -> int:
        return len(self._best)

    def __getitem__(self, index: int) -> Symbol:
        """Return a symbol by its index in address order."""
        _, name, module = self._table.entry(self._best[index])
        start, end = int(self._starts[index]), int(self._ends[index])
        return Symbol(name=name, module=module.strip("[]") or None, start=start, end=end)

    def module_start(self, module: str) -> int | None:
        """Return the address of the first function of a module; None if it has none."""
        if self._module_starts is None:
            self._module_starts = self._table.module_starts()
        return self._module_starts.get(module)

    def find(self, address: int) -> Symbol | None:
        """Return the symbol that contains an address; None if there is none."""
        if not 0 <= address < _ADDRESS_END:
            return None
        index = int(self.find_all(np.array([address], np.uint64))[0])
        return None if index == NO_SYMBOL else self[index]

    def find_all(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the index of the symbol of each address, or ``NO_SYMBOL``; shape (addresses,)."""
        index = np.searchsorted(self._starts, addresses, side="right") - 1
        inside = (index >= 0) & (addresses < self._ends[index])
        return np.where(inside, index, NO_SYMBOL)


class _Table(Struct, frozen=True, kw_only=True):
    """Lines as columns of shape (lines,): a kernel has 200,000 names, of which few are used.

    :param name: start and end of each name in ``content``
    :param module: start and end of each module in ``content``; 0 and 0 without a module
    """

    content: bytes
    address: NDArray[np.uint64]
    letter: NDArray[np.uint8]
    name: tuple[_Offsets, _Offsets]
    module: tuple[_Offsets, _Offsets]

    def entry(self, line: int) -> _Entry:
        """Return letter, name and module of one line."""
        return chr(self.letter[line]), self._text(self.name, line), self._text(self.module, line)

    def _text(self, field: tuple[_Offsets, _Offsets], line: int) -> str:
        start, end = field
        return self.content[start[line] : end[line]].decode("utf-8", "replace")

    def module_starts(self) -> dict[str, int]:
        """Return the address of the first function of each module."""
        numbers = self.modules()
        lines = np.flatnonzero((numbers > 0) & np.isin(self.letter, list(b"Tt")))
        lines = lines[np.argsort(self.address[lines], kind="stable")]
        _, first = np.unique(numbers[lines], return_index=True)
        return {
            self._text(self.module, line).strip("[]"): int(self.address[line])
            for line in lines[first].tolist()
        }

    def modules(self) -> _Offsets:
        """Return the number of each line's module; 0 is the kernel itself."""
        numbers = np.zeros(len(self.address), np.int64)
        starts, ends = self.module
        number_of: dict[bytes, int] = {}
        (lines,) = np.nonzero(ends)
        for line, start, end in zip(
            lines.tolist(), starts[lines].tolist(), ends[lines].tolist(), strict=True
        ):
            numbers[line] = number_of.setdefault(self.content[start:end], len(number_of) + 1)
        return numbers


def _ends(starts: NDArray[np.uint64], modules: _Offsets) -> NDArray[np.uint64]:
    # A symbol ends at the next symbol; the last one of the kernel or of a module at the end of the
    # next page at most, as in symbols__fixup_end of perf.
    if not len(starts):
        return starts
    page = np.uint64(PAGE_BYTES)
    guess = (starts + (page + page - np.uint64(1))) // page * page
    # At the end of the address space the sum overflows.
    guess = np.where(guess < starts, np.uint64(_ADDRESS_END - 1), guess)
    following = np.append(starts[1:], np.uint64(_ADDRESS_END - 1))
    is_last = np.append(modules[1:] != modules[:-1], True)
    return np.where(is_last, np.minimum(guess, following), following)


def parse_kernel_symbols(text: str, label: str, *, slide: int = 0) -> KernelSymbols:
    """Parse a symbol table; the lines may be in any order.

    :param label: name of the source in messages: "kallsyms of base.tar"
    :param slide: bytes to add to the addresses of the table
    :raises InputError: the text is not a symbol table, has too many lines, or has no usable
        addresses
    """
    table = _read_table(text, label) if check_lines(text, "\n", label) else None
    if table is None or not len(table.address):
        raise InputError(f"{label}: no function symbols; use the complete file")
    if not table.address.any():
        raise InputError(f"{label}: all addresses are hidden; capture as root (kptr_restrict)")
    # Modulo 2**64, as the kernel computes.
    return KernelSymbols(replace(table, address=table.address + np.uint64(slide % _ADDRESS_END)))


def _read_table(text: str, label: str) -> _Table:
    # Text and data symbols. The leading blank makes the first field like all others.
    content = b" " + text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n")
    characters = np.frombuffer(content, np.uint8)
    is_blank = characters <= ord(" ")
    borders = np.flatnonzero(is_blank[1:] != is_blank[:-1]) + 1
    starts, ends = borders[::2], borders[1::2]
    behind = np.searchsorted(starts, np.flatnonzero(characters == ord("\n")))
    fields = np.diff(behind, prepend=0)
    if np.any((fields < _FEWEST_FIELDS) | (fields > _MOST_FIELDS)):
        raise _damaged_line(text, label)
    first = behind - fields
    name = first + 2
    address = _read_numbers(characters, starts[first], ends[first])
    if address is None or np.any(ends[name] - starts[name] > LONGEST_NAME):
        raise _damaged_line(text, label)
    letter = characters[starts[first + 1]]
    chosen = np.isin(letter, list(_LETTERS)) & (ends[first + 1] - starts[first + 1] == 1)
    chosen &= characters[starts[name]] != _MAPPING_SYMBOL
    has_module = fields[chosen] == _MOST_FIELDS
    name, module = name[chosen], np.where(has_module, first[chosen] + 3, 0)
    return _Table(
        content=content,
        address=address[chosen],
        letter=letter[chosen],
        name=(starts[name], ends[name]),
        module=(starts[module] * has_module, ends[module] * has_module),
    )


def _read_numbers(
    characters: NDArray[np.uint8], starts: _Offsets, ends: _Offsets
) -> NDArray[np.uint64] | None:
    # Hexadecimal numbers of up to 16 digits; None if a field is not a number.
    lengths = ends - starts
    if np.any(lengths > _MOST_DIGITS):
        return None
    padded = np.concatenate((np.full(_MOST_DIGITS, ord("0"), np.uint8), characters))
    # Padding by 16 characters turns the end of a field into the start of its 16 digits.
    digits = sliding_window_view(padded, _MOST_DIGITS)[ends]
    if np.any(lengths < _MOST_DIGITS):
        digits[np.arange(_MOST_DIGITS) < _MOST_DIGITS - lengths[:, None]] = ord("0")
    try:
        return np.frombuffer(bytes.fromhex(digits.tobytes().decode("latin-1")), ">u8").astype(
            np.uint64
        )
    except ValueError:
        return None


def address_of(text: str, name: str) -> int | None:
    """Return the address of a symbol of the kernel itself, from the text of a symbol table.

    None if the table has no such symbol, or its address is not a number.
    """
    end = text.find(f" {name}\n")
    if end < 0:
        return None
    address = text[text.rfind("\n", 0, end) + 1 : end].partition(" ")[0]
    return _parse_address(address)


def without_modules(text: str) -> str:
    """Return a table without the lines of modules and generated code.

    Their addresses change with each boot.
    """
    return "".join(line for line in text.splitlines(keepends=True) if "[" not in line)


def without_generated_code(text: str) -> str:
    """Return a table without the lines of BPF programs and of trampolines of ftrace and kprobes."""
    return _GENERATED.sub("", text)


def _damaged_line(text: str, label: str) -> InputError:
    for number, line in enumerate(text.split("\n"), start=1):
        if not _LINE.fullmatch(line):
            return InputError(
                f"{label}:{number}: invalid line {line[:60]!r} (expected `ADDRESS TYPE NAME`, as "
                "in /proc/kallsyms); copy the file again"
            )
    return InputError(
        f"{label}: invalid symbol table (expected the format of /proc/kallsyms); copy the "
        "file again"
    )


def _parse_address(text: str) -> int | None:
    try:
        address = int(text, 16)
    except ValueError:
        return None
    return address if 0 <= address < _ADDRESS_END else None


def _rank(entry: _Entry) -> tuple[bool, bool, bool, int, int, str]:
    letter, name, _ = entry
    underscores = len(name) - len(name.lstrip("_"))
    is_early = name.startswith(_EARLY_PREFIX)
    return is_early, letter in "Ww", not letter.isupper(), underscores, -len(name), name
