# SPDX-License-Identifier: GPL-2.0-or-later
"""Load the data layout of a kernel from all available files.

::

    kernel = load_kernel(Path("/sys/kernel/btf/vmlinux"))
    kernel.units["percpu"], kernel.units["struct rq"], kernel.unknown["globals"]

The format of a file is detected from its content; files in a directory are found by name. Several
sources are combined: names of variables from a symbol table, sizes and types from BTF.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from schedperf.evidence.layout.capture import (
    Candidate,
    Material,
    SymbolTable,
    candidates,
    compile_time_line,
    machine_of_config,
    machine_of_names,
    parse_line_bytes,
)
from schedperf.evidence.layout.model import Entry, Kernel, Unit
from schedperf.evidence.layout.record import LineBytes
from schedperf.evidence.layout.structs import FieldBudget, struct_unit
from schedperf.inputs.kernel.btf import PERCPU_SECTION, Btf, BtfSection, BtfVariable
from schedperf.inputs.kernel.system_map import PAGE_BYTES, GlobalSymbols, PercpuSymbols
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError

# Types that the scheduler's hot paths use; types that the configuration excludes are reported as
# unknown.
SCHEDULER_STRUCTS = (
    "rq",
    "cfs_rq",
    "rt_rq",
    "dl_rq",
    "task_group",
    "cfs_bandwidth",
    "sched_entity",
    "sched_rt_entity",
    "sched_dl_entity",
    "sched_avg",
    "sched_statistics",
    "task_struct",
    "sched_domain",
    "sched_domain_shared",
    "sched_group",
    "sched_group_capacity",
    "root_domain",
    "tick_sched",
    "tick_device",
    "hrtimer_cpu_base",
    "cpuidle_device",
    "cpuidle_driver",
    "cpuidle_state",
    "update_util_data",
    "sugov_cpu",
    "psi_group_cpu",
    "kernel_cpustat",
)
# Largest number of reasons in a message; each broken file of a directory has one.
MOST_REASONS = 3
_VARIABLES = {"percpu": "per-CPU variables", "globals": "global variables"}
# CONFIG_MEM_ALLOC_PROFILING adds such a counter to every allocating function; they change with any
# change of code, so they are noise.
_ALLOCATION_COUNTER = "._alloc_tag_cntr"
# Smallest share of BTF's variables that have the same offset in a symbol table of the same build:
# it is 1.0 for one build; unrelated kernels agree only on the first few pages.
_SAME_BUILD = 0.9
# Names of the kinds of noise.
_ALLOCATION_COUNTERS = "allocation counters"
_NAMESAKES = "static variables with a duplicate name"
# Name of the hot part of the per-CPU section in reports.
HOT_GROUP = "percpu hot"

# Suffix that compilers append to names of static variables; it differs between builds.
_BUILD_SUFFIX = re.compile(r"(\.(?:llvm|lto_priv|__uniq)\.\d+|\.\d+)+$")
# Aliases that the linker script defines: const_current_task is current_task.
_ALIAS_PREFIXES = ("const_", "__ref_")


def load_kernel(
    source: Path | Side,
    *,
    structs: Sequence[str] | Callable[[Unit | None], Sequence[str]] = SCHEDULER_STRUCTS,
    label: str | None = None,
) -> Kernel:
    """Load the layout of a kernel from a file, a directory or a bundle.

    :param source: a side of a comparison; the path of a bundle; a directory with vmlinux,
        System.map, kallsyms, btf, config; or a file: System.map, output of nm, kallsyms, raw BTF,
        vmlinux, a module, an x86 boot image
    :param structs: requested structs, each of which is in ``units`` or in ``unknown``; or a
        function that returns their names from the per-CPU variables
    :param label: name of the kernel in reports; None for the name of the source
    :return: its units are "percpu", "globals", "struct NAME" and "union NAME"; of a bundle, the
        kernel of the first boot with a layout
    :raises InputError: the source is none of these, cannot be read, or contains no layout
        information
    """
    reasons: list[str] = []
    choices = candidates(source, label)
    for number, candidate in enumerate(choices):
        reader = _LayoutReader(candidate.load())
        reader.read_variables()
        reader.read_structs(structs(reader.units.get("percpu")) if callable(structs) else structs)
        if reader.units:
            reader.compare_with(candidate, choices[number + 1 :])
            return reader.kernel()
        reasons += reader.problems or [reader.unknown["percpu"]]
    raise InputError("; ".join(list(dict.fromkeys(reasons))[:MOST_REASONS]))


class _LayoutReader:
    # The state while the units of one kernel are built.

    def __init__(self, material: Material) -> None:
        self._material = material
        self.units: dict[str, Unit] = {}
        self.unknown: dict[str, str] = {}
        self.problems = list(material.problems)
        # If another source succeeded, no advice is needed, so it is omitted.
        self.notes = [problem.rpartition("; ")[0] or problem for problem in self.problems]
        self._sections = self._read_sections()

    def _read_sections(self) -> Mapping[str, BtfSection]:
        btf = self._material.btf
        try:
            names = [] if btf is None else btf.section_names()
            sections = {name: btf.section(name) for name in names} if btf is not None else {}
        except InputError as error:
            self.problems.append(str(error))
            self.notes.append(str(error))
            return {}
        return {name: section for name, section in sections.items() if section is not None}

    def read_variables(self) -> None:
        percpu = self._sections.get(PERCPU_SECTION)
        others = {
            name: section for name, section in self._sections.items() if name != PERCPU_SECTION
        }
        reasons: dict[str, list[str]] = {"percpu": [], "globals": []}
        for table in self._material.tables:
            if (note := table.note()) is not None:
                self.notes.append(note)
            if not (table.is_fallback and "percpu" in self.units):
                self._add("percpu", reasons, table, partial(_percpu, percpu))
                self._add("globals", reasons, table, partial(_globals, others))
        if "percpu" not in self.units and percpu is not None:
            self.units["percpu"] = _percpu_unit(None, percpu, "")
        for name, said in reasons.items():
            if name not in self.units:
                self.unknown[name] = "; ".join(said) or self._why_no_variables(name)

    def _add(
        self,
        name: str,
        reasons: Mapping[str, list[str]],
        table: SymbolTable,
        make: Callable[[SymbolTable], Unit],
    ) -> None:
        # The first table with them is used; the next one is compared with it.
        try:
            unit = make(table)
        except InputError as error:
            reasons[name].append(str(error))
            return
        used = self.units.setdefault(name, unit)
        if used is not unit and _places(used) != _places(unit):
            self.notes.append(
                f"{used.sources[0]} and {table.name} give different addresses for "
                f"{_VARIABLES[name]}; {used.sources[0]} is used"
            )

    def _why_no_variables(self, name: str) -> str:
        if self._material.btf is None:
            return f"{self._material.label}: neither symbol table nor BTF; add a System.map"
        if name == "globals":
            return "BTF has no addresses of global variables; add a System.map"
        return (
            f"{self._material.btf.label}: no {PERCPU_SECTION} section (the kernel is not "
            "SMP, or was built with pahole older than 1.18); add a System.map"
        )

    def read_structs(self, structs: Sequence[str]) -> None:
        budget = FieldBudget()
        for name in dict.fromkeys(structs):
            called = name if " " in name else f"struct {name}"
            if self._material.btf is None:
                self.unknown[called] = self._material.why_no_types
                continue
            try:
                unit = struct_unit(self._material.btf, name, budget)
            except InputError as error:
                self.unknown[called] = str(error)
                if budget.left < 0:
                    # All other structs would exceed the limit as well.
                    self.problems.append(str(error))
            else:
                self.units[unit.name] = unit

    def compare_with(self, shown: Candidate, others: Sequence[Candidate]) -> None:
        """Add a note for each boot with a different per-CPU layout, i.e. with another kernel.

        :param shown: the boot whose layout is used
        :param others: later boots of the bundle
        """
        for candidate in others:
            if None not in shown.digests.values() and shown.digests == candidate.digests:
                continue
            reader = _LayoutReader(candidate.load())
            reader.read_variables()
            own, theirs = self.units.get("percpu"), reader.units.get("percpu")
            if own is not None and theirs is not None and _places(own) != _places(theirs):
                self.notes.append(
                    f"{candidate.name} of {self._material.label} has a different per-CPU layout "
                    f"than {shown.name}; {shown.name} is shown"
                )

    def kernel(self) -> Kernel:
        material, btf = self._material, self._material.btf
        pointer_bytes, is_big_endian = material.pointer_bytes, material.is_big_endian
        if btf is not None:
            pointer_bytes, is_big_endian = btf.pointer_bytes, btf.is_big_endian
        machine = (
            material.machine
            or machine_of_config(material.config or "")
            or _machine_of_names(material, btf, pointer_bytes, is_big_endian=is_big_endian)
        )
        line_bytes = self._line_bytes(machine)
        return Kernel(
            label=material.label,
            machine=machine,
            pointer_bytes=pointer_bytes,
            is_big_endian=is_big_endian,
            build_id=material.build_id,
            line_bytes=line_bytes,
            units=self.units,
            unknown=self.unknown,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _line_bytes(self, machine: str | None) -> LineBytes:
        captured = LineBytes(compile_time=None, hardware=None)
        if self._material.facts is not None:
            try:
                captured = parse_line_bytes(self._material.facts, "layout.json")
            except InputError as error:
                self.notes.append(str(error))
        if captured.compile_time is not None:
            return captured
        compile_time, note = compile_time_line(self._material.config, machine)
        self.notes += [note] if note else []
        return LineBytes(compile_time=compile_time, hardware=captured.hardware)


def _places(unit: Unit) -> set[tuple[int, str]]:
    return {(entry.offset, entry.name) for entry in unit.entries}


def _percpu(section: BtfSection | None, table: SymbolTable) -> Unit:
    return _percpu_unit(table.percpu(), section, table.name)


def _globals(sections: Mapping[str, BtfSection], table: SymbolTable) -> Unit:
    return _globals_unit(table.global_variables(), sections, table.name)


def _machine_of_names(
    material: Material, btf: Btf | None, pointer_bytes: int | None, *, is_big_endian: bool | None
) -> str | None:
    askers = [table.has_name for table in material.tables]
    if btf is not None:
        askers.insert(0, btf.has_name)
    machines = (machine_of_names(ask, pointer_bytes, is_big_endian=is_big_endian) for ask in askers)
    return next((machine for machine in machines if machine is not None), None)


def plain_name(name: str) -> str:
    """Return a variable's name without compiler suffixes: ``warned`` for ``warned.12``.

    Suffixes of functions, e.g. ``.isra`` and ``.cold``, stay.
    """
    return _BUILD_SUFFIX.sub("", name) or name if "." in name else name


def _percpu_unit(symbols: PercpuSymbols | None, section: BtfSection | None, source: str) -> Unit:
    """Return the per-CPU section from a symbol table, BTF or both.

    Allocation counters are noise.

    :param symbols: None without a symbol table
    :param section: BTF's section of per-CPU variables; None without BTF
    :param source: kind of symbol table: "System.map"
    :return: one entry per offset, with other names of the same bytes as aliases. Repeated names get
        a number: "warned#2"
    """
    if symbols is None:
        return _from_btf(section or BtfSection(size=0, variables=()))
    described = {} if section is None else _by_place(section)
    names = [plain_name(symbol.name) for symbol in symbols.symbols]
    notes: tuple[str, ...] = ()
    offsets = {(symbol.offset, name) for symbol, name in zip(symbols.symbols, names, strict=True)}
    if described and len(described.keys() & offsets) < _SAME_BUILD * len(described):
        notes = (f"BTF and {source} are from different builds, so BTF's sizes are not used",)
        described = {}
    rows = [
        _joined(
            Entry(name=name, offset=symbol.offset, size=symbol.size, letter=symbol.letter),
            described,
        )
        for symbol, name in zip(symbols.symbols, names, strict=True)
        if not name.endswith(_ALLOCATION_COUNTER)
    ]
    rows += [_of_btf(described[key]) for key in sorted(described.keys() - offsets)]
    own_sizes = any(symbol.size is not None for symbol in symbols.symbols)
    return _unit(
        "percpu",
        symbols.size,
        _one_per_offset(rows),
        sources=tuple(dict.fromkeys((source, *(["BTF"] if described else [source] * own_sizes)))),
        groups={} if symbols.hot is None else {HOT_GROUP: symbols.hot},
        noise={_ALLOCATION_COUNTERS: len(names) - len(rows) + len(described.keys() - offsets)},
        notes=notes,
    )


def _from_btf(section: BtfSection) -> Unit:
    entries = _one_per_offset(map(_of_btf, section.variables))
    covered = sum(variable.size for variable in section.variables)
    note = (
        f"BTF describes {covered} of {section.size} bytes of the per-CPU section; the rest "
        "(function-local static variables) is unknown"
    )
    return _unit("percpu", section.size, entries, sources=("BTF",), notes=(note,))


def _by_place(section: BtfSection) -> dict[tuple[int, str], BtfVariable]:
    return {
        (variable.offset, plain_name(variable.name)): variable for variable in section.variables
    }


def _of_btf(variable: BtfVariable) -> Entry:
    return Entry(
        name=plain_name(variable.name),
        offset=variable.offset,
        size=variable.size,
        type=variable.type,
        letter="d" if variable.linkage == "static" else "D",
    )


def _joined(entry: Entry, described: Mapping[tuple[int, str], BtfVariable]) -> Entry:
    # kallsyms of x86-64 up to 6.14 has letter A for all of them, so the letter is taken from BTF.
    variable = described.get((entry.offset, entry.name))
    if variable is None:
        return entry
    btf = _of_btf(variable)
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
    # BTF has the name of the definition; aliases of the linker script come last.
    group = sorted(
        group, key=lambda entry: (entry.size is None, entry.name.startswith(_ALIAS_PREFIXES))
    )
    return replace(
        group[0],
        size=max((entry.size for entry in group if entry.size is not None), default=None),
        aliases=tuple(entry.name for entry in group[1:]),
    )


def _globals_unit(symbols: GlobalSymbols, sections: Mapping[str, BtfSection], source: str) -> Unit:
    """Return .data and .bss, with offsets from the page where the first of them begins.

    Static variables with the same name cannot be matched between kernels, so they are noise.

    :param sections: BTF's sections other than the per-CPU one; sizes and types of variables with
        unique names are taken from them
    """
    named = [(plain_name(symbol.name), symbol) for symbol in symbols.symbols]
    counts = Counter(name for name, _ in named)
    described = _unambiguous(sections)
    rows = [
        Entry(
            name=name,
            offset=symbol.offset,
            size=described[name].size if name in described else symbol.size,
            type=described[name].type if name in described else None,
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
        sources=tuple(dict.fromkeys((source, *(["BTF"] if described else [source] * own_sizes)))),
        noise={_NAMESAKES: len(named) - len(rows)},
    )


def _unambiguous(sections: Mapping[str, BtfSection]) -> dict[str, BtfVariable]:
    variables = [variable for section in sections.values() for variable in section.variables]
    counts = Counter(variable.name for variable in variables)
    return {variable.name: variable for variable in variables if counts[variable.name] == 1}


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
    # Both begin at a page: PERCPU_SECTION of include/asm-generic/vmlinux.lds.h, and first chunks of
    # mm/percpu.c; offsets in .data and .bss are relative to a page.
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
