# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the data and the code of memory samples.

The names come from a bundle or from files: the kernel's layout and symbols, and the per-CPU units::

    names = BootNames(side, boot)
    namer = names.namer(run, recording, symbols)
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from schedperf.evidence.c2c.naming import Variables, struct_names
from schedperf.evidence.layout.model import Kernel, Unit
from schedperf.evidence.layout.sources import SCHEDULER_STRUCTS, load_kernel
from schedperf.inputs.bundle.files import read_head, read_regular
from schedperf.inputs.bundle.open import Boot, Run
from schedperf.inputs.kernel.kallsyms import address_of
from schedperf.inputs.kernel.percpu_units import PercpuUnits, parse_percpu_log, parse_percpu_units
from schedperf.inputs.kernel.system_map import PAGE_BYTES, global_bounds
from schedperf.inputs.kernel_files import SYMBOL_TABLES, has_kernel_file, read_kernel_text
from schedperf.inputs.perf_data.recording import (
    NO_CHAIN,
    Integers,
    KernelText,
    MemorySamples,
    Recording,
    Samples,
)
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.places import Symbols, place_samples
from schedperf.inputs.symbols.recorded_kernel import why_other_kernel
from schedperf.model.errors import InputError
from schedperf.model.place import KERNEL, Place
from schedperf_collectors.contract import SYMBOLS_LIMIT_BYTES

COLLECTOR = "perf_c2c"
UNITS, UNIT_SIZES = "percpu.json", "percpu.txt"
LARGEST_UNITS_BYTES = 4 << 20
# Machines whose units are aligned to their size (embedding allocator of mm/percpu.c).
_ALIGNED_MACHINES = frozenset({"x86_64", "i386"})
_SCHEDULER_TYPES = tuple(f"struct {name}" for name in SCHEDULER_STRUCTS)


class Namer(Struct, frozen=True, kw_only=True):
    """Names the data and the code of memory samples.

    :param units: addresses of the per-CPU units; None if unknown: copies are not merged
    :param variables: the kernel's variables; None if unknown: variables are not named
    :param symbols: symbols of the kernel, its modules and user programs
    :param notes: what is unknown, and the reason, one sentence each
    """

    units: PercpuUnits | None
    variables: Variables | None
    symbols: Symbols
    notes: tuple[str, ...] = ()

    def name_code(
        self, recording: Recording, memory: MemorySamples, rows: Integers
    ) -> tuple[Sequence[str], Integers]:
        """Return the functions of some samples, and for each sample the index of its function.

        :param rows: indices of the samples
        :return: names like "update_load_avg" or "nf_hook [nf_tables]"; for each row, an index into
            these names
        """
        ones, none = np.ones(len(rows), dtype=np.int64), np.full(len(rows), NO_CHAIN)
        samples = Samples(
            event=memory.event[rows],
            mode=memory.mode[rows],
            cpu=memory.cpu[rows],
            task=memory.task[rows],
            space=memory.space[rows],
            ip=memory.ip[rows],
            chain=none,
            count=ones,
            period=ones,
        )
        placed = place_samples(replace(recording, samples=samples), self.symbols)
        return tuple(map(_call, placed.places)), placed.of_row


class BootNames:
    """Names the data of one boot of a bundle; shared files are read once."""

    def __init__(self, side: Side, boot: Boot) -> None:
        self._side = side
        self._bundle = side.bundle
        self._boot = boot
        self._folder = f"{boot.folder}/layout"
        self._notes: list[str] = []
        self._kernel: Kernel | None = None
        self._addresses: dict[KernelText | None, int | None] = {}
        try:
            self._kernel = side.once(_load_kernel)
            self._notes += _notes_of_types(self._kernel)
        except InputError as error:
            self._notes.append(f"variables are not named ({error})")

    def namer(self, run: Run, recording: Recording, symbols: Symbols) -> Namer:
        """Return the namer of a run's memory samples.

        It names no data if another kernel was recorded; its notes then have the reason.

        :raises InputError: a symbol table of the kernel cannot be read
        """
        booted = self._boot.host.kernel.build_id
        other = why_other_kernel(recording, booted, "of the bundle's kernel")
        if other is not None:
            return Namer(units=None, variables=None, symbols=symbols, notes=tuple(_unknown(other)))
        units, reason = self._units(run)
        variables = None
        if self._kernel is not None:
            variables = Variables(self._kernel, self._data_address(recording.kernel))
        notes = (*self._notes, *((reason,) if reason else ()))
        return Namer(units=units, variables=variables, symbols=symbols, notes=notes)

    def _data_address(self, kernel: KernelText | None) -> int | None:
        # All runs of a boot share one, because the tables are large.
        if kernel not in self._addresses:
            self._addresses[kernel] = data_address(self._tables(), kernel)
        return self._addresses[kernel]

    def _tables(self) -> Iterator[str]:
        for name in SYMBOL_TABLES:
            if has_kernel_file(self._bundle, self._boot, name):
                yield read_kernel_text(self._side, self._boot, name)

    def _units(self, run: Run) -> tuple[PercpuUnits | None, str]:
        # Use the units captured around the run, else the kernel's boot log.
        taken, said = f"{run.folder}/{COLLECTOR}/{UNITS}", f"{self._folder}/{UNIT_SIZES}"
        is_aligned = self._kernel is not None and self._kernel.machine in _ALIGNED_MACHINES
        try:
            if self._bundle.size(taken) is not None:
                content = self._bundle.read(taken, LARGEST_UNITS_BYTES)
                return parse_percpu_units(content, taken), ""
            if is_aligned and self._bundle.size(said) is not None:
                text = self._bundle.read_text(said, LARGEST_UNITS_BYTES)
                return parse_percpu_log(text, said), ""
        except InputError as error:
            return None, _not_folded(str(error))
        return None, _not_folded("the bundle does not record the per-CPU offsets")


def file_namer(
    recording: Recording, symbols: Symbols, layout: Path | None, units: Path | None
) -> Namer:
    """Return the namer of a file's memory samples.

    :param layout: layout of the recorded kernel: a directory, System.map, BTF, vmlinux or bundle;
        None to name no variables
    :param units: a percpu.json of the same boot, or the kernel log's lines in a percpu.txt; None to
        not merge the copies of per-CPU lines
    :raises InputError: one of the files cannot be read, or the layout is of another kernel
    """
    notes: list[str] = []
    variables = None
    if layout is None:
        notes.append("variables are not named without a kernel layout; give one with --layout")
    else:
        kernel = load_with_types(layout)
        _refuse_other(kernel, recording, layout)
        notes += _notes_of_types(kernel)
        tables = [layout] if layout.is_file() else [layout / name for name in SYMBOL_TABLES]
        texts = (_read_table(path) for path in tables if path.is_file())
        variables = Variables(kernel, data_address(texts, recording.kernel))
    if units is None:
        notes.append(_not_folded("no per-CPU offsets are given; give them with --units"))
    return Namer(
        units=None if units is None else _read_units(units),
        variables=variables,
        symbols=symbols,
        notes=tuple(notes),
    )


def _refuse_other(kernel: Kernel, recording: Recording, layout: Path) -> None:
    # System.map and BTF have no build id, so a match cannot be checked.
    if kernel.build_id is None or recording.kernel_build_id is None:
        return
    other = why_other_kernel(recording, kernel.build_id, f"of {layout}")
    if other is not None:
        raise InputError(f"--layout: {other}; give the layout of the recorded kernel")


def _notes_of_types(kernel: Kernel) -> Iterator[str]:
    if not any(unit.kind == "struct" for unit in kernel.units.values()):
        yield (
            "fields and slab objects (task_group, mm_struct) are not named, because the layout "
            "has no BTF (perf.data: give the kernel's BTF or vmlinux with --layout; bundle: "
            "record a kernel with CONFIG_DEBUG_INFO_BTF)"
        )


def _unknown(reason: str) -> Iterator[str]:
    yield f"variables are not named ({reason})"
    yield _not_folded(reason)


def _not_folded(reason: str) -> str:
    return f"copies of per-CPU lines are not merged ({reason})"


def _load_kernel(side: Side) -> Kernel:
    # All boots of a bundle run the same kernel.
    return load_with_types(side)


def load_with_types(source: Path | Side) -> Kernel:
    """Read a kernel's layout with the types of its per-CPU variables and the scheduler's structs.

    :param source: as for :func:`~schedperf.evidence.layout.sources.load_kernel`
    :raises InputError: the source cannot be read, or contains no layout information
    """
    return load_kernel(source, structs=_types_of)


def _types_of(percpu: Unit | None) -> Sequence[str]:
    types: Sequence[str] = () if percpu is None else struct_names(percpu.entries)
    return tuple(dict.fromkeys((*types, *_SCHEDULER_TYPES)))


def data_address(tables: Iterable[str], kernel: KernelText | None) -> int | None:
    """Return the run-time address of the page where the first of .data and .bss begins.

    The offset of the kernel's reference symbol corrects for KASLR.

    :param tables: kallsyms (run-time addresses) or System.map (link addresses)
    :param kernel: run-time address of the reference symbol; None if the recording lacks it
    :return: None if ``kernel`` is None, or if no table has the address of the reference symbol and
        the bounds of .data or .bss
    """
    for text in tables:
        # Hidden addresses read as 0.
        bounds = global_bounds(lambda name, text=text: address_of(text, name) or None)  # type: ignore[misc] # mypy wants no default
        linked = None if kernel is None else address_of(text, kernel.symbol)
        if bounds and kernel is not None and linked:
            start = min(low for low, _ in bounds) // PAGE_BYTES * PAGE_BYTES
            return start + kernel.address - linked
    return None


def _read_table(path: Path) -> str:
    # Raw BTF and vmlinux are not symbol tables, so nothing is found in them.
    return read_head(path, SYMBOLS_LIMIT_BYTES).decode(errors="replace")


def _read_units(path: Path) -> PercpuUnits:
    content = read_regular(path, LARGEST_UNITS_BYTES, "a percpu.json")
    if content.lstrip().startswith(b"{"):
        return parse_percpu_units(content, str(path))
    return parse_percpu_log(content.decode(errors="replace"), str(path))


def _call(location: Place) -> str:
    if location.dso == KERNEL or location.symbol.startswith("["):
        return location.symbol
    return f"{location.symbol} [{location.dso.strip('[]')}]"
