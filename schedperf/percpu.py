"""The per-CPU section as cache lines, and what changed between two kernels.

An offset alone says nothing: a variable can keep its offset and lose its line
mates, or move with all of them. So two layouts are compared by co-tenancy:
which variables share a cache line on each side.
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import combinations

from schedperf.captures.btf import BtfSection
from schedperf.captures.system_map import PercpuSymbols
from schedperf.errors import InputError

# CONFIG_MEM_ALLOC_PROFILING puts one such counter beside every function that allocates; they come
# and go with any change of code, so as tenants they would only be noise.
ALLOCATION_COUNTER = "._alloc_tag_cntr"
# Share of BTF's variables that a symbol table must have at the same offset to be of the same
# build: one build gives 1.0, and unrelated kernels agree only on the first few pages.
SAME_BUILD = 0.9
# Pairs on common lines in one section: those of real kernels have less than 1,000.
MOST_PAIRS = 100_000

# What compilers append to a static variable's name, different in every build.
_BUILD_SUFFIX = re.compile(r"(\.llvm\.\d+|\.lto_priv\.\d+|\.\d+)+$")
# Second names that the linker script gives: const_current_task is current_task.
_ALIAS_PREFIXES = ("const_", "__ref_")

Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """One per-CPU variable.

    :param offset: bytes from the section's start
    :param size: bytes; None where only a symbol table knows it
    :param letter: as nm prints it: "D" global, "d" static, "A" in kallsyms of x86-64 up to 6.14
    :param name: without the compiler's suffix; the second static one of a name is "NAME#2"
    :param aliases: other names of the same address
    """

    offset: int
    size: int | None
    letter: str
    name: str
    aliases: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PercpuMap:
    """The per-CPU section of one kernel.

    :param size: of the section, in bytes
    :param variables: by offset, each offset once
    :param sources: where names and offsets come from, then where sizes come from
    :param allocation_counters: how many were left out
    :param notes: what weakens this map, one sentence each
    """

    size: int
    variables: tuple[Variable, ...]
    sources: tuple[str, ...]
    allocation_counters: int
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """One variable that left its line mates or found new ones by going to another line.

    :param lost: variables of both kernels that were on its lines in base only
    :param gained: variables of both kernels that are on its lines in new only
    """

    name: str
    base_offset: int
    new_offset: int
    lost: tuple[str, ...]
    gained: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutDiff:
    """How the co-tenancy of two per-CPU sections differs.

    :param common: variables that both have
    :param moved: by base offset; a line that only slid as a whole moves nobody
    :param separated: pairs that shared a line in base and share none in new, by base offset
    :param joined: pairs that share a line in new only, by new offset
    :param added: names that only new has, by offset; empty where the sources do not compare
    :param mates_changed: how many common variables gained or lost a common line mate
    :param slid_lines: base's lines that kept their tenants and have another place in the section
    """

    common: int
    moved: tuple[Move, ...]
    separated: tuple[Pair, ...]
    joined: tuple[Pair, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    mates_changed: int
    slid_lines: int


def map_from_symbols(symbols: PercpuSymbols, section: BtfSection | None, source: str) -> PercpuMap:
    """Join a symbol table's names and offsets with the sizes that BTF knows.

    :param source: what the symbol table is: "System.map"
    """
    named = [(plain_name(symbol.name), symbol) for symbol in symbols.symbols]
    kept = [(name, symbol) for name, symbol in named if not name.endswith(ALLOCATION_COUNTER)]
    sizes = {} if section is None else _sizes(section)
    known = {(symbol.offset, name) for name, symbol in kept}
    notes: tuple[str, ...] = ()
    if sizes and len(sizes.keys() & known) < SAME_BUILD * len(sizes):
        notes = (f"BTF and {source} are of different builds, so sizes are unknown",)
        sizes = {}
    rows = [
        Variable(
            offset=symbol.offset,
            size=sizes.get((symbol.offset, name)),
            letter=symbol.letter,
            name=name,
            aliases=(),
        )
        for name, symbol in kept
    ]
    return PercpuMap(
        size=symbols.size,
        variables=_one_per_offset(rows),
        sources=(source, "BTF") if sizes else (source,),
        allocation_counters=len(named) - len(kept),
        notes=notes,
    )


def map_from_btf(section: BtfSection) -> PercpuMap:
    """Make a map of what BTF alone knows; nm's letter follows from the linkage."""
    rows = [
        Variable(
            offset=variable.offset,
            size=variable.size,
            letter="D" if variable.linkage == "global" else "d",
            name=plain_name(variable.name),
            aliases=(),
        )
        for variable in section.variables
    ]
    return PercpuMap(
        size=section.size,
        variables=_one_per_offset(rows),
        sources=("BTF",),
        allocation_counters=0,
        notes=(),
    )


def plain_name(name: str) -> str:
    """Return a symbol's name without what the compiler appended: ``warned.12`` is ``warned``."""
    return _BUILD_SUFFIX.sub("", name) or name


def _sizes(section: BtfSection) -> dict[tuple[int, str], int]:
    return {(found.offset, plain_name(found.name)): found.size for found in section.variables}


def _one_per_offset(rows: Iterable[Variable]) -> tuple[Variable, ...]:
    # Number equal names in the order of their offsets, then merge names of one offset.
    seen: Counter[str] = Counter()
    groups: dict[int, list[Variable]] = defaultdict(list)
    for row in rows:
        seen[row.name] += 1
        number = seen[row.name]
        name = row.name if number == 1 else f"{row.name}#{number}"
        groups[row.offset].append(replace(row, name=name))
    return tuple(_merge(groups[offset]) for offset in sorted(groups))


def _merge(group: list[Variable]) -> Variable:
    # The name that BTF has is the definition's; the linker script's second names come last.
    group = sorted(group, key=lambda one: (one.size is None, one.name.startswith(_ALIAS_PREFIXES)))
    return replace(
        group[0],
        size=max((one.size for one in group if one.size is not None), default=None),
        aliases=tuple(one.name for one in group[1:]),
    )


def lines_of(
    percpu: PercpuMap, line_bytes: int, sized: AbstractSet[str] | None = None
) -> dict[str, tuple[int, int]]:
    """Return the first and the last line of every variable, by name; lines count from 0.

    A variable ends at the latest where the next one starts. One of unknown
    size has the line where it starts.

    :param sized: variables whose size counts; None: of all
    """
    ends = [variable.offset for variable in percpu.variables[1:]] + [percpu.size]
    lines = {}
    for variable, limit in zip(percpu.variables, ends, strict=True):
        size = variable.size if sized is None or variable.name in sized else None
        last_byte = max(variable.offset, min(variable.offset + (size or 0), limit) - 1)
        lines[variable.name] = (variable.offset // line_bytes, last_byte // line_bytes)
    return lines


def tenants_by_line(lines: Mapping[str, tuple[int, int]]) -> dict[int, list[str]]:
    """Return who is on each line that can be shared.

    Lines between a variable's first and last are its own, so they are left out.
    """
    tenants: dict[int, list[str]] = defaultdict(list)
    for name, (first, last) in lines.items():
        tenants[first].append(name)
        if last != first:
            tenants[last].append(name)
    return tenants


def diff_layouts(base: PercpuMap, new: PercpuMap, line_bytes: int) -> LayoutDiff:
    """Compare which variables share lines of ``line_bytes`` bytes.

    :raises InputError: more variables on common lines than a per-CPU section can have
    """
    base_by_name = {variable.name: variable for variable in base.variables}
    new_by_name = {variable.name: variable for variable in new.variables}
    common = [name for name in base_by_name if name in new_by_name]
    # A size that one side does not know would look like a change of coverage.
    sized = _sized(base) & _sized(new)
    base_pairs = _pairs(lines_of(base, line_bytes, sized), new_by_name.keys())
    new_pairs = _pairs(lines_of(new, line_bytes, sized), base_by_name.keys())
    lost, gained = _mates(base_pairs - new_pairs), _mates(new_pairs - base_pairs)
    left, slid_lines = _leavers(
        {name: base_by_name[name].offset // line_bytes for name in common},
        {name: new_by_name[name].offset // line_bytes for name in common},
    )
    added, removed = _only_on_one_side(base, new)
    return LayoutDiff(
        common=len(common),
        # One that left with its tail still among its mates has moved away from nobody.
        moved=tuple(
            Move(
                name=name,
                base_offset=base_by_name[name].offset,
                new_offset=new_by_name[name].offset,
                lost=_in_order(lost.get(name, ()), base_by_name),
                gained=_in_order(gained.get(name, ()), new_by_name),
            )
            for name in left
            if name in lost or name in gained
        ),
        separated=_ordered_pairs(base_pairs - new_pairs, base_by_name),
        joined=_ordered_pairs(new_pairs - base_pairs, new_by_name),
        added=added,
        removed=removed,
        mates_changed=len(lost.keys() | gained.keys()),
        slid_lines=slid_lines,
    )


def _sized(percpu: PercpuMap) -> set[str]:
    return {variable.name for variable in percpu.variables if variable.size is not None}


def _pairs(lines: Mapping[str, tuple[int, int]], names: AbstractSet[str]) -> set[frozenset[str]]:
    # Unordered pairs of these names that share at least one line.
    tenants = tenants_by_line({name: span for name, span in lines.items() if name in names})
    count = sum(len(line) * (len(line) - 1) // 2 for line in tenants.values())
    if count > MOST_PAIRS:
        raise InputError(
            f"per-CPU layout: {count} pairs of variables on common lines, more than {MOST_PAIRS}; "
            "use the files of a real kernel"
        )
    return {frozenset(pair) for line in tenants.values() for pair in combinations(line, 2)}


def _mates(pairs: AbstractSet[frozenset[str]]) -> Mapping[str, set[str]]:
    mates: dict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        one, other = pair
        mates[one].add(other)
        mates[other].add(one)
    return mates


def _in_order(names: Iterable[str], where: Mapping[str, Variable]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: where[name].offset))


def _ordered_pairs(
    pairs: AbstractSet[frozenset[str]], where: Mapping[str, Variable]
) -> tuple[Pair, ...]:
    ordered = [(first, second) for first, second in (_in_order(pair, where) for pair in pairs)]
    return tuple(sorted(ordered, key=lambda pair: tuple(where[name].offset for name in pair)))


def _only_on_one_side(base: PercpuMap, new: PercpuMap) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # BTF lacks variables that a symbol table has, so between the two nothing can be told.
    if (base.sources[0] == "BTF") != (new.sources[0] == "BTF"):
        return (), ()
    return _only_in(new, base), _only_in(base, new)


def _only_in(one: PercpuMap, other: PercpuMap) -> tuple[str, ...]:
    names = {name for found in other.variables for name in (found.name, *found.aliases)}
    return tuple(found.name for found in one.variables if found.name not in names)


def _leavers(base: Mapping[str, int], new: Mapping[str, int]) -> tuple[list[str], int]:
    # Return who left its line, and how many lines slid; both maps are name to line.
    # A base line continues as the new line that most of its variables start in, and the reverse.
    # Who is not where its line continues has left it; so of two lines that became one, the
    # smaller left, and a line of which everybody arrived has slid or stayed.
    ahead = _majority((base[name], new[name]) for name in base)
    back = _majority((new[name], base[name]) for name in base)
    left = [
        name for name in base if ahead[base[name]] != new[name] or back[new[name]] != base[name]
    ]
    kept = set(base.values()) - {base[name] for name in left}
    return left, sum(ahead[line] != line for line in kept)


def _majority(steps: Iterable[tuple[int, int]]) -> dict[int, int]:
    # Where most of each line went; of equals, the place that is nearest to it, then the lower.
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for line, target in steps:
        votes[line][target] += 1
    return {
        line: max(count, key=lambda target: (count[target], -abs(target - line), -target))
        for line, count in votes.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerUse:
    """How the scheduler uses a per-CPU variable.

    :param functions: who touches it
    :param hot: at every wake-up, context switch, tick or accounting of run time
    """

    functions: tuple[str, ...]
    hot: bool


@cache
def scheduler_variables() -> Mapping[str, SchedulerUse]:
    """Return the table of per-CPU variables that the scheduler's own paths touch, by name."""
    text = (files("schedperf") / "scheduler_variables.toml").read_text(encoding="utf-8")
    return {
        name: SchedulerUse(functions=tuple(entry["functions"]), hot=entry["hot"])
        for name, entry in tomllib.loads(text).items()
    }


def rank_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """Put pairs of scheduler variables first, hot ones before all; else keep the order."""
    table = scheduler_variables()

    def weight(pair: Pair) -> tuple[int, int]:
        uses = [table[name] for name in pair if name in table]
        return -sum(use.hot for use in uses) if len(uses) == len(pair) else 1, -len(uses)

    return sorted(pairs, key=weight)
