"""Finds the per-CPU layout in a bundle: the best source that can be read, and the line size."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from schedperf._json import JsonObject, parse_object
from schedperf.bundle import Boot
from schedperf.captures.btf import parse_percpu_section
from schedperf.captures.system_map import PercpuSymbols, parse_percpu_symbols
from schedperf.errors import InputError
from schedperf.percpu import PercpuMap, map_from_btf, map_from_symbols
from schedperf.sections import Absent
from schedperf.sides import Side
from schedperf_collectors._kernel_files import SYMBOLS_LIMIT_BYTES
from schedperf_collectors.layout import BTF_LIMIT_BYTES

# Symbol tables, best first: kallsyms only helps where it lists data, and gives no letters on x86.
SYMBOL_TABLES = ("System.map", "kallsyms")
LIMITS_BYTES = {
    "System.map": SYMBOLS_LIMIT_BYTES,
    "kallsyms": SYMBOLS_LIMIT_BYTES,
    "btf": BTF_LIMIT_BYTES,
    "layout.json": 1 << 20,
}
# Line sizes that exist: 16 bytes (early Arm) to 4096 (X86_INTERNODE_CACHE_SHIFT=12 of vSMP).
SMALLEST_LINE_BYTES = 16
LARGEST_LINE_BYTES = 4096

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, kw_only=True, slots=True)
class LineBytes:
    """How long a cache line is, in bytes; None where the capture does not say.

    :param compile_time: L1_CACHE_BYTES, which the kernel's alignments use
    :param hardware: what the machine's caches report
    """

    compile_time: int | None
    hardware: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SideLayout:
    """The per-CPU layout of one side.

    :param notes: what weakens it, one sentence each
    """

    percpu: PercpuMap
    line_bytes: LineBytes
    notes: tuple[str, ...]


def load_layout(side: Side) -> SideLayout:
    """Read the layout of the first boot that has one.

    :raises Absent: no boot has one; the message says what was tried
    """
    problems: list[str] = []
    for boot in side.bundle.boots:
        found: list[str] = []
        percpu = _load_map(side, boot, found)
        if percpu is not None:
            # Another source did it, so nobody has to mend these.
            found = [problem.rpartition("; ")[0] or problem for problem in found]
            line_bytes = _load_line_bytes(side, boot, found)
            others = [other for other in side.bundle.boots if other.number > boot.number]
            return SideLayout(
                percpu=percpu,
                line_bytes=line_bytes,
                notes=(*found, *percpu.notes, *_disagreements(side, boot, percpu, others)),
            )
        problems += found
    raise Absent("; ".join(problems) or _nothing_captured(side))


def _load_map(side: Side, boot: Boot, problems: list[str]) -> PercpuMap | None:
    section = _read(side, boot, "btf", parse_percpu_section, problems)
    for name in SYMBOL_TABLES:
        symbols: PercpuSymbols | None = _read(side, boot, name, parse_percpu_symbols, problems)
        if symbols is not None:
            return map_from_symbols(symbols, section, name)
    return None if section is None else map_from_btf(section)


def _read(
    side: Side, boot: Boot, name: str, parse: Callable[[bytes, str], Parsed], problems: list[str]
) -> Parsed | None:
    # A source that cannot be used is a note: the next one may do.
    path = _path(boot, name)
    if side.bundle.size(path) is None:
        return None
    try:
        return parse(side.bundle.read(path, LIMITS_BYTES[name]), f"{name} of {side.name}")
    except InputError as error:
        problems.append(str(error))
        return None


def _path(boot: Boot, name: str) -> str:
    return f"{boot.folder}/layout/{name}"


def _nothing_captured(side: Side) -> str:
    reasons = [
        entry.reason
        for entry in side.bundle.captures
        if entry.collector == "layout" and entry.status != "ok" and entry.reason is not None
    ]
    why = f": {reasons[0]}" if reasons else ""
    return f"no System.map, kallsyms or BTF in {side.name}{why}"


def _disagreements(side: Side, first: Boot, percpu: PercpuMap, others: list[Boot]) -> Iterator[str]:
    # Boots of one bundle run one kernel; equal files need no second reading.
    hashes = {entry.path: entry.sha256 for entry in side.bundle.captures}

    def known(boot: Boot) -> list[str | None]:
        return [hashes.get(_path(boot, name)) for name in percpu.sources]

    for boot in others:
        if None not in known(boot) and known(boot) == known(first):
            continue
        other = _load_map(side, boot, [])
        if other is not None and other.variables != percpu.variables:
            yield (
                f"boot {boot.number} of {side.name} has another per-CPU layout than "
                f"boot {first.number}, which is shown"
            )


def _load_line_bytes(side: Side, boot: Boot, problems: list[str]) -> LineBytes:
    found = _read(side, boot, "layout.json", _parse_line_bytes, problems)
    return LineBytes(compile_time=None, hardware=None) if found is None else found


def _parse_line_bytes(content: bytes, label: str) -> LineBytes:
    cacheline = parse_object(content, label).child("cacheline")
    return LineBytes(
        compile_time=_line_size(cacheline, "compile_time_bytes"),
        hardware=_line_size(cacheline, "hardware_bytes"),
    )


def _line_size(cacheline: JsonObject, key: str) -> int | None:
    size = cacheline.optional(cacheline.count, key)
    if size is None:
        return None
    if not SMALLEST_LINE_BYTES <= size <= LARGEST_LINE_BYTES or size.bit_count() != 1:
        raise cacheline.wrong(
            key, f"a power of two from {SMALLEST_LINE_BYTES} to {LARGEST_LINE_BYTES}"
        )
    return size
