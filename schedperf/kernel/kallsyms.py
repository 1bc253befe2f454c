# SPDX-License-Identifier: GPL-2.0-or-later
"""Look up kernel symbols by address: /proc/kallsyms, System.map or ``nm vmlinux``.

::

    ffffffff8110a2d0 t finish_task_switch.isra.0
    ffffffffc0a01000 t nf_ct_get_tuple<tab>[nf_conntrack]

kallsyms has the addresses of the running kernel; System.map has those of the
link, and KASLR moves them all by one distance, the *slide*.
"""

import re
from dataclasses import dataclass, replace
from typing import AnyStr

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from schedperf.model.errors import InputError

# KSYM_NAME_LEN of include/linux/kallsyms.h: no kernel prints a longer name.
LONGEST_NAME = 512
# A distribution's kernel with its modules has 200,000, one with all drivers built in 500,000.
MOST_LINES = 2_000_000
# Text and data, as perf reads them (symbol_type__filter of tools/perf/util/symbol.c): data too,
# since it ends the text symbol in front of it. Absolute and read-only symbols are left out.
_LETTERS = b"TtWwDdBb"
# `$x` and `$d` of arm64 say what follows, instructions or data, and name nothing.
_MAPPING_SYMBOL = ord("$")
_EARLY_PREFIX = "__pi_"
_PAGE_BYTES = 4096
_ADDRESS_END = 1 << 64

# What an index is where an address lies in no symbol.
NO_SYMBOL = -1

# Digits of the longest address.
_MOST_DIGITS = 16
# Address, type and name; and the module.
_FEWEST_FIELDS, _MOST_FIELDS = 3, 4

# One line, to find the one that is none; what stands around the fields varies.
_LINE = re.compile(
    r"^[ \t]*([0-9A-Fa-f]{1,16})[ \t]+(\S+)[ \t]+"
    rf"(\S{{1,{LONGEST_NAME}}})(?:[ \t]+(\S+))?[ \t\r]*$",
    re.MULTILINE,
)
# Type letter, name, module in brackets; the module is "" for the kernel itself.
_Entry = tuple[str, str, str]
_Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Symbol:
    """One symbol.

    :param module: None for the kernel itself
    :param end: address behind its last byte
    """

    name: str
    module: str | None
    start: int
    end: int


class KernelSymbols:
    """The symbols of one running kernel; of several at one address the best one.

    The best is chosen as perf means to (choose_best_symbol of
    tools/perf/util/symbol.c): not weak, global, with fewer underscores in front,
    longer. Some versions of perf report another alias all the same, since they
    give the last one of an address all of its bytes. Here ``__pi_`` aliases, made
    for code that runs before relocation, come last, and what is still equal is
    chosen by name, so that two kernels with the same aliases agree.
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

    def __len__(self) -> int:
        return len(self._best)

    def __getitem__(self, index: int) -> Symbol:
        """Return a symbol by its number in the order of addresses."""
        _, name, module = self._table.entry(self._best[index])
        start, end = int(self._starts[index]), int(self._ends[index])
        return Symbol(name=name, module=module.strip("[]") or None, start=start, end=end)

    def find(self, address: int) -> Symbol | None:
        """Return the symbol that an address lies in; None outside of all."""
        if not 0 <= address < _ADDRESS_END:
            return None
        index = int(self.find_all(np.array([address], np.uint64))[0])
        return None if index == NO_SYMBOL else self[index]

    def find_all(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return for each address the number of its symbol, or ``NO_SYMBOL``."""
        index = np.searchsorted(self._starts, addresses, side="right") - 1
        inside = (index >= 0) & (addresses < self._ends[index])
        return np.where(inside, index, NO_SYMBOL)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Table:
    # Lines as columns of shape (lines,): a kernel has 200,000 names, of which few are asked for.
    # Where names and modules start and end in ``content``; a line without a module has 0 and 0.

    content: bytes
    address: NDArray[np.uint64]
    letter: NDArray[np.uint8]
    name: tuple[_Places, _Places]
    module: tuple[_Places, _Places]

    def entry(self, line: int) -> _Entry:
        """Return what is read of one line."""
        return chr(self.letter[line]), self._text(self.name, line), self._text(self.module, line)

    def _text(self, field: tuple[_Places, _Places], line: int) -> str:
        start, end = field
        return self.content[start[line] : end[line]].decode("utf-8", "replace")

    def modules(self) -> _Places:
        """Number the modules; 0 is the kernel itself."""
        numbers = np.zeros(len(self.address), np.int64)
        starts, ends = self.module
        known: dict[bytes, int] = {}
        (lines,) = np.nonzero(ends)
        for line, start, end in zip(
            lines.tolist(), starts[lines].tolist(), ends[lines].tolist(), strict=True
        ):
            numbers[line] = known.setdefault(self.content[start:end], len(known) + 1)
        return numbers


def _ends(starts: NDArray[np.uint64], modules: _Places) -> NDArray[np.uint64]:
    # A symbol ends where the next begins. The last one of the kernel or of a module ends
    # somewhere in its page or the next, as in symbols__fixup_end of perf.
    if not len(starts):
        return starts
    page = np.uint64(_PAGE_BYTES)
    guess = (starts + (page + page - np.uint64(1))) // page * page
    # At the very end of the address space the next page would be the first.
    guess = np.where(guess < starts, np.uint64(_ADDRESS_END - 1), guess)
    following = np.append(starts[1:], np.uint64(_ADDRESS_END - 1))
    is_last = np.append(modules[1:] != modules[:-1], True)
    return np.where(is_last, np.minimum(guess, following), following)


def parse_kernel_symbols(text: str, label: str, *, slide: int = 0) -> KernelSymbols:
    """Read a symbol table; the lines may be in any order.

    :param slide: bytes that the kernel lies behind the addresses of the table
    :param label: names the source in messages: "kallsyms of base.tar"
    :raises InputError: it is none, or has no usable addresses
    """
    table = _read_table(text, label) if _check_lines(text, "\n", label) else None
    if table is None or not len(table.address):
        raise InputError(f"{label}: no symbols of functions; use the whole file")
    if not table.address.any():
        raise InputError(f"{label}: all addresses are hidden; capture as root (kptr_restrict)")
    # Modulo 2**64, as the kernel computes.
    return KernelSymbols(replace(table, address=table.address + np.uint64(slide % _ADDRESS_END)))


def _read_table(text: str, label: str) -> _Table:
    # The lines of functions. A blank in front lets the first field begin as all others do.
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
    characters: NDArray[np.uint8], starts: _Places, ends: _Places
) -> NDArray[np.uint64] | None:
    # Hexadecimal numbers of up to 16 digits; None: one of the fields is none.
    lengths = ends - starts
    if np.any(lengths > _MOST_DIGITS):
        return None
    padded = np.concatenate((np.full(_MOST_DIGITS, ord("0"), np.uint8), characters))
    # What ends at a place begins there in what is padded by as many characters.
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
    """Return the address of one symbol of a symbol table; None if it has no such symbol."""
    end = text.find(f" {name}\n")
    if end < 0:
        return None
    address = text[text.rfind("\n", 0, end) + 1 : end].partition(" ")[0]
    return _parse_address(address)


def without_modules(text: str) -> str:
    """Return a table without the lines of modules: at another boot they are elsewhere."""
    return "".join(line for line in text.splitlines(keepends=True) if "[" not in line)


def _damaged_line(text: str, label: str) -> InputError:
    for number, line in enumerate(text.split("\n"), start=1):
        if not _LINE.fullmatch(line):
            return InputError(
                f"{label}:{number}: not a symbol: {line[:60]!r}; use an undamaged file"
            )
    return InputError(f"{label}: not a symbol table; use an undamaged file")


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


def _check_lines(text: AnyStr, end: AnyStr, label: str) -> int:
    """Return how many lines a table has.

    :param end: what ends a line
    :param label: names the source in messages
    :raises InputError: they are too many for the memory
    """
    count = text.count(end) + (not text.endswith(end) if text else 0)
    if count > MOST_LINES:
        raise InputError(
            f"{label}: {count} lines, more than {MOST_LINES}; use the symbol table of a real kernel"
        )
    return count


def split_lines(text: AnyStr, end: AnyStr, label: str) -> list[AnyStr]:
    """Split a table into lines; parameters and errors are those of :func:`check_lines`."""
    _check_lines(text, end, label)
    return text.removesuffix(end).split(end) if text else []
