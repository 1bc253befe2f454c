"""Gives distinct addresses their places."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np

from schedperf.kernel.kallsyms import NO_SYMBOL, KernelSymbols
from schedperf.kernel.user_symbols import FileSymbols
from schedperf.perf_data.recording import (
    KERNEL_SPACE,
    MODE_GUEST_KERNEL,
    MODE_GUEST_USER,
    MODE_HYPERVISOR,
    NO_FILE,
    Addresses,
    Integers,
    MappedFile,
    Recording,
    RuntimeSymbol,
)
from schedperf.symbols.functions import newest_name
from schedperf.symbols.place import BPF, KERNEL, Place

_OTHER_MODES = {
    MODE_HYPERVISOR: "[hypervisor]",
    MODE_GUEST_KERNEL: "[guest kernel]",
    MODE_GUEST_USER: "[guest]",
}
UNKNOWN = "[unknown]"
# PERF_RECORD_KSYMBOL_TYPE_BPF; the other type is code that the kernel made for itself.
_KSYMBOL_BPF = 1
# Such code has a line in kallsyms as well, as a "module": __builtin__ftrace, __builtin__kprobes.
_BUILTIN = "__builtin__"
_KERNEL_MAPS = ("[kernel.kallsyms]", "[kernel]", "[guest.kernel.kallsyms")


@dataclass(frozen=True, slots=True)
class Symbols:
    """What names addresses.

    :param kernel: of the kernel that was recorded, at its addresses; None: not known
    :param of_file: returns the symbols of a user file, or None; it is asked once for each file
    """

    kernel: KernelSymbols | None
    of_file: Callable[[MappedFile], FileSymbols | None]


class Namer:
    """The places of one recording, numbered in the order of their first use.

    :param folded: functions by their newest names, without the suffixes of parts and copies
    :param by_offset: build ids of files whose unresolved addresses have a place each
    """

    def __init__(
        self, recording: Recording, symbols: Symbols, *, folded: bool, by_offset: Collection[str]
    ) -> None:
        self._recording = recording
        self._symbols = symbols
        self._folded = folded
        self._by_offset = by_offset
        self._codes: dict[Place, int] = {}
        self._unnamed: set[str] = set()

    @property
    def places(self) -> tuple[Place, ...]:
        """Return every place that has a number, in the order of the numbers."""
        return tuple(self._codes)

    @property
    def unnamed(self) -> frozenset[str]:
        """Return the names of the files, or ``KERNEL``, that were met and have no symbol table."""
        return frozenset(self._unnamed)

    def other_code(self, mode: int) -> int:
        """Return the place of all addresses of a mode in which none is looked up."""
        return self._code(_unresolved(_OTHER_MODES.get(mode, UNKNOWN)))

    def kernel_codes(self, addresses: Addresses) -> Integers:
        """Return the places of addresses of the kernel, its modules and BPF programs."""
        codes = np.full(len(addresses), NO_SYMBOL, np.int64)
        # A program that was loaded while perf recorded may be where kallsyms had another one.
        self._name_runtime(addresses, codes)
        self._name_kernel(addresses, codes)
        rest = np.flatnonzero(codes == NO_SYMBOL)
        spaces = np.full(len(rest), KERNEL_SPACE, np.int64)
        files, offsets = self._recording.spaces.find(spaces, addresses[rest])
        text = self._recording.kernel
        base = np.uint64(text.address if text else 0)
        for file, chosen in _groups(files):
            mapped = None if file == NO_FILE else self._recording.files[file]
            at = rest[chosen]
            if mapped is None or mapped.path.startswith(_KERNEL_MAPS):
                build_id = self._recording.features.kernel_build_id if text else None
                codes[at] = self._unresolved_codes(KERNEL, build_id, addresses[at] - base)
            else:
                dso = f"[{_module_name(mapped.path)}]"
                self._unnamed |= {dso} if self._symbols.kernel is None else set()
                codes[at] = self._unresolved_codes(dso, mapped.build_id, offsets[chosen])
        return codes

    def user_codes(self, spaces: Integers, addresses: Addresses) -> Integers:
        """Return the places of addresses of processes."""
        codes = np.full(len(addresses), NO_SYMBOL, np.int64)
        files, offsets = self._recording.spaces.find(spaces, addresses)
        for file, chosen in _groups(files):
            if file == NO_FILE:
                codes[chosen] = self._code(_unresolved("unknown"))
                continue
            mapped = self._recording.files[file]
            codes[chosen] = self._file_codes(mapped, offsets[chosen])
        return codes

    def _file_codes(self, mapped: MappedFile, offsets: Addresses) -> Integers:
        dso = mapped.path.rpartition("/")[2] or mapped.path or "unknown"
        codes = np.full(len(offsets), NO_SYMBOL, np.int64)
        symbols = self._symbols.of_file(mapped)
        if symbols is None:
            self._unnamed.add(dso)
        else:
            index = symbols.find(offsets)
            for symbol, chosen in _groups(index):
                if symbol != NO_SYMBOL:
                    codes[chosen] = self._function(Place(symbols.names[symbol], dso))
        rest = np.flatnonzero(codes == NO_SYMBOL)
        codes[rest] = self._unresolved_codes(dso, mapped.build_id, offsets[rest])
        return codes

    def _name_runtime(self, addresses: Addresses, codes: Integers) -> None:
        # Of several at one address the last one was there at the end.
        made = {one.address: one for one in self._recording.runtime_symbols}
        symbols = [made[address] for address in sorted(made)]
        if not symbols:
            return
        starts = np.array([one.address for one in symbols], np.uint64)
        sizes = np.array([one.size for one in symbols], np.uint64)
        index = np.searchsorted(starts, addresses, side="right") - 1
        index[addresses - starts[index] >= sizes[index]] = NO_SYMBOL
        for symbol, chosen in _groups(index):
            if symbol != NO_SYMBOL:
                codes[chosen] = self._function(_runtime_place(symbols[symbol]))

    def _name_kernel(self, addresses: Addresses, codes: Integers) -> None:
        table = self._symbols.kernel
        if table is None:
            if len(addresses):
                self._unnamed.add(KERNEL)
            return
        open_ = np.flatnonzero(codes == NO_SYMBOL)
        for number, chosen in _groups(table.find_all(addresses[open_])):
            if number != NO_SYMBOL:
                symbol = table[number]
                in_module = symbol.module and not symbol.module.startswith(_BUILTIN)
                dso = f"[{symbol.module}]" if in_module else KERNEL
                codes[open_[chosen]] = self._function(Place(symbol.name, dso))

    def _unresolved_codes(self, dso: str, build_id: str | None, offsets: Addresses) -> Integers:
        if build_id is None or build_id not in self._by_offset:
            return np.full(len(offsets), self._code(_unresolved(dso)) if len(offsets) else 0)
        each = [self._code(Place(f"{dso}+{offset:#x}", dso)) for offset in offsets.tolist()]
        return np.array(each, np.int64)

    def _function(self, place: Place) -> int:
        return self._code(newest_name(place) if self._folded else place)

    def _code(self, place: Place) -> int:
        return self._codes.setdefault(place, len(self._codes))


def _groups(keys: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each distinct key with the places where it is."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bounds = np.flatnonzero(np.diff(ordered)) + 1
    if len(keys):
        firsts = ordered[np.concatenate(([0], bounds))].tolist()
        yield from zip(firsts, np.split(order, bounds), strict=True)


def _runtime_place(symbol: RuntimeSymbol) -> Place:
    return Place(symbol.name, BPF if symbol.kind == _KSYMBOL_BPF else KERNEL)


def _unresolved(dso: str) -> Place:
    bracketed = dso if dso.startswith("[") else f"[{dso}]"
    return Place(f"{bracketed} unresolved", dso)


def _module_name(path: str) -> str:
    # /lib/modules/6.1.0/kernel/net/foo-bar.ko.xz is the module foo_bar.
    return path.rpartition("/")[2].partition(".ko")[0].strip("[]").replace("-", "_")
