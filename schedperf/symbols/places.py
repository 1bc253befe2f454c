# SPDX-License-Identifier: GPL-2.0-or-later
"""Resolve the addresses of samples and call chains to places, each distinct address once.

::

    placed = place_samples(recording, symbols)
    placed.places[placed.of_row[0]]         # Place("update_cfs_group", "[kernel]")
    placed.frames(np.array([0]))            # [(3, 7, 0)], outermost first

Addresses are processed as arrays; Python code runs only once per place.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedperf.kernel.kallsyms import NO_SYMBOL, PAGE_BYTES, KernelSymbols, Symbol
from schedperf.kernel.user_symbols import FileSymbols
from schedperf.perf_data.recording import (
    CONTEXT_KERNEL,
    CONTEXT_MAX,
    CONTEXT_USER,
    KERNEL_SPACE,
    MODE_GUEST_KERNEL,
    MODE_GUEST_USER,
    MODE_HYPERVISOR,
    MODE_KERNEL,
    MODE_UNKNOWN,
    MODE_USER,
    NO_CHAIN,
    NO_FILE,
    Addresses,
    Chains,
    Integers,
    MappedFile,
    Recording,
    RuntimeSymbol,
    generated_code_of,
)
from schedperf.symbols.place import BPF, KERNEL, UNKNOWN, Place, jit_of

__all__ = ["BPF", "KERNEL", "Place", "Placed", "Symbols", "build_ids", "place_samples"]
# Modes by PERF_CONTEXT_* marker of include/uapi/linux/perf_event.h, as unsigned 64-bit numbers.
_MODE_OF_CONTEXT: Mapping[int, int] = {
    CONTEXT_KERNEL: MODE_KERNEL,
    CONTEXT_USER: MODE_USER,
    (1 << 64) - 32: MODE_HYPERVISOR,
    (1 << 64) - 640: MODE_USER,  # PERF_CONTEXT_USER_DEFERRED
    (1 << 64) - 2176: MODE_GUEST_KERNEL,
    (1 << 64) - 2560: MODE_GUEST_USER,
}
_OTHER_MODES = {
    MODE_HYPERVISOR: "[hypervisor]",
    MODE_GUEST_KERNEL: "[guest kernel]",
    MODE_GUEST_USER: "[guest]",
}
_JIT_MAP = re.compile(re.escape(generated_code_of(0)).replace("0", r"(\d+)"))
# PERF_RECORD_KSYMBOL_TYPE_BPF; the other type is out-of-line code of ftrace and kprobes.
_KSYMBOL_BPF = 1
# kallsyms lists out-of-line code with a "module" too: __builtin__ftrace, __builtin__kprobes.
_BUILTIN = "__builtin__"
_KERNEL_MAPS = ("[kernel.kallsyms]", "[kernel]", "[guest.kernel.kallsyms")


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols for resolving addresses.

    :param kernel: symbols of the recorded kernel, at run-time addresses; None if unknown
    :param of_file: returns the symbols of a user file, or None; called once per file
    """

    kernel: KernelSymbols | None
    of_file: Callable[[MappedFile], FileSymbols | None]


class _Namer:
    """The places of one recording, numbered in order of first use.

    :param by_offset: build ids of files in which each unresolved address is a separate place
    """

    def __init__(
        self, recording: Recording, symbols: Symbols, *, by_offset: Collection[str]
    ) -> None:
        self._recording = recording
        self._symbols = symbols
        self._by_offset = by_offset
        self._codes: dict[Place, int] = {}
        self._unnamed: set[str] = set()

    @property
    def places(self) -> tuple[Place, ...]:
        """Return all places, by number."""
        return tuple(self._codes)

    @property
    def unnamed(self) -> frozenset[str]:
        """Return the names of files, or ``KERNEL``, without a symbol table."""
        return frozenset(self._unnamed)

    def other_code(self, mode: int) -> int:
        """Return the place of all addresses of a mode without symbols."""
        return self._code(_unresolved(_OTHER_MODES.get(mode, UNKNOWN)))

    def kernel_codes(self, addresses: Addresses) -> Integers:
        """Return the places of addresses in the kernel, its modules and BPF programs."""
        codes = np.full(len(addresses), NO_SYMBOL, np.int64)
        # A BPF program loaded during the recording may replace another one of kallsyms.
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
        """Return the places of user addresses."""
        codes = np.full(len(addresses), NO_SYMBOL, np.int64)
        files, offsets = self._recording.spaces.find(spaces, addresses)
        for file, chosen in _groups(files):
            if file == NO_FILE:
                codes[chosen] = self._code(_unresolved(UNKNOWN))
                continue
            mapped = self._recording.files[file]
            codes[chosen] = self._file_codes(mapped, offsets[chosen])
        return codes

    def _file_codes(self, mapped: MappedFile, offsets: Addresses) -> Integers:
        dso = dso_name(mapped.path)
        codes = np.full(len(offsets), NO_SYMBOL, np.int64)
        symbols = self._symbols.of_file(mapped)
        if symbols is None:
            self._unnamed.add(dso)
        else:
            index = symbols.find(offsets)
            for symbol, chosen in _groups(index):
                if symbol != NO_SYMBOL:
                    codes[chosen] = self._code(Place(symbols.names[symbol], dso))
        rest = np.flatnonzero(codes == NO_SYMBOL)
        codes[rest] = self._unresolved_codes(dso, mapped.build_id, offsets[rest])
        return codes

    def _name_runtime(self, addresses: Addresses, codes: Integers) -> None:
        # If several symbols have the same address, use the last one.
        by_address = {symbol.address: symbol for symbol in self._recording.runtime_symbols}
        symbols = [by_address[address] for address in sorted(by_address)]
        if not symbols:
            return
        starts = np.array([symbol.address for symbol in symbols], np.uint64)
        sizes = np.array([symbol.size for symbol in symbols], np.uint64)
        index = np.searchsorted(starts, addresses, side="right") - 1
        index[addresses - starts[index] >= sizes[index]] = NO_SYMBOL
        for symbol, chosen in _groups(index):
            if symbol != NO_SYMBOL:
                codes[chosen] = self._code(_runtime_place(symbols[symbol]))

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
                dso = _dso_of(symbol)
                at = open_[chosen]
                if symbol.module is None or dso in (KERNEL, BPF):
                    codes[at] = self._code(Place(symbol.name, dso))
                else:
                    in_place = at[self._is_in_module(table, symbol.module, addresses[at])]
                    codes[in_place] = self._code(Place(symbol.name, dso))

    def _is_in_module(
        self, table: KernelSymbols, module: str, addresses: Addresses
    ) -> NDArray[np.bool_]:
        """Return which addresses were in this module in the recording, shape (addresses,).

        A module that was loaded again, or in another boot, is elsewhere. Modules are aligned to
        pages and begin with a function. If perf recorded no modules, the table is trusted.
        """
        if not maps_modules(self._recording):
            return np.ones(len(addresses), np.bool_)
        spaces = np.full(len(addresses), KERNEL_SPACE, np.int64)
        files, offsets = self._recording.spaces.find(spaces, addresses)
        is_there = np.zeros(len(addresses), np.bool_)
        first = table.module_start(module)
        for file, chosen in _groups(files):
            if file != NO_FILE and _module_name(self._recording.files[file].path) == module:
                loaded = int(addresses[chosen[0]]) - int(offsets[chosen[0]])
                is_there[chosen] = first is not None and 0 <= first - loaded < PAGE_BYTES
        return is_there

    def _unresolved_codes(self, dso: str, build_id: str | None, offsets: Addresses) -> Integers:
        if build_id is None or build_id not in self._by_offset:
            return np.full(len(offsets), self._code(_unresolved(dso)) if len(offsets) else 0)
        each = [self._code(Place(f"{dso}+{offset:#x}", dso)) for offset in offsets.tolist()]
        return np.array(each, np.int64)

    def _code(self, location: Place) -> int:
        return self._codes.setdefault(location, len(self._codes))


@dataclass(frozen=True, slots=True)
class Placed:
    """The places of a recording.

    :param places: the distinct places
    :param of_row: index into ``places`` of each row of ``recording.samples``, shape (rows,)
    :param stack_of_row: index of the stack of each row, or ``NO_CHAIN``; shape (rows,)
    :param stack_places: the places of all stacks, concatenated, innermost first
    :param stack_starts: stack i is ``stack_places[stack_starts[i]:stack_starts[i + 1]]``
    :param unnamed: names of the files, or ``KERNEL``, that have samples and no symbol table
    """

    places: tuple[Place, ...]
    of_row: Integers
    stack_of_row: Integers
    stack_places: Integers
    stack_starts: Integers
    unnamed: frozenset[str]

    def frames(self, chain_rows: Integers) -> list[tuple[int, ...]]:
        """Return the call chain of each row as indices into ``places``, outermost first.

        The last place is the sampled one; a row without a chain has only this place.
        """
        rows = np.asarray(chain_rows, np.int64)
        stacks, local = np.unique(self.stack_of_row[rows], return_inverse=True)
        chains = [self._chain(number) for number in stacks.tolist()]
        leaves = self.of_row[rows].tolist()
        return [
            _end_with(chains[number], leaf)
            for number, leaf in zip(local.tolist(), leaves, strict=True)
        ]

    def without_stacks(self) -> "Placed":
        """Return the places of the samples only, without callers."""
        used, of_row = np.unique(self.of_row, return_inverse=True)
        places = tuple(self.places[index] for index in used.tolist())
        return Placed(
            places=places,
            of_row=of_row,
            stack_of_row=np.full(len(of_row), NO_CHAIN, np.int64),
            stack_places=np.zeros(0, np.int64),
            stack_starts=np.zeros(1, np.int64),
            unnamed=self.unnamed & {location.dso for location in places},
        )

    def _chain(self, number: int) -> tuple[int, ...]:
        if number == NO_CHAIN:
            return ()
        places = self.stack_places[self.stack_starts[number] : self.stack_starts[number + 1]]
        return tuple(places[::-1].tolist())


def place_samples(
    recording: Recording,
    symbols: Symbols,
    *,
    by_offset: Collection[str] = frozenset(),
) -> Placed:
    """Return the places of all samples and of all addresses of call chains, as symbols name them.

    :param by_offset: build ids of files in which each unresolved address is a separate place,
        ``libc.so.6+0x28490``: an offset is the same code only if both sides have the same file. In
        all other files, all unresolved addresses are one place.
    """
    rows, stacks = recording.samples, _distinct_stacks(recording)
    namer = _Namer(recording, symbols, by_offset=by_offset)
    codes = _place_distinct(
        np.concatenate((rows.mode, stacks.mode)),
        np.concatenate((rows.space, stacks.space)),
        np.concatenate((rows.ip, stacks.words)),
        namer,
    )
    return Placed(
        places=namer.places,
        of_row=codes[: len(rows)],
        stack_of_row=stacks.of_row,
        stack_places=codes[len(rows) :],
        stack_starts=stacks.starts,
        unnamed=namer.unnamed,
    )


def maps_modules(recording: Recording) -> bool:
    """Return whether perf recorded where modules were loaded."""
    return any(".ko" in file.path.rpartition("/")[2] for file in recording.files)


def build_ids(recording: Recording) -> frozenset[str]:
    """Return the build ids of all mapped files and of the kernel."""
    ids = {file.build_id for file in recording.files} | {recording.features.kernel_build_id}
    return frozenset(build_id for build_id in ids if build_id is not None)


def _end_with(chain: Sequence[int], leaf: int) -> tuple[int, ...]:
    # The last address of a chain is the sampled instruction. With precise sampling the sampled
    # address may differ, but is mostly in the same function.
    return tuple(chain) if chain and chain[-1] == leaf else (*chain, leaf)


def _place_distinct(mode: Integers, space: Integers, address: Addresses, namer: _Namer) -> Integers:
    # All arrays have the shape (addresses,).
    codes = np.zeros(len(mode), np.int64)
    is_kernel, is_user = mode == MODE_KERNEL, mode == MODE_USER
    distinct, which = np.unique(address[is_kernel], return_inverse=True)
    codes[is_kernel] = namer.kernel_codes(distinct)[which]
    distinct, which = np.unique(address[is_user], return_inverse=True)
    pairs, which = np.unique(which + space[is_user] * max(len(distinct), 1), return_inverse=True)
    spaces, addresses = np.divmod(pairs, max(len(distinct), 1))
    codes[is_user] = namer.user_codes(spaces, distinct[addresses])[which]
    for other_mode in np.unique(mode[~(is_kernel | is_user)]).tolist():
        codes[mode == other_mode] = namer.other_code(other_mode)
    return codes


@dataclass(frozen=True, slots=True)
class _Stacks:
    """Distinct pairs of a chain and the address space of its user addresses.

    :param words: addresses of all stacks, concatenated, innermost first, without markers
    :param mode: mode of each word
    :param space: address space of each word
    :param starts: stack i is ``words[starts[i]:starts[i + 1]]``; shape (stacks + 1,)
    :param of_row: the stack of each row of the samples, or ``NO_CHAIN``
    """

    words: Addresses
    mode: Integers
    space: Integers
    starts: Integers
    of_row: Integers


class _Pairs(NamedTuple):
    """Chain, space and mode of each distinct stack, shape (stacks,), and the stack of each row."""

    chain: Integers
    space: Integers
    mode: Integers
    of_row: Integers


def _distinct_stacks(recording: Recording) -> _Stacks:
    """Return the distinct stacks of all rows with a chain."""
    chains = recording.chains
    pairs = _distinct_pairs(recording)
    counts = np.diff(chains.starts)[pairs.chain]
    starts = _running_total(counts)
    stack = np.repeat(np.arange(len(counts)), counts)
    index = np.arange(starts[-1])
    words = chains.words[index - starts[stack] + chains.starts[pairs.chain][stack]]
    is_marker = words >= np.uint64(CONTEXT_MAX)
    # The last marker before a word gives its mode; before the first marker, the row does.
    marker = np.maximum.accumulate(np.where(is_marker, index, -1))
    marked = _modes_of(words)[np.maximum(marker, 0)] if len(words) else index
    mode = np.where(marker >= starts[stack], marked, pairs.mode[stack])
    kept = ~is_marker
    return _Stacks(
        words=words[kept],
        mode=mode[kept],
        space=pairs.space[stack][kept],
        starts=_running_total(np.bincount(stack[kept], minlength=len(counts))),
        of_row=pairs.of_row,
    )


def _distinct_pairs(recording: Recording) -> _Pairs:
    rows = recording.samples
    of_row = np.full(len(rows), NO_CHAIN, np.int64)
    chained = np.flatnonzero(rows.chain != NO_CHAIN)
    chain = rows.chain[chained]
    is_bare, has_user = _kinds(recording.chains)
    # Kernel addresses are the same in all spaces, so use one space for kernel stacks.
    space = np.where((is_bare | has_user)[chain], rows.space[chained], 0)
    mode = np.where(is_bare[chain], rows.mode[chained], MODE_UNKNOWN)
    keys = np.stack((chain, space, mode))
    order = np.lexsort(keys)
    ordered = keys[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    of_row[chained[order]] = np.cumsum(is_new) - 1
    chain, space, mode = ordered[:, is_new]
    return _Pairs(chain, space, mode, of_row)


def _kinds(chains: Chains) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    # Whether each chain begins without a marker, and whether it has user addresses.
    modes = _modes_of(chains.words)
    users = _running_total((modes == MODE_USER).astype(np.int64))
    has_user = users[chains.starts[1:]] > users[chains.starts[:-1]]
    is_empty = chains.starts[1:] == chains.starts[:-1]
    begins = np.append(chains.words, np.uint64(0))[chains.starts[:-1]]
    return ~is_empty & (begins < np.uint64(CONTEXT_MAX)), has_user


def _modes_of(words: Addresses) -> Integers:
    # The mode of each marker; MODE_UNKNOWN for other words.
    modes = np.full(len(words), MODE_UNKNOWN, np.int64)
    markers = np.flatnonzero(words >= np.uint64(CONTEXT_MAX))
    for context, mode in _MODE_OF_CONTEXT.items():
        modes[markers[words[markers] == np.uint64(context)]] = mode
    return modes


def _running_total(counts: Integers) -> Integers:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))


def _groups(keys: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each distinct key with its indices."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    bounds = np.flatnonzero(np.diff(ordered)) + 1
    if len(keys):
        firsts = ordered[np.concatenate(([0], bounds))].tolist()
        yield from zip(firsts, np.split(order, bounds), strict=True)


def _runtime_place(symbol: RuntimeSymbol) -> Place:
    return Place(symbol.name, BPF if symbol.kind == _KSYMBOL_BPF else KERNEL)


def dso_name(path: str) -> str:
    """Return the name of a mapped file, as perf shortens it."""
    generated = _JIT_MAP.fullmatch(path)
    return jit_of(generated[1]) if generated else path.rpartition("/")[2] or UNKNOWN


def _dso_of(symbol: Symbol) -> str:
    in_module = symbol.module and not symbol.module.startswith(_BUILTIN)
    return f"[{symbol.module}]" if in_module else KERNEL


def _unresolved(dso: str) -> Place:
    bracketed = dso if dso.startswith("[") else f"[{dso}]"
    return Place(f"{bracketed} unresolved", dso)


def _module_name(path: str) -> str:
    # /lib/modules/6.1.0/kernel/net/foo-bar.ko.xz is the module foo_bar.
    return path.rpartition("/")[2].partition(".ko")[0].strip("[]").replace("-", "_")
