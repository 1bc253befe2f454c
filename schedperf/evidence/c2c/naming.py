# SPDX-License-Identifier: GPL-2.0-or-later
"""Find what contains a byte: per-CPU variables, global variables, fields of them and of objects.

::

    variables = Variables(kernel, data_address=None)
    variables.percpu(0x2BA44).name                     # "runqueues.nr_running"
    variables.find_object(touched, written, 64)        # (("struct task_group", 0x100),)

The kernel's variables are found by address. The address of a slab object does not identify its
type, so objects are identified by the functions that access them, and the offsets of the accesses.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from schedperf.evidence.layout.heat import heat_table
from schedperf.evidence.layout.model import Entry, Kernel, Unit
from schedperf.inputs.kernel.renames import newest_function
from schedperf.inputs.symbols.functions import function_name

PERCPU, GLOBALS = "percpu", "globals"
# An object is recognised if functions that are known to access it at these offsets have at least
# this share of the line's contended samples, and no other object explains half as many.
LEAST_EXPLAINED, MOST_ELSEWHERE = 0.5, 0.5
# Bytes that one load or store of the kernel accesses; larger entries have members.
LARGEST_ACCESS = 8
# Alignment in bytes of structs that start at a line in every slab; no machine with memory samples
# has shorter lines.
LEAST_ALIGNMENT = 64

# Samples by offset in a line and by function.
Touched = Mapping[int, Mapping[str, int]]

_STRUCT = re.compile(r"((?:struct|union) \w+)((?:\[\d+\])*)")
_MODULE = re.compile(r" \[.*\]$")


class Named(Struct, frozen=True, kw_only=True):
    """A named byte.

    :param unit: "percpu", "globals", "struct task_group"
    :param name: variable and field in C notation: ``runqueues.cfs.avg.load_avg``
    :param start: first byte of the innermost named entry, from the unit's start; the byte itself if
        that entry is larger than one access and its members are unknown
    :param at: the byte itself, from the unit's start
    :param end: byte after that innermost entry, from the unit's start; None if it is larger than
        one access
    """

    unit: str
    name: str
    start: int
    at: int
    end: int | None


class Variables:
    """Finds the variable or field at an address or offset, in the layout of one kernel.

    :param data_address: run-time address of the unit "globals"; None if unknown: no global
        variable is named
    """

    def __init__(self, kernel: Kernel, data_address: int | None) -> None:
        self._units = kernel.units
        self._data_address = data_address
        self._starts: dict[str, list[int]] = {}

    def percpu(self, offset: int) -> Named | None:
        """Return the variable at an offset of the per-CPU section; None if unknown."""
        return self._find(PERCPU, offset)

    def at(self, address: int) -> Named | None:
        """Return the global variable at a kernel address; None if unknown."""
        if self._data_address is None:
            return None
        return self._find(GLOBALS, address - self._data_address)

    def field(self, unit: str, offset: int) -> Named | None:
        """Return the field at an offset of a struct; None if unknown.

        :param unit: name of the struct: "struct task_group"
        """
        entry = self._field(unit, offset)
        if entry is None:
            return None
        short = unit.removeprefix("struct ")
        return Named(
            unit=unit,
            name=f"{short}.{entry.name}",
            start=_start(entry, offset),
            at=offset,
            end=_end(entry),
        )

    def _find(self, unit_name: str, offset: int) -> Named | None:
        unit = self._units.get(unit_name)
        entry = None if unit is None else self._entry(unit, offset)
        if entry is None:
            return None
        inner, start, index = self._inside(unit_name, entry, offset - entry.offset)
        if inner is None:
            return Named(
                unit=unit_name,
                name=entry.name + index,
                start=_start(entry, offset),
                at=offset,
                end=_end(entry),
            )
        struct = entry.offset + start
        end = _end(inner)
        return Named(
            unit=unit_name,
            name=f"{entry.name}{index}.{inner.name}",
            start=struct + _start(inner, offset - struct),
            at=offset,
            end=None if end is None else struct + end,
        )

    def _entry(self, unit: Unit, offset: int) -> Entry | None:
        # In a table without sizes, each variable extends to the next one.
        starts = self._starts.get(unit.name)
        if starts is None:
            starts = self._starts[unit.name] = [entry.offset for entry in unit.entries]
        index = bisect_right(starts, offset) - 1
        if index < 0:
            return None
        entry = unit.entries[index]
        end = unit.size if entry.size is None else entry.offset + entry.size
        return entry if end is not None and offset < end else None

    def _inside(self, unit: str, entry: Entry, offset: int) -> tuple[Entry | None, int, str]:
        # The field at an offset of a variable, and the start of the struct that contains it; for an
        # array, of its element, with the index.
        type_name = entry.type or heat_table().embedded.get(unit, {}).get(entry.name, "")
        match = _STRUCT.fullmatch(type_name)
        struct = self._units.get(match[1]) if match else None
        if match is None or struct is None or not struct.size:
            return None, 0, ""
        number = offset // struct.size
        index = f"[{number}]" if match[2] else ""
        return self._field(match[1], offset % struct.size), number * struct.size, index

    def _field(self, unit_name: str, offset: int) -> Entry | None:
        # Fields of a union overlap: choose the one that begins last.
        unit = self._units.get(unit_name)
        covering = [
            entry
            for entry in (unit.entries if unit is not None else ())
            if entry.size is not None and entry.offset <= offset < entry.offset + entry.size
        ]
        return max(covering, key=lambda entry: entry.offset, default=None)

    def find_object(
        self, touched: Touched, written: Touched, line_bytes: int
    ) -> tuple[tuple[str, int], ...]:
        """Identify the struct of a line by the functions that access it.

        Candidates are structs that start at a cache line in every slab and are not the type of a
        per-CPU variable.

        :param touched: contended loads and writes, by offset in the line and by function
        :param written: the writes among them, which distinguish structs with the same readers
        :return: candidate structs, each with the offset of the line in it, best first; more than
            one if the line is ambiguous; empty if none explains :data:`LEAST_EXPLAINED` of the
            samples
        """
        scores = self._explained(touched, line_bytes)
        total = sum(sum(functions.values()) for functions in touched.values())
        if not total or max(scores.values(), default=0) < LEAST_EXPLAINED * total:
            return ()
        likely = _likely(scores)
        stores = self._explained(written, line_bytes)
        of_likely = {line: stores[line] for line in likely if stores.get(line)}
        return _likely(of_likely) if of_likely else likely

    def _explained(self, touched: Touched, line_bytes: int) -> Counter[tuple[str, int]]:
        # By struct and offset of the line in it: samples of functions that are known to access a
        # field that begins there.
        scores: Counter[tuple[str, int]] = Counter()
        for offset, functions in touched.items():
            for unit, start, users in self._used_fields:
                if start % line_bytes == offset:
                    samples = (count for name, count in functions.items() if plain(name) in users)
                    scores[unit, start - offset] += sum(samples)
        return scores

    @cached_property
    def _used_fields(self) -> list[tuple[str, int, frozenset[str]]]:
        # Unit, offset and functions of all fields with known users, in structs that start at a line
        # in every slab. For other structs the offset in the line is arbitrary.
        percpu = self._units.get(PERCPU)
        elsewhere = {
            *struct_names(percpu.entries if percpu is not None else ()),
            *heat_table().embedded.get(PERCPU, {}).values(),
        }
        fields = []
        for unit in self._units.values():
            is_object = unit.kind == "struct" and unit.name not in elsewhere
            if not is_object or (unit.alignment or 0) < LEAST_ALIGNMENT:
                continue
            for entry in unit.entries:
                users = users_of(unit.name, entry.name)
                if users:
                    fields.append((unit.name, entry.offset, users))
        return fields


def _start(entry: Entry, offset: int) -> int:
    return offset if _end(entry) is None else entry.offset


def _end(entry: Entry) -> int | None:
    is_whole = entry.size is not None and entry.size <= LARGEST_ACCESS
    return entry.offset + entry.size if is_whole and entry.size is not None else None


def _likely(scores: Mapping[tuple[str, int], int]) -> tuple[tuple[str, int], ...]:
    ranked = sorted(scores, key=lambda line: (-scores[line], line))
    least = MOST_ELSEWHERE * scores[ranked[0]]
    return tuple(line for line in ranked if scores[line] > least)


def is_known_user(unit: str, name: str, functions: Collection[str]) -> bool:
    """Return whether one of the functions is known to access a variable or field.

    :param unit: "percpu", "globals" or "struct NAME"
    :param name: name in the unit: ``runqueues.nr_running`` of "percpu"
    :param functions: as in samples: "symbol" or "symbol [module]"
    """
    return not users_of(unit, name).isdisjoint(map(plain, functions))


def users_of(unit: str, name: str) -> frozenset[str]:
    """Return the functions that are known to access a variable or field.

    They include callers of inlined functions, because samples are attributed to the callers.

    :param unit: "percpu", "globals" or "struct NAME"
    :param name: name in the unit: ``runqueues.nr_running`` of "percpu"
    :return: newest names; empty if the name is not in the table of hot variables
    """
    table = heat_table()
    use = table.find(unit, name)
    return frozenset() if use is None else table.sampled_names(use)


def plain(function: str) -> str:
    """Return a function's newest name, without its module and compiler suffixes.

    >>> plain("trigger_load_balance.isra.0")
    'sched_balance_trigger'
    """
    return newest_function(function_name(_MODULE.sub("", function)))


def struct_names(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return the struct and union types of variables, each once: ``struct rq``.

    Of an array, the type of its elements is returned.
    """
    matches = (_STRUCT.fullmatch(entry.type or "") for entry in entries)
    return tuple(dict.fromkeys(match[1] for match in matches if match))
