"""The per-CPU section in a kernel's symbol table: System.map, ``nm vmlinux`` or /proc/kallsyms.

Two eras of one section::

    0000000000000000 D __per_cpu_start          x86-64 up to 6.14: linked at address 0
    0000000000020238 D sd_llc_id
    ffff80000965c000 D __per_cpu_start          everywhere else: in the middle of the image
    ffff800009665a10 D sd_llc_id

Offsets count from ``__per_cpu_start``, so the eras compare, KASLR drops out, and
an offset here is the one that BTF gives.
"""

import re
from dataclasses import dataclass

from schedperf.captures._symbol_table import LONGEST_NAME, split_lines
from schedperf.errors import InputError

# Real kernels have 200 to 700 variables, and up to some 8,000 with allocation tags.
MOST_SYMBOLS = 50_000

# They bound the section and its parts and are no variables (include/asm-generic/vmlinux.lds.h).
_MARKERS = frozenset(
    f"__per_cpu_{place}" for place in ("start", "end", "load", "hot_start", "hot_pad", "hot_end")
)
_SYMBOL_LINE = re.compile(r"([0-9a-f]{8,16}) ([A-Za-z]) (\S+)")
_NONZERO_ADDRESS = re.compile(rb"(?m)^0*[1-9a-f]")


@dataclass(frozen=True, kw_only=True, slots=True)
class PercpuSymbol:
    """One symbol of the per-CPU section.

    :param offset: bytes from ``__per_cpu_start``
    :param letter: nm's: "D" global, "d" static; "A" throughout kallsyms of x86-64 up to 6.14
    """

    offset: int
    letter: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PercpuSymbols:
    """The per-CPU section of one kernel, as its symbol table shows it.

    :param size: bytes from ``__per_cpu_start`` to ``__per_cpu_end``
    :param symbols: by offset, then in the order of the file; aliases included
    """

    size: int
    symbols: tuple[PercpuSymbol, ...]


def parse_percpu_symbols(text: bytes, label: str) -> PercpuSymbols:
    """Read the per-CPU section of a symbol table; the lines may be in any order.

    :param label: names the source in messages: "System.map of base.tar"
    :raises InputError: there is no per-CPU section, it is empty, or it makes no sense
    """
    low, high = _section_bounds(text, label)
    # Addresses of one width order like text, which spares 130,000 conversions.
    width = len(low)
    lines = [line for line in split_lines(text, b"\n", label) if low <= line[:width] < high]
    if len(lines) > MOST_SYMBOLS:
        raise InputError(
            f"{label}: {len(lines)} per-CPU symbols, more than {MOST_SYMBOLS}; "
            "use the symbol table of a real kernel"
        )
    start = int(low, 16)
    symbols = [
        symbol for line in lines if (symbol := _parse_symbol(line, start, label)) is not None
    ]
    return PercpuSymbols(
        size=int(high, 16) - start,
        symbols=tuple(sorted(_without_absolute(symbols), key=lambda symbol: symbol.offset)),
    )


def _section_bounds(text: bytes, label: str) -> tuple[bytes, bytes]:
    low = _address_of(text, b"__per_cpu_start")
    high = _address_of(text, b"__per_cpu_end")
    if low is None and high is None:
        raise InputError(
            f"{label}: no per-CPU symbols, as in kallsyms without CONFIG_KALLSYMS_ALL; "
            "use System.map or BTF"
        )
    if low is None or high is None:
        missing = "__per_cpu_start" if low is None else "__per_cpu_end"
        raise InputError(f"{label}: no {missing}; use the whole file")
    if low == high and _NONZERO_ADDRESS.search(text) is None:
        raise InputError(f"{label}: all addresses are hidden; capture as root (kptr_restrict)")
    if low == high:
        raise InputError(f"{label}: the per-CPU section is empty; the kernel is not SMP")
    if len(low) != len(high) or low > high:
        raise InputError(
            f"{label}: __per_cpu_start is {low.decode()} and __per_cpu_end is {high.decode()}; "
            "use an undamaged file"
        )
    return low, high


def _address_of(text: bytes, name: bytes) -> bytes | None:
    # The space in front keeps out __kvm_nvhe___per_cpu_start, arm64's section for its hypervisor.
    end = text.find(b" " + name + b"\n")
    line = text[text.rfind(b"\n", 0, max(end, 0)) + 1 : max(end, 0)]
    match = re.fullmatch(rb"([0-9a-f]{8,16}) [A-Za-z]", line)
    return match[1] if match else None


def _parse_symbol(line: bytes, start: int, label: str) -> PercpuSymbol | None:
    # Return None for what is no variable: a marker, or a module's symbol ("name\t[module]").
    text = line.decode("utf-8", "replace")
    if "\t" in text:
        return None
    match = _SYMBOL_LINE.fullmatch(text)
    if match is None or len(match[3]) > LONGEST_NAME:
        raise InputError(f"{label}: not a symbol line: {text[:60]!r}; use an undamaged file")
    if match[3] in _MARKERS:
        return None
    return PercpuSymbol(offset=int(match[1], 16) - start, letter=match[2], name=match[3])


def _without_absolute(symbols: list[PercpuSymbol]) -> list[PercpuSymbol]:
    # A linker constant (kexec_control_code_size) is an absolute symbol that only looks like a low
    # offset. In kallsyms of a section linked at 0 it is the other way round: scripts/kallsyms.c
    # drops the constants and marks every per-CPU variable absolute.
    relative = [symbol for symbol in symbols if symbol.letter not in "Aa"]
    return relative or symbols
