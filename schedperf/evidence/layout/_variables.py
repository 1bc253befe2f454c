"""Units of variables: the per-CPU section, and the kernel's .data and .bss.

A symbol table has all names and no sizes; BTF has sizes and types and lacks
variables that are static in a function. Together they are complete.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from schedperf.evidence.layout.model import Entry, Unit
from schedperf.kernel.btf import BtfSection, BtfVariable
from schedperf.kernel.system_map import PAGE_BYTES, GlobalSymbols, PercpuSymbols

# CONFIG_MEM_ALLOC_PROFILING puts one such counter beside every function that allocates; they come
# and go with any change of code, so as tenants they would only be noise.
ALLOCATION_COUNTER = "._alloc_tag_cntr"
# Share of BTF's variables that a symbol table must have at the same offset to be of the same
# build: one build gives 1.0, and unrelated kernels agree only on the first few pages.
SAME_BUILD = 0.9
# What noise is called.
ALLOCATION_COUNTERS = "allocation counters"
NAMESAKES = "static variables that share their name with others"
# How reports call the hot part of the per-CPU section.
HOT_GROUP = "percpu hot"

# What compilers append to a static variable's name, different in every build.
_BUILD_SUFFIX = re.compile(r"(\.llvm\.\d+|\.lto_priv\.\d+|\.\d+)+$")
# Second names that the linker script gives: const_current_task is current_task.
_ALIAS_PREFIXES = ("const_", "__ref_")


def plain_name(name: str) -> str:
    """Return a symbol's name without what the compiler appended: ``warned.12`` is ``warned``."""
    return _BUILD_SUFFIX.sub("", name) or name if "." in name else name


def percpu_unit(symbols: PercpuSymbols | None, section: BtfSection | None, source: str) -> Unit:
    """Return the per-CPU section; at least one of both sources is given.

    :param source: what the symbol table is: "System.map"
    :return: each offset once, with the other names of the same bytes as aliases. A name that was
        there before has its number behind it: "warned#2"
    """
    if symbols is None:
        return _from_btf(section or BtfSection(size=0, variables=()))
    known = {} if section is None else _by_place(section)
    names = [plain_name(symbol.name) for symbol in symbols.symbols]
    notes: tuple[str, ...] = ()
    places = {(one.offset, name) for one, name in zip(symbols.symbols, names, strict=True)}
    if known and len(known.keys() & places) < SAME_BUILD * len(known):
        notes = (f"BTF and {source} are of different builds, so BTF's sizes are not used",)
        known = {}
    rows = [
        _joined(Entry(name=name, offset=one.offset, size=one.size, letter=one.letter), known)
        for one, name in zip(symbols.symbols, names, strict=True)
        if not name.endswith(ALLOCATION_COUNTER)
    ]
    rows += [_of_btf(known[place]) for place in sorted(known.keys() - places)]
    own_sizes = any(symbol.size is not None for symbol in symbols.symbols)
    return _unit(
        "percpu",
        symbols.size,
        _one_per_offset(rows),
        sources=tuple(dict.fromkeys((source, *(["BTF"] if known else [source] * own_sizes)))),
        groups={} if symbols.hot is None else {HOT_GROUP: symbols.hot},
        noise={ALLOCATION_COUNTERS: len(names) - len(rows) + len(known.keys() - places)},
        notes=notes,
    )


def _from_btf(section: BtfSection) -> Unit:
    entries = _one_per_offset(map(_of_btf, section.variables))
    covered = sum(variable.size for variable in section.variables)
    note = (
        f"BTF describes {covered} of {section.size} bytes; in the others are variables that are "
        "static in a function, and they are unknown"
    )
    return _unit("percpu", section.size, entries, sources=("BTF",), notes=(note,))


def _by_place(section: BtfSection) -> dict[tuple[int, str], BtfVariable]:
    return {(found.offset, plain_name(found.name)): found for found in section.variables}


def _of_btf(variable: BtfVariable) -> Entry:
    return Entry(
        name=plain_name(variable.name),
        offset=variable.offset,
        size=variable.size,
        type=variable.type,
        letter="d" if variable.linkage == "static" else "D",
    )


def _joined(entry: Entry, known: Mapping[tuple[int, str], BtfVariable]) -> Entry:
    # kallsyms of x86-64 up to 6.14 has A for all, so there the letter is BTF's too.
    found = known.get((entry.offset, entry.name))
    if found is None:
        return entry
    btf = _of_btf(found)
    letter = btf.letter if entry.letter in "Aa" else entry.letter
    return replace(entry, size=btf.size, type=btf.type, letter=letter)


def _one_per_offset(rows: Iterable[Entry]) -> tuple[Entry, ...]:
    # Number equal names in the order of their offsets, then merge names of one offset.
    seen: Counter[str] = Counter()
    groups: dict[int, list[Entry]] = defaultdict(list)
    for row in sorted(rows, key=lambda entry: entry.offset):
        seen[row.name] += 1
        number = seen[row.name]
        groups[row.offset].append(row if number == 1 else replace(row, name=f"{row.name}#{number}"))
    return tuple(map(_merge, groups.values()))


def _merge(group: list[Entry]) -> Entry:
    if len(group) == 1:
        return group[0]
    # The name that BTF has is the definition's; the linker script's second names come last.
    group = sorted(group, key=lambda one: (one.size is None, one.name.startswith(_ALIAS_PREFIXES)))
    return replace(
        group[0],
        size=max((one.size for one in group if one.size is not None), default=None),
        aliases=tuple(one.name for one in group[1:]),
    )


def globals_unit(symbols: GlobalSymbols, sections: Mapping[str, BtfSection], source: str) -> Unit:
    """Return .data and .bss, whose offsets count from the page where .data begins.

    Static variables of one name cannot be told apart in two kernels, so they are noise.

    :param sections: what BTF says of sections other than the per-CPU one; sizes and types of
        variables that are the only ones of their name come from there
    """
    named = [(plain_name(symbol.name), symbol) for symbol in symbols.symbols]
    counts = Counter(name for name, _ in named)
    known = _unambiguous(sections)
    rows = [
        Entry(
            name=name,
            offset=symbol.offset,
            size=known[name].size if name in known else symbol.size,
            type=known[name].type if name in known else None,
            letter=symbol.letter,
        )
        for name, symbol in named
        if counts[name] == 1
    ]
    own_sizes = any(symbol.size is not None for symbol in symbols.symbols)
    return _unit(
        "globals",
        symbols.size,
        _one_per_offset(rows),
        sources=tuple(dict.fromkeys((source, *(["BTF"] if known else [source] * own_sizes)))),
        noise={NAMESAKES: len(named) - len(rows)},
    )


def _unambiguous(sections: Mapping[str, BtfSection]) -> dict[str, BtfVariable]:
    found = [variable for section in sections.values() for variable in section.variables]
    counts = Counter(variable.name for variable in found)
    return {variable.name: variable for variable in found if counts[variable.name] == 1}


def _unit(
    name: str,
    size: int,
    entries: tuple[Entry, ...],
    *,
    sources: tuple[str, ...],
    groups: Mapping[str, tuple[int, int]] = {},
    noise: Mapping[str, int] = {},
    notes: tuple[str, ...] = (),
) -> Unit:
    # Both begin at a page: PERCPU_SECTION of include/asm-generic/vmlinux.lds.h, and first chunks
    # of mm/percpu.c; of .data and .bss the page is where counting begins.
    return Unit(
        name=name,
        kind="percpu" if name == "percpu" else "globals",
        size=size,
        alignment=PAGE_BYTES,
        is_alignment_inferred=False,
        entries=entries,
        groups=groups,
        sources=sources,
        noise={what: count for what, count in noise.items() if count},
        notes=notes,
    )
