"""Kernel symbols by address, from /proc/kallsyms, System.map or ``nm vmlinux``.

::

    ffffffff8110a2d0 t finish_task_switch.isra.0
    ffffffffc0a01000 t nf_ct_get_tuple<tab>[nf_conntrack]

kallsyms has the addresses of the running kernel; System.map has those of the
link, and KASLR moves them all by one distance, the *slide*.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from schedperf.captures._symbol_table import LONGEST_NAME, split_lines
from schedperf.errors import InputError

# Text and data, as perf reads them (symbol_type__filter of tools/perf/util/symbol.c): data too,
# since it ends the text symbol in front of it. Absolute and read-only symbols are left out.
_LETTERS = frozenset("TtWwDdBb")
# `$x` and `$d` of arm64 say what follows, instructions or data, and name nothing.
_MAPPING_SYMBOL = "$"
_EARLY_PREFIX = "__pi_"
_PAGE_BYTES = 4096
_ADDRESS_END = 1 << 64

# Address, type letter, name, module; the module is "" for the kernel itself.
_Entry = tuple[int, str, str, str]


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

    def __init__(self, entries: Iterable[_Entry]) -> None:
        by_address = sorted(entries, key=itemgetter(0))
        best = [_choose(list(group)) for _, group in groupby(by_address, key=itemgetter(0))]
        self._best = best
        self._starts: Sequence[int] = [entry[0] for entry in best]

    def __len__(self) -> int:
        return len(self._best)

    def find(self, address: int) -> Symbol | None:
        """Return the symbol that an address lies in; None outside of all."""
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        start, _, name, module = self._best[index]
        end = self._end(index)
        if address >= end:
            return None
        return Symbol(name=name, module=module or None, start=start, end=end)

    def _end(self, index: int) -> int:
        # A symbol ends where the next begins. The last one of the kernel or of a module ends
        # somewhere in its page or the next, as in symbols__fixup_end of perf.
        start, module = self._best[index][0], self._best[index][3]
        following = self._best[index + 1] if index + 1 < len(self._best) else None
        guess = (start + 2 * _PAGE_BYTES - 1) & -_PAGE_BYTES
        if following is None:
            return guess
        return following[0] if following[3] == module else min(guess, following[0])


def parse_kernel_symbols(text: str, label: str, *, slide: int = 0) -> KernelSymbols:
    """Read a symbol table; the lines may be in any order.

    :param slide: bytes that the kernel lies behind the addresses of the table
    :param label: names the source in messages: "kallsyms of base.tar"
    :raises InputError: it is none, or has no usable addresses
    """
    entries = []
    for number, line in enumerate(split_lines(text, "\n", label), start=1):
        entry = _parse_line(line, slide)
        if entry is None:
            raise InputError(
                f"{label}:{number}: not a symbol: {line[:60]!r}; use an undamaged file"
            )
        if entry[1] in _LETTERS and not entry[2].startswith(_MAPPING_SYMBOL):
            entries.append(entry)
    if not entries:
        raise InputError(f"{label}: no symbols of functions; use the whole file")
    if all(entry[0] == slide % _ADDRESS_END for entry in entries):
        raise InputError(f"{label}: all addresses are hidden; capture as root (kptr_restrict)")
    return KernelSymbols(entries)


def address_of(text: str, name: str) -> int | None:
    """Return the address of one symbol of a symbol table; None if it has no such symbol."""
    end = text.find(f" {name}\n")
    if end < 0:
        return None
    address = text[text.rfind("\n", 0, end) + 1 : end].partition(" ")[0]
    return _parse_address(address)


def _parse_line(line: str, slide: int) -> _Entry | None:
    fields = line.split()
    if not 3 <= len(fields) <= 4 or len(fields[2]) > LONGEST_NAME:  # noqa: PLR2004
        return None
    address = _parse_address(fields[0])
    if address is None:
        return None
    module = fields[3].strip("[]") if len(fields) == 4 else ""  # noqa: PLR2004
    return (address + slide) % _ADDRESS_END, fields[1], fields[2], module


def _parse_address(text: str) -> int | None:
    try:
        address = int(text, 16)
    except ValueError:
        return None
    return address if 0 <= address < _ADDRESS_END else None


def _choose(aliases: Sequence[_Entry]) -> _Entry:
    return min(aliases, key=_rank) if len(aliases) > 1 else aliases[0]


def _rank(entry: _Entry) -> tuple[bool, bool, bool, int, int, str]:
    _, letter, name, _ = entry
    underscores = len(name) - len(name.lstrip("_"))
    is_early = name.startswith(_EARLY_PREFIX)
    return is_early, letter in "Ww", not letter.isupper(), underscores, -len(name), name
