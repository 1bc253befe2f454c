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
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from schedperf.inputs.kernel.kallsyms import NO_SYMBOL, PAGE_BYTES, KernelSymbols, Symbol
from schedperf.inputs.kernel.user_symbols import FileSymbols
from schedperf.inputs.perf_data.recording import (
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
    KernelText,
    MappedFile,
    Recording,
    RuntimeSymbol,
    generated_code_of,
)
from schedperf.inputs.symbols._numbers import Numbered, Numbers
from schedperf.model.place import BPF, KERNEL, UNKNOWN, Place, code_of, jit_of

__all__ = ["BPF", "KERNEL", "Numbers", "Place", "Placed", "Symbols", "build_ids", "place_samples"]
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
# Number of call-chain words that are resolved at once; intermediate results fit in the CPU's cache.
_CHUNK_WORDS = 128 << 10
# Number of bits of a PERF_RECORD_MISC_* mode.
_MODE_BITS = 3
_UPPER_HALF = 1 << 63
# PERF_RECORD_KSYMBOL_TYPE_BPF; the other type is out-of-line code of ftrace and kprobes.
_KSYMBOL_BPF = 1
# kallsyms lists out-of-line code with a "module" too: __builtin__ftrace, __builtin__kprobes.
_BUILTIN = "__builtin__"
_KERNEL_MAPS = ("[kernel.kallsyms]", "[kernel]", "[guest.kernel.kallsyms")


class Symbols(Struct, frozen=True):
    """The symbols for resolving addresses.

    :param kernel: symbols of the recorded kernel, at run-time addresses; None if unknown
    :param of_file: returns the symbols of a user file, or None; called once per file
    """

    kernel: KernelSymbols | None
    of_file: Callable[[MappedFile], FileSymbols | None]


class _Namer:
    """The places of one recording, numbered in order of first use.

    The methods ``…_code`` and ``…_codes`` return these numbers.

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
        """Return the dso of the kernel, modules and files without a symbol table."""
        return frozenset(self._unnamed)

    def other_code(self, mode: int) -> int:
        """Return the place of all addresses of a mode other than kernel and user."""
        return self._code(_unresolved(_OTHER_MODES.get(mode, UNKNOWN)))

    def kernel_codes(self, addresses: Addresses) -> Integers:
        """Return the places of addresses sampled in kernel mode: kernel, modules, BPF programs."""
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
            if mapped is None:
                is_user = addresses[at] < _lowest_kernel_address(text)
                codes[at[is_user]] = self._code(_unresolved(UNKNOWN)) if is_user.any() else 0
                at = at[~is_user]
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
        """Return a mask of addresses that were in this module when recorded, shape (addresses,).

        A module that was reloaded, or loaded in another boot, has another address. Modules are
        aligned to pages and begin with a function. If perf recorded no modules, the table is
        trusted.
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


class Placed(Struct, frozen=True):
    """The places of a recording.

    :param places: the distinct places
    :param of_row: index into ``places`` of each row of ``recording.samples``, shape (rows,)
    :param stack_of_row: index of the stack of each row, or ``NO_CHAIN``; shape (rows,)
    :param stack_places: the places of all stacks, concatenated, innermost first
    :param stack_starts: stack i is ``stack_places[stack_starts[i]:stack_starts[i + 1]]``
    :param unnamed: dso of the kernel, modules and files that have addresses in samples or call
        chains, but no symbol table
    """

    places: tuple[Place, ...]
    of_row: Integers
    stack_of_row: Integers
    stack_places: Numbers
    stack_starts: Integers
    unnamed: frozenset[str]

    def frames(self, chain_rows: Integers) -> list[tuple[int, ...]]:
        """Return the call chain of each row as indices into ``places``, outermost first.

        The last place is the sampled one; a row without a chain has only this place.

        :param chain_rows: indices of rows of ``recording.samples``
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
            stack_places=np.zeros(0, np.int32),
            stack_starts=np.zeros(1, np.int64),
            unnamed=self.unnamed & {code_of(location).dso for location in places},
        )

    def without_unused(self) -> "Placed":
        """Return the same samples without stacks and places that none of them has."""
        has_row = np.zeros(len(self.stack_starts) - 1, np.bool_)
        of_chained = self.stack_of_row[self.stack_of_row != NO_CHAIN]
        has_row[of_chained] = True
        lengths = np.diff(self.stack_starts)
        frames = self.stack_places[np.repeat(has_row, lengths)]
        is_used = np.zeros(len(self.places), np.bool_)
        is_used[self.of_row] = True
        is_used[frames] = True
        number = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
        stack = np.append(np.cumsum(has_row) - 1, NO_CHAIN)
        places = tuple(p for p, flag in zip(self.places, is_used.tolist(), strict=True) if flag)
        return Placed(
            places=places,
            of_row=number[self.of_row].astype(np.int64),
            # The index of a row without a chain is -1, that of the appended value.
            stack_of_row=stack[self.stack_of_row],
            stack_places=number[frames],
            stack_starts=_running_total(lengths[has_row]),
            unnamed=self.unnamed & {code_of(location).dso for location in places},
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
    """Resolve all samples and all addresses of call chains to places.

    :param by_offset: build ids of files in which each unresolved address is a separate place,
        ``libc.so.6+0x28490``: an offset identifies code only if both sides have the same file. In
        all other files, all unresolved addresses are one place.
    """
    rows, numbered = recording.samples, Numbered()
    row_numbers = numbered.find(*_in_context(rows.mode, rows.space, rows.ip))
    stacks = _distinct_stacks(recording, numbered)
    namer = _Namer(recording, symbols, by_offset=by_offset)
    codes = _place_distinct(numbered, namer)
    for start in range(0, len(stacks.numbers), _CHUNK_WORDS):
        chunk = slice(start, start + _CHUNK_WORDS)
        stacks.numbers[chunk] = codes[stacks.numbers[chunk]]
    return Placed(
        places=namer.places,
        of_row=codes[row_numbers].astype(np.int64),
        stack_of_row=stacks.of_row,
        stack_places=stacks.numbers,
        stack_starts=stacks.starts,
        unnamed=namer.unnamed,
    )


def maps_modules(recording: Recording) -> bool:
    """Return whether perf recorded the address of at least one module."""
    return any(".ko" in file.path.rpartition("/")[2] for file in recording.files)


def build_ids(recording: Recording) -> frozenset[str]:
    """Return the recorded build ids of all mapped files and of the kernel."""
    ids = {file.build_id for file in recording.files} | {recording.features.kernel_build_id}
    return frozenset(build_id for build_id in ids if build_id is not None)


def _lowest_kernel_address(text: KernelText | None) -> np.uint64:
    """Return the lowest possible address of kernel code outside recorded mappings.

    The kernel occupies the upper half of the address space; on s390x and 32-bit machines, the
    addresses from its text on. Kernel instructions that access user memory can be sampled with user
    addresses.
    """
    return np.uint64(min(text.address if text and text.address else _UPPER_HALF, _UPPER_HALF))


def _end_with(chain: Sequence[int], leaf: int) -> tuple[int, ...]:
    # The last address of a chain is the sampled instruction. With precise sampling the sampled
    # address may differ, but is mostly in the same function.
    return tuple(chain) if chain and chain[-1] == leaf else (*chain, leaf)


def _in_context(mode: Integers, space: Integers, address: Addresses) -> tuple[Addresses, Integers]:
    """Return addresses, and their contexts (everything else that determines the place) as numbers.

    Only user addresses depend on the space. Only kernel and user addresses are resolved.
    """
    is_user = mode == MODE_USER
    is_resolved = is_user | (mode == MODE_KERNEL)
    if not is_resolved.all():
        address = np.where(is_resolved, address, np.uint64(0))
    return address, np.where(is_user, space << _MODE_BITS, 0) | mode


def _place_distinct(numbered: Numbered, namer: _Namer) -> Numbers:
    """Return the number of the place of each numbered address; shape (pairs,)."""
    codes = np.zeros(len(numbered.addresses), np.int32)
    order = np.lexsort((numbered.addresses, numbered.contexts))
    addresses, contexts = numbered.addresses[order], numbered.contexts[order]
    mode, space = contexts & ((1 << _MODE_BITS) - 1), contexts >> _MODE_BITS
    is_kernel, is_user = mode == MODE_KERNEL, mode == MODE_USER
    codes[order[is_kernel]] = namer.kernel_codes(addresses[is_kernel])
    codes[order[is_user]] = namer.user_codes(space[is_user], addresses[is_user])
    for other_mode in np.unique(mode[~(is_kernel | is_user)]).tolist():
        codes[order[mode == other_mode]] = namer.other_code(other_mode)
    return codes


class _Stacks(Struct, frozen=True):
    """Distinct stacks: call chains with the address space of their user addresses.

    :param numbers: address numbers of all stacks, concatenated, innermost first
    :param starts: stack i is ``numbers[starts[i]:starts[i + 1]]``; shape (stacks + 1,)
    :param of_row: the stack of each row of the samples, or ``NO_CHAIN``
    """

    numbers: Numbers
    starts: Integers
    of_row: Integers


class _Pairs(NamedTuple):
    """Chain, space and mode of each distinct stack, shape (stacks,), and the stack of each row.

    ``of_row`` is ``NO_CHAIN`` for a row without a chain; shape (rows,).
    """

    chain: Integers
    space: Integers
    mode: Integers
    of_row: Integers


def _distinct_stacks(recording: Recording, numbered: Numbered) -> _Stacks:
    """Return the distinct stacks of all rows with a chain."""
    pairs = _distinct_pairs(recording)
    ends = np.cumsum(np.diff(recording.chains.starts)[pairs.chain], dtype=np.int64)
    numbers = np.empty(int(ends[-1]) if len(ends) else 0, np.int32)
    lengths = np.zeros(len(ends), np.int64)
    first = filled = 0
    while first < len(ends):
        limit = (ends[first - 1] if first else 0) + _CHUNK_WORDS
        last = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        chunk = _Pairs(*(column[first:last] for column in pairs))
        addresses, contexts, lengths[first:last] = _addresses_of(recording.chains, chunk)
        numbers[filled : filled + len(addresses)] = numbered.find(addresses, contexts)
        filled += len(addresses)
        first = last
    return _Stacks(numbers[:filled], _running_total(lengths), pairs.of_row)


def _addresses_of(chains: Chains, pairs: _Pairs) -> tuple[Addresses, Integers, Integers]:
    """Return the addresses of some stacks without markers, their contexts, and the lengths."""
    words, starts = _words_of(chains, pairs.chain)
    # A mode extends from a marker to the next one; before the first marker it is the mode of the
    # row.
    markers = np.flatnonzero(words >= np.uint64(CONTEXT_MAX))
    bounds = np.unique(np.concatenate((starts[:-1], markers)))
    bounds = bounds[bounds < len(words)]
    stack = np.searchsorted(starts, bounds, side="right") - 1
    is_marker = words[bounds] >= np.uint64(CONTEXT_MAX)
    mode = np.where(is_marker, _modes_of(words[bounds]), pairs.mode[stack])
    _, context = _in_context(mode, pairs.space[stack], words[bounds])
    spans = np.diff(np.append(bounds, len(words)))
    contexts = np.repeat(context, spans)
    if not ((mode == MODE_KERNEL) | (mode == MODE_USER)).all():
        words, contexts = _in_context(np.repeat(mode, spans), contexts >> _MODE_BITS, words)
    kept = np.ones(len(words), np.bool_)
    kept[markers] = False
    marker_counts = np.bincount(stack[is_marker], minlength=len(pairs.chain))
    return words[kept], contexts[kept], np.diff(starts) - marker_counts


def _words_of(chains: Chains, chosen: Integers) -> tuple[Addresses, Integers]:
    """Return the words of some chains, concatenated, and the start of each."""
    counts = chains.starts[chosen + 1] - chains.starts[chosen]
    starts = _running_total(counts)
    if np.all(np.diff(chosen) == 1):
        return chains.words[chains.starts[chosen[0]] : chains.starts[chosen[-1] + 1]], starts
    index = np.arange(starts[-1]) + np.repeat(chains.starts[chosen] - starts[:-1], counts)
    return chains.words[index], starts


def _distinct_pairs(recording: Recording) -> _Pairs:
    rows = recording.samples
    of_row = np.full(len(rows), NO_CHAIN, np.int64)
    chained = np.flatnonzero(rows.chain != NO_CHAIN)
    chain = rows.chain[chained]
    is_bare, has_user = _kinds(recording.chains)
    # Kernel addresses are the same in all spaces, so use one space for kernel stacks.
    space = np.where((is_bare | has_user)[chain], rows.space[chained], 0)
    mode = np.where(is_bare[chain], rows.mode[chained], MODE_UNKNOWN)
    # In the order of the chains, so that words are read sequentially.
    keys = np.stack((mode, space, chain))
    order = np.lexsort(keys)
    ordered = keys[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    of_row[chained[order]] = np.cumsum(is_new) - 1
    mode, space, chain = ordered[:, is_new]
    return _Pairs(chain, space, mode, of_row)


def _kinds(chains: Chains) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    # For each chain: whether it begins without a marker, and whether it has user addresses.
    markers = np.flatnonzero(chains.words >= np.uint64(CONTEXT_MAX))
    users = markers[_modes_of(chains.words[markers]) == MODE_USER]
    has_user = np.zeros(len(chains), np.bool_)
    has_user[np.searchsorted(chains.starts, users, side="right") - 1] = True
    is_empty = chains.starts[1:] == chains.starts[:-1]
    begins = np.zeros(len(chains), np.uint64)
    begins[~is_empty] = chains.words[chains.starts[:-1][~is_empty]]
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
    """Return the short name of a mapped file, like perf's dso name.

    Return ``[JIT] tid PID`` for ``/tmp/perf-PID.map``, and ``[unknown]`` for an empty name.
    """
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
