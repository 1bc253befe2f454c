# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a kernel with text and data at known link-time and run-time addresses."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from schedperf_generators.records import KERNEL_PID, Mmap
from schedperf_generators.samples import MODE_KERNEL

# Link address of the x86-64 kernel, and first address of its modules.
TEXT_START = 0xFFFFFFFF81000000
MODULES_START = 0xFFFFFFFFC0000000
DATA_START = 0xFFFFFFFF82A00000
BUILD_ID = bytes(range(20))
# perf attributes the rest of the page to the last function.
_PAGE = 4096
# Default alignment of functions in x86-64 kernels.
_ALIGN = 16


class Symbol(NamedTuple):
    """A function or variable.

    :param address: link-time address in the kernel, run-time address in a module
    :param module: None for the kernel itself
    """

    name: str
    address: int
    size: int
    module: str | None = None


class Where(NamedTuple):
    """The names of an address in perf's output, and its offset from the start of the symbol."""

    dso: str
    symbol: str
    offset: int


def lay_out(
    names: Iterable[str], start: int = TEXT_START, *, size: int = 256, module: str | None = None
) -> tuple[Symbol, ...]:
    """Place functions of one size at consecutive addresses.

    :param start: address of the first function
    :param size: size of each function in bytes, which is rounded up to the alignment
    :param module: module of the functions; None for the kernel itself
    """
    step = -(-size // _ALIGN) * _ALIGN
    return tuple(
        Symbol(name, start + index * step, step, module) for index, name in enumerate(names)
    )


@dataclass(frozen=True, kw_only=True)
class KernelImage:
    """A kernel, with link-time and run-time addresses.

    :param functions: functions without gaps between them in the kernel or in a module
    :param variables: variables of the kernel itself, at link-time addresses, sorted by address
    :param per_cpu: variables in each CPU's copy of the per-CPU section; addresses are offsets
    :param per_cpu_bytes: size of the per-CPU section
    :param slide: KASLR offset: run-time address - link-time address
    :param build_id: 20 bytes
    """

    functions: tuple[Symbol, ...]
    variables: tuple[Symbol, ...] = ()
    per_cpu: tuple[Symbol, ...] = ()
    per_cpu_bytes: int = 0
    slide: int = 0
    build_id: bytes = BUILD_ID

    def address(self, name: str, offset: int = 0) -> int:
        """Return the run-time address of a function or variable, plus an offset.

        :raises KeyError: the name is unknown, or each CPU has its own copy of the variable
        """
        return self._by_name[name] + offset

    def where(self, address: int) -> Where | None:
        """Return the names of a run-time address in the text; None outside of it.

        As for perf, the last function of the kernel or of a module extends to the end of its page.
        """
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        start, symbol = self._starts[index], self._text[index]
        last = index + 1 == len(self._text) or self._text[index + 1].module != symbol.module
        end = start + symbol.size
        if address >= (-(-end // _PAGE) * _PAGE if last else end):
            return None
        dso = f"[{symbol.module}]" if symbol.module else "[kernel.kallsyms]"
        return Where(dso, symbol.name, address - start)

    def mappings(self) -> tuple[Mmap, ...]:
        """Return the mmap records of the kernel and its modules."""
        own = [symbol for symbol in self._text if not symbol.module]
        start, end = self._run_time(own[0]), self._run_time(own[-1]) + own[-1].size
        maps = [(start, end, start, "[kernel.kallsyms]_text")]
        for module in dict.fromkeys(symbol.module for symbol in self._text if symbol.module):
            parts = [symbol for symbol in self._text if symbol.module == module]
            path = f"/lib/modules/6.14.0/kernel/generated/{module}.ko"
            maps.append((parts[0].address, parts[-1].address + parts[-1].size, 0, path))
        return tuple(
            Mmap(
                pid=KERNEL_PID, tid=0, start=first, length=-(-(last - first) // _PAGE) * _PAGE,
                page_offset=page_offset, path=path, mode=MODE_KERNEL,
            )
            for first, last, page_offset, path in maps
        )  # fmt: skip

    def kallsyms(self) -> str:
        """Return /proc/kallsyms of the running kernel: functions, ``_text`` and ``_etext``."""
        own = [symbol for symbol in self._text if not symbol.module]
        rows: list[tuple[int, str, str, str | None]] = []
        rows.append((self._run_time(own[0]), "T", "_text", None))
        rows += [(self._run_time(symbol), "t", symbol.name, symbol.module) for symbol in self._text]
        rows.append((self._run_time(own[-1]) + own[-1].size, "T", "_etext", None))
        return "".join(
            f"{address:016x} {letter} {name}" + (f"\t[{module}]" if module else "") + "\n"
            for address, letter, name, module in sorted(rows, key=lambda row: row[0])
        )

    def system_map(self) -> str:
        """Return System.map of the build, with per-CPU variables from 0 as x86-64 links them."""
        own = [symbol for symbol in self._text if not symbol.module]
        rows = [(0, "D", "__per_cpu_start"), (self.per_cpu_bytes, "D", "__per_cpu_end")]
        rows += [(variable.address, "d", variable.name) for variable in self.per_cpu]
        rows.append((own[0].address, "T", "_text"))
        rows += [(symbol.address, "t", symbol.name) for symbol in own]
        rows.append((own[-1].address + own[-1].size, "T", "_etext"))
        rows += [(variable.address, "d", variable.name) for variable in self.variables]
        if self.variables:
            first, last = self.variables[0], self.variables[-1]
            rows.append((first.address // _PAGE * _PAGE, "D", "_sdata"))
            rows.append((last.address + last.size, "D", "_edata"))
        rows.append((max(rows)[0] // _PAGE * _PAGE + _PAGE, "B", "_end"))
        return "".join(
            f"{address:016x} {letter} {name}\n" for address, letter, name in sorted(rows)
        )

    def _run_time(self, symbol: Symbol) -> int:
        return symbol.address + (0 if symbol.module else self.slide)

    @cached_property
    def _text(self) -> tuple[Symbol, ...]:
        return tuple(sorted(self.functions, key=self._run_time))

    @cached_property
    def _starts(self) -> list[int]:
        return [self._run_time(symbol) for symbol in self._text]

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {
            symbol.name: self._run_time(symbol) for symbol in (*self.functions, *self.variables)
        }
