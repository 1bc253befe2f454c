"""Everything that can be known of a kernel's data layout from what is at hand.

::

    kernel = load_kernel(Path("/sys/kernel/btf/vmlinux"))
    kernel.units["percpu"], kernel.units["struct rq"], kernel.unknown["globals"]

What a file is its content says, never its name; only in a folder files are found by
their names. Several sources are combined: names of variables from a symbol table,
sizes and types from BTF.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from schedperf.bundle.open import Bundle
from schedperf.evidence.layout._machine import (
    compile_time_line,
    machine_of_config,
    machine_of_names,
    parse_line_bytes,
)
from schedperf.evidence.layout._material import Candidate, Material, SymbolTable, candidates
from schedperf.evidence.layout._variables import globals_unit, percpu_unit
from schedperf.evidence.layout.model import Kernel, Unit
from schedperf.evidence.layout.record import LineBytes
from schedperf.evidence.layout.structs import struct_unit
from schedperf.kernel.btf import PERCPU_SECTION, Btf, BtfSection
from schedperf.model.errors import InputError

# Types that the scheduler's hot paths work on; those that a kernel's options left out are
# reported as unknown.
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
# Reasons that one message lists; a folder with several broken files has one each.
MOST_REASONS = 3


def load_kernel(
    source: Path | Bundle, *, structs: Sequence[str] = SCHEDULER_STRUCTS, label: str | None = None
) -> Kernel:
    """Read what a file, a folder or a bundle says of a kernel.

    :param source: a bundle, open or by its path; a folder with vmlinux, System.map, kallsyms, btf,
        config; or one of those: System.map, output of nm, kallsyms, raw BTF, vmlinux, a module
    :param structs: whose layouts are wanted; each is in ``units`` or in ``unknown``
    :param label: how reports call the kernel; None: what the source is called
    :return: its units are "percpu", "globals" and "struct NAME"
    :raises InputError: it is none of these, or nothing of a layout can be seen in it
    """
    reasons: list[str] = []
    places = candidates(source, label)
    for number, place in enumerate(places):
        reader = _Reader(place.load())
        reader.read_variables()
        reader.read_structs(structs)
        if reader.units:
            reader.compare_with(place, places[number + 1 :])
            return reader.kernel()
        reasons += reader.problems or [reader.unknown["percpu"]]
    raise InputError("; ".join(list(dict.fromkeys(reasons))[:MOST_REASONS]))


class _Reader:
    # One kernel while its units are made.

    def __init__(self, material: Material) -> None:
        self._material = material
        self.units: dict[str, Unit] = {}
        self.unknown: dict[str, str] = {}
        self.problems = list(material.problems)
        # What another source did needs no mending, so the advice behind it is left out.
        self.notes = [problem.rpartition("; ")[0] or problem for problem in self.problems]
        self._sections = self._read_sections()

    def _read_sections(self) -> Mapping[str, BtfSection]:
        btf = self._material.btf
        try:
            names = [] if btf is None else btf.section_names()
            found = {name: btf.section(name) for name in names} if btf is not None else {}
        except InputError as error:
            self.problems.append(str(error))
            self.notes.append(str(error))
            return {}
        return {name: section for name, section in found.items() if section is not None}

    def read_variables(self) -> None:
        percpu = self._sections.get(PERCPU_SECTION)
        others = {name: one for name, one in self._sections.items() if name != PERCPU_SECTION}
        reasons: dict[str, list[str]] = {"percpu": [], "globals": []}
        for table in self._material.tables:
            if not (table.is_fallback and "percpu" in self.units):
                self._add("percpu", reasons, table, partial(_percpu, percpu))
                self._add("globals", reasons, table, partial(_globals, others))
        if "percpu" not in self.units and percpu is not None:
            self.units["percpu"] = percpu_unit(None, percpu, "")
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
        # The first table that has them is used, and the next one should agree.
        try:
            unit = make(table)
        except InputError as error:
            reasons[name].append(str(error))
            return
        used = self.units.setdefault(name, unit)
        if used is not unit and _places(used) != _places(unit):
            self.notes.append(
                f"{used.sources[0]} and {table.name} have different places for variables of "
                f"{name}; {used.sources[0]} is used"
            )

    def _why_no_variables(self, name: str) -> str:
        if self._material.btf is None:
            return f"{self._material.label}: nothing there has variables"
        if name == "globals":
            return "BTF has no places of global variables; a System.map has"
        return (
            f"{self._material.btf.label}: no {PERCPU_SECTION}; the kernel is not SMP, or was "
            "built with pahole older than 1.18"
        )

    def read_structs(self, structs: Sequence[str]) -> None:
        for name in dict.fromkeys(structs):
            called = name if " " in name else f"struct {name}"
            if self._material.btf is None:
                self.unknown[called] = self._material.why_no_types
                continue
            try:
                unit = struct_unit(self._material.btf, name)
            except InputError as error:
                self.unknown[called] = str(error)
            else:
                self.units[unit.name] = unit

    def compare_with(self, place: Candidate, others: Sequence[Candidate]) -> None:
        """Say which boots of a bundle have another per-CPU layout; they should run one kernel."""
        for other in others:
            if None not in place.digests.values() and place.digests == other.digests:
                continue
            reader = _Reader(other.load())
            reader.read_variables()
            one, two = self.units.get("percpu"), reader.units.get("percpu")
            if one is not None and two is not None and _places(one) != _places(two):
                self.notes.append(
                    f"{other.name} of {self._material.label} has another per-CPU layout than "
                    f"{place.name}, which is shown"
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
    return percpu_unit(table.percpu(), section, table.name)


def _globals(sections: Mapping[str, BtfSection], table: SymbolTable) -> Unit:
    return globals_unit(table.global_variables(), sections, table.name)


def _machine_of_names(
    material: Material, btf: Btf | None, pointer_bytes: int | None, *, is_big_endian: bool | None
) -> str | None:
    askers = [table.has_name for table in material.tables]
    if btf is not None:
        askers.insert(0, btf.has_name)
    found = (machine_of_names(ask, pointer_bytes, is_big_endian=is_big_endian) for ask in askers)
    return next((machine for machine in found if machine is not None), None)
